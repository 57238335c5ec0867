package local

import (
	"errors"
	"runtime"
	"sync/atomic"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// Reads that do not wait.
//
// A loop's view must not wait for a disk. But most of what is not resident is in
// the operating system's page cache, where a read takes a few microseconds, while a
// trip to a worker takes two wake-ups of threads, which is some tens. So such a view
// reads the store itself, in a hurry: the read of a block that the system would have
// to wait for fails at once (preadv2 with RWF_NOWAIT), and only then the view
// answers ErrCold and a worker waits.
//
// Pebble passes nothing of its caller on to the file. So who is in a hurry is known
// by its thread: the goroutine is locked to it meanwhile, and reads of tables look
// whether their thread is listed. Pebble reads in the goroutine that asks.
//
// Data that is mostly not in the page cache would make each cold read fail first. So
// after a failure some reads do not hurry but are cold at once, twice as many after
// each further one.
//
// What still may make a loop wait is a block that a worker is reading just now.

// errWouldWait: a read in a hurry would have to wait for the disk.
var errWouldWait = errors.New("the disk would have to be waited for")

// hurriers is who is in a hurry.
type hurriers struct {
	never   atomic.Bool                                       // the system cannot do it
	read    func(fd uintptr, p []byte, at int64) (int, error) // readCached, but in tests
	threads [16]atomic.Int32
	n       atomic.Int32

	skip   atomic.Int32 // reads that shall not hurry
	failed atomic.Int32 // how many shall not after the next failure
}

const mostSkipped = 1024

// enter begins a hurry. It says false if there is to be none; else leave must be
// called, by the same goroutine.
func (h *hurriers) enter() (place int, ok bool) {
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

// leave ends a hurry. waited says that it was in vain.
func (h *hurriers) leave(place int, waited bool) {
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

// me says whether the calling thread is in a hurry.
func (h *hurriers) me() bool {
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

// readFile is a table that is read.
type readFile struct {
	vfs.File
	h *hurriers
}

func (f *readFile) ReadAt(p []byte, at int64) (int, error) {
	if !f.h.me() {
		return f.File.ReadAt(p, at)
	}
	if n, err := f.h.read(f.Fd(), p, at); err == nil && n == len(p) {
		return n, nil
	} else if err != nil && !isAgain(err) {
		f.h.never.Store(true)
	}
	return 0, errWouldWait
}
