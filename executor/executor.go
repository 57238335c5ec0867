// Package executor runs commands: in batches, atomically, each on the state
// that those before it left, and answers for nothing that is not committed.
//
// A Batch belongs to one event loop (or to one worker). The loop runs every
// command that one turn found ready through Batch.Run and then calls Commit
// once: the rows of all of them are one commit of the engine. Commit returns a
// ticket, and the loop sends the replies when the ticket is durable.
//
// Invariants:
//  1. A write holds the latches of its keys from its first read until its
//     commit is visible. Executions on different keys run side by side.
//  2. A command that fails, or that must be run in another way, leaves no
//     trace: its rows, effects and reply are rolled back to a mark.
//  3. Effects (events, keyspace changes, statistics) happen after the commit
//     and before the latches are given back, so they keep the order of commits
//     on a key.
//  4. When a commit fails, every reply of the batch becomes that error.
//  5. Every batch holds the whole keyspace's latch shared; FLUSHALL and its like
//     take it alone.
//  6. A loop's batch never waits for a disk: a command whose rows are not in
//     memory, and a write while the store is congested, is left to a worker. See
//     cold.go.
package executor

import (
	"cmp"
	"errors"
	"fmt"
	"hash/maphash"
	"log/slog"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"redoubt/budget"
	"redoubt/command"
	"redoubt/engine"
	"redoubt/keyspace"
	"redoubt/wire"
)

// Options make an Executor.
type Options struct {
	Engine engine.Engine
	Space  *keyspace.Space
	Clock  func() time.Time
	Seed   uint64
	Limits command.Limits
	Logger *slog.Logger
	// Receivers says how many clients a message to a channel would reach here, and
	// whether there may be any at all: see command.Ctx.
	Receivers func(channel []byte, shard bool) (n int, heard bool)
	// RetryFor is how long a call is run again that conflicts with those of other
	// processes.
	RetryFor time.Duration
	// Work is the working memory that the commands on workers share; nil is no limit.
	Work *budget.Pool
}

// Executor runs commands on one engine.
type Executor struct {
	eng      engine.Engine
	space    *keyspace.Space
	clock    func() time.Time
	log      *slog.Logger
	volatile bool // the engine's commits are durable at once
	remote   bool
	shared   engine.Shared // eng, if other processes use its store too: see shared.go
	retryFor time.Duration
	looking  looking
	needy    []atomic.Int32 // by command: see Batch.lone

	latches   latches
	lingerFor time.Duration // see linger.go
	whole     sync.RWMutex
	// wholeLast is the ticket of the last commit that held the whole keyspace:
	// it may have changed any key, and stamped no latch.
	wholeLast atomic.Uint64

	limits    atomic.Pointer[command.Limits]
	listening atomic.Uint32
	listener  func(*keyspace.Effects, engine.Ticket)

	born uint32 // the time of the start, in seconds
	ages ages
	seed atomic.Uint64
	idle sync.Pool // of *Batch, for workers
	work *budget.Pool

	reading  chan struct{} // has a place for each worker that may read from disk
	crowds   crowds
	waiting  waiting
	waker    waker                  // see wake.go
	onWait   atomic.Pointer[func()] // the same
	watching watching
	// receivers says how many clients a message would reach.
	receivers func(channel []byte, shard bool) (n int, heard bool)
	Stats     Stats
	sweep     sweeper
	// complained is when a failed commit was logged last, in Unix seconds.
	complained atomic.Int64
}

// Stats are sums over all commits.
type Stats struct {
	Hits, Misses, Expired, Changes, Commits, Dropped atomic.Int64
	// Cold counts commands that a loop left to a worker for want of rows in
	// memory, Warmed pipelines whose rows were fetched first, Slowed writes that a
	// loop left to a worker since the store was congested.
	Cold, Warmed, Slowed atomic.Int64
	// Conflicts counts executions that were run again since another process had
	// changed what they read.
	Conflicts atomic.Int64
	// Joined counts commands that went together with those of other clients on the same
	// key.
	Joined atomic.Int64
}

