package partition_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"redoubt/engine"
	"redoubt/engine/partition"
	"redoubt/internal/partmem"
)

func queueKey(queue string, i int) []byte {
	return binary.BigEndian.AppendUint32([]byte(queue), uint32(i))
}

// pop deletes the first or last row of a queue, and returns its key.
func pop(t *testing.T, e *partition.Engine, queue string, last bool) (key []byte, found bool) {
	t.Helper()
	commit(t, e, func(v engine.View, b *engine.Batch) error {
		row, n, ok, err := v.Edge([]byte(queue), append([]byte(queue), 0xff), last, nil)
		if key, found = row[:n], ok; ok {
			b.Delete(key)
		}
		return err
	})
	return key, found
}

// commit commits what f writes, as often as it takes.
func commit(t *testing.T, e *partition.Engine, f func(v engine.View, b *engine.Batch) error) {
	t.Helper()
	for begin := time.Now(); ; {
		v, err := e.Begin(engine.ViewOptions{})
		if err != nil {
			t.Fatal(err)
		}
		var b engine.Batch
		if err = f(v, &b); err == nil {
			_, err = v.Commit(&b)
		}
		v.Close()
		if err == nil {
			return
		}
		if !errors.Is(err, engine.ErrConflict) && !engine.Transient(err) || time.Since(begin) > time.Minute {
			t.Fatal(err)
		}
	}
}

func fill(t *testing.T, e *partition.Engine, queue string, from, to int) {
	t.Helper()
	for at := range slices.Chunk(slices.Collect(func(yield func(int) bool) {
		for i := from; i < to && yield(i); i++ {
		}
	}), 1000) {
		commit(t, e, func(_ engine.View, b *engine.Batch) error {
			for _, i := range at {
				b.Put(queueKey(queue, i), []byte("element"))
			}
			return nil
		})
	}
}

// A queue is popped from either end: what each pop reads does not grow with what was popped
// before, neither in the process that pops nor in one that comes later, nor after elements
// come back to the emptied end.
func TestPopsDoNotPassOverWhatWasPopped(t *testing.T) {
	t.Parallel()
	const size, pops = 3000, 2500
	for _, last := range []bool{false, true} {
		t.Run(map[bool]string{false: "first", true: "last"}[last], func(t *testing.T) {
			t.Parallel()
			table := partmem.New()
			s := table.Open()
			e := open(t, s)
			defer e.Close()
			fill(t, e, "kq", 0, size)
			at := func(i int) int {
				if last {
					return size - 1 - i
				}
				return i
			}
			expect := func(e *partition.Engine, i int) {
				t.Helper()
				if key, found := pop(t, e, "kq", last); !found || !bytes.Equal(key, queueKey("kq", at(i))) {
					t.Fatalf("pop %d: %q, %v", i, key, found)
				}
			}
			for i := range pops {
				expect(e, i)
			}
			if n := s.Passed(); n > 64*pops {
				t.Errorf("%d pops have passed over %d deleted rows", pops, n)
			}
			later := table.Open()
			other := open(t, later)
			defer other.Close()
			before := later.Passed()
			expect(other, pops)
			if n := later.Passed() - before; n > 100 {
				t.Errorf("the first pop of another process has passed over %d deleted rows", n)
			}
			// An element comes back to the emptied end, and is found there.
			fill(t, other, "kq", at(10), at(10)+1)
			expect(e, 10)
			before = s.Passed()
			expect(e, pops+1)
			if n := s.Passed() - before; n > 200 {
				t.Errorf("after an element came back, a pop has passed over %d deleted rows", n)
			}
		})
	}
}

// Rows that were deleted without being seen as a range are passed over once.
func TestReadsRememberWhereRowsBegin(t *testing.T) {
	t.Parallel()
	s := partmem.New().Open()
	e := open(t, s)
	defer e.Close()
	fill(t, e, "kq", 0, 3000)
	commit(t, e, func(_ engine.View, b *engine.Batch) error {
		for i := range 2900 {
			b.Delete(queueKey("kq", i))
		}
		return nil
	})
	first := func() {
		v, err := e.Begin(engine.ViewOptions{})
		if err != nil {
			t.Fatal(err)
		}
		defer v.Close()
		row, n, found, err := v.Edge([]byte("kq"), []byte("kr"), false, nil)
		if errors.Is(err, engine.ErrConflict) {
			return // with the change that remembers
		}
		if err != nil || !found || !bytes.Equal(row[:n], queueKey("kq", 2900)) {
			t.Fatalf("%q %v %v", row[:n], found, err)
		}
	}
	for begin, before := time.Now(), int64(-1); s.Passed() != before; {
		before = s.Passed()
		first()
		if time.Since(begin) > time.Minute {
			t.Fatal("every read passes over what was deleted")
		}
	}
}

