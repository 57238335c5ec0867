package keyspace

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"testing"

	"redoubt/engine"
	"redoubt/engine/mem"
)

func (s *testStore) fill(db int, names []string) {
	s.t.Helper()
	s.do(db, func(tx *Tx) {
		for _, n := range names {
			put(tx, n, "v", 0)
		}
	})
}

func names(prefix string, n int) (list []string) {
	for i := range n {
		list = append(list, fmt.Sprint(prefix, i))
	}
	return list
}

// scan does a whole scan; between pages it calls between.
func (s *testStore) scan(db, count int, between func()) map[string]int {
	s.t.Helper()
	seen := make(map[string]int)
	for cursor, pages := uint64(0), 0; ; pages++ {
		s.begin()
		s.tx.Writable = false
		s.exec(db, func(tx *Tx) {
			n := 0
			cursor = tx.Scan(cursor, count, func(key []byte, _ Meta) { seen[string(key)]++; n++ })
			if n > count {
				s.t.Errorf("a page of %d keys, %d were asked for", n, count)
			}
		})
		s.view.Close()
		if cursor == 0 {
			return seen
		}
		if pages > 100_000 {
			s.t.Fatal("the scan does not end")
		}
		between()
	}
}

// The promise of SCAN: what is there from its beginning to its end is returned,
// whatever comes and goes meanwhile and whether or not the server remembers the
// cursor; and without changes nothing is returned twice.
func TestScanPromise(t *testing.T) {
	t.Parallel()
	for _, layout := range []string{"%d", "{one}%d", "{tag%[2]d}%[1]d"} {
		for _, memory := range []string{"kept", "lost", "sometimes"} {
			t.Run(layout+" "+memory, func(t *testing.T) {
				t.Parallel()
				s, rng := newTestStore(t), seeded(t)
				name := func(i int) string {
					if layout == "{tag%[2]d}%[1]d" {
						return fmt.Sprintf(layout, i, i%7)
					}
					return fmt.Sprintf(layout, i)
				}
				var stay, move []string
				for i := range 300 {
					stay = append(stay, name(i))
					move = append(move, name(1000+i))
				}
				s.fill(0, append(stay, move[:150]...))
				s.fill(1, stay)
				for _, count := range []int{1, 3, 10, 50, 1000} {
					seen := s.scan(0, count, func() {
						if memory == "lost" || memory == "sometimes" && rng.IntN(3) == 0 {
							s.space.cursors = cursorCache{}
						}
						s.do(0, func(tx *Tx) {
							for range 2 {
								n := []byte(move[rng.IntN(len(move))])
								if m := tx.Find(n); m.Exists() {
									tx.Remove(n, m)
								} else {
									put(tx, string(n), "v", 0)
								}
							}
						})
					})
					for _, n := range stay {
						if seen[n] == 0 {
							t.Errorf("count %d: %q stayed and was not returned", count, n)
						}
						delete(seen, n)
					}
					for n := range seen {
						if !slices.Contains(move, n) {
							t.Errorf("%q was never there", n)
						}
					}
				}
				for n, times := range s.scan(1, 7, func() {
					if memory == "lost" {
						s.space.cursors = cursorCache{}
					}
				}) {
					if times != 1 {
						t.Errorf("%q was returned %d times though nothing changed", n, times)
					}
				}
			})
		}
	}
}

func TestScanOfFewKeysAmongMany(t *testing.T) {
	t.Parallel()
	s := newTestStore(t)
	s.fill(0, names("x", 40_000)) // nearly every slot has rows of another database
	few := names("few", 5)
	s.fill(1, few)
	s.fill(2, nil)
	pages := 0
	seen := s.scan(1, 10, func() { pages++ })
	equal(t, "keys", len(seen), len(few))
	if pages == 0 || pages > Slots/scanOpens+1 {
		t.Errorf("%d pages", pages)
	}
	equal(t, "none", len(s.scan(2, 10, func() {})), 0)
}

