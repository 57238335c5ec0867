package copier

import (
	"fmt"
	"log/slog"
	"maps"
	"path/filepath"
	"strings"
	"testing"

	"redoubt/engine"
	"redoubt/engine/local"
	"redoubt/internal/typestest"
	"redoubt/journal"
	"redoubt/keyspace"
	"redoubt/types"
	"redoubt/types/check"
	"redoubt/types/hash"
	"redoubt/types/list"
	"redoubt/types/set"
	"redoubt/types/str"
	"redoubt/types/stream"
	"redoubt/types/zset"
)

const someTime = typestest.SomeTime

// small are limits that a few elements exceed.
var small = &types.Limits{
	HashEntries: 2, HashValue: 8, SetIntegers: 2, SetEntries: 3, SetValue: 8, ZSetEntries: 2, ZSetValue: 8,
	ListSize: 3, StreamNodeEntries: 2, StreamNodeBytes: 4096,
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func newLocal(t testing.TB) *local.Engine {
	t.Helper()
	eng, err := local.Open(local.Options{
		Dir: filepath.Join(t.TempDir(), "local"), Memory: 16 << 20, SegmentBytes: 256 << 10,
		Fsync: journal.No, Unit: keyspace.Unit, Logger: slog.New(slog.DiscardHandler),
	})
	must(t, err)
	t.Cleanup(func() { must(t, eng.Close()) })
	return eng
}

// fill makes values of every type, in their small and their large form, some of them
// with times of death, in several databases, one of them flushed.
func fill(t testing.TB, eng engine.Engine, rounds int) {
	t.Helper()
	f := typestest.On(t, eng, 4)
	for i := range rounds {
		key := func(name string) []byte { return fmt.Appendf(nil, "%s:%d", name, i) }
		f.DoIn(i%3, func(tx *keyspace.Tx) {
			str.Set(tx, key("string"), keyspace.Meta{}, fmt.Append(nil, "value ", i), int64(i%2)*(someTime+1000))
			if i%16 == 0 {
				str.Set(tx, key("big"), keyspace.Meta{}, []byte(strings.Repeat("0123456789", 7000)), 0)
				long := strings.Repeat("long", 3000)
				str.Set(tx, key(long), keyspace.Meta{}, []byte("value"), someTime+1000)
				z := zset.Create(tx, key("long"), small)
				for j := range 9 {
					z.Add(fmt.Append(nil, long, j), 1)
				}
				z.Save()
			}
			for _, n := range []int{2, 9} {
				h, err := hash.Open(tx, key(fmt.Sprint("hash", n)), small)
				tx.Fail(err)
				s, err := set.Open(tx, key(fmt.Sprint("set", n)), small)
				tx.Fail(err)
				z := zset.Create(tx, key(fmt.Sprint("zset", n)), small)
				l, err := list.Open(tx, key(fmt.Sprint("list", n)), small)
				tx.Fail(err)
				for j := range n {
					m := fmt.Append(nil, "m", j)
					h.Set(m, m, int64(j%2)*(someTime+5000))
					s.Add(m)
					z.Add(m, float64(j))
					l.Push(false, m)
				}
				h.Save()
				s.Save()
				z.Save()
				l.Save()
			}
			x, err := stream.Open(tx, key("stream"), small)
			tx.Fail(err)
			for seq := range uint64(4) {
				tx.Fail(x.Add(stream.ID{Ms: 1, Seq: seq + 1}, [][]byte{[]byte("f"), []byte("v")}))
			}
			g := x.CreateGroup([]byte("g"), stream.ID{}, 0)
			g.Read(g.AddConsumer([]byte("c")), 3, false, func(stream.ID, stream.Entry) {})
			g.Save()
			x.Save()
		})
	}
	f.DoIn(0, func(tx *keyspace.Tx) { tx.PutLibrary("lib", "#!lua name=lib\n") })
	f.DoIn(3, func(tx *keyspace.Tx) {
		z := zset.Create(tx, []byte("many"), small)
		for i := range 2000 {
			z.Add(fmt.Append(nil, i), float64(i))
		}
		z.Save()
	})
	f.DoIn(2, func(tx *keyspace.Tx) { tx.Flush(2) })
	f.DoIn(1, func(tx *keyspace.Tx) { tx.Remove([]byte("hash9:1"), tx.Find([]byte("hash9:1"))) })
	f.DoIn(0, func(tx *keyspace.Tx) { tx.Swap(0, 1) })
}

func snapshot(t testing.TB, eng engine.Engine) engine.Snapshot {
	t.Helper()
	s, err := eng.Snapshot()
	must(t, err)
	return s
}

// content is all data and all counters of a store.
func content(t testing.TB, eng engine.Engine) map[string]string {
	t.Helper()
	s := snapshot(t, eng)
	defer s.Close()
	m := make(map[string]string)
	it := s.Iter(nil, nil, false)
	for it.Next() {
		if keyspace.Copied(it.Key()) {
			m[string(it.Key())] = string(it.Value())
		}
	}
	must(t, it.Close())
	for name, n := range counters(t, eng) {
		m["counter "+name] = fmt.Sprint(n)
	}
	return m
}

func counters(t testing.TB, eng engine.Engine) map[string]int64 {
	t.Helper()
	m := make(map[string]int64)
	for ks := range byte(32) {
		for _, what := range []byte{2, 3} {
			name := []byte{0xff, what, 0, 0, 0, ks}
			n, err := eng.Counter(name)
			must(t, err)
			if n != 0 {
				m[string(name)] = n
			}
		}
	}
	return m
}

func same(t testing.TB, got, want engine.Engine) {
	t.Helper()
	a, b := content(t, got), content(t, want)
	if len(b) < 500 {
		t.Fatalf("there are only %d rows", len(b))
	}
	if !maps.Equal(a, b) {
		t.Errorf("%d rows and counters, want %d, or they differ", len(a), len(b))
	}
}

// sound checks all rows of a store.
func sound(t testing.TB, eng engine.Engine) {
	t.Helper()
	s := snapshot(t, eng)
	defer s.Close()
	keyspace.Check(s, counters(t, eng), check.Examine, func(kind, place, what string) { t.Errorf("%s: %s: %s", kind, place, what) }, nil)
}
