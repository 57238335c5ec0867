// Package latch keeps the executions of different event loops and workers apart: per
// key by striped latches, and as a whole by the keyspace latch.
//
// A key's latch is one of a fixed number of stripes, by the key's hash; two keys that
// share a stripe may wait needlessly. A Holder (one per batch) holds the stripes of
// the keys that it writes until its commit has a place in the order of commits.
//
// Nothing can deadlock, and no event loop stands still because another execution takes
// long:
//   - An event loop only tries stripes (Holder.Try). If that fails it commits its batch,
//     so that it holds nothing, and tries again. It waits for the batch of another event
//     loop (Holder.AwaitLoops) for LoopWait at most, and never for a worker.
//   - A worker holds no stripe when it begins to wait (Holder.Lock), and takes several in
//     ascending order.
//   - Every batch holds the keyspace latch shared while it is open; FLUSHALL and its like
//     hold it exclusively (keyspace.go).
//
// A stripe also has what readers without a latch need: the ticket of the last commit on it, so that the reply of a reader that saw a write which is not durable yet is
// held back; and when one of its keys was used last, for OBJECT IDLETIME.
package latch

import (
	"hash/maphash"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"redoubt/engine"
)

// Stripes is the number of stripes.
const Stripes = 1 << 16

type stripe struct {
	mu    sync.Mutex
	owner atomic.Pointer[Holder] // only the holder writes it
	used  atomic.Uint32          // when a key of the stripe was used last, in seconds
	last  atomic.Uint64          // ticket of the last commit that held the stripe
}

// Table holds the latches of one keyspace.
type Table struct {
	// LoopWait is how long an event loop waits for the batch of another one. It may be
	// changed before the table is used.
	LoopWait time.Duration

	seed      maphash.Seed
	committed func() engine.Ticket
	stripes   [Stripes]stripe

	keyspace     sync.RWMutex
	keyspaceLast atomic.Uint64 // ticket of the last commit that held the keyspace latch exclusively
	scripts      *atomic.Int64
	wanted       *atomic.Int64
}

// Options make a Table.
type Options struct {
	// Committed returns the ticket of the newest commit.
	Committed func() engine.Ticket
	// Scripts is how many scripts run that may take long. They give way when Wanted is not
	// zero: see Table.LockKeyspace.
	Scripts, Wanted *atomic.Int64
}

// New makes a Table.
func New(o Options) *Table {
	return &Table{
		LoopWait: 2 * time.Millisecond,
		seed:     maphash.MakeSeed(), committed: o.Committed,
		scripts: o.Scripts, wanted: o.Wanted,
	}
}

// Stripe returns the number of a key's stripe.
func (t *Table) Stripe(key []byte) uint32 {
	return uint32(maphash.Bytes(t.seed, key)) % Stripes
}

// Seen returns the ticket that must be durable before a client is told what was read
// from a stripe just now without its latch. While the stripe is held, its holder's commit
// may be visible but not stamped yet: then Seen returns the newest commit, which covers it.
func (t *Table) Seen(i uint32) engine.Ticket {
	s := &t.stripes[i]
	if s.owner.Load() != nil {
		return t.committed()
	}
	return engine.Ticket(s.last.Load())
}

// Last returns the ticket of the last commit that held the stripe. The caller holds it.
func (t *Table) Last(i uint32) engine.Ticket { return engine.Ticket(t.stripes[i].last.Load()) }

// Used returns when a key of the stripe was used last, in seconds; 0 if never.
func (t *Table) Used(i uint32) uint32 { return t.stripes[i].used.Load() }

// SetUsed sets when a key of the stripe was used last.
func (t *Table) SetUsed(i, seconds uint32) {
	if s := &t.stripes[i]; s.used.Load() != seconds { // else the cache line stays shared
		s.used.Store(seconds)
	}
}

// Held counts the stripes that are held. It is for tests: the answer may be outdated.
func (t *Table) Held() (n int) {
	for i := range t.stripes {
		if t.stripes[i].owner.Load() != nil {
			n++
		}
	}
	return n
}

// Holder holds stripes for one batch. It belongs to one goroutine at a time.
type Holder struct {
	t      *Table
	worker bool
	held   []uint32
	wait   loopWait
}

// NewHolder makes a Holder that holds nothing. worker: its batches may take long, so event
// loops do not wait for it.
func (t *Table) NewHolder(worker bool) *Holder { return &Holder{t: t, worker: worker} }

// Holds reports whether the stripe is held by h.
func (h *Holder) Holds(i uint32) bool { return h.t.stripes[i].owner.Load() == h }

// Held returns the stripes that h holds. h owns the slice.
func (h *Holder) Held() []uint32 { return h.held }

// Try takes the given stripes, or reports false if one of them is taken. On failure h keeps
// the stripes that it has taken so far.
func (h *Holder) Try(list []uint32) bool {
	for _, i := range list {
		s := &h.t.stripes[i]
		if s.owner.Load() == h {
			continue
		}
		if !s.mu.TryLock() {
			return false
		}
		s.owner.Store(h)
		h.held = append(h.held, i)
	}
	return true
}

// Lock waits for the given stripes, and returns them sorted and without duplicates, in
// place. h must hold none.
func (h *Holder) Lock(list []uint32) []uint32 {
	slices.Sort(list)
	list = slices.Compact(list)
	for _, i := range list {
		s := &h.t.stripes[i]
		s.mu.Lock()
		s.owner.Store(h)
		h.held = append(h.held, i)
	}
	return list
}

// Release releases all stripes of h, stamped with the ticket of the commit unless that is
// zero, and wakes the event loops that wait for them.
func (h *Holder) Release(ticket engine.Ticket) {
	for _, i := range h.held {
		s := &h.t.stripes[i]
		if ticket != 0 {
			s.last.Store(uint64(ticket))
		}
		s.owner.Store(nil)
		s.mu.Unlock()
	}
	h.held = h.held[:0]
	h.wake()
}
