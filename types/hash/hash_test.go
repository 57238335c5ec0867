package hash

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"redoubt/engine"
	"redoubt/internal/race"
	"redoubt/internal/typestest"
	"redoubt/keyspace"
	"redoubt/types"
)

func newTest(t *testing.T, limits types.Limits) *formTest {
	t.Helper()
	return &formTest{Store: typestest.New(t), t: t, name: "hash", limits: limits}
}

func (s *formTest) meta() (m keyspace.Meta) {
	s.t.Helper()
	s.Do(func(tx *keyspace.Tx) {
		tx.Writable = false
		m = tx.Find(testKey)
	})
	return m
}

// A hash unfolds exactly past the limits.
func TestUnfoldsPastTheLimits(t *testing.T) {
	t.Parallel()
	limits := types.Limits{HashEntries: 3, HashValue: 5}
	for _, c := range []struct {
		name  string
		pairs []string
		rows  bool
	}{
		{"as many as allowed", []string{"a", "1", "b", "2", "c", "3"}, false},
		{"one more", []string{"a", "1", "b", "2", "c", "3", "d", "4"}, true},
		{"the same field again", []string{"a", "1", "b", "2", "c", "3", "a", "4"}, false},
		{"a value as long as allowed", []string{"a", "12345"}, false},
		{"a longer value", []string{"a", "123456"}, true},
		{"a longer name", []string{"abcdef", "1"}, true},
	} {
		s := newTest(t, limits)
		for i := 0; i < len(c.pairs); i += 2 {
			s.with(func(h *Hash) { h.Set([]byte(c.pairs[i]), []byte(c.pairs[i+1]), 0) })
		}
		if m := s.meta(); m.External() != c.rows {
			t.Errorf("%s: encoding %d", c.name, m.Encoding)
		}
	}
}

// What is expected counts before it is there, as Redis does it: more arguments
// than fields are allowed unfold a hash even if some name the same field.
func TestExpectUnfoldsFirst(t *testing.T) {
	t.Parallel()
	s := newTest(t, types.Limits{HashEntries: 1, HashValue: 5})
	s.with(func(h *Hash) {
		h.Expect([][]byte{[]byte("a"), []byte("1"), []byte("a"), []byte("2")})
		h.Set([]byte("a"), []byte("2"), 0)
	})
	if m := s.meta(); m.Encoding != keyspace.Rows {
		t.Errorf("encoding %d", m.Encoding)
	}
}

// A hash that is too large for one row unfolds whatever the limits say.
func TestUnfoldsPastTheSizeOfARow(t *testing.T) {
	t.Parallel()
	s := newTest(t, forms["packed"])
	value := []byte(strings.Repeat("v", 1000))
	for i := range 90 {
		s.with(func(h *Hash) { h.Set(fmt.Appendf(nil, "%d", i), value, 0) })
	}
	if m := s.meta(); m.Encoding != keyspace.Rows {
		t.Errorf("encoding %d", m.Encoding)
	}
	if n := len(s.all()); n != 90 {
		t.Errorf("%d fields", n)
	}
}

// The last field's expiry removes the key, and the sweeper finds it.
func TestLastFieldExpires(t *testing.T) {
	t.Parallel()
	for name, limits := range forms {
		s := newTest(t, limits)
		for i := range 10 {
			s.with(func(h *Hash) { h.Set(fmt.Appendf(nil, "field%d", i), []byte("v"), s.Now+int64(10+i)) })
		}
		s.Now += 18
		if n := len(s.all()); n != 1 {
			t.Errorf("%s: %d fields live", name, n)
		}
		s.Now++
		if m := s.meta(); m.Exists() {
			t.Errorf("%s: the key lives", name)
		}
		s.Do(func(tx *keyspace.Tx) {
			if m := tx.Find(testKey); m.Exists() {
				t.Errorf("%s: the key lives for a writer", name)
			}
		})
		var names []string
		for _, e := range s.FX.Events {
			names = append(names, e.Name)
		}
		if fmt.Sprint(names) != "[hexpired del]" || s.FX.Expired != 0 {
			t.Errorf("%s: events %v, %d keys expired", name, names, s.FX.Expired)
		}
		s.Do(func(tx *keyspace.Tx) {
			if n := tx.Size(); n != 0 {
				t.Errorf("%s: %d keys", name, n)
			}
		})
	}
}

