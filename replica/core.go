// Package replica has what makes several stores one: the agreement on the order of
// commits, by Raft (issue 17, docs/adr/0030 and 0034).
//
// A Core is the part without I/O. Events go in by its methods: time, messages,
// proposals, writes that are done. What is to be done comes out as Actions: what to write,
// send, apply. Its owner does that, with a journal (Journal), a state file (replica/state)
// and a transport: in a server that is a Node. So a simulation runs hundreds of histories of whole clusters a minute,
// with crashes, in one goroutine (sim_test.go).
//
// What a Core promises, given that its owner does what it asks:
//  1. At most one leader in a term.
//  2. What is given to be applied is the same at each index on all nodes, and is
//     never taken back, as long as no quorum has forgotten what it wrote.
//  3. While Lease says so, no other node has become leader.
package replica

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"go.etcd.io/raft/v3"
	pb "go.etcd.io/raft/v3/raftpb"

	"redoubt/journal"
	"redoubt/replica/state"
)

// Errors of a Core.
var (
	// ErrNotLeader: nothing happened; another node is the leader, or none.
	ErrNotLeader = journal.ErrNotLeader
	// ErrCongested: nothing happened; too much is proposed that is not committed.
	ErrCongested = journal.ErrCongested
	// ErrBroken: something happened that cannot. The node must stop: what it has in memory is
	// of no use, and it must not be started again as who it was.
	ErrBroken = errors.New("this replica is broken")
)

// Options are how a Core is made. All but Logger are needed.
type Options struct {
	State    state.State // who this node is, its term and vote
	Voters   []uint64    // the Raft ids of the group, this node's among them
	Log      Log
	Applied  uint64        // the newest entry that the owner has applied
	Tick     time.Duration // how often the owner calls Tick
	Election int           // so many ticks without a leader begin an election, or up to twice as many
	Now      time.Duration // see Tick
	Logger   *slog.Logger
	// Return is nil, or how a node comes back that may have forgotten what it promised.
	Return *Return
	// MaxWaiting is how many bytes may be proposed and not committed; 32 MiB if zero.
	MaxWaiting uint64
}

// Return is how a node comes back that may have forgotten entries that it acknowledged, or votes
// that it gave: it lost its files, or machine and memory lost power before an fsync.
//
// Such a node is silent, but for asking each other node for its term. The greatest of their
// terms is Floor. From then on it takes messages of leaders of later terms only, and neither votes
// nor becomes leader. A leader that hears of it hands its leadership over, so that there is a later
// term. When the node has an entry of such a term, it is one like all others again.
//
// Why that is safe, as long as fewer than a majority return at a time:
//   - The leader of a term above Floor was elected by a majority without this node, which was
//     silent. That majority and the one that acknowledged a committed entry share a node, and it is
//     another one than this. So the leader has all entries that were committed by what this
//     node acknowledged, and this node has them when it has an entry of that leader's term.
//   - A vote that it has forgotten was for a candidate that had stored the term before
//     it asked. That candidate was asked for its term, or has forgotten its candidacy, too. Hence
//     the term is Floor at the most, and this node does not vote in such terms again.
//   - The leader knows nothing of what this node acknowledged before: it begins its term
//     with no knowledge of others.
type Return struct{ Floor uint64 }

// Message is what nodes send each other.
type Message struct {
	Raft *pb.Message
	// Stamp is the sender's clock, if the sender is the leader.
	Stamp time.Duration
	// Echo is the newest stamp of the leader of EchoTerm that the sender had.
	Echo     time.Duration
	EchoTerm uint64
}

// Write is what to make durable, in this order: State, then the cut, then the entries.
// Several writes are done in the order in which they came. When one is durable, Written
// is called with it.
type Write struct {
	// Term and Vote go to the state file, and must be fsynced, if HasState.
	Term, Vote uint64
	HasState   bool
	// Commit is for the log to note, if not 0.
	Commit uint64
	// The entries behind Cut are void, if HasCut. Entries follow the last that is left.
	Cut     uint64
	HasCut  bool
	Entries []*pb.Entry

	responses []*pb.Message
}

// Apply is what to apply: the entries of one round, in order. When that is done, Applied
// is called with it.
type Apply struct {
	Entries []*pb.Entry
	done    []*pb.Message
}

// Role is who leads.
type Role struct {
	Leader uint64 // 0 if it is not known
	Term   uint64
	Leads  bool // this node does
}

// Read is a read index: all that was committed when the read was asked for is in the
// entries up to Index.
type Read struct {
	Context string
	Index   uint64
}

