package zset

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"redoubt/engine"
	"redoubt/internal/race"
	"redoubt/internal/typestest"
	"redoubt/keyspace"
	"redoubt/types"
)

// FuzzScore: the order of encoded scores is the order of the numbers, and each is
// read back.
func FuzzScore(f *testing.F) {
	for _, x := range []float64{0, math.Copysign(0, -1), 1, -1, math.Inf(1), math.Inf(-1), math.MaxFloat64, math.SmallestNonzeroFloat64} {
		f.Add(math.Float64bits(x), math.Float64bits(-x/2))
	}
	f.Fuzz(func(t *testing.T, a, b uint64) {
		x, y := math.Float64frombits(a), math.Float64frombits(b)
		if math.IsNaN(x) || math.IsNaN(y) {
			return
		}
		if decode(encode(x)) != x {
			t.Fatalf("%v is read back as %v", x, decode(encode(x)))
		}
		if (x < y) != (encode(x) < encode(y)) || (x == y) != (encode(x) == encode(y)) {
			t.Fatalf("%v and %v are ordered otherwise than %x and %x", x, y, encode(x), encode(y))
		}
	})
}

// FuzzPacked reads a body that is not one: nothing may panic, and an element that
// is too short is reported.
func FuzzPacked(f *testing.F) {
	f.Add([]byte{}, []byte("m"))
	f.Add([]byte("\x00\x01\x09\x80\x00\x00\x00\x00\x00\x00\x00m"), []byte("m"))
	f.Add([]byte("\x00\x02\x03abc\x09\x80\x00\x00\x00\x00\x00\x00\x00m"), []byte("m"))
	f.Add([]byte("\x00\x01\xff\xff"), []byte(""))
	f.Fuzz(func(t *testing.T, body, member []byte) {
		s := typestest.New(t)
		err := s.Try(func(tx *keyspace.Tx) {
			z, err := Of(tx, []byte("k"), keyspace.Meta{Type: keyspace.ZSet, Encoding: keyspace.Packed, Body: body})
			if err != nil {
				tx.Fail(err)
				return
			}
			z.limits = &unlimited
			z.Rank(member, true)
			z.Count(ByScore(Bound{1, false}, Bound{2, true}))
			z.Each(func([]byte, float64) bool { return true })
			z.RangeByRank(1, 3, true, func([]byte, float64) bool { return true })
			z.Add(member, 1)
			z.Remove(member)
			z.RemoveRanks(0, 0)
		})
		if err != nil && !errors.Is(err, engine.ErrCorrupt) {
			t.Fatal(err)
		}
	})
}

// TestCorruptRows: rows that are not as they should be are an error, not a panic.
func TestCorruptRows(t *testing.T) {
	smallRanks(t, 8, 4)
	member := []byte("m7")
	for name, spoil := range map[string]func(r *rows){
		"member row":       func(r *rows) { r.m.Put(member, []byte("short")) },
		"a segment":        func(r *rows) { r.m.Tx.PutRow(r.rankKey(levelSegment, nil), []byte("x")) },
		"a group":          func(r *rows) { r.m.Tx.PutRow(r.rankKey(levelGroup, nil), []byte("x")) },
		"no first segment": func(r *rows) { r.deleteRank(levelSegment, nil) },
		"a score row": func(r *rows) {
			r.m.Tx.PutRow(append(keyspace.AppendRowKey(nil, r.m.Ref, keyspace.ScoreRow), 0), nil)
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := typestest.New(t)
			change(s, "k", &never, func(z *ZSet) {
				for i := range 200 {
					z.Add(fmt.Appendf(nil, "m%d", i), float64(i))
				}
			})
			change(s, "k", &never, func(z *ZSet) { spoil(&z.rows) })
			err := s.Try(func(tx *keyspace.Tx) {
				z, err := Open(tx, []byte("k"), &never)
				if err != nil {
					tx.Fail(err)
					return
				}
				z.Rank(member, false)
				z.Add([]byte("m7"), -1)
				z.Add([]byte("new"), -5)
				z.Each(func([]byte, float64) bool { return true })
				z.Pop(1, false, func([]byte, float64) {})
				z.Save()
			})
			if !errors.Is(err, engine.ErrCorrupt) {
				t.Fatalf("got %v", err)
			}
		})
	}
}

// TestRandomFair draws members of both forms: each is drawn as often as the others.
func TestRandomFair(t *testing.T) {
	const members, draws = 50, 50_000
	for form, limits := range map[string]*types.Limits{"packed": &unlimited, "rows": &never} {
		s := typestest.New(t)
		change(s, "z", limits, func(z *ZSet) {
			for i := range members {
				z.Add([]byte{byte(i)}, float64(i%7))
			}
		})
		rng := rand.New(rand.NewPCG(7, 8))
		var picked, sampled [members]float64
		read(s, func(z *ZSet) {
			for range draws {
				member, score, ok := z.Pick(rng)
				if !ok || score != float64(member[0]%7) {
					t.Fatalf("%s: %q with %v", form, member, score)
				}
				picked[member[0]]++
			}
			for range draws / 5 {
				var seen []byte
				z.Sample(5, rng, func(member []byte, _ float64) {
					if bytes.IndexByte(seen, member[0]) >= 0 {
						t.Fatalf("%s: %q twice", form, member)
					}
					seen = append(seen, member[0])
					sampled[member[0]]++
				})
			}
		})
		for what, counts := range map[string][members]float64{"picked": picked, "sampled": sampled} {
			chi := 0.0
			for _, n := range counts {
				chi += (n - draws/members) * (n - draws/members) / (draws / members)
			}
			if chi > 100 { // 49 degrees of freedom: one in 20,000
				t.Errorf("%s, %s: chi-square is %.1f", form, what, chi)
			}
		}
	}
}

// TestAllocs counts allocations of what commands do all the time.
func TestAllocs(t *testing.T) {
	if race.Enabled {
		t.Skip("the race detector allocates")
	}
	s := typestest.New(t)
	change(s, "z", &types.DefaultLimits, func(z *ZSet) {
		for i := range 50 {
			z.Add(fmt.Appendf(nil, "member%d", i), float64(i))
		}
	})
	key, member := []byte("z"), []byte("member25")
	s.Do(func(tx *keyspace.Tx) {
		score := 0.0
		if n := testing.AllocsPerRun(100, func() {
			z, err := Open(tx, key, &types.DefaultLimits)
			if err != nil {
				t.Error(err)
				return
			}
			score++
			z.Add(member, score)
			z.Save()
			z.Release()
			tx.Release(0)
		}); n > 2 {
			t.Errorf("changing a score in a small set allocates %v times", n)
		}
		if n := testing.AllocsPerRun(100, func() {
			z, err := Read(tx, key)
			if err != nil {
				t.Error(err)
				return
			}
			z.Score(member)
			z.Rank(member, false)
			z.Release()
			tx.Release(0)
		}); n > 0 {
			t.Errorf("reading a score and a rank allocates %v times", n)
		}
	})
}
