package journal

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
)

const dir = "/data/journal"

// newFS returns an empty file system in memory that can crash.
func newFS(t testing.TB) (*vfs.MemFS, *hookFS) {
	t.Helper()
	mem := vfs.NewCrashableMem()
	if err := mem.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, d := range []string{"/", "/data"} {
		if err := (pebbleFS{mem}).SyncDir(d); err != nil {
			t.Fatal(err)
		}
	}
	return mem, &hookFS{FS: pebbleFS{mem}}
}

// newRand returns a source whose seed is printed if the test fails.
func newRand(t testing.TB) *rand.Rand {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	return rand.New(rand.NewPCG(seed, 0))
}

// record is a payload with room for the header before it.
func record(payload string) []byte { return append(make([]byte, HeadRoom), payload...) }

// payloadOf is what tests write as record seq of a lineage.
func payloadOf(lineage, seq uint64, size int) string {
	b := make([]byte, max(size, 16))
	binary.BigEndian.PutUint64(b, lineage)
	binary.BigEndian.PutUint64(b[8:], seq)
	for i := 16; i < len(b); i++ {
		b[i] = byte(uint64(i) * (seq + lineage))
	}
	if size == 0 {
		return ""
	}
	return string(b)
}

type replayed struct {
	seq     uint64
	payload string
}

// open opens a journal and returns what it replayed.
func open(o Options, from uint64) (*Journal, []replayed, error) {
	if o.Dir == "" {
		o.Dir = dir
	}
	if o.Tick == nil {
		o.Tick = make(chan time.Time)
	}
	var got []replayed
	j, err := Open(o, from, func(seq uint64, payload []byte) error {
		got = append(got, replayed{seq, string(payload)})
		return nil
	}, nil)
	return j, got, err
}

func mustOpen(t testing.TB, o Options, from uint64) (*Journal, []replayed) {
	t.Helper()
	j, got, err := open(o, from)
	if err != nil {
		t.Fatal(err)
	}
	return j, got
}

func mustAppend(t testing.TB, j *Journal, payload string) uint64 {
	t.Helper()
	seq, err := j.Append(0, record(payload))
	if err != nil {
		t.Fatal(err)
	}
	return seq
}

func mustClose(t testing.TB, j *Journal) {
	t.Helper()
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
}

func ok(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// eventually polls: what it waits for happens in another goroutine.
func eventually(t testing.TB, what string, cond func() bool) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); !cond(); time.Sleep(50 * time.Microsecond) {
		if time.Now().After(end) {
			t.Fatalf("never happened: %s", what)
		}
	}
}

// ticks lets seconds pass for a journal, each of which sees the state of now.
func ticks(t testing.TB, j *Journal, tick chan<- time.Time, n int) {
	t.Helper()
	count := func() int {
		j.mu.Lock()
		defer j.mu.Unlock()
		return j.figures.ticks
	}
	for range n {
		before := count()
		tick <- time.Time{}
		eventually(t, "a tick", func() bool { return count() > before })
	}
}

// wantRecords fails unless got is the records from first on.
func wantRecords(t testing.TB, got []replayed, first uint64, payloads ...string) {
	t.Helper()
	if len(got) != len(payloads) {
		t.Fatalf("%d records were replayed, want %d", len(got), len(payloads))
	}
	for i, g := range got {
		if g.seq != first+uint64(i) || g.payload != payloads[i] {
			t.Fatalf("record %d is %d %.40q, want %d %.40q", i, g.seq, g.payload, first+uint64(i), payloads[i])
		}
	}
}

func segmentsIn(t testing.TB, fs FS) (n int) {
	t.Helper()
	names, err := fs.List(dir)
	ok(t, err)
	for _, name := range names {
		if _, is := parseName(name); is {
			n++
		}
	}
	return n
}

