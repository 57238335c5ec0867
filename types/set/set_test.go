package set

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"redoubt/engine"
	"redoubt/internal/race"
	"redoubt/internal/typestest"
	"redoubt/keyspace"
	"redoubt/types"
)

// rounds is how often something random is done: less with the race detector, which
// has nothing to find here.
func rounds(n int) int {
	if race.Enabled {
		return n / 10
	}
	return n
}

type world struct {
	*typestest.Store
	t      testing.TB
	rng    *rand.Rand
	limits types.Limits
}

func newWorld(t testing.TB) *world {
	t.Helper()
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	return &world{Store: typestest.New(t), t: t, rng: rand.New(rand.NewPCG(seed, 1)), limits: types.DefaultLimits}
}

// with runs f on the set at a key, and saves it.
func (w *world) with(key string, f func(s *Set)) {
	w.t.Helper()
	w.Do(func(tx *keyspace.Tx) {
		s, err := Open(tx, []byte(key), &w.limits)
		if err != nil {
			w.t.Fatal(err)
		}
		f(s)
		s.Save()
	})
}

func (w *world) add(key string, members ...string) {
	w.t.Helper()
	w.with(key, func(s *Set) {
		s.Expect([]byte(members[0]), len(members))
		for _, m := range members {
			s.Add([]byte(m))
		}
	})
}

// look returns what is at a key, checked.
func (w *world) look(key string) (members map[string]bool, enc keyspace.Encoding) {
	w.t.Helper()
	members = map[string]bool{}
	w.Do(func(tx *keyspace.Tx) {
		s, err := Read(tx, []byte(key))
		if err != nil {
			w.t.Fatal(err)
		}
		enc = s.enc
		last, sorted := int64(math.MinInt64), true
		s.Each(func(m []byte) bool {
			if members[string(m)] {
				w.t.Fatalf("%q is there twice", m)
			}
			members[string(m)] = true
			return true
		})
		if s.Len() != int64(len(members)) {
			w.t.Fatalf("%d members, and it says %d", len(members), s.Len())
		}
		for i := range len(s.ints.body) / 8 {
			sorted = sorted && s.ints.at(i) >= last
			last = s.ints.at(i)
		}
		if err := s.packed.body.Check(); err != nil || !sorted {
			w.t.Fatalf("%v, integers sorted: %v", err, sorted)
		}
		if s.Exists() && len(members) == 0 {
			w.t.Fatal("a key with an empty set")
		}
	})
	return members, enc
}

// rows counts the rows of values, without those that are left to be cleared.
func (w *world) rows() (n int) {
	garbage := map[string]bool{}
	w.Do(func(tx *keyspace.Tx) {
		for _, clear := range []bool{true, false} {
			it := tx.IterRows([]byte{0}, []byte{0x40}, false)
			for it.Next() {
				k := it.Key()
				switch kind := k[2]; {
				case kind == 6 && clear:
					garbage[string(k[3:13])] = true // home and id
				case kind >= 2 && kind <= 4 && !clear && !garbage[string(k[:2])+string(k[3:11])]:
					n++
				}
			}
			tx.CloseRows(it)
		}
	})
	return n
}

// Random operations on sets with all sorts of limits do what they do to Go's maps,
// whatever the form, and leave no row behind.
func TestModel(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	forms := map[keyspace.Encoding]int{}
	for round := range rounds(60) {
		w.limits.SetIntegers = int64(w.rng.IntN(12))
		w.limits.SetEntries = int64(w.rng.IntN(12))
		w.limits.SetValue = int64(w.rng.IntN(12))
		numbers := w.rng.IntN(3) > 0
		// Half of the rounds have room for one of the small forms, which are a matter of
		// luck else.
		whole := round%4 == 0
		switch {
		case whole:
			numbers = true
			w.limits.SetIntegers += 30
		case round%4 == 1:
			numbers = false
			w.limits.SetEntries += 30
			w.limits.SetValue += 30
		}
		pool := make([]string, 40)
		for i := range pool {
			pool[i] = fmt.Sprint(w.rng.IntN(60) - 30)
			if !numbers || !whole && w.rng.IntN(20) == 0 {
				pool[i] = strings.Repeat("x", w.rng.IntN(14)) + fmt.Sprint(i%30)
			}
		}
		model := map[string]bool{}
		for range 60 {
			w.step(pool, model)
			got, enc := w.look("k")
			if !maps.Equal(got, model) {
				t.Fatalf("the set is %v, not %v", got, model)
			}
			forms[enc]++
			if want := len(model); enc != keyspace.Rows && w.rows() != 0 || enc == keyspace.Rows && w.rows() != want {
				t.Fatalf("%d rows for %d members in form %d", w.rows(), want, enc)
			}
		}
		w.with("k", func(s *Set) {
			for m := range model {
				s.Remove([]byte(m))
			}
		})
		if got, _ := w.look("k"); len(got) != 0 {
			t.Fatalf("%v is left", got)
		}
	}
	for _, enc := range []keyspace.Encoding{keyspace.Integers, keyspace.Packed, keyspace.Rows} {
		if forms[enc] < rounds(50) {
			t.Errorf("form %d was met %d times only", enc, forms[enc])
		}
	}
}