// The sweeper is told of a hash at the time of its first field, removes what is
// due in steps, and is told of the next time.
func TestSweep(t *testing.T) {
	t.Parallel()
	for name, limits := range forms {
		s := newTest(t, limits)
		start := s.Now
		s.with(func(h *Hash) {
			h.Set([]byte("stays"), []byte("v"), 0)
			for i := range 20 {
				h.Set(fmt.Appendf(nil, "soon%d", i), []byte("v"), start+10)
			}
			h.Set([]byte("late"), []byte("v"), start+1000)
		})
		steps := 0
		sweep := func() (left int) {
			for group := range keyspace.Groups {
				view, err := s.Eng.Begin(engine.ViewOptions{})
				if err != nil {
					t.Fatal(err)
				}
				list, err := s.Space.Due(view, group, s.Now, 10)
				view.Close()
				if err != nil {
					t.Fatal(err)
				}
				for _, d := range list {
					s.Do(func(tx *keyspace.Tx) {
						if !tx.Expire(d) {
							t.Fatalf("%s: the key is expired, not its fields", name)
						}
						ExpireFields(tx, d.Key, 8)
						steps++
					})
				}
				left += len(list)
			}
			return left
		}
		if sweep() != 0 {
			t.Errorf("%s: due before its time", name)
		}
		s.Now += 10
		for sweep() > 0 {
			if steps > 10 {
				t.Fatalf("%s: the sweep does not end", name)
			}
		}
		if want := 3; steps != want && name != "packed" {
			t.Errorf("%s: %d steps, want %d", name, steps, want)
		}
		m := s.meta()
		if f := m.FieldTimes(); f.Next != start+1000 || f.End != 0 {
			t.Errorf("%s: times %+v", name, f)
		}
		s.checkRows()
		if n := len(s.all()); n != 2 {
			t.Errorf("%s: %d fields", name, n)
		}
	}
}

// COPY and RENAME keep the times: they copy the body, and rows of all kinds.
func TestDuplicateKeepsTimes(t *testing.T) {
	t.Parallel()
	for name, limits := range forms {
		s := newTest(t, limits)
		s.with(func(h *Hash) {
			h.Set([]byte("a"), []byte("1"), s.Now+100)
			h.Set([]byte("b"), []byte("2"), 0)
		})
		s.Do(func(tx *keyspace.Tx) {
			to := []byte("copy")
			tx.Store(to, keyspace.Meta{}, tx.Duplicate(to, tx.Find(testKey)))
		})
		s.with(func(h *Hash) { h.Delete([]byte("a")) })
		s.Do(func(tx *keyspace.Tx) {
			h, err := Read(tx, []byte("copy"))
			if err != nil {
				t.Fatal(err)
			}
			defer h.Release()
			if e, ok := h.Get([]byte("a")); !ok || e.At != s.Now+100 || h.Len() != 2 {
				t.Errorf("%s: the copy has %+v, %v", name, e, ok)
			}
		})
		s.Now += 100
		s.Do(func(tx *keyspace.Tx) {
			h, err := Read(tx, []byte("copy"))
			if err != nil {
				t.Fatal(err)
			}
			defer h.Release()
			if _, ok := h.Get([]byte("a")); ok || h.Len() != 1 {
				t.Errorf("%s: the copy's field lives on", name)
			}
		})
	}
}

