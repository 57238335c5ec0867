package journal

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// A raftModel is what a Raft log must amount to: the records in the order in
// which they were written. Any prefix of them is a state that a crash may leave.
type raftModel struct {
	ops []raftOp
}

// raftOp is a record with a position, which is its place in the list plus one.
type raftOp struct {
	cut     bool
	head    RaftHead
	payload string
}

// entries is the log as it is after the first n records: entry i has index i+1.
func (m *raftModel) entries(n int) (out []raftOp) {
	for _, op := range m.ops[:n] {
		if op.cut {
			out = out[:op.head.Index]
		} else {
			out = append(out, op)
		}
	}
	return out
}

// claimed is the commit that the first n records claim.
func (m *raftModel) claimed(n int) (commit uint64) {
	for _, op := range m.ops[:n] {
		commit = max(commit, op.head.Commit)
	}
	return commit
}

// openedRaft is a log and what it replayed.
type openedRaft struct {
	*RaftLog
	replayed []StoredEntry
}

func openRaft(o Options, have Applied) (openedRaft, error) {
	if o.Dir == "" {
		o.Dir = dir
	}
	if o.Tick == nil {
		o.Tick = make(chan time.Time)
	}
	var r openedRaft
	var err error
	r.RaftLog, err = OpenRaft(o, have, func(h RaftHead, payload []byte) error {
		r.replayed = append(r.replayed, StoredEntry{h, []byte(string(payload))})
		return nil
	}, nil)
	return r, err
}

func mustOpenRaft(t testing.TB, o Options, have Applied) openedRaft {
	t.Helper()
	r, err := openRaft(o, have)
	ok(t, err)
	return r
}

// entryRecord is a payload with room for the heads before it.
func entryRecord(payload string) []byte { return append(make([]byte, RaftRoom), payload...) }

func mustAppendRaft(t testing.TB, r *RaftLog, h RaftHead, payload string) uint64 {
	t.Helper()
	position, err := r.Append(h, entryRecord(payload))
	ok(t, err)
	return position
}

// check reads all of the log, and fails unless the log is what the first n records of m are, and what was
// replayed are its committed entries above have.
func (m *raftModel) check(t testing.TB, r openedRaft, n int, have Applied) {
	t.Helper()
	want := m.entries(n)
	if r.Last() != uint64(len(want)) {
		t.Fatalf("the log ends with entry %d, want %d", r.Last(), len(want))
	}
	if r.First() > max(r.Committed(), have.Index)+1 {
		t.Fatalf("the log begins with entry %d, committed is %d", r.First(), r.Committed())
	}
	got, err := r.Entries(r.First(), r.Last()+1, 1<<40)
	if err != nil && !errors.Is(err, errStopped) {
		t.Fatal(err)
	}
	for i, e := range got {
		w := want[r.First()-1+uint64(i)]
		if e.RaftHead != w.head || string(e.Payload) != w.payload {
			t.Fatalf("entry %d is %+v %.20q, want %+v %.20q", e.Index, e.RaftHead, e.Payload, w.head, w.payload)
		}
	}
	for i := r.First(); i <= r.Last(); i++ {
		if term, err := r.Term(i); err != nil || term != want[i-1].head.Term {
			t.Fatalf("entry %d has term %d %v, want %d", i, term, err, want[i-1].head.Term)
		}
	}
	if base := r.First() - 1; base > 0 {
		if term, err := r.Term(base); err != nil || term != want[base-1].head.Term {
			t.Fatalf("entry %d, before the first, has term %d %v, want %d", base, term, err, want[base-1].head.Term)
		}
	}
	next := have.Index + 1
	for _, e := range r.replayed {
		w := want[next-1]
		if e.RaftHead != w.head || string(e.Payload) != w.payload {
			t.Fatalf("replayed is %+v %.20q, want %+v %.20q", e.RaftHead, e.Payload, w.head, w.payload)
		}
		next++
	}
	if next != max(have.Index, r.Committed())+1 {
		t.Fatalf("replayed are the entries from %d to %d, committed is %d", have.Index+1, next-1, r.Committed())
	}
}

