package replica

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	pb "go.etcd.io/raft/v3/raftpb"

	"redoubt/journal"
	"redoubt/replica/state"
)

// A probe is one Core with a log in memory; the test is all the other nodes.
type probe struct {
	*Core
	t    *testing.T
	log  Log
	disk *memDisk
	at   time.Duration
}

const probeStart = time.Hour

func probeState(id uint64) state.State {
	return state.State{Cluster: state.ID{1}, Node: state.ID{byte(id)}, RaftID: id}
}

func newProbe(t *testing.T, change func(*Options)) *probe {
	t.Helper()
	b := &probe{t: t, disk: &memDisk{}, at: probeStart}
	b.log, _ = b.disk.open(func(*pb.Entry) {})
	o := Options{
		State: probeState(1), Voters: []uint64{1, 2, 3}, Log: b.log, Tick: simTick, Election: simElection, Now: b.at,
	}
	if change != nil {
		change(&o)
	}
	var err error
	b.Core, err = New(o)
	b.must(err)
	return b
}

func (b *probe) must(err error) {
	b.t.Helper()
	if err != nil {
		b.t.Fatal(err)
	}
}

// wait lets time pass, tick by tick.
func (b *probe) wait(ticks int) {
	b.t.Helper()
	for range ticks {
		b.at += simTick
		b.must(b.Tick(b.at))
	}
}

// step gives the core a message of another node.
func (b *probe) step(m Message) {
	b.t.Helper()
	m.Raft.To = new(uint64(1))
	b.must(b.Step(b.at, m))
}

// settle does all actions, and returns what was sent and applied.
func (b *probe) settle() (sent []Message, applied []*pb.Entry, reads []Read) {
	b.t.Helper()
	for {
		a := b.Actions()
		if len(a.Writes)+len(a.Send)+len(a.Apply)+len(a.Reads) == 0 {
			return sent, applied, reads
		}
		sent, reads = append(sent, a.Send...), append(reads, a.Reads...)
		for _, w := range a.Writes {
			if w.HasCut {
				b.must(b.log.Cut(w.Cut))
			}
			for _, e := range w.Entries {
				b.must(b.log.Append(e))
			}
			b.must(b.Written(b.at, w))
		}
		for _, ap := range a.Apply {
			applied = append(applied, ap.Entries...)
			b.must(b.Applied(b.at, ap))
		}
	}
}

func of(sent []Message, kind pb.MessageType) (out []Message) {
	for _, m := range sent {
		if m.Raft.GetType() == kind {
			out = append(out, m)
		}
	}
	return out
}

// lead has the core become leader by the vote of node 2, which has what it commits.
func (b *probe) lead() {
	b.t.Helper()
	b.wait(2 * simElection)
	b.settle()
	r, _ := b.Status()
	b.step(Message{Raft: &pb.Message{Type: pb.MsgPreVoteResp.Enum(), From: new(uint64(2)), Term: new(r.Term + 1)}})
	b.settle()
	r, _ = b.Status()
	b.step(Message{Raft: &pb.Message{Type: pb.MsgVoteResp.Enum(), From: new(uint64(2)), Term: new(r.Term)}})
	b.settle()
	if r, _ = b.Status(); !r.Leads {
		b.t.Fatalf("after an election: %+v", r)
	}
	b.confirm(2)
}

// confirm has a node acknowledge all there is, and returns what follows.
func (b *probe) confirm(from uint64) (sent []Message, applied []*pb.Entry, reads []Read) {
	b.t.Helper()
	r, _ := b.Status()
	b.step(Message{Raft: &pb.Message{Type: pb.MsgAppResp.Enum(), From: new(from), Term: new(r.Term), Index: new(b.log.Last())}})
	return b.settle()
}

func heartbeat(from, term uint64) *pb.Message {
	return &pb.Message{Type: pb.MsgHeartbeat.Enum(), From: new(from), Term: new(term)}
}

func vote(kind pb.MessageType, from, term uint64) Message {
	return Message{Raft: &pb.Message{Type: kind.Enum(), From: new(from), Term: new(term), Index: new(uint64(9)), LogTerm: new(uint64(1))}}
}

func row(b byte) []byte { return Encode(Head{Time: 5, Type: journal.EntryRows}, []byte{b}) }