func TestScanSkipsExpiredKeysAndForeignRows(t *testing.T) {
	t.Parallel()
	s := newTestStore(t)
	s.do(0, func(tx *Tx) {
		for i := range 30 {
			put(tx, fmt.Sprint("dead", i), "v", testNow+1)
			putExternal(tx, fmt.Sprint("{a}live", i), 20, 0)
		}
	})
	s.now++
	seen := s.scan(0, 4, func() {})
	equal(t, "keys", len(seen), 30)
	for n := range seen {
		if n[:3] != "{a}" {
			t.Errorf("%q has expired", n)
		}
	}
}

func TestScanOfACursorThatNobodyGave(t *testing.T) {
	t.Parallel()
	s := newTestStore(t)
	s.fill(0, names("k", 100))
	for _, cursor := range []uint64{1, 42, Slots << tokenBits, 1<<64 - 1, (Slots - 1) << tokenBits, 5 << tokenBits} {
		s.begin()
		s.exec(0, func(tx *Tx) {
			if next := tx.Scan(cursor, 1000, func([]byte, Meta) {}); next != 0 {
				t.Errorf("cursor %d: next %d", cursor, next)
			}
		})
		s.view.Close()
	}
}

func TestCursorCacheIsBounded(t *testing.T) {
	t.Parallel()
	var c cursorCache
	for i := range 3 * len(c.ring) {
		c.put(1, uint64(i), []byte{1})
		c.put(1, uint64(i), []byte{2})
	}
	equal(t, "size", len(c.keys), len(c.ring))
	c.put(2, 1, make([]byte, maxCachedKey+1))
	_, long := c.get(2, 1)
	equal(t, "a long key", long, false)
	_, old := c.get(1, 0)
	key, found := c.get(1, uint64(3*len(c.ring)-1))
	equal(t, "old and new", []any{old, found, key}, []any{false, true, []byte{2}})
}

func TestWalkGoesInOrderAndStops(t *testing.T) {
	t.Parallel()
	s := newTestStore(t)
	s.fill(0, names("k", 200))
	s.fill(1, names("o", 200))
	s.begin()
	defer s.view.Close()
	s.exec(0, func(tx *Tx) {
		put(tx, "k-in-batch", "v", 0)
		var all []string
		last := -1
		tx.Walk(0, nil, func(slot uint16, key []byte, m Meta) bool {
			if int(slot) < last {
				t.Errorf("slot %d after %d", slot, last)
			}
			last = int(slot)
			all = append(all, string(key))
			return true
		})
		equal(t, "keys", len(all), 201)
		for i := 0; i < len(all); i += 17 { // going on behind any key gives the rest
			var rest []string
			tx.Walk(SlotOf([]byte(all[i])), []byte(all[i]), func(_ uint16, key []byte, m Meta) bool {
				rest = append(rest, string(key))
				return len(rest) < 5
			})
			equal(t, "rest", rest, all[i+1:min(i+6, len(all))])
		}
	})
}

func TestWalkOpensFewIterators(t *testing.T) {
	t.Parallel()
	eng := &counting{Engine: mem.New()}
	s := openStore(t, eng)
	s.fill(0, names("k", 20_000))
	s.begin()
	defer s.view.Close()
	eng.iters = 0
	n := 0
	s.exec(0, func(tx *Tx) { tx.Walk(0, nil, func(uint16, []byte, Meta) bool { n++; return true }) })
	equal(t, "keys and iterators", []int{n, eng.iters}, []int{20_000, 1})
}

// counting counts the iterators that views open, and the rows that these read.
type counting struct {
	engine.Engine
	iters, rows int
}

func (c *counting) Begin(o engine.ViewOptions) (engine.View, error) {
	v, err := c.Engine.Begin(o)
	return countingView{v, c}, err
}

