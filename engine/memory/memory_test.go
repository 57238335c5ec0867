package memory

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"testing"

	"redoubt/engine"
	"redoubt/engine/enginetest"
)

func TestEngine(t *testing.T) {
	t.Parallel()
	enginetest.Run(t, func(*testing.T) engine.Engine { return Open(Options{}) })
}

func open(t *testing.T) *Engine {
	e := Open(Options{})
	t.Cleanup(func() {
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	})
	return e
}

func commit(t testing.TB, e *Engine, fill func(*engine.Batch)) {
	t.Helper()
	var b engine.Batch
	fill(&b)
	v, err := e.Begin(engine.ViewOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer v.Close()
	if _, err := v.Commit(&b); err != nil {
		t.Fatal(err)
	}
}

func put(t testing.TB, e *Engine, lo, hi int, value string) {
	t.Helper()
	commit(t, e, func(b *engine.Batch) {
		for i := lo; i < hi; i++ {
			b.Put(fmt.Appendf(nil, "%02d key %d", i%50, i), []byte(value))
		}
	})
}

// Whatever was stored, once it is deleted nothing of it is left, neither while no snapshot is
// open nor after one that has seen it.
func TestDeletedRowsLeaveNothing(t *testing.T) {
	t.Parallel()
	e := open(t)
	empty := e.set.Figures()
	remove := func() {
		commit(t, e, func(b *engine.Batch) {
			for i := range 500 {
				b.Delete(fmt.Appendf(nil, "%02d key %d", i%50, i))
			}
		})
	}
	check := func(when string) {
		t.Helper()
		if f := e.set.Figures(); f.Rows != 0 || f.Dead != 0 || f.Bytes != empty.Bytes || f.DirtyRows != 0 || e.set.UndoBytes() != 0 {
			t.Fatalf("%s: %+v, %d bytes for snapshots", when, f, e.set.UndoBytes())
		}
	}
	put(t, e, 0, 500, "v")
	if f := e.set.Figures(); f.Rows != 500 || f.DirtyRows != 0 {
		t.Fatalf("%+v", f)
	}
	remove()
	check("without a snapshot")

	put(t, e, 0, 500, "v")
	first, err := e.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	remove()
	second, err := e.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	count := func(r engine.Reader) (n int) {
		it := r.Iter([]byte("0"), nil, false)
		for it.Next() {
			n++
		}
		if err := it.Close(); err != nil {
			t.Fatal(err)
		}
		return n
	}
	if a, b := count(first), count(second); a != 500 || b != 0 {
		t.Fatalf("%d and %d rows", a, b)
	}
	if e.set.Figures().Dead != 500 {
		t.Fatal("the rows that a snapshot shows are gone")
	}
	if err := second.Close(); err != nil {
		t.Fatal(err)
	}
	if n := count(first); n != 500 {
		t.Fatalf("%d rows", n)
	}
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	check("after both snapshots")
}

// Random rows are changed under snapshots that are opened and closed at random; at the end
// nothing is kept but the rows.
func TestSnapshotsComeAndGo(t *testing.T) {
	t.Parallel()
	seed := rand.Uint64()
	t.Log("seed", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	e := open(t)
	type held struct {
		engine.Snapshot
		want map[string]string
	}
	state := map[string]string{}
	var open []held
	for range 3000 {
		key := fmt.Sprintf("%02d%d", rng.IntN(5), rng.IntN(40))
		switch n := rng.IntN(20); {
		case n == 0 && len(open) < 5:
			s, err := e.Snapshot()
			if err != nil {
				t.Fatal(err)
			}
			want := map[string]string{}
			for k, v := range state {
				want[k] = v
			}
			open = append(open, held{s, want})
		case n == 1 && len(open) > 0:
			i := rng.IntN(len(open))
			got := map[string]string{}
			it := open[i].Iter(nil, nil, rng.IntN(2) == 0)
			for it.Next() {
				got[string(it.Key())] = string(it.Value())
			}
			if err := it.Close(); err != nil {
				t.Fatal(err)
			}
			if fmt.Sprint(got) != fmt.Sprint(open[i].want) {
				t.Fatalf("a snapshot shows %v, want %v", got, open[i].want)
			}
			if err := open[i].Close(); err != nil {
				t.Fatal(err)
			}
			open = append(open[:i], open[i+1:]...)
		case n == 2:
			lo, hi := fmt.Appendf(nil, "%02d", rng.IntN(5)), fmt.Appendf(nil, "%02d%d", rng.IntN(5), rng.IntN(40))
			if string(lo) >= string(hi) {
				continue
			}
			commit(t, e, func(b *engine.Batch) { b.DeleteRange(lo, hi) })
			for k := range state {
				if k >= string(lo) && k < string(hi) {
					delete(state, k)
				}
			}
		case n < 10:
			commit(t, e, func(b *engine.Batch) { b.Delete([]byte(key)) })
			delete(state, key)
		default:
			value := fmt.Sprint(rng.Uint64())
			commit(t, e, func(b *engine.Batch) { b.Put([]byte(key), []byte(value)) })
			state[key] = value
		}
	}
	for _, s := range open {
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
	for e.set.Figures().PendingRanges > 0 {
		runtime.Gosched() // the engine clears what range deletes cover
	}
	for k := range state {
		commit(t, e, func(b *engine.Batch) { b.Delete([]byte(k)) })
	}
	if f := e.set.Figures(); f.Rows-f.Dead != 0 || f.Dead != 0 || e.set.UndoBytes() != 0 {
		t.Fatalf("%+v, %d bytes for snapshots", f, e.set.UndoBytes())
	}
}