// Every field is drawn equally often, dead ones never.
func TestDrawIsFair(t *testing.T) {
	t.Parallel()
	const seed, fields, dead, draws = 5, 100, 50, 10_000
	for name, limits := range forms {
		s := newTest(t, limits)
		s.with(func(h *Hash) {
			for i := range fields {
				h.Set(fmt.Appendf(nil, "f%d", i), []byte("v"), 0)
			}
			for i := range dead {
				h.Set(fmt.Appendf(nil, "dead%d", i), []byte("v"), s.Now+1)
			}
		})
		s.Now++
		rng := rand.New(rand.NewPCG(seed, seed))
		drawn, sampled := map[string]int{}, map[string]int{}
		s.read(func(h *Hash) {
			h.Draw(draws, rng, func(f []byte, _ Entry) bool {
				drawn[string(f)]++
				return true
			})
			for range draws / 10 {
				seen := map[string]bool{}
				h.Sample(10, rng, func(f []byte, _ Entry) {
					sampled[string(f)]++
					seen[string(f)] = true
				})
				if len(seen) != 10 {
					t.Fatalf("%s: a sample of 10 has %d fields", name, len(seen))
				}
			}
			n := 0
			h.Sample(1<<40, rng, func([]byte, Entry) { n++ })
			if n != fields {
				t.Errorf("%s: a sample of all has %d fields", name, n)
			}
		})
		for what, counts := range map[string]map[string]int{"drawn": drawn, "sampled": sampled} {
			chi, mean := 0.0, float64(draws)/fields
			if len(counts) != fields {
				t.Errorf("%s: %d fields were %s, of %d", name, len(counts), what, fields)
			}
			for _, n := range counts {
				chi += (float64(n) - mean) * (float64(n) - mean) / mean
			}
			if chi > 161 { // 99 degrees of freedom: once in ten thousand
				t.Errorf("%s: %s unfairly: chi-square is %.1f (seed %d)", name, what, chi, seed)
			}
		}
	}
}

// One-field operations on a large hash read a few rows, whatever its size.
func TestLargeHashCostsWhatIsTouched(t *testing.T) {
	t.Parallel()
	s := newTest(t, types.DefaultLimits)
	const fields = 20_000
	for i := 0; i < fields; i += 1000 {
		s.with(func(h *Hash) {
			for j := i; j < i+1000; j++ {
				h.Set(fmt.Appendf(nil, "field%d", j), []byte("value"), s.Now+1000+int64(j))
			}
		})
	}
	c := &counting{Engine: s.Eng}
	s.Eng = c
	rng := rand.New(rand.NewPCG(1, 2))
	f := []byte("field777")
	for _, op := range []struct {
		name string
		most int
		run  func(h *Hash)
	}{
		{"get", 2, func(h *Hash) { h.Get(f) }},
		{"len", 1, func(h *Hash) { h.Len() }},
		{"set", 3, func(h *Hash) { h.Set(f, []byte("w"), 0) }},
		{"time", 3, func(h *Hash) { e, _ := h.Get(f); h.SetAt(f, e, s.Now+5000) }},
		{"delete", 3, func(h *Hash) { h.Delete(f) }},
		{"scan", 15, func(h *Hash) { h.Scan(1<<31, 10, func([]byte, Entry) {}) }},
		{"draw", 400, func(h *Hash) { h.Draw(1, rng, func([]byte, Entry) bool { return true }) }},
	} {
		c.rows = 0
		s.with(op.run)
		if c.rows > op.most {
			t.Errorf("%s reads %d rows, %d at the most", op.name, c.rows, op.most)
		}
	}
	s.Now += 1000 + fields/2
	c.rows = 0
	if s.with(func(h *Hash) { h.Set(f, []byte("w"), 0) }); c.rows > purgeStep+4 {
		t.Errorf("a write to a hash with many dead fields reads %d rows", c.rows)
	}
	s.read(func(h *Hash) {
		if n := h.Len(); n != fields/2 { // field777 instead of one that has just died
			t.Errorf("%d fields live", n)
		}
	})
	s.checkRows()
}

// counting counts the rows that are read.
type counting struct {
	engine.Engine
	rows int
}

func (c *counting) Begin(o engine.ViewOptions) (engine.View, error) {
	v, err := c.Engine.Begin(o)
	return &countingView{v, c}, err
}

type countingView struct {
	engine.View
	c *counting
}

func (v *countingView) Get(key, dst []byte) ([]byte, bool, error) {
	v.c.rows++
	return v.View.Get(key, dst)
}

func (v *countingView) Iter(lo, hi []byte, reverse bool) engine.Iterator {
	return &countingIter{v.View.Iter(lo, hi, reverse), v.c}
}

func (v *countingView) Edge(lo, hi []byte, reverse bool, b []byte) ([]byte, int, bool, error) {
	return engine.EdgeByIter(v, lo, hi, reverse, b)
}

type countingIter struct {
	engine.Iterator
	c *counting
}

func (i *countingIter) Next() bool {
	i.c.rows++
	return i.Iterator.Next()
}

