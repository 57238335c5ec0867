package pebble

// Commits and tickets.
//
// A commit is one Pebble batch. Its ticket is taken before the batch is
// applied: so Committed is at or above the ticket of every row that a reader may
// have seen. Commits apply concurrently, and Pebble may order two of them in
// its log otherwise than their tickets; Durable counts tickets, and grows over
// one only when that commit and all below it are safe.
//
// One goroutine (settle) takes commits in ticket order, waits for their log
// records and raises Durable. Another (notify) calls the OnDurable hook, so
// that a slow hook delays nobody and many commits share one call.
//
// A failure is recorded before the call that met it returns to Pebble, hence
// before Pebble lets go of any commit that waited for it; settle looks for a
// failure after each wait. So no commit is reported durable after a failure,
// though Pebble, which is told nothing, reports success.

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"sync"

	lsm "github.com/cockroachdb/pebble/v2"

	"redoubt/engine"
)

// maxBatch keeps clear of Pebble's limit, past which it panics.
const maxBatch = 1 << 30

// pending is a commit on its way to the disk.
type pending struct {
	ticket  engine.Ticket
	batch   *lsm.Batch // nil if nothing was written after all
	sums    []addition
	applied bool // guarded by Engine.mu
}

var pendings = sync.Pool{New: func() any { return new(pending) }}

func (e *Engine) commit(b *engine.Batch) (engine.Ticket, error) {
	if err := e.refusal(); err != nil {
		return 0, err
	}
	if b.Empty() {
		return 0, nil
	}
	p := pendings.Get().(*pending)
	*p = pending{sums: addUp(p.sums[:0], b)}
	batch, err := e.build(b, p.sums)
	if err != nil {
		return 0, err
	}
	p.batch = batch

	e.mu.Lock()
	if e.closed.Load() {
		e.mu.Unlock()
		_ = batch.Close()
		return 0, engine.ErrClosed
	}
	e.lastTicket++
	ticket := e.lastTicket
	p.ticket = ticket
	e.queue = append(e.queue, p)
	e.committed.Store(uint64(ticket))
	e.mu.Unlock()

	// An error comes from before Pebble's commit pipeline: nothing was written.
	err = e.db.ApplyNoSyncWait(batch, lsm.Sync)
	if err == nil {
		for _, s := range p.sums {
			e.counters.add(s.key, s.delta)
		}
	}

	e.mu.Lock()
	if err != nil {
		p.batch = nil
	}
	p.applied = true
	if e.queue[0] == p {
		e.settleable.Signal()
	}
	e.mu.Unlock()
	if err != nil {
		return 0, fmt.Errorf("%w: commit: %w", engine.ErrReadOnly, err)
	}
	return ticket, nil
}

// addition is what a commit adds to one counter.
type addition struct {
	key   []byte
	delta int64
}

// build turns a write set into a Pebble batch: the range deletes first, as
// later entries of a batch win over earlier ones.
func (e *Engine) build(b *engine.Batch, sums []addition) (*lsm.Batch, error) {
	if b.Size() > maxBatch {
		return nil, fmt.Errorf("%w: a commit of %d bytes, the most is %d", engine.ErrFull, b.Size(), maxBatch)
	}
	batch := e.db.NewBatch()
	err := fill(batch, b)
	for _, s := range sums {
		if err == nil && s.delta != 0 {
			op := batch.MergeDeferred(len(counterPrefix)+len(s.key), 8)
			copy(op.Key[copy(op.Key, counterPrefix):], s.key)
			binary.BigEndian.PutUint64(op.Value, uint64(s.delta))
			err = op.Finish()
		}
	}
	if err != nil {
		_ = batch.Close()
		return nil, fmt.Errorf("building a commit: %w", err)
	}
	return batch, nil
}

func fill(batch *lsm.Batch, b *engine.Batch) error {
	for lo, hi := range b.Ranges() {
		if bytes.Compare(hi, reserved) > 0 {
			hi = reserved
		}
		if bytes.Compare(lo, hi) < 0 {
			if err := batch.DeleteRange(lo, hi, nil); err != nil {
				return err
			}
		}
	}
	for op := range b.Ops() {
		if isReserved(op.Key) {
			return fmt.Errorf("the row key %x is reserved to the engine", op.Key)
		}
		var err error
		if op.Delete {
			err = batch.Delete(op.Key, nil)
		} else {
			err = batch.Set(op.Key, op.Value, nil)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// addUp sums the additions of a batch, usually many to few counters. It looks
// back over a few sums only: one counter may come out in two sums.
func addUp(sums []addition, b *engine.Batch) []addition {
next:
	for key, delta := range b.Counters() {
		for i := len(sums) - 1; i >= max(0, len(sums)-16); i-- {
			if bytes.Equal(sums[i].key, key) {
				sums[i].delta += delta
				continue next
			}
		}
		sums = append(sums, addition{key, delta})
	}
	return sums
}

// settle raises Durable as commits become safe. It ends when the engine is
// closed and every commit is settled.
func (e *Engine) settle() {
	defer close(e.settled)
	var group []*pending
	for {
		e.mu.Lock()
		for !e.closed.Load() && (len(e.queue) == 0 || !e.queue[0].applied) || len(e.queue) > 0 && !e.queue[0].applied {
			e.settleable.Wait()
		}
		n := 0
		for n < len(e.queue) && e.queue[n].applied {
			n++
		}
		group = append(group[:0], e.queue[:n]...)
		e.queue = e.queue[:copy(e.queue, e.queue[n:])]
		e.mu.Unlock()
		if n == 0 {
			return
		}
		for _, p := range group {
			var err error
			if p.batch != nil {
				if err = p.batch.SyncWait(); err != nil {
					e.fail("writing", e.dir, err)
				} else {
					_ = p.batch.Close() // back to Pebble's pool
				}
			}
			if e.failure.Load() == nil {
				e.commits.Add(1)
				e.durable.Store(uint64(p.ticket))
				e.kick()
			}
			pendings.Put(p)
		}
	}
}

// kick has the OnDurable hook called soon.
func (e *Engine) kick() {
	select {
	case e.kicked <- struct{}{}:
	default: // a call is due already, and will find the newest state
	}
}

func (e *Engine) notify() {
	defer close(e.notified)
	for done := false; !done; {
		select {
		case <-e.kicked:
		case <-e.settled: // the last call: after Close all is told
			done = true
		}
		if hook := e.hook.Load(); hook != nil {
			(*hook)()
		}
	}
}
