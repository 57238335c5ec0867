package mem

import (
	"bytes"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"redoubt/engine"
)

// world is a model of the store: its rows, and frozen copies beside snapshots
// and iterators that are open.
type world struct {
	t     *testing.T
	e     *Engine
	rng   *rand.Rand
	rows  map[string]string
	snaps []frozenWorld
	iters []walking
}

type frozenWorld struct {
	snap engine.Snapshot
	rows map[string]string
}

type walking struct {
	it   engine.Iterator
	left []string // keys to come
	rows map[string]string
}

// key makes keys of few different bytes, of any length: short ones share a part
// with others, and bounds fall between and on keys.
func (w *world) key() []byte {
	k := make([]byte, w.rng.IntN(5))
	for i := range k {
		k[i] = []byte{0, 1, 2, 0x7f, 0xfe}[w.rng.IntN(5)]
	}
	return k
}

func TestSnapshotsAgainstAModel(t *testing.T) {
	t.Parallel()
	w := &world{t: t, e: New(), rng: seeded(t), rows: make(map[string]string)}
	for range rounds(6000) {
		switch w.rng.IntN(10) {
		case 0:
			if len(w.snaps) < 5 {
				s, err := w.e.Snapshot()
				if err != nil {
					t.Fatal(err)
				}
				w.snaps = append(w.snaps, frozenWorld{s, maps.Clone(w.rows)})
			}
		case 1:
			if n := len(w.snaps); n > 0 {
				i := w.rng.IntN(n)
				w.snaps[i].snap.Close()
				w.snaps = slices.Delete(w.snaps, i, i+1)
			}
		case 2:
			w.walk()
		case 3:
			w.step()
		case 4, 5:
			w.read()
		default:
			w.commit()
		}
		if t.Failed() {
			t.FailNow()
		}
	}
	check(t, w.e)
	for _, i := range w.iters {
		i.it.Close()
	}
	for _, s := range w.snaps {
		s.snap.Close()
	}
	check(t, w.e)
	if len(w.rows) != int(w.e.rows.Load()) {
		t.Errorf("%d rows, want %d", w.e.rows.Load(), len(w.rows))
	}
}

func (w *world) commit() {
	var b engine.Batch
	for range 1 + w.rng.IntN(6) {
		k := w.key()
		switch w.rng.IntN(12) {
		case 0:
			hi := w.key()
			b.DeleteRange(k, hi)
			for have := range w.rows {
				if have >= string(k) && have < string(hi) {
					delete(w.rows, have)
				}
			}
		case 1, 2, 3, 4:
			b.Delete(k)
			delete(w.rows, string(k))
		default:
			v := bytes.Repeat([]byte{byte(w.rng.IntN(256))}, w.rng.IntN(200))
			b.Put(k, v)
			w.rows[string(k)] = string(v)
		}
	}
	v, _ := w.e.Begin(engine.ViewOptions{})
	defer v.Close()
	if _, err := v.Commit(&b); err != nil {
		w.t.Fatal(err)
	}
}

// pick returns some reader and what it must show.
func (w *world) pick() (engine.Reader, map[string]string) {
	if n := len(w.snaps); n > 0 && w.rng.IntN(3) > 0 {
		s := w.snaps[w.rng.IntN(n)]
		return s.snap, s.rows
	}
	return w.e, w.rows
}

func (w *world) read() {
	r, rows := w.pick()
	keys := [][]byte{w.key(), w.key(), w.key()}
	r.GetMany(keys, func(i int, value []byte, found bool) error {
		want, ok := rows[string(keys[i])]
		if found != ok || string(value) != want {
			w.t.Errorf("key % x: %q, %v, want %q, %v", keys[i], value, found, want, ok)
		}
		v, found, _ := r.Get(keys[i], []byte("behind"))
		if found != ok || string(v) != "behind"+want {
			w.t.Errorf("key % x: %q, %v, want %q, %v", keys[i], v, found, want, ok)
		}
		return nil
	})
}

// walk opens an iterator; it is used up bit by bit while commits go on.
func (w *world) walk() {
	if len(w.iters) > 4 {
		i := w.rng.IntN(len(w.iters)) // not used up
		w.iters[i].it.Close()
		w.iters = slices.Delete(w.iters, i, i+1)
	}
	r, rows := w.pick()
	if r != engine.Reader(w.e) && w.rng.IntN(2) == 0 {
		return
	}
	lo, hi, reverse := w.key(), w.key(), w.rng.IntN(2) == 0
	if w.rng.IntN(4) == 0 {
		hi = nil
	}
	var keys []string
	for k := range rows {
		if k >= string(lo) && (hi == nil || k < string(hi)) {
			keys = append(keys, k)
		}
	}
	slices.Sort(keys)
	if reverse {
		slices.Reverse(keys)
	}
	walk := walking{r.Iter(lo, hi, reverse), keys, maps.Clone(rows)}
	clear(lo) // the iterator has its own
	if _, own := r.(*Engine); own {
		w.iters = append(w.iters, walk)
		return
	}
	for w.advance(&walk) { // on a snapshot, which may be closed next
	}
}

