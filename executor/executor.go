// Package executor runs commands in batches. Each command is atomic and sees what the
// commands before it left; no reply is sent for anything that is not committed.
//
// A Batch belongs to one event loop (or to one worker). The loop runs every
// command that one turn found ready through Batch.Run and then calls Commit
// once: the rows of all of them are one commit of the engine. Commit returns a
// ticket, and the loop sends the replies when the ticket is durable.
//
// Invariants:
//  1. A write holds the latches of its keys from its first read until its
//     commit is visible. Executions on different keys run side by side.
//  2. A command that fails, or that meets a detour (keyspace.Detour), leaves no
//     trace: its rows, effects and reply are rolled back to a mark.
//  3. Effects (events, keyspace changes, statistics) happen after the commit
//     and before the latches are released, so they keep the order of commits
//     on a key.
//  4. When a commit fails, every reply of the batch becomes that error.
//  5. Every batch holds the keyspace latch shared; FLUSHALL and its like hold it
//     exclusively.
//  6. A loop's batch never waits for a disk: a command whose rows are not in
//     memory, and a write while the store is congested, is left to a worker. See
//     disk_reads.go.
package executor

import (
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"redoubt/budget"
	"redoubt/command"
	"redoubt/engine"
	"redoubt/executor/latch"
	"redoubt/feed"
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
	// Receivers returns how many clients of this process a message to a channel would
	// reach, and whether there may be any at all: see command.Ctx.
	Receivers func(channel []byte, shard bool) (n int, heard bool)
	// Leadership is that of a replicated store; nil on any other.
	Leadership Leadership
	// RetryFor is how long a call that conflicts with other processes is retried.
	RetryFor time.Duration
	// Work is the working memory that the commands on workers share; nil is no limit.
	Work *budget.Pool
	// Clients accounts for the memory that clients hold; nil is no limit. Replies of
	// waiters are charged to Clients until Waiter.Release.
	Clients *budget.Account
	// Feed, if set, gets what replicas are told of each commit, and Replicas is what WAIT
	// sees of them.
	Feed     *feed.Stream
	Replicas command.Replicas
	// OneSlot refuses scripts that use keys of several slots. Other calls are their
	// caller's to refuse.
	OneSlot bool
}

// Executor runs commands on one engine.
type Executor struct {
	eng      engine.Engine
	space    *keyspace.Space
	clock    func() time.Time
	log      *slog.Logger
	volatile bool // the engine's commits are durable at once
	remote   bool
	oneSlot  bool
	store    store // for one process, or for several: see store.go

	latches *latch.Table

	limits    atomic.Pointer[command.Limits]
	listening atomic.Uint32
	listener  func(*keyspace.Effects, engine.Ticket)

	born     uint32 // the time of the start, in seconds
	ages     ages
	seed     atomic.Uint64
	idle     sync.Pool // of *Batch, for workers
	work     *budget.Pool
	evicting evicting
	// clients accounts for the memory that clients hold: see wait_portion.go.
	clients *budget.Account
	feed    *feed.Stream // nil: there cannot be any replicas

	reading  chan struct{} // a semaphore of the workers that read from disk
	waiting  waiting
	waker    waker                  // see wait_wake.go
	onWait   atomic.Pointer[func()] // see OnWait
	watching watching
	// receivers returns how many clients a message would reach.
	receivers func(channel []byte, shard bool) (n int, heard bool)
	replicas  command.Replicas
	Stats     Stats
	// onDeferred hears of rows for background work: see OnDeferred.
	onDeferred func(fx *keyspace.Effects, unknown bool)
	// complained is when mayComplain last reported true, in Unix seconds.
	complained atomic.Int64
}

// Stats are sums over all commits.
type Stats struct {
	Hits, Misses, Expired, Changes, Commits, Dropped atomic.Int64
	// Evicted counts keys that were evicted.
	Evicted atomic.Int64
	// Cold counts commands that a loop left to a worker because rows were not in
	// memory, Warmed pipelines whose rows were fetched first, Slowed writes that a
	// loop left to a worker because the store was congested.
	Cold, Warmed, Slowed atomic.Int64
	// Conflicts counts executions that were retried because another process had
	// changed what they read.
	Conflicts atomic.Int64
	// Joined counts commands that ran in a group with those of other clients: group.go.
	Joined atomic.Int64
}

