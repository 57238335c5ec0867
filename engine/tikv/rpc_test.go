package tikv

import (
	"fmt"
	"maps"
	"testing"
	"time"

	"redoubt/engine"
)

// What each way to use a view costs, in requests. TSO is answered by PD, the rest by
// TiKV.
func TestRPCs(t *testing.T) {
	t.Parallel()
	e := mustOpen(t, options(t))
	defer e.Close()
	var many [][]byte
	var fill engine.Batch
	for i := range 100 {
		key := fmt.Appendf(nil, "k%03d", i)
		many = append(many, key)
		fill.Put(key, []byte("value"))
	}
	must(t, e, &fill)
	k1, k2, nobody := []byte("k001"), []byte("k002"), []byte("nobody")
	visit := func(int, []byte, bool) error { return nil }
	commit := func(t *testing.T, v engine.View, notes func(*engine.Batch)) {
		t.Helper()
		var b engine.Batch
		notes(&b)
		if _, err := v.Commit(&b); err != nil {
			t.Error(err)
		}
	}
	const pointRead = "one row, and no other"
	for _, c := range []struct {
		name string
		use  func(t *testing.T, v engine.SharedView)
		want map[string]int64
	}{
		{"nothing", func(*testing.T, engine.SharedView) {}, nil},
		{pointRead, func(t *testing.T, v engine.SharedView) { v.Get(k1, nil) }, map[string]int64{"Get": 1}},
		{"one row", func(t *testing.T, v engine.SharedView) { v.Get(k1, nil) }, map[string]int64{"TSO": 1, "Get": 1}},
		{"one row, and its version", func(t *testing.T, v engine.SharedView) { v.Get(k1, nil); v.Version(k1) }, map[string]int64{"TSO": 1, "Get": 1}},
		{"a row that is not there, twice", func(t *testing.T, v engine.SharedView) { v.Get(nobody, nil); v.Get(nobody, nil) }, map[string]int64{"TSO": 1, "Get": 1}},
		{"many rows", func(t *testing.T, v engine.SharedView) { v.GetMany(many, visit) }, map[string]int64{"TSO": 1, "BatchGet": 1}},
		{"many rows, fetched ahead", func(t *testing.T, v engine.SharedView) {
			v.Prefetch(append(many, nobody))
			for _, key := range many {
				v.Get(key, nil)
			}
			v.Get(nobody, nil)
			v.GetMany(many, visit)
		}, map[string]int64{"TSO": 1, "BatchGet": 1}},
		{"the first of a range", func(t *testing.T, v engine.SharedView) {
			row, n, found, err := v.Edge([]byte("k"), []byte("l"), false, nil)
			if string(row) != "k000value" || n != 4 || !found || err != nil {
				t.Errorf("%q %d %v %v", row, n, found, err)
			}
		}, map[string]int64{"TSO": 1, "Scan": 1}},
		{"the last of a range", func(t *testing.T, v engine.SharedView) {
			row, n, found, err := v.Edge([]byte("k"), []byte("l"), true, []byte("x"))
			if string(row) != "xk099value" || n != 4 || !found || err != nil {
				t.Errorf("%q %d %v %v", row, n, found, err)
			}
		}, map[string]int64{"TSO": 1, "Scan": 1}},
		{"an empty range", func(t *testing.T, v engine.SharedView) {
			if row, _, found, err := v.Edge([]byte("l"), []byte("m"), true, []byte("x")); string(row) != "x" || found || err != nil {
				t.Errorf("%q %v %v", row, found, err)
			}
		}, map[string]int64{"TSO": 1, "Scan": 1}},
		{"a few rows of a walk", func(t *testing.T, v engine.SharedView) { walk(t, v, 16) }, map[string]int64{"TSO": 1, "Scan": 1}},
		{"a walk", func(t *testing.T, v engine.SharedView) { walk(t, v, 100) }, map[string]int64{"TSO": 1, "Scan": 2}},
		{"a blind put", func(t *testing.T, v engine.SharedView) {
			commit(t, v, func(b *engine.Batch) { b.Put(k1, k1) })
		}, map[string]int64{"TSO": 1, "Prewrite": 1}},
		{"read, modify, write", func(t *testing.T, v engine.SharedView) {
			v.Get(k1, nil)
			commit(t, v, func(b *engine.Batch) { b.Put(k1, k1); b.Check(k1) })
		}, map[string]int64{"TSO": 1, "Get": 1, "Prewrite": 1}},
		{"read two, write one", func(t *testing.T, v engine.SharedView) {
			v.Prefetch([][]byte{k1, k2})
			v.Get(k1, nil)
			v.Get(k2, nil)
			commit(t, v, func(b *engine.Batch) { b.Put(k1, k1); b.Check(k2) })
		}, map[string]int64{"TSO": 1, "BatchGet": 1, "Prewrite": 1}},
		{"read, wait, write", func(t *testing.T, v engine.SharedView) {
			v.Get(k1, nil)
			v.(*view).began = time.Now().Add(-freshAge)
			commit(t, v, func(b *engine.Batch) { b.Put(k1, k1) })
		}, map[string]int64{"TSO": 2, "Get": 1, "Prewrite": 1}},
		{"many puts", func(t *testing.T, v engine.SharedView) {
			commit(t, v, func(b *engine.Batch) {
				for _, key := range many {
					b.Put(key, key)
				}
			})
		}, map[string]int64{"TSO": 1, "Prewrite": 1}},
		{"many larger puts", func(t *testing.T, v engine.SharedView) {
			commit(t, v, func(b *engine.Batch) {
				for _, key := range many {
					b.Put(key, make([]byte, 1000))
				}
			})
		}, map[string]int64{"TSO": 1, "Prewrite": 1}},
		{"an empty commit", func(t *testing.T, v engine.SharedView) { commit(t, v, func(*engine.Batch) {}) }, nil},
		{"counters alone", func(t *testing.T, v engine.SharedView) {
			commit(t, v, func(b *engine.Batch) { b.Add(k1, 1) })
		}, nil},
	} {
		var got map[string]int64
		for range 5 { // on a slow machine a view may not be fresh when it commits
			before := e.RPCs()
			v, err := e.Begin(engine.ViewOptions{PointRead: c.name == pointRead})
			if err != nil {
				t.Fatal(err)
			}
			c.use(t, v.(engine.SharedView))
			v.Close()
			got = e.RPCs()
			delete(got, backgroundKind)
			maps.DeleteFunc(got, func(kind string, n int64) bool { return n == before[kind] })
			for kind := range got {
				got[kind] -= before[kind]
			}
			if maps.Equal(got, c.want) {
				break
			}
		}
		if !maps.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
	if e.RPCs()[backgroundKind] == 0 {
		t.Error("background work is not counted")
	}
}

func must(t *testing.T, e *Engine, b *engine.Batch) {
	t.Helper()
	v, err := e.Begin(engine.ViewOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer v.Close()
	if _, err := v.Commit(b); err != nil {
		t.Fatal(err)
	}
}

func walk(t *testing.T, v engine.View, n int) {
	t.Helper()
	it := v.Iter([]byte("k"), []byte("l"), false)
	for i := range n {
		if !it.Next() || string(it.Key()) != fmt.Sprintf("k%03d", i) {
			t.Errorf("row %d is %q", i, it.Key())
		}
	}
	if err := it.Close(); err != nil {
		t.Error(err)
	}
}
