package local

import (
	"errors"
	"os"

	"github.com/cockroachdb/pebble/v2/vfs"

	"redoubt/journal"
)

// journalFiles is the file system for the journal: the operating system's own,
// or Pebble's notion of another one, as tests give.
func journalFiles(fs vfs.FS) journal.FS {
	if fs == vfs.Default {
		return journal.OS
	}
	return journalFS{fs}
}

type journalFS struct{ vfs.FS }

func (f journalFS) Create(name string) (journal.File, error) {
	if err := f.FS.Remove(name); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	file, err := f.FS.Create(name, vfs.WriteCategoryUnspecified)
	if err != nil {
		return nil, err
	}
	// Some files are for writing only until they are opened again.
	if err := file.Close(); err != nil {
		return nil, err
	}
	return f.OpenForWrite(name)
}

func (f journalFS) OpenForWrite(name string) (journal.File, error) {
	file, err := f.FS.OpenReadWrite(name, vfs.WriteCategoryUnspecified)
	if err != nil {
		return nil, err
	}
	return journalFile{file}, nil
}

func (f journalFS) Open(name string) (journal.File, error) {
	file, err := f.FS.Open(name)
	if err != nil {
		return nil, err
	}
	return journalFile{file}, nil
}

func (f journalFS) MkdirAll(dir string) error { return f.FS.MkdirAll(dir, 0o700) }

func (f journalFS) SyncDir(dir string) error { return syncDir(f.FS, dir) }

type journalFile struct{ vfs.File }

func (f journalFile) Size() (int64, error) {
	info, err := f.File.Stat()
	if err != nil {
		return 0, err
	}
	return info.Size(), nil
}

// Truncate overwrites with zeros: Pebble's files cannot be cut.
func (f journalFile) Truncate(size int64) error {
	end, err := f.Size()
	for err == nil && size < end {
		zeros := make([]byte, min(end-size, 1<<20))
		_, err = f.WriteAt(zeros, size)
		size += int64(len(zeros))
	}
	return err
}

func (f journalFile) Allocate(size int64) error { return f.File.Preallocate(0, size) }