// step does something random to the set at k.
func (w *world) step(pool []string, model map[string]bool) {
	w.t.Helper()
	some := pool[w.rng.IntN(len(pool))]
	switch w.rng.IntN(10) {
	case 0, 1, 2, 3:
		list := []string{some}
		for w.rng.IntN(3) > 0 && len(list) < 20 {
			list = append(list, pool[w.rng.IntN(len(pool))])
		}
		w.with("k", func(s *Set) {
			s.Expect([]byte(list[0]), len(list))
			for _, m := range list {
				if s.Add([]byte(m)) == model[m] {
					w.t.Fatalf("%q was new, or not", m)
				}
				model[m] = true
			}
		})
	case 4, 5, 6:
		w.with("k", func(s *Set) {
			for range 1 + w.rng.IntN(4) {
				m := pool[w.rng.IntN(len(pool))]
				if s.Has([]byte(m)) != model[m] || s.Remove([]byte(m)) != model[m] {
					w.t.Fatalf("%q was there, or not", m)
				}
				delete(model, m)
			}
		})
	case 7:
		w.with("k", func(s *Set) {
			m, ok := s.Pop(w.rng)
			if ok != (len(model) > 0) || ok && !model[string(m)] {
				w.t.Fatalf("%q was popped, %v", m, ok)
			}
			delete(model, string(m))
		})
	case 8:
		if len(model) < 2 {
			return
		}
		count := 1 + w.rng.IntN(len(model)-1)
		w.with("k", func(s *Set) {
			n := 0
			s.PopMany(int64(count), w.rng, func(m []byte) {
				if !model[string(m)] {
					w.t.Fatalf("%q was popped", m)
				}
				delete(model, string(m))
				n++
			})
			if n != count {
				w.t.Fatalf("%d members were popped, not %d", n, count)
			}
		})
	case 9:
		w.with("k", func(s *Set) { w.choose(s, model) })
	}
}

// choose looks at random members.
func (w *world) choose(s *Set, model map[string]bool) {
	w.t.Helper()
	count := w.rng.IntN(2*len(model) + 1)
	seen := map[string]bool{}
	s.Sample(int64(count), w.rng, func(m []byte) {
		if !model[string(m)] || seen[string(m)] {
			w.t.Fatalf("%q was chosen", m)
		}
		seen[string(m)] = true
	})
	if len(seen) != min(count, len(model)) {
		w.t.Fatalf("%d of %d came, not %d", len(seen), len(model), count)
	}
	n := 0
	s.Draw(int64(count), w.rng, func(m []byte) bool {
		if !model[string(m)] {
			w.t.Fatalf("%q was drawn", m)
		}
		n++
		return true
	})
	if len(model) > 0 && n != count {
		w.t.Fatalf("%d were drawn, not %d", n, count)
	}
}

// The moments at which a set takes another form.
func TestForms(t *testing.T) {
	t.Parallel()
	numbers := func(n int) (list []string) {
		for i := range n {
			list = append(list, fmt.Sprint(i))
		}
		return list
	}
	words := func(n int) (list []string) {
		for i := range n {
			list = append(list, fmt.Sprint("w", i))
		}
		return list
	}
	for _, test := range []struct {
		name string
		adds [][]string
		want keyspace.Encoding
	}{
		{"integers", [][]string{numbers(512)}, keyspace.Integers},
		{"an integer too many", [][]string{numbers(512), {"512"}}, keyspace.Rows},
		{"too many integers at once", [][]string{numbers(513)}, keyspace.Rows},
		{"many that are one", [][]string{slices.Repeat([]string{"1"}, 513)}, keyspace.Rows},
		{"many that are there", [][]string{{"1"}, slices.Repeat([]string{"1"}, 513)}, keyspace.Rows},
		{"a word among integers", [][]string{numbers(127), {"a"}}, keyspace.Packed},
		{"a word among too many integers", [][]string{numbers(128), {"a"}}, keyspace.Rows},
		{"a long word among integers", [][]string{{"1"}, {strings.Repeat("a", 65)}}, keyspace.Rows},
		{"words", [][]string{words(128)}, keyspace.Packed},
		{"a word too many", [][]string{words(128), {"a"}}, keyspace.Rows},
		{"too many words at once", [][]string{words(129)}, keyspace.Rows},
		{"many words that are one", [][]string{slices.Repeat([]string{"a"}, 129)}, keyspace.Rows},
		{"a long word", [][]string{{strings.Repeat("a", 64)}}, keyspace.Packed},
		{"a longer word", [][]string{{strings.Repeat("a", 65)}}, keyspace.Rows},
		{"no number to Redis", [][]string{{"01"}}, keyspace.Packed},
		{"nor this", [][]string{{"9223372036854775808"}}, keyspace.Packed},
		{"the largest", [][]string{{"9223372036854775807", "-9223372036854775808"}}, keyspace.Integers},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := newWorld(t)
			want := map[string]bool{}
			for _, list := range test.adds {
				w.add("k", list...)
				for _, m := range list {
					want[m] = true
				}
			}
			if got, enc := w.look("k"); enc != test.want || !maps.Equal(got, want) {
				t.Errorf("form %d with %d members, not %d with %d", enc, len(got), test.want, len(want))
			}
		})
	}
}

