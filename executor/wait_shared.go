package executor

import (
	"redoubt/command"
	"redoubt/engine"
)

// Clients that wait, on a store that other processes use as well: a call may be run several
// times before it waits, and another process may make its key ready.

// waitsOnce makes all attempts of a call use the waiter of the first attempt. The caller
// calls end after the last attempt: if the call has an answer, its waiter gets it.
func (c *Call) waitsOnce() (end func(engine.Ticket)) {
	if c.OnBlock == nil {
		return func(engine.Ticket) {}
	}
	var made *Waiter
	first := c.OnBlock
	c.OnBlock = func(block *command.Block) *Waiter {
		if made == nil {
			made = first(block)
		}
		return made
	}
	return func(t engine.Ticket) {
		c.OnBlock = first
		if made == nil || c.Blocked {
			return
		}
		c.Blocked = true
		made.mu.Lock()
		over := made.over
		if !over {
			made.over = true
			made.call.Reply.Buf = append(made.call.Reply.Buf, c.Reply.Buf...)
			made.Ticket, made.Failed = t, c.Failed
		}
		made.mu.Unlock()
		if !over {
			made.done(made)
		}
	}
}

// park notes a call that found nothing, to wait when the batch is committed. Until then the
// waiter counts as taken, so that End cannot answer before the batch has committed.
func (r *sharedBatch) park(w *Waiter) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.taken = true
	r.parked = append(r.parked, w)
}

// enqueueParked queues the parked calls, and then has their keys checked once more: a
// writer may have made a key ready after the call read, and before the call was queued.
func (r *sharedBatch) enqueueParked() {
	x := r.b.x
	for i, w := range r.parked {
		r.parked[i] = nil
		w.mu.Lock()
		ended := w.ended
		w.taken = ended != nil
		w.mu.Unlock()
		if ended != nil {
			w.endTaken(*ended)
			continue
		}
		x.enqueue(w)
		for _, key := range w.block.Keys {
			x.wakeAt(dbKey{w.call.DB, string(key)}) // one check for all calls that come at once
		}
	}
	r.parked = r.parked[:0]
}

// claim waits for a waiter that another batch runs, if no latch is held: that batch may see
// a state in which the key was not ready. With latches held claim leaves the key to a
// goroutine that can wait, so that no later waiter is served before this one.
func (r *sharedBatch) claim(w *Waiter) (serveResult, bool) {
	if len(r.b.latch.Held()) == 0 {
		w.mu.Lock()
		return goOn, true
	}
	return elsewhere, w.mu.TryLock()
}

// served leaves the waiter in its queues until the commit: a conflict would undo the batch.
func (r *sharedBatch) served(*Waiter) {}

// woke notes the keys for other processes, whose clients may wait there.
func (r *sharedBatch) woke() {
	f := &r.b.fx
	f.Woken = append(f.Woken, f.Ready...)
}

// waitsWithOthers runs a blocking call without latches if none of its keys exists and one
// has waiters already. To begin to wait a call needs no latch on a shared store (see
// enqueueParked), so many calls that come at once wait neither for each other nor for a
// writer. It reports false, with no trace left, when the call must be run as any other.
func (r *sharedBatch) waitsWithOthers(c *Call) bool {
	b := r.b
	if c.Cmd.Flags&command.Blocking == 0 || c.OnBlock == nil || c.Queue != nil || len(c.Args) < 2 {
		return false
	}
	var keys [][]byte
	others := false
	fit := c.Cmd.EachKey(c.Args, func(i int, _ *command.KeySpec) {
		keys = append(keys, c.Args[i])
		others = others || b.x.waiting.has(dbKey{c.DB, string(c.Args[i])})
	})
	if !fit || !others {
		return false
	}
	if _, err := b.begin(); err != nil {
		return false // Run meets the error again
	}
	b.fetchFor(c)
	b.tx.Start()
	b.tx.DB, b.tx.Writable, b.tx.Latched = c.DB, false, true
	for _, key := range keys {
		if b.tx.Find(key).Exists() || b.tx.Err() != nil {
			b.Commit() // on a newer state
			return false
		}
	}
	c.Failed, c.Blocked, c.Streamed = false, false, false
	b.keys, b.guard = b.keys[:0], c.Guard
	if c.Begin != nil {
		c.Begin()
	}
	if b.attempt(c, false) != 0 {
		b.Commit()
		return false
	}
	return true
}