// New makes an executor. Start its background work with Background.
func New(o Options) *Executor {
	x := &Executor{
		eng: o.Engine, space: o.Space, clock: o.Clock, log: o.Logger,
		volatile:  !o.Engine.Capabilities().Durable,
		remote:    o.Engine.Capabilities().Remote,
		reading:   make(chan struct{}, maxReading),
		receivers: o.Receivers,
		lingerFor: lingerTime,
		work:      o.Work,
	}
	if o.Engine.Capabilities().Shared {
		x.shared, x.retryFor = o.Engine.(engine.Shared), cmp.Or(o.RetryFor, 5*time.Second)
		x.needy = make([]atomic.Int32, maxCommands)
		x.crowds.at = map[uint32][]*member{}
	}
	x.latches.seed = maphash.MakeSeed()
	x.seed.Store(o.Seed)
	x.born = uint32(o.Clock().Unix())
	x.SetLimits(o.Limits)
	x.sweep.init()
	x.idle.New = func() any { return x.NewWaitingBatch() }
	return x
}

// Engine and Space are what the executor works on.
func (x *Executor) Engine() engine.Engine  { return x.eng }
func (x *Executor) Space() *keyspace.Space { return x.space }

// SetLimits changes the settings that handlers see.
func (x *Executor) SetLimits(l command.Limits) { x.limits.Store(&l) }

// Listen sets who is told of committed events, changed keys and messages, with the
// ticket that must be durable before anybody outside hears of them. It must be
// called before the first batch. It is called while the latches are held, so in
// the order of the commits on a key, and must not wait.
func (x *Executor) Listen(f func(*keyspace.Effects, engine.Ticket)) { x.listener = f }

// Listening sets the classes of events that handlers note.
func (x *Executor) Listening(c keyspace.Class) { x.listening.Store(uint32(c)) }

// Batch is a run of commands that are committed together.
type Batch struct {
	x      *Executor
	worker bool // made for a worker; other batches look at it
	mode   Mode

	open      bool
	snapshots int // that the call may still have, this one included
	rows      engine.Batch
	fx        keyspace.Effects
	tx        keyspace.Tx
	ctxs      [maxNested]command.Ctx // of a call, and of those that it runs
	nested    int
	next      int           // in the queue of EXEC
	call      *Call         // under way
	reads     engine.Ticket // what the nested calls of this one may have seen
	held      []uint32
	inner     []uint32      // scratch: the stripes of a nested command's keys
	keys      []uint32      // scratch: the stripes of one command's keys
	ticket    engine.Ticket // of the newest commit that Commit has not returned yet
	told      engine.Ticket // what the messages of this batch may tell of, besides its own
	replies   []replies
	served    []*Waiter        // have their reply from this batch
	later     []keyspace.Ready // to be looked at by somebody who can wait
	// needy is the command that came without a latch last and needed it: such reads
	// of large collections mostly come in numbers.
	needy   *command.Command
	seconds uint32
	seed    uint64
	err     error       // of the last commit
	guard   sync.Locker // held by the caller of Run
	ends    lingering
	shared  sharedRun
	lease   budget.Lease // of a worker's batch: see memory.go

	soon        [][]byte // rows to be prefetched, and the bytes of their keys
	soonBytes   []byte
	soonLatches []uint32
	fetched     bool   // soon was fetched, and the next key begins it anew
	touched     uint32 // what Fetch read, so that it is read

	// Made once, since a closure per command would be an allocation: what is
	// done with each key of args.
	eachLatch, eachExpect, eachInner func(i int, _ *command.KeySpec)
	args                             [][]byte
	db                               int
}

// NewBatch makes a batch for an event loop.
func (x *Executor) NewBatch() *Batch {
	b := &Batch{x: x}
	b.seed = x.seed.Add(0x9e3779b97f4a7c15)
	b.tx.Space, b.tx.FX, b.tx.Rows.Batch = x.space, &b.fx, &b.rows
	for i := range b.ctxs {
		c := &b.ctxs[i]
		c.Tx, c.Usage, c.Do, c.Changed = &b.tx, b, b.do, b.watchChanged
		c.Receivers = x.receivers
	}
	b.eachLatch = func(i int, _ *command.KeySpec) { b.keys = append(b.keys, x.latches.of(b.args[i])) }
	b.eachInner = func(i int, _ *command.KeySpec) { b.inner = append(b.inner, x.latches.of(b.args[i])) }
	b.eachExpect = func(i int, _ *command.KeySpec) { b.expect(b.args[i], b.db) }
	return b
}

