package local

// diskFS is the file system under Pebble, and handles its failures.
//
// Pebble treats a failed write of its MANIFEST as the end of the process: it
// calls Logger.Fatalf, and where that returns it panics with a mutex held, or, in
// the middle of opening, leaves goroutines behind that panic later. A database
// that can still answer reads should not die, so Pebble never sees such an
// error. diskFS sees it first, and then:
//
//  1. The engine's failure is recorded (first one wins) before the call that
//     failed returns. From then on the disk is frozen.
//  2. A frozen disk is never changed again: nothing is written, synced, renamed
//     or removed. So the files stay as they were at the failure, and a restart
//     finds the last round that was whole, and the journal from there on. In
//     particular no later fsync is attempted, whose success would prove nothing
//     about the pages that the failed one dropped.
//  3. What Pebble still writes is lost on purpose: writes to the MANIFEST and similar
//     files are discarded, new files are made in memory (overlay). Thus operations
//     in flight end, reads and Close work. The engine refuses further commits,
//     and no round counts as done.
//  4. Compactions do not go on: they wait for Close, and then fail.
//
// Two kinds of failures freeze nothing:
//   - A full disk (volume.go): a change of a MANIFEST or a similar file is retried until
//     there is room. Pebble does not hold its mutex then, so only the round or the
//     compaction that the change belongs to waits. If Close comes first the disk is
//     abandoned: it is frozen, but nothing has failed, since the journal has all. An
//     fsync that fails is final, whatever the reason.
//   - A failed write of a table (SST) file: Pebble, or the next round, retries with a new
//     file; compactions are spaced by a growing pause.
//
// Files outside Pebble's directory (rounds that are being built, checkpoints)
// pass through untouched.

import (
	"errors"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	lsm "github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
)

// errFrozen is the error of Pebble's background work on a frozen disk.
var errFrozen = errors.New("the store has failed and its files are left alone")

// noSpace is the error of a compaction that finds no space, or whose pause was ended. Pebble
// treats the compaction as canceled and picks again among all tables. After another error
// it would avoid the keys for half a minute, and compact within L0 instead.
type noSpace struct{ error }

func (n noSpace) Unwrap() error        { return n.error }
func (n noSpace) Is(target error) bool { return target == lsm.ErrCancelledCompaction }

// canceled converts an error of a compaction for Pebble: a full disk becomes noSpace.
func canceled(err error) error {
	if isFull(err) {
		return noSpace{err}
	}
	return err
}

type fileKind int

const (
	metaFile  fileKind = iota // MANIFEST-NNNNNN, the markers of the current one, OPTIONS
	tableFile                 // NNNNNN.sst
)

func kindOf(base string) fileKind {
	if strings.HasSuffix(base, ".sst") {
		return tableFile
	}
	return metaFile
}

// The retry delay after a table could not be written, and its maximum while the disk is
// full (idlePause): only a round with tombstones changes that, and it ends the pause.
const (
	minPause  = 20 * time.Millisecond
	maxPause  = time.Second
	idlePause = 15 * time.Second
)

// metaPause is the retry delay of a change of another file on a full disk.
const metaPause = 100 * time.Millisecond

// diskFS is the vfs.FS of Pebble's directory.
type diskFS struct {
	vfs.FS
	dir     string
	opening atomic.Bool
	failed  func() bool
	fail    func(op, path string, err error) // records the failure, which freezes the disk
	full    func() bool                      // reports whether the disk is full
	closing chan struct{}
	overlay *vfs.MemFS
	noWait  noWaitThreads

	tableErr  atomic.Pointer[error] // why the last table could not be written; nil after a success
	waiting   atomic.Int32          // changes that wait for space
	abandoned atomic.Bool           // Close came before there was space

	mu    sync.Mutex
	pause time.Duration // after the last failure to write a table
	paced bool          // awaitRetry has made the pause
	retry chan struct{} // closed to end a pause
}

