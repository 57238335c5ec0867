package journal

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// A raftLife is a Raft log under a random but repeatable load with crashes.
type raftLife struct {
	*raftScript
	t    testing.TB
	fs   *hookFS
	o    Options
	tick chan time.Time
	r    openedRaft
	have Applied

	written, synced atomic.Uint64 // positions: as in life
	applied         atomic.Pointer[Applied]
}

func newRaftLife(t testing.TB, fs *hookFS, rng *rand.Rand, s *raftScript) *raftLife {
	o, tick := randomOptions(fs, rng)
	l := &raftLife{raftScript: s, t: t, fs: fs, tick: tick, o: o}
	l.applied.Store(&Applied{})
	return l
}

// open opens the log and holds it against the first records of the script.
func (l *raftLife) open(atLeast uint64) error {
	r, err := openRaft(l.o, l.have)
	if err != nil {
		return err
	}
	n := int(r.Position())
	if r.Position() < atLeast || n > len(l.ops) {
		l.t.Fatalf("the log ends with position %d; at least %d were promised, %d written", n, atLeast, len(l.ops))
	}
	l.check(l.t, r, n, l.have)
	if c := r.Committed(); c < min(l.claimed(n), r.Last()) || c > l.commit {
		l.t.Fatalf("committed is %d, %d of the script, whose records claim %d", c, l.commit, l.claimed(n))
	}
	l.r, l.ops = r, l.ops[:n]
	l.commit = r.Committed() // what was lost was not committed by a quorum of one
	l.note()
	return nil
}

func (l *raftLife) note() {
	l.written.Store(l.r.Position())
	l.synced.Store(l.r.Synced())
}

func (l *raftLife) step() error {
	defer l.note()
	switch l.rng.IntN(14) {
	case 0:
		return l.r.Sync(l.rng.Uint64N(l.r.Position() + 2))
	case 1:
		return l.r.Rotate()
	case 2:
		ticks(l.t, l.r.j, l.tick, 1+l.rng.IntN(3))
		return nil
	case 3:
		l.o.Policy = policies[l.rng.IntN(3)]
		return l.r.SetPolicy(l.o.Policy)
	case 4:
		return l.round()
	case 5:
		if l.rng.IntN(3) == 0 {
			if err := l.r.Close(); err != nil {
				return err
			}
			return l.open(uint64(len(l.ops)))
		}
		return nil
	default:
		return l.raftScript.step(l.r.RaftLog)
	}
}

// round has the owner's tables take what is committed, by the rule of write-back,
// and removes segments.
func (l *raftLife) round() error {
	known := l.r.Committed()
	if err := l.r.Sync(l.r.Position()); err != nil || known <= l.have.Index {
		return err
	}
	l.have = Applied{Position: l.positionOf(known), Index: known}
	l.have.Term, _ = l.r.Term(known)
	a := l.have
	l.applied.Store(&a)
	return l.r.Remove(l.have.Position, l.rng.Uint64N(known+1))
}

// live is life.live for a Raft log.
func (l *raftLife) live(c *crash, steps int) bool {
	err := l.open(l.synced.Load())
	for i := 0; i < steps && err == nil; i++ {
		err = l.step()
	}
	if l.r.RaftLog != nil {
		err = errors.Join(err, l.r.Close())
	}
	return c.came(l.t, err)
}

// TestRaftCrashSweep stops the machine before every change of the file system in
// turn; what is found then is the log after some of its records, and all of those
// that were promised: entries that were cut do not come back, and those that
// were not are there.
func TestRaftCrashSweep(t *testing.T) {
	t.Parallel()
	crashSweep(t, raftSweepOnce)
}

