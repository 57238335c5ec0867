package copier

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"redoubt/engine"
	"redoubt/engine/mem"
	"redoubt/internal/sharedmem"
	"redoubt/internal/typestest"
	"redoubt/keyspace"
	"redoubt/types/str"
)

// source is a state of a store.
func source(t testing.TB, eng engine.Engine) Source {
	t.Helper()
	s := snapshot(t, eng)
	t.Cleanup(func() { s.Close() })
	return Source{Rows: s, Name: "source"}
}

func openShared(t testing.TB) *sharedmem.Engine {
	e := sharedmem.New().Open()
	t.Cleanup(func() { must(t, e.Close()) })
	return e
}

func TestCopyGoesRoundAllEngines(t *testing.T) {
	t.Parallel()
	first := newLocal(t)
	fill(t, first, 40)
	must(t, first.Round())
	from := engine.Engine(first)
	for _, to := range []engine.Engine{mem.New(), openShared(t), newLocal(t), openShared(t), newLocal(t)} {
		name := fmt.Sprintf("%T", to)
		var told []Progress
		r, err := Run(t.Context(), source(t, from), to, Options{Progress: func(p Progress) { told = append(told, p) }})
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		same(t, to, first)
		sound(t, to)
		rows := int64(0)
		for _, s := range r.Sorts {
			rows += s.Rows
		}
		if rows != r.Rows || r.Keys < 400 || r.Resumed || len(r.Sorts) != 6 {
			t.Errorf("%s: %+v", name, r)
		}
		if last := told[len(told)-1]; last.Phase != "verified" || last.Rows != r.Rows || last.Percent != 100 {
			t.Errorf("%s: the last that was told: %+v", name, last)
		}
		from = to
	}
	// The last one lives on: its new ids are above those that were copied.
	typestest.On(t, from, 4).Do(func(tx *keyspace.Tx) {
		var seen keyspace.Census
		for key, value := range content(t, first) {
			seen.Add([]byte(key), []byte(value))
		}
		if ref := tx.NewRef([]byte("x"), 0); ref.ID <= seen.MaxID {
			t.Errorf("the id %x was given again: there is %x", ref.ID, seen.MaxID)
		}
	})
}

// A copy that is interrupted at any commit, or meets any fault of a commit, goes on
// with the next run.
func TestCopyGoesOn(t *testing.T) {
	t.Parallel()
	first := newLocal(t)
	fill(t, first, 30)
	for round := range 12 {
		seed := uint64(time.Now().UnixNano()) + uint64(round)
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			t.Parallel()
			rng := rand.New(rand.NewPCG(seed, 0))
			var to engine.Engine = mem.New()
			var hook func(*engine.Batch) sharedmem.Fault
			var left atomic.Int64
			var interrupt func()
			broken := errors.New("the disk is gone")
			choice := rng.IntN(2)
			hook = func(*engine.Batch) sharedmem.Fault {
				if left.Add(-1) != 0 {
					return sharedmem.Fault{}
				}
				if choice == 0 {
					interrupt()
					return sharedmem.Fault{}
				}
				return sharedmem.Fault{Err: broken}
			}
			if rng.IntN(2) == 0 {
				shared := openShared(t)
				shared.Intercept(func(b *engine.Batch) sharedmem.Fault {
					if f := hook(b); f.Err != nil {
						return f
					}
					return faultOf(left.Load())
				})
				to = shared
			} else {
				to = &hooked{to, hook}
			}
			resumed := 0
			for run := 0; ; run++ {
				ctx, cancel := context.WithCancel(t.Context())
				interrupt = cancel
				left.Store(1 + rng.Int64N(30))
				if run > 30 {
					left.Store(-1)
				}
				o := Options{Rows: 1 + rng.IntN(200), Writers: 1 + rng.IntN(4), MarkEvery: 1 + rng.IntN(8)}
				r, err := Run(ctx, source(t, first), to, o)
				cancel()
				if r.Resumed {
					resumed++
				}
				s := snapshot(t, to)
				whole := keyspace.CopyFinished(s)
				must(t, s.Close())
				if err == nil {
					must(t, whole)
					break
				}
				if !errors.Is(err, context.Canceled) && !errors.Is(err, broken) {
					t.Fatal(err)
				}
				if r.Resumed && !errors.Is(whole, keyspace.ErrUnfinished) {
					t.Errorf("after %v: %v", err, whole)
				}
			}
			if resumed == 0 {
				t.Log("it was never interrupted")
			}
			same(t, to, first)
			sound(t, to)
		})
	}
}

