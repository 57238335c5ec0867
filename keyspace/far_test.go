package keyspace

import (
	"fmt"
	"testing"

	"redoubt/engine"
	"redoubt/engine/mem"
	"redoubt/internal/sharedmem"
)

// far is an engine on another machine, whose iterators are counted.
type far struct{ *counting }

func (f far) Capabilities() engine.Capabilities {
	caps := f.Engine.Capabilities()
	caps.Remote = true
	return caps
}

func newFar() far { return far{&counting{Engine: mem.New()}} }

// opened is how many iterators f opens.
func (c *counting) opened(f func()) int {
	before := c.iters
	f()
	return c.iters - before
}

func TestAFarWalkRunsThroughOthers(t *testing.T) {
	t.Parallel()
	eng := newFar()
	s := openStore(t, eng)
	s.fill(0, names("k", 20_000))
	few := names("few", 300)
	s.fill(1, few)
	s.begin()
	defer s.view.Close()
	n := 0
	opened := eng.opened(func() {
		s.exec(1, func(tx *Tx) { tx.Walk(0, nil, func(uint16, []byte, Meta) bool { n++; return true }) })
	})
	equal(t, "keys", n, len(few))
	if opened > 5 {
		t.Errorf("%d iterators to read %d keys among 20000 others", opened, n)
	}
}

// Rows that are large are not read by the hundred.
func TestAFarWalkStepsOverLargeRows(t *testing.T) {
	t.Parallel()
	eng := newFar()
	s := openStore(t, eng)
	large := make([]byte, 8<<10)
	s.do(0, func(tx *Tx) {
		ref := tx.NewRef([]byte("{a}large"), 1)
		for i := range 2000 {
			tx.PutRow(fmt.Appendf(AppendRowKey(nil, ref, SubRow), "%04d", i), large)
		}
		tx.Store([]byte("{a}large"), Meta{}, Meta{Type: String, Encoding: Chunked, Body: AppendRef(nil, ref)})
		put(tx, "other", "v", 0)
	})
	s.begin()
	defer s.view.Close()
	eng.rows = 0
	s.exec(0, func(tx *Tx) { tx.Walk(0, nil, func(uint16, []byte, Meta) bool { return true }) })
	if eng.rows > 200 {
		t.Errorf("%d rows were read", eng.rows)
	}
}

func TestAFarScanIsBounded(t *testing.T) {
	t.Parallel()
	eng := newFar()
	s := openStore(t, eng)
	// Each slot has more rows of the other database than an iterator reads in vain.
	s.do(0, func(tx *Tx) {
		for slot := range 40 {
			tag := tagOf(slot * 400)
			for i := range 600 {
				put(tx, fmt.Sprintf("{%s}%d", tag, i), "v", 0)
			}
		}
	})
	few := []string{"few1", "few2", "few3"}
	s.fill(1, few)
	seen := map[string]int{}
	pages := 0
	for cursor := uint64(0); ; pages++ {
		s.begin()
		opened := eng.opened(func() {
			s.exec(1, func(tx *Tx) { cursor = tx.Scan(cursor, 1000, func(key []byte, _ Meta) { seen[string(key)]++ }) })
		})
		s.view.Close()
		if opened > scanOpensFar+1 {
			t.Errorf("%d iterators for a page", opened)
		}
		if cursor == 0 {
			break
		}
	}
	equal(t, "keys", len(seen), len(few))
	if pages == 0 {
		t.Error("one page was enough: the limit was not reached")
	}
}

// tagOf is a hash tag whose slot is the first one at or behind a slot.
func tagOf(slot int) string {
	best, at := "", Slots
	for i := range 100_000 {
		tag := fmt.Sprint(i)
		if got := int(SlotOf([]byte(tag))); got >= slot && got < at {
			if best, at = tag, got; at == slot {
				break
			}
		}
	}
	return best
}

func TestAFarRandomKeyIsFairAndNear(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		keys   []string
		draws  int
		limit  float64 // chi square per degree of freedom
		opened float64 // iterators per draw
	}{
		{"one", names("k", 1), 10, 1, 1},
		{"few", names("k", 50), 500, 2, 1},
		{"some hundreds", names("k", 900), 4000, 1.5, 3},
		{"many", names("k", 60_000), 10_000, 1.5, 3},
		{"few slots", append(names("{a}", 400), names("{b}", 400)...), 500, 50, 12},
		{"one slot", names("{a}", 2000), 500, 10, 80},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			eng, rng := newFar(), seeded(t)
			s := openStore(t, eng)
			s.fill(0, c.keys)
			s.fill(1, []string{"another database"})
			s.begin()
			defer s.view.Close()
			known := make(map[string]bool)
			for _, k := range c.keys {
				known[k] = true
			}
			counts := make(map[string]int)
			opened := eng.opened(func() {
				s.exec(0, func(tx *Tx) {
					for range c.draws {
						k := string(tx.Random(rng.IntN))
						if !known[k] {
							t.Fatalf("%q is no key", k)
						}
						counts[k]++
					}
				})
			})
			x := chiSquare(counts, len(c.keys), c.draws) / float64(max(1, len(c.keys)-1))
			each := float64(opened) / float64(c.draws)
			t.Logf("%d keys, %d draws, chi square per key %.2f, %.1f iterators per draw", len(c.keys), c.draws, x, each)
			if x > c.limit {
				t.Errorf("not fair: chi square per key %.2f", x)
			}
			if each > c.opened {
				t.Errorf("%.1f iterators per draw", each)
			}
		})
	}
}

