package local

import (
	"github.com/cockroachdb/pebble/v2/vfs"

	"redoubt/journal"
)

// tableFiles is the file system for Pebble and for rounds.
func (e *Engine) tableFiles(fs vfs.FS) vfs.FS {
	v, store, rounds := e.volumes[0], fs.PathJoin(e.dir, storeDir), fs.PathJoin(e.dir, roundsDir)
	return &roomFS{fs, func(name string, err error) bool {
		if dir := fs.PathDir(name); dir != store && dir != rounds {
			return false // a checkpoint, on whatever disk
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
	return &roomJournal{journalFiles(fs), func(_ string, err error) bool {
		leave := leftByJournal
		if !e.ready.Load() {
			leave = leftByMeta // opening
		}
		_ = e.noRoom(v, err)
		return v.reserve.giveUp(leave)
	}, func(err error) { _ = e.noRoom(v, err) }}
}

// roomFS is a file system that takes from a reserve when it is full: a change that fails
// for want of space is tried again for each file of the reserve that it may have.
type roomFS struct {
	vfs.FS
	// again is told of each such failure of a file, and says whether to try again.
	again func(name string, err error) bool
}

// try calls a change until it works, or must not be tried again.
func (r *roomFS) try(name string, change func() error) error {
	for {
		err := change()
		if err == nil || !isFull(err) || !r.again(name, err) {
			return err
		}
	}
}

func (r *roomFS) Unwrap() vfs.FS { return r.FS }

func (r *roomFS) Create(name string, c vfs.DiskWriteCategory) (f vfs.File, err error) {
	err = r.try(name, func() error { f, err = r.FS.Create(name, c); return err })
	if err != nil {
		return nil, err
	}
	return &roomFile{f, r, name}, nil
}

func (r *roomFS) ReuseForWrite(old, name string, c vfs.DiskWriteCategory) (f vfs.File, err error) {
	err = r.try(name, func() error { f, err = r.FS.ReuseForWrite(old, name, c); return err })
	if err != nil {
		return nil, err
	}
	return &roomFile{f, r, name}, nil
}

func (r *roomFS) Link(old, name string) error {
	return r.try(name, func() error { return r.FS.Link(old, name) })
}

func (r *roomFS) Rename(old, name string) error {
	return r.try(name, func() error { return r.FS.Rename(old, name) })
}

// roomFile is a file that is written.
type roomFile struct {
	vfs.File
	fs   *roomFS
	name string
}

func (f *roomFile) Write(p []byte) (n int, err error) {
	err = f.fs.try(f.name, func() error {
		done, err := f.File.Write(p[n:])
		n += done
		return err
	})
	return n, err
}

// roomJournal is roomFS for the files of the journal.
type roomJournal struct {
	journal.FS
	again func(name string, err error) bool
	// full is told that there is no space for the next segment.
	full func(err error)
}

func (r *roomJournal) Create(name string) (journal.File, error) {
	for {
		f, err := r.FS.Create(name)
		if err == nil {
			return &roomSegment{f, r, name}, nil
		}
		if !isFull(err) || !r.again(name, err) {
			return nil, err
		}
	}
}

// roomSegment is a segment that is written.
type roomSegment struct {
	journal.File
	fs   *roomJournal
	name string
}

func (f *roomSegment) WriteAt(p []byte, at int64) (n int, err error) {
	for {
		done, err := f.File.WriteAt(p[n:], at+int64(n))
		n += done
		if err == nil || !isFull(err) || !f.fs.again(f.name, err) {
			return n, err
		}
	}
}

// Allocate takes nothing from the reserve: the journal goes on without a segment in
// advance.
func (f *roomSegment) Allocate(size int64) error {
	err := f.File.Allocate(size)
	if err != nil && isFull(err) {
		f.fs.full(err)
	}
	return err
}