// faultOf is a fault of some commits that is over when they are tried again.
func faultOf(n int64) sharedmem.Fault {
	switch n % 11 {
	case 3:
		return sharedmem.Fault{Err: engine.ErrConflict}
	case 5:
		return sharedmem.Fault{Err: engine.ErrUnknownOutcome, Applied: true}
	case 7:
		return sharedmem.Fault{Err: engine.ErrUnknownOutcome}
	case 9:
		return sharedmem.Fault{Err: engine.ErrUnavailable}
	}
	return sharedmem.Fault{}
}

// hooked asks before each commit.
type hooked struct {
	engine.Engine
	hook func(*engine.Batch) sharedmem.Fault
}

type hookedView struct {
	engine.View
	hook func(*engine.Batch) sharedmem.Fault
}

func (h *hooked) Begin(o engine.ViewOptions) (engine.View, error) {
	v, err := h.Engine.Begin(o)
	return &hookedView{v, h.hook}, err
}

func (v *hookedView) Commit(b *engine.Batch) (engine.Ticket, error) {
	if f := v.hook(b); f.Err != nil {
		return 0, f.Err
	}
	return v.View.Commit(b)
}

// half makes a copy that ended early.
func half(t testing.TB, from, to engine.Engine) {
	t.Helper()
	var n atomic.Int64
	stop := errors.New("enough")
	_, err := Run(t.Context(), source(t, from), &hooked{to, func(*engine.Batch) sharedmem.Fault {
		if n.Add(1) > 40 {
			return sharedmem.Fault{Err: stop}
		}
		return sharedmem.Fault{}
	}}, Options{Rows: 50, MarkEvery: 1})
	if !errors.Is(err, stop) {
		t.Fatal(err)
	}
}

func change(t testing.TB, eng engine.Engine, note func(b *engine.Batch)) {
	t.Helper()
	view, err := eng.Begin(engine.ViewOptions{})
	must(t, err)
	defer view.Close()
	var b engine.Batch
	note(&b)
	_, err = view.Commit(&b)
	must(t, err)
}

func TestVerifyNamesTheFirstDifference(t *testing.T) {
	t.Parallel()
	first := newLocal(t)
	fill(t, first, 30)
	// Keys of slots that come first, so that they are copied already.
	it := source(t, first).Rows.Iter(nil, nil, false)
	var key, value []byte
	for it.Next() && key == nil {
		if keyspace.SortOf(it.Key()) == 1 {
			key, value = append(key, it.Key()...), append(value, it.Value()...)
		}
	}
	must(t, it.Close())
	name := fmt.Sprintf("key %q of ", key[7:])
	for want, note := range map[string]func(b *engine.Batch){
		name:                                func(b *engine.Batch) { b.Put(key, append(value, 'x')) },
		"the source has " + name:            func(b *engine.Batch) { b.Delete(key) },
		`the copy has key "foreign" of `:    func(b *engine.Batch) { b.Put([]byte("\x00\x00\x01\x00\x00\x00\x01foreign"), value) },
		"the copy has library of functions": func(b *engine.Batch) { b.Put([]byte("\xff\x08other"), []byte("#!lua name=other\n")) },
	} {
		to := mem.New()
		half(t, first, to)
		change(t, to, note)
		_, err := Run(t.Context(), source(t, first), to, Options{})
		if !errors.Is(err, ErrDiffers) || !strings.Contains(err.Error(), want) {
			t.Errorf("%v\nlacks %s", err, want)
		}
		if s := snapshot(t, to); !errors.Is(keyspace.CopyFinished(s), keyspace.ErrUnfinished) {
			t.Error("the copy can be used")
		}
	}
}

func TestNoServerOpensAnUnfinishedCopy(t *testing.T) {
	t.Parallel()
	first := newLocal(t)
	fill(t, first, 30)
	for _, to := range []engine.Engine{mem.New(), openShared(t)} {
		half(t, first, to)
		if _, err := keyspace.Open(to, 4); !errors.Is(err, keyspace.ErrUnfinished) {
			t.Errorf("%T: %v", to, err)
		}
	}
}

