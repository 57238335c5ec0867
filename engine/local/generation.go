package local

import (
	"fmt"
	"math"
	"sync/atomic"

	"redoubt/engine"
	"redoubt/engine/local/resident"
)

// generation is what the store has in memory: a resident set, and the counters. There is one
// until commits are taken back; Rewind then makes another, and the old one is given up.
//
// The rows of a set are in memory that is not the Go heap's, which is given back to the
// system when the generation ends. So whatever touches rows pins the generation first:
// views, iterators, snapshots, and the goroutines of the engine for each of their turns. A
// pin costs two atomic additions. Nobody waits for pins: the last one to go ends the
// generation. Figures of a set (Bytes, Dirty) need no pin.
type generation struct {
	set      *resident.Set
	counters *resident.Counters
	pins     atomic.Int64  // one of them is that of the engine, while the generation is the present one
	replaced chan struct{} // closed when another one is the present one
	ended    func()
}

// noMorePins is what is added to the pins of a generation that has ended: a pin that comes
// too late is then negative.
const noMorePins = math.MinInt64 / 2

// pin returns the present generation. It is valid until unpin.
func (e *Engine) pin() *generation {
	for {
		if g := e.present.Load(); g.pins.Add(1) > 0 {
			return g
		}
	}
}

// again pins a generation that its caller has pinned.
func (g *generation) again() *generation {
	g.pins.Add(1)
	return g
}

func (g *generation) unpin() {
	if g.pins.Add(-1) == 0 && g.pins.CompareAndSwap(0, noMorePins) {
		g.set.Close()
		g.ended()
	}
}

// uses reports whether g is still of use: it is the present generation, and the store is open.
func (e *Engine) uses(g *generation) bool { return e.present.Load() == g && !e.closed.Load() }

// set is the present resident set, for its figures.
func (e *Engine) set() *resident.Set { return e.present.Load().set }

// newGeneration returns the state that the store's tables have, and the number of its last
// commit. It is pinned once. No round may be ingested meanwhile.
func (e *Engine) newGeneration() (g *generation, seq uint64, base []byte, err error) {
	seq, base, counts, err := e.store.state()
	if err != nil {
		return nil, 0, nil, err
	}
	empty, err := e.store.empty()
	if err != nil {
		return nil, 0, nil, err
	}
	g = &generation{set: resident.New(e.unit, empty), counters: resident.NewCounters(counts), replaced: make(chan struct{})}
	g.ended = func() { e.retired.Delete(g) }
	g.pins.Store(1)
	g.set.Pin(e.pinned)
	e.memory.mu.Lock()
	g.limit(e.memory.budget)
	e.memory.mu.Unlock()
	if empty {
		g.set.FilterReady(g.set.BeginFilter())
	}
	return g, seq, base, nil
}

// limit sets the limits that the set keeps by itself.
func (g *generation) limit(b budget) {
	g.set.LimitFilter(b.names)
	g.set.LimitPinned(b.kept)
}

// replace makes g the present generation, whose state is that after commit seq.
func (e *Engine) replace(g *generation, seq uint64) {
	old := e.present.Load()
	e.memory.mu.Lock()
	g.limit(e.memory.budget)
	old.set.Cut(func() {
		e.present.Store(g)
		e.applied.Store(seq)
	})
	e.retired.Store(old, nil)
	e.memory.mu.Unlock()
	close(old.replaced)
	for old.set.Revoke() { // snapshots whose clients read slowly must not keep all its memory
	}
	old.unpin()
}

// OffHeap is how much memory outside of the Go heap is mapped for rows.
func (e *Engine) OffHeap() int64 {
	n := e.set().Mapped()
	e.retired.Range(func(g, _ any) bool {
		n += g.(*generation).set.Mapped()
		return true
	})
	return n
}

// take decodes the record of a commit and makes it visible. The number is that behind the
// newest commit that g has.
func (g *generation) take(seq uint64, payload []byte, b *engine.Batch) error {
	b.Reset()
	if err := readRecord(payload, b); err != nil {
		return fmt.Errorf("commit %d: %w", seq, err)
	}
	g.counters.Add(b)
	return g.set.Apply(b, seq)
}

// replayer gives a generation that nobody else has yet the commits behind a number.
type replayer struct {
	g     *generation
	last  uint64
	batch engine.Batch
	bytes int64
	count int64
}

// replay takes the next record. An empty one says nothing.
func (r *replayer) replay(seq uint64, payload []byte) error {
	if seq != r.last+1 {
		return fmt.Errorf("%w: the log has record %d behind record %d", engine.ErrCorrupt, seq, r.last)
	}
	r.last = seq
	if len(payload) == 0 {
		return nil
	}
	r.bytes += int64(len(payload))
	r.count++
	return r.g.take(seq, payload, &r.batch)
}