// raftScript appends entries and cuts at random, as followers of several leaders do.
type raftScript struct {
	raftModel
	rng    *rand.Rand
	term   uint64
	commit uint64 // what is true; the log may know less
}

// step writes one or several records.
func (s *raftScript) step(r *RaftLog) error {
	if s.term == 0 || s.rng.IntN(12) == 0 {
		s.term++
	}
	last := r.Last()
	if s.rng.IntN(8) == 0 && s.commit < last {
		index := s.commit + s.rng.Uint64N(last-s.commit)
		s.ops = append(s.ops, raftOp{cut: true, head: RaftHead{Index: index}})
		position, err := r.Cut(index)
		if err == nil && position != uint64(len(s.ops)) {
			return fmt.Errorf("a cut got position %d, want %d", position, len(s.ops))
		}
		s.term++ // a cut is followed by entries of another leader
		return err
	}
	h := RaftHead{Index: last + 1, Term: s.term, Time: s.rng.Uint64(), Type: EntryType(1 + s.rng.IntN(4)), Version: uint8(s.rng.IntN(3))}
	payload := payloadOf(s.term, h.Index, []int{0, 20, 50, 300, 6000}[s.rng.IntN(5)])
	op := raftOp{head: h, payload: payload}
	if s.rng.IntN(6) == 0 { // a follower that catches up knows it already
		s.commit = h.Index
	}
	op.head.Commit = s.commit
	s.ops = append(s.ops, op)
	position, err := r.Append(op.head, entryRecord(payload))
	if err != nil {
		return err
	}
	if position != uint64(len(s.ops)) {
		return fmt.Errorf("an entry got position %d, want %d", position, len(s.ops))
	}
	if s.rng.IntN(2) == 0 {
		s.commit += s.rng.Uint64N(h.Index - s.commit + 1)
		if s.rng.IntN(2) == 0 {
			r.Commit(s.commit)
		}
	}
	return nil
}

func newScript(rng *rand.Rand) *raftScript { return &raftScript{rng: rng} }

func TestRaftLogReopens(t *testing.T) {
	t.Parallel()
	rng := newRand(t)
	for i := range 20 {
		s := newScript(rng)
		_, fs := newFS(t)
		o := Options{FS: fs, SegmentBytes: []int64{300, 2000, 50_000}[i%3], Policy: policies[i%3], LogID: 9}
		if i%5 == 0 {
			o.FS, o.Dir = OS, t.TempDir()
		}
		var have Applied
		r := mustOpenRaft(t, o, have)
		for range 6 {
			for range 40 {
				ok(t, s.step(r.RaftLog))
			}
			known := r.Committed()
			r.replayed = nil
			wasFirst := r.First()
			if rng.IntN(2) == 0 && known > have.Index { // a round: the tables have what is committed
				have = Applied{Position: r.Position(), Index: known}
				have.Term, _ = r.Term(known)
				// Rows behind known may be in the log at positions that Applied covers only if
				// they are committed: the rule of write-back.
				if known < r.Last() {
					have.Position = s.positionOf(known)
				}
				ok(t, r.Remove(have.Position, rng.Uint64N(known+1)))
			}
			if r.First() < wasFirst {
				t.Fatalf("the first entry was %d and is %d", wasFirst, r.First())
			}
			first := r.First()
			ok(t, r.Close())
			r = mustOpenRaft(t, o, have)
			s.check(t, r, len(s.ops), have)
			if r.First() > first || r.Committed() < known {
				t.Fatalf("before Close the log began with %d and was committed to %d; now %d and %d", first, known, r.First(), r.Committed())
			}
		}
		ok(t, r.Close())
		if n := fs.opened.Load(); n != 0 {
			t.Fatalf("%d files are still open", n)
		}
	}
}

// positionOf is the position of the record of a live entry.
func (s *raftScript) positionOf(index uint64) uint64 {
	for n := len(s.ops); n > 0; n-- {
		if op := s.ops[n-1]; !op.cut && op.head.Index == index {
			return uint64(n)
		}
	}
	return 0
}

