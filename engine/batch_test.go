package engine

import (
	"bytes"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
)

// world is the model: what a store of base rows holds after a batch.
type world struct {
	base     map[string]string // never changed
	rows     map[string]string
	touched  map[string]bool // rows that the batch says something about
	ranges   [][2]string
	counters map[string]int64
}

func newWorld(base map[string]string) *world {
	return &world{base: base, rows: maps.Clone(base), touched: map[string]bool{}, counters: map[string]int64{}}
}

func (w *world) clone() *world {
	return &world{w.base, maps.Clone(w.rows), maps.Clone(w.touched), slices.Clone(w.ranges), maps.Clone(w.counters)}
}

func (w *world) known(key string) bool {
	return w.touched[key] || slices.ContainsFunc(w.ranges, func(r [2]string) bool { return key >= r[0] && key < r[1] })
}

func (w *world) walk(lo, hi []byte, reverse bool) []string {
	out := []string{}
	for _, k := range slices.Sorted(maps.Keys(w.rows)) {
		if k >= string(lo) && (hi == nil || k < string(hi)) {
			out = append(out, k+"="+w.rows[k])
		}
	}
	if reverse {
		slices.Reverse(out)
	}
	return out
}

// randomKey returns one of few keys, half of them with a beginning in common by
// which a batch keeps rows apart.
func randomKey(rng *rand.Rand) []byte {
	k := []byte{}
	if rng.IntN(2) == 0 {
		k = append(k, "neighbours"...)
	}
	for range 1 + rng.IntN(3) {
		k = append(k, "abc\x00\xff"[rng.IntN(5)])
	}
	return k
}

// note makes one random note in the batch and in the model.
func note(rng *rand.Rand, b *Batch, w *world) {
	k := randomKey(rng)
	switch n := rng.IntN(20); {
	case n < 11:
		value := bytes.Repeat([]byte{'v'}, rng.IntN(4))
		if n%2 == 0 {
			b.Put(k, value)
		} else {
			half := rng.IntN(len(value) + 1)
			b.Put2(k, value[:half], value[half:])
		}
		w.rows[string(k)], w.touched[string(k)] = string(value), true
		clear(value) // it was copied
	case n < 15:
		b.Delete(k)
		delete(w.rows, string(k))
		w.touched[string(k)] = true
	case n < 17:
		hi := randomKey(rng)
		b.DeleteRange(k, hi)
		if string(k) < string(hi) {
			maps.DeleteFunc(w.rows, func(r, _ string) bool { return r >= string(k) && r < string(hi) })
			w.ranges = append(w.ranges, [2]string{string(k), string(hi)})
		}
	default:
		delta := rng.Int64N(21) - 10
		b.Add(k[:1], delta)
		w.counters[string(k[:1])] += delta
	}
	clear(k)
}

// check compares everything that a batch can be asked with the model.
func (w *world) check(t *testing.T, b *Batch) {
	t.Helper()
	// Applied as an engine does: ranges, then ops, each key once.
	applied := maps.Clone(w.base)
	for lo, hi := range b.Ranges() {
		maps.DeleteFunc(applied, func(k, _ string) bool { return k >= string(lo) && k < string(hi) })
	}
	seen := map[string]bool{}
	for op := range b.Ops() {
		if k := string(op.Key); seen[k] {
			t.Fatalf("Ops yields %q twice", k)
		} else if seen[k] = true; op.Delete {
			delete(applied, k)
		} else {
			applied[k] = string(op.Value)
		}
	}
	if !maps.Equal(applied, w.rows) {
		t.Fatalf("applied:\n got %q\nwant %q", applied, w.rows)
	}
	sums := map[string]int64{}
	for k, delta := range b.Counters() {
		sums[string(k)] += delta
	}
	for k, want := range w.counters {
		if sums[k] != want || b.Pending([]byte(k)) != want {
			t.Fatalf("counter %q: %d from Counters, %d Pending, want %d", k, sums[k], b.Pending([]byte(k)), want)
		}
	}
	keys := slices.Sorted(maps.Keys(w.touched))
	for _, k := range append(keys, slices.Sorted(maps.Keys(w.base))...) {
		value, found, known := b.Get([]byte(k))
		want, exists := w.rows[k]
		if known != w.known(k) || known && (found != exists || string(value) != want) {
			t.Fatalf("Get %q = %q %v %v, want %q %v %v", k, value, found, known, want, exists, w.known(k))
		}
	}
}