type countingView struct {
	engine.View
	c *counting
}

func (v countingView) Iter(lo, hi []byte, reverse bool) engine.Iterator {
	v.c.iters++
	return countingIter{v.View.Iter(lo, hi, reverse), v.c}
}

func (v countingView) Edge(lo, hi []byte, reverse bool, b []byte) ([]byte, int, bool, error) {
	return engine.EdgeByIter(v, lo, hi, reverse, b)
}

type countingIter struct {
	engine.Iterator
	c *counting
}

func (it countingIter) Next() bool {
	it.c.rows++
	return it.Iterator.Next()
}

// chiSquare sums the squared deviations from the mean over the mean.
func chiSquare(counts map[string]int, cells, draws int) (x float64) {
	mean := float64(draws) / float64(cells)
	for _, n := range counts {
		x += (float64(n) - mean) * (float64(n) - mean) / mean
	}
	return x + float64(cells-len(counts))*mean
}

func TestRandomIsRoughlyFair(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name  string
		keys  []string
		draws int
		limit float64 // how far from fair: chi square per degree of freedom
	}{
		{"one", names("k", 1), 10, 1},
		{"few", names("k", 50), 500, 2},
		{"some hundreds", names("k", 900), 4000, 1.5},
		{"many", names("k", 60_000), 10_000, 1.5},
		{"few slots", append(names("{a}", 400), names("{b}", 400)...), 1_000, 50},
		{"one slot", names("{a}", 2000), 1500, 3},
		{"prefixes of each other", prefixes(600), 3, math.MaxFloat64},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s, rng := newTestStore(t), seeded(t)
			s.fill(0, c.keys)
			s.fill(1, []string{"another database"})
			s.begin()
			defer s.view.Close()
			known := make(map[string]bool)
			for _, k := range c.keys {
				known[k] = true
			}
			counts := make(map[string]int)
			s.exec(0, func(tx *Tx) {
				for range c.draws {
					k := string(tx.Random(rng.IntN))
					if !known[k] {
						t.Fatalf("%q is no key", k)
					}
					counts[k]++
				}
			})
			x := chiSquare(counts, len(c.keys), c.draws) / float64(max(1, len(c.keys)-1))
			t.Logf("%d keys, %d draws, %d different, chi square per key %.2f", len(c.keys), c.draws, len(counts), x)
			if x > c.limit {
				t.Errorf("not fair: chi square per key %.2f", x)
			}
		})
	}
}

// prefixes returns names each of which is the start of the next.
func prefixes(n int) (list []string) {
	s := "{a}"
	for range n {
		s += "x"
		list = append(list, s)
	}
	return list
}

func TestRandomFindsTheLiveKey(t *testing.T) {
	t.Parallel()
	for _, total := range []int{1, 400, 3000} {
		s, rng := newTestStore(t), seeded(t)
		s.do(0, func(tx *Tx) {
			for i := range total {
				put(tx, fmt.Sprintf("{a}%d", i), "v", testNow+1)
			}
		})
		s.now++
		s.begin()
		s.exec(0, func(tx *Tx) {
			if k := tx.Random(rng.IntN); k != nil {
				t.Errorf("%q has expired", k)
			}
			put(tx, "{a}live", "v", 0)
			equal(t, "key", string(tx.Random(rng.IntN)), "{a}live")
		})
		s.view.Close()
	}
}

func TestWalkNeedsLatches(t *testing.T) {
	t.Parallel()
	s := newTestStore(t)
	s.fill(0, names("k", 3))
	s.begin()
	defer s.view.Close()
	s.tx.Start()
	s.tx.Latched = false
	s.tx.Find([]byte("k1"))
	s.tx.Walk(0, nil, func(uint16, []byte, Meta) bool { t.Error("visited"); return true })
	if !errors.Is(s.tx.Err(), NeedsLatch) {
		t.Errorf("error %v", s.tx.Err())
	}
}
