package replica

import (
	"container/heap"
	crand "crypto/rand"
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/anishathalye/porcupine"
	pb "go.etcd.io/raft/v3/raftpb"

	"redoubt/replica/state"
)

// The simulated world: time, network, faults, clients, and what must hold. Everything
// happens in one goroutine, in an order that the seed decides.

const (
	simTick     = 50 * time.Millisecond
	simElection = 10
	// simLife is how long there are faults; then all is well until simEnd.
	simLife = 12 * time.Second
	simEnd  = 20 * time.Second
	// simPatience is how long a client waits for an answer.
	simPatience = 2 * time.Second
)

// simOptions are how a history is run. All but journals break something, to see that
// it is found.
type simOptions struct {
	journals   bool // logs are journals, else lists in memory
	staleReads bool // leaders read without a lease
	forgetful  bool // power cuts though only writes are waited for, not fsyncs
	hasty      bool // hosts that may have forgotten something follow any leader, and then vote
	keepVoid   bool // memory is not taken back when entries are cut
}

type world struct {
	o      simOptions
	seed   uint64
	rng    *rand.Rand
	now    time.Duration
	events eventHeap
	serial int
	ids    []uint64
	hosts  []*host
	always bool
	calm   bool // no faults any more
	failed error

	cut      [6][6]bool // from, to: messages are lost
	loss     int        // of 1000 messages
	slowness time.Duration

	leaders      map[uint64]uint64 // by term
	entries      []committed       // all that was ever applied, by index less one
	acknowledged []*held
	void         []*held
	nextRead     int
	history      []porcupine.Operation
	open         []*simOp
	clients      int

	elections, cuts, leaseReads, voids, unknowns, crashes, returns, followerReads, messages int
}

// applied is what all hosts must have at an index.
type applied struct {
	term   uint64
	data   string
	digest uint64
}

// committed is an entry that some host has applied, and in which term that was: leaders
// of later terms have the entry.
type committed struct {
	applied
	in uint64
}

type event struct {
	at     time.Duration
	serial int
	do     func()
}

type eventHeap []event

func (h eventHeap) Len() int { return len(h) }
func (h eventHeap) Less(i, j int) bool {
	return h[i].at < h[j].at || h[i].at == h[j].at && h[i].serial < h[j].serial
}
func (h eventHeap) Swap(i, j int) { h[i], h[j] = h[j], h[i] }
func (h *eventHeap) Push(x any)   { *h = append(*h, x.(event)) }
func (h *eventHeap) Pop() any {
	old := *h
	e := old[len(old)-1]
	*h = old[:len(old)-1]
	return e
}

func (w *world) after(d time.Duration, do func()) {
	w.serial++
	heap.Push(&w.events, event{w.now + max(d, 0), w.serial, do})
}

func (w *world) must(err error) {
	w.check(err == nil, "%v", err)
}

func (w *world) check(holds bool, f string, args ...any) {
	if !holds && w.failed == nil {
		w.failed = fmt.Errorf("at %v: %s", w.now, fmt.Sprintf(f, args...))
	}
}

// libraryRandom gives the library its chances, by the seed. It asks crypto/rand.
type libraryRandom struct{ rng *rand.Rand }

func (r libraryRandom) Read(b []byte) (int, error) {
	for i := range b {
		b[i] = byte(r.rng.Uint32())
	}
	return len(b), nil
}

// simulate runs the history of a seed.
func simulate(seed uint64, o simOptions) *world {
	w := &world{o: o, seed: seed, rng: rand.New(rand.NewPCG(seed, 1)), leaders: map[uint64]uint64{}}
	crand.Reader = libraryRandom{rand.New(rand.NewPCG(seed, 2))}
	n := []int{3, 3, 3, 5}[w.rng.IntN(4)]
	w.always = w.rng.IntN(3) > 0 && !o.forgetful
	for id := range n {
		w.ids = append(w.ids, uint64(id+1))
	}
	w.loss, w.slowness = []int{0, 20, 200}[w.rng.IntN(3)], time.Duration(1+w.rng.IntN(20))*time.Millisecond
	for _, id := range w.ids {
		f, err := newFiles(state.State{Cluster: state.ID{1}, Node: state.ID{byte(id)}, RaftID: id})
		w.must(err)
		h := &host{w: w, id: id, rate: 0.97 + 0.06*w.rng.Float64(), offset: time.Duration(1 + w.rng.Int64N(1e12))}
		h.disk = w.newDisk(f)
		w.hosts = append(w.hosts, h)
		h.start()
	}
	for range 5 {
		w.client()
	}
	w.after(time.Second, w.fault)
	w.after(simLife, w.heal)
	w.after(simEnd, func() { w.events = nil })
	for len(w.events) > 0 && w.failed == nil {
		e := heap.Pop(&w.events).(event)
		w.now = e.at
		e.do()
	}
	w.end()
	return w
}