// begin opens the batch if it is not open. It says false when the whole
// keyspace is latched by somebody else and the batch may not wait.
func (b *Batch) begin() (bool, error) {
	if b.open {
		return true, nil
	}
	if !b.lock() {
		return false, nil
	}
	if b.x.shared != nil {
		if err := b.renew(); err != nil {
			return false, fmt.Errorf("begin: %w", err)
		}
	}
	view, err := b.x.eng.Begin(b.mode != Loop)
	if err != nil {
		b.unlock()
		return false, fmt.Errorf("begin: %w", err)
	}
	b.open, b.tx.Rows.View = true, view
	if b.x.shared != nil {
		b.beginShared(view)
	}
	now := b.x.clock()
	b.tx.Now, b.tx.NowMicros, b.seconds = now.UnixMilli(), now.UnixMicro(), uint32(now.Unix())
	b.tx.Listening = keyspace.Class(b.x.listening.Load())
	b.tx.Worker = b.mode != Loop
	for i, limits := 0, b.x.limits.Load(); i < len(b.ctxs); i++ {
		b.ctxs[i].Limits = limits
	}
	return true, nil
}

// lock takes the whole keyspace's latch. It says false when the batch would have to
// wait and may not.
func (b *Batch) lock() bool {
	switch b.mode {
	case Loop:
		return b.x.whole.TryRLock()
	case Exclusive:
		b.x.lockWhole()
	default:
		b.x.whole.RLock()
	}
	return true
}

func (b *Batch) unlock() {
	if b.mode == Exclusive {
		b.x.whole.Unlock()
	} else {
		b.x.whole.RUnlock()
	}
}

// Run runs one command and appends its reply to c.Reply. If it returns a detour it has
// done nothing: the caller commits the batch and then hands the call, which knows the
// detour, to Executor.RunAlone elsewhere.
func (b *Batch) Run(c *Call) keyspace.Detour {
	c.Failed, c.Blocked, c.Streamed = false, false, false
	c.Detour = b.run(c)
	return c.Detour
}

func (b *Batch) run(c *Call) keyspace.Detour {
	b.guard, b.tx.Unrefused = c.Guard, false
	if b.mode == Loop {
		c.Cold = false
		if c.flags()&(command.Alone|command.Slow|command.OneState) != 0 || b.x.remote || c.weight() > heavyArgs {
			return keyspace.NeedsWorker
		}
		if c.writes() && b.x.eng.Congested() {
			b.x.Stats.Slowed.Add(1)
			return keyspace.NeedsWorker
		}
	} else if flags := c.flags(); b.mode != Exclusive && flags&command.Alone != 0 || b.mode != Snapshot && flags&command.OneState != 0 {
		return keyspace.NeedsWorker
	}
	if !b.shared.together && (b.lease.Held() > 0 || b.rows.Len() >= batchRows || b.rows.Size() >= batchBytes || c.Watch != nil && len(b.fx.Touched) > 0) {
		b.commit()
	}
	for lingered := 0; ; {
		ok, err := b.begin()
		if err != nil {
			c.Wait, c.Own = 0, false
			c.fail(err)
			return 0
		}
		if !ok {
			return keyspace.NeedsWorker
		}
		latched, write := b.latchKeys(c)
		if !latched {
			if len(b.replies) == 0 { // this was a fresh batch already
				if lingered++; lingered > maxLinger || !b.linger() {
					return keyspace.NeedsWorker
				}
				continue
			}
			b.commit()
			continue
		}
		if c.Begin != nil {
			c.Begin()
		}
		if b.x.remote {
			b.gather(c)
		}
		switch d := b.attempt(c, write); d {
		case 0:
			if c.Blocked {
				return 0
			}
			if b.needy == c.Cmd && b.tx.Reads() < 2 {
				b.needy = nil
			}
			if len(b.fx.Ready) > 0 {
				b.wake()
			}
			return 0
		case keyspace.Stale:
			return 0 // the commit will come to nothing
		case keyspace.NeedsLatch:
			if b.x.shared != nil {
				b.x.needy[c.Cmd.ID%maxCommands].Store(needyCalls)
				b.commit()
				continue // now on the state of one moment
			}
			b.needy = c.Cmd
			if !b.tryLatch(b.keys) {
				return d
			}
		case keyspace.NeedsDisk:
			b.x.Stats.Cold.Add(1)
			c.Cold = true
			return d
		default:
			return d
		}
	}
}