// Actions are what to do after some events. Messages may be sent before or
// while writes are done.
type Actions struct {
	Writes []Write
	Send   []Message
	Apply  []Apply
	Reads  []Read
	Role   *Role // if it has changed
}

// Core is one node of a group. It is not safe for concurrent use.
type Core struct {
	o     Options
	id    uint64
	node  *raft.RawNode
	out   Actions
	err   error
	now   time.Duration
	start time.Duration

	role       Role
	last       uint64 // the newest entry that was given to be written
	term, vote uint64 // the newest that were
	lease      Lease

	// The newest stamp of the leader of heardTerm.
	heard     time.Duration
	heardTerm uint64
}

// New returns a node that goes on from what the log and the state file have.
func New(o Options) (c *Core, err error) {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.MaxWaiting == 0 {
		o.MaxWaiting = 32 << 20
	}
	c = &Core{o: o, id: o.State.RaftID, now: o.Now, start: o.Now, last: o.Log.Last(), term: o.State.Term, vote: o.State.Vote}
	c.lease.length = leaseLength(c.election(), o.Tick)
	defer c.guard(&err)
	commit := o.Log.Committed()
	term, err := o.Log.Term(c.last)
	if err != nil {
		return nil, fmt.Errorf("%w: the term of the newest entry %d: %w", ErrBroken, c.last, err)
	}
	// The state is written before entries of its term are.
	if term > o.State.Term {
		return nil, fmt.Errorf("%w: the log has entry %d of term %d, the state file only knows term %d: take this node out of its group and let it join anew", ErrBroken, c.last, term, o.State.Term)
	}
	conf := &pb.ConfState{Voters: o.Voters}
	if o.Return != nil { // a learner does not campaign
		others := slices.DeleteFunc(slices.Clone(o.Voters), func(id uint64) bool { return id == c.id })
		conf = &pb.ConfState{Voters: others, Learners: []uint64{c.id}}
	}
	hard := &pb.HardState{Term: &o.State.Term, Vote: &o.State.Vote, Commit: &commit}
	c.node, err = raft.NewRawNode(&raft.Config{
		ID: c.id, ElectionTick: o.Election, HeartbeatTick: 1,
		Storage: &storage{log: o.Log, hard: hard, conf: conf},
		Applied: o.Applied, AsyncStorageWrites: true,
		MaxSizePerMsg: 1 << 20, MaxCommittedSizePerReady: 4 << 20, MaxUncommittedEntriesSize: o.MaxWaiting,
		MaxInflightMsgs: 256, MaxInflightBytes: 64 << 20,
		CheckQuorum: true, PreVote: true, ReadOnlyOption: raft.ReadOnlySafe,
		Logger: libraryLog{o.Logger}, DisableProposalForwarding: true, StepDownOnRemoval: true,
	})
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrBroken, err)
	}
	c.drain()
	return c, nil
}

func (c *Core) election() time.Duration { return time.Duration(c.o.Election) * c.o.Tick }

// guard makes an error of what the library says by a panic.
func (c *Core) guard(err *error) {
	if p := recover(); p != nil {
		c.err = fmt.Errorf("%w: %v", ErrBroken, p)
		c.lease.End()
	}
	if c.err != nil {
		*err = c.err
	}
}

// event is the frame of all events: it notes the time and has what follows from
// the event added to the actions.
func (c *Core) event(now time.Duration, do func() error) (err error) {
	defer c.guard(&err)
	if c.err != nil {
		return c.err
	}
	c.now = max(c.now, now)
	err = do()
	c.drain()
	return err
}

// Tick is called once in a Tick of the options. now is the time by a clock that goes on
// while the process or the machine is stopped, as in all other events.
func (c *Core) Tick(now time.Duration) error {
	return c.event(now, func() error { c.node.Tick(); return nil })
}