// raftSweepOnce is sweepOnce for a Raft log.
func raftSweepOnce(t *testing.T, seed uint64, n int) bool {
	mem, fs := newFS(t)
	rng := rand.New(rand.NewPCG(seed, 0))
	chance := rand.New(rand.NewPCG(seed, uint64(n)))
	l := newRaftLife(t, fs, rng, newScript(rng))
	for generation := range 3 {
		var survives uint64
		var have Applied
		c := crashAt(l.fs, n, mem, chance, func(killed bool) {
			survives, have = promised(killed, &l.synced, &l.written), *l.applied.Load()
		})
		if !l.live(c, 40) {
			return generation > 0
		}
		mem, fs = c.fs, &hookFS{FS: pebbleFS{c.fs}}
		next := newRaftLife(t, fs, chance, l.raftScript)
		next.have = have
		next.applied.Store(&have)
		next.synced.Store(survives)
		l, n = next, 1+chance.IntN(60)
	}
	l.fs.set(nil)
	ok(t, l.open(l.synced.Load()))
	ok(t, l.r.Close())
	return true
}

// raftSample is a log of several segments with cuts, whose void entries are in
// the same segment as what replaced them and in older ones. reserved zeros at the
// ends are cut off. synced is what the log itself says.
func raftSample(t testing.TB, closed bool) (im image, m raftModel, synced uint64) {
	t.Helper()
	_, fs := newFS(t)
	tick := make(chan time.Time)
	r := mustOpenRaft(t, Options{FS: fs, SegmentBytes: 640, Policy: No, LogID: 0xabcd1234, Tick: tick}, Applied{})
	term, commit := uint64(1), uint64(0)
	for i := range 16 {
		switch i {
		case 3, 7, 12:
			term++
			back := r.Last() - uint64(min(i-2, 4))
			m.ops = append(m.ops, raftOp{cut: true, head: RaftHead{Index: back}})
			_, err := r.Cut(back)
			ok(t, err)
		case 5:
			ok(t, r.Sync(r.Position()))
			ticks(t, r.j, tick, 2) // the second writes a mark in the middle
		case 10:
			ok(t, r.Sync(r.Position()))
		}
		op := raftOp{head: RaftHead{Index: r.Last() + 1, Term: term, Commit: commit, Type: EntryRows, Time: 1}, payload: payloadOf(3, uint64(i), []int{0, 17, 60, 110}[i%4])}
		m.ops = append(m.ops, op)
		mustAppendRaft(t, r.RaftLog, op.head, op.payload)
		if i > 8 {
			commit = 2
		}
	}
	im = imageOf(t, fs)
	if closed {
		ok(t, r.Close())
		im = imageOf(t, fs)
	}
	ends := map[string]int64{}
	report, err := Walk(im.write(t), dir, 0, func(e Entry) error {
		synced = max(synced, e.Synced)
		ends[e.File] = e.Offset + padded(HeadRoom+int64(len(e.Payload))+int64(e.Kind.room()-HeadRoom))
		return nil
	})
	if err != nil || len(report.Problems) > 0 || report.Records != 19 || report.Marks < 1 {
		t.Fatalf("the sample: %+v %v", report, err)
	}
	for name, b := range im {
		if end := ends[name]; end == 0 {
			delete(im, name) // a spare
		} else if end < int64(len(b)) {
			im[name] = b[:end]
		}
	}
	if len(im) < 4 {
		t.Fatalf("the sample has %d segments", len(im))
	}
	ok(t, r.Close())
	return im, m, synced
}

// outcome opens a log that was harmed. It is refused, or it is what some of its
// first records make, and then all that is known to be synced.
func (m *raftModel) outcome(t *testing.T, what string, im image, synced uint64, counts map[string]int) Report {
	t.Helper()
	fs := im.write(t)
	report, err := Walk(fs, dir, 0, func(Entry) error { return nil })
	ok(t, err)
	r, err := openRaft(Options{FS: fs}, Applied{})
	switch {
	case errors.Is(err, ErrCorrupt):
		counts["refused"]++
		if len(report.Problems) == 0 || !report.Problems[0].Corrupt {
			t.Fatalf("%s: %v, Walk says %v", what, err, report.Problems)
		}
		s, err := Salvage(fs, dir, 0)
		ok(t, err)
		if r, err = openRaft(Options{FS: fs}, Applied{}); err != nil || r.Position() != s.Kept {
			t.Fatalf("%s: after salvage: position %d of %d: %v", what, r.Position(), s.Kept, err)
		}
	case err != nil:
		t.Fatalf("%s: %v", what, err)
	case int(r.Position()) < len(m.ops):
		counts["cut"]++
		if r.Position() < synced {
			t.Fatalf("%s: cut to position %d, %d were synced", what, r.Position(), synced)
		}
	default:
		counts["whole"]++
	}
	m.check(t, r, int(r.Position()), Applied{})
	ok(t, r.Close())
	return report
}