// New makes an executor. Package executor/background does the background work.
func New(o Options) *Executor {
	x := &Executor{
		eng: o.Engine, space: o.Space, clock: o.Clock, log: o.Logger, oneSlot: o.OneSlot,
		volatile:  !o.Engine.Capabilities().Durable,
		remote:    o.Engine.Capabilities().Remote,
		reading:   make(chan struct{}, maxReading),
		receivers: o.Receivers, replicas: o.Replicas,
		latches: latch.New(latch.Options{
			Committed: o.Engine.Committed, Scripts: &o.Space.Scripts, Wanted: &o.Space.Wanted,
		}),
		work: o.Work, clients: o.Clients, feed: o.Feed,
	}
	x.evicting.sampler, _ = o.Engine.(engine.Sampler)
	x.store = newStore(x, o)
	x.seed.Store(o.Seed)
	x.born = uint32(o.Clock().Unix())
	x.SetLimits(o.Limits)
	x.idle.New = func() any { return x.NewWaitingBatch() }
	return x
}

// Engine and Space return the engine and the keyspace that the executor works on.
func (x *Executor) Engine() engine.Engine  { return x.eng }
func (x *Executor) OneSlot() bool          { return x.oneSlot }
func (x *Executor) Space() *keyspace.Space { return x.space }

// SetLimits changes the settings that handlers see.
func (x *Executor) SetLimits(l command.Limits) { x.limits.Store(&l) }

// Listen sets the listener of committed events, changed keys and messages. The listener gets
// the ticket that must be durable before a client hears of them. Listen must be called
// before the first batch. The listener is called while the latches are held, so in the
// order of the commits on a key, and must not wait.
func (x *Executor) Listen(f func(*keyspace.Effects, engine.Ticket)) { x.listener = f }

// Listening sets the classes of events that handlers note.
func (x *Executor) Listening(c keyspace.Class) { x.listening.Store(uint32(c)) }

// Batch is a run of commands that are committed together.
type Batch struct {
	x     *Executor
	mode  Mode
	latch *latch.Holder
	store batchStore

	open          bool
	snapshots     int // how many the call may still take, the present one included
	rows          engine.Batch
	fx            keyspace.Effects
	tx            keyspace.Tx
	ctxs          [maxNested]command.Ctx // of a call, and of its nested commands
	nested        int
	slot          int           // of all keys so far, if keys of several slots are refused
	next          int           // index in the queue of EXEC
	call          *Call         // the one under way
	reads         engine.Ticket // of the commits that nested commands may have seen
	inner         []uint32      // scratch: the stripes of a nested command's keys
	keys          []uint32      // scratch: the stripes of one command's keys
	ticket        engine.Ticket // of the newest commit that Commit has not returned yet
	messageTicket engine.Ticket // of the older commits that messages of this batch may tell of
	replies       []replies
	served        []*Waiter        // waiters that have their reply from this batch
	copied        int              // bytes of replies to the served waiters that only read
	serving       bool             // the call under way is a waiter's
	postponed     []keyspace.Ready // keys whose waiters are left to a goroutine that can wait
	// secondRowOf is the command that last ran without a latch and needed a second row:
	// such reads of large collections mostly come in series.
	secondRowOf *command.Command
	seconds     uint32
	seed        uint64
	err         error        // of the last commit
	guard       sync.Locker  // held by the caller of Run
	read        bool         // the view was read, or rows were fetched through it
	grouped     bool         // the batch holds the latches of all its calls: see group.go
	lease       budget.Lease // of a worker's batch: see memory.go

	marked        []marked      // for when the batch is committed: see evict.go
	wanted        engine.Wanted // rows to be fetched: see prefetch.go
	wantedLatches []uint32      // the stripes of their keys
	wantedRow     []byte        // scratch
	touched       uint32        // the sum that Fetch made, so that its reads are not optimized away

	// eachLatch, eachWanted and eachInner are called with each key of args. They are made
	// once: a closure per command would be an allocation.
	eachLatch, eachWanted, eachInner func(i int, _ *command.KeySpec)
	args                             [][]byte
	db                               int
	background                       bool // begin opens a view of background priority
	readOnly                         bool // the store is a replica that no client may write to
}

