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
	"bytes"
	"errors"
	"fmt"
	"hash/maphash"
	"log/slog"
	"runtime/debug"
	"slices"
	"sync"
	"sync/atomic"
	"time"

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
	// Receivers says how many clients a message to a channel would reach.
	Receivers func(channel []byte, shard bool) int
}

// Executor runs commands on one engine.
type Executor struct {
	eng      engine.Engine
	space    *keyspace.Space
	clock    func() time.Time
	log      *slog.Logger
	volatile bool // the engine's commits are durable at once
	remote   bool

	latches latches
	whole   sync.RWMutex
	// wholeLast is the ticket of the last commit that held the whole keyspace:
	// it may have changed any key, and stamped no latch.
	wholeLast atomic.Uint64

	limits    atomic.Pointer[command.Limits]
	listening atomic.Uint32
	listener  func(*keyspace.Effects, engine.Ticket)

	born    uint32 // the time of the start, in seconds
	ages    ages
	seed    atomic.Uint64
	batchID atomic.Uint32
	idle    sync.Pool // of *Batch, for workers

	reading  chan struct{} // has a place for each worker that may read from disk
	waiting  waiting
	watching watching
	// receivers says how many clients a message would reach.
	receivers func(channel []byte, shard bool) int
	Stats     Stats
	sweep     sweeper
}

// Stats are sums over all commits.
type Stats struct {
	Hits, Misses, Expired, Changes, Commits, Dropped atomic.Int64
	// Cold counts commands that a loop left to a worker for want of rows in
	// memory, Warmed pipelines whose rows were fetched first, Slowed writes that a
	// loop left to a worker since the store was congested.
	Cold, Warmed, Slowed atomic.Int64
}