// Every flipped bit is noticed, in void entries and cuts too, whether it is in
// what counts or in what does not: the log is refused or shorter, never different.
func TestRaftFlippedBits(t *testing.T) {
	t.Parallel()
	rng := newRand(t)
	for _, closed := range []bool{true, false} {
		im, m, synced := raftSample(t, closed)
		if closed != (synced == 19) {
			t.Fatalf("the sample (closed: %v) is synced up to %d", closed, synced)
		}
		counts := map[string]int{}
		for name, b := range im {
			for i := range b {
				bit := byte(1) << rng.IntN(8)
				b[i] ^= bit
				if r := m.outcome(t, fmt.Sprintf("byte %d of %s", i, name), im, synced, counts); len(r.Problems) == 0 {
					t.Fatalf("byte %d of %s: Walk sees nothing", i, name)
				}
				b[i] ^= bit
			}
		}
		t.Logf("closed: %v: %v", closed, counts)
		if counts["refused"] == 0 || closed != (counts["cut"] == 0) {
			t.Errorf("closed: %v: %v", closed, counts)
		}
	}
}

// Every length to which a segment may be cut, with what is behind and without,
// with the end file and without.
func TestRaftEveryLength(t *testing.T) {
	t.Parallel()
	for _, closed := range []bool{true, false} {
		im, m, synced := raftSample(t, closed)
		names := slices.Sorted(func(yield func(string) bool) {
			for name := range im {
				if !yield(name) {
					return
				}
			}
		})
		counts, gone := map[string]int{}, map[string]int{}
		for i, name := range names {
			whole := im[name]
			for n := range whole {
				im[name] = whole[:n]
				if i < len(names)-1 {
					m.outcome(t, fmt.Sprintf("%s cut to %d bytes", name, n), im, synced, counts)
				}
				// All behind it is gone too: nothing in the log can know, the end file is not
				// in the image. That is a shorter log, and never a different one.
				rest := image{}
				for _, before := range names[:i+1] {
					rest[before] = im[before]
				}
				m.outcome(t, fmt.Sprintf("%s cut to %d bytes, without what is behind", name, n), rest, 0, gone)
			}
			im[name] = whole
		}
		t.Logf("closed: %v: %v, without what is behind: %v", closed, counts, gone)
		if counts["refused"] == 0 || gone["cut"] == 0 {
			t.Errorf("closed: %v: %v %v", closed, counts, gone)
		}
	}
}