func TestPropose(t *testing.T) {
	t.Parallel()
	b := newProbe(t, nil)
	if _, err := b.Propose(b.at, 0, row(1)); !errors.Is(err, ErrNotLeader) {
		t.Fatalf("on a follower: %v", err)
	}
	b.lead()
	r, committed := b.Status()
	if committed != 1 || b.log.Last() != 1 {
		t.Fatalf("the empty entry of the term: last %d, committed %d", b.log.Last(), committed)
	}
	for _, term := range []uint64{r.Term - 1, r.Term + 1} {
		if _, err := b.Propose(b.at, term, row(1)); !errors.Is(err, ErrNotLeader) {
			t.Errorf("evaluated in term %d, it is %d: %v", term, r.Term, err)
		}
	}
	index, err := b.Propose(b.at, r.Term, row(1))
	b.must(err)
	a := b.Actions()
	last := a.Writes[len(a.Writes)-1].Entries
	if e := last[len(last)-1]; index != 2 || e.GetIndex() != 2 || e.GetTerm() != r.Term || !bytes.Equal(e.GetData(), row(1)) {
		t.Fatalf("index %d, to be written %v", index, last)
	}
	if len(of(a.Send, pb.MsgApp)) == 0 {
		t.Error("the entry is not sent before it is written")
	}
	b.Core.out = a
	if _, applied, _ := b.settle(); len(applied) != 0 {
		t.Fatalf("applied without a quorum: %v", applied)
	}
	if _, applied, _ := b.confirm(3); len(applied) != 1 || applied[0].GetIndex() != 2 {
		t.Fatalf("applied %v", applied)
	}
}

// A follower that heard its leader grants no vote for an election timeout, and tells the
// leader the newest stamp. This is what a lease rests on.
func TestFollowerKeepsItsPromise(t *testing.T) {
	t.Parallel()
	b := newProbe(t, nil)
	b.wait(simElection) // the time after its start
	b.step(Message{Raft: heartbeat(2, 1), Stamp: 70})
	sent, _, _ := b.settle()
	if got := of(sent, pb.MsgHeartbeatResp); len(got) != 1 || got[0].Echo != 70 || got[0].EchoTerm != 1 || got[0].Stamp != 0 {
		t.Fatalf("the answer: %+v", got)
	}
	b.wait(simElection - 2)
	b.step(Message{Raft: heartbeat(2, 1), Stamp: 60}) // an older one, late
	sent, _, _ = b.settle()
	if got := of(sent, pb.MsgHeartbeatResp); got[0].Echo != 70 {
		t.Errorf("an older stamp is echoed: %+v", got)
	}
	b.wait(simElection - 1)
	for _, kind := range []pb.MessageType{pb.MsgPreVote, pb.MsgVote} {
		b.step(vote(kind, 3, 2))
	}
	if sent, _, _ = b.settle(); len(of(sent, pb.MsgVoteResp))+len(of(sent, pb.MsgPreVoteResp)) != 0 {
		t.Fatalf("a vote is answered while the leader may have a lease: %v", sent)
	}
	b.wait(1)
	b.settle()
	b.step(vote(pb.MsgVote, 3, 2))
	sent, _, _ = b.settle()
	if got := of(sent, pb.MsgVoteResp); len(got) != 1 || got[0].Raft.GetReject() {
		t.Errorf("after an election timeout: %v", sent)
	}
	// To another one it does not tell the stamps of the leader before.
	b.step(Message{Raft: heartbeat(3, 2), Stamp: 5})
	sent, _, _ = b.settle()
	if got := of(sent, pb.MsgHeartbeatResp); got[0].Echo != 5 || got[0].EchoTerm != 2 {
		t.Errorf("to the new leader: %+v", got)
	}
}

// What a node promised before it was started it does not know any more, so it waits.
func TestNoVoteAfterStart(t *testing.T) {
	t.Parallel()
	b := newProbe(t, nil)
	b.wait(simElection - 1)
	b.step(vote(pb.MsgPreVote, 2, 1))
	b.step(vote(pb.MsgVote, 2, 1))
	if sent, _, _ := b.settle(); len(sent) != 0 {
		t.Fatalf("right after the start: %v", sent)
	}
	b.wait(1)
	b.settle()
	b.step(vote(pb.MsgVote, 2, 1))
	sent, _, _ := b.settle()
	if got := of(sent, pb.MsgVoteResp); len(got) != 1 || got[0].Raft.GetReject() {
		t.Errorf("after an election timeout: %v", sent)
	}
}

