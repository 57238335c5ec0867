package executor

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"redoubt/command"
	"redoubt/engine"
	"redoubt/keyspace"
	"redoubt/wire"
)

// Executions on a store that other processes use as well.
//
// Inside one process latches keep executions apart as ever; between processes commits
// find conflicts, and then the whole execution is rolled back, replies, effects and
// served clients included, and run again on a new view. Commands run on workers only.
// A view shows the state of one moment, so what only reads takes no latch.
//
// What is read is right only if the catalog in use (keyspace/catalog.go) held at the
// view's moment: that is looked at before an answer is given, and if it did not hold
// the execution is run again, too.

// sharedRun is what a batch knows besides on such a store.
type sharedRun struct {
	view      engine.SharedView
	lease     keyspace.Lease
	lone      bool // the view reads one row only
	read      bool // something was read
	outdated  bool // what was read does not hold: the batch must be run again
	again     bool // the last commit came to nothing for that reason
	announced bool // the reads of the transaction are known: see announce
	together  bool // the batch has the latches of all its calls
	crowd     bool // which are those of several clients: see crowd.go
	apart     bool // and must be run by themselves: one of them cannot be committed
	parked    []*Waiter
}

// maxCommands is more than there are; if not, some share their place among the needy.
const maxCommands = 1024

// errContended is told to a client whose command has been run again for too long.
var errContended = command.Error("TRYAGAIN the command conflicts with others on the same keys, try again later")

func (b *Batch) beginShared(view engine.View) {
	r := &b.shared
	r.view, r.lone, r.read, r.outdated = view.(engine.SharedView), false, false, false
	r.lease = b.x.space.Lease()
}

// renew sees to it that the catalog was looked at lately. The whole keyspace is latched,
// and is not any more if it fails; nor meanwhile, since a store out of reach would have
// all wait for each other.
func (b *Batch) renew() error {
	if !b.x.space.Lease().Aged() {
		return nil
	}
	b.unlock()
	begin := time.Now()
	if err := b.x.look(); err != nil {
		return err
	}
	b.lock()
	if time.Since(begin) > b.x.retryFor && b.x.space.Lease().Aged() {
		b.unlock()
		return fmt.Errorf("the catalog could not be read in time: %w", engine.ErrUnavailable)
	}
	return nil
}

// looking is a look at the catalog, by one for all who want it.
type looking struct {
	mu  sync.Mutex
	now *look // nil if nobody does
}

type look struct {
	done chan struct{}
	err  error
}

// look looks at the catalog.
func (x *Executor) look() error {
	l := &x.looking
	l.mu.Lock()
	if now := l.now; now != nil {
		l.mu.Unlock()
		<-now.done
		return now.err
	}
	now := &look{done: make(chan struct{})}
	l.now = now
	l.mu.Unlock()
	now.err = x.space.Look()
	l.mu.Lock()
	l.now = nil
	l.mu.Unlock()
	close(now.done)
	return now.err
}

// lone says that a call reads a single row, as far as one can know, and has the view
// prepare for that. If it turns out to need more, it is run again.
func (b *Batch) lone(c *Call, write bool) bool {
	r := &b.shared
	if write || len(b.keys) != 1 || c.Queue != nil || c.Watch != nil || c.Watching != nil || r.together || r.read || b.mode >= Snapshot || r.lease.Pending ||
		c.Cmd.Flags&command.Blocking != 0 || c.Cmd.Group == command.Scripting || b.x.needs(c.Cmd) {
		return false
	}
	r.view.Lone()
	r.lone = true
	return true
}

// needyCalls is how many calls of a command are not tried in that way after one for which
// it was in vain.
const needyCalls = 32

// needs says that a command has lately needed more than a row.
func (x *Executor) needs(cmd *command.Command) bool {
	n := &x.needy[cmd.ID%maxCommands]
	return n.Load() > 0 && n.Add(-1) >= 0
}

// gather has the engine fetch the rows of all keys that a call names, if there are
// several, and those that the commands of a transaction read.
func (b *Batch) gather(c *Call) {
	if b.mode == Snapshot || b.shared.together {
		return
	}
	b.forget()
	if c.Queue == nil {
		b.Prefetch(c.Cmd, c.Args, c.DB)
	}
	calls := make([]*Call, 0, len(c.Queue))
	for i := range c.Queue {
		q := &c.Queue[i]
		b.Prefetch(q.Cmd, q.Args, c.DB)
		calls = append(calls, &Call{Cmd: q.Cmd, Args: q.Args, DB: c.DB, Reply: c.Reply, Caller: c.Caller, By: c.By})
	}
	if c.Watch != nil {
		c.Watch.prefetch(b)
	}
	b.rehearse(calls)
}

