package replica

import (
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"maps"
	"slices"
	"time"

	pb "go.etcd.io/raft/v3/raftpb"

	"redoubt/journal"
	"redoubt/replica/state"
)

// A host is a node of the simulated cluster, as a server will be: it evaluates writes
// against memory that runs ahead of what is committed, holds the replies, and takes memory
// back when entries are cut. Its state machine is a register for each key.
type host struct {
	w    *world
	id   uint64
	disk disk

	// The life of a process; gone after a crash.
	up, paused bool
	life       int
	core       *Core
	log        Log
	file       *state.File
	missed     []func()      // what came while it was paused
	asked      []*simOp      // what clients sent meanwhile
	fsyncFree  time.Duration // when the disk has done what it was asked for
	applied    uint64
	rows       [simKeys]uint64
	digest     uint64
	ahead      []*held // this leader's entries that are not applied, in order
	reads      []*held // that wait for entries they have seen
	indexReads map[string]*simOp
	serving    bool
	returning  bool              // it may have forgotten what it promised, and has not caught up
	answers    map[uint64]uint64 // the terms of the others, while it asks; the process is not up
	role       Role
	commit     uint64

	// Its clock: rate and offset to the world's time.
	rate   float64
	offset time.Duration
}

const simKeys = 2

// held is a reply that waits for an entry to be committed.
type held struct {
	index, term uint64
	key         int
	value       uint64
	op          *simOp
}

// now is the host's clock.
func (h *host) now() time.Duration {
	return h.offset + time.Duration(float64(h.w.now)*h.rate)
}

// later has do run after d of the host's time, unless the process ends before. If it
// is stopped, that is when it goes on.
func (h *host) later(d time.Duration, do func()) {
	life := h.life
	h.w.after(time.Duration(float64(d)/h.rate), func() {
		switch {
		case h.life != life || !h.up:
		case h.paused:
			h.missed = append(h.missed, do)
		default:
			do()
		}
	})
}

func (h *host) start() {
	h.up, h.life = true, h.life+1
	h.applied, h.rows, h.digest = 0, [simKeys]uint64{}, 0
	h.ahead, h.reads, h.indexReads = nil, nil, map[string]*simOp{}
	h.serving, h.role, h.commit, h.fsyncFree = false, Role{}, 0, 0
	h.answers = nil
	h.missed, h.asked, h.paused = nil, nil, false
	var err error
	h.file, err = h.disk.stateFile()
	h.w.must(err)
	h.log, err = h.disk.open(h.apply)
	h.w.must(err)
	s := h.file.State()
	if h.returning && !s.Returning {
		s.Returning = true
		h.w.must(h.file.Set(s))
	}
	h.w.noteTerm(h, s.Term)
	if s.Returning {
		h.up, h.answers = false, map[uint64]uint64{}
		h.ask()
		return
	}
	h.newCore(nil)
	h.later(time.Duration(h.w.rng.Int64N(int64(simTick))), h.tick)
}

func (h *host) newCore(r *Return) {
	var err error
	h.core, err = New(Options{
		State: h.file.State(), Voters: h.w.ids, Log: h.log, Applied: h.applied, Return: r,
		Tick: simTick, Election: simElection, Now: h.now(),
	})
	h.w.must(err)
	h.act()
}

// ask asks the others for their terms, and begins when all have answered.
func (h *host) ask() {
	for _, o := range h.w.hosts {
		if o != h && (o.up || o.answers != nil) && !o.paused && h.w.connected(h, o) && h.w.rng.IntN(2) == 0 {
			h.answers[o.id] = o.term()
		}
	}
	if len(h.answers) < len(h.w.hosts)-1 && !h.w.o.hasty {
		h.w.after(100*time.Millisecond, h.ask)
		return
	}
	r := &Return{Floor: h.file.State().Term}
	for _, term := range h.answers {
		r.Floor = max(r.Floor, term)
	}
	if h.w.o.hasty {
		r.Floor = 0
	}
	h.up, h.answers = true, nil
	h.newCore(r)
	h.later(time.Duration(h.w.rng.Int64N(int64(simTick))), h.tick)
	h.later(0, func() { h.call(r.Floor) })
}

