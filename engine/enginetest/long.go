package enginetest

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"hash/crc32"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"redoubt/engine"
)

// Keys of rows may have any length and any common prefix. An engine that stores long keys in
// another way than short ones must behave the same for both.

// longKeys makes keys that have 1 to 5000 bytes in common with others. Some are prefixes of others.
func (s *suite) longKeys(rng *rand.Rand) [][]byte {
	fill := func(b []byte, size int) []byte {
		for len(b) < size {
			b = append(b, "\x00a\xff"[rng.IntN(3)])
		}
		return b
	}
	all := map[string]bool{}
	for range 2 {
		stem := fill([]byte{"ak"[rng.IntN(2)]}, 5000)
		for _, shared := range []int{1, 2047, 2048, 2049, 5000} {
			for _, size := range []int{shared, shared + 1, shared + 1, 2080, 3000, 3000, 9000, 9000} {
				if shared <= size {
					all[string(fill(bytes.Clone(stem[:shared]), size))] = true
				}
			}
		}
		all[string(fill(bytes.Clone(stem[:2049]), 100_000))] = true
		all[string(fill(bytes.Clone(stem[:2049]), 100_000))] = true
	}
	keys := make([][]byte, 0, len(all))
	for _, key := range slices.Sorted(maps.Keys(all)) {
		if s.longest > 0 && len(key) > s.longest {
			continue
		}
		keys = append(keys, []byte(key))
	}
	return keys
}

// brief names a key that is too long to be printed.
func brief(key []byte) string {
	if key == nil {
		return "nil"
	}
	return fmt.Sprintf("%.8q...(%d bytes, %08x)", key, len(key), crc32.ChecksumIEEE(key))
}

// long is a random test with long keys.
type long struct {
	*store
	rng  *rand.Rand
	keys [][]byte
	now  *model
}

