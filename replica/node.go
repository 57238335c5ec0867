package replica

import (
	"errors"
	"fmt"
	"log/slog"
	"math"
	"sync"
	"sync/atomic"
	"time"

	pb "go.etcd.io/raft/v3/raftpb"

	"redoubt/journal"
	"redoubt/replica/state"
)

// A Node is one replica at work: it owns a Core, the log, the state file, the time, and
// the order in which a Machine above it learns what happened.
//
//	Append (leader)            messages, time, fsyncs
//	    |                              |
//	    +------- one critical section: Core, writes ------> log, state file
//	                                   |                +-> Send
//	                                events
//	                                   |
//	                    one goroutine, in order: Machine
//
// Invariants:
//  1. Core, log and state file are touched with mu held. Nothing waits there but for the
//     disk: Send does not.
//  2. have is the newest entry that the machine's memory has. On the leader Append raises
//     it before the machine has the rows, as the machine's own commit is what calls Append.
//     On a follower the machine is behind the commits, and never ahead of them.
//  3. A machine that is ahead of the commits goes back when entries that it has are cut: not
//     when its node loses the leadership. Between a cut and the end of Rewind, Durable
//     stays at the cut: no reply of a void entry is given for one of the entry that
//     has its index now.
//  4. Entries of another leader are given to Apply after Follow has returned.
type Node struct {
	o       NodeOptions
	id      uint64
	machine Machine

	log  *Journal
	done sync.WaitGroup
	quit chan struct{}

	mu       sync.Mutex
	core     *Core
	life     int // the number of the core: another one is made after a full disk
	file     *state.File
	role     Role
	writable bool // Append may propose
	have     uint64
	commit   uint64   // the newest of the core
	cuts     []uint64 // behind which the machine still has void entries
	pending  []doing  // writes that are not durable yet, in order
	asked    map[string]chan error
	question uint64
	closed   bool
	err      error

	queue []occurrence // for the machine; guarded by mu
	wake  chan struct{}
	news  chan struct{} // has a token when OnDurable is to be called

	epochs   atomic.Uint64 // changed with mu held
	applied  atomic.Uint64 // the newest entry that the machine need not be given any more
	durable  atomic.Uint64
	last     atomic.Uint64 // have, for readers without mu
	lease    atomic.Int64  // see Leads
	failed   atomic.Pointer[error]
	changed  *sync.Cond // on mu: durable, epoch or err has changed
	leading  uint64     // the term in which the machine leads; 0: it follows. Of run alone.
	figures  nodeFigures
	roleInfo atomic.Pointer[Role]
}

// Machine is what the entries are for. All calls but those that it makes itself come from one
// goroutine.
type Machine interface {
	// Apply takes the next committed entry, which the machine does not have. An empty payload
	// is that of an entry without rows. The payload is valid during the call.
	Apply(index uint64, payload []byte) error
	// Void tells that the entries above kept, of which the machine has some, will never be
	// committed; all up to kept are. Whoever waits for one of the others must have an error
	// instead: Durable grows past them when Void has returned.
	Void(kept uint64)
	// Rewind takes the machine back to what it was after entry kept.
	Rewind(kept uint64) error
	// Lead tells that the machine has all that was ever committed and may append from now on.
	// It is called once in a term at most. An error that is no ErrNotLeader ends the node.
	Lead(term uint64) error
	// Follow tells that the machine may not append any more. When Follow returns, nothing
	// that was evaluated before is under way.
	Follow()
}

// NodeOptions are how a node is opened.
type NodeOptions struct {
	FS           journal.FS
	Dir          string     // of the log
	State        string     // the path of the state file
	StateFS      journal.FS // of it; FS if nil
	SegmentBytes int64      // of the log
	Policy       journal.Policy
	Voters       []uint64
	// Return says how the node takes part if its state says that it is returning.
	Return *Return
	// Send gives a message to the transport. It must not wait, and may lose the message.
	Send func(m Message)
	// OnDurable is called without locks when Durable or Err has changed.
	OnDurable func()
	Tick      time.Duration        // 100 ms if zero
	Election  int                  // ticks; 10 if zero
	Clock     func() time.Duration // the package's if nil
	Now       func() time.Time     // what entries are dated by; time.Now if nil
	Boot      state.ID             // of the machine
	Logger    *slog.Logger
	// Retain is how many bytes of log are kept for followers that are behind; 1 GiB if zero.
	Retain int64
	// For tests: see journal.Options.
	JournalTick <-chan time.Time
	LogID       uint32
}