func newDiskFS(fs vfs.FS, dir string, failed func() bool, fail func(op, path string, err error)) (*diskFS, error) {
	d := &diskFS{
		FS: fs, dir: dir, failed: failed, fail: fail, full: func() bool { return false },
		closing: make(chan struct{}), overlay: vfs.NewMem(), paced: true, retry: make(chan struct{}),
	}
	d.noWait.read = readCached
	return d, d.overlay.MkdirAll(dir, 0o700)
}

func (d *diskFS) Unwrap() vfs.FS { return d.FS }

// frozen reports whether the disk must not be changed any more.
func (d *diskFS) frozen() bool { return d.failed() || d.abandoned.Load() }

// frozenErr returns an error once the disk is frozen: Pebble may then report writes as
// done that are lost.
func (d *diskFS) frozenErr() error {
	if d.frozen() {
		return errFrozen
	}
	return nil
}

// ours reports whether a path is a file in Pebble's directory.
func (d *diskFS) ours(name string) bool { return d.PathDir(name) == d.dir }

// tableFailed notes that a table could not be written, or was written if err is nil.
func (d *diskFS) tableFailed(err error) {
	full := d.full()
	d.mu.Lock()
	defer d.mu.Unlock()
	if err == nil {
		if !full { // else a compaction writes some tables before it fails
			d.pause = 0
			d.tableErr.Store(nil)
		}
		return
	}
	longest := maxPause
	if full {
		longest = idlePause
	}
	d.pause, d.paced = min(max(2*d.pause, minPause), longest), false
	d.tableErr.Store(&err)
}

// awaitRetry makes the pause before another try to write a table. It returns false if
// retryNow has ended the pause: the compaction must then be picked anew.
func (d *diskFS) awaitRetry() bool {
	d.mu.Lock()
	pause, paced, retry := d.pause, d.paced, d.retry
	d.paced = true
	d.mu.Unlock()
	if !paced {
		select {
		case <-time.After(pause):
		case <-retry:
			return false
		case <-d.closing:
		}
	}
	return true
}

// retryNow ends a pause, since the next try may succeed.
func (d *diskFS) retryNow() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.pause = 0
	close(d.retry)
	d.retry = make(chan struct{})
	if !d.full() {
		d.tableErr.Store(nil)
	}
}

// change makes a change of a file that is not a table, and retries it while the disk is
// full. If the change fails for another reason, or Close comes, the disk is frozen.
func (d *diskFS) change(op, name string, change func() error) {
	err := change()
	if err == nil {
		return
	}
	d.waiting.Add(1)
	defer d.waiting.Add(-1)
	for ; err != nil; err = change() {
		if !isFull(err) || d.opening.Load() { // Open must not wait
			d.fail(op, name, err)
			return
		}
		select {
		case <-time.After(metaPause):
		case <-d.closing:
			d.abandoned.Store(true)
		}
		if d.frozen() {
			d.abandoned.Store(true)
			return
		}
	}
}

func (d *diskFS) Create(name string, category vfs.DiskWriteCategory) (vfs.File, error) {
	if !d.ours(name) {
		return d.FS.Create(name, category)
	}
	kind := kindOf(d.PathBase(name))
	compaction := kind == tableFile && category == "pebble-compaction"
	if kind == tableFile && !d.awaitRetry() {
		return nil, noSpace{syscall.ENOSPC}
	}
	if d.frozen() {
		if compaction {
			if !d.opening.Load() { // opening waits for running compactions
				<-d.closing
			}
			return nil, errFrozen
		}
		return d.overlay.Create(name, category)
	}
	if kind == tableFile {
		f, err := d.FS.Create(name, category)
		if err != nil {
			d.tableFailed(err)
			return nil, canceled(err)
		}
		return &table{File: f, d: d}, nil
	}
	return d.create(name, func() (vfs.File, error) {
		if strings.HasPrefix(d.PathBase(name), "marker.") {
			// The marker names a new MANIFEST. Pebble syncs the directory only after
			// both are made; a file system that reorders the two could leave a marker
			// that names no file.
			if err := syncDir(d.FS, d.dir); err != nil {
				return nil, err
			}
		}
		return d.FS.Create(name, category)
	})
}

