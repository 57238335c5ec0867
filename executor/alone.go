package executor

import (
	"errors"
	"fmt"
	"log/slog"

	"redoubt/engine"
	"redoubt/keyspace"
)

// Commands that a loop left to a worker: those that take long, need rows from disk,
// the whole keyspace, or one state of it.

// RunAlone runs one command on a worker's goroutine, where it may wait for its
// latches and take long, and commits it.
func (x *Executor) RunAlone(c *Call) engine.Ticket {
	if x.shared == nil {
		b := x.idle.Get().(*Batch)
		defer x.idle.Put(b)
		return b.runAlone(c)
	}
	if stripe, ok := x.among(c); ok {
		return x.runAmong(c, stripe)
	}
	return x.runShared(c)
}

// runShared is RunAlone on a store that other processes use as well.
func (x *Executor) runShared(c *Call) (t engine.Ticket) {
	b := x.idle.Get().(*Batch)
	defer x.idle.Put(b)
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

func (b *Batch) runAlone(c *Call) (t engine.Ticket) {
	defer func() {
		b.lease.Pass()
		b.mode = Worker
	}()
	if b.x.shared != nil && b.joins(c) {
		return c.ready(b.Commit())
	}
	b.snapshots = maxSnapshots
	for mode := c.mode(); ; {
		d := b.runIn(mode, c, &t)
		switch d {
		case 0:
			return t
		case keyspace.GivesWay: // again, in the same mode
		case keyspace.NeedsMemory:
			if !b.awaitTurn(c) {
				return t
			}
		case keyspace.NeedsSnapshot:
			b.snapshots--
		default:
			if mode = c.mode(); mode == b.mode {
				c.fail(errors.New("internal error: no worker can run this command"))
				return t
			}
		}
	}
}

// maxSnapshots is how many snapshots a command is given: the engine may revoke one.
const maxSnapshots = 4

// runIn runs a call in some mode, commits it, and sets t to what its reply waits for. On a
// detour it has given back all latches and all memory.
func (b *Batch) runIn(m Mode, c *Call, t *engine.Ticket) (d keyspace.Detour) {
	if b.mode = m; m == Snapshot {
		*t, d = b.runFrozen(c)
		return d
	}
	d = b.Run(c)
	*t = c.ready(b.Commit())
	return d
}

// runFrozen runs a command that reads many rows, on a snapshot. It holds no latch
// meanwhile, not even that of the whole keyspace: it may take as long as its
// client takes to read the reply.
func (b *Batch) runFrozen(c *Call) (seen engine.Ticket, d keyspace.Detour) {
	// The latch comes first: the snapshot must be one of the databases as they
	// are numbered now.
	if _, err := b.begin(); err != nil {
		c.fail(err)
		return 0, 0
	}
	snap, err := b.x.eng.Snapshot()
	if err == nil && b.x.shared != nil {
		if err = b.snapped(); err != nil {
			err = errors.Join(err, snap.Close())
		}
	}
	if err == nil {
		b.tx.Rows.View = frozen{snap, b.tx.Rows.View, b.x.log}
		b.tx.Numbers = b.x.space.Numbers()
	}
	seen = b.x.eng.Committed()
	b.unlock()
	if err != nil {
		b.Commit()
		c.fail(fmt.Errorf("snapshot: %w", err))
		return 0, 0
	}
	c.Wait = seen // for the parts that go to Sink
	d = b.Run(c)
	b.Commit()
	b.tx.Numbers = nil
	return seen, d
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
