package executor

import (
	"hash/maphash"
	"slices"
	"sync"
	"sync/atomic"

	"redoubt/engine"
)

// Latches keep the executions of different event loops and workers apart, per
// key. They are striped: a key's latch is one of a fixed number, by its hash;
// two keys that share one only wait without need.
//
// A batch holds the latches of the keys it writes until its commit has a place
// in the order. An event loop never waits for a latch that a worker holds: it
// tries, and when it fails it commits its own batch, tries again, and leaves the
// command to a worker if that fails too. For another loop it does wait a moment,
// with nothing in its hands: see linger.go. A worker holds no latch when it begins
// to wait, and takes several in ascending order. So nothing can deadlock, and no
// loop stands still because another execution takes long.
//
// A stripe also remembers what readers without a latch need: the ticket of the
// last commit on it, so that a reader who saw a write that is not durable yet
// has its reply held; and when its keys were last used, for OBJECT IDLETIME.
type stripe struct {
	mu    sync.Mutex
	owner atomic.Pointer[Batch] // who holds it; only the holder writes
	used  atomic.Uint32         // when a key of the stripe was last used: seconds
	last  atomic.Uint64         // ticket of the last commit that held it
}

const stripes = 1 << 16

type latches struct {
	seed maphash.Seed
	tab  [stripes]stripe
}

func (l *latches) of(key []byte) uint32 {
	return uint32(maphash.Bytes(l.seed, key)) % stripes
}

// tryLatch takes the latches of the given stripes, or says false; those that it
// took stay with the batch either way.
func (b *Batch) tryLatch(list []uint32) bool {
	for _, i := range list {
		s := &b.x.latches.tab[i]
		if s.owner.Load() == b {
			continue
		}
		if !s.mu.TryLock() {
			return false
		}
		s.owner.Store(b)
		b.held = append(b.held, i)
	}
	return true
}

// latch waits for the latches of the given stripes, and returns them in order
// and once each. The batch holds none.
func (b *Batch) latch(list []uint32) []uint32 {
	slices.Sort(list)
	list = slices.Compact(list)
	for _, i := range list {
		s := &b.x.latches.tab[i]
		s.mu.Lock()
		s.owner.Store(b)
		b.held = append(b.held, i)
	}
	return list
}

// unlatch gives the latches back, stamped with the ticket of the commit.
func (b *Batch) unlatch(t engine.Ticket) {
	for _, i := range b.held {
		s := &b.x.latches.tab[i]
		if t != 0 {
			s.last.Store(uint64(t))
		}
		s.owner.Store(nil)
		s.mu.Unlock()
	}
	b.held = b.held[:0]
	b.tellLingering()
}

// seen returns what must be durable before somebody may be told what he read
// from a stripe just now. While a latch is held its commit may already be
// visible and not yet be stamped; every commit that could be is not after the
// newest.
func (x *Executor) seen(i uint32) engine.Ticket {
	s := &x.latches.tab[i]
	if s.owner.Load() != nil {
		return x.eng.Committed()
	}
	return engine.Ticket(s.last.Load())
}