// Queues in the same partitions are pushed and popped at both ends, by two processes whose
// answers get lost, over one partition and several: no element is lost behind a gap.
func TestGapsHideNothing(t *testing.T) {
	t.Parallel()
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 2))
	table := partmem.New()
	var engines []*partition.Engine
	for i := range uint64(2) {
		s := table.Open()
		e := open(t, s)
		defer e.Close()
		s.SetFaults(partmem.Lossy(seed + i))
		engines = append(engines, e)
	}
	queues := []string{"kq", "kr", "xq"}
	want := make(map[string]bool)
	for step := range 150 {
		e, other := engines[rng.IntN(2)], queues[rng.IntN(3)]
		queue := queues[rng.IntN(3)]
		writes := make(map[string]bool) // true: put
		many, kind, from, n := rng.IntN(4) == 0, rng.IntN(5), rng.IntN(4000), 1+rng.IntN(1200)
		commit(t, e, func(v engine.View, b *engine.Batch) error {
			clear(writes)
			put := func(key []byte) { b.Put(key, []byte("v")); writes[string(key)] = true }
			if many {
				put(queueKey(other, rng.IntN(4000)))
			}
			switch kind {
			case 0: // push
				for i := range n {
					put(queueKey(queue, from+i))
				}
				return nil
			case 1: // a single one, maybe into a gap
				put(queueKey(queue, from))
				return nil
			}
			it := v.Iter([]byte(queue), append([]byte(queue), 0xff), kind == 2)
			for n := n; n > 0 && it.Next(); n-- {
				if key := it.Key(); !writes[string(key)] {
					b.Delete(key)
					writes[string(key)] = false
				}
			}
			return it.Close()
		})
		for key, put := range writes {
			if delete(want, key); put {
				want[key] = true
			}
		}
		if step%10 > 0 {
			continue
		}
		for _, e := range engines {
			for _, queue := range queues {
				for _, reverse := range []bool{false, true} {
					var got []string
					commit(t, e, func(v engine.View, _ *engine.Batch) error {
						got = nil
						it := v.Iter([]byte(queue), append([]byte(queue), 0xff), reverse)
						for it.Next() {
							got = append(got, string(it.Key()))
						}
						return it.Close()
					})
					slices.Sort(got)
					have := slices.DeleteFunc(slices.Sorted(maps.Keys(want)), func(key string) bool { return key[:2] != queue })
					if !slices.Equal(got, have) {
						t.Fatalf("step %d: %s has %d rows, want %d", step, queue, len(got), len(have))
					}
				}
			}
		}
	}
}

// A view that goes on after another process has changed its partition shows what came into a
// gap meanwhile, and its commit makes no gap of what it has not read again.
func TestGapsOfAViewThatGoesOn(t *testing.T) {
	t.Parallel()
	table := partmem.New()
	e, other := open(t, table.Open()), open(t, table.Open())
	defer e.Close()
	defer other.Close()
	fill(t, e, "kq", 1000, 3000)
	fill(t, e, "km", 0, 1)
	popMany := func(v engine.View, b *engine.Batch) error {
		it := v.Iter([]byte("kq"), []byte("kr"), false)
		for n := 0; n < 1000 && it.Next(); n++ {
			b.Delete(it.Key())
		}
		return it.Close()
	}
	begin := func() engine.View {
		v, err := e.Begin(engine.ViewOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if _, found, err := v.Get(queueKey("km", 0), nil); err != nil || !found {
			t.Fatalf("%v %v", found, err)
		}
		return v
	}
	first := func(v engine.View, want int) {
		t.Helper()
		row, n, found, err := v.Edge([]byte("kq"), []byte("kr"), false, nil)
		if err != nil || !found || !bytes.Equal(row[:n], queueKey("kq", want)) {
			t.Fatalf("%q %v %v, want element %d", row[:n], found, err, want)
		}
	}
	// What the view has read as a range is older than an element before it.
	v := begin()
	var b engine.Batch
	if err := popMany(v, &b); err != nil {
		t.Fatal(err)
	}
	fill(t, other, "kq", 10, 11)
	if _, err := v.Commit(&b); err != nil && !errors.Is(err, engine.ErrConflict) {
		t.Fatal(err)
	}
	v.Close()
	v = begin()
	first(v, 10)
	v.Close()
	commit(t, e, popMany) // and there is a gap
	v = begin()
	defer v.Close()
	fill(t, other, "kq", 20, 21)
	first(v, 20)
}