// Step takes a message of another node.
func (c *Core) Step(now time.Duration, m Message) error {
	return c.event(now, func() error {
		r := m.Raft
		if ret := c.o.Return; ret != nil {
			switch r.GetType() {
			case pb.MsgApp, pb.MsgHeartbeat:
			default:
				return nil
			}
			if r.GetTerm() <= ret.Floor {
				return nil
			}
		}
		switch r.GetType() {
		case pb.MsgVote, pb.MsgPreVote:
			// What this node promised to a leader before it was started is forgotten, but
			// holds.
			if now < c.start+c.election() {
				return nil
			}
		case pb.MsgApp, pb.MsgAppResp, pb.MsgVoteResp, pb.MsgPreVoteResp, pb.MsgHeartbeat, pb.MsgHeartbeatResp,
			pb.MsgReadIndex, pb.MsgReadIndexResp, pb.MsgTimeoutNow:
		default:
			return nil // a node asks for nothing else by a message
		}
		if r.GetTo() != c.id {
			return nil
		}
		if err := c.node.Step(r); err != nil {
			c.o.Logger.Debug("replica: a message was not taken", "type", r.GetType(), "from", r.GetFrom(), "err", err)
			return nil
		}
		s := c.node.BasicStatus()
		if r.GetType() == pb.MsgApp || r.GetType() == pb.MsgHeartbeat {
			// Now this node grants no vote for an election timeout.
			if s.Lead == r.GetFrom() && s.GetTerm() == r.GetTerm() {
				if c.heardTerm != r.GetTerm() {
					c.heard, c.heardTerm = 0, r.GetTerm()
				}
				c.heard = max(c.heard, m.Stamp)
			}
		}
		if s.RaftState == raft.StateLeader && c.role.Leads && m.EchoTerm == c.role.Term {
			c.lease.Echo(r.GetFrom(), m.Echo)
		}
		return nil
	})
}

// Propose appends an entry, if this node leads in that term: whoever evaluated what
// the entry says did so in that term. The entry is the last of the last of
// Actions.Writes. An error means that nothing happened.
func (c *Core) Propose(now time.Duration, term uint64, data []byte) (index uint64, err error) {
	err = c.event(now, func() error {
		if s := c.node.BasicStatus(); s.RaftState != raft.StateLeader || s.GetTerm() != term {
			return ErrNotLeader
		}
		switch err := c.node.Propose(data); {
		case errors.Is(err, raft.ErrProposalDropped):
			return ErrCongested // or leadership is being handed over: both pass
		case err != nil:
			return fmt.Errorf("%w: %w", ErrBroken, err)
		}
		return nil
	})
	if err != nil {
		return 0, err
	}
	return c.last, nil
}

// Written tells that a write is durable, and all before it.
func (c *Core) Written(now time.Duration, w Write) error {
	return c.event(now, func() error { return c.respond(w.responses) })
}

// Applied tells that what was given to be applied is.
func (c *Core) Applied(now time.Duration, a Apply) error {
	return c.event(now, func() error { return c.respond(a.done) })
}

func (c *Core) respond(list []*pb.Message) error {
	for _, m := range list {
		if m.GetTo() != c.id {
			c.send(m)
		} else if err := c.node.Step(m); err != nil {
			return fmt.Errorf("%w: %w", ErrBroken, err)
		}
	}
	return nil
}

// ReadIndex asks for a read index by a round of messages: on the leader or a follower.
// There may be no answer; the owner then asks again.
func (c *Core) ReadIndex(now time.Duration, context string) error {
	return c.event(now, func() error { c.node.ReadIndex([]byte(context)); return nil })
}

// Transfer asks another node to become leader. The lease is gone for this term.
func (c *Core) Transfer(now time.Duration, to uint64) error {
	return c.event(now, func() error {
		c.lease.End()
		c.node.TransferLeader(to)
		return nil
	})
}

// Returned reports whether a node with Options.Return has caught up: another Core goes on without.
func (c *Core) Returned() bool {
	if c.o.Return == nil || c.err != nil {
		return false
	}
	term, err := c.o.Log.Term(c.o.Log.Last())
	return err == nil && term > c.o.Return.Floor
}

// Lease is until when no other node can have become leader, by the clock of the events;
// in the past if this node does not lead.
func (c *Core) Lease() time.Duration { return c.lease.Until() }

// Status returns who leads, and up to where entries are committed.
func (c *Core) Status() (r Role, committed uint64) {
	if c.err != nil {
		return Role{Term: c.role.Term}, 0
	}
	return c.role, c.node.BasicStatus().GetCommit()
}

// Member is a node of the group, as its leader knows it.
type Member struct {
	ID     uint64
	Match  uint64 // the newest entry that it is known to have
	Active bool   // it was heard of lately
}

// Members returns all members on the leader, by id; none elsewhere.
func (c *Core) Members() (list []Member) {
	if c.err != nil {
		return nil
	}
	for id, p := range c.node.Status().Progress {
		list = append(list, Member{ID: id, Match: p.Match, Active: id == c.id || p.RecentActive})
	}
	slices.SortFunc(list, func(a, b Member) int { return cmp.Compare(a.ID, b.ID) })
	return list
}

// Actions returns what to do since it was called before.
func (c *Core) Actions() Actions {
	out := c.out
	c.out = Actions{}
	return out
}