// doing is a write that is not durable yet.
type doing struct {
	position uint64
	write    Write
}

// occurrence is what the machine is told, in the order in which it happened. One field is set.
type occurrence struct {
	apply *Apply
	life  int // of the core that wants to hear that it is applied
	role  *Role
	cut   *uint64
}

type nodeFigures struct {
	elections, rewinds, failedWrites atomic.Int64
}

// Errors of opening a node. Each text says what to do.
var (
	// ErrForgot: the node may have forgotten what it promised, and Return was not given.
	ErrForgot = errors.New("this node may have forgotten what it acknowledged")
	// ErrBehind: no other node has the entries that follow the newest one of this node.
	ErrBehind = errors.New("this node is behind the logs of the others")
	// ErrUnknownOutcome: whether the entry is committed is not known.
	ErrUnknownOutcome = errors.New("whether the entry is committed is not known")
)

// OpenNode opens the log and the state file of a replica. have is what the machine has by
// itself. replay is given what is known to be committed behind that, each entry, with an empty
// payload if it has no rows. Start begins.
func OpenNode(o NodeOptions, have journal.Applied, replay func(index uint64, payload []byte) error, progress func(done, total int64)) (*Node, error) {
	if o.Tick <= 0 {
		o.Tick = 100 * time.Millisecond
	}
	if o.Election <= 0 {
		o.Election = 10
	}
	if o.Clock == nil {
		o.Clock = Clock
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.FS == nil {
		o.FS = journal.OS
	}
	if o.Policy == 0 {
		o.Policy = journal.EverySec
	}
	if o.Retain <= 0 {
		o.Retain = 1 << 30
	}
	if o.OnDurable == nil {
		o.OnDurable = func() {}
	}
	n := &Node{o: o, quit: make(chan struct{}), wake: make(chan struct{}, 1), news: make(chan struct{}, 1), asked: make(map[string]chan error)}
	n.changed = sync.NewCond(&n.mu)
	n.roleInfo.Store(&Role{})
	if o.StateFS == nil {
		o.StateFS = o.FS
	}
	file, err := state.Open(o.StateFS, o.State)
	if err != nil {
		return nil, err
	}
	n.file = file
	if err := n.remembers(); err != nil {
		return nil, errors.Join(err, file.Close())
	}
	s := file.State()
	n.id = s.RaftID
	if file.Repaired {
		o.Logger.Warn("one of the two copies of the replica's state was damaged and was written again: check the disk", "file", o.State)
	}
	log, err := journal.OpenRaft(journal.Options{
		FS: o.FS, Dir: o.Dir, SegmentBytes: o.SegmentBytes, Policy: o.Policy, Logger: o.Logger,
		OnDurable: n.synced, Tick: o.JournalTick, LogID: o.LogID,
	}, have, func(h journal.RaftHead, payload []byte) error {
		if h.Type != journal.EntryRows {
			payload = nil
		}
		return replay(h.Index, payload)
	}, progress)
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	n.log = &Journal{RaftLog: log}
	n.setHave(log.Committed())
	n.applied.Store(n.have)
	n.durable.Store(n.have)
	return n, nil
}

// remembers notes the start of this process, and refuses a node that may have lost what it
// acknowledged.
func (n *Node) remembers() error {
	s := n.file.State()
	if n.o.Return == nil && (s.Returning || Forgot(s, n.o.Policy, n.o.Boot)) {
		return fmt.Errorf("%w: as replica %d it must not vote before it has caught up", ErrForgot, s.RaftID)
	}
	s.Boot, s.Clean, s.Returning = n.o.Boot, false, n.o.Return != nil
	return n.file.Set(s)
}

// Forgot reports whether a node may have lost what it acknowledged: the machine was started anew since,
// without a clean end of the node, and the policy does not wait for fsyncs.
func Forgot(s state.State, policy journal.Policy, boot state.ID) bool {
	return policy != journal.Always && s.Term > 0 && !s.Remembers(boot)
}

// Start begins to take part. The machine has what OpenNode has replayed.
func (n *Node) Start(m Machine) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.machine = m
	if err := n.newCore(); err != nil {
		return err
	}
	n.act()
	n.done.Go(n.run)
	n.done.Go(n.tick)
	n.done.Go(n.tellOwner)
	return nil
}