func TestAppendAndReopen(t *testing.T) {
	t.Parallel()
	tmp := t.TempDir() // the operating system's files
	var all []string
	from := uint64(0)
	for round := range 4 {
		o := Options{Dir: filepath.Join(tmp, "a", "b"), SegmentBytes: 3000, Policy: Policy(1 + round%3)}
		j, got := mustOpen(t, o, from)
		wantRecords(t, got, from+1, all[from:]...)
		for i := range 50 {
			p := payloadOf(uint64(round), uint64(len(all)), i*9)
			if seq := mustAppend(t, j, p); seq != uint64(len(all)+1) {
				t.Fatalf("record %d got number %d", len(all)+1, seq)
			}
			all = append(all, p)
		}
		if j.Last() != uint64(len(all)) {
			t.Fatalf("last is %d, want %d", j.Last(), len(all))
		}
		ok(t, j.Sync(j.Last()-3))
		if s := j.Synced(); s < j.Last()-3 {
			t.Fatalf("synced is %d after waiting for %d", s, j.Last()-3)
		}
		mustClose(t, j)
		mustClose(t, j)
		if j.Synced() != j.Last() || j.Durable() != j.Last() {
			t.Fatalf("after Close synced is %d, durable %d, last %d", j.Synced(), j.Durable(), j.Last())
		}
		if _, err := j.Append(0, record("x")); !errors.Is(err, ErrClosed) {
			t.Fatalf("append after Close: %v", err)
		}
		from = uint64(round * 20)
	}
	r, err := Walk(OS, filepath.Join(tmp, "a", "b"), 0, func(Entry) error { return nil })
	ok(t, err)
	if r.Records != len(all) || r.Last != uint64(len(all)) || r.Synced != r.Last || len(r.Problems) > 0 {
		t.Fatalf("walk: %+v", r)
	}
}

func TestDurableByPolicy(t *testing.T) {
	t.Parallel()
	_, fs := newFS(t)
	var syncs atomic.Int64
	gate := make(chan struct{}, 1000)
	tick := make(chan time.Time)
	var grew atomic.Int64
	j, _ := mustOpen(t, Options{FS: fs, Policy: No, Tick: tick, OnDurable: func() { grew.Add(1) }}, 0)
	eventually(t, "a spare", func() bool { return segmentsIn(t, fs) == 2 })
	fs.set(func(o op) error {
		if o.kind == "sync" && o.name == filepath.Join(dir, segmentName(1)) {
			<-gate
			syncs.Add(1)
		}
		return nil
	})
	twoTicks := func() { ticks(t, j, tick, 2) }
	mustAppend(t, j, "one")
	twoTicks()
	if j.Durable() != 1 || j.Synced() != 0 || syncs.Load() != 0 {
		t.Fatalf("no: durable %d, synced %d", j.Durable(), j.Synced())
	}
	ok(t, j.SetPolicy(EverySec))
	mustAppend(t, j, "two")
	if j.Durable() != 2 || j.Synced() != 0 {
		t.Fatalf("everysec: durable %d, synced %d", j.Durable(), j.Synced())
	}
	gate <- struct{}{}
	twoTicks()
	eventually(t, "the fsync of everysec", func() bool { return j.Synced() == 2 })
	gate <- struct{}{} // for the mark
	twoTicks()
	if grew.Load() != 0 {
		t.Fatal("OnDurable was called though nothing waited")
	}
	gate <- struct{}{}
	mustAppend(t, j, "three")
	ok(t, j.SetPolicy(Always)) // syncs what is there
	if j.Synced() != 3 {
		t.Fatalf("after the change to always synced is %d", j.Synced())
	}
	mustAppend(t, j, "four") // its fsync waits at the gate
	if j.Durable() != 3 || j.Synced() != 3 {
		t.Fatalf("always: durable %d, synced %d before the fsync", j.Durable(), j.Synced())
	}
	ok(t, j.SetPolicy(EverySec)) // four is durable in the new sense
	if j.Durable() != 4 || j.Synced() != 3 {
		t.Fatalf("back to everysec: durable %d, synced %d", j.Durable(), j.Synced())
	}
	close(gate)
	eventually(t, "OnDurable after the change", func() bool { return grew.Load() > 0 })
	mustClose(t, j)
	if err := j.SetPolicy(9); err == nil {
		t.Fatal("policy 9 was taken")
	}
}