func (w *world) step() {
	for i := len(w.iters) - 1; i >= 0; i-- {
		for range w.rng.IntN(100) {
			if !w.advance(&w.iters[i]) {
				w.iters = slices.Delete(w.iters, i, i+1)
				break
			}
		}
	}
}

func (w *world) advance(i *walking) bool {
	if !i.it.Next() {
		if len(i.left) > 0 {
			w.t.Errorf("the iterator ends before % x", i.left[0])
		}
		if i.it.Next() {
			w.t.Error("the iterator goes on behind its end")
		}
		if err := i.it.Close(); err != nil {
			w.t.Error(err)
		}
		return false
	}
	if len(i.left) == 0 || string(i.it.Key()) != i.left[0] || string(i.it.Value()) != i.rows[i.left[0]] {
		w.t.Errorf("the iterator shows % x = % x, left are %d", i.it.Key(), i.it.Value(), len(i.left))
		return false
	}
	i.left = i.left[1:]
	return true
}

// Writers give all rows of a group the same value, and change which rows there
// are by pairs. Every snapshot and iterator shows one state, the same one for
// as long as it is open, whoever commits and closes meanwhile.
func TestConcurrentSnapshots(t *testing.T) {
	t.Parallel()
	e := New()
	const groups, members = 4, 100
	key := func(g, m int) []byte { return fmt.Appendf(nil, "%c%c%d", 'a'+m%3, 'a'+g, m) }
	rng := seeded(t)
	n := rounds(400)
	var wait sync.WaitGroup
	actor := func(run func(rng *rand.Rand)) {
		wait.Add(1)
		rng := rand.New(rand.NewPCG(rng.Uint64(), 0))
		go func() { defer wait.Done(); run(rng) }()
	}
	for g := range groups {
		actor(func(rng *rand.Rand) {
			for i := range n {
				commit(t, e, func(b *engine.Batch) {
					if rng.IntN(10) == 0 {
						b.DeleteRange([]byte{'b', byte('a' + g)}, []byte{'b', byte('a' + g), 0xff})
					}
					for m := range members {
						if m >= members/2 && rng.IntN(3) == 0 { // its twin goes with it
							b.Delete(key(g, m))
							b.Delete(key(g, m-members/2))
						} else if m >= members/2 {
							b.Put(key(g, m), fmt.Appendf(nil, "%d.%d", g, i))
							b.Put(key(g, m-members/2), fmt.Appendf(nil, "%d.%d", g, i))
						}
					}
					b.Add([]byte("sum"), 1)
				})
			}
		})
	}
	show := func(r engine.Reader, reverse bool) (text string, bad bool) {
		var all []string
		values := make(map[byte]string)
		count := make(map[byte]int)
		it := r.Iter(nil, nil, reverse)
		for it.Next() {
			g := it.Key()[1]
			if v, ok := values[g]; ok && v != string(it.Value()) {
				bad = true
			}
			values[g] = string(it.Value())
			count[g]++
			all = append(all, string(it.Key())+"="+string(it.Value()))
		}
		it.Close()
		for _, c := range count {
			bad = bad || c%2 != 0
		}
		if reverse {
			slices.Reverse(all)
		}
		return fmt.Sprint(all), bad
	}
	for range 3 {
		actor(func(rng *rand.Rand) {
			for range n / 4 {
				if rng.IntN(3) == 0 {
					if text, bad := show(e, rng.IntN(2) == 0); bad {
						t.Errorf("an iterator shows half a commit: %s", text)
						return
					}
					continue
				}
				snap, _ := e.Snapshot()
				first, bad := show(snap, false)
				second, _ := show(snap, true)
				if bad || first != second {
					t.Errorf("a snapshot shows half a commit or changes:\n%s\n%s", first, second)
				}
				for range 20 {
					g, m := rng.IntN(groups), rng.IntN(members/2)
					x, _, _ := snap.Get(key(g, m), nil)
					y, _, _ := snap.Get(key(g, m+members/2), nil)
					if !bytes.Equal(x, y) {
						t.Errorf("twins differ: %s, %s", x, y)
					}
				}
				snap.Close()
			}
		})
	}
	wait.Wait()
	check(t, e)
	if sum, _ := e.Counter([]byte("sum")); sum != int64(groups*n) {
		t.Errorf("counter %d, want %d", sum, groups*n)
	}
}