// create makes a file that is not a table.
func (d *diskFS) create(name string, create func() (vfs.File, error)) (vfs.File, error) {
	var f vfs.File
	d.change("creating", name, func() (err error) { f, err = create(); return err })
	if f == nil {
		return d.overlay.Create(name, vfs.WriteCategoryUnspecified)
	}
	return &meta{File: f, d: d, name: name}, nil
}

func (d *diskFS) ReuseForWrite(oldname, newname string, category vfs.DiskWriteCategory) (vfs.File, error) {
	if d.frozen() {
		return d.overlay.Create(newname, category)
	}
	return d.create(newname, func() (vfs.File, error) { return d.FS.ReuseForWrite(oldname, newname, category) })
}

// inOverlay reports whether a file was made after the disk was frozen.
func (d *diskFS) inOverlay(name string) bool {
	if !d.frozen() {
		return false
	}
	_, err := d.overlay.Stat(name)
	return err == nil && d.ours(name)
}

func (d *diskFS) Open(name string, opts ...vfs.OpenOption) (vfs.File, error) {
	if d.inOverlay(name) {
		return d.overlay.Open(name, opts...)
	}
	f, err := d.FS.Open(name, opts...)
	if err == nil && kindOf(d.PathBase(name)) == tableFile {
		f = &readFile{File: f, h: &d.noWait}
	}
	return f, err
}

func (d *diskFS) Stat(name string) (vfs.FileInfo, error) {
	if d.inOverlay(name) {
		return d.overlay.Stat(name)
	}
	return d.FS.Stat(name)
}

func (d *diskFS) OpenDir(name string) (vfs.File, error) {
	f, err := d.FS.OpenDir(name)
	if err == nil && name == d.dir {
		return &meta{File: f, d: d, name: name}, nil
	}
	return f, err
}

func (d *diskFS) Remove(name string) error {
	if !d.frozen() {
		return d.FS.Remove(name)
	}
	if err := d.overlay.Remove(name); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}

func (d *diskFS) RemoveAll(name string) error {
	if d.frozen() && d.ours(name) {
		return nil
	}
	return d.FS.RemoveAll(name)
}

func (d *diskFS) Rename(oldname, newname string) error {
	if !d.ours(newname) {
		return d.FS.Rename(oldname, newname)
	}
	if d.inOverlay(oldname) {
		return d.overlay.Rename(oldname, newname)
	}
	if !d.frozen() {
		d.change("renaming", oldname, func() error { return d.FS.Rename(oldname, newname) })
	}
	return nil
}

func (d *diskFS) Link(oldname, newname string) error {
	if d.frozen() {
		return errFrozen
	}
	return d.FS.Link(oldname, newname)
}

// meta is a MANIFEST or another small file, or the directory itself.
type meta struct {
	vfs.File
	d    *diskFS
	name string
}

func (f *meta) Write(p []byte) (int, error) {
	if f.d.frozen() {
		return len(p), nil
	}
	rest := p
	f.d.change("writing", f.name, func() error {
		n, err := f.File.Write(rest)
		rest = rest[n:]
		return err
	})
	return len(p), nil
}

func (f *meta) Sync() error {
	if f.d.frozen() {
		return nil
	}
	if err := f.File.Sync(); err != nil {
		f.d.fail("syncing", f.name, err)
	}
	return nil
}

func (f *meta) SyncData() error { return f.Sync() }

func (f *meta) SyncTo(int64) (bool, error) { return true, f.Sync() }

// table is an SST that a flush or a compaction writes.
type table struct {
	vfs.File
	d    *diskFS
	torn bool // a write failed; Pebble may still sync the file
}

func (f *table) Write(p []byte) (int, error) {
	if f.d.frozen() {
		return 0, errFrozen
	}
	n, err := f.File.Write(p)
	if err != nil {
		f.torn = true
		f.d.tableFailed(err)
		err = canceled(err)
	}
	return n, err
}

func (f *table) Sync() error     { return f.sync(f.File.Sync) }
func (f *table) SyncData() error { return f.sync(f.File.SyncData) }

func (f *table) sync(sync func() error) error {
	if f.d.frozen() {
		return errFrozen
	}
	err := sync()
	if err != nil || !f.torn {
		f.d.tableFailed(err)
	}
	return err
}