// One fsync serves all that was written before it began.
func TestOneSyncServesAll(t *testing.T) {
	t.Parallel()
	_, fs := newFS(t)
	j, _ := mustOpen(t, Options{FS: fs, Policy: Always, SegmentBytes: 1 << 16}, 0)
	eventually(t, "the change to a filled segment", func() bool { return j.Stats().Segments == 2 && segmentsIn(t, fs) == 3 })
	eventually(t, "quiet", func() bool {
		j.mu.Lock()
		defer j.mu.Unlock()
		return j.spare != nil && j.spare.filled && len(j.rotated) == 0
	})
	before := j.Stats().Syncs
	gate, entered := make(chan struct{}), make(chan struct{}, 100)
	fs.set(func(o op) error {
		if o.kind == "sync" {
			entered <- struct{}{}
			<-gate
		}
		return nil
	})
	mustAppend(t, j, "first")
	<-entered
	var wg sync.WaitGroup
	for range 10 {
		wg.Go(func() {
			if seq, err := j.Append(0, record("more")); err != nil || j.Sync(seq) != nil {
				t.Error(seq, err)
			}
		})
	}
	eventually(t, "ten appends", func() bool { return j.Last() == 11 })
	gate <- struct{}{}
	<-entered
	if j.Durable() != 1 {
		t.Fatalf("durable is %d after an fsync that began before the others", j.Durable())
	}
	close(gate)
	wg.Wait()
	if n := j.Stats().Syncs - before; n != 2 {
		t.Fatalf("%d fsyncs", n)
	}
	mustClose(t, j)
}

func TestRotateRemoveLink(t *testing.T) {
	t.Parallel()
	for _, links := range []bool{true, false} {
		t.Run(fmt.Sprint("links ", links), func(t *testing.T) {
			_, fs := newFS(t)
			j, _ := mustOpen(t, Options{FS: fs, Policy: No, SegmentBytes: 500}, 0)
			from := j.Last()
			var want []string
			for i := range 40 {
				want = append(want, payloadOf(7, uint64(i), 60))
				mustAppend(t, j, want[i])
			}
			segs := j.Stats().Segments
			if segs < 8 || j.Stats().Bytes < 40*96 {
				t.Fatalf("%+v", j.Stats())
			}
			ok(t, j.Sync(j.Last()))
			ok(t, j.Remove(from+20))
			if left := j.Stats().Segments; left >= segs || left < segs/2 {
				t.Fatalf("%d of %d segments are left", left, segs)
			}
			if !links {
				fs.set(func(o op) error {
					if o.kind == "link" {
						return errors.ErrUnsupported
					}
					return nil
				})
			}
			to := fmt.Sprint("/data/copy", links)
			last, err := j.LinkTo(to, from+22)
			if err != nil || last != from+40 {
				t.Fatalf("LinkTo: %d %v", last, err)
			}
			after := mustAppend(t, j, "not in the copy")
			// The copy is a log of its own, and opening it leaves the original alone.
			k, got := mustOpen(t, Options{FS: fs, Dir: to}, from+22)
			wantRecords(t, got, from+23, want[22:]...)
			mustAppend(t, k, "only in the copy")
			mustClose(t, k)
			r, err := Walk(fs, to, 0, func(Entry) error { return nil })
			if err != nil || len(r.Problems) > 0 {
				t.Fatalf("the copy: %+v %v", r, err)
			}
			// Everything but the active segment can go.
			ok(t, j.Rotate())
			ok(t, j.Rotate()) // has nothing to do
			ok(t, j.Remove(after))
			if n := j.Stats().Segments; n != 1 {
				t.Fatalf("%d segments are left", n)
			}
			mustClose(t, j)
			j, got = mustOpen(t, Options{FS: fs}, after)
			wantRecords(t, got, 0)
			mustClose(t, j)
		})
	}
}

