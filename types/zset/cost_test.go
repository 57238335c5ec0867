package zset

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"redoubt/engine"
	"redoubt/internal/race"
	"redoubt/internal/typestest"
	"redoubt/keyspace"
	"redoubt/types"
)

// counted is an engine that counts the rows that are read one by one and the rows
// that iterators step on.
type counted struct {
	engine.Engine
	gets, steps int
}

type countedView struct {
	engine.View
	c *counted
}

type countedIter struct {
	engine.Iterator
	c *counted
}

func (c *counted) Begin(o engine.ViewOptions) (engine.View, error) {
	v, err := c.Engine.Begin(o)
	return &countedView{v, c}, err
}

func (v *countedView) Get(key, dst []byte) ([]byte, bool, error) {
	v.c.gets++
	return v.View.Get(key, dst)
}

func (v *countedView) Iter(lo, hi []byte, reverse bool) engine.Iterator {
	return &countedIter{v.View.Iter(lo, hi, reverse), v.c}
}

func (v *countedView) Edge(lo, hi []byte, reverse bool, b []byte) ([]byte, int, bool, error) {
	return engine.EdgeByIter(v, lo, hi, reverse, b)
}

func (i *countedIter) Next() bool {
	ok := i.Iterator.Next()
	if ok {
		i.c.steps++
	}
	return ok
}

// board makes a set of n members with mixed scores, on an engine that counts.
func board(t testing.TB, n int) (*typestest.Store, *counted) {
	t.Helper()
	s := typestest.New(t)
	rng := rand.New(rand.NewPCG(1, 2))
	for from := 0; from < n; from += 50_000 {
		change(s, "z", &types.DefaultLimits, func(z *ZSet) {
			for i := from; i < min(n, from+50_000); i++ {
				z.Add(fmt.Appendf(nil, "player:%08d", i), float64(rng.IntN(1_000_000)))
			}
		})
	}
	c := &counted{Engine: s.Eng}
	s.Eng = c
	return s, c
}

// read runs f on the set without changing it.
func read(s *typestest.Store, f func(z *ZSet)) {
	s.Do(func(tx *keyspace.Tx) {
		z, err := Read(tx, []byte("z"))
		if err != nil {
			tx.Fail(err)
			return
		}
		f(z)
		z.Release()
	})
}

// TestCost counts the rows that operations on a large set read: none of them walks
// over the set.
func TestCost(t *testing.T) {
	const n = 60_000
	if race.Enabled {
		t.Skip("takes long, and counts the same")
	}
	s, c := board(t, n)
	member := []byte("player:00012345")
	// A place is found by some segments of a group, some groups, and a segment.
	place := int(segmentMax) + int(groupMax) + n/int(segmentMax)/int(groupMax)*4 + 8
	for _, x := range []struct {
		name string
		most int
		f    func(z *ZSet)
	}{
		{"rank", place, func(z *ZSet) { z.Rank(member, false) }},
		{"rank from the end", place, func(z *ZSet) { z.Rank(member, true) }},
		{"count", 2 * place, func(z *ZSet) { z.Count(ByScore(Bound{300_000, false}, Bound{700_000, true})) }},
		{"range in the middle", place + 10, func(z *ZSet) {
			z.RangeByRank(n/2, n/2+9, false, func([]byte, float64) bool { return true })
		}},
		{"range at the start", 10, func(z *ZSet) { z.RangeByRank(0, 9, false, func([]byte, float64) bool { return true }) }},
		{"range at the end", 10, func(z *ZSet) { z.RangeByRank(0, 9, true, func([]byte, float64) bool { return true }) }},
		{"the last ten, forward", 20, func(z *ZSet) { z.RangeByRank(n-10, n-1, false, func([]byte, float64) bool { return true }) }},
		{"range by score with an offset", 2*place + 10, func(z *ZSet) {
			left := 10
			z.WalkFrom(ByScore(Bound{100_000, false}, Bound{900_000, false}), false, 50_000, func([]byte, float64) bool {
				left--
				return left > 0
			})
		}},
		{"score", 0, func(z *ZSet) { z.Score(member) }},
	} {
		c.gets, c.steps = 0, 0
		read(s, x.f)
		if c.steps > x.most || c.gets > 2 {
			t.Errorf("%s: %d rows were stepped on, %d at the most were expected; and %d were read", x.name, c.steps, x.most, c.gets)
		}
		t.Logf("%s: %d rows stepped on, %d read", x.name, c.steps, c.gets)
	}
	for _, x := range []struct {
		name  string
		steps int
		f     func(z *ZSet)
	}{
		{"add", 2, func(z *ZSet) { z.Add([]byte("new"), 500_000) }},
		{"move", 6, func(z *ZSet) { z.Add(member, 123_456) }},
		{"remove", 4, func(z *ZSet) { z.Remove([]byte("new")) }},
		{"pop", 5, func(z *ZSet) { z.Pop(1, false, func([]byte, float64) {}) }},
	} {
		c.gets, c.steps = 0, 0
		change(s, "z", &types.DefaultLimits, x.f)
		if c.steps > x.steps || c.gets > 2 {
			t.Errorf("%s: %d rows were stepped on and %d read", x.name, c.steps, c.gets)
		}
		t.Logf("%s: %d rows stepped on, %d read", x.name, c.steps, c.gets)
	}
}

// BenchmarkRank shows what ZRANK costs at several sizes.
func BenchmarkRank(b *testing.B) {
	for _, n := range []int{10_000, 100_000, 1_000_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			s, c := board(b, n)
			rng := rand.New(rand.NewPCG(3, 4))
			c.steps = 0
			for b.Loop() {
				member := fmt.Appendf(nil, "player:%08d", rng.IntN(n))
				read(s, func(z *ZSet) { z.Rank(member, false) })
			}
			b.ReportMetric(float64(c.steps)/float64(b.N), "rows/op")
		})
	}
}

// BenchmarkAdd adds a new member to a set of several sizes, and takes it out.
func BenchmarkAdd(b *testing.B) {
	for _, n := range []int{100, 10_000, 1_000_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			s, _ := board(b, n)
			rng := rand.New(rand.NewPCG(3, 4))
			for b.Loop() {
				change(s, "z", &types.DefaultLimits, func(z *ZSet) { z.Add([]byte("new"), float64(rng.IntN(1_000_000))) })
			}
		})
	}
}