func (b *Batch) fetchSoon() {
	b.soon = slices.CompactFunc(b.soon, bytes.Equal) // writers of one key
	if len(b.soon) > 1 {
		b.tx.Rows.View.Prefetch(b.soon)
		b.shared.read = true
	}
	b.forget()
}

func (w *Watch) prefetch(b *Batch) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, k := range w.keys {
		b.expect([]byte(k.at.key), k.at.db)
	}
}

// guarded ends an execution: its meta rows are put, or what it read is of no
// importance for the commit.
func (b *Batch) guarded(m keyspace.TxMark, checks int, err error) {
	if b.tx.Reads() > 0 {
		b.shared.read = true
	}
	if err == nil {
		b.tx.Guard(m, checks)
	} else {
		b.rows.DropChecks(checks)
	}
}

// holds says, before the commit, whether the catalog held when the batch read.
func (b *Batch) holds() error {
	r := &b.shared
	if r.outdated {
		return engine.ErrConflict
	}
	if b.mode == Snapshot || !r.read {
		return nil // for a snapshot see snapped
	}
	at := engine.Stamp(0)
	if !r.lone {
		var err error
		if at, err = r.view.Stamp(); err != nil {
			return err
		}
	}
	// The catalog is the same as when the batch began, since it has the latch of the
	// whole keyspace; by now its lease may be a newer one.
	if r.lease = b.x.space.Lease(); r.lease.Aged() && (r.lone || !b.rows.Empty()) {
		if err := b.x.look(); err != nil {
			return err
		}
		r.lease = b.x.space.Lease()
	}
	if !r.lease.Holds(at) {
		return engine.ErrConflict
	}
	if !b.rows.Empty() {
		r.view.Before(b.x.until)
	}
	return nil
}

// until is the moment until which the catalog in use holds, as far as is known now. What
// commits has the latch of the whole keyspace, so it is the catalog that it used.
func (x *Executor) until() engine.Stamp { return x.space.Lease().Until() }

// snapped says whether the catalog held at the moment of a snapshot that was just taken.
func (b *Batch) snapped() error {
	at, err := b.x.shared.Stamp() // not before the snapshot's
	if err == nil && !b.x.space.Lease().Holds(at) {
		b.shared.outdated, err = true, engine.ErrConflict
	}
	return err
}

// conflicts says whether the batch came to nothing and is to be run again.
func (b *Batch) conflicts(err error) bool {
	r := &b.shared
	switch {
	case b.x.shared == nil || err == nil:
		r.again = false
	case errors.Is(err, engine.ErrConflict):
		b.x.Stats.Conflicts.Add(1)
		r.again = true
	default: // nobody else shall suffer from it
		r.apart = r.crowd && !errors.Is(err, engine.ErrUnknownOutcome) && !errors.Is(err, engine.ErrUnavailable)
		r.again = r.apart
	}
	if r.again {
		r.parked = r.parked[:0]
	}
	return r.again
}

// announce is called before a call is run: what a transaction reads is known before the
// view's moment, unless one of its commands may change who wants to know.
func (b *Batch) announce(c *Call) {
	b.shared.announced = !slices.ContainsFunc(c.Queue, func(q command.Queued) bool { return q.Cmd.Run == nil })
	if !b.shared.announced {
		return
	}
	for i := range c.Queue {
		if q := &c.Queue[i]; c.Reads != nil && q.Cmd.Flags&command.ReadOnly != 0 && q.Cmd.Group != command.Scripting {
			c.Reads(q.Cmd, q.Args, false)
		}
	}
}

// await waits until a change of the catalog in the batch is in effect.
func (b *Batch) await() {
	if err := b.x.space.Await(&b.fx, time.Sleep); err != nil {
		b.x.log.Error("a change of databases or functions is stored, and in effect as soon as the store can be reached again", "err", err)
	}
}

// version is that of a key's meta row, which the commit depends on from now on.
func (b *Batch) version(p place) uint64 {
	row := b.x.space.AppendRowKey(nil, p.db, []byte(p.key))
	b.rows.Check(row)
	b.shared.read = true
	v, err := b.shared.view.Version(row)
	if err != nil {
		b.tx.Fail(err)
	}
	return v
}

