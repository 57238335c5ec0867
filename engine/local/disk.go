package local

// The disk under Pebble.
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
//  3. What Pebble still writes is lost on purpose: bytes of the MANIFEST and its
//     like are swallowed, new files are made in memory (overlay). Thus what was
//     in flight ends, reads and Close work. The engine refuses further commits,
//     and no round is taken for done.
//  4. Compactions do not go on: they wait for Close, and are then refused.
//
// A failure on a table (SST) file freezes nothing: Pebble, or the next round,
// tries again with a new file; compactions are spaced by a growing pause.
//
// Files outside Pebble's directory (rounds that are being built, checkpoints)
// pass through untouched.

import (
	"errors"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// errFrozen is what Pebble's background work gets from a frozen disk.
var errFrozen = errors.New("the store has failed and its files are left alone")

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

// Pauses between tries to write a table after one failed.
const (
	minPause = 20 * time.Millisecond
	maxPause = time.Second
)

// diskFS is the vfs.FS that Pebble is given.
type diskFS struct {
	vfs.FS
	dir     string
	opening atomic.Bool
	frozen  func() bool
	fail    func(op, path string, err error) // records the failure, which freezes
	closing chan struct{}
	overlay *vfs.MemFS
	hurry   hurriers

	tableErr atomic.Pointer[error] // the last table could not be written; nil after one could

	mu    sync.Mutex
	pause time.Duration // before the next try to write a table
}

func newDiskFS(fs vfs.FS, dir string, frozen func() bool, fail func(op, path string, err error)) (*diskFS, error) {
	d := &diskFS{
		FS: fs, dir: dir, frozen: frozen, fail: fail,
		closing: make(chan struct{}), overlay: vfs.NewMem(),
	}
	d.hurry.read = readCached
	// Other file systems are not the system's, and their files no real ones.
	d.hurry.never.Store(!canHurry || fs != vfs.Default)
	return d, d.overlay.MkdirAll(dir, 0o700)
}

func (d *diskFS) Unwrap() vfs.FS { return d.FS }

// frozenErr is an error once the disk is frozen: what Pebble reports as done may
// then be lost.
func (d *diskFS) frozenErr() error {
	if d.frozen() {
		return errFrozen
	}
	return nil
}

// ours says whether a path is a file of the store itself.
func (d *diskFS) ours(name string) bool { return d.PathDir(name) == d.dir }

// tableFailed notes that a table could not be written, or, if err is nil, that
// one could.
func (d *diskFS) tableFailed(name string, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err == nil {
		d.pause = 0
		d.tableErr.Store(nil)
	} else {
		d.pause = min(max(2*d.pause, minPause), maxPause)
		d.tableErr.Store(&err)
	}
}

// awaitRetry pauses before another try to write a table.
func (d *diskFS) awaitRetry() {
	d.mu.Lock()
	pause := d.pause
	d.mu.Unlock()
	if pause > 0 {
		select {
		case <-time.After(pause):
		case <-d.closing:
		}
	}
}

func (d *diskFS) Create(name string, category vfs.DiskWriteCategory) (vfs.File, error) {
	if !d.ours(name) {
		return d.FS.Create(name, category)
	}
	kind := kindOf(d.PathBase(name))
	compaction := kind == tableFile && category == "pebble-compaction"
	if kind == tableFile {
		d.awaitRetry()
	}
	if d.frozen() {
		if compaction {
			if !d.opening.Load() { // opening waits for those that run
				<-d.closing
			}
			return nil, errFrozen
		}
		return d.overlay.Create(name, category)
	}
	var f vfs.File
	var err error
	if strings.HasPrefix(d.PathBase(name), "marker.") {
		// The marker names a new MANIFEST. Pebble syncs the directory after
		// both are made; a file system that reorders the two names would leave
		// a marker of a file that does not exist.
		err = syncDir(d.FS, d.dir)
	}
	if err == nil {
		f, err = d.FS.Create(name, category)
	}
	return d.created(f, kind, name, err)
}

// created wraps a file just made, or deals with the failure to make it.
func (d *diskFS) created(f vfs.File, kind fileKind, name string, err error) (vfs.File, error) {
	switch {
	case err != nil && kind == tableFile:
		d.tableFailed(name, err)
		return nil, err
	case err != nil:
		d.fail("creating", name, err)
		return d.overlay.Create(name, vfs.WriteCategoryUnspecified)
	case kind == tableFile:
		return &table{File: f, d: d, name: name}, nil
	}
	return &meta{File: f, d: d, name: name}, nil
}

func (d *diskFS) ReuseForWrite(oldname, newname string, category vfs.DiskWriteCategory) (vfs.File, error) {
	if d.frozen() {
		return d.overlay.Create(newname, category)
	}
	f, err := d.FS.ReuseForWrite(oldname, newname, category)
	return d.created(f, kindOf(d.PathBase(newname)), newname, err)
}

// inOverlay says whether a file was made after the disk was frozen.
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
		f = &readFile{File: f, h: &d.hurry}
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
		if err := d.FS.Rename(oldname, newname); err != nil {
			d.fail("renaming", oldname, err)
		}
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
	if _, err := f.File.Write(p); err != nil {
		f.d.fail("writing", f.name, err)
	}
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
	name string
	torn bool // a write failed; Pebble may sync the file all the same
}

func (f *table) Write(p []byte) (int, error) {
	if f.d.frozen() {
		return 0, errFrozen
	}
	n, err := f.File.Write(p)
	if err != nil {
		f.torn = true
		f.d.tableFailed(f.name, err)
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
		f.d.tableFailed(f.name, err)
	}
	return err
}