// NewBatch makes a batch for an event loop.
func (x *Executor) NewBatch() *Batch { return x.newBatch(Loop) }

func (x *Executor) newBatch(m Mode) *Batch {
	b := &Batch{x: x, mode: m, latch: x.latches.NewHolder(m != Loop)}
	b.store = x.store.newBatch(b)
	b.seed = x.seed.Add(0x9e3779b97f4a7c15)
	b.tx.Space, b.tx.FX, b.tx.Rows.Batch = x.space, &b.fx, &b.rows
	b.rows.GroupBy(keyspace.RowGroup)
	for i := range b.ctxs {
		c := &b.ctxs[i]
		c.Tx, c.Usage, c.Do, c.Changed = &b.tx, b, b.do, b.watchChanged
		c.Receivers, c.Replicas = x.receivers, x.replicas
	}
	b.eachLatch = func(i int, _ *command.KeySpec) { b.keys = append(b.keys, x.latches.Stripe(b.args[i])) }
	b.eachInner = func(i int, _ *command.KeySpec) { b.inner = append(b.inner, x.latches.Stripe(b.args[i])) }
	b.eachWanted = func(i int, _ *command.KeySpec) { b.want(b.args[i], b.db) }
	return b
}

// begin opens the batch if it is not open. It reports false when the keyspace latch is held
// exclusively by another batch, or others must be asked before this process may read, and this
// batch may not wait.
func (b *Batch) begin() (bool, error) {
	if b.open {
		return true, nil
	}
	if !b.lock() {
		return false, nil
	}
	view, err := b.store.begin(engine.ViewOptions{NoWait: b.mode == Loop, Background: b.background})
	if err != nil {
		return false, fmt.Errorf("begin: %w", err)
	}
	if view == nil {
		return false, nil
	}
	b.open, b.read, b.tx.Rows.View = true, false, view
	now := b.x.clock()
	b.tx.Now, b.tx.NowMicros, b.seconds = now.UnixMilli(), now.UnixMicro(), uint32(now.Unix())
	b.tick()
	b.tx.Listening = keyspace.Class(b.x.listening.Load())
	b.tx.Worker = b.mode != Loop
	b.fx.Feed.On = b.x.feed != nil && b.x.feed.Wanted()
	limits := b.x.limits.Load()
	b.readOnly = limits.ReadOnlyReplica && b.x.space.Role().Replica()
	for i := 0; i < len(b.ctxs); i++ {
		b.ctxs[i].Limits = limits
	}
	return true, nil
}

// lock takes the keyspace latch. It reports false when the batch would have to
// wait and may not.
func (b *Batch) lock() bool {
	switch b.mode {
	case Loop:
		return b.x.latches.TryShare()
	case Exclusive:
		b.x.latches.LockKeyspace()
	default:
		b.x.latches.Share()
	}
	return true
}

// unlock releases the keyspace latch; t is the commit's ticket, 0 if there was none.
func (b *Batch) unlock(t engine.Ticket) {
	if b.mode == Exclusive {
		b.x.latches.UnlockKeyspace(t)
	} else {
		b.x.latches.Unshare()
	}
}

// Run runs one command and appends its reply to c.Reply. If Run returns a detour the call
// has left no trace: the caller commits the batch and then hands the call, which knows the
// detour, to Executor.RunOnWorker on another goroutine.
func (b *Batch) Run(c *Call) keyspace.Detour {
	c.Failed, c.Err, c.Blocked, c.Streamed = false, nil, false, false
	c.Detour = b.run(c)
	return c.Detour
}