// attempt runs a call whose latches are held, as far as they are needed. If it returns
// a detour, or the call is blocked, the call has left no trace.
func (b *Batch) attempt(c *Call, write bool) keyspace.Detour {
	start := len(c.Reply.Buf)
	mark, checks := b.prepare(c, write), b.rows.CheckMark()
	messages := len(b.fx.Messages)
	err := b.exec(c)
	if b.x.shared != nil {
		if c.Watching != nil && err == nil {
			b.saw(c)
		}
		b.guarded(mark, checks, err)
	}
	if failed := b.tx.Err(); failed != nil {
		err = b.outOfMemory(failed)
	}
	d := b.detour(err)
	if d == keyspace.Stale {
		b.shared.outdated = true
		b.tx.Rollback(mark)
		c.Reply.Buf = c.Reply.Buf[:start]
		return d
	}
	if c.Streamed {
		c.Failed = err != nil
		return 0
	}
	if err != nil {
		var block *command.Block
		var w *Waiter
		waits := errors.As(err, &block) && c.OnBlock != nil
		if waits {
			w = c.OnBlock(block)
		}
		switch {
		case w != nil && block.Keep:
		case w == nil && waits || d != 0:
			b.tx.Rollback(mark)
		default:
			b.tx.Undo(mark)
		}
		c.Reply.Buf = c.Reply.Buf[:start]
		switch {
		case d != 0:
			return d
		case waits:
			if w != nil && b.x.shared != nil {
				b.parks(w)
			} else if w != nil {
				b.x.enqueue(w)
			}
			c.Blocked = true
			c.Wait, c.Own = 0, false
			return 0
		}
		c.fail(err)
	} else if len(c.Reply.Buf) > start && c.Reply.Buf[start] == '-' {
		c.Failed = true // a script's own error, which undoes nothing
	}
	b.used(c, write)
	if len(b.fx.Messages) > messages {
		b.told = max(b.told, c.Wait)
	}
	b.note(c, start)
	return 0
}

// detour is the one that an error of an execution asks for, if any.
func (b *Batch) detour(err error) keyspace.Detour {
	if err == nil {
		return 0
	}
	var d keyspace.Detour
	switch {
	case errors.As(err, &d):
		if d == keyspace.NeedsLatch && b.tx.Latched {
			return keyspace.TakesLong
		}
	case b.mode == Loop && errors.Is(err, engine.ErrCold):
		return keyspace.NeedsDisk
	case b.mode == Snapshot && b.snapshots > 1 && errors.Is(err, engine.ErrSnapshotLost):
		return keyspace.NeedsSnapshot
	case b.x.shared != nil && errors.Is(err, engine.ErrConflict):
		return keyspace.Stale
	}
	return d
}

// prepare has the handler of a call find what it needs.
func (b *Batch) prepare(c *Call, write bool) keyspace.TxMark {
	mark := b.tx.Start()
	b.nested, b.next, b.reads = 0, 0, 0
	// Without keys there are no latches: such a call must not write, whatever
	// its handler thinks of its arguments.
	b.tx.DB, b.tx.Writable = c.DB, write && (len(b.keys) > 0 || b.mode >= Snapshot)
	b.tx.Latched = write || len(b.keys) != 1 || b.x.latches.tab[b.keys[0]].owner.Load() == b
	b.tx.Worker = b.mode != Loop && (write || b.mode == Snapshot)
	b.tx.Cold = c.Cold
	b.tx.OneState = b.mode >= Snapshot || b.x.shared != nil && !write
	if b.x.shared != nil {
		b.tx.Latched = !b.lone(c, write)
	}
	b.tx.By = c.By
	return mark
}

// heavyArgs is how many arguments a command may have to be run on a loop.
const heavyArgs = 2048

// A batch is committed when it holds so much, even within a turn: what it holds
// should stay in the processor's cache, and its latches should not be held for
// long. By then the cost of a commit is spread over enough commands.
const (
	batchRows  = 512
	batchBytes = 128 << 10
)