// Parts of the log that are far from each other, over segments, cuts and marks.
func TestRaftEntriesAreBounded(t *testing.T) {
	t.Parallel()
	_, fs := newFS(t)
	r := mustOpenRaft(t, Options{FS: fs, SegmentBytes: 400_000, Policy: No}, Applied{})
	m := raftModel{}
	for i := range uint64(3000) {
		op := raftOp{head: RaftHead{Index: i + 1, Term: 1 + i/500, Type: EntryRows}, payload: payloadOf(1, i, 300)}
		m.ops = append(m.ops, op)
		mustAppendRaft(t, r.RaftLog, op.head, op.payload)
	}
	if n := len(r.line.points); n < 10 || n > 60 {
		t.Errorf("%d points for 3,000 entries in 1.1 MB", n)
	}
	for _, c := range []struct{ lo, hi, room, want uint64 }{
		{1, 3001, 1 << 40, 3000}, {1, 3001, 0, 1}, {7, 8, 0, 1}, {2990, 3001, 1 << 20, 11},
		{100, 3001, 900, 3}, {100, 3001, 899, 2}, {500, 500, 1, 0},
	} {
		got, err := r.Entries(c.lo, c.hi, c.room)
		if err != nil || uint64(len(got)) != c.want {
			t.Fatalf("%+v: %d entries, %v", c, len(got), err)
		}
		for i, e := range got {
			if e.Index != c.lo+uint64(i) || string(e.Payload) != m.ops[e.Index-1].payload {
				t.Fatalf("%+v: entry %d is %d", c, i, e.Index)
			}
		}
	}
	if _, err := r.Entries(1, 3002, 1); !errors.Is(err, ErrOrder) {
		t.Errorf("beyond the end: %v", err)
	}
	ok(t, r.Sync(r.Position()))
	ok(t, r.Remove(r.Position(), 2000))
	if f := r.First(); f < 2 || f > 2001 {
		t.Errorf("the log begins with %d, entries from 2001 on are asked for", f)
	}
	if _, err := r.Entries(r.First()-1, 3001, 1); !errors.Is(err, ErrCompacted) {
		t.Errorf("what was removed: %v", err)
	}
	if _, err := r.Term(r.First() - 2); !errors.Is(err, ErrCompacted) {
		t.Errorf("term of what was removed: %v", err)
	}
	ok(t, r.Close())
}

// What cannot follow is refused, and nothing of it is written.
func TestRaftLogRefuses(t *testing.T) {
	t.Parallel()
	_, fs := newFS(t)
	r := mustOpenRaft(t, Options{FS: fs}, Applied{})
	for i := range uint64(5) {
		mustAppendRaft(t, r.RaftLog, RaftHead{Index: i + 1, Term: 2, Commit: i}, "x")
	}
	for _, h := range []RaftHead{{Index: 5, Term: 2}, {Index: 7, Term: 2}, {Index: 6, Term: 1}, {Index: 6}} {
		if _, err := r.Append(h, entryRecord("y")); !errors.Is(err, ErrOrder) {
			t.Errorf("%+v: %v", h, err)
		}
	}
	for _, index := range []uint64{6, 3, 0} {
		if _, err := r.Cut(index); !errors.Is(err, ErrOrder) {
			t.Errorf("cut behind %d: %v", index, err)
		}
	}
	if _, err := r.Append(RaftHead{Index: 6, Term: 2}, make([]byte, RaftRoom-1)); err == nil {
		t.Error("a record without room was taken")
	}
	r.Commit(99) // what is not there cannot be known as committed
	if r.Committed() != 5 || r.Position() != 5 {
		t.Errorf("committed %d, position %d", r.Committed(), r.Position())
	}
	ok(t, r.Close())
}