// newCore makes a core of what is on disk. mu is held.
func (n *Node) newCore() (err error) {
	// The core takes all that the log has for durable.
	if err := n.log.Sync(n.log.Position()); err != nil {
		return err
	}
	n.life++
	n.pending = nil
	n.core, err = New(Options{
		State: n.file.State(), Voters: n.o.Voters, Log: n.log, Applied: n.applied.Load(), Return: n.o.Return,
		Tick: n.o.Tick, Election: n.o.Election, Now: n.o.Clock(), Logger: n.o.Logger,
	})
	return err
}

// Stop ends the part that the node takes: the machine is told nothing more.
func (n *Node) Stop() {
	n.mu.Lock()
	closed := n.closed
	n.closed, n.writable = true, false
	n.lease.Store(math.MinInt64)
	n.changed.Broadcast()
	n.mu.Unlock()
	if !closed {
		close(n.quit)
	}
	n.done.Wait()
}

// Close is Stop, and makes durable all that the node has.
func (n *Node) Close() error {
	n.Stop()
	err := n.log.Close()
	n.mu.Lock()
	defer n.mu.Unlock()
	n.answerAll(journal.ErrClosed)
	if s := n.file.State(); err == nil && n.err == nil {
		s.Clean = true
		err = n.file.Set(s)
	}
	return errors.Join(err, n.file.Close())
}

func (n *Node) tick() {
	t := time.NewTicker(n.o.Tick)
	defer t.Stop()
	for {
		select {
		case <-n.quit:
			return
		case <-t.C:
			n.event(func(now time.Duration) error { return n.core.Tick(now) })
		}
	}
}

// event runs one event of the core and does what follows from it.
func (n *Node) event(do func(now time.Duration) error) {
	n.mu.Lock()
	if !n.stopped() && n.core != nil {
		if err := do(n.o.Clock()); errors.Is(err, ErrBroken) {
			n.fail(err)
		}
		n.act()
	}
	n.mu.Unlock()
}

func (n *Node) stopped() bool { return n.closed || n.err != nil }

// tellOwner calls OnDurable when something has changed: from a goroutine of its own, since who
// appends holds latches.
func (n *Node) tellOwner() {
	for {
		select {
		case <-n.quit:
			return
		case <-n.news:
			n.o.OnDurable()
		}
	}
}

// synced is called by the log when more of it is durable, or it has failed.
func (n *Node) synced() {
	n.event(func(time.Duration) error { return nil })
}

// Receive takes a message of the node from, as its transport has authenticated it.
func (n *Node) Receive(from uint64, b []byte) error {
	m, err := ParseMessage(b)
	if err != nil {
		return err
	}
	if m.Raft.GetFrom() != from {
		return fmt.Errorf("%w: replica %d sends as %d", errMessage, from, m.Raft.GetFrom())
	}
	n.event(func(now time.Duration) error { return n.core.Step(now, m) })
	return nil
}

// act does what the core asks for. mu is held.
func (n *Node) act() {
	for n.err == nil {
		a := n.core.Actions()
		if a.Role != nil {
			n.becomes(*a.Role)
		}
		for _, w := range a.Writes {
			if !n.write(w) {
				return // what was to be sent has not happened
			}
		}
		for _, m := range a.Send {
			n.o.Send(m)
		}
		for i := range a.Apply {
			n.tell(occurrence{apply: &a.Apply[i], life: n.life})
		}
		for _, r := range a.Reads {
			n.answer(r.Context, nil)
		}
		if !n.written() && len(a.Writes)+len(a.Apply)+len(a.Send)+len(a.Reads) == 0 && a.Role == nil {
			break
		}
	}
	n.update()
	if n.err == nil && n.core.Returned() {
		n.returned()
	}
}

// returned makes the node one like all others again: it has caught up.
func (n *Node) returned() {
	err := n.log.Sync(n.log.Position())
	if err == nil {
		s := n.file.State()
		s.Returning = false
		err = n.file.Set(s)
	}
	if err != nil {
		n.fail(err)
		return
	}
	n.o.Return = nil
	n.o.Logger.Info("this node has caught up with the others, and votes again", "replica", n.id, "last", n.log.Last())
	n.rebuild()
}

// Abandon ends the part that the node takes, for good: when it is opened again it is a returning
// one.
func (n *Node) Abandon(why error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.stopped() {
		return
	}
	s := n.file.State()
	s.Returning = true
	if err := n.file.Set(s); err != nil {
		why = errors.Join(why, err)
	}
	n.fail(why)
}