// A vote is answered when the state file has it, not before.
func TestVoteIsWrittenFirst(t *testing.T) {
	t.Parallel()
	b := newProbe(t, nil)
	b.wait(simElection)
	b.settle()
	b.step(vote(pb.MsgVote, 2, 7))
	a := b.Actions()
	if len(of(a.Send, pb.MsgVoteResp)) != 0 {
		t.Fatal("the vote is sent at once")
	}
	w := a.Writes[len(a.Writes)-1]
	if !w.HasState || w.Term != 7 || w.Vote != 2 {
		t.Fatalf("to be written is %+v", w)
	}
	for _, w := range a.Writes {
		b.must(b.Written(b.at, w))
	}
	if got := of(b.Actions().Send, pb.MsgVoteResp); len(got) != 1 {
		t.Errorf("after it was written: %v", got)
	}
}

func TestLeaderHasALease(t *testing.T) {
	t.Parallel()
	b := newProbe(t, nil)
	b.lead()
	if b.Lease() > b.at {
		t.Fatalf("without an echo the lease is until %v, now is %v", b.Lease(), b.at)
	}
	b.wait(1)
	sent, _, _ := b.settle()
	r, _ := b.Status()
	beats := of(sent, pb.MsgHeartbeat)
	if len(beats) != 2 || beats[0].Stamp != b.at {
		t.Fatalf("heartbeats %+v, now is %v", beats, b.at)
	}
	answer := func(from uint64, echo time.Duration, term uint64) {
		b.step(Message{Raft: &pb.Message{Type: pb.MsgHeartbeatResp.Enum(), From: new(from), Term: new(r.Term)}, Echo: echo, EchoTerm: term})
	}
	answer(2, b.at, r.Term-1)
	if b.Lease() > b.at {
		t.Error("an echo of another term counts")
	}
	stamp := b.at
	answer(2, stamp, r.Term)
	if want := stamp + leaseLength(simElection*simTick, simTick); b.Lease() != want {
		t.Fatalf("the lease is until %v, want %v", b.Lease(), want)
	}
	b.must(b.Transfer(b.at, 3))
	if b.Lease() > b.at {
		t.Error("leadership is handed over, and the lease goes on")
	}
	b.wait(1)
	answer(2, b.at, r.Term)
	if b.Lease() > b.at {
		t.Error("the lease is back in the term in which another one was asked to lead")
	}
}

func TestLeaseEndsWithLeadership(t *testing.T) {
	t.Parallel()
	b := newProbe(t, nil)
	b.lead()
	r, _ := b.Status()
	b.step(Message{Raft: &pb.Message{Type: pb.MsgHeartbeatResp.Enum(), From: new(uint64(2)), Term: new(r.Term)}, Echo: b.at, EchoTerm: r.Term})
	if b.Lease() <= b.at {
		t.Fatal("no lease")
	}
	b.step(Message{Raft: heartbeat(3, r.Term+1)})
	if b.Lease() > b.at {
		t.Errorf("another node leads, and the lease is until %v", b.Lease())
	}
}

// Entries that another leader does not have are cut, and the log and the core agree on it.
func TestConflictIsCut(t *testing.T) {
	t.Parallel()
	b := newProbe(t, nil)
	b.lead()
	r, _ := b.Status()
	for i := range byte(3) {
		_, err := b.Propose(b.at, r.Term, row(i))
		b.must(err)
	}
	b.settle()
	if b.log.Last() != 4 {
		t.Fatalf("last is %d", b.log.Last())
	}
	b.step(Message{Raft: &pb.Message{
		Type: pb.MsgApp.Enum(), From: new(uint64(2)), Term: new(r.Term + 1), Index: new(uint64(2)), LogTerm: new(r.Term), Commit: new(uint64(3)),
		Entries: []*pb.Entry{{Term: new(r.Term + 1), Index: new(uint64(3))}},
	}})
	a := b.Actions()
	w := a.Writes[len(a.Writes)-1]
	if !w.HasCut || w.Cut != 2 || len(w.Entries) != 1 || a.Role == nil || a.Role.Leads {
		t.Fatalf("%+v, role %+v", w, a.Role)
	}
	b.Core.out = a
	_, applied, _ := b.settle()
	if term, err := b.log.Term(3); err != nil || term != r.Term+1 || b.log.Last() != 3 || len(applied) != 2 {
		t.Errorf("entry 3 has term %d %v, last is %d, applied %v", term, err, b.log.Last(), applied)
	}
	if _, err := b.Propose(b.at, r.Term, row(9)); !errors.Is(err, ErrNotLeader) {
		t.Errorf("what was evaluated before: %v", err)
	}
}