// A log that is opened again and again without records does not grow.
func TestRestartsLeaveNoSegments(t *testing.T) {
	t.Parallel()
	_, fs := newFS(t)
	j, _ := mustOpen(t, Options{FS: fs}, 0)
	mustAppend(t, j, "x")
	mustClose(t, j)
	for range 5 {
		j, got := mustOpen(t, Options{FS: fs}, 0)
		wantRecords(t, got, 1, "x")
		mustClose(t, j)
	}
	if n := segmentsIn(t, fs); n != 2 {
		t.Fatalf("%d segments", n)
	}
}

// The journal ends before what the store that it serves has: records behind that
// are missing, too. After a salvage numbers go on behind the store's.
func TestLogEndsBeforeFrom(t *testing.T) {
	t.Parallel()
	_, fs := newFS(t)
	j, _ := mustOpen(t, Options{FS: fs}, 0)
	mustAppend(t, j, "x")
	mustClose(t, j)
	if _, _, err := open(Options{FS: fs}, 10); !errors.Is(err, ErrCorrupt) || !strings.Contains(err.Error(), "the tables have everything up to record 10") {
		t.Fatal(err)
	}
	r, err := Salvage(fs, dir, 10)
	ok(t, err)
	if r.Kept != 10 || len(r.Aside) == 0 {
		t.Fatalf("%+v", r)
	}
	j, got := mustOpen(t, Options{FS: fs}, 10)
	wantRecords(t, got, 0)
	if seq := mustAppend(t, j, "eleven"); seq != 11 {
		t.Fatalf("the next number is %d", seq)
	}
	mustClose(t, j)
	j, got = mustOpen(t, Options{FS: fs}, 10)
	wantRecords(t, got, 11, "eleven")
	mustClose(t, j)
}

func TestLargeRecordsAndProgress(t *testing.T) {
	t.Parallel()
	_, fs := newFS(t)
	big := string(bytes.Repeat([]byte("large "), 1<<19)) // three times a segment
	j, _ := mustOpen(t, Options{FS: fs, SegmentBytes: 1 << 20, Policy: Always}, 0)
	for _, p := range []string{"a", big, "b", big, big, ""} {
		mustAppend(t, j, p)
	}
	mustClose(t, j)
	var done, total int64
	calls := 0
	j, err := Open(Options{FS: fs, Dir: dir, SegmentBytes: 1 << 20}, 1, func(uint64, []byte) error { return nil }, func(d, n int64) {
		if d < done || n < total || d > n {
			t.Errorf("progress %d of %d after %d of %d", d, n, done, total)
		}
		done, total = d, n
		calls++
	})
	ok(t, err)
	if done != total || calls < 5 || total < int64(3*len(big)) {
		t.Fatalf("progress %d of %d in %d calls", done, total, calls)
	}
	mustClose(t, j)
	j, got := mustOpen(t, Options{FS: fs}, 0)
	wantRecords(t, got, 1, "a", big, "b", big, big, "")
	if _, err := j.Append(0, make([]byte, HeadRoom-1)); err == nil {
		t.Fatal("a record without room was taken")
	}
	mustClose(t, j)
	want := errors.New("stop")
	if _, err := Open(Options{FS: fs, Dir: dir}, 2, func(seq uint64, _ []byte) error { return want }, nil); !errors.Is(err, want) {
		t.Fatalf("the error of replay became %v", err)
	}
}

// A length that a damaged header names is not believed.
func TestLengthIsCheckedBeforeMemoryIsTaken(t *testing.T) {
	t.Parallel()
	_, fs := newFS(t)
	j, _ := mustOpen(t, Options{FS: fs, LogID: 5}, 0)
	mustClose(t, j)
	rec := record("x")
	head{length: MaxPayload, log: 5, seq: 1, kind: Data}.put(rec, 0)
	f, err := fs.OpenForWrite(filepath.Join(dir, segmentName(1)))
	ok(t, err)
	_, err = f.WriteAt(rec, headerSize)
	ok(t, err)
	ok(t, f.Close())
	j, got := mustOpen(t, Options{FS: fs}, 0)
	wantRecords(t, got, 0)
	mustClose(t, j)
}