func randomBase(rng *rand.Rand) map[string]string {
	base := map[string]string{}
	for range 20 {
		base[string(randomKey(rng))] = "base"
	}
	return base
}

func seeded(t *testing.T) *rand.Rand {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	return rand.New(rand.NewPCG(seed, 0))
}

// Random notes with nested marks, each rolled back or kept.
func TestBatchAgainstModel(t *testing.T) {
	t.Parallel()
	rng := seeded(t)
	var b Batch // one for all rounds: Reset must leave nothing behind
	for range 200 {
		w := newWorld(randomBase(rng))
		b.Reset()
		if !b.Empty() || b.Len() != 0 || b.Size() != 0 {
			t.Fatal("not empty after Reset")
		}
		type savepoint struct {
			mark Mark
			was  *world
		}
		var saved []savepoint
		for range rng.IntN(120) {
			switch n := rng.IntN(10); {
			case n < 7:
				note(rng, &b, w)
			case n < 9:
				saved = append(saved, savepoint{b.Mark(), w.clone()})
			case len(saved) > 0:
				at := rng.IntN(len(saved)) // inner marks go with it
				b.Rollback(saved[at].mark)
				if b.Changed(saved[at].mark) {
					t.Fatal("changed since a mark just rolled back to")
				}
				w, saved = saved[at].was, saved[:at]
			}
			w.check(t, &b)
		}
	}
}

// Many keys: the table grows and shrinks through long probe runs.
func TestBatchManyKeys(t *testing.T) {
	t.Parallel()
	var b Batch
	key := func(i int) []byte { return fmt.Appendf(nil, "key%d", i) }
	const n = 3000
	for i := range n {
		b.Put(key(i), key(i*2))
	}
	mark := b.Mark()
	for i := range 2 * n {
		b.Put(key(i), []byte("new"))
	}
	b.DeleteRange([]byte("key"), []byte("kez"))
	if _, found, known := b.Get(key(5)); found || !known {
		t.Error("key5 outlives its range")
	}
	b.Rollback(mark)
	for i := range 2 * n {
		value, found, known := b.Get(key(i))
		if found != (i < n) || known != (i < n) || found && !bytes.Equal(value, key(i*2)) {
			t.Fatalf("key%d = %q %v %v", i, value, found, known)
		}
	}
}

func TestBatchKeepsNoLargeMemory(t *testing.T) {
	t.Parallel()
	var b Batch
	b.Put([]byte("k"), make([]byte, 4<<20))
	b.Reset()
	if cap(b.arena) != 0 {
		t.Errorf("%d bytes kept", cap(b.arena))
	}
}

// Not parallel: AllocsPerRun counts the whole process.
func TestBatchAllocatesNothing(t *testing.T) {
	var b Batch
	keys := make([][]byte, 50)
	for i := range keys {
		keys[i] = fmt.Appendf(nil, "key%d", i)
	}
	value := make([]byte, 100)
	allocs := testing.AllocsPerRun(100, func() {
		for _, k := range keys {
			mark := b.Mark()
			b.Put(k, value)
			b.Put2(k, value[:8], value[8:])
			b.Get(k)
			b.Add(keys[0], 1)
			b.Rollback(mark)
			b.Put(k, value)
			b.Delete(k)
			b.Add(keys[1], 1)
		}
		for range b.Ops() {
		}
		b.Reset()
	})
	if allocs != 0 {
		t.Errorf("%v allocations in a steady state", allocs)
	}
}

func BenchmarkBatchPut(b *testing.B) {
	var batch Batch
	key, value := []byte("key0000"), make([]byte, 128)
	b.ReportAllocs()
	for i := range b.N {
		key[3], key[4], key[5] = byte(i), byte(i>>8), byte(i>>16)
		batch.Put(key, value)
		if batch.Len() == 64 {
			batch.Reset()
		}
	}
}