// retry calls f, which runs and commits something, until it meets no conflict. Between
// two times it takes back what was written to w, and waits for a moment.
func (b *Batch) retry(w *wire.Writer, f func() error) error {
	start := 0
	if w != nil {
		start = len(w.Buf)
	}
	b.shared.again = false
	err := f()
	if !b.shared.again {
		return err
	}
	for begin, pause := time.Now(), firstPause; b.shared.again; pause = min(2*pause, lastPause) {
		if w != nil {
			w.Buf = w.Buf[:start]
		}
		if time.Since(begin) > b.x.retryFor {
			return errContended
		}
		time.Sleep(rand.N(pause) + pause/2)
		b.shared.again = false
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

// waitsOnce has a call that is tried again use the waiter of the first try. The function
// that it returns is called at the end: if the call has an answer now, its waiter gets
// it.
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

// parks notes a call that found nothing, to wait when the batch is committed. Until then
// nobody ends it: what it did before it waits comes before its answer.
func (b *Batch) parks(w *Waiter) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.taken = true
	b.shared.parked = append(b.shared.parked, w)
}

// park has calls wait that found nothing. Whatever came since they looked, and before
// anybody could know that they wait, they find by looking again.
func (b *Batch) park() {
	for i, w := range b.shared.parked {
		b.shared.parked[i] = nil
		w.mu.Lock()
		ended := w.ended
		w.taken, w.ended = false, nil
		w.mu.Unlock()
		if ended != nil {
			w.End(*ended)
			continue
		}
		b.x.enqueue(w)
		for _, key := range w.block.Keys {
			b.x.wakeAt(place{w.call.DB, string(key)}) // one look for all who come at once
		}
	}
	b.shared.parked = b.shared.parked[:0]
}

// RunTogether runs the first calls of a pipeline as one transaction, all of one
// connection and with one writer: their rows are fetched together. It returns how many
// it has run; the next one needs another way. The replies wait for the ticket.
func (x *Executor) RunTogether(calls []Call) (done int, t engine.Ticket) {
	b := x.idle.Get().(*Batch)
	defer x.idle.Put(b)
	list := make([]*Call, len(calls))
	for i := range calls {
		list[i] = &calls[i]
	}
	err := b.retry(calls[0].Reply, func() (err error) {
		done, err = b.runTogether(list)
		t = b.Commit()
		return err
	})
	if err != nil {
		for done = 0; done < len(calls); done++ {
			calls[done].fail(err)
		}
	}
	return done, t
}

func (b *Batch) runTogether(calls []*Call) (done int, err error) {
	if _, err = b.begin(); err != nil {
		return 0, err
	}
	b.shared.together = true
	defer func() { b.shared.together = false }()
	b.keys = b.keys[:0]
	b.forget()
	for _, c := range calls {
		if c.writes() {
			b.args = c.Args
			c.Cmd.EachKey(c.Args, b.eachLatch)
		}
		b.Prefetch(c.Cmd, c.Args, c.DB)
	}
	b.latch(b.keys)
	b.rehearse(calls)
	for ; done < len(calls) && !b.shared.outdated; done++ {
		c := calls[done]
		c.Start = len(c.Reply.Buf)
		if b.Run(c) != 0 {
			break
		}
	}
	return done, nil
}

// follow keeps the catalog's lease, and adopts its changes, until ctx ends.
func (x *Executor) follow(ctx context.Context) {
	tick := time.NewTicker(keyspace.LookEvery)
	defer tick.Stop()
	failing := false
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		err := x.look()
		if err == nil && x.space.NextCatalog() != 0 {
			err = x.adopt(ctx)
		}
		if err != nil && !failing {
			x.log.Warn("the store cannot be reached", "err", err)
		} else if err == nil && failing {
			x.log.Info("the store can be reached again")
		}
		failing = err != nil
	}
}

// adopt waits for the moment of a change of the catalog and puts it in effect.
func (x *Executor) adopt(ctx context.Context) error {
	for ctx.Err() == nil {
		from := x.space.NextCatalog()
		now, err := x.shared.Stamp()
		if err != nil || from == 0 {
			return err
		}
		if now < from {
			if err := x.space.Look(); err != nil {
				return err
			}
			time.Sleep(keyspace.LookEvery / 10)
			continue
		}
		x.whole.Lock()
		changed := x.space.Adopt(now)
		x.whole.Unlock()
		return x.replaced(changed)
	}
	return nil
}

// replaced tells of databases whose contents another process has replaced.
func (x *Executor) replaced(dbs []int) error {
	if len(dbs) == 0 {
		return nil
	}
	_, err := x.do(func(b *Batch) {
		b.fx.Flushed = true
		for _, db := range dbs {
			b.fx.Touched = append(b.fx.Touched, keyspace.Touch{DB: db})
			b.tx.AwakenAll(db)
		}
	})
	return err
}
