package enginetest

import (
	"bytes"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"testing"

	"redoubt/engine"
)

// model is the simplest store: a map, sorted when walked.
type model struct {
	rows     map[string]string
	counters map[string]int64
}

func (m *model) clone() *model {
	return &model{maps.Clone(m.rows), maps.Clone(m.counters)}
}

func (m *model) walk(lo, hi []byte, reverse bool) []string {
	out := []string{}
	for _, k := range slices.Sorted(maps.Keys(m.rows)) {
		if k >= string(lo) && (hi == nil || k < string(hi)) {
			out = append(out, k+"="+m.rows[k])
		}
	}
	if reverse {
		slices.Reverse(out)
	}
	return out
}

// Seed returns the seed of a random test and prints it.
func Seed(t *testing.T) uint64 {
	seed := rand.Uint64()
	if s := os.Getenv("ENGINETEST_SEED"); s != "" {
		n, err := strconv.ParseUint(s, 10, 64)
		if err != nil {
			t.Fatalf("ENGINETEST_SEED: %v", err)
		}
		seed = n
	}
	t.Logf("seed: ENGINETEST_SEED=%d", seed)
	return seed
}

// testRandom compares the engine with the model over a random history of
// commits, reads, snapshots and restarts.
func testRandom(t *testing.T, s *suite) {
	seed := Seed(t)
	rng := rand.New(rand.NewPCG(seed, 1))
	st := s.begin(t)
	now := &model{map[string]string{}, map[string]int64{}}

	type frozen struct {
		snap engine.Snapshot
		was  *model
	}
	var snaps []frozen
	drop := func(i int) {
		if err := snaps[i].snap.Close(); err != nil {
			t.Fatalf("Snapshot.Close: %v", err)
		}
		snaps = slices.Delete(snaps, i, i+1)
	}
	defer func() {
		for len(snaps) > 0 {
			drop(0)
		}
	}()

	key := func() []byte {
		k := []byte{"abc\x00\xfe"[rng.IntN(5)]}
		for range rng.IntN(3) {
			k = append(k, "ab\x00\xff"[rng.IntN(4)])
		}
		return k
	}
	edge := func() []byte {
		if rng.IntN(6) == 0 {
			return nil
		}
		return key()
	}
	check := func(r engine.Reader, m *model, what string) {
		lo, hi, reverse := edge(), edge(), rng.IntN(2) == 0
		if got, want := rows(t, r.Iter(lo, hi, reverse)), m.walk(lo, hi, reverse); !slices.Equal(got, want) {
			t.Fatalf("%s: Iter(%q, %q, %v)\n got %q\nwant %q", what, lo, hi, reverse, got, want)
		}
		k := key()
		want := "none"
		if v, ok := m.rows[string(k)]; ok {
			want = fmt.Sprintf("%q", v)
		}
		if got := st.get(r, string(k)); got != want {
			t.Fatalf("%s: Get(%q) = %s, want %s", what, k, got, want)
		}
	}

	var b engine.Batch
	for step := range 600 {
		switch n := rng.IntN(100); {
		case n < 50: // a commit
			b.Reset()
			for range 1 + rng.IntN(8) {
				mark, undo := b.Mark(), now
				now = now.clone()
				randomNotes(rng, &b, now, key)
				if rng.IntN(5) == 0 {
					b.Rollback(mark)
					now = undo
				}
			}
			st.commit(&b)
		case n < 80:
			v := st.view()
			check(v, now, fmt.Sprintf("step %d", step))
			v.Close()
			for k, want := range now.counters {
				if got := st.counter(k); got != want {
					t.Fatalf("step %d: counter %q = %d, want %d", step, k, got, want)
				}
			}
		case n < 86 && len(snaps) < 4 && !st.noMoments():
			snap, err := st.Engine.Snapshot()
			if err != nil {
				t.Fatal(err)
			}
			snaps = append(snaps, frozen{snap, now.clone()})
		case n < 97 && len(snaps) > 0:
			i := rng.IntN(len(snaps))
			check(snaps[i].snap, snaps[i].was, fmt.Sprintf("step %d, a snapshot", step))
			if rng.IntN(3) == 0 {
				drop(i)
			}
		case n >= 99:
			for len(snaps) > 0 {
				drop(0)
			}
			s.cycle(st)
		}
	}
}

// randomNotes makes one kind of note, in the batch and in the model.
func randomNotes(rng *rand.Rand, b *engine.Batch, m *model, key func() []byte) {
	k := key()
	switch n := rng.IntN(20); {
	case n < 11:
		value := bytes.Repeat([]byte{byte('0' + rng.IntN(10))}, rng.IntN(6))
		b.Put(k, value)
		m.rows[string(k)] = string(value)
	case n < 15:
		b.Delete(k)
		delete(m.rows, string(k))
	case n < 17:
		hi := key()
		b.DeleteRange(k, hi)
		maps.DeleteFunc(m.rows, func(r, _ string) bool { return r >= string(k) && r < string(hi) })
	default:
		delta := rng.Int64N(2001) - 1000
		b.Add(k, delta)
		m.counters[string(k)] += delta
	}
}