// A log of version 1 is gone on with, and is then no longer an embedded store's.
func TestRaftLogConvertsData(t *testing.T) {
	t.Parallel()
	_, fs := newFS(t)
	j, _ := mustOpen(t, Options{FS: fs, LogID: 5}, 0)
	for _, p := range []string{"one", "two", "three"} {
		mustAppend(t, j, p)
	}
	mustClose(t, j)
	for round := range 2 {
		r := mustOpenRaft(t, Options{FS: fs}, Applied{Position: 1, Index: 1, Term: 1})
		if len(r.replayed) != 2+round || string(r.replayed[0].Payload) != "two" || r.replayed[1].Index != 3 || r.replayed[1].Term != 1 {
			t.Fatalf("replayed %+v", r.replayed)
		}
		if round == 0 {
			if r.First() != 4 || r.Last() != 3 || r.Committed() != 3 {
				t.Fatalf("first %d, last %d, committed %d", r.First(), r.Last(), r.Committed())
			}
			if _, err := r.Cut(2); !errors.Is(err, ErrOrder) {
				t.Errorf("a cut into the data: %v", err)
			}
			mustAppendRaft(t, r.RaftLog, RaftHead{Index: 4, Term: 2, Commit: 3}, "four")
			mustAppendRaft(t, r.RaftLog, RaftHead{Index: 5, Term: 2, Commit: 4}, "five")
		} else if term, err := r.Term(3); err != nil || term != 1 || r.Last() != 5 {
			t.Errorf("term of the last converted record: %d %v, last %d", term, err, r.Last())
		}
		ok(t, r.Close())
	}
	if _, _, err := open(Options{FS: fs}, 0); !errors.Is(err, ErrReplicated) {
		t.Errorf("opened as an embedded store's: %v", err)
	}
}

// A log that is not the one that the tables were made of is refused.
func TestRaftLogMatchesTables(t *testing.T) {
	t.Parallel()
	_, fs := newFS(t)
	r := mustOpenRaft(t, Options{FS: fs}, Applied{})
	for i := range uint64(4) {
		mustAppendRaft(t, r.RaftLog, RaftHead{Index: i + 1, Term: 1 + i, Commit: i}, "x")
	}
	ok(t, r.Close())
	for _, c := range []struct {
		have Applied
		want string
	}{
		{Applied{Position: 3, Index: 3, Term: 3}, ""},
		{Applied{Position: 3, Index: 3, Term: 2}, "entry 3 has term 3"},
		{Applied{Position: 4, Index: 5, Term: 5}, "ends with entry 4"},
		{Applied{Position: 9, Index: 4, Term: 4}, "had been synced before they got it"},
	} {
		r, err := openRaft(Options{FS: fs}, c.have)
		if c.want == "" {
			ok(t, err)
			ok(t, r.Close())
		} else if !errors.Is(err, ErrCorrupt) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: %v, want %q", c.have, err, c.want)
		}
	}
	// What the tables may have by half is replayed, though no record says that it is committed.
	for _, c := range []struct{ committed, want uint64 }{{0, 3}, {2, 3}, {99, 4}} {
		r := mustOpenRaft(t, Options{FS: fs}, Applied{Position: 1, Index: 1, Term: 1, Committed: c.committed})
		if n := uint64(len(r.replayed)); r.Committed() != c.want || n != c.want-1 {
			t.Errorf("with %d committed: %d are, %d were replayed", c.committed, r.Committed(), n)
		}
		ok(t, r.Close())
	}
	// A node that got its tables from another begins with a log of its own.
	_, empty := newFS(t)
	have := Applied{Position: 70, Index: 50, Term: 7}
	r = mustOpenRaft(t, Options{FS: empty}, have)
	if position := mustAppendRaft(t, r.RaftLog, RaftHead{Index: 51, Term: 7, Commit: 50}, "x"); position != 71 || r.First() != 51 {
		t.Errorf("position %d, first %d", position, r.First())
	}
	ok(t, r.Close())
	r = mustOpenRaft(t, Options{FS: empty}, have)
	if term, err := r.Term(50); err != nil || term != 7 || r.Last() != 51 {
		t.Errorf("term %d %v, last %d", term, err, r.Last())
	}
	ok(t, r.Close())
}

