package set

import (
	"fmt"
	"maps"
	"math"
	"strings"
	"testing"

	"redoubt/engine"
	"redoubt/internal/race"
	"redoubt/keyspace"
	"redoubt/types"
)

// Intersections, unions and differences of random sets of all forms are those of
// Go's maps, listed and stored, also onto one of the sets.
func TestAlgebra(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for range rounds(150) {
		w.limits = types.Limits{SetIntegers: int64(w.rng.IntN(30)), SetEntries: int64(w.rng.IntN(30)), SetValue: int64(w.rng.IntN(30))}
		model := map[string]map[string]bool{}
		for k := range 4 {
			key := fmt.Sprint("k", k)
			model[key] = map[string]bool{}
			for range w.rng.IntN(25) {
				m := fmt.Sprint(w.rng.IntN(30))
				if w.rng.IntN(3) == 0 {
					m = strings.Repeat("x", w.rng.IntN(3)*10) + m
				}
				w.add(key, m)
				model[key][m] = true
			}
		}
		var keys []string
		for range 1 + w.rng.IntN(4) {
			keys = append(keys, fmt.Sprint("k", w.rng.IntN(5))) // k4 is missing
		}
		to := fmt.Sprint("k", w.rng.IntN(6))
		inter, union, diff := maps.Clone(model[keys[0]]), map[string]bool{}, maps.Clone(model[keys[0]])
		for i, key := range keys {
			maps.Copy(union, model[key])
			maps.DeleteFunc(inter, func(m string, _ bool) bool { return !model[key][m] })
			maps.DeleteFunc(diff, func(m string, _ bool) bool { return i > 0 && model[key][m] })
		}
		before := w.rows()
		for name, op := range map[string]struct {
			visit func(*Group, func([]byte) bool)
			want  map[string]bool
		}{
			"inter": {(*Group).Inter, inter},
			"union": {(*Group).Union, union},
			"diff":  {(*Group).Diff, diff},
		} {
			got := map[string]bool{}
			w.group(keys, func(g *Group) {
				op.visit(g, func(m []byte) bool {
					if got[string(m)] {
						t.Fatalf("%s %v: %q comes twice", name, keys, m)
					}
					got[string(m)] = true
					return true
				})
				if n := 0; len(got) > 1 {
					op.visit(g, func([]byte) bool { n++; return n < 2 })
					if n != 2 {
						t.Fatalf("%s goes on to %d when told to stop", name, n)
					}
				}
			})
			if !maps.Equal(got, op.want) && len(got)+len(op.want) > 0 {
				t.Fatalf("%s %v: %v, not %v", name, keys, got, op.want)
			}
		}
		if w.rows() != before {
			t.Fatalf("looking made %d rows of %d", w.rows(), before)
		}
		// One of them is stored.
		create, want := (*Group).CreateInter, inter
		switch w.rng.IntN(3) {
		case 0:
			create, want = (*Group).CreateUnion, union
		case 1:
			create, want = (*Group).CreateDiff, diff
		}
		w.group(keys, func(g *Group) {
			s := create(g, []byte(to), &w.limits)
			if gone := s.Save(); s.Len() != int64(len(want)) || gone != (len(want) == 0) {
				t.Fatalf("%d members are stored, not %d; Save says %v", s.Len(), len(want), gone)
			}
		})
		if got, _ := w.look(to); !maps.Equal(got, want) && len(got)+len(want) > 0 {
			t.Fatalf("%v was stored, not %v", got, want)
		}
		for k := range 6 { // and all rows belong to somebody
			w.with(fmt.Sprint("k", k), func(s *Set) {
				if s.Exists() {
					s.Clear()
				}
			})
		}
		if n := w.rows(); n != 0 {
			t.Fatalf("%d rows are left", n)
		}
	}
}

func (w *world) group(keys []string, f func(g *Group)) {
	w.t.Helper()
	w.Do(func(tx *keyspace.Tx) {
		var list [][]byte
		for _, k := range keys {
			list = append(list, []byte(k))
		}
		g, err := ReadAll(tx, list)
		if err != nil {
			w.t.Fatal(err)
		}
		f(g)
	})
}

// counted counts what is read.
type counted struct {
	engine.View
	gets, rows *int
}

type countedRows struct {
	engine.Iterator
	rows *int
}

func (c counted) Get(key, dst []byte) ([]byte, bool, error) {
	*c.gets++
	return c.View.Get(key, dst)
}

func (c counted) Iter(lo, hi []byte, reverse bool) engine.Iterator {
	return countedRows{c.View.Iter(lo, hi, reverse), c.rows}
}

func (c counted) Edge(lo, hi []byte, reverse bool, b []byte) ([]byte, int, bool, error) {
	return engine.EdgeByIter(c, lo, hi, reverse, b)
}

func (c countedRows) Next() bool { *c.rows++; return c.Iterator.Next() }

