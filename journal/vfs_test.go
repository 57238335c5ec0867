package journal

import (
	"errors"
	"sync"
	"sync/atomic"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// pebbleFS lets a journal use one of Pebble's file systems: the crashable one
// in memory, that is.
type pebbleFS struct{ vfs.FS }

func (p pebbleFS) Create(name string) (File, error) {
	return pebbleWrap(p.FS.Create(name, vfs.WriteCategoryUnspecified))
}

func (p pebbleFS) OpenForWrite(name string) (File, error) {
	return pebbleWrap(p.FS.OpenReadWrite(name, vfs.WriteCategoryUnspecified))
}

func (p pebbleFS) Open(name string) (File, error) { return pebbleWrap(p.FS.Open(name)) }
func (p pebbleFS) MkdirAll(dir string) error      { return p.FS.MkdirAll(dir, 0o755) }

func (p pebbleFS) SyncDir(dir string) error {
	d, err := p.FS.OpenDir(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

type pebbleFile struct{ vfs.File }

func pebbleWrap(f vfs.File, err error) (File, error) {
	if err != nil {
		return nil, err
	}
	return pebbleFile{f}, nil
}

func (f pebbleFile) Sync() error { return f.File.SyncData() }

func (f pebbleFile) Size() (int64, error) {
	st, err := f.Stat()
	if err != nil {
		return 0, err
	}
	return st.Size(), nil
}

// Truncate writes zeros, since files in memory cannot be shortened.
func (f pebbleFile) Truncate(size int64) error { return f.zero(size, 0) }

// Allocate writes zeros, too, unless they are too many to be worth it.
func (f pebbleFile) Allocate(size int64) error {
	have, err := f.Size()
	if err != nil || size > 1<<20 {
		return err
	}
	return f.zero(have, size)
}

func (f pebbleFile) zero(from, to int64) error {
	have, err := f.Size()
	if to = max(to, have); err != nil || to <= from {
		return err
	}
	_, err = f.WriteAt(make([]byte, to-from), from)
	return err
}

// An op is one call that a journal makes of its file system.
type op struct {
	kind string // create, openrw, open, remove, rename, link, syncdir, write, sync, truncate, allocate, read
	name string
}

func (o op) changes() bool { return o.kind != "open" && o.kind != "read" && o.kind != "openrw" }

// hookFS asks a hook before each operation. An error of the hook becomes that
// of the operation, of which nothing is done; but a short write is done in part.
type hookFS struct {
	FS
	mu     sync.Mutex
	hook   func(op) error
	opened atomic.Int64 // files that are open
}

// short is the error of a write of which only n bytes are done.
type short struct {
	n   int
	err error
}

func (s short) Error() string { return s.err.Error() }
func (s short) Unwrap() error { return s.err }

func (h *hookFS) set(hook func(op) error) {
	h.mu.Lock()
	h.hook = hook
	h.mu.Unlock()
}

func (h *hookFS) ask(kind, name string) error {
	h.mu.Lock()
	hook := h.hook
	h.mu.Unlock()
	if hook == nil {
		return nil
	}
	return hook(op{kind, name})
}

func (h *hookFS) file(kind, name string, open func(string) (File, error)) (File, error) {
	if err := h.ask(kind, name); err != nil {
		return nil, err
	}
	f, err := open(name)
	if err != nil {
		return nil, err
	}
	h.opened.Add(1)
	return &hookFile{f, name, h}, nil
}

func (h *hookFS) Create(name string) (File, error) { return h.file("create", name, h.FS.Create) }
func (h *hookFS) OpenForWrite(name string) (File, error) {
	return h.file("openrw", name, h.FS.OpenForWrite)
}
func (h *hookFS) Open(name string) (File, error) { return h.file("open", name, h.FS.Open) }

func (h *hookFS) Remove(name string) error {
	return h.do("remove", name, func() error { return h.FS.Remove(name) })
}
func (h *hookFS) Rename(a, b string) error {
	return h.do("rename", a, func() error { return h.FS.Rename(a, b) })
}
func (h *hookFS) Link(a, b string) error {
	return h.do("link", a, func() error { return h.FS.Link(a, b) })
}
func (h *hookFS) SyncDir(dir string) error {
	return h.do("syncdir", dir, func() error { return h.FS.SyncDir(dir) })
}

func (h *hookFS) do(kind, name string, do func() error) error {
	if err := h.ask(kind, name); err != nil {
		return err
	}
	return do()
}

type hookFile struct {
	File
	name string
	fs   *hookFS
}

func (f *hookFile) WriteAt(b []byte, off int64) (int, error) {
	if err := f.fs.ask("write", f.name); err != nil {
		var s short
		if !errors.As(err, &s) {
			return 0, err
		}
		n, werr := f.File.WriteAt(b[:min(s.n, len(b))], off)
		return n, errors.Join(s.err, werr)
	}
	return f.File.WriteAt(b, off)
}

func (f *hookFile) ReadAt(b []byte, off int64) (int, error) {
	if err := f.fs.ask("read", f.name); err != nil {
		return 0, err
	}
	return f.File.ReadAt(b, off)
}

func (f *hookFile) Close() error {
	f.fs.opened.Add(-1)
	return f.File.Close()
}

func (f *hookFile) Sync() error { return f.fs.do("sync", f.name, f.File.Sync) }
func (f *hookFile) Truncate(n int64) error {
	return f.fs.do("truncate", f.name, func() error { return f.File.Truncate(n) })
}
func (f *hookFile) Allocate(n int64) error {
	return f.fs.do("allocate", f.name, func() error { return f.File.Allocate(n) })
}

// crashNothing is a crash that leaves only what was synced.
var crashNothing = vfs.CrashCloneCfg{}