// call has a leader of a term that does not suit hand its leadership over.
func (h *host) call(floor uint64) {
	if !h.returning {
		return
	}
	for _, o := range h.w.hosts {
		if o.up && !o.paused && o.role.Leads && o.role.Term <= floor && h.w.connected(h, o) {
			if to := h.w.hosts[h.w.rng.IntN(len(h.w.hosts))]; to != h {
				h.w.must(o.core.Transfer(o.now(), to.id))
				o.act()
			}
		}
	}
	h.later(300*time.Millisecond, func() { h.call(floor) })
}

func (h *host) tick() {
	h.w.must(h.core.Tick(h.now()))
	h.act()
	h.later(simTick, h.tick)
}

// crash ends the process. Nobody knows what becomes of replies that were held.
func (h *host) crash(power bool) {
	h.up = false
	h.w.must(h.disk.crash(power, h.w.rng))
	h.w.must(h.file.Close())
	for _, p := range append(h.ahead, h.reads...) {
		if p.op != nil {
			p.op.unknown()
		}
	}
	for _, op := range h.asked {
		op.void()
	}
	h.asked = nil
	for _, context := range slices.Sorted(maps.Keys(h.indexReads)) {
		h.indexReads[context].void()
	}
}

// resume lets a stopped process go on. What clients have sent meanwhile may come first,
// before the process learns what the others did.
func (h *host) resume() {
	h.paused = false
	missed, asked := h.missed, h.asked
	h.missed, h.asked = nil, nil
	for _, op := range asked {
		h.w.try(op, h)
	}
	for _, do := range missed {
		do()
	}
}

// act does what the core asks for.
func (h *host) act() {
	for {
		a := h.core.Actions()
		if len(a.Writes)+len(a.Send)+len(a.Apply)+len(a.Reads) == 0 && a.Role == nil {
			break
		}
		if a.Role != nil {
			h.becomes(*a.Role)
		}
		for _, m := range a.Send {
			h.w.send(h.id, m)
		}
		for _, w := range a.Writes {
			h.write(w)
		}
		for _, ap := range a.Apply {
			for _, e := range ap.Entries {
				h.apply(e)
			}
			h.w.must(h.core.Applied(h.now(), ap))
		}
		for _, r := range a.Reads {
			if op := h.indexReads[r.Context]; op != nil {
				delete(h.indexReads, r.Context)
				h.reads = append(h.reads, &held{index: r.Index, key: op.key, op: op})
			}
		}
		h.release()
	}
	if h.core.Returned() {
		h.returning = false
		h.w.returns++
		h.w.must(h.disk.sync(h.disk.position()))
		s := h.file.State()
		s.Returning = false
		h.w.must(h.file.Set(s))
		h.newCore(nil)
		return
	}
	_, commit := h.core.Status()
	h.w.check(commit >= h.commit, "host %d: commit went from %d back to %d", h.id, h.commit, commit)
	h.commit = commit
}

// term is that in which the host is.
func (h *host) term() uint64 { return max(h.role.Term, h.file.State().Term) }

func (h *host) becomes(r Role) {
	h.w.check(r.Term >= h.role.Term, "host %d: term went from %d back to %d", h.id, h.role.Term, r.Term)
	h.role, h.serving = r, false
	h.w.noteRole(h, r)
}

// write writes, and tells the core when the disk has it: at once with everysec.
func (h *host) write(w Write) {
	if w.HasState {
		h.w.noteTerm(h, w.Term)
	}
	h.w.must(w.Perform(h.file, h.log))
	if w.HasCut {
		h.cut(w.Cut)
	}
	position, core := h.disk.position(), h.core
	written := func() {
		if h.core == core {
			h.w.must(h.core.Written(h.now(), w))
			h.act()
		}
	}
	if !h.w.always {
		h.later(0, written)
		return
	}
	took := time.Duration(h.w.rng.Int64N(int64(4 * time.Millisecond)))
	if h.w.rng.IntN(200) == 0 {
		took *= 100 // a slow fsync
	}
	h.fsyncFree = max(h.fsyncFree, h.now()) + took
	h.later(h.fsyncFree-h.now(), func() {
		h.w.must(h.disk.sync(position))
		written()
	})
}