func TestAppendAllocatesNothing(t *testing.T) {
	for _, p := range []Policy{Always, EverySec, No} {
		j, _ := mustOpen(t, Options{Dir: t.TempDir(), SegmentBytes: 1 << 20, Policy: p}, 0)
		if p == Always { // its maker allocates in the beginning
			eventually(t, "a filled segment", func() bool { return j.Stats().Segments == 2 })
		}
		eventually(t, "quiet", func() bool {
			j.mu.Lock()
			defer j.mu.Unlock()
			return j.spare != nil && (p != Always || j.spare.filled)
		})
		rec := record(payloadOf(1, 1, 300))
		if n := testing.AllocsPerRun(500, func() {
			if _, err := j.Append(0, rec); err != nil {
				t.Fatal(err)
			}
		}); n != 0 {
			t.Errorf("policy %d: %v allocations", p, n)
		}
		mustClose(t, j)
	}
}

// Everything at once, for the race detector.
func TestConcurrentUse(t *testing.T) {
	t.Parallel()
	tmp := t.TempDir()
	tick := make(chan time.Time)
	var j *Journal
	ready := make(chan struct{})
	var durable atomic.Uint64
	j, err := Open(Options{Dir: filepath.Join(tmp, "j"), SegmentBytes: 20_000, Policy: Always, Tick: tick, OnDurable: func() {
		<-ready
		if d := j.Durable(); d < durable.Swap(d) {
			t.Error("durable has decreased")
		}
	}}, 0, func(uint64, []byte) error { return nil }, nil)
	ok(t, err)
	close(ready)
	const writers, each = 6, 300
	var all [writers*each + 1]string
	var wg sync.WaitGroup
	for w := range writers {
		wg.Go(func() {
			for i := range each {
				p := payloadOf(uint64(w), uint64(i), i)
				seq, err := j.Append(0, record(p))
				if err == nil && i%20 == 0 {
					err = j.Sync(seq)
				}
				if err != nil {
					t.Error(err)
					return
				}
				all[seq] = p
			}
		})
	}
	stop := make(chan struct{})
	var helpers sync.WaitGroup
	loop := func(do func(i int) error) {
		helpers.Go(func() {
			for i := 0; ; i++ {
				select {
				case <-stop:
					return
				default:
					if err := do(i); err != nil {
						t.Error(err)
						return
					}
				}
				time.Sleep(100 * time.Microsecond)
			}
		})
	}
	loop(func(i int) error { tick <- time.Time{}; return nil })
	loop(func(i int) error { return j.SetPolicy(Policy(1 + i%3)) })
	loop(func(i int) error { j.Stats(); return j.Rotate() })
	loop(func(i int) error {
		if i%50 > 0 {
			return nil
		}
		_, err := j.LinkTo(filepath.Join(tmp, fmt.Sprint("copy", i)), 0)
		return err
	})
	loop(func(i int) error { return j.Remove(0) })
	wg.Wait()
	close(stop)
	helpers.Wait()
	mustClose(t, j)
	j, got := mustOpen(t, Options{Dir: filepath.Join(tmp, "j")}, 0)
	wantRecords(t, got, 1, all[1:]...)
	mustClose(t, j)
	if r, err := Walk(OS, filepath.Join(tmp, "copy0"), 0, func(Entry) error { return nil }); err != nil || len(r.Problems) > 0 {
		t.Errorf("a copy: %+v %v", r, err)
	}
}

func BenchmarkAppend(b *testing.B) {
	for _, size := range []int{200, 4096} {
		b.Run(fmt.Sprint(size), func(b *testing.B) {
			j, _, err := open(Options{Dir: b.TempDir(), Policy: EverySec}, 0)
			ok(b, err)
			rec := make([]byte, HeadRoom+size)
			b.SetBytes(int64(size))
			b.ReportAllocs()
			for b.Loop() {
				if _, err := j.Append(0, rec); err != nil {
					b.Fatal(err)
				}
				if j.Stats().Segments > 4 {
					b.StopTimer()
					ok(b, j.Sync(j.Last()))
					ok(b, j.Remove(j.Last()))
					b.StartTimer()
				}
			}
			ok(b, j.Close())
		})
	}
}