func TestCongested(t *testing.T) {
	t.Parallel()
	b := newProbe(t, func(o *Options) { o.MaxWaiting = 1000 })
	b.lead()
	r, _ := b.Status()
	data := Encode(Head{Type: journal.EntryRows}, make([]byte, 600))
	_, err := b.Propose(b.at, r.Term, data)
	b.must(err)
	last := b.log.Last()
	b.settle()
	if _, err := b.Propose(b.at, r.Term, data); !errors.Is(err, ErrCongested) {
		t.Fatalf("%v", err)
	}
	if sent, _, _ := b.settle(); len(of(sent, pb.MsgApp)) != 0 || b.log.Last() != last+1 {
		t.Errorf("something happened: %v, last %d", sent, b.log.Last())
	}
	b.confirm(2)
	if _, err := b.Propose(b.at, r.Term, data); err != nil {
		t.Errorf("after that was committed: %v", err)
	}
}

func TestReadIndex(t *testing.T) {
	t.Parallel()
	b := newProbe(t, nil)
	b.lead()
	r, _ := b.Status()
	b.must(b.ReadIndex(b.at, "a read"))
	sent, _, reads := b.settle()
	beats := of(sent, pb.MsgHeartbeat)
	if len(reads) != 0 || len(beats) == 0 {
		t.Fatalf("before a round of messages: %v, %v", reads, sent)
	}
	b.step(Message{Raft: &pb.Message{Type: pb.MsgHeartbeatResp.Enum(), From: new(uint64(2)), Term: new(r.Term), Context: beats[0].Raft.GetContext()}})
	if _, _, reads = b.settle(); len(reads) != 1 || reads[0] != (Read{"a read", 1}) {
		t.Errorf("%+v", reads)
	}
}

// A message that no node sends, or of which another node is meant, does nothing.
func TestForeignMessages(t *testing.T) {
	t.Parallel()
	b := newProbe(t, nil)
	b.lead()
	before, _ := b.Status()
	for _, kind := range []pb.MessageType{
		pb.MsgHup, pb.MsgBeat, pb.MsgProp, pb.MsgSnap, pb.MsgTransferLeader, pb.MsgForgetLeader, pb.MsgCheckQuorum,
		pb.MsgUnreachable, pb.MsgSnapStatus, pb.MsgStorageAppend, pb.MsgStorageAppendResp, pb.MsgStorageApplyResp,
	} {
		b.step(Message{Raft: &pb.Message{Type: kind.Enum(), From: new(uint64(2)), Term: new(before.Term), Entries: []*pb.Entry{{Data: row(1)}}}})
		if sent, _, _ := b.settle(); len(sent) != 0 {
			t.Errorf("%v makes the node send %v", kind, sent)
		}
	}
	m := heartbeat(2, before.Term+1)
	m.To = new(uint64(3))
	b.must(b.Step(b.at, Message{Raft: m}))
	if after, _ := b.Status(); after != before {
		t.Errorf("from %+v to %+v", before, after)
	}
}