// New makes an executor. Start its background work with Background.
func New(o Options) *Executor {
	x := &Executor{
		eng: o.Engine, space: o.Space, clock: o.Clock, log: o.Logger,
		volatile:  !o.Engine.Capabilities().Durable,
		remote:    o.Engine.Capabilities().Remote,
		reading:   make(chan struct{}, maxReading),
		receivers: o.Receivers,
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

// Call is one command to be run.
type Call struct {
	Cmd     *command.Command
	Args    [][]byte
	DB      int
	Reply   *wire.Writer
	NoTouch bool // the client does not want keys to count as used
	// Guard, if set, is held during Run and guards Reply: a commit that fails
	// rewrites the replies of other calls of the batch too.
	Guard sync.Locker
	// OnBlock, if set, makes the waiter of a command that is going to wait. Without
	// it such a command must answer at once.
	OnBlock func(*command.Block) *Waiter
	// Caller is who runs the command, for one that runs others.
	Caller command.Caller
	// Queue are the commands that EXEC runs, Watch the keys that the client watches
	// or, for WATCH, is going to.
	Queue []command.Queued
	Watch *Watch
	// By is the number of the client, for those who want to know who changed a key.
	By int64
	// Reads, if set, is told of a command that EXEC or a script is about to run and
	// that only reads. late: the state that it reads is an older one.
	Reads func(cmd *command.Command, args [][]byte, late bool)
	// Sink, if set, takes parts of a reply that is too large to be held: see
	// command.Ctx.Spill. They may be sent once Wait is durable.
	Sink func(*wire.Writer) error

	// Set by Run. The reply may be sent once Wait is durable and, if Own, once
	// the ticket that Commit returns is.
	Wait   engine.Ticket
	Own    bool
	Failed bool // the reply is an error
	// Cold: Run said false because rows are not in memory. RunAlone then takes
	// its turn among those that read from disk.
	Cold bool
	// Heavy: Run said false because the command takes long. A read is then run on
	// a state of its own, so that it holds nobody up.
	Heavy bool
	// Whole: Run said false because the command reads keys that it did not name. It
	// is then run on a state of its own, or alone if it writes.
	Whole bool
	// Yielded: Run said false because somebody else needs the whole keyspace.
	// RunAlone runs it again.
	Yielded bool
	// Selected is the database that EXEC's commands left selected.
	Selected int
	// Streamed: a part of the reply went to Sink. If it then failed, the rest
	// will never come.
	Streamed bool
	// Blocked: there is no reply; the waiter that OnBlock made will have it.
	Blocked bool
}

// Batch is a run of commands that are committed together.
type Batch struct {
	x      *Executor
	id     uint32
	worker bool // may wait and may take long

	open    bool
	alone   bool
	frozen  bool // reads a snapshot
	rows    engine.Batch
	fx      keyspace.Effects
	tx      keyspace.Tx
	ctxs    [maxNested]command.Ctx // of a call, and of those that it runs
	nested  int
	next    int           // in the queue of EXEC
	call    *Call         // under way
	reads   engine.Ticket // what the nested calls of this one may have seen
	held    []uint32
	inner   []uint32      // scratch: the stripes of a nested command's keys
	keys    []uint32      // scratch: the stripes of one command's keys
	ticket  engine.Ticket // of the newest commit that Commit has not returned yet
	told    engine.Ticket // what the messages of this batch may tell of, besides its own
	replies []replies
	served  []*Waiter        // have their reply from this batch
	later   []keyspace.Ready // to be looked at by somebody who can wait
	// needy is the command that came without a latch last and needed it: such reads
	// of large collections mostly come in numbers.
	needy   *command.Command
	seconds uint32
	seed    uint64
	err     error       // of the last commit
	guard   sync.Locker // held by the caller of Run

	soon        [][]byte // rows to be prefetched, and the bytes of their keys
	soonBytes   []byte
	soonLatches []uint32
	fetched     bool   // soon was fetched, and the next key begins it anew
	touched     uint32 // what Fetch read, so that it is read

	// Made once, since a closure per command would be an allocation: what is
	// done with each key of args.
	eachLatch, eachExpect func(i int, _ *command.KeySpec)
	args                  [][]byte
	db                    int
}

// replies are some that one connection got in this batch, one behind the other:
// where they are in its buffer. Between them may be replies that were not given
// by the batch.
type replies struct {
	to         *wire.Writer
	mu         sync.Locker
	start, end int
	n          int
}

// NewBatch makes a batch for an event loop.
func (x *Executor) NewBatch() *Batch {
	b := &Batch{x: x, id: x.batchID.Add(1)}
	b.seed = x.seed.Add(0x9e3779b97f4a7c15)
	b.tx.Space, b.tx.FX, b.tx.Rows.Batch = x.space, &b.fx, &b.rows
	for i := range b.ctxs {
		c := &b.ctxs[i]
		c.Tx, c.Usage, c.Do, c.Changed = &b.tx, b, b.do, b.watchChanged
		c.Receivers = x.receivers
	}
	b.eachLatch = func(i int, _ *command.KeySpec) { b.keys = append(b.keys, x.latches.of(b.args[i])) }
	b.eachExpect = func(i int, _ *command.KeySpec) { b.expect(b.args[i], b.db) }
	return b
}

// begin opens the batch if it is not open. It says false when the whole
// keyspace is latched by somebody else and the batch may not wait.
func (b *Batch) begin() (bool, error) {
	if b.open {
		return true, nil
	}
	switch {
	case b.alone:
		b.x.lockWhole()
	case b.worker:
		b.x.whole.RLock()
	case !b.x.whole.TryRLock():
		return false, nil
	}
	view, err := b.x.eng.Begin(b.worker)
	if err != nil {
		b.unlock()
		return false, fmt.Errorf("begin: %w", err)
	}
	b.open, b.tx.Rows.View = true, view
	now := b.x.clock()
	b.tx.Now, b.tx.NowMicros, b.seconds = now.UnixMilli(), now.UnixMicro(), uint32(now.Unix())
	b.tx.Listening = keyspace.Class(b.x.listening.Load())
	b.tx.Worker = b.worker
	for i, limits := 0, b.x.limits.Load(); i < len(b.ctxs); i++ {
		b.ctxs[i].Limits = limits
	}
	return true, nil
}

func (b *Batch) unlock() {
	if b.alone {
		b.x.whole.Unlock()
	} else {
		b.x.whole.RUnlock()
	}
}

// Run runs one command, appends its reply to c.Reply and says true. It says
// false, and has done nothing, when the command is for a worker: the caller
// commits the batch and then hands the call to Executor.RunAlone elsewhere.
func (b *Batch) Run(c *Call) bool {
	c.Failed, c.Blocked, c.Heavy, c.Whole, c.Streamed, c.Yielded = false, false, false, false, false, false
	b.guard = c.Guard
	if !b.worker {
		c.Cold = false
		if c.flags()&(command.Alone|command.Slow|command.OneState) != 0 || b.x.remote || len(c.Args)+len(c.Queue) > heavyArgs {
			return false
		}
		if c.writes() && b.x.eng.Congested() {
			b.x.Stats.Slowed.Add(1)
			return false
		}
	} else if flags := c.flags(); !b.alone && flags&command.Alone != 0 || !b.frozen && flags&command.OneState != 0 {
		return false
	}
	if b.rows.Len() >= batchRows || b.rows.Size() >= batchBytes || c.Watch != nil && len(b.fx.Touched) > 0 {
		b.commit()
	}
	for {
		ok, err := b.begin()
		if err != nil {
			c.Wait, c.Own = 0, false
			b.fail(c, err)
			return true
		}
		if !ok {
			return false
		}
		latched, write := b.latchKeys(c)
		if !latched {
			if len(b.replies) == 0 {
				return false // this was a fresh batch already
			}
			b.commit()
			continue
		}
		switch b.attempt(c, write) {
		case answered:
			if b.needy == c.Cmd && b.tx.Reads() < 2 {
				b.needy = nil
			}
			if len(b.fx.Ready) > 0 {
				b.wake()
			}
			return true
		case blocks:
			return true
		case unlatched:
			b.needy = c.Cmd
			if b.tryLatch(b.keys) {
				continue // now with its latch
			}
			return false
		case tooHeavy:
			c.Heavy = true
			return false
		case unseen:
			c.Whole = true
			return false
		case yielded:
			c.Yielded = true
			return false
		case cold:
			b.x.Stats.Cold.Add(1)
			c.Cold = true
			return false
		}
	}
}

// verdict is what came of running a call.
type verdict int

const (
	answered  verdict = iota // with a result or an error
	blocks                   // it waits
	unlatched                // it must be run again with the latch of its key
	tooHeavy                 // it is for a worker
	unseen                   // and needs one state of all keys
	yielded                  // it gave way
	cold                     // or needs rows from disk
)

// attempt runs a call whose latches are held, as far as they are needed. Unless it
// is answered the call has left no trace.
func (b *Batch) attempt(c *Call, write bool) verdict {
	start := len(c.Reply.Buf)
	mark := b.tx.Start()
	b.nested, b.next, b.reads = 0, 0, 0
	// Without keys there are no latches: such a call must not write, whatever
	// its handler thinks of its arguments.
	b.tx.DB, b.tx.Writable = c.DB, write && (len(b.keys) > 0 || b.alone || b.frozen)
	b.tx.Latched = write || len(b.keys) != 1 || b.x.latches.tab[b.keys[0]].owner.Load() == b.id
	b.tx.Worker = b.worker && (write || b.frozen)
	b.tx.OneState = b.frozen || b.alone
	b.tx.By = c.By
	messages := len(b.fx.Messages)
	err := b.exec(c)
	if failed := b.tx.Err(); failed != nil {
		err = failed
	}
	if c.Streamed {
		c.Failed = err != nil
		return answered
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
		case w == nil && waits || b.again(err):
			b.tx.Rollback(mark)
		default:
			b.tx.Undo(mark)
		}
		c.Reply.Buf = c.Reply.Buf[:start]
		switch {
		case errors.Is(err, keyspace.ErrLatch):
			if b.tx.Latched {
				return tooHeavy
			}
			return unlatched
		case errors.Is(err, keyspace.ErrHeavy):
			return tooHeavy
		case errors.Is(err, keyspace.ErrWhole):
			return unseen
		case errors.Is(err, keyspace.ErrYield):
			return yielded
		case !b.worker && errors.Is(err, engine.ErrCold):
			return cold
		case waits:
			if w != nil {
				b.x.enqueue(w)
			}
			c.Blocked = true
			c.Wait, c.Own = 0, false
			return blocks
		}
		b.fail(c, err)
	} else if len(c.Reply.Buf) > start && c.Reply.Buf[start] == '-' {
		c.Failed = true // a script's own error, which undoes nothing
	}
	b.used(c, write)
	if len(b.fx.Messages) > messages {
		b.told = max(b.told, c.Wait)
	}
	b.note(c, start)
	return answered
}

// again says that an execution ended because it must be run in another way.
func (b *Batch) again(err error) bool {
	return errors.Is(err, keyspace.ErrLatch) || errors.Is(err, keyspace.ErrHeavy) || errors.Is(err, keyspace.ErrWhole) ||
		!b.worker && errors.Is(err, engine.ErrCold)
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

// Prefetch notes the keys of a command that will be run soon; Fetch then gives
// the engine the chance to bring their rows nearer, all at once.
func (b *Batch) Prefetch(cmd *command.Command, args [][]byte, db int) {
	if len(cmd.Keys) == 0 || len(b.soon) >= maxSoon && !b.fetched {
		return
	}
	if i, one := cmd.OneKeyAt(); one {
		if i < len(args) {
			b.expect(args[i], db)
		}
		return
	}
	b.args, b.db = args, db
	cmd.EachKey(args, b.eachExpect)
}

func (b *Batch) expect(key []byte, db int) {
	if b.fetched {
		b.forget()
	}
	if len(key) > longKey || len(b.soon) >= maxSoon {
		return
	}
	at := len(b.soonBytes)
	b.soonBytes = b.x.space.AppendRowKey(b.soonBytes, db, key)
	b.soon = append(b.soon, b.soonBytes[at:len(b.soonBytes):len(b.soonBytes)])
	b.soonLatches = append(b.soonLatches, b.x.latches.of(key))
}

const (
	maxSoon = 256
	longKey = 1 << 10 // copying it would cost more than a prefetch brings
)

// PrefetchFirst is Prefetch for the first command of some input that was not
// parsed yet, if it has its key in the first argument.
func (b *Batch) PrefetchFirst(t *command.Table, in []byte, db int) {
	name, key := wire.Peek(in)
	if key == nil {
		return
	}
	if cmd := t.Lookup(name); cmd != nil && cmd.Run != nil && len(cmd.Keys) > 0 && cmd.Keys[0].Begin.Index == 1 {
		b.expect(key, db)
	}
}

// Fetch fetches what Prefetch noted. It returns how many of those rows the batch
// cannot read, since they are not in memory and it may not wait.
func (b *Batch) Fetch() (cold int) {
	if b.fetched {
		b.forget()
	}
	if ok, err := b.begin(); ok && err == nil && len(b.soon) > 1 {
		cold = b.tx.Rows.View.Prefetch(b.soon)
	}
	sum := uint32(0)
	for _, i := range b.soonLatches { // a tight loop: the cache misses overlap
		sum += b.x.latches.tab[i].owner.Load()
	}
	b.touched += sum
	b.fetched = true
	if b.worker {
		return 0 // what was cold has been loaded
	}
	return cold
}

func (b *Batch) forget() {
	b.fetched = false
	b.soon, b.soonBytes, b.soonLatches = b.soon[:0], b.soonBytes[:0], b.soonLatches[:0]
}

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
	if b.frozen && c.Sink != nil {
		ctx.Sink = func(w *wire.Writer) error {
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

func (b *Batch) fail(c *Call, err error) {
	c.Failed = true
	c.Reply.Error(command.Text(err))
}

// latchKeys finds the stripes of the call's keys and takes their latches if the
// command writes, may wait, or reads several keys. Another read of one key goes
// without.
func (b *Batch) latchKeys(c *Call) (ok, write bool) {
	write = c.writes()
	b.keys = b.keys[:0]
	if b.alone || b.frozen {
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
	if len(b.keys) == 0 || (len(b.keys) == 1 && c.Cmd.Flags&(command.Write|command.MayReplicate|command.Blocking) == 0 && c.Watch == nil && c.Queue == nil && !b.worker) {
		if b.needy == c.Cmd {
			b.tryLatch(b.keys) // else it tries without
		}
		return true, write
	}
	if b.worker && len(b.held) == 0 {
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
		if s.owner.Load() == b.id {
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

// note remembers that the call's reply, from an offset on, belongs to this batch.
func (b *Batch) note(c *Call, start int) {
	end := len(c.Reply.Buf)
	if n := len(b.replies); n > 0 && b.replies[n-1].to == c.Reply && b.replies[n-1].end == start {
		b.replies[n-1].end = end
		b.replies[n-1].n++
		return
	}
	b.replies = append(b.replies, replies{c.Reply, c.Guard, start, end, 1})
}

// Commit commits what the batch holds and closes it. It returns the ticket of
// the newest commit since the last call, zero if there was none. When a commit
// fails, all replies of the batch have become errors.
func (b *Batch) Commit() engine.Ticket {
	b.guard = nil
	if b.open {
		b.commit()
	}
	t := b.ticket
	b.ticket = 0
	return t
}

// Tell commits what the batch holds if somebody may hear of it, so that its client
// does before its next command is run. guard is what the caller holds.
func (b *Batch) Tell(guard sync.Locker) {
	if b.open && b.x.listener != nil && b.fx.Told(b.x.space) {
		b.guard = guard
		b.commit()
	}
}

// TellOf is Tell if the batch has changed one of the keys that a command names.
func (b *Batch) TellOf(cmd *command.Command, args [][]byte, guard sync.Locker) {
	if !b.open || len(b.fx.Touched) == 0 {
		return
	}
	changed := false
	cmd.EachKey(args, func(i int, _ *command.KeySpec) {
		changed = changed || slices.ContainsFunc(b.fx.Touched, func(t keyspace.Touch) bool {
			return t.Key == nil || bytes.Equal(t.Key, args[i])
		})
	})
	if changed {
		b.Tell(guard)
	}
}

func (b *Batch) commit() {
	var t engine.Ticket
	var err error
	if !b.rows.Empty() {
		t, err = b.tx.Rows.View.Commit(&b.rows)
	}
	if err != nil {
		b.spoil(fmt.Errorf("commit: %w", err))
	} else {
		b.x.space.Publish(&b.fx)
		for _, w := range b.served {
			if w.Serving != nil {
				w.Serving()
			}
		}
		b.effects(t)
	}
	if t != 0 {
		b.x.Stats.Commits.Add(1)
		b.ticket = t
		if t <= b.x.eng.Durable() {
			t = 0
		}
	}
	if b.alone && t != 0 {
		b.x.wholeLast.Store(uint64(t))
	}
	b.unlatch(t)
	b.tx.Rows.View.Close()
	if !b.frozen {
		b.unlock()
	}
	b.open = false
	if len(b.served)+len(b.later) > 0 {
		b.tellServed(b.ticket)
	}
	b.rows.Reset()
	b.fx.Reset()
	b.told, b.tx.By = 0, 0
	clear(b.replies)
	b.replies = b.replies[:0]
	b.args, b.call = nil, nil // they may point into a large buffer
	for i := range b.ctxs {
		b.ctxs[i].Args, b.ctxs[i].Queue, b.ctxs[i].Caller = nil, nil, nil
	}
	b.err = err
}

// spoil turns every reply of the batch into an error.
func (b *Batch) spoil(err error) {
	text := command.Text(err)
	for _, r := range slices.Backward(b.replies) { // so that offsets stay right
		if r.mu != nil && r.mu != b.guard {
			r.mu.Lock()
			r.spoil(text)
			r.mu.Unlock()
		} else {
			r.spoil(text)
		}
	}
	b.x.log.Error("commit failed", "err", err)
}

func (r *replies) spoil(text string) {
	if len(r.to.Buf) < r.end {
		return // the connection was closed since
	}
	behind := slices.Clone(r.to.Buf[r.end:])
	r.to.Buf = r.to.Buf[:r.start]
	for range r.n {
		r.to.Error(text)
	}
	r.to.Buf = append(r.to.Buf, behind...)
}

// effects tells the world what the batch did.
func (b *Batch) effects(t engine.Ticket) {
	f := &b.fx
	if f.Hits != 0 {
		b.x.Stats.Hits.Add(int64(f.Hits))
	}
	if f.Misses != 0 {
		b.x.Stats.Misses.Add(int64(f.Misses))
	}
	if f.Dropped != 0 {
		b.x.Stats.Dropped.Add(int64(f.Dropped))
	}
	if f.Expired != 0 {
		b.x.Stats.Expired.Add(int64(f.Expired))
	}
	if f.Changes != 0 {
		b.x.Stats.Changes.Add(int64(f.Changes))
	}
	if f.Garbage != 0 {
		b.x.sweep.wakeClearing()
	}
	if len(f.Touched) > 0 {
		b.x.watching.touched(b, f.Touched)
	}
	if b.x.listener != nil && f.Told(b.x.space) {
		b.x.listener(f, max(t, b.told))
	}
}

// flags are those of the command, and of the commands in its queue that say how it
// must be run.
func (c *Call) flags() command.Flags {
	f := c.Cmd.Flags
	for i := range c.Queue {
		f |= c.Queue[i].Cmd.Flags & (command.Write | command.MayReplicate | command.Slow | command.Alone)
		if cmd := c.Queue[i].Cmd; cmd.Flags&command.OneState != 0 || cmd.Run == nil && cmd.Flags&command.Repeatable == 0 {
			f |= command.Alone
		}
	}
	return f
}

// writes says whether the call may change keys.
func (c *Call) writes() bool {
	if c.Queue != nil { // who watches keys must hold their latches
		return c.Watch != nil || c.flags()&(command.Write|command.MayReplicate) != 0
	}
	return c.Cmd.Flags&(command.Write|command.MayReplicate) != 0 && (c.Cmd.ReadsOnly == nil || !c.Cmd.ReadsOnly(c.Args))
}

// ready is the ticket that must be durable before the reply is sent.
func (c *Call) ready(own engine.Ticket) engine.Ticket {
	if c.Own {
		return max(c.Wait, own)
	}
	return c.Wait
}

// NewWaitingBatch makes a batch for a goroutine that may wait and may take
// long. Only commands that need the whole keyspace or one state of it are
// refused by its Run.
func (x *Executor) NewWaitingBatch() *Batch {
	b := x.NewBatch()
	b.worker = true
	return b
}
