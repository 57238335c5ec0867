package executor

import (
	"context"

	"redoubt/command"
	"redoubt/engine"
	"redoubt/keyspace"
	"redoubt/wire"
)

// A store that no other process uses. Latches keep executions apart, so no commit
// conflicts, and what was read stays true while its latch is held.

type localStore struct{ x *Executor }

func (s localStore) newBatch(b *Batch) batchStore         { return &localBatch{b} }
func (s localStore) snapshots() bool                      { return true }
func (s localStore) followCatalog(context.Context)        {}
func (s localStore) refreshCatalog(context.Context) error { return nil }

func (s localStore) runOnWorker(c *Call) engine.Ticket {
	b := s.x.idle.Get().(*Batch)
	defer s.x.idle.Put(b)
	return b.runOnWorker(c)
}

// latched are the flags of commands that are never run without the latch of their key.
const latched = command.Write | command.MayReplicate | command.Blocking

type localBatch struct{ b *Batch }

func (r *localBatch) begin(o engine.ViewOptions) (engine.View, error) {
	view, err := r.b.x.eng.Begin(o)
	if err != nil {
		r.b.unlock(0)
	}
	return view, err
}

// needsLatches is false for a read of one key on an event loop. If the command lately needed
// a second row, the latch is tried all the same.
func (r *localBatch) needsLatches(c *Call, _ bool) bool {
	b := r.b
	if len(b.keys) > 1 || b.mode != Loop || c.Cmd.Flags&latched != 0 || c.Watch != nil || c.Queue != nil {
		return len(b.keys) > 0
	}
	if b.secondRowOf == c.Cmd {
		b.latch.Try(b.keys) // if taken, the call runs without it
	}
	return false
}

func (r *localBatch) prepare(_ *Call, write bool) {
	b := r.b
	b.tx.Latched = write || len(b.keys) != 1 || b.latch.Holds(b.keys[0])
	b.tx.OneState = b.mode >= Snapshot
}

func (r *localBatch) secondRow(c *Call) bool {
	r.b.secondRowOf = c.Cmd
	return r.b.latch.Try(r.b.keys)
}

func (r *localBatch) nestedWithoutLatch() bool                    { return false }
func (r *localBatch) readsAnnounced() (already, late bool)        { return false, r.b.mode == Snapshot }
func (r *localBatch) executed(*Call, keyspace.TxMark, int, error) {}
func (r *localBatch) stale()                                      {}
func (r *localBatch) isStale() bool                               { return false }
func (r *localBatch) snapshotTaken() error                        { return nil }
func (r *localBatch) mayCommit() error                            { return nil }
func (r *localBatch) committed()                                  {}
func (r *localBatch) conflicted(error) bool                       { return false }
func (r *localBatch) retry(_ *wire.Writer, f func() error) error  { return f() }
func (r *localBatch) version(dbKey) uint64                        { return 0 }

// park queues the waiter at once: the latches of its keys are held.
func (r *localBatch) park(w *Waiter) { r.b.x.enqueue(w) }

// claim skips a waiter that ends, or that another batch runs: that batch sees this key
// too, or finds its latch taken and leaves the key to a goroutine that can wait.
func (r *localBatch) claim(w *Waiter) (serveResult, bool) { return goOn, w.mu.TryLock() }

// served removes the waiter at once: the batch is never retried.
func (r *localBatch) served(w *Waiter) { w.leaveLocked() }

func (r *localBatch) woke() {}