// cut takes memory back: the writes behind index are void, and so is what was read of them.
func (h *host) cut(index uint64) {
	h.w.noteCut(h)
	for n := len(h.ahead); n > 0 && h.ahead[n-1].index > index && !h.w.o.keepVoid; n = len(h.ahead) {
		p := h.ahead[n-1]
		h.ahead = h.ahead[:n-1]
		h.w.noteVoid(p)
		p.op.void()
	}
	kept := h.reads[:0]
	for _, r := range h.reads {
		if r.index > index && r.term != 0 {
			r.op.void()
		} else {
			kept = append(kept, r)
		}
	}
	h.reads = kept
}

// apply takes a committed entry.
func (h *host) apply(e *pb.Entry) {
	h.w.check(e.GetIndex() == h.applied+1, "host %d: entry %d is applied after %d", h.id, e.GetIndex(), h.applied)
	head, payload, err := Decode(e)
	h.w.must(err)
	h.applied = e.GetIndex()
	if head.Type == journal.EntryRows {
		key, value := decodeRow(payload)
		h.rows[key] = value
	}
	sum := fnv.New64a()
	fmt.Fprint(sum, h.digest, e.GetTerm(), head.Type, payload)
	h.digest = sum.Sum64()
	h.w.noteApplied(h, e)
	if h.role.Leads && e.GetTerm() == h.role.Term {
		h.serving = true
	}
}

// release answers what waited for entries that are applied now.
func (h *host) release() {
	for len(h.ahead) > 0 && h.ahead[0].index <= h.applied {
		p := h.ahead[0]
		h.ahead = h.ahead[1:]
		h.w.noteAcknowledged(p)
		p.op.done(p.value)
	}
	kept := h.reads[:0]
	for _, r := range h.reads {
		switch {
		case r.index > h.applied:
			kept = append(kept, r)
		case r.term == 0: // of a follower: it reads now
			r.op.done(h.rows[r.key])
		default:
			r.op.done(r.value)
		}
	}
	h.reads = kept
}

// newest is the value of a key with what is not committed yet, and the entry it is of.
func (h *host) newest(key int) (value, index uint64) {
	for i := len(h.ahead) - 1; i >= 0; i-- {
		if h.ahead[i].key == key {
			return h.ahead[i].value, h.ahead[i].index
		}
	}
	return h.rows[key], h.applied
}

// serve runs a client's command. It says false if this host cannot.
func (h *host) serve(op *simOp) bool {
	if !h.up {
		return false
	}
	if h.paused {
		h.asked = append(h.asked, op)
		return true
	}
	if op.kind == opGet && op.follower {
		op.host = h.id
		context := fmt.Sprint(h.id, "/", h.life, "/", h.w.nextRead)
		h.w.nextRead++
		h.indexReads[context] = op
		h.w.must(h.core.ReadIndex(h.now(), context))
		h.act()
		return true
	}
	if !h.serving || !h.role.Leads {
		return false
	}
	value, index := h.newest(op.key)
	if op.kind == opGet {
		if h.now() >= h.core.Lease() && !h.w.o.staleReads {
			return false
		}
		h.w.leaseReads++
		h.reads = append(h.reads, &held{index: index, term: h.role.Term, key: op.key, value: value, op: op})
		h.release()
		return true
	}
	if op.kind == opIncr {
		value++
	} else {
		value = op.arg
	}
	index, err := h.core.Propose(h.now(), h.role.Term, Encode(Head{Time: 1, Type: journal.EntryRows}, encodeRow(op.key, value)))
	if err != nil {
		h.act()
		return false
	}
	h.ahead = append(h.ahead, &held{index: index, term: h.role.Term, key: op.key, value: value, op: op})
	h.act()
	return true
}

func encodeRow(key int, value uint64) []byte {
	return binary.BigEndian.AppendUint64([]byte{byte(key)}, value)
}

func decodeRow(b []byte) (key int, value uint64) {
	return int(b[0]), binary.BigEndian.Uint64(b[1:])
}