// A checkpoint shares the segments: a cut that comes later is not in it.
func TestRaftLogLinkTo(t *testing.T) {
	t.Parallel()
	_, fs := newFS(t)
	s := newScript(newRand(t))
	r := mustOpenRaft(t, Options{FS: fs, SegmentBytes: 3000}, Applied{})
	for range 60 {
		ok(t, s.step(r.RaftLog))
	}
	n, known := len(s.ops), r.Committed()
	copied := "/data/copy"
	last, err := r.LinkTo(copied, 0)
	ok(t, err)
	if last != uint64(n) {
		t.Fatalf("the copy ends with position %d of %d", last, n)
	}
	for range 40 {
		ok(t, s.step(r.RaftLog))
	}
	ok(t, r.Close())
	c := mustOpenRaft(t, Options{FS: fs, Dir: copied}, Applied{})
	s.check(t, c, n, Applied{})
	if c.Committed() != known {
		t.Errorf("the copy knows %d as committed, the log knew %d", c.Committed(), known)
	}
	ok(t, c.Close())
	r = mustOpenRaft(t, Options{FS: fs}, Applied{})
	s.check(t, r, len(s.ops), Applied{})
	ok(t, r.Close())
}

// A mark brings the newest commit when no entry comes to carry it.
func TestRaftMarks(t *testing.T) {
	t.Parallel()
	mem, fs := newFS(t)
	tick := make(chan time.Time)
	r := mustOpenRaft(t, Options{FS: fs, Policy: EverySec, Tick: tick}, Applied{})
	mustAppendRaft(t, r.RaftLog, RaftHead{Index: 1, Term: 1}, "x")
	r.Commit(1)
	ticks(t, r.j, tick, 3)
	crashed := pebbleFS{mem.CrashClone(crashNothing)}
	ok(t, r.Close())
	again := mustOpenRaft(t, Options{FS: crashed}, Applied{})
	if again.Committed() != 1 || len(again.replayed) != 1 {
		t.Errorf("committed %d, replayed %v", again.Committed(), again.replayed)
	}
	ok(t, again.Close())
}

// Damage in segments that the owner does not need costs only what others could
// have been given from there.
func TestRaftHistoryIsOptional(t *testing.T) {
	t.Parallel()
	_, fs := newFS(t)
	r := mustOpenRaft(t, Options{FS: fs, SegmentBytes: 400, Policy: No}, Applied{})
	m := raftModel{}
	for i := range uint64(30) {
		op := raftOp{head: RaftHead{Index: i + 1, Term: 1, Commit: i, Type: EntryRows}, payload: payloadOf(1, i, 40)}
		m.ops = append(m.ops, op)
		mustAppendRaft(t, r.RaftLog, op.head, op.payload)
	}
	r.Commit(30)
	ok(t, r.Close())
	have := Applied{Position: 28, Index: 28, Term: 1}
	first := func(fs FS) uint64 {
		r := mustOpenRaft(t, Options{FS: fs}, have)
		defer func() { ok(t, r.Close()) }()
		m.check(t, r, 30, have)
		return r.First()
	}
	im := imageOf(t, fs)
	if f := first(im.write(t)); f != 1 {
		t.Fatalf("whole, the log begins with entry %d", f)
	}
	im[segmentName(3)][raftHeaderSize+HeadRoom+3] ^= 1
	if f := first(im.write(t)); f != 7 {
		t.Errorf("with a bad third segment the log begins with entry %d", f)
	}
	delete(im, segmentName(3))
	if f := first(im.write(t)); f != 7 {
		t.Errorf("without the third segment the log begins with entry %d", f)
	}
}

func TestRaftEntriesNoticeDamage(t *testing.T) {
	t.Parallel()
	_, fs := newFS(t)
	r := mustOpenRaft(t, Options{FS: fs, Policy: No}, Applied{})
	for i := range uint64(3) {
		mustAppendRaft(t, r.RaftLog, RaftHead{Index: i + 1, Term: 1}, "payload")
	}
	f, err := fs.OpenForWrite(filepath.Join(dir, segmentName(1)))
	ok(t, err)
	_, err = f.WriteAt([]byte{'X'}, raftHeaderSize+2*80+75)
	ok(t, errors.Join(err, f.Close()))
	if _, err := r.Entries(1, 3, 1<<20); err != nil {
		t.Errorf("the entries before: %v", err)
	}
	if _, err := r.Entries(1, 4, 1<<20); !errors.Is(err, ErrCorrupt) || !strings.Contains(err.Error(), "entry 3") {
		t.Errorf("the damaged entry: %v", err)
	}
	ok(t, r.Close())
}