func (w *world) newDisk(f files) disk {
	if w.o.journals {
		return &journalDisk{files: f}
	}
	return &memDisk{files: f}
}

// connected reports whether two hosts reach each other.
func (w *world) connected(a, b *host) bool { return !w.cut[a.id-1][b.id-1] && !w.cut[b.id-1][a.id-1] }

// end judges the history, and ends all hosts.
func (w *world) end() {
	for _, op := range slices.Clone(w.open) {
		op.unknown()
	}
	first := w.hosts[0]
	for _, h := range w.hosts {
		w.check(h.applied == first.applied && h.digest == first.digest && h.rows == first.rows,
			"at the end hosts %d and %d are different: applied %d and %d, %v and %v", first.id, h.id, first.applied, h.applied, first.rows, h.rows)
	}
	for _, p := range w.acknowledged {
		w.check(p.index <= uint64(len(w.entries)) && w.entries[p.index-1].term == p.term, "the acknowledged entry %d of term %d is not there", p.index, p.term)
	}
	for _, p := range w.void {
		w.check(p.index > uint64(len(w.entries)) || w.entries[p.index-1].term != p.term, "the void entry %d of term %d is there", p.index, p.term)
	}
	if w.failed == nil {
		switch porcupine.CheckOperationsTimeout(simModel, w.history, 30*time.Second) {
		case porcupine.Illegal:
			w.check(false, "the history of %d operations is not linearizable", len(w.history))
		case porcupine.Unknown:
			w.check(false, "the history of %d operations takes too long to check", len(w.history))
		}
	}
	for _, h := range w.hosts {
		if h.up {
			h.crash(false)
		}
	}
}

// send has the network carry a message: late, twice, out of order, or not at all.
func (w *world) send(from uint64, m Message) {
	to := m.Raft.GetTo()
	w.messages++
	if w.cut[from-1][to-1] || w.rng.IntN(1000) < w.loss {
		return
	}
	copies := 1
	if w.rng.IntN(50) == 0 {
		copies = 2
	}
	for range copies {
		delay := time.Duration(w.rng.Int64N(int64(w.slowness)))
		if w.rng.IntN(100) == 0 && !w.calm {
			delay += time.Duration(w.rng.Int64N(int64(2 * time.Second)))
		}
		sent := m
		sent.Raft = copyMessage(m.Raft)
		to := w.hosts[to-1]
		w.after(delay, func() {
			if to.up && !w.cut[from-1][to.id-1] {
				to.later(0, func() { w.must(to.core.Step(to.now(), sent)); to.act() })
			}
		})
	}
}

func copyMessage(m *pb.Message) *pb.Message {
	return &pb.Message{
		Type: m.Type, To: m.To, From: m.From, Term: m.Term, LogTerm: m.LogTerm, Index: m.Index, Entries: slices.Clone(m.Entries),
		Commit: m.Commit, Vote: m.Vote, Reject: m.Reject, RejectHint: m.RejectHint, Context: slices.Clone(m.Context),
	}
}

