package executor

import (
	"errors"
	"fmt"
	"log/slog"

	"redoubt/engine"
	"redoubt/keyspace"
)

// Commands that an event loop left to a worker: they take long, or need rows from disk, the
// keyspace latch, or one state of all keys.

// runOnWorker runs one command on a worker's batch, in the modes that its detours ask for,
// and commits it.
func (b *Batch) runOnWorker(c *Call) (t engine.Ticket) {
	defer func() {
		b.lease.Pass()
		b.mode = Worker
	}()
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
				c.fail(b.x.internalError("no worker can run a command", "command", c.Cmd.FullName, "detour", d, "mode", mode))
				return t
			}
		}
	}
}

// maxSnapshots is how many snapshots a command may take: the engine may revoke one.
const maxSnapshots = 4

// runIn runs a call in a mode, commits it, and sets t to the ticket that its reply waits
// for. On a detour all latches and all memory are released.
func (b *Batch) runIn(m Mode, c *Call, t *engine.Ticket) (d keyspace.Detour) {
	if b.mode = m; m == Snapshot && b.x.store.snapshots() {
		*t, d = b.runSnapshot(c)
		return d
	}
	d = b.Run(c)
	*t = c.ready(b.Commit())
	return d
}

// runSnapshot runs a command that reads many rows, on a snapshot. No latch is held
// meanwhile, not even the keyspace latch: the command may take as long as its client takes to
// read the reply.
func (b *Batch) runSnapshot(c *Call) (seen engine.Ticket, d keyspace.Detour) {
	// The keyspace latch comes first: the snapshot must show the databases as they are
	// numbered now.
	if _, err := b.begin(); err != nil {
		c.fail(err)
		return 0, 0
	}
	snap, err := b.x.eng.Snapshot()
	if err == nil {
		if err = b.store.snapshotTaken(); err != nil {
			err = errors.Join(err, snap.Close())
		}
	}
	if err == nil {
		b.tx.Rows.View = snapshotView{engine.FrozenView{Snapshot: snap}, b.tx.Rows.View, b.x.log}
		b.tx.Numbers = b.x.space.Numbers()
	}
	seen = b.x.eng.Committed()
	b.unlock(0)
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

// snapshotView makes a snapshot serve as the view of a batch.
type snapshotView struct {
	engine.FrozenView
	live engine.View
	log  *slog.Logger
}

func (f snapshotView) Close() {
	if err := f.Snapshot.Close(); err != nil {
		f.log.Error("closing a snapshot failed", "err", err)
	}
	f.live.Close()
}
