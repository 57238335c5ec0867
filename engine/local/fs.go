package local

import (
	"errors"
	"os"

	"github.com/cockroachdb/pebble/v2/vfs"

	"redoubt/journal"
)

// JournalFiles is the file system for the journal: the operating system's own, or an
// adapter of another vfs.FS, which tests use.
func JournalFiles(fs vfs.FS) journal.FS {
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
	// Some vfs.FS return a write-only file: open it again.
	if err := file.Close(); err != nil {
		return nil, err
	}
	return f.OpenForWrite(name)
}

func (f journalFS) OpenForWrite(name string) (journal.File, error) {
	if _, err := f.FS.Stat(name); err != nil { // OpenReadWrite would create the file
		return nil, err
	}
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

// Truncate overwrites the tail with zeros: a vfs.File cannot be truncated.
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