// testLong compares the engine with the model, with long keys among others.
func testLong(t *testing.T, s *suite) {
	rng := rand.New(rand.NewPCG(Seed(t), 2))
	l := &long{s.begin(t), rng, s.longKeys(rng), &model{rows: map[string]string{}}}
	for step := range 40 {
		l.write()
		v := l.view()
		l.check(v, fmt.Sprint("step ", step))
		v.Close()
		switch l.rng.IntN(30) {
		case 0:
			s.cycle(l.store)
		case 1, 2, 3:
			if l.noMoments() {
				continue
			}
			snap, err := l.Engine.Snapshot()
			if err != nil {
				t.Fatal(err)
			}
			was := l.now.clone()
			l.write()
			now := l.now
			l.now = was
			l.check(snap, fmt.Sprintf("step %d, a snapshot", step))
			l.now = now
			if err := snap.Close(); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// write commits some changes.
func (l *long) write() {
	var b engine.Batch
	for range 1 + l.rng.IntN(12) {
		switch n := l.rng.IntN(20); {
		case n < 14:
			key, value := l.key(), bytes.Repeat([]byte{byte('0' + l.rng.IntN(10))}, l.rng.IntN(4)*l.rng.IntN(30))
			b.Put(key, value)
			l.now.rows[string(key)] = string(value)
		case n < 18:
			key := l.key()
			b.Delete(key)
			delete(l.now.rows, string(key))
		default:
			i := l.rng.IntN(len(l.keys))
			lo, hi := l.near(l.keys[i]), l.near(l.keys[min(i+l.rng.IntN(6), len(l.keys)-1)])
			b.DeleteRange(lo, hi)
			maps.DeleteFunc(l.now.rows, func(r, _ string) bool { return r >= string(lo) && r < string(hi) })
		}
	}
	l.commit(&b)
}

func (l *long) key() []byte { return l.keys[l.rng.IntN(len(l.keys))] }

// near returns a key, or another key a little before or behind it.
func (l *long) near(key []byte) []byte {
	switch l.rng.IntN(6) {
	case 0:
		return append(bytes.Clone(key), "\x00\xff"[l.rng.IntN(2)])
	case 1:
		return key[:1+l.rng.IntN(len(key))]
	}
	return bytes.Clone(key)
}

func (l *long) edge() []byte {
	if l.rng.IntN(5) == 0 {
		return nil
	}
	return l.near(l.key())
}

// check compares the rows of a reader with the model.
func (l *long) check(r engine.Reader, what string) {
	l.t.Helper()
	lo, hi, reverse := l.edge(), l.edge(), l.rng.IntN(2) == 0
	if hi != nil && l.rng.IntN(4) > 0 && bytes.Compare(lo, hi) > 0 {
		lo, hi = hi, lo
	}
	want := l.between(lo, hi, reverse)
	at := fmt.Sprintf("%s: [%s, %s), reverse %v", what, brief(lo), brief(hi), reverse)
	it, n := r.Iter(bytes.Clone(lo), bytes.Clone(hi), reverse), 0
	for ; it.Next(); n++ {
		if n >= len(want) {
			l.t.Fatalf("%s: more than %d rows: %s", at, n, brief(it.Key()))
		}
		if !bytes.Equal(it.Key(), want[n]) || string(it.Value()) != l.now.rows[string(want[n])] {
			l.t.Fatalf("%s: row %d of %d is %s=%.20q, want %s=%.20q", at, n, len(want), brief(it.Key()), it.Value(), brief(want[n]), l.now.rows[string(want[n])])
		}
	}
	if err := it.Close(); err != nil || n != len(want) {
		l.t.Fatalf("%s: %d rows, want %d; %v", at, n, len(want), err)
	}
	if hi != nil && bytes.Compare(lo, hi) < 0 {
		row, n, found, err := r.Edge(lo, hi, reverse, []byte("x"))
		switch {
		case err != nil:
			l.t.Fatalf("%s: Edge: %v", at, err)
		case found != (len(want) > 0):
			l.t.Fatalf("%s: Edge says found: %v", at, found)
		case found && string(row) != "x"+string(want[0])+l.now.rows[string(want[0])], found && n != len(want[0]):
			l.t.Fatalf("%s: the edge is %s, want %s", at, brief(row[1:]), brief(want[0]))
		}
	}
	few := [][]byte{l.key(), l.edge(), l.key(), {'z'}}
	if v, ok := r.(engine.View); ok && l.rng.IntN(2) == 0 {
		v.Prefetch(few)
	}
	same := func(key []byte, value []byte, found bool) {
		if was, ok := l.now.rows[string(key)]; found != ok || string(value) != was {
			l.t.Fatalf("%s: the row %s is %v, %.20q; want %v, %.20q", what, brief(key), found, value, ok, was)
		}
	}
	for _, key := range few {
		value, found, err := r.Get(key, nil)
		if err != nil {
			l.t.Fatalf("%s: Get %s: %v", what, brief(key), err)
		}
		same(key, value, found)
	}
	if err := r.GetMany(few, func(i int, value []byte, found bool) error {
		same(few[i], value, found)
		return nil
	}); err != nil {
		l.t.Fatalf("%s: GetMany: %v", what, err)
	}
}

// between returns the keys of the model's rows in a range.
func (l *long) between(lo, hi []byte, reverse bool) (keys [][]byte) {
	for _, key := range l.keys {
		if _, ok := l.now.rows[string(key)]; ok && bytes.Compare(key, lo) >= 0 && (hi == nil || bytes.Compare(key, hi) < 0) {
			keys = append(keys, key)
		}
	}
	if reverse {
		slices.Reverse(keys)
	}
	return keys
}

// testLongShared: versions and conflicts are of a row, however long its key is and
// whatever it shares with others.
func testLongShared(t *testing.T, s *suite) {
	one, two := s.two(t)
	keys := s.longKeys(rand.New(rand.NewPCG(Seed(t), 3)))
	slices.SortStableFunc(keys, func(a, b []byte) int { return cmp.Compare(len(a), len(b)) })
	for n := 1; n < len(keys); n += 5 {
		key, next := string(keys[n]), string(keys[n-1])
		two.put(key, "1", next, "1")
		v, w := one.sharedView(), one.sharedView()
		old, err := v.Version(keys[n])
		if err != nil || old == 0 {
			t.Fatalf("%s: version %d, %v", brief(keys[n]), old, err)
		}
		if got := one.get(w, key); got != `"1"` {
			t.Fatalf("%s is %s", brief(keys[n]), got)
		}
		two.put(next, "2")
		b, c := batch("y=1"), batch("z=1")
		b.Check(keys[n])
		c.Check(keys[n])
		if _, err := v.Commit(b); err != nil {
			t.Fatalf("a check of %s, while %s was put: %v", brief(keys[n]), brief(keys[n-1]), err)
		}
		two.put(key, "2")
		if _, err := w.Commit(c); !errors.Is(err, engine.ErrConflict) {
			t.Fatalf("a check of %s, which was put: %v", brief(keys[n]), err)
		}
		lone := two.openShared(engine.ViewOptions{PointRead: true})
		if got := two.get(lone, key); got != `"2"` {
			t.Fatalf("%s is %s", brief(keys[n]), got)
		}
		if v, err := lone.Version(keys[n]); err != nil || v == old || v == 0 {
			t.Fatalf("%s: version %d, %v; it was %d", brief(keys[n]), v, err, old)
		}
	}
}