// exec runs the handler. A panic in it is a bug, but one client's bug must not
// take the others' server away.
func (b *Batch) exec(c *Call) (err error) {
	if c.Cold {
		b.x.reading <- struct{}{}
	}
	defer func() {
		if c.Cold {
			<-b.x.reading
		}
		if p := recover(); p != nil {
			b.x.log.Error("a command panicked", "command", c.Cmd.FullName, "panic", p, "stack", string(debug.Stack()))
			err = errors.New("internal error, see the server's log")
		}
	}()
	b.call = c
	ctx := b.context(0, c.Cmd, c.Args, c.Reply)
	ctx.NoBlock = c.OnBlock == nil
	ctx.Sink = nil
	if b.mode == Snapshot && c.Sink != nil {
		ctx.Sink = func(w *wire.Writer) error {
			if !c.Streamed {
				b.keepsMemory()
			}
			c.Streamed = true
			return c.Sink(w)
		}
	}
	switch {
	case c.Queue != nil:
		ctx.Queue = c.Queue
		err = c.Cmd.Run(ctx)
		c.Selected = b.tx.DB
		return err
	case c.Watch != nil:
		b.watch(c)
	}
	return c.Cmd.Run(ctx)
}

// context prepares what the handler of a call sees.
func (b *Batch) context(depth int, cmd *command.Command, args [][]byte, w *wire.Writer) *command.Ctx {
	ctx := &b.ctxs[depth]
	ctx.Reset()
	b.seed += 0x9e3779b97f4a7c15
	ctx.Cmd, ctx.Args, ctx.Reply, ctx.Seed, ctx.Caller = cmd, args, w, b.seed, b.call.Caller
	return ctx
}

// latchKeys finds the stripes of the call's keys and takes their latches if the
// command writes, may wait, or reads several keys. Another read of one key goes
// without.
func (b *Batch) latchKeys(c *Call) (ok, write bool) {
	write = c.writes()
	b.keys = b.keys[:0]
	if b.mode >= Snapshot {
		return true, write
	}
	if c.Queue != nil {
		b.latchQueue(c)
	} else if i, one := c.Cmd.OneKeyAt(); one {
		if i < len(c.Args) {
			b.keys = append(b.keys, b.x.latches.of(c.Args[i]))
		}
	} else if len(c.Cmd.Keys) > 0 {
		b.args = c.Args
		if !c.Cmd.EachKey(c.Args, b.eachLatch) {
			b.keys = b.keys[:0] // the arguments do not fit, as the handler will say
		}
	}
	if b.x.shared != nil && !write && c.Watch == nil && c.Cmd.Flags&command.Blocking == 0 {
		return true, false // a view shows one state
	}
	if len(b.keys) == 0 || (len(b.keys) == 1 && c.Cmd.Flags&(command.Write|command.MayReplicate|command.Blocking) == 0 && c.Watch == nil && c.Queue == nil && b.mode == Loop) {
		if b.needy == c.Cmd {
			b.tryLatch(b.keys) // else it tries without
		}
		return true, write
	}
	if b.mode != Loop && len(b.held) == 0 {
		b.keys = b.latch(b.keys)
		return true, write
	}
	return b.tryLatch(b.keys), write
}

// used marks the keys as used, and says what the reply must wait for: a write,
// and a read of what this batch wrote, for the batch's own commit; another read
// for the commits that it may have seen.
func (b *Batch) used(c *Call, write bool) {
	c.Wait, c.Own = 0, write
	if c.Cmd.Flags&command.PubSubFlag != 0 {
		c.Own = false // a message tells of nothing that is stored
		return
	}
	touch := !c.NoTouch && c.Cmd.Flags&command.Peek == 0
	if !b.x.volatile {
		c.Wait = engine.Ticket(b.x.wholeLast.Load())
	}
	for _, i := range b.keys {
		s := &b.x.latches.tab[i]
		if touch && s.used.Load() != b.seconds {
			s.used.Store(b.seconds)
		}
		if b.x.volatile {
			continue
		}
		if s.owner.Load() == b {
			c.Own = true
			c.Wait = max(c.Wait, engine.Ticket(s.last.Load()))
		} else {
			c.Wait = max(c.Wait, b.x.seen(i))
		}
	}
	if len(b.keys) == 0 && !b.x.volatile {
		c.Wait, c.Own = b.x.eng.Committed(), true
	}
	c.Wait = max(c.Wait, b.reads)
}

// NewWaitingBatch makes a batch for a goroutine that may wait and may take
// long. Only commands that need the whole keyspace or one state of it are
// refused by its Run.
func (x *Executor) NewWaitingBatch() *Batch {
	b := x.NewBatch()
	b.worker, b.mode = true, Worker
	if x.eng.Capabilities().CheapRangeDelete {
		b.tx.Aside = x.commitAside
	}
	b.lease = x.work.Lease()
	b.tx.Lease, b.tx.Gone = &b.lease, b.gone
	return b
}