// A small database among the rows of large ones.
func TestAFarRandomKeyOfASmallDatabase(t *testing.T) {
	t.Parallel()
	eng, rng := newFar(), seeded(t)
	s := openStore(t, eng)
	s.fill(0, names("k", 40_000))
	s.fill(1, []string{"a", "b"})
	s.begin()
	defer s.view.Close()
	s.exec(1, func(tx *Tx) {
		for range 20 {
			if k := string(tx.Random(rng.IntN)); k != "a" && k != "b" {
				t.Errorf("drawn %q", k)
			}
		}
	})
}

// The size of a database on a shared store is an estimate.
func TestARandomKeyWhateverTheCounterSays(t *testing.T) {
	t.Parallel()
	rng := seeded(t)
	s := openStore(t, sharedmem.New().Open())
	random := func() (key string) {
		s.begin()
		defer s.view.Close()
		s.exec(0, func(tx *Tx) { key = string(tx.Random(rng.IntN)) })
		return key
	}
	equal(t, "none", random(), "")
	s.off(0, 1_000_000, 0)
	equal(t, "none", random(), "")
	s.fill(0, names("k", 3000))
	for _, n := range []int64{-1_000_010, -2000, -900, -80, 1 << 40} {
		if s.off(0, n, 0); random() == "" {
			t.Errorf("no key, and the counter is off by %d", n)
		}
	}
}

func TestFarClearingOpensFewIterators(t *testing.T) {
	t.Parallel()
	eng := newFar()
	s := openStore(t, eng)
	s.fill(0, names("k", 10_000))
	s.fill(1, names("k", 10_000))
	s.do(0, func(tx *Tx) { tx.Flush(0) })
	var c Clearing
	steps := 0
	opened := eng.opened(func() {
		for more := true; more; steps++ {
			s.do(0, func(tx *Tx) { more = tx.Clear(&c, 256) })
		}
	})
	equal(t, "cleared", c.Cleared, 10_000)
	equal(t, "keys left", s.rows()[kindMeta], 10_000)
	if most := 10_000/256 + 2 + Groups + Groups/clearOpensFar + 2; opened > most {
		t.Errorf("%d iterators, want %d at most", opened, most)
	}
	if most := 10_000/256 + 2 + Groups/clearOpensFar + 1; steps > most {
		t.Errorf("%d steps", steps)
	}
}

// A step that clears a large value goes on behind what the step before deleted, and
// the garbage row stays until all is gone.
func TestClearValueGoesOn(t *testing.T) {
	t.Parallel()
	s := newTestStore(t)
	s.do(0, func(tx *Tx) {
		for _, other := range []string{"{k}1", "{k}2"} { // one with an id below, one above
			putExternal(tx, other, 4, 0)
			if other == "{k}1" {
				putExternal(tx, "k", 10, 0)
			}
		}
		m := tx.Find([]byte("k"))
		tx.PutRow(append(AppendRowKey(nil, m.Ref(), ScoreRow), 1), nil)
		tx.PutRow(append(AppendRowKey(nil, m.Ref(), RankRow), 1), nil)
	})
	s.do(0, func(tx *Tx) { tx.Remove([]byte("k"), tx.Find([]byte("k"))) })
	group := int(SlotOf([]byte("k"))) / expireGroup
	list := func(group int) []Ref {
		s.begin()
		defer s.view.Close()
		l, err := s.space.Garbage(s.view, group, 10)
		if err != nil {
			t.Fatal(err)
		}
		return l
	}
	equal(t, "in another group", len(list((group+1)%Groups)), 0)
	l := list(group)
	equal(t, "values", len(l), 1)
	var from []byte
	for step, want := range []int{3, 3, 3, 3, 0} {
		n := 0
		s.do(0, func(tx *Tx) { n, from = tx.ClearValue(l[0], from, 3) })
		equal(t, "cleared", n, want)
		equal(t, "more", from != nil, step < 4)
		equal(t, "garbage rows", s.rows()[kindGarbage], []int{1, 1, 1, 1, 0}[step])
	}
	n := s.rows()
	equal(t, "rows left", []int{n[kindSub], n[kindScore], n[kindRank]}, []int{8, 0, 0})
}

func TestGarbageRowsThatCannotBe(t *testing.T) {
	t.Parallel()
	s := newTestStore(t)
	lo, _ := garbageRange(3)
	s.do(0, func(tx *Tx) { tx.PutRow(append(lo, 1, 2), nil) })
	s.begin()
	defer s.view.Close()
	if _, err := s.space.Garbage(s.view, 3, 10); err == nil {
		t.Error("no error")
	}
	s.tx.Start()
	s.tx.Clear(&Clearing{}, 1000)
	if s.tx.Err() == nil {
		t.Error("no error")
	}
}