// write does one write, and reports whether it was done.
func (n *Node) write(w Write) bool {
	err := w.Perform(n.file, n.log)
	left := n.log.Last()
	if w.HasCut {
		left = min(left, w.Cut)
	}
	if left < n.have {
		n.figures.rewinds.Add(1)
		n.cuts = append(n.cuts, left)
		n.epochs.Add(1)
		n.setHave(left)
		n.tell(occurrence{cut: &left})
	}
	switch {
	case err == nil:
	case errors.Is(err, journal.ErrFull):
		// Nothing of the entry is in the log, and nothing was sent: the core forgets what
		// it believed, and this node is a follower until it has space.
		n.figures.failedWrites.Add(1)
		n.o.Logger.Error("the log has no space: this node takes nothing until there is some", "err", err)
		n.rebuild()
		return false
	default:
		n.fail(err)
		return false
	}
	n.pending = append(n.pending, doing{n.log.Position(), w})
	return true
}

// rebuild makes a new core of what is on disk, after a write that has left nothing there.
func (n *Node) rebuild() {
	n.becomes(Role{Term: n.role.Term})
	if err := n.newCore(); err != nil {
		n.fail(err)
		return
	}
	n.update()
}

// written tells the core of the writes that are durable, and reports whether there were any.
func (n *Node) written() bool {
	if len(n.pending) == 0 {
		return false
	}
	if err := n.log.Err(); err != nil {
		n.fail(err)
		return false
	}
	durable, told := n.log.Durable(), 0
	for _, d := range n.pending {
		if d.position > durable {
			break
		}
		told++
		if err := n.core.Written(n.o.Clock(), d.write); err != nil {
			n.fail(err)
			return false
		}
	}
	n.pending = n.pending[told:]
	if len(n.pending) == 0 {
		n.pending = nil
	}
	return told > 0
}

// update makes public what may have changed. mu is held.
func (n *Node) update() {
	if n.err != nil {
		return
	}
	_, commit := n.core.Status()
	if commit > n.commit {
		n.commit = commit
		n.changed.Broadcast()
	}
	d := commit
	for _, cut := range n.cuts {
		d = min(d, cut)
	}
	if d > n.durable.Load() {
		n.durable.Store(d)
		poke(n.news)
		n.changed.Broadcast()
	}
	if lease := int64(n.core.Lease()); n.writable {
		n.lease.Store(lease)
	} else {
		n.lease.Store(math.MinInt64)
	}
}

// becomes takes note of who leads.
func (n *Node) becomes(r Role) {
	if was := n.role; r.Leads != was.Leads || r.Leader != was.Leader {
		switch {
		case r.Leads:
			n.figures.elections.Add(1)
			n.o.Logger.Info("this node is elected leader, and serves when it has all that was committed", "replica", n.id, "term", r.Term)
		case was.Leads && r.Leader == 0:
			n.o.Logger.Warn("this node is no leader any more: it does not reach a majority, or another node wants to lead", "replica", n.id, "term", r.Term)
		case r.Leader == 0:
			n.o.Logger.Warn("no leader is known", "replica", n.id, "term", r.Term, "was", was.Leader)
		default:
			n.o.Logger.Info("this node follows a leader", "replica", n.id, "leader", r.Leader, "term", r.Term)
		}
	}
	lost := n.role.Leads && (!r.Leads || r.Term != n.role.Term)
	n.role = r
	n.roleInfo.Store(&r)
	if lost {
		n.writable = false
		n.epochs.Add(1)
		n.lease.Store(math.MinInt64)
		n.answerAll(ErrNotLeader)
		n.changed.Broadcast()
	}
	n.tell(occurrence{role: &r})
}

// fail ends the node: it takes no part any more.
func (n *Node) fail(err error) {
	if n.err != nil {
		return
	}
	if s := n.file.State(); errors.Is(err, ErrBroken) && !s.Returning {
		s.Returning = true // what it has may not be what it acknowledged
		err = errors.Join(err, n.file.Set(s))
	}
	n.err = fmt.Errorf("this replica has stopped: %w", err)
	n.writable = false
	n.epochs.Add(1)
	n.lease.Store(math.MinInt64)
	n.failed.Store(&n.err)
	n.o.Logger.Error("this replica has stopped; the others go on without it", "replica", n.id, "err", err)
	n.answerAll(n.err)
	poke(n.news)
	n.changed.Broadcast()
	n.tell(occurrence{role: &Role{Term: n.role.Term}})
}

