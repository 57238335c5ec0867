package member

import (
	"encoding/binary"
	"errors"
	"fmt"
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
)

// world is a value with members in a store in memory.
type world struct {
	*typestest.Store
	t   *testing.T
	ref keyspace.Ref
	rng *rand.Rand
}

// rounds is how often something random is done: less with the race detector, which
// has nothing to find here.
func rounds(n int) int {
	if race.Enabled {
		return n / 10
	}
	return n
}

func newWorld(t *testing.T, names []string) *world {
	t.Helper()
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	w := &world{Store: typestest.New(t), t: t, rng: rand.New(rand.NewPCG(seed, 1))}
	w.Do(func(tx *keyspace.Tx) { w.ref = tx.NewRef([]byte("key"), int64(len(names))) })
	w.do(func(r *Rows) {
		for i, name := range names {
			r.Put([]byte(name), []byte{byte(i)})
		}
	})
	return w
}

func (w *world) do(f func(r *Rows)) {
	w.t.Helper()
	w.Do(func(tx *keyspace.Tx) { f(&Rows{Tx: tx, Ref: w.ref}) })
}

// uneven are names that are as little alike as names can be: empty and very long,
// numbers in a row, long common beginnings and ends, single bits apart.
func uneven(n int) []string {
	names := make([]string, n)
	for i := range names {
		switch i % 8 {
		case 0:
			names[i] = fmt.Sprint(i)
		case 1:
			names[i] = strings.Repeat("a", i/8)
		case 2:
			names[i] = strings.Repeat("user:", 40) + fmt.Sprint(i)
		case 3:
			names[i] = fmt.Sprint(i) + strings.Repeat("\x00", 100)
		case 4:
			names[i] = string(binary.BigEndian.AppendUint64(nil, uint64(i)))
		case 5:
			names[i] = string(binary.BigEndian.AppendUint64([]byte("\xff\xff"), 1<<(i/8%64)))
		case 6:
			names[i] = fmt.Sprintf("%0100d", i)
		default:
			names[i] = fmt.Sprintf("member-%d-of-a-set", i)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// fair fails unless the counts are what draws with equal chances give: chi-square
// must not be more than six standard deviations above its mean, which happens by
// chance once in some hundred million tests. Each name is expected so often, with
// this variance.
func fair(t *testing.T, counts map[string]int, names []string, expected, variance float64) {
	t.Helper()
	sum := 0.0
	for _, name := range names {
		d := float64(counts[name]) - expected
		sum += d * d / variance
	}
	free := float64(len(names) - 1)
	if most := free + 6*math.Sqrt(2*free); sum > most {
		t.Errorf("chi-square of %d members is %.1f, and should be about %.0f, at most %.1f", len(names), sum, free, most)
	}
	if len(counts) > len(names) {
		t.Errorf("%d different members came out of %d", len(counts), len(names))
	}
}

func TestPickIsFair(t *testing.T) {
	t.Parallel()
	for _, n := range []int{1, 2, 17, 63, 400} {
		names := uneven(n)
		w := newWorld(t, names)
		counts, draws := map[string]int{}, rounds(60)*len(names)
		w.do(func(r *Rows) {
			for range draws {
				held := r.Tx.Held()
				m, _, ok := r.Pick(w.rng, nil)
				if !ok {
					t.Fatal("nothing was drawn")
				}
				counts[string(m)]++
				r.Tx.Release(held)
			}
		})
		if len(names) == 1 {
			continue
		}
		expected := float64(draws) / float64(len(names))
		fair(t, counts, names, expected, expected)
	}
}

func TestSampleIsFair(t *testing.T) {
	t.Parallel()
	names := uneven(300)
	w := newWorld(t, names)
	total := float64(len(names))
	for _, count := range []int64{1, 3, 4, 20, 290} { // drawn one by one, and by a walk
		counts := map[string]int{}
		times := rounds(1500)
		w.do(func(r *Rows) {
			for range times {
				held := r.Tx.Held()
				seen := map[string]bool{}
				r.Sample(count, w.rng, nil, func(m, _ []byte) { seen[string(m)] = true })
				if int64(len(seen)) != count {
					t.Fatalf("%d different members, not %d", len(seen), count)
				}
				for m := range seen {
					counts[m]++
				}
				r.Tx.Release(held)
			}
		})
		share := float64(count) / total
		// The counts add up to a fixed sum, which takes one freedom away.
		fair(t, counts, names, float64(times)*share, float64(times)*share*(1-share)*total/(total-1))
	}
}

// Only members that live reports true for are drawn, each equally likely.
func TestLive(t *testing.T) {
	t.Parallel()
	names := uneven(300)
	w := newWorld(t, names)
	for _, most := range []byte{1, 10, 200} {
		live := func(v []byte) bool { return v[0] < most }
		var alive []string
		w.do(func(r *Rows) {
			r.Each(func(m, v []byte) bool {
				if live(v) {
					alive = append(alive, string(m))
				}
				return true
			})
			counts, draws := map[string]int{}, rounds(40)*len(alive)
			for range draws {
				m, _, ok := r.Pick(w.rng, live)
				if !ok || !slices.Contains(alive, string(m)) {
					t.Fatalf("%q was drawn, %v", m, ok)
				}
				counts[string(m)]++
			}
			expected := float64(draws) / float64(len(alive))
			fair(t, counts, alive, expected, expected)
			for _, count := range []int64{1, 5, 1000} {
				seen := map[string]bool{}
				r.Sample(count, w.rng, live, func(m, _ []byte) { seen[string(m)] = true })
				if int64(len(seen)) != min(count, int64(len(alive))) {
					t.Errorf("%d of %d live members were asked for, %d came", count, len(alive), len(seen))
				}
			}
		})
	}
	w.do(func(r *Rows) {
		dead := func([]byte) bool { return false }
		if m, _, ok := r.Pick(w.rng, dead); ok {
			t.Errorf("%q is dead", m)
		}
		r.Sample(3, w.rng, dead, func(m, _ []byte) { t.Errorf("%q is dead", m) })
	})
}

// Members with hashes that somebody chose are found all the same.
func TestChosenHashes(t *testing.T) {
	t.Parallel()
	var names []string
	for i := 0; len(names) < 200; i++ {
		if name := fmt.Sprint("n", i); hashOf([]byte(name)) < 1<<24 {
			names = append(names, name)
		}
	}
	w := newWorld(t, names)
	w.do(func(r *Rows) {
		counts := map[string]int{}
		for range rounds(20) * len(names) {
			m, _, ok := r.Pick(w.rng, nil)
			if !ok {
				t.Fatal("nothing was drawn")
			}
			counts[string(m)]++
		}
		fair(t, counts, names, float64(rounds(20)), float64(rounds(20)))
		seen := map[string]bool{}
		r.Sample(3, w.rng, nil, func(m, _ []byte) { seen[string(m)] = true })
		if len(seen) != 3 {
			t.Errorf("%d members of 3", len(seen))
		}
	})
}

// counted counts the rows that iterators came to.
type counted struct {
	engine.View
	rows *int
}

type countedRows struct {
	engine.Iterator
	rows *int
}

func (c counted) Iter(lo, hi []byte, reverse bool) engine.Iterator {
	return countedRows{c.View.Iter(lo, hi, reverse), c.rows}
}

func (c counted) Edge(lo, hi []byte, reverse bool, b []byte) ([]byte, int, bool, error) {
	return engine.EdgeByIter(c, lo, hi, reverse, b)
}

func (c countedRows) Next() bool { *c.rows++; return c.Iterator.Next() }

// A draw looks at some dozens of rows, however many there are.
func TestDrawsCostLittle(t *testing.T) {
	t.Parallel()
	names := make([]string, 20_000)
	for i := range names {
		names[i] = fmt.Sprint("member:", i)
	}
	w := newWorld(t, names)
	w.do(func(r *Rows) {
		rows := 0
		r.Tx.Rows.View = counted{r.Tx.Rows.View, &rows}
		for range 200 {
			r.Pick(w.rng, nil)
		}
		if rows > 200*100 {
			t.Errorf("200 draws came to %d rows", rows)
		}
		rows = 0
		r.Sample(100, w.rng, nil, func(_, _ []byte) {})
		if rows > 100*120 {
			t.Errorf("a sample of 100 came to %d rows", rows)
		}
		rows = 0
		r.Sample(5000, w.rng, nil, func(_, _ []byte) {})
		if rows > 20_001 {
			t.Errorf("a sample of 5000 came to %d rows", rows)
		}
		rows = 0
		r.Scan(1<<31, 100, func(_, _ []byte) {})
		if rows > 101 {
			t.Errorf("a page of 100 came to %d rows", rows)
		}
	})
}

// A scan comes to every member that stays, and to each once.
func TestScan(t *testing.T) {
	t.Parallel()
	names := uneven(500)
	// Some that have the same hash.
	for at, twins, hashes := 0, 0, map[uint32]string{}; twins < 6; at++ {
		name := fmt.Sprint("twin", at)
		if twin, ok := hashes[hashOf([]byte(name))]; ok {
			names, twins = append(names, name, twin), twins+1
		}
		hashes[hashOf([]byte(name))] = name
	}
	for _, count := range []int{1, 7, 10_000} {
		w := newWorld(t, names)
		seen := map[string]int{}
		for cursor, pages := uint64(0), 0; ; pages++ {
			w.do(func(r *Rows) {
				cursor = r.Scan(cursor, count, func(m, _ []byte) { seen[string(m)]++ })
				if gone := names[w.rng.IntN(len(names))]; seen[gone] > 0 {
					r.Delete([]byte(gone))
				}
			})
			if cursor == 0 {
				break
			}
			if pages > len(names) {
				t.Fatal("the scan does not end")
			}
		}
		for _, name := range names {
			if seen[name] != 1 {
				t.Errorf("count %d: %q came %d times", count, name, seen[name])
			}
		}
		w.do(func(r *Rows) {
			if next := r.Scan(1<<40, 10, func(m, _ []byte) { t.Errorf("%q behind the end", m) }); next != 0 {
				t.Errorf("behind the end comes %d", next)
			}
		})
	}
}

func TestGetPutDelete(t *testing.T) {
	t.Parallel()
	w := newWorld(t, []string{"", "a", strings.Repeat("long", 100)})
	w.do(func(r *Rows) {
		for i, name := range []string{"", "a", strings.Repeat("long", 100)} {
			if v, ok := r.Get([]byte(name)); !ok || v[0] != byte(i) {
				t.Errorf("%q is %v, %v", name, v, ok)
			}
		}
		r.Delete([]byte("a"))
		if _, ok := r.Get([]byte("a")); ok {
			t.Error("a deleted member is there")
		}
		if _, ok := r.Get([]byte("b")); ok {
			t.Error("a member that never was is there")
		}
		// Deleting the member that one stands on.
		r.Each(func(m, _ []byte) bool {
			r.Delete(m)
			return true
		})
	})
	w.do(func(r *Rows) {
		r.Each(func(m, _ []byte) bool { t.Errorf("%q is left", m); return true })
	})
}

// A row that is no member's is an error, not a panic.
func TestCorrupt(t *testing.T) {
	t.Parallel()
	for name, f := range map[string]func(w *world, r *Rows){
		"each":   func(_ *world, r *Rows) { r.Each(func(_, _ []byte) bool { return true }) },
		"scan":   func(_ *world, r *Rows) { r.Scan(0, 10, func(_, _ []byte) {}) },
		"pick":   func(w *world, r *Rows) { r.Pick(w.rng, nil) },
		"sample": func(w *world, r *Rows) { r.Sample(1, w.rng, nil, func(_, _ []byte) {}) },
	} {
		w := newWorld(t, nil)
		w.ref.Size = 1
		w.Do(func(tx *keyspace.Tx) {
			tx.PutRow(append(keyspace.AppendRowKey(nil, w.ref, keyspace.SubRow), 1, 2), nil)
		})
		err := w.Try(func(tx *keyspace.Tx) { f(w, &Rows{Tx: tx, Ref: w.ref}) })
		if !errors.Is(err, engine.ErrCorrupt) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// The keys of rows are on disk: they never change.
func TestKey(t *testing.T) {
	t.Parallel()
	got := fmt.Sprintf("%x", AppendKey(nil, keyspace.Ref{ID: 0x0102030405060708, Home: 0x0a0b}, []byte("member")))
	if want := "0a0b020102030405060708" + "76352243" + "6d656d626572"; got != want {
		t.Errorf("the key is %s, was %s", got, want)
	}
}