// What cannot be ends the node: it has no lease, and takes no more events.
func TestBroken(t *testing.T) {
	t.Parallel()
	var log strings.Builder
	b := newProbe(t, func(o *Options) { o.Logger = slog.New(slog.NewTextHandler(&log, nil)) })
	m := heartbeat(2, 3)
	m.To, m.Commit = new(uint64(1)), new(uint64(50))
	if err := b.Step(b.at, Message{Raft: m}); !errors.Is(err, ErrBroken) || !strings.Contains(err.Error(), "tocommit(50)") {
		t.Fatalf("%v", err)
	}
	if err := b.Tick(b.at); !errors.Is(err, ErrBroken) {
		t.Errorf("a tick: %v", err)
	}
	if _, err := b.Propose(b.at, 3, row(1)); !errors.Is(err, ErrBroken) {
		t.Errorf("a proposal: %v", err)
	}
	if r, committed := b.Status(); r.Leads || committed != 0 {
		t.Errorf("%+v %d", r, committed)
	}
	if strings.Contains(log.String(), "became follower") {
		t.Errorf("the library's daily work is in the log: %s", log.String())
	}
}

// A log that is ahead of the state file has forgotten what it voted.
func TestStateBehindTheLog(t *testing.T) {
	t.Parallel()
	d := &memDisk{}
	log, _ := d.open(func(*pb.Entry) {})
	if err := log.Append(&pb.Entry{Term: new(uint64(4)), Index: new(uint64(1))}); err != nil {
		t.Fatal(err)
	}
	s := probeState(1)
	s.Term = 3
	o := Options{State: s, Voters: []uint64{1, 2, 3}, Log: log, Tick: simTick, Election: simElection}
	if _, err := New(o); !errors.Is(err, ErrBroken) || !strings.Contains(err.Error(), "only knows term 3") {
		t.Errorf("%v", err)
	}
	o.State.Term = 4
	if _, err := New(o); err != nil {
		t.Errorf("%v", err)
	}
}

func TestEntriesAreCoded(t *testing.T) {
	t.Parallel()
	for _, e := range []*pb.Entry{
		{Index: new(uint64(3)), Term: new(uint64(2))},
		{Index: new(uint64(3)), Term: new(uint64(2)), Data: row(7)},
		{Index: new(uint64(3)), Term: new(uint64(2)), Data: Encode(Head{1 << 40, journal.EntryControl, 3}, nil)},
		{Index: new(uint64(3)), Term: new(uint64(2)), Type: pb.EntryConfChangeV2.Enum(), Data: []byte("members")},
	} {
		h, payload, err := Decode(e)
		if err != nil {
			t.Fatal(err)
		}
		again := Entry(journal.RaftHead{Index: 3, Term: 2, Time: h.Time, Type: h.Type, Version: h.Version}, payload)
		if again.GetType() != e.GetType() || !bytes.Equal(again.GetData(), e.GetData()) || again.GetIndex() != 3 || again.GetTerm() != 2 {
			t.Errorf("%v became %v", e, again)
		}
	}
	for _, e := range []*pb.Entry{
		{Data: []byte("short")}, {Type: pb.EntryConfChange.Enum()}, {Data: Encode(Head{Type: 77}, nil)}, {Data: append(row(1)[:15:15], 1)},
	} {
		if _, _, err := Decode(e); !errors.Is(err, errEntry) {
			t.Errorf("%v: %v", e, err)
		}
	}
}

func BenchmarkPropose(b *testing.B) {
	d := &memDisk{}
	log, _ := d.open(func(*pb.Entry) {})
	c, err := New(Options{State: probeState(1), Voters: []uint64{1}, Log: log, Tick: simTick, Election: simElection})
	if err != nil {
		b.Fatal(err)
	}
	act := func() {
		for a := c.Actions(); len(a.Writes)+len(a.Apply) > 0; a = c.Actions() {
			for _, w := range a.Writes {
				for _, e := range w.Entries {
					if err := log.Append(e); err != nil {
						b.Fatal(err)
					}
				}
				if err := c.Written(0, w); err != nil {
					b.Fatal(err)
				}
			}
			for _, ap := range a.Apply {
				if err := c.Applied(0, ap); err != nil {
					b.Fatal(err)
				}
			}
		}
	}
	for range 2 * simElection {
		if err := c.Tick(0); err != nil {
			b.Fatal(err)
		}
		act()
	}
	r, _ := c.Status()
	data := Encode(Head{Type: journal.EntryRows}, make([]byte, 200))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := c.Propose(0, r.Term, data); err != nil {
			b.Fatal(err)
		}
		act()
	}
}