// drain takes all that the library has to say.
func (c *Core) drain() {
	for c.node.HasReady() {
		rd := c.node.Ready()
		c.noteRole()
		for _, m := range rd.Messages {
			switch m.GetTo() {
			case raft.LocalAppendThread:
				c.write(m)
			case raft.LocalApplyThread:
				c.out.Apply = append(c.out.Apply, Apply{m.GetEntries(), m.GetResponses()})
			default:
				c.send(m)
			}
		}
		for _, r := range rd.ReadStates {
			c.out.Reads = append(c.out.Reads, Read{string(r.RequestCtx), r.Index})
		}
	}
}

func (c *Core) noteRole() {
	s := c.node.BasicStatus()
	r := Role{Leader: s.Lead, Term: s.GetTerm(), Leads: s.RaftState == raft.StateLeader}
	if r == c.role {
		return
	}
	if r.Leads {
		c.lease.Begin(c.id, c.o.Voters, nil)
	} else {
		c.lease.End()
	}
	c.role, c.out.Role = r, &r
}

func (c *Core) write(m *pb.Message) {
	w := Write{Entries: m.GetEntries(), responses: m.GetResponses()}
	if hard := (&pb.HardState{Term: m.Term, Vote: m.Vote, Commit: m.Commit}); !raft.IsEmptyHardState(hard) {
		w.Term, w.Vote, w.Commit = m.GetTerm(), m.GetVote(), m.GetCommit()
		w.HasState = w.Term != c.term || w.Vote != c.vote
		c.term, c.vote = w.Term, w.Vote
	}
	if n := len(w.Entries); n > 0 {
		if before := w.Entries[0].GetIndex() - 1; before < c.last {
			w.Cut, w.HasCut = before, true
		}
		c.last = w.Entries[n-1].GetIndex()
	}
	c.out.Writes = append(c.out.Writes, w)
}

// send adds a message with its stamps.
func (c *Core) send(m *pb.Message) {
	out := Message{Raft: m}
	s := c.node.BasicStatus()
	if s.RaftState == raft.StateLeader {
		out.Stamp = c.now
	}
	if c.heardTerm == s.GetTerm() && m.GetTo() == s.Lead && s.Lead != raft.None {
		out.Echo, out.EchoTerm = c.heard, c.heardTerm
	}
	c.out.Send = append(c.out.Send, out)
}

// Perform does a write: to the state file, then to the log. It does not make the log
// durable.
func (w Write) Perform(f *state.File, log Log) error {
	if w.HasState {
		s := f.State()
		s.Term, s.Vote = w.Term, w.Vote
		if err := f.Set(s); err != nil {
			return err
		}
	}
	if w.HasCut {
		if err := log.Cut(w.Cut); err != nil {
			return err
		}
	}
	for _, e := range w.Entries {
		if err := log.Append(e); err != nil {
			return err
		}
	}
	if w.Commit > 0 {
		log.Commit(w.Commit)
	}
	return nil
}

// libraryLog has what the library says of its daily work at the lowest level: the
// owner of a Core tells of roles. What the library cannot go on from ends the Core.
type libraryLog struct{ l *slog.Logger }

func (l libraryLog) line(level slog.Level, text func() string) {
	if l.l.Enabled(context.Background(), level) {
		l.l.Log(context.Background(), level, "replica: "+text())
	}
}

func (l libraryLog) plain(level slog.Level, v []any) {
	l.line(level, func() string { return fmt.Sprint(v...) })
}

func (l libraryLog) format(level slog.Level, f string, v []any) {
	l.line(level, func() string { return fmt.Sprintf(f, v...) })
}

func (l libraryLog) Debug(v ...any)              { l.plain(slog.LevelDebug, v) }
func (l libraryLog) Debugf(f string, v ...any)   { l.format(slog.LevelDebug, f, v) }
func (l libraryLog) Info(v ...any)               { l.plain(slog.LevelDebug, v) }
func (l libraryLog) Infof(f string, v ...any)    { l.format(slog.LevelDebug, f, v) }
func (l libraryLog) Warning(v ...any)            { l.plain(slog.LevelWarn, v) }
func (l libraryLog) Warningf(f string, v ...any) { l.format(slog.LevelWarn, f, v) }
func (l libraryLog) Error(v ...any)              { l.plain(slog.LevelError, v) }
func (l libraryLog) Errorf(f string, v ...any)   { l.format(slog.LevelError, f, v) }
func (l libraryLog) Fatal(v ...any)              { panic(fmt.Sprint(v...)) }
func (l libraryLog) Fatalf(f string, v ...any)   { panic(fmt.Sprintf(f, v...)) }
func (l libraryLog) Panic(v ...any)              { panic(fmt.Sprint(v...)) }
func (l libraryLog) Panicf(f string, v ...any)   { panic(fmt.Sprintf(f, v...)) }