// Large sets cost what is touched.
func TestCosts(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	const size = 20_000
	var list []string
	for i := range size {
		list = append(list, fmt.Sprint("m", i))
	}
	w.add("large", list...)
	w.add("other", list[size/2:]...)
	w.add("small", "m1", "m19999", "none")
	cost := func(name string, mostGets, mostRows int, keys []string, f func(g *Group, s *Set)) {
		t.Helper()
		gets, rows := 0, 0
		w.group(keys, func(g *Group) {
			tx := g.tx
			tx.Rows.View = counted{tx.Rows.View, &gets, &rows}
			g.sets[0].limits = &w.limits
			f(g, g.sets[0])
			tx.Rows.View = tx.Rows.View.(counted).View
		})
		if gets > mostGets || rows > mostRows {
			t.Errorf("%s: %d rows were read and %d walked over, not %d and %d", name, gets, rows, mostGets, mostRows)
		}
	}
	members := 0
	count := func([]byte) bool { members++; return true }
	cost("inter", 6, 0, []string{"large", "small", "other"}, func(g *Group, _ *Set) { g.Inter(count) })
	cost("diff", 3, 0, []string{"small", "large"}, func(g *Group, _ *Set) { g.Diff(count) })
	if members != 2 {
		t.Errorf("%d members, not 2", members)
	}
	cost("has", 1, 0, []string{"large"}, func(_ *Group, s *Set) { s.Has([]byte("m5")) })
	cost("pick", 0, 1000, []string{"large"}, func(_ *Group, s *Set) { s.Pick(w.rng) })
	cost("pop", 0, 1000, []string{"large"}, func(_ *Group, s *Set) { s.Pop(w.rng) })
	cost("pop 10", 0, 2000, []string{"large"}, func(_ *Group, s *Set) { s.PopMany(10, w.rng, func([]byte) {}) })
	cost("sample", 0, 2000, []string{"large"}, func(_ *Group, s *Set) { s.Sample(10, w.rng, func([]byte) {}) })
	cost("draw", 0, 2000, []string{"large"}, func(_ *Group, s *Set) { s.Draw(10, w.rng, count) })
	cost("draw many", 0, 8*(size+1), []string{"large"}, func(_ *Group, s *Set) { s.Draw(6*drawMany, w.rng, count) })
	cost("scan", 0, 101, []string{"large"}, func(_ *Group, s *Set) { s.Scan(0, 100, func([]byte) {}) })
	cost("pop most", 0, size+1, []string{"large"}, func(_ *Group, s *Set) { s.PopMany(size-200, w.rng, func([]byte) {}) })
	writes := 0
	w.group([]string{"large", "other", "small"}, func(g *Group) {
		g.CreateUnion([]byte("to"), &w.limits).Save()
		writes = g.tx.Rows.Batch.Len()
	})
	if n := len(first(w.look("to"))); writes > n+4 {
		t.Errorf("a union of %d members was written with %d rows", n, writes)
	}
}

func first[A, B any](a A, _ B) A { return a }

// Random members of every form are fair.
func TestFairness(t *testing.T) {
	t.Parallel()
	for form, pattern := range []string{"%d", "w%d", "a word that is too long for a set in one row, whose number is: %d"} {
		w := newWorld(t)
		const size = 40
		for i := range size {
			w.add("k", fmt.Sprintf(pattern, i*i*i))
		}
		for name, f := range map[string]func(s *Set, note func(m []byte)){
			"pick": func(s *Set, note func(m []byte)) {
				m, _ := s.Pick(w.rng)
				note(m)
			},
			"sample": func(s *Set, note func(m []byte)) { s.Sample(7, w.rng, note) },
			"draw": func(s *Set, note func(m []byte)) {
				s.Draw(3, w.rng, func(m []byte) bool { note(m); return true })
			},
			"pop": func(s *Set, note func(m []byte)) {
				m, _ := s.Pop(w.rng)
				note(m)
				s.Add(m)
			},
		} {
			counts, n := map[string]int{}, 0
			w.with("k", func(s *Set) {
				for range rounds(4000) {
					f(s, func(m []byte) { counts[string(m)]++; n++ })
				}
			})
			expected := float64(n) / size
			sum := float64(size-len(counts)) * expected // of those that never came
			for _, c := range counts {
				sum += (float64(c) - expected) * (float64(c) - expected) / expected
			}
			// As in package member; a sample without repetition is more even.
			if most := size - 1 + 6*math.Sqrt(2*(size-1)); len(counts) > size || sum > most {
				t.Errorf("form %d, %s: %d members, chi-square %.1f, at most %.1f", form, name, len(counts), sum, most)
			}
		}
	}
}

// One member costs few allocations.
func TestAllocations(t *testing.T) {
	if race.Enabled {
		t.Skip("the race detector drops what is pooled, at random")
	}
	w := newWorld(t)
	w.add("small", "a", "b")
	var list []string
	for i := range 1000 {
		list = append(list, fmt.Sprint("m", i))
	}
	w.add("large", list...)
	for _, key := range [][]byte{[]byte("small"), []byte("large")} {
		w.Do(func(tx *keyspace.Tx) {
			m, new := []byte("b"), []byte("m0x")
			got := testing.AllocsPerRun(100, func() {
				mark := tx.Start()
				s, _ := Open(tx, key, &w.limits)
				s.Expect(m, 1)
				s.Add(m)
				s.Add(new)
				s.Remove(new)
				s.Save()
				s.Release()
				tx.Rollback(mark)
			})
			if got > 0 {
				t.Errorf("%s: %.0f allocations", key, got)
			}
		})
	}
}
