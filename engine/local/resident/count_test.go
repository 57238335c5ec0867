package resident

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"redoubt/engine"
	"redoubt/engine/enginetest"
)

// present is the set as a reader of the latest state of one unit, in which it knows every row.
type present struct{ s *Set }

func (p present) Count(lo, hi []byte) (int, bool) { return p.s.Count(lo, hi) }
func (p present) Nth(lo, hi []byte, n int, b []byte) ([]byte, bool, bool) {
	return p.s.Nth(lo, hi, n, b)
}

func (p present) Edge(lo, hi []byte, reverse bool, b []byte) ([]byte, int, bool, error) {
	row, key, found, ok := p.s.Edge(lo, hi, reverse, b)
	if !ok {
		return b, 0, false, errors.New("the set does not know")
	}
	return row, key, found, nil
}

func (p present) Iter(_, _ []byte, _ bool) engine.Iterator { panic("nobody walks here") }

// Edge, Count and Nth pass over dead rows, in trees of one leaf and of several levels, and know
// rows that are dirty, clean, or put again after a deletion.
func TestRanked(t *testing.T) {
	t.Parallel()
	for _, n := range []int{3, fanout, 20 * fanout} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			t.Parallel()
			rng := seeded(t)
			s := newSet(t, true)
			model := map[string]string{}
			keys := make([][]byte, n)
			for i := range keys {
				keys[i] = treeKey(7, 10*i)
			}
			snap := s.OpenSnapshot(func() uint64 { return 0 }) // so that dead rows stay
			for seq := uint64(1); seq <= 40; seq++ {
				apply(t, s, seq, func(b *engine.Batch) { change(rng, b, keys, model) })
				enginetest.CheckRanked(t, rng, fmt.Sprint("commit ", seq), present{s}, model, keys, true)
				if seq == 20 { // from here on they go with each round
					s.CloseSnapshot(snap)
				}
				if seq%5 == 0 && s.Take(7) {
					if err := s.Copy(7, func(_, _ []byte, _ bool) error { return nil }); err != nil {
						t.Fatal(err)
					}
					s.Finish(7)
				}
			}
			check(t, s)
		})
	}
}

// change puts and deletes rows at random, mostly deletes every second time.
func change(rng *rand.Rand, b *engine.Batch, keys [][]byte, model map[string]string) {
	deletes := rng.IntN(5)
	for range rng.IntN(len(keys)) + 1 {
		key := keys[rng.IntN(len(keys))]
		if rng.IntN(5) < deletes {
			b.Delete(key)
			delete(model, string(key))
		} else {
			model[string(key)] = fmt.Sprint(rng.IntN(1000))
			b.Put(key, []byte(model[string(key)]))
		}
	}
}

// Where the set cannot tell without a walk it does not answer: below a pending range delete, in
// an incomplete unit, and across parts.
func TestNotRanked(t *testing.T) {
	t.Parallel()
	lo, hi := treeKey(7, 0), treeKey(7, 100)
	answers := func(s *Set, lo, hi []byte) []bool {
		_, counts := s.Count(lo, hi)
		_, _, nth := s.Nth(lo, hi, 0, nil)
		_, _, _, edge := s.Edge(lo, hi, false, nil)
		return []bool{counts, nth, edge}
	}
	fill := func(b *engine.Batch) {
		for i := range 100 {
			b.Put(treeKey(7, i), nil)
		}
	}
	wants := func(what string, got []bool, want bool) {
		t.Helper()
		if !slices.Equal(got, []bool{want, want, want}) {
			t.Errorf("%s: Count, Nth and Edge answer: %v, want %v", what, got, want)
		}
	}
	s := newSet(t, true)
	apply(t, s, 1, fill)
	wants("a complete unit", answers(s, lo, hi), true)
	wants("a negative number", answers(s, lo, hi), true)
	if _, found, ok := s.Nth(lo, hi, -1, nil); found || !ok {
		t.Errorf("the row before the first one: %v, %v", found, ok)
	}
	wants("two parts", answers(s, lo, treeKey(8, 0)), false)
	apply(t, s, 2, func(b *engine.Batch) { b.DeleteRange(treeKey(7, 20), treeKey(7, 30)) })
	wants("a pending range delete", answers(s, lo, hi), false)
	wants("beside it", answers(s, treeKey(7, 30), hi), true)
	unknown := newSet(t, false)
	apply(t, unknown, 1, fill)
	wants("an incomplete unit", answers(unknown, lo, hi), false)
}