// fault does something bad, and sees to it that it ends.
func (w *world) fault() {
	if w.calm {
		return
	}
	w.after(time.Duration(w.rng.Int64N(int64(1500*time.Millisecond))), w.fault)
	h := w.hosts[w.rng.IntN(len(w.hosts))]
	if w.rng.IntN(2) == 0 || w.o.staleReads {
		for _, l := range w.hosts {
			if l.role.Leads {
				h = l
			}
		}
	}
	lasts := time.Duration(w.rng.Int64N(int64(3 * time.Second)))
	kind := w.rng.IntN(11)
	if w.o.staleReads {
		kind = 3 // what shows them
	}
	switch kind {
	case 0, 1: // kill -9, or a power cut where that loses nothing that was acknowledged
		if h.up {
			w.crashes++
			h.crash((w.always || w.o.forgetful) && w.rng.IntN(2) == 0)
			w.after(lasts, h.start)
		}
	case 2: // all at once
		power := (w.always || w.o.forgetful) && w.rng.IntN(2) == 0
		for _, h := range w.hosts {
			if h.up && w.rng.IntN(5) > 0 {
				w.crashes++
				h.crash(power)
				w.after(time.Duration(w.rng.Int64N(int64(time.Second))), h.start)
			}
		}
	case 3, 8, 9: // SIGSTOP
		if h.up && !h.paused {
			life := h.life
			h.paused = true
			w.after(lasts, func() {
				if h.life == life && h.up && h.paused {
					h.resume()
				}
			})
		}
	case 4: // one alone
		w.partition(lasts, func(a, b int) bool { return (a == int(h.id-1)) != (b == int(h.id-1)) })
	case 5: // one way only
		w.partition(lasts, func(a, b int) bool { return a == int(h.id-1) })
	case 6: // two parts, or a bridge: one that both sides reach
		bridge := w.rng.IntN(2*len(w.hosts)) - len(w.hosts)
		split := 1 + w.rng.IntN(len(w.hosts)-1)
		w.partition(lasts, func(a, b int) bool { return a != bridge && b != bridge && (a < split) != (b < split) })
	case 10: // a power cut where that loses something, or all files are lost
		returning := 0
		for _, h := range w.hosts {
			if h.returning {
				returning++
			}
		}
		if !h.up || returning >= (len(w.hosts)-1)/2 && !h.returning {
			break
		}
		w.crashes++
		h.returning = true
		h.crash(true)
		if w.always || w.rng.IntN(2) == 0 {
			f, err := newFiles(state.State{Cluster: state.ID{1}, Node: state.ID{byte(h.id), 1}, RaftID: h.id, Returning: true})
			w.must(err)
			h.disk = w.newDisk(f)
		}
		w.after(lasts, h.start)
	case 7: // leadership is handed over
		if h.up && !h.paused && h.role.Leads {
			w.must(h.core.Transfer(h.now(), w.ids[w.rng.IntN(len(w.ids))]))
			h.act()
		}
	}
}

func (w *world) partition(lasts time.Duration, lost func(from, to int) bool) {
	for a := range w.hosts {
		for b := range w.hosts {
			w.cut[a][b] = a != b && lost(a, b)
		}
	}
	w.after(lasts, func() { w.cut = [6][6]bool{} })
}

// heal ends all faults: the cluster must come to agree.
func (w *world) heal() {
	w.calm, w.loss, w.cut, w.slowness = true, 0, [6][6]bool{}, 10*time.Millisecond
	for _, h := range w.hosts {
		if h.up && h.paused {
			h.resume()
		}
	}
}

// What hosts tell.

func (w *world) noteTerm(h *host, term uint64) {
	w.check(term >= h.role.Term, "host %d: the state file says term %d, it was in %d", h.id, term, h.role.Term)
}

func (w *world) noteRole(h *host, r Role) {
	if r.Leader != 0 {
		l, ok := w.leaders[r.Term]
		w.check(!ok || l == r.Leader, "term %d has the leaders %d and %d", r.Term, l, r.Leader)
		w.leaders[r.Term] = r.Leader
	}
	if !r.Leads {
		return
	}
	w.elections++
	for i, e := range w.entries {
		term, err := h.log.Term(uint64(i + 1))
		w.check(e.in >= r.Term || err == nil && term == e.term, "the leader of term %d, host %d, has entry %d of term %d (%v), that of term %d is committed", r.Term, h.id, i+1, term, err, e.term)
	}
}

func (w *world) noteCut(*host) { w.cuts++ }

func (w *world) noteApplied(h *host, e *pb.Entry) {
	got := applied{e.GetTerm(), string(e.GetData()), h.digest}
	if n := uint64(len(w.entries)); e.GetIndex() > n {
		w.check(e.GetIndex() == n+1, "host %d applies entry %d, nobody applied %d", h.id, e.GetIndex(), n+1)
		w.entries = append(w.entries, committed{got, h.term()})
		return
	}
	was := w.entries[e.GetIndex()-1].applied
	w.check(was == got, "host %d applies entry %d as %v, it was %v", h.id, e.GetIndex(), got, was)
}

