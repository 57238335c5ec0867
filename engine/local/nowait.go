package local

import (
	"errors"
	"runtime"
	"sync/atomic"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// No-wait reads.
//
// The view of an event loop must not wait for a disk. But most rows that are not resident
// are in the operating system's page cache, where a read takes a few microseconds, while
// a hand-over to a worker takes two wake-ups of threads, some tens of microseconds. So a
// NoWait view reads the store itself, without waiting: if the block is not in the page
// cache the read fails at once (preadv2 with RWF_NOWAIT). Only then the view fails with
// ErrCold, and a worker reads the row.
//
// Pebble passes nothing about its caller to the file. So a no-wait read is recognized by
// its thread: the goroutine is locked to its thread meanwhile, and reads of tables check
// whether their thread is listed. Pebble reads in the goroutine that calls it.
//
// If data is mostly not in the page cache, most no-wait reads fail. So after a failure
// some reads are cold at once without a try, twice as many after each further failure.
//
// An event loop may still wait for a block that a worker is reading at the same time.

// errWouldWait: a no-wait read would have to wait for the disk.
var errWouldWait = errors.New("the disk would have to be waited for")

// noWaitThreads are the threads that must not block on disk.
type noWaitThreads struct {
	never   atomic.Bool                                       // the system has no no-wait reads
	read    func(fd uintptr, p []byte, at int64) (int, error) // readCached except in tests
	threads [16]atomic.Int32
	n       atomic.Int32

	skip   atomic.Int32 // how many of the next reads are not tried
	failed atomic.Int32 // skip after the last failure, 0 after a success; doubled by the next failure
}

const mostSkipped = 1024

// enter lists the calling thread. ok is false if no read should be tried; else the same
// goroutine must call leave.
func (h *noWaitThreads) enter() (place int, ok bool) {
	if h.never.Load() {
		return 0, false
	}
	if h.skip.Load() > 0 {
		h.skip.Add(-1)
		return 0, false
	}
	runtime.LockOSThread()
	id := threadID()
	for i := range h.threads {
		if h.threads[i].Load() == 0 && h.threads[i].CompareAndSwap(0, id) {
			h.n.Add(1)
			return i, true
		}
	}
	runtime.UnlockOSThread()
	return 0, false
}

// leave takes the thread off the list. waited: a read has failed with errWouldWait.
func (h *noWaitThreads) leave(place int, waited bool) {
	h.n.Add(-1)
	h.threads[place].Store(0)
	runtime.UnlockOSThread()
	if waited {
		n := min(max(2*h.failed.Load(), 1), mostSkipped)
		h.failed.Store(n)
		h.skip.Store(n)
	} else if h.failed.Load() != 0 {
		h.failed.Store(0)
	}
}

// current reports whether the calling thread is listed.
func (h *noWaitThreads) current() bool {
	if h.n.Load() == 0 {
		return false
	}
	id := threadID()
	for i := range h.threads {
		if h.threads[i].Load() == id {
			return true
		}
	}
	return false
}

// readFile is a table that is open for reading.
type readFile struct {
	vfs.File
	h *noWaitThreads
}

func (f *readFile) ReadAt(p []byte, at int64) (int, error) {
	if !f.h.current() {
		return f.File.ReadAt(p, at)
	}
	if n, err := f.h.read(f.Fd(), p, at); err == nil && n == len(p) {
		return n, nil
	} else if err != nil && !isAgain(err) {
		f.h.never.Store(true)
	}
	return 0, errWouldWait
}