// A lineage is the same whether its cuts and removals come in one order or
// another, and its points lead to every entry that is left.
func TestLineage(t *testing.T) {
	t.Parallel()
	rng := newRand(t)
	for range 200 {
		var l lineage
		l.begin(raftBase{})
		var live []RaftHead // all that was ever added and not cut
		places := map[uint64]int64{}
		term, segment, off := uint64(1), uint64(1), int64(0)
		base := uint64(0)
		for seq := uint64(1); seq < 120; seq++ {
			switch rng.IntN(12) {
			case 0:
				term++
			case 1:
				segment, off, l.fresh = segment+1, 0, true
			case 2:
				if n := uint64(len(live)); n > base && n > l.commit {
					h := RaftHead{Index: max(base, l.commit) + rng.Uint64N(n-max(base, l.commit))}
					h.Term = l.term(h.Index)
					if why := l.refuseCut(h); why != "" {
						t.Fatal(why)
					}
					l.cut(h)
					live = live[:h.Index]
				}
			case 3:
				l.commit += rng.Uint64N(l.last - l.commit + 1)
				if n := l.at(l.commit + 1); n >= 0 {
					l.forget(l.points[n].segment)
					if l.base.index < base || l.base.index > l.commit {
						t.Fatalf("base was %d, is %d, committed %d", base, l.base.index, l.commit)
					}
					base = l.base.index
				}
			default:
				off += 1 + rng.Int64N(pointBytes/2)
				h := RaftHead{Index: uint64(len(live)) + 1, Term: term}
				if why := l.refuse(h); why != "" {
					t.Fatal(why)
				}
				l.add(h, seq, segment, off)
				live = append(live, h)
				places[h.Index] = int64(segment)<<32 + off
			}
			if l.last != uint64(len(live)) {
				t.Fatalf("last is %d of %d", l.last, len(live))
			}
			for i := max(base, 1); i <= l.last; i++ {
				if l.term(i) != live[i-1].Term {
					t.Fatalf("entry %d has term %d, want %d", i, l.term(i), live[i-1].Term)
				}
			}
			for i := base + 1; i <= l.last; i++ {
				p := l.points[l.at(i)]
				if at := int64(p.segment)<<32 + p.off; p.index > i || at > places[i] || at>>32 != places[i]>>32 || places[i]-at > 2*pointBytes {
					t.Fatalf("entry %d is at %x, its point is %+v", i, places[i], p)
				}
			}
			if !slices.IsSortedFunc(l.points, func(a, b point) int { return int(a.index) - int(b.index) }) {
				t.Fatalf("%v", l.points)
			}
		}
	}
}

func BenchmarkRaftAppend(b *testing.B) {
	r, err := openRaft(Options{Dir: b.TempDir(), Policy: EverySec}, Applied{})
	ok(b, err)
	rec := make([]byte, RaftRoom+200)
	b.ReportAllocs()
	for b.Loop() {
		h := RaftHead{Index: r.Last() + 1, Term: 1, Commit: r.Last(), Type: EntryRows}
		if _, err := r.Append(h, rec); err != nil {
			b.Fatal(err)
		}
		if r.Stats().Segments > 4 {
			b.StopTimer()
			ok(b, r.Sync(r.Position()))
			ok(b, r.Remove(r.Position(), r.Last()))
			b.StartTimer()
		}
	}
	ok(b, r.Close())
}

// BenchmarkRaftEntries reads entries of 200 bytes back, 1,000 at a time.
func BenchmarkRaftEntries(b *testing.B) {
	r, err := openRaft(Options{Dir: b.TempDir(), Policy: No}, Applied{})
	ok(b, err)
	for i := range uint64(100_000) {
		mustAppendRaft(b, r.RaftLog, RaftHead{Index: i + 1, Term: 1, Type: EntryRows}, strings.Repeat("x", 200))
	}
	lo := uint64(1)
	for b.Loop() {
		if _, err := r.Entries(lo, lo+1000, 1<<30); err != nil {
			b.Fatal(err)
		}
		lo = lo%98_000 + 777
	}
	ok(b, r.Close())
}