func (w *world) noteAcknowledged(p *held) { w.acknowledged = append(w.acknowledged, p) }
func (w *world) noteVoid(p *held) {
	w.voids++
	w.void = append(w.void, p)
}

// Clients.

type opKind int

const (
	opGet opKind = iota
	opPut
	opIncr
)

// simOp is a command of a client.
type simOp struct {
	w        *world
	client   int
	kind     opKind
	key      int
	arg      uint64
	follower bool // a read by read index, on any host
	host     uint64
	called   time.Duration
	served   bool
	settled  bool
	next     func()
}

// simResult is what a client learnt; nothing if known is false.
type simResult struct {
	value uint64
	known bool
}

// client is somebody who has one command at a time under way. One of which the outcome is
// not known goes on for ever: the client is another one from then on.
func (w *world) client() {
	w.clients++
	client, ops := w.clients, 0
	var next func()
	next = func() {
		if ops++; ops > 60 || w.now > simEnd-2*simPatience {
			return
		}
		op := &simOp{w: w, client: client, kind: opKind(w.rng.IntN(3)), key: w.rng.IntN(simKeys), arg: 1000 * (1 + w.rng.Uint64N(1000)), called: w.now}
		op.follower = op.kind == opGet && w.rng.IntN(2) == 0
		op.next = func() { w.after(time.Duration(w.rng.Int64N(int64(200*time.Millisecond))), next) }
		w.open = append(w.open, op)
		w.after(simPatience, func() {
			if op.served {
				op.unknown()
			} else {
				op.void()
			}
		})
		w.try(op, w.hosts[w.rng.IntN(len(w.hosts))])
	}
	w.after(time.Duration(w.rng.Int64N(int64(time.Second))), next)
}

// try has one of the hosts serve a command, the first that can. If none does, it is
// tried again.
func (w *world) try(op *simOp, hosts ...*host) {
	if op.settled {
		return
	}
	for _, h := range hosts {
		if h.serve(op) {
			op.served = true
			return
		}
	}
	w.after(50*time.Millisecond, func() {
		hosts := slices.Clone(w.hosts)
		w.rng.Shuffle(len(hosts), func(i, j int) { hosts[i], hosts[j] = hosts[j], hosts[i] })
		w.try(op, hosts...)
	})
}

func (op *simOp) settle() bool {
	if op.settled {
		return false
	}
	op.settled = true
	op.w.open = slices.DeleteFunc(op.w.open, func(o *simOp) bool { return o == op })
	return true
}

// done answers the command.
func (op *simOp) done(value uint64) {
	if op.settle() {
		if op.follower {
			op.w.followerReads++
		}
		op.record(op.w.now, simResult{value, true})
		op.next()
	}
}

// void ends a command that has had no effect, and never will.
func (op *simOp) void() {
	if op.settle() {
		op.next()
	}
}

// unknown ends a command of which nobody knows.
func (op *simOp) unknown() {
	if !op.settle() {
		return
	}
	op.w.unknowns++
	if op.kind != opGet {
		op.record(math.MaxInt64, simResult{})
	}
	op.w.client()
}

func (op *simOp) record(returned time.Duration, r simResult) {
	op.w.history = append(op.w.history, porcupine.Operation{
		ClientId: op.client, Input: *op, Output: r, Call: int64(op.called), Return: int64(returned),
	})
}

// simModel is a register, by key.
var simModel = porcupine.Model{
	Partition: func(history []porcupine.Operation) [][]porcupine.Operation {
		parts := make([][]porcupine.Operation, simKeys)
		for _, o := range history {
			key := o.Input.(simOp).key
			parts[key] = append(parts[key], o)
		}
		return parts
	},
	Init: func() any { return uint64(0) },
	Step: func(s, input, output any) (bool, any) {
		value, op, r := s.(uint64), input.(simOp), output.(simResult)
		switch op.kind {
		case opPut:
			return true, op.arg
		case opIncr:
			return !r.known || r.value == value+1, value + 1
		default:
			return r.value == value, value
		}
	},
}

// fingerprint tells histories apart.
func (w *world) fingerprint() (sum uint64) {
	for _, e := range w.entries {
		sum = sum*1_000_003 + e.digest
	}
	return sum ^ binary.BigEndian.Uint64(append(make([]byte, 4), byte(len(w.history)), byte(w.messages>>16), byte(w.messages>>8), byte(w.messages)))
}
