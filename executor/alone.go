package executor

import (
	"errors"
	"fmt"
	"log/slog"

	"redoubt/command"
	"redoubt/engine"
)

// Commands that a loop left to a worker: those that take long, need rows from disk,
// the whole keyspace, or one state of it.

// RunAlone runs one command on a worker's goroutine, where it may wait for its
// latches and take long, and commits it.
func (x *Executor) RunAlone(c *Call) engine.Ticket {
	if x.shared == nil {
		b := x.idle.Get().(*Batch)
		defer b.rest()
		return b.runAlone(c)
	}
	if stripe, ok := x.among(c); ok {
		return x.runAmong(c, stripe)
	}
	return x.runShared(c)
}

// rest puts a batch by for the next worker. It must not keep what its last call had: that
// may be large.
func (b *Batch) rest() {
	b.call = nil
	for i := range b.ctxs {
		ctx := &b.ctxs[i]
		ctx.Args, ctx.Queue, ctx.Reply, ctx.Sink, ctx.Caller = nil, nil, nil, nil, nil
	}
	b.x.idle.Put(b)
}

// runShared is RunAlone on a store that other processes use as well.
func (x *Executor) runShared(c *Call) (t engine.Ticket) {
	b := x.idle.Get().(*Batch)
	defer b.rest()
	end := c.waitsOnce()
	err := b.retry(c.Reply, func() error {
		b.announce(c)
		t = b.runAlone(c)
		return nil
	})
	if err != nil {
		c.Blocked = false
		c.fail(err)
	}
	end(t)
	b.park()
	return t
}

func (b *Batch) runAlone(c *Call) engine.Ticket {
	defer b.lease.Pass()
	b.alone = c.flags()&command.Alone != 0
	if c.Cmd.Flags&command.OneState != 0 {
		return b.runFrozen(c)
	}
	if b.x.shared != nil && b.joins(c) {
		return c.ready(b.Commit())
	}
	if !b.runAgain(c) {
		b.Commit()
		if (c.Heavy || c.Whole) && !c.writes() {
			return b.runFrozen(c)
		}
		// Nothing is held any more, so that all may be waited for.
		if b.alone = c.Whole; !b.alone || !b.runAgain(c) {
			b.refuse(c)
		}
	}
	return c.ready(b.Commit())
}

// runAgain runs a call, and runs it again as long as it has to make room for others
// or to wait for its turn.
func (b *Batch) runAgain(c *Call) (done bool) {
	for !b.Run(c) {
		if !c.Yielded && !c.Short {
			return false
		}
		b.Commit() // gives all latches and all memory back
		if c.Short && !b.awaitTurn(c) {
			return true
		}
	}
	return true
}

func (b *Batch) refuse(c *Call) {
	c.fail(errors.New("internal error: no worker can run this command"))
}

// runFrozen runs a command that reads many rows, on a snapshot. It holds no latch
// meanwhile, not even that of the whole keyspace: it may take as long as its
// client takes to read the reply.
func (b *Batch) runFrozen(c *Call) engine.Ticket {
	b.snapshots = maxSnapshots
	for {
		seen, done := b.tryFrozen(c)
		if done || c.Short && !b.awaitTurn(c) {
			return seen
		}
		if c.Revoked {
			b.snapshots--
		}
	}
}

// maxSnapshots is how many snapshots a command is given: the engine may revoke one.
const maxSnapshots = 4

// tryFrozen is runFrozen until the call has to wait for its turn, or for another
// snapshot.
func (b *Batch) tryFrozen(c *Call) (seen engine.Ticket, done bool) {
	// The latch comes first: the snapshot must be one of the databases as they
	// are numbered now.
	if _, err := b.begin(); err != nil {
		c.fail(err)
		return 0, true
	}
	snap, err := b.x.eng.Snapshot()
	if err == nil && b.x.shared != nil {
		if err = b.snapped(); err != nil {
			err = errors.Join(err, snap.Close())
		}
	}
	if err != nil {
		b.Commit()
		c.fail(fmt.Errorf("snapshot: %w", err))
		return 0, true
	}
	live := b.tx.Rows.View
	b.tx.Rows.View, b.frozen, b.tx.Numbers = frozen{snap, live, b.x.log}, true, b.x.space.Numbers()
	seen = b.x.eng.Committed()
	b.unlock()
	c.Wait = seen // for the parts that go to Sink
	if done = b.Run(c); !done && !c.Short && !c.Revoked {
		b.refuse(c)
		done = true
	}
	b.Commit()
	b.frozen, b.tx.Numbers = false, nil
	return seen, done
}

// frozen is a snapshot in the place of a view.
type frozen struct {
	engine.Snapshot
	live engine.View
	log  *slog.Logger
}

func (f frozen) Commit(*engine.Batch) (engine.Ticket, error) {
	return 0, errors.New("a command on a snapshot tried to write")
}

func (f frozen) Prefetch([][]byte) int { return 0 }

func (f frozen) Close() {
	if err := f.Snapshot.Close(); err != nil {
		f.log.Error("closing a snapshot failed", "err", err)
	}
	f.live.Close()
}