// The end file knows of records that were synced and are gone, cuts or not; see
// docs/adr/0021-journal-end.md.
func TestRaftEndIsKnown(t *testing.T) {
	t.Parallel()
	build := func() (*hookFS, raftModel) {
		_, fs := newFS(t)
		r := mustOpenRaft(t, Options{FS: fs, SegmentBytes: 400, Policy: Always}, Applied{})
		var m raftModel
		for i := range uint64(12) {
			op := raftOp{head: RaftHead{Index: r.Last() + 1, Term: 1 + i/4}, payload: "some payload"}
			m.ops = append(m.ops, op)
			mustAppendRaft(t, r.RaftLog, op.head, op.payload)
			if i == 7 || i == 11 {
				index := r.Last() - 3
				m.ops = append(m.ops, raftOp{cut: true, head: RaftHead{Index: index}})
				_, err := r.Cut(index)
				ok(t, err)
			}
		}
		ok(t, r.Sync(r.Position()))
		ok(t, r.Close())
		return fs, m
	}
	fs, m := build()
	r := mustOpenRaft(t, Options{FS: fs}, Applied{})
	m.check(t, r, len(m.ops), Applied{})
	ok(t, r.Close())
	names, err := fs.List(dir)
	ok(t, err)
	slices.Sort(names)
	for n := 1; n <= len(names); n++ {
		// The last segments are gone: those that only void entries and the cut are in, too.
		fs, _ := build()
		for _, name := range names[max(0, len(names)-n):] {
			if err := fs.Remove(filepath.Join(dir, name)); err != nil && !errors.Is(err, os.ErrNotExist) {
				t.Fatal(err)
			}
		}
		left, err := Walk(fs, dir, 0, func(Entry) error { return nil })
		ok(t, err)
		r, err := openRaft(Options{FS: fs}, Applied{})
		if left.Last == uint64(len(m.ops)) { // only a segment that was not used yet is gone
			ok(t, err)
			ok(t, r.Close())
		} else if !errors.Is(err, ErrCorrupt) || !strings.Contains(err.Error(), "journal.end") {
			t.Errorf("without the last %d segments: %v", n, err)
		}
	}
}

// A whole record that cannot follow what is before it was written by a program that is
// wrong, or the files are of several logs: that is no torn tail, and nothing is cut off.
func TestRaftWholeRecordsMustFollow(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		wrong func(*testing.T, *RaftLog)
		want  string
	}{
		"index": {func(t *testing.T, r *RaftLog) {
			r.line.last = 7
			mustAppendRaft(t, r, RaftHead{Index: 8, Term: 2}, "x")
		}, "entry 8 follows entry 3"},
		"term": {func(t *testing.T, r *RaftLog) {
			r.line.terms = nil
			mustAppendRaft(t, r, RaftHead{Index: 4, Term: 1}, "x")
		}, "entry 4 of term 1 follows one of term 2"},
		"cut of what is committed": {func(t *testing.T, r *RaftLog) {
			r.line.commit = 0
			_, err := r.Cut(1)
			ok(t, err)
		}, "a cut behind entry 1, but all up to 2 is committed"},
		"cut of what was never there": {func(t *testing.T, r *RaftLog) {
			r.line.last = 7
			_, err := r.Cut(6)
			ok(t, err)
		}, "a cut behind entry 6, the log ends with entry 3"},
		"cut with another term": {func(t *testing.T, r *RaftLog) {
			r.line.terms = []termStart{{1, 9}}
			_, err := r.Cut(2)
			ok(t, err)
		}, "a cut behind entry 2 of term 9, whose term is 2"},
		"mark": {func(t *testing.T, r *RaftLog) { r.line.commit = 9 }, "a mark says that entry 9 is committed"},
		"segment": {func(t *testing.T, r *RaftLog) {
			r.line.last = 2
			ok(t, r.Rotate())
		}, "the segment begins behind entry 2 of term 2, the log is at entry 3"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, fs := newFS(t)
			r := mustOpenRaft(t, Options{FS: fs}, Applied{})
			for i := range uint64(3) {
				mustAppendRaft(t, r.RaftLog, RaftHead{Index: i + 1, Term: 2, Commit: i}, "x")
			}
			c.wrong(t, r.RaftLog)
			ok(t, r.Close())
			report, err := Walk(fs, dir, 0, func(Entry) error { return nil })
			if err != nil || len(report.Problems) == 0 || !report.Problems[0].Corrupt {
				t.Errorf("Walk: %+v %v", report, err)
			}
			if _, err := openRaft(Options{FS: fs}, Applied{}); !errors.Is(err, ErrCorrupt) || !strings.Contains(err.Error(), c.want) {
				t.Errorf("want %q: %v", c.want, err)
			}
		})
	}
}
