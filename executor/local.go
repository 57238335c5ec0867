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

func (s localStore) newRegime(b *Batch) regime            { return &localRegime{b} }
func (s localStore) followCatalog(context.Context)        {}
func (s localStore) refreshCatalog(context.Context) error { return nil }

func (s localStore) runOnWorker(c *Call) engine.Ticket {
	b := s.x.idle.Get().(*Batch)
	defer s.x.idle.Put(b)
	return b.runOnWorker(c)
}

// latched are the flags of commands that are never run without the latch of their key.
const latched = command.Write | command.MayReplicate | command.Blocking

type localRegime struct{ b *Batch }

func (r *localRegime) begin(o engine.ViewOptions) (engine.View, error) {
	view, err := r.b.x.eng.Begin(o)
	if err != nil {
		r.b.unlock(0)
	}
	return view, err
}

// needsLatches is false for a read of one key on an event loop. If the command lately needed
// a second row, the latch is tried all the same.
func (r *localRegime) needsLatches(c *Call, _ bool) bool {
	b := r.b
	if len(b.keys) > 1 || b.mode != Loop || c.Cmd.Flags&latched != 0 || c.Watch != nil || c.Queue != nil {
		return len(b.keys) > 0
	}
	if b.secondRowOf == c.Cmd {
		b.latch.Try(b.keys) // if taken, the call runs without it
	}
	return false
}

func (r *localRegime) prepare(_ *Call, write bool) {
	b := r.b
	b.tx.Latched = write || len(b.keys) != 1 || b.latch.Holds(b.keys[0])
	b.tx.OneState = b.mode >= Snapshot
}

func (r *localRegime) secondRow(c *Call) bool {
	r.b.secondRowOf = c.Cmd
	return r.b.latch.Try(r.b.keys)
}

func (r *localRegime) nestedWithoutLatch() bool                    { return false }
func (r *localRegime) toldReads() (told, late bool)                { return false, r.b.mode == Snapshot }
func (r *localRegime) executed(*Call, keyspace.TxMark, int, error) {}
func (r *localRegime) stale()                                      {}
func (r *localRegime) isStale() bool                               { return false }
func (r *localRegime) snapshotTaken() error                        { return nil }
func (r *localRegime) mayCommit() error                            { return nil }
func (r *localRegime) committed()                                  {}
func (r *localRegime) conflicted(error) bool                       { return false }
func (r *localRegime) retry(_ *wire.Writer, f func() error) error  { return f() }
func (r *localRegime) version(dbKey) uint64                        { return 0 }

// park queues the waiter at once: the latches of its keys are held.
func (r *localRegime) park(w *Waiter) { r.b.x.enqueue(w) }

// claim skips a waiter that ends, or that another batch runs: that batch sees this key
// too, or finds its latch taken and leaves the key to a goroutine that can wait.
func (r *localRegime) claim(w *Waiter) (serveResult, bool) { return goOn, w.mu.TryLock() }

// served removes the waiter at once: the batch is never retried.
func (r *localRegime) served(w *Waiter) { w.leaveLocked() }

func (r *localRegime) woke() {}