func TestCopyWantsAnEmptyDestination(t *testing.T) {
	t.Parallel()
	first, used, looked, begun := newLocal(t), mem.New(), mem.New(), mem.New()
	fill(t, first, 30)
	fill(t, used, 1)
	if _, err := Run(t.Context(), source(t, first), used, Options{}); !errors.Is(err, ErrNotEmpty) || !strings.Contains(err.Error(), "it has ") {
		t.Errorf("a store with data: %v", err)
	}
	half(t, first, begun)
	other := source(t, first)
	other.Name = "other"
	if _, err := Run(t.Context(), other, begun, Options{}); !errors.Is(err, ErrChanged) {
		t.Errorf("another source: %v", err)
	}
	if _, err := Run(t.Context(), source(t, begun), mem.New(), Options{}); !errors.Is(err, keyspace.ErrUnfinished) {
		t.Errorf("a source that is an unfinished copy: %v", err)
	}
	if _, err := Run(t.Context(), source(t, mem.New()), mem.New(), Options{}); err == nil || !strings.Contains(err.Error(), "no data") {
		t.Errorf("a source without data: %v", err)
	}
	// A server has made more databases than the source has.
	_, err := keyspace.Open(looked, 16)
	must(t, err)
	if _, err := Run(t.Context(), source(t, first), looked, Options{}); err != nil {
		t.Errorf("a store that a server has looked at: %v", err)
	}
	same(t, looked, first)
	sound(t, looked)
}

// Values that were deleted but not cleared go where nobody would clear them.
func TestCopyClearsLitter(t *testing.T) {
	t.Parallel()
	from, to := mem.New(), newLocal(t)
	fill(t, from, 30)
	change(t, from, func(b *engine.Batch) {
		b.Put([]byte{0, 0, 6, 0, 7, 0, 0, 0, 0, 0, 0, 0, 9}, nil)
		for i := range byte(3) {
			b.Put([]byte{0, 7, 2 + i, 0, 0, 0, 0, 0, 0, 0, 9, i}, []byte("rest"))
		}
	})
	_, err := Run(t.Context(), source(t, from), to, Options{})
	must(t, err)
	for key := range content(t, to) {
		if strings.HasPrefix(key, "\x00\x07") || strings.HasPrefix(key, "\x00\x00\x06") {
			t.Errorf("%x is still there", key)
		}
	}
	sound(t, to)
}

// revoked is how many snapshots an engine has revoked.
func revoked(t testing.TB, eng engine.Engine) int64 {
	t.Helper()
	for _, s := range eng.Stats().Detail {
		if s.Name == "snapshots_revoked" {
			return s.Value
		}
	}
	t.Fatal("the engine does not say how many snapshots it has revoked")
	return 0
}

// More is cleared than the destination keeps for a snapshot.
func TestClearOutlivesItsSnapshot(t *testing.T) {
	t.Parallel()
	from, to := mem.New(), newLocal(t)
	fill(t, from, 30)
	const values = 45_000
	change(t, from, func(b *engine.Batch) {
		for id := range uint64(values) {
			b.Put(binary.BigEndian.AppendUint64([]byte{0, 0, 6, 0, 7}, id), nil)
		}
	})
	_, err := Run(t.Context(), source(t, from), to, Options{})
	must(t, err)
	if revoked(t, to) == 0 {
		t.Error("no snapshot was revoked")
	}
	for key := range content(t, to) {
		if strings.HasPrefix(key, "\x00\x00\x06") {
			t.Fatalf("%x is still there", key)
		}
	}
	sound(t, to)
}

