package executor

import (
	"cmp"
	"errors"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"time"

	"redoubt/command"
	"redoubt/engine"
	"redoubt/keyspace"
	"redoubt/wire"

	"golang.org/x/sync/singleflight"
)

// Executions on a store that other processes use as well.
//
// Inside one process latches keep executions apart as on any store; between processes
// commits detect conflicts, and then the whole execution is rolled back, replies, effects
// and served waiters included, and retried on a new view. Commands run on workers only.
// A view shows the state of one moment, so an execution that only reads takes no latch.
//
// What is read is right only if the lease of the catalog (keyspace/catalog.go) covers the
// view's moment: that is checked before an answer is given, and if it does not the
// execution is retried, too. See shared_catalog.go.

type sharedStore struct {
	x        *Executor
	eng      engine.Shared
	catalog  *keyspace.Catalog
	retryFor time.Duration
	renewing singleflight.Group // of the catalog
	// secondRows is, by command, how many of its next calls are not tried as point reads:
	// see sharedBatch.pointRead.
	secondRows []atomic.Int32
	groups     groups
}

// maxCommands is the size of secondRows; with more commands some would share a place.
const maxCommands = 1024

func newSharedStore(x *Executor, eng engine.Shared, retryFor time.Duration) *sharedStore {
	s := &sharedStore{x: x, eng: eng, catalog: x.space.Catalog(), retryFor: cmp.Or(retryFor, eng.Timeout(), 5*time.Second)}
	s.secondRows = make([]atomic.Int32, maxCommands)
	s.groups.waiting = map[uint32][]*groupMember{}
	return s
}

func (s *sharedStore) snapshots() bool { return !s.eng.Capabilities().NoMoments }

func (s *sharedStore) newBatch(b *Batch) batchStore { return &sharedBatch{b: b, s: s} }

// runOnWorker runs a call in a group with others that write the same key if it is
// groupable, else as a transaction of its own.
func (s *sharedStore) runOnWorker(c *Call) engine.Ticket {
	if stripe, ok := s.groupable(c); ok {
		return s.runGrouped(c, stripe)
	}
	return s.runSingle(c)
}

// runSingle runs a call as a transaction of its own.
func (s *sharedStore) runSingle(c *Call) (t engine.Ticket) {
	b := s.x.idle.Get().(*Batch)
	defer s.x.idle.Put(b)
	r := b.store.(*sharedBatch)
	end := c.waitsOnce()
	err := r.retry(c.Reply, func() error {
		r.announce(c)
		if r.waitsWithOthers(c) {
			t = c.ready(b.Commit())
			b.lease.Pass()
		} else {
			t = b.runOnWorker(c)
		}
		return nil
	})
	if err != nil {
		c.Blocked = false
		c.fail(err)
	}
	end(t)
	r.enqueueParked()
	return t
}

// errContended is the reply to a command that has been retried for too long.
var errContended = command.Error("TRYAGAIN the command conflicts with others on the same keys; nothing was written, try again later")

// sharedBatch is the batchStore of a batch on a shared store.
type sharedBatch struct {
	b    *Batch
	s    *sharedStore
	view engine.SharedView

	lease     keyspace.Lease
	point     bool      // the view reads one row only
	outdated  bool      // what was read is outdated: the batch must be retried
	again     bool      // the last commit had no effect: retry
	announced bool      // Call.Reads was called for the transaction: see announce
	group     bool      // the calls are those of several clients: see group.go
	split     bool      // the group cannot be committed as one: run its calls one by one
	parked    []*Waiter // waiters to be queued once the batch is committed
}

func (r *sharedBatch) begin(o engine.ViewOptions) (engine.View, error) {
	if err := r.renewLease(); err != nil {
		return nil, err
	}
	o.CommitBefore = r.s.catalogUntil
	view, err := r.s.eng.Begin(o)
	if err != nil {
		r.b.unlock(0)
		return nil, err
	}
	r.view, r.point, r.outdated = view.(engine.SharedView), false, false
	r.lease = r.s.catalog.Lease()
	return view, nil
}

// needsLatches is false for calls that only read: a view shows one state.
func (r *sharedBatch) needsLatches(c *Call, write bool) bool {
	return len(r.b.keys) > 0 && (write || c.Watch != nil || c.Cmd.Flags&command.Blocking != 0)
}

func (r *sharedBatch) prepare(c *Call, write bool) {
	r.b.tx.OneState = r.b.mode >= Snapshot || !write
	r.b.tx.Latched = !r.pointRead(c, write)
}

