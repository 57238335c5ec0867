package pebble

// The WAL files and the fsync policy.
//
// Pebble commits are always made with Sync, as that is the only way to have its
// log writer hand the record to the operating system now: with NoSync the
// newest records stay inside the process until a block of 32 KiB is full, and a
// kill -9 loses commits that were acknowledged. Whether that Sync becomes an
// fsync is decided here, when Pebble calls it on the file:
//
//	Always    fsync, before the ticket is durable
//	EverySec  nothing; the file is dirty, and a goroutine syncs it each second
//	No        nothing
//
// Invariants:
//   - A WAL is really synced before it is closed, under every policy. Pebble
//     closes a WAL before it makes the next one, and on opening a store it takes
//     an unclean tail of any but the last WAL for corruption. So at most the
//     newest WAL is ever behind, and after a power cut under EverySec or No the
//     store opens with a prefix of the commits, never with a hole.
//   - For the same reason the store keeps Pebble's format below
//     FormatWALSyncChunks (see pebbleFormat): from there on each record states
//     how far the log was synced, which would not be true here, and a torn tail
//     after a power cut would be taken for corruption.
//   - dirty is cleared before a sync starts and set after a write has returned,
//     so no written byte is missed.

import (
	"io"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// FsyncPolicy says what makes a ticket durable.
type FsyncPolicy int32

// The policies; the zero value is EverySec, as in Redis.
const (
	EverySec FsyncPolicy = iota // in the operating system; fsynced each second
	Always                      // fsynced
	No                          // in the operating system; fsynced when it likes
)

func (p FsyncPolicy) String() string {
	switch p {
	case Always:
		return "always"
	case No:
		return "no"
	}
	return "everysec"
}

// wal is a WAL file open for writing. Its methods return no errors: see the head
// of disk.go. Pebble writes and syncs it from one
// goroutine; syncDirty comes from another.
type wal struct {
	vfs.File
	d     *diskFS
	name  string
	dirty atomic.Bool

	mu     sync.Mutex // a sync in the background against Close
	closed bool
}

func (d *diskFS) newWAL(f vfs.File, name string) *wal {
	w := &wal{File: f, d: d, name: name}
	// A new or recycled file is dirty: its name and size are metadata to sync.
	w.dirty.Store(true)
	d.mu.Lock()
	d.wals[w] = struct{}{}
	d.mu.Unlock()
	return w
}

func (w *wal) Write(p []byte) (int, error) {
	if w.d.frozen() {
		return len(p), nil
	}
	n, err := w.File.Write(p)
	if err == nil && n < len(p) {
		err = io.ErrShortWrite
	}
	w.dirty.Store(true)
	if err != nil {
		w.d.fail("writing", w.name, err)
	}
	return len(p), nil
}

func (w *wal) Sync() error { return w.SyncData() }
func (w *wal) SyncData() error {
	if FsyncPolicy(w.d.policy.Load()) == Always {
		w.sync()
	}
	return nil // else the file stays dirty
}

func (w *wal) SyncTo(int64) (bool, error) { return false, nil }

// sync brings what was written to the disk, whatever the policy.
func (w *wal) sync() {
	if w.d.frozen() {
		return
	}
	w.dirty.Store(false)
	start := time.Now()
	err := w.File.SyncData()
	w.d.syncs.Add(1)
	w.d.syncNanos.Add(int64(time.Since(start)))
	if err != nil {
		w.d.fail("syncing", w.name, err)
	}
}

func (w *wal) Close() error {
	w.d.mu.Lock()
	delete(w.d.wals, w)
	w.d.mu.Unlock()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.closed = true
	if w.dirty.Load() {
		w.sync()
	}
	if err := w.File.Close(); err != nil {
		w.d.fail("closing", w.name, err)
	}
	return nil
}

// syncDirty syncs the open WALs that were written to since their last sync.
func (d *diskFS) syncDirty() {
	d.mu.Lock()
	dirty := make([]*wal, 0, 2)
	for w := range d.wals {
		if w.dirty.Load() {
			dirty = append(dirty, w)
		}
	}
	d.mu.Unlock()
	for _, w := range dirty {
		w.mu.Lock()
		if !w.closed {
			w.sync()
		}
		w.mu.Unlock()
	}
}
