package journal

import (
	"io"
	"os"
)

// FS is what the journal asks of a file system. Names are paths as
// path/filepath joins them.
type FS interface {
	// Create makes a new, empty file for reading and writing. An older file of
	// that name loses it, but is left as it is to whoever holds it open or has
	// a link to it: a checkpoint may share it.
	Create(name string) (File, error)
	// OpenForWrite opens a file that exists for reading and writing.
	OpenForWrite(name string) (File, error)
	// Open opens a file that exists for reading.
	Open(name string) (File, error)
	// List returns the names inside of dir, in any order.
	List(dir string) ([]string, error)
	Remove(name string) error
	Rename(oldName, newName string) error
	Link(oldName, newName string) error
	MkdirAll(dir string) error
	// SyncDir makes the names inside of dir durable.
	SyncDir(dir string) error
}

// File is an open file. One goroutine writes at a time; Sync may run beside it.
type File interface {
	io.ReaderAt
	io.WriterAt
	io.Closer
	Size() (int64, error)
	// Sync makes durable what was written, and what is needed to read it back.
	Sync() error
	// Truncate removes everything from size on: it is gone, or reads as zeros.
	Truncate(size int64) error
	// Allocate asks for space up to size, which reads as zeros. It may do
	// nothing; it fails if there is no such space.
	Allocate(size int64) error
}

// OS is the file system of the operating system.
var OS FS = osFS{}

type osFS struct{}

func (osFS) Create(name string) (File, error) {
	if err := os.Remove(name); err != nil && !os.IsNotExist(err) {
		return nil, err
	}
	return wrap(os.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600))
}

func (osFS) OpenForWrite(name string) (File, error) { return wrap(os.OpenFile(name, os.O_RDWR, 0)) }
func (osFS) Open(name string) (File, error)         { return wrap(os.Open(name)) }
func (osFS) Remove(name string) error               { return os.Remove(name) }
func (osFS) Rename(oldName, newName string) error   { return os.Rename(oldName, newName) }
func (osFS) Link(oldName, newName string) error     { return os.Link(oldName, newName) }
func (osFS) MkdirAll(dir string) error              { return os.MkdirAll(dir, 0o700) }

func (osFS) List(dir string) ([]string, error) {
	d, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	defer d.Close()
	return d.Readdirnames(-1)
}

func (osFS) SyncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	return d.Sync()
}

type osFile struct{ *os.File }

func wrap(f *os.File, err error) (File, error) {
	if err != nil {
		return nil, err
	}
	return osFile{f}, nil
}

func (f osFile) Size() (int64, error) {
	st, err := f.Stat()
	if err != nil {
		return 0, err
	}
	return st.Size(), nil
}
