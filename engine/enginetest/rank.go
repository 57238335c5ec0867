package enginetest

import (
	"bytes"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"redoubt/engine"
)

// Edge, Count and Nth return what a walk would find, on views and on snapshots.

// readers returns a view, a view through a batch, and a snapshot, which all show rows.
func (st *store) readers(rows map[string]string) map[string]Ranked {
	st.t.Helper()
	v := st.view()
	st.t.Cleanup(v.Close)
	s, err := st.Snapshot()
	if err != nil {
		st.t.Fatalf("Snapshot: %v", err)
	}
	st.t.Cleanup(func() {
		if err := s.Close(); err != nil {
			st.t.Errorf("Close: %v", err)
		}
	})
	var own engine.Batch
	for key, value := range rows { // the rows of the store
		if len(key)%2 == 0 {
			own.Put([]byte(key), []byte(value))
		}
	}
	return map[string]Ranked{
		"view": v, "snapshot": s, "frozen view": engine.FrozenView{Snapshot: s},
		"transaction": &engine.Txn{View: v, Batch: &own},
	}
}

// Ranked is a reader that counts rows and finds them by number: an engine.Reader, or an
// engine.Txn.
type Ranked interface {
	Iter(lo, hi []byte, reverse bool) engine.Iterator
	Edge(lo, hi []byte, reverse bool, b []byte) (row []byte, key int, found bool, err error)
	Count(lo, hi []byte) (n int, ok bool)
	Nth(lo, hi []byte, n int, b []byte) (key []byte, found, ok bool)
}

// scattered puts rows into a store and deletes some of them again, in several commits. It returns
// the rows that are left, and their keys in order. The keys of one group have a long common prefix,
// as those of one large value.
func (st *store) scattered(rng *rand.Rand) (rows map[string]string, keys []string) {
	rows = make(map[string]string)
	for range 4 {
		var b engine.Batch
		for range 100 {
			key := fmt.Sprintf("%02d-group-of-rows-%04d", rng.IntN(3), rng.IntN(400))
			if rng.IntN(3) == 0 {
				b.Delete([]byte(key))
				delete(rows, key)
			} else {
				rows[key] = fmt.Sprint("value ", rng.IntN(1000))
				b.Put([]byte(key), []byte(rows[key]))
			}
		}
		st.commit(&b)
	}
	for key := range rows {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	return rows, keys
}

// bounds returns a range that is not empty. Its ends are keys of rows, or between them.
func bounds(rng *rand.Rand) (lo, hi []byte) {
	for {
		g := rng.IntN(3)
		lo = fmt.Appendf(nil, "%02d-group-of-rows-%04d", g, rng.IntN(400))
		hi = fmt.Appendf(nil, "%02d-group-of-rows-%04d", g+rng.IntN(4)/3, rng.IntN(400))
		switch rng.IntN(4) {
		case 0:
			lo = lo[:3]
		case 1:
			hi = append(hi[:2], '.') // behind the group
		case 2:
			lo = append(lo, 0) // right behind a row
		}
		if bytes.Compare(lo, hi) < 0 {
			return lo, hi
		}
	}
}

// within returns the keys of a range.
func within(keys []string, lo, hi []byte) []string {
	from, _ := slices.BinarySearch(keys, string(lo))
	to, _ := slices.BinarySearch(keys, string(hi))
	return keys[from:to]
}

// Edge shows the first row of a range, or the last one.
func testEdge(t *testing.T, s *suite) {
	rng := rand.New(rand.NewPCG(Seed(t), 3))
	st := s.begin(t)
	rows, keys := st.scattered(rng)
	s.cycle(st)
	for name, r := range st.readers(rows) {
		for range 200 {
			lo, hi := bounds(rng)
			checkEdge(t, rng, name, r, rows, within(keys, lo, hi), lo, hi)
		}
	}
}

func checkEdge(t testing.TB, rng *rand.Rand, name string, r Ranked, rows map[string]string, list []string, lo, hi []byte) {
	t.Helper()
	reverse := rng.IntN(2) == 0
	want, n := "", 0
	if len(list) > 0 {
		first := list[0]
		if reverse {
			first = list[len(list)-1]
		}
		want, n = first+rows[first], len(first)
	}
	before := string(lo) + "|" + string(hi)
	row, key, found, err := r.Edge(lo, hi, reverse, []byte("x"))
	if err != nil || string(row) != "x"+want || key != n || found != (n > 0) {
		t.Fatalf("%s: Edge(%q, %q, %v) = %q %d %v %v, want %q", name, lo, hi, reverse, row, key, found, err, want)
	}
	if string(lo)+"|"+string(hi) != before {
		t.Fatalf("%s: Edge changes its bounds", name)
	}
}

// Count and Nth are right if they answer, and agree with each other.
func testCount(t *testing.T, s *suite) {
	rng := rand.New(rand.NewPCG(Seed(t), 3))
	st := s.begin(t)
	rows, keys := st.scattered(rng)
	for name, r := range st.readers(rows) {
		for range 200 {
			lo, hi := bounds(rng)
			checkCount(t, rng, name, r, within(keys, lo, hi), lo, hi, s.counts && name == "view" && bytes.Equal(lo[:2], hi[:2]))
		}
	}
}

// checkCount compares Count of a range with the rows. If must is set, the reader must return ok.
func checkCount(t testing.TB, rng *rand.Rand, name string, r Ranked, list []string, lo, hi []byte, must bool) {
	t.Helper()
	n, ok := r.Count(lo, hi)
	if ok && n != len(list) {
		t.Fatalf("%s: Count(%q, %q) = %d, want %d", name, lo, hi, n, len(list))
	}
	if must && !ok {
		t.Fatalf("%s: Count(%q, %q) does not know", name, lo, hi)
	}
	i := rng.IntN(len(list) + 2)
	key, found, known := r.Nth(lo, hi, i, []byte("x"))
	switch {
	case must && !known:
		t.Fatalf("%s: Nth(%q, %q, %d) does not know", name, lo, hi, i)
	case !known:
	case found != (i < len(list)), found && string(key) != "x"+list[i], !found && string(key) != "x":
		t.Fatalf("%s: Nth(%q, %q, %d) = %q %v of %d rows", name, lo, hi, i, key, found, len(list))
	}
}

// CheckRanked compares Edge, Count and Nth of a reader with its rows, in random ranges whose ends
// are keys of among, or right behind one. If answers is set, Count and Nth must return ok.
func CheckRanked(t testing.TB, rng *rand.Rand, name string, r Ranked, rows map[string]string, among [][]byte, answers bool) {
	t.Helper()
	keys := slices.Sorted(maps.Keys(rows))
	for range 200 {
		lo, hi := bytes.Clone(among[rng.IntN(len(among))]), bytes.Clone(among[rng.IntN(len(among))])
		if rng.IntN(4) == 0 {
			lo = append(lo, 0)
		}
		if bytes.Compare(lo, hi) >= 0 {
			continue
		}
		list := within(keys, lo, hi)
		checkEdge(t, rng, name, r, rows, list, lo, hi)
		checkCount(t, rng, name, r, list, lo, hi, answers)
	}
}