// The snapshot of the destination is revoked while it is compared with the source.
func TestVerifyOutlivesItsSnapshot(t *testing.T) {
	t.Parallel()
	from, to := mem.New(), newLocal(t)
	fill(t, from, 30)
	typestest.On(t, from, 4).Do(func(tx *keyspace.Tx) {
		for i := range 20_000 {
			str.Set(tx, fmt.Append(nil, "key", i), keyspace.Meta{}, nil, 0)
		}
	})
	begun := 0
	_, err := Run(t.Context(), source(t, from), to, Options{Progress: func(p Progress) {
		if p.Phase != "verified" || p.Rows != tellEvery {
			return
		}
		if begun++; begun > 1 {
			return
		}
		long := strings.Repeat("long", 1000)              // few of these are much to keep
		for n := 0; revoked(t, to) == 0 && n < 100_000; { // rows that no copy has
			change(t, to, func(b *engine.Batch) {
				for range 100 {
					n++
					b.Put(fmt.Append(keyspace.CopyRow(), long, n), nil)
				}
			})
		}
	}})
	must(t, err)
	if begun != 2 || revoked(t, to) != 1 {
		t.Errorf("the copy was compared %d times, %d snapshots were revoked", begun, revoked(t, to))
	}
}

// A source that is lost is not read again without end.
func TestVerifyNeedsItsSource(t *testing.T) {
	t.Parallel()
	from := mem.New()
	fill(t, from, 30)
	src := source(t, from)
	src.Rows = &readOnce{Reader: src.Rows}
	if r, err := Run(t.Context(), src, newLocal(t), Options{}); !errors.Is(err, engine.ErrSnapshotLost) || r.Rows == 0 {
		t.Errorf("%d rows were copied, %v", r.Rows, err)
	}
}

// readOnce is a snapshot that is revoked after all of it was read.
type readOnce struct {
	engine.Reader
	walks int
}

func (r *readOnce) Iter(lo, hi []byte, reverse bool) engine.Iterator {
	it := r.Reader.Iter(lo, hi, reverse)
	if lo == nil && hi == nil {
		if r.walks++; r.walks > 1 {
			return lostIter{it}
		}
	}
	return it
}

type lostIter struct{ engine.Iterator }

func (it lostIter) Close() error { return errors.Join(it.Iterator.Close(), engine.ErrSnapshotLost) }

func TestIDsThatWouldComeAgain(t *testing.T) {
	t.Parallel()
	to := openShared(t)
	next, err := to.NextID()
	must(t, err)
	const month = century / 1200 // the destination's ids go on by its clock while the test runs
	for id, ok := range map[uint64]bool{next: true, next + month: false, next + century/2: false, next + century + month: true, 1_700_000_000_000_000 << 11: true} {
		c := &copying{to: to, mark: mark{census: keyspace.Census{MaxID: id}}}
		if err := c.distant(); (err == nil) != ok {
			t.Errorf("%x, where %x is next: %v", id, next, err)
		}
	}
}

func TestFrontEndsAreSeen(t *testing.T) {
	t.Parallel()
	e := openShared(t)
	must(t, InUse(t.Context(), e, time.Hour)) // without members it does not wait
	row := keyspace.MemberRow([keyspace.MemberIDSize]byte{1})
	change(t, e, func(b *engine.Batch) { b.Put(row, []byte("1")) })
	must(t, InUse(t.Context(), e, 0)) // a dead one
	done := make(chan error)
	go func() { done <- InUse(t.Context(), e, 100*time.Millisecond) }()
	for n := 0; ; n++ {
		select {
		case err := <-done:
			if !errors.Is(err, engine.ErrLocked) {
				t.Errorf("a living one: %v", err)
			}
			return
		default:
			change(t, e, func(b *engine.Batch) { b.Put(row, fmt.Append(nil, n)) })
		}
	}
}

func TestMark(t *testing.T) {
	t.Parallel()
	m := mark{
		rows: 1, bytes: 2, ids: 3, source: "/data at commit 7", last: []byte("\x00\x01\x01key"),
		census: keyspace.Census{MaxID: 4, Spaces: map[uint32]keyspace.Keys{1: {All: 5, Volatile: 6}, 9: {All: 7}}},
	}
	b := m.encode()
	if got, err := decodeMark(b); err != nil || !reflect.DeepEqual(got, m) {
		t.Errorf("%+v became %+v, %v", m, got, err)
	}
	for n := range len(b) - len(m.last) {
		if _, err := decodeMark(b[:n]); err == nil {
			t.Errorf("%d bytes of it are taken for a mark", n)
		}
	}
	b[0]++
	if _, err := decodeMark(b); !errors.Is(err, engine.ErrFormat) {
		t.Errorf("another version: %v", err)
	}
}