func (b *Batch) run(c *Call) keyspace.Detour {
	b.guard, b.tx.Unrefused = c.Guard, c.Row != nil
	if b.mode == Loop {
		c.Cold = false
		if c.flags()&(command.Exclusive|command.OnWorker|command.OneState) != 0 || b.x.remote || c.weight() > heavyArgs {
			return keyspace.NeedsWorker
		}
		if c.writes() && b.x.eng.Congested() {
			b.x.Stats.Slowed.Add(1)
			return keyspace.NeedsWorker
		}
	} else if flags := c.flags(); b.mode != Exclusive && flags&command.Exclusive != 0 || b.mode != Snapshot && flags&command.OneState != 0 {
		return keyspace.NeedsWorker
	}
	if !b.grouped && (b.lease.Held() > 0 || b.rows.Len() >= batchRows || b.rows.Size() >= batchBytes || c.Watch != nil && len(b.fx.Touched) > 0) {
		b.commit()
	}
	for waits := 0; ; {
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
			if len(b.replies) == 0 { // the batch was fresh: to commit it frees no latch
				if waits++; waits > maxLoopWaits || !b.awaitLoops() {
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
			b.fetchFor(c)
		}
		switch d := b.attempt(c, write); d {
		case 0:
			if c.Blocked {
				return 0
			}
			if b.secondRowOf == c.Cmd && b.tx.Reads() < 2 {
				b.secondRowOf = nil
			}
			if len(b.fx.Ready) > 0 {
				b.wake()
			}
			return 0
		case keyspace.Stale:
			return 0 // the commit will conflict, and the batch is retried
		case keyspace.NeedsLatch:
			if !b.store.secondRow(c) {
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

// maxLoopWaits is how often one command waits for the batches of other event loops.
const maxLoopWaits = 4

// awaitLoops commits an empty batch and waits until the event loops that hold the latches
// of the call's keys may have released them.
func (b *Batch) awaitLoops() bool {
	if b.mode != Loop {
		return false
	}
	b.commit()
	return b.latch.AwaitLoops(b.keys)
}

// attempt runs a call that holds the latches it needs. If attempt returns a detour, or the
// call blocks, the call has left no trace, but for what a block with Keep keeps.
func (b *Batch) attempt(c *Call, write bool) keyspace.Detour {
	start := len(c.Reply.Buf)
	mark, checks := b.prepare(c, write), b.rows.CheckMark()
	messages, changes, own := len(b.fx.Messages), b.fx.Changes, b.fx.Feed.Own
	err := b.admit(c)
	if err == nil {
		err = b.exec(c)
	}
	b.store.executed(c, mark, checks, err)
	if failed := b.tx.Err(); failed != nil {
		err = b.outOfMemory(failed)
	}
	d := b.detour(err)
	if d == keyspace.Stale {
		b.store.stale()
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
			if w != nil {
				b.store.park(w)
			}
			c.Blocked = true
			c.Wait, c.Own = 0, false
			return 0
		}
		c.fail(err)
	} else if len(c.Reply.Buf) > start && c.Reply.Buf[start] == '-' {
		c.Failed = true // a script's own error, which undoes nothing
	}
	if err == nil && c.Queue == nil {
		b.propagate(c.Cmd, c.Args, changes, own)
	}
	b.used(c, write)
	if len(b.fx.Messages) > messages {
		b.messageTicket = max(b.messageTicket, c.Wait)
	}
	b.note(c, start)
	return 0
}

// detour returns the detour that the error of an execution asks for, 0 if none.
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
	case errors.Is(err, engine.ErrConflict):
		return keyspace.Stale
	}
	return d
}

// prepare sets up the transaction for the handler of a call, and returns the mark to roll
// back to.
func (b *Batch) prepare(c *Call, write bool) keyspace.TxMark {
	mark := b.tx.Start()
	b.nested, b.next, b.reads = 0, 0, 0
	if b.x.oneSlot {
		b.slot = command.NoSlot
		c.Cmd.SameSlot(&b.slot, c.Args)
	}
	// A call without keys holds no latches, and so must not write, whatever its handler
	// makes of its arguments.
	b.tx.DB, b.tx.Writable = c.DB, write && (len(b.keys) > 0 || b.mode >= Snapshot)
	b.tx.Worker = b.mode != Loop && (write || b.mode == Snapshot || b.serving)
	b.tx.Cold = c.Cold
	b.tx.Quiet = c.NoTouch || c.Cmd.Flags&command.NoTouch != 0
	b.tx.By, b.tx.Undying = c.By, c.Row != nil
	b.fx.Feed.BeginUnit()
	b.store.prepare(c, write)
	return mark
}

// propagate notes what replicas run after a command has succeeded: what its handler has noted,
// or else the command itself. changes and own are the sums from before the command.
func (b *Batch) propagate(cmd *command.Command, args [][]byte, changes, own int) {
	if f := &b.fx; f.Feed.On && f.Feed.Own == own && cmd.Propagates(f.Changes > changes) {
		f.Feed.Add(b.tx.DB, args...)
	}
}

// heavyArgs is the largest number of arguments of a command that an event loop runs.
const heavyArgs = 2048

// A batch that reaches one of these sizes is committed within the turn: its rows
// should stay in the processor's cache, and its latches should not be held for
// long. By then the cost of a commit is spread over enough commands.
const (
	batchRows  = 512
	batchBytes = 128 << 10
)

// exec runs the handler of a call. A panic of the handler becomes an error: the bug of one
// command must not end the server for all clients.
func (b *Batch) exec(c *Call) (err error) {
	if c.Cold {
		b.x.reading <- struct{}{}
	}
	defer func() {
		if c.Cold {
			<-b.x.reading
		}
		if p := recover(); p != nil {
			err = b.x.internalError("a command panicked", "command", c.Cmd.FullName, "panic", p, "stack", string(debug.Stack()))
		}
	}()
	b.call = c
	ctx := b.context(0, c.Cmd, c.Args, c.Reply)
	ctx.NoBlock = c.OnBlock == nil
	ctx.Sink = nil
	if b.mode == Snapshot && c.Sink != nil && b.x.store.snapshots() {
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

// context prepares the command.Ctx of a call's handler.
func (b *Batch) context(depth int, cmd *command.Command, args [][]byte, w *wire.Writer) *command.Ctx {
	ctx := &b.ctxs[depth]
	ctx.Reset()
	b.seed += 0x9e3779b97f4a7c15
	ctx.Cmd, ctx.Args, ctx.Reply, ctx.Seed, ctx.Caller = cmd, args, w, b.seed, b.call.Caller
	return ctx
}

// latchKeys sets b.keys to the stripes of the call's keys, and takes their latches if the
// call needs them. ok is false if a latch is taken and the batch may not wait.
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
			b.keys = append(b.keys, b.x.latches.Stripe(c.Args[i]))
		}
	} else if len(c.Cmd.Keys) > 0 {
		b.args = c.Args
		if !c.Cmd.EachKey(c.Args, b.eachLatch) {
			b.keys = b.keys[:0] // wrong arguments: the handler returns the error
		}
	}
	if !b.store.needsLatches(c, write) {
		return true, write
	}
	if b.mode != Loop && len(b.latch.Held()) == 0 {
		b.keys = b.latch.Lock(b.keys)
		return true, write
	}
	return b.latch.Try(b.keys), write
}

// used marks the keys as used, and sets what the reply waits for: a write, and a
// read of what this batch wrote, wait for the batch's own commit; any other read
// waits for the commits that it may have seen.
func (b *Batch) used(c *Call, write bool) {
	c.Wait, c.Own = 0, write
	if c.Cmd.Flags&command.PubSubFlag != 0 {
		c.Own = false // a message reveals nothing that is stored
		return
	}
	touch := !c.NoTouch && c.Cmd.Flags&command.NoTouch == 0
	if !b.x.volatile {
		c.Wait = b.x.latches.KeyspaceLast()
	}
	for _, i := range b.keys {
		if touch {
			b.x.latches.SetUsed(i, b.seconds)
		}
		if b.x.volatile {
			continue
		}
		if b.latch.Holds(i) {
			c.Own = true
			c.Wait = max(c.Wait, b.x.latches.Last(i))
		} else {
			c.Wait = max(c.Wait, b.x.latches.Seen(i))
		}
	}
	if len(b.keys) == 0 && !b.x.volatile {
		c.Wait, c.Own = b.x.eng.Committed(), true
	}
	c.Wait = max(c.Wait, b.reads)
}

// NewWaitingBatch makes a batch for a goroutine that may wait and may take
// long. Its Run refuses (keyspace.NeedsWorker) only commands that need the keyspace
// latch or one state of all keys.
func (x *Executor) NewWaitingBatch() *Batch {
	b := x.newBatch(Worker)
	if x.eng.Capabilities().CheapRangeDelete {
		b.tx.CommitAside = x.commitAside
	}
	b.lease = x.work.Lease()
	b.tx.Lease, b.tx.Gone = &b.lease, b.gone
	return b
}