// pointRead reports whether a call probably reads a single row, and then opens a view of a
// point read. A call that turns out to need more is run again.
func (r *sharedBatch) pointRead(c *Call, write bool) bool {
	b := r.b
	if write || len(b.keys) != 1 || c.Queue != nil || c.Watch != nil || c.Watching != nil || b.grouped || b.read || b.mode >= Snapshot || r.lease.Pending ||
		c.Cmd.Flags&command.Blocking != 0 || c.Cmd.Group == command.Scripting || r.s.needsSecondRow(c.Cmd) {
		return false
	}
	view, err := r.s.eng.Begin(engine.ViewOptions{PointRead: true})
	if err != nil {
		return false // the read on the other view returns the error
	}
	r.view.Close()
	r.view, r.point, b.tx.Rows.View = view.(engine.SharedView), true, view
	return true
}

// secondRowCalls is how many calls of a command are not tried as point reads after one that
// needed a second row.
const secondRowCalls = 32

// needsSecondRow reports whether a command has lately needed more than a row.
func (s *sharedStore) needsSecondRow(cmd *command.Command) bool {
	n := &s.secondRows[cmd.ID%maxCommands]
	return n.Load() > 0 && n.Add(-1) >= 0
}

// secondRow commits the batch, so that the call is run again on a view of one moment.
func (r *sharedBatch) secondRow(c *Call) bool {
	r.s.secondRows[c.Cmd.ID%maxCommands].Store(secondRowCalls)
	r.b.commit()
	return true
}

// nestedWithoutLatch is true: the commit detects a conflict.
func (r *sharedBatch) nestedWithoutLatch() bool { return true }

// announce calls Call.Reads for the reads of a transaction before the view's moment, unless
// a queued command of the connection may change whether reads are tracked.
func (r *sharedBatch) announce(c *Call) {
	r.announced = !slices.ContainsFunc(c.Queue, func(q command.Queued) bool { return q.Cmd.Run == nil })
	if !r.announced {
		return
	}
	for i := range c.Queue {
		if q := &c.Queue[i]; c.Reads != nil && q.Cmd.Flags&command.ReadOnly != 0 && q.Cmd.Group != command.Scripting {
			c.Reads(q.Cmd, q.Args, false)
		}
	}
}

// readsAnnounced: the reads of EXEC's own commands were announced. For others late is true once
// the moment of the view is fixed.
func (r *sharedBatch) readsAnnounced() (already, late bool) {
	b := r.b
	return r.announced && b.nested == 0 && b.call.Queue != nil, b.mode == Snapshot || b.read || b.tx.Reads() > 0
}

// executed ends an execution: Tx.Guard puts the meta rows of changed values; a failed
// execution leaves the read set of the commit.
func (r *sharedBatch) executed(c *Call, m keyspace.TxMark, checks int, err error) {
	b := r.b
	if c != nil && c.Watching != nil && err == nil {
		b.markSeen(c)
	}
	if b.tx.Reads() > 0 {
		b.read = true
	}
	if err == nil {
		b.tx.Guard(m, checks)
	} else {
		b.rows.DropChecks(checks)
	}
}

func (r *sharedBatch) stale()        { r.outdated = true }
func (r *sharedBatch) isStale() bool { return r.outdated }

// committed waits until a change of the catalog in the batch is in effect.
func (r *sharedBatch) committed() {
	if err := r.s.catalog.Await(&r.b.fx, time.Sleep); err != nil {
		r.b.x.log.Error("a change of databases or functions is stored, and in effect as soon as the store can be reached again", "err", err)
	}
}

func (r *sharedBatch) conflicted(err error) bool {
	switch {
	case err == nil:
		r.again = false
	case errors.Is(err, engine.ErrConflict):
		r.b.x.Stats.Conflicts.Add(1)
		r.again = true
	default: // a failing call must not fail its group: run each call alone
		r.split = r.group && !errors.Is(err, engine.ErrUnknownOutcome) && !engine.Transient(err)
		r.again = r.split
	}
	if r.again {
		clear(r.parked)
		r.parked = r.parked[:0]
	}
	return r.again
}

func (r *sharedBatch) retry(w *wire.Writer, f func() error) error {
	start := 0
	if w != nil {
		start = len(w.Buf)
	}
	r.again = false
	err := f()
	if !r.again {
		return err
	}
	for begin, pause := time.Now(), firstPause; r.again; pause = min(2*pause, lastPause) {
		if w != nil {
			w.Buf = w.Buf[:start]
		}
		if time.Since(begin) > r.s.retryFor {
			return errContended
		}
		time.Sleep(rand.N(pause) + pause/2)
		r.again = false
		if err := f(); err != nil {
			return err
		}
	}
	return nil
}

const (
	firstPause = time.Millisecond
	lastPause  = 64 * time.Millisecond
)

func (r *sharedBatch) version(p dbKey) uint64 {
	b := r.b
	row := b.x.space.AppendRowKey(nil, p.db, []byte(p.key))
	b.rows.Check(row)
	b.read = true
	v, err := r.view.Version(row)
	if err != nil {
		b.tx.Fail(err)
	}
	return v
}
