package local

import (
	"github.com/cockroachdb/pebble/v2/vfs"

	"redoubt/journal"
)

// tableFiles is the file system for Pebble and for rounds.
func (e *Engine) tableFiles(fs vfs.FS) vfs.FS {
	v, store, rounds := e.volumes[0], fs.PathJoin(e.dir, storeDir), fs.PathJoin(e.dir, roundsDir)
	return &reserveFS{fs, func(name string, err error) bool {
		if dir := fs.PathDir(name); dir != store && dir != rounds {
			return false // a checkpoint, perhaps on another disk
		}
		leave := leftByTables
		if kindOf(fs.PathBase(name)) == metaFile {
			leave = leftByMeta
		}
		_ = e.noRoom(v, err)
		return v.reserve.giveUp(leave)
	}}
}

// segmentFiles is the file system for the journal of an open store.
func (e *Engine) segmentFiles(fs vfs.FS) journal.FS {
	v := e.volumes[len(e.volumes)-1]
	return &reserveJournal{JournalFiles(fs), func(_ string, err error) bool {
		leave := leftByJournal
		if !e.ready.Load() {
			leave = leftByMeta // opening
		}
		_ = e.noRoom(v, err)
		return v.reserve.giveUp(leave)
	}, func(err error) { _ = e.noRoom(v, err) }}
}

// reserveFS is a file system with a reserve: a change that fails for want of space is tried
// again for each file of the reserve that may be removed for it.
type reserveFS struct {
	vfs.FS
	// again is called after each such failure, and reports whether to retry.
	again func(name string, err error) bool
}

// try calls change until it succeeds or must not be retried.
func (r *reserveFS) try(name string, change func() error) error {
	for {
		err := change()
		if err == nil || !isFull(err) || !r.again(name, err) {
			return err
		}
	}
}

func (r *reserveFS) Unwrap() vfs.FS { return r.FS }

func (r *reserveFS) Create(name string, c vfs.DiskWriteCategory) (f vfs.File, err error) {
	err = r.try(name, func() error { f, err = r.FS.Create(name, c); return err })
	if err != nil {
		return nil, err
	}
	return &reserveFile{f, r, name}, nil
}

func (r *reserveFS) ReuseForWrite(old, name string, c vfs.DiskWriteCategory) (f vfs.File, err error) {
	err = r.try(name, func() error { f, err = r.FS.ReuseForWrite(old, name, c); return err })
	if err != nil {
		return nil, err
	}
	return &reserveFile{f, r, name}, nil
}

func (r *reserveFS) Link(old, name string) error {
	return r.try(name, func() error { return r.FS.Link(old, name) })
}

func (r *reserveFS) Rename(old, name string) error {
	return r.try(name, func() error { return r.FS.Rename(old, name) })
}

// reserveFile is a file open for writing on a reserveFS.
type reserveFile struct {
	vfs.File
	fs   *reserveFS
	name string
}

func (f *reserveFile) Write(p []byte) (n int, err error) {
	err = f.fs.try(f.name, func() error {
		done, err := f.File.Write(p[n:])
		n += done
		return err
	})
	return n, err
}

// reserveJournal is reserveFS for the files of the journal.
type reserveJournal struct {
	journal.FS
	again func(name string, err error) bool
	// full is called when there is no space for the next segment.
	full func(err error)
}

func (r *reserveJournal) Create(name string) (journal.File, error) {
	for {
		f, err := r.FS.Create(name)
		if err == nil {
			return &reserveSegment{f, r, name}, nil
		}
		if !isFull(err) || !r.again(name, err) {
			return nil, err
		}
	}
}

// reserveSegment is a journal segment open for writing.
type reserveSegment struct {
	journal.File
	fs   *reserveJournal
	name string
}

func (f *reserveSegment) WriteAt(p []byte, at int64) (n int, err error) {
	for {
		done, err := f.File.WriteAt(p[n:], at+int64(n))
		n += done
		if err == nil || !isFull(err) || !f.fs.again(f.name, err) {
			return n, err
		}
	}
}

// Allocate takes nothing from the reserve: the journal can go on without a segment that
// is allocated ahead.
func (f *reserveSegment) Allocate(size int64) error {
	err := f.File.Allocate(size)
	if err != nil && isFull(err) {
		f.fs.full(err)
	}
	return err
}