// Err is nil, or says why the node has stopped.
func (n *Node) Err() error {
	if err := n.failed.Load(); err != nil {
		return *err
	}
	return nil
}

func (n *Node) setHave(index uint64) {
	n.have = index
	n.last.Store(index)
}

// tell gives the machine an event. mu is held.
func (n *Node) tell(e occurrence) {
	n.queue = append(n.queue, e)
	poke(n.wake)
}

// poke wakes the goroutine that receives from c. It never blocks: one token is enough.
func poke(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// run gives the events to the machine.
func (n *Node) run() {
	var list []occurrence
	for {
		select {
		case <-n.quit:
			return
		case <-n.wake:
		}
		n.mu.Lock()
		list, n.queue = n.queue, list[:0]
		n.mu.Unlock()
		for _, e := range list {
			err := n.happen(e)
			if err != nil {
				n.mu.Lock()
				n.fail(err)
				n.mu.Unlock()
			}
		}
		clear(list)
	}
}

func (n *Node) happen(e occurrence) error {
	switch {
	case e.role != nil:
		if n.leading != 0 && (!e.role.Leads || e.role.Term != n.leading) {
			n.leading = 0
			n.machine.Follow()
		}
	case e.cut != nil:
		return n.rewind(*e.cut)
	default:
		for _, entry := range e.apply.Entries {
			if n.Err() != nil {
				return nil
			}
			if err := n.applyOne(entry); err != nil {
				return err
			}
		}
		n.event(func(now time.Duration) error {
			if e.life != n.life {
				return nil
			}
			return n.core.Applied(now, *e.apply)
		})
	}
	return nil
}

// rewind has the machine forget what is behind a cut.
//
// It waits until all that stays is committed, or cut as well: then each entry of before is
// either durable or void.
func (n *Node) rewind(cut uint64) error {
	n.mu.Lock()
	for !n.stopped() && len(n.cuts) == 1 && n.commit < cut {
		n.changed.Wait()
	}
	cuts := len(n.cuts)
	for _, c := range n.cuts {
		cut = min(cut, c)
	}
	stopped := n.stopped()
	n.mu.Unlock()
	if stopped {
		return nil
	}
	if cuts > 1 {
		// The machine goes back once, for the last of them.
		n.mu.Lock()
		n.cuts = append(n.cuts[:0], n.cuts[1:]...)
		n.cuts[0] = cut
		n.mu.Unlock()
		return nil
	}
	n.o.Logger.Warn("another leader has not got the newest writes of this node: they are void and taken back", "replica", n.id, "kept", cut)
	start := time.Now()
	n.machine.Void(cut)
	if err := n.machine.Rewind(cut); err != nil {
		return fmt.Errorf("taking back void entries: %w", err)
	}
	n.mu.Lock()
	n.cuts = nil
	n.update()
	n.mu.Unlock()
	n.o.Logger.Info("void writes are taken back", "replica", n.id, "took", time.Since(start).Round(time.Millisecond))
	return nil
}

func (n *Node) applyOne(e *pb.Entry) error {
	index := e.GetIndex()
	head, payload, err := Decode(e)
	if err != nil {
		return err
	}
	if head.Version > entryVersion {
		return fmt.Errorf("entry %d has version %d, this program knows %d: start this node with a newer program", index, head.Version, entryVersion)
	}
	n.mu.Lock()
	has := index <= n.have
	n.mu.Unlock()
	if !has {
		if head.Type != journal.EntryRows {
			payload = nil
		}
		if err := n.machine.Apply(index, payload); err != nil {
			return fmt.Errorf("applying entry %d: %w", index, err)
		}
		n.mu.Lock()
		n.setHave(max(n.have, index))
		n.mu.Unlock()
	}
	n.applied.Store(max(n.applied.Load(), index))
	if head.Type != journal.EntryEmpty {
		return nil
	}
	n.mu.Lock()
	leads := n.role.Leads && n.role.Term == e.GetTerm() && n.err == nil
	if leads {
		n.epochs.Add(1)
		n.writable = true
		n.update()
	}
	n.mu.Unlock()
	if !leads {
		return nil
	}
	n.leading = e.GetTerm()
	if err := n.machine.Lead(e.GetTerm()); err != nil && !errors.Is(err, ErrNotLeader) {
		return fmt.Errorf("beginning to lead: %w", err)
	}
	return nil
}

// entryVersion is the version of the rows that entries have.
const entryVersion = 0