// However large the limits are, a meta row stays small.
func TestBodyIsBounded(t *testing.T) {
	t.Parallel()
	for _, word := range []string{"%d", "a long word %100d", "the word %d"} {
		w := newWorld(t)
		w.limits = types.Limits{SetIntegers: math.MaxInt64, SetEntries: math.MaxInt64, SetValue: math.MaxInt64}
		w.with("k", func(s *Set) {
			for i := range 8_500 {
				s.Add(fmt.Appendf(nil, word, i))
			}
			if s.Small() {
				t.Errorf("%d and %d bytes in a meta row", len(s.ints.body), len(s.packed.body))
			}
		})
		if got, _ := w.look("k"); len(got) != 8_500 {
			t.Errorf("%d members", len(got))
		}
	}
}

// What is left of a set when most of it is popped takes a form anew.
func TestPopMost(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var words []string
	for i := range 2000 {
		words = append(words, fmt.Sprint("w", i))
	}
	w.add("k", words...)
	popped := map[string]bool{}
	w.with("k", func(s *Set) { s.PopMany(1990, w.rng, func(m []byte) { popped[string(m)] = true }) })
	rest, enc := w.look("k")
	if enc != keyspace.Packed || len(rest) != 10 || len(popped) != 1990 || w.rows() != 0 {
		t.Errorf("form %d, %d left, %d popped, %d rows", enc, len(rest), len(popped), w.rows())
	}
	for m := range rest {
		if popped[m] {
			t.Errorf("%q was popped and is left", m)
		}
	}
}

func TestWrongType(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.Do(func(tx *keyspace.Tx) {
		tx.Store([]byte("k"), keyspace.Meta{}, keyspace.Meta{Type: keyspace.List, Body: []byte{0, 0}})
		if _, err := Open(tx, []byte("k"), &w.limits); err != types.ErrWrongType {
			t.Errorf("a list is found: %v", err)
		}
		if _, err := ReadAll(tx, [][]byte{[]byte("none"), []byte("k")}); err != types.ErrWrongType {
			t.Errorf("a list is read: %v", err)
		}
	})
}

// The expiry stays when members change, and goes when the set is replaced.
func TestExpire(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.add("k", "a")
	w.Do(func(tx *keyspace.Tx) {
		m := tx.Find([]byte("k"))
		old := m
		m.Expire = w.Now + 1000
		tx.Store([]byte("k"), old, m)
	})
	expire := func() (at int64) {
		w.Do(func(tx *keyspace.Tx) { at = tx.Find([]byte("k")).Expire })
		return at
	}
	w.add("k", strings.Repeat("long", 20)) // now in rows
	if expire() != w.Now+1000 {
		t.Error("SADD loses the expiry")
	}
	w.Do(func(tx *keyspace.Tx) {
		g, err := ReadAll(tx, [][]byte{[]byte("k")})
		if err != nil {
			t.Fatal(err)
		}
		g.CreateUnion([]byte("k"), &w.limits).Save()
	})
	if expire() != 0 {
		t.Error("SUNIONSTORE keeps the expiry")
	}
	if got, _ := w.look("k"); len(got) != 2 || w.rows() != 2 {
		t.Errorf("%v, %d rows", got, w.rows())
	}
}

// A meta row that cannot be a set's is an error, not a panic.
func TestCorrupt(t *testing.T) {
	t.Parallel()
	for _, m := range []keyspace.Meta{
		{Type: keyspace.Set, Encoding: keyspace.Integers, Body: make([]byte, 15)},
		{Type: keyspace.Set, Encoding: 9},
	} {
		w := newWorld(t)
		w.Do(func(tx *keyspace.Tx) { tx.Store([]byte("k"), keyspace.Meta{}, m) })
		err := w.Try(func(tx *keyspace.Tx) {
			if _, err := Read(tx, []byte("k")); err == nil {
				t.Error("it is read")
			}
		})
		if !errors.Is(err, engine.ErrCorrupt) {
			t.Error(err)
		}
	}
}