// Bytes that are no hash are an error, never a panic.
func TestCorruptRows(t *testing.T) {
	t.Parallel()
	for _, m := range []keyspace.Meta{
		{Type: keyspace.Hash, Encoding: keyspace.Packed, Body: []byte{0, 2, 9, 'a'}},
		{Type: keyspace.Hash, Encoding: keyspace.Packed, Body: []byte{0, 2, 1, 'a'}},
		{Type: keyspace.Hash, Encoding: keyspace.PackedTimed, Body: append(make([]byte, 16), 0, 3, 1, 'a', 1, 'b', 1, 'c')},
		{Type: keyspace.Hash, Encoding: keyspace.RowsTimed, Body: make([]byte, 18+16)},
	} {
		s := newTest(t, types.DefaultLimits)
		s.Do(func(tx *keyspace.Tx) { tx.Store(testKey, keyspace.Meta{}, m) })
		err := s.Try(func(tx *keyspace.Tx) {
			h, err := Open(tx, testKey, &s.limits)
			if err != nil {
				t.Fatal(err)
			}
			h.Get([]byte("x"))
			h.Each(func([]byte, Entry) bool { return true })
		})
		if !errors.Is(err, engine.ErrCorrupt) {
			t.Errorf("%v: %v", m, err)
		}
	}
}

func TestWrongType(t *testing.T) {
	t.Parallel()
	s := newTest(t, types.DefaultLimits)
	s.Do(func(tx *keyspace.Tx) {
		tx.Store(testKey, keyspace.Meta{}, keyspace.Meta{Type: keyspace.String, Encoding: keyspace.Raw})
		if _, err := Open(tx, testKey, &s.limits); !errors.Is(err, types.ErrWrongType) {
			t.Errorf("Open: %v", err)
		}
		if _, err := Read(tx, testKey); !errors.Is(err, types.ErrWrongType) {
			t.Errorf("Read: %v", err)
		}
	})
}

// The usual operations allocate nothing.
func TestAllocations(t *testing.T) {
	if race.Enabled {
		t.Skip("the race detector allocates")
	}
	for name, limits := range forms {
		s := newTest(t, limits)
		for i := range 5 {
			s.with(func(h *Hash) { h.Set(fmt.Appendf(nil, "field%d", i), []byte("value"), 0) })
		}
		field, value := []byte("field3"), []byte("other")
		s.Do(func(tx *keyspace.Tx) {
			run := func() {
				h, _ := Open(tx, testKey, &s.limits)
				h.Set(field, value, 0)
				h.Save()
				h.Release()
				h, _ = Read(tx, testKey)
				h.Get(field)
				h.Release()
				tx.Release(0)
			}
			run()
			if n := testing.AllocsPerRun(200, run); n > 0.5 {
				t.Errorf("%s: setting and getting a field allocates %.1f times", name, n)
			}
		})
	}
}

// FuzzPacked reads and edits a packed body of any bytes.
func FuzzPacked(f *testing.F) {
	f.Add([]byte{0, 4, 1, 'a', 1, '1', 1, 'b', 0}, false)
	f.Add(append(make([]byte, 16), 0, 3, 1, 'a', 1, '1', 8, 0, 0, 0, 0, 0, 0, 0, 1), true)
	f.Fuzz(func(t *testing.T, body []byte, timed bool) {
		s := typestest.New(t)
		m := keyspace.Meta{Type: keyspace.Hash, Encoding: keyspace.Packed, Body: body}
		if timed {
			m.Encoding = keyspace.PackedTimed
			if len(body) < keyspace.FieldTimesSize {
				return
			}
		}
		_ = s.Try(func(tx *keyspace.Tx) {
			h, err := Of(tx, testKey, m)
			if err != nil {
				t.Fatal(err)
			}
			defer h.Release()
			h.limits = &types.DefaultLimits
			h.expire(1)
			n := 0
			h.Each(func([]byte, Entry) bool { n++; return true })
			if tx.Err() != nil {
				return
			}
			h.Set([]byte("field"), []byte("value"), tx.Now+5)
			if e, ok := h.Get([]byte("field")); tx.Err() == nil && (!ok || string(e.Value) != "value") {
				t.Fatalf("the field is %q, %v", e.Value, ok)
			}
			h.Delete([]byte("field"))
			h.Sample(10, rand.New(rand.NewPCG(1, 1)), func([]byte, Entry) {})
			tx.Fail(errors.New("nothing is to be kept"))
		})
	})
}
