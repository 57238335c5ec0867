package zset

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"redoubt/internal/typestest"
	"redoubt/keyspace"
	"redoubt/types"
)

// model is a sorted set as plain Go has it.
type model struct {
	scores map[string]float64
}

func (m *model) elems() [][]byte {
	var list [][]byte
	for member, score := range m.scores {
		list = append(list, appendElem(nil, encode(score), []byte(member)))
	}
	slices.SortFunc(list, bytes.Compare)
	return list
}

// pair is a set in both forms, with the model. The packed one has no limits.
type pair struct {
	t     *testing.T
	rng   *rand.Rand
	store *typestest.Store
	model model
	// Where the sets are, and with which limits.
	keys   []string
	limits []*types.Limits
}

var (
	unlimited = types.Limits{ZSetEntries: 1 << 20, ZSetValue: 1 << 20}
	never     = types.Limits{}
	redisLike = types.Limits{ZSetEntries: 16, ZSetValue: 6}
)

// each runs an operation on every form and compares what it returns.
func (p *pair) each(what string, f func(z *ZSet) any) {
	p.t.Helper()
	var first any
	for i, key := range p.keys {
		var got any
		change(p.store, key, p.limits[i], func(z *ZSet) { got = f(z) })
		if i == 0 {
			first = got
		} else if fmt.Sprint(first) != fmt.Sprint(got) {
			p.t.Fatalf("%s: %s says %v, %s says %v", what, p.keys[0], first, key, got)
		}
	}
}

func (p *pair) verify() {
	p.t.Helper()
	want := p.model.elems()
	for _, key := range p.keys {
		p.store.Do(func(tx *keyspace.Tx) {
			if err := verify(tx, key, want); err != nil {
				p.t.Fatalf("%s: %v", key, err)
			}
		})
	}
}

func (p *pair) member() []byte { return []byte(fmt.Sprintf("m%d", p.rng.IntN(150))) }

func (p *pair) score() float64 { return float64(p.rng.IntN(40)-20) / 4 }

func (p *pair) span() Span {
	switch p.rng.IntN(4) {
	case 0:
		return Whole
	case 1:
		return Span{lo: appendElem(nil, encode(p.score()), p.member())}
	}
	return ByScore(Bound{p.score(), p.rng.IntN(2) == 0}, Bound{p.score(), p.rng.IntN(2) == 0})
}

// within are the elements of the model in a span.
func (p *pair) within(s Span) [][]byte {
	return slices.DeleteFunc(p.model.elems(), func(e []byte) bool {
		return bytes.Compare(e, s.lo) < 0 || s.hi != nil && bytes.Compare(e, s.hi) >= 0
	})
}

func (p *pair) expect(what string, got, want any) {
	p.t.Helper()
	if fmt.Sprintf("%q", got) != fmt.Sprintf("%q", want) {
		p.t.Fatalf("%s: got %q, want %q", what, got, want)
	}
}

func (p *pair) drop(elems [][]byte) {
	for _, e := range elems {
		delete(p.model.scores, string(e[scoreSize:]))
	}
}

// gather collects what a walk visits.
func gather(list *[][]byte) func(member []byte, score float64) bool {
	return func(member []byte, score float64) bool {
		*list = append(*list, appendElem(nil, encode(score), member))
		return true
	}
}

func (p *pair) step() {
	rng := p.rng
	elems := p.model.elems()
	size := int64(len(elems))
	member, score := p.member(), p.score()
	old, there := p.model.scores[string(member)]
	switch op := rng.IntN(20); {
	case op < 6:
		p.each("add", func(z *ZSet) any {
			added, changed := z.Add(member, score)
			p.expect("add", []bool{added, changed}, []bool{!there, !there || old != score})
			return nil
		})
		p.model.scores[string(member)] = score
	case op < 8:
		p.each("remove", func(z *ZSet) any {
			p.expect("remove", z.Remove(member), there)
			return nil
		})
		delete(p.model.scores, string(member))
	case op < 9: // many at once
		list := make([][]byte, 1+rng.IntN(40))
		scores := make([]float64, len(list))
		base := p.score()
		for i := range list {
			list[i], scores[i] = p.member(), base
			if rng.IntN(4) == 0 {
				scores[i] = p.score()
			}
			p.model.scores[string(list[i])] = scores[i]
		}
		p.each("add many", func(z *ZSet) any {
			for i := range list {
				z.Add(list[i], scores[i])
			}
			return z.Len()
		})
	case op < 11: // pop
		n, last := min(size, 1+rng.Int64N(30)), rng.IntN(3) == 0
		want := elems[:n]
		if last {
			want = slices.Clone(elems[size-n:])
			slices.Reverse(want)
		}
		p.each("pop", func(z *ZSet) any {
			var got [][]byte
			z.Pop(n, last, func(member []byte, score float64) { gather(&got)(member, score) })
			p.expect("pop", got, want)
			return nil
		})
		p.drop(want)
	case op < 12:
		s := p.span()
		if rng.IntN(3) > 0 {
			s.hi = append(bytes.Clone(s.lo), 255, 255) // a short one
		}
		want := p.within(s)
		p.each("remove span", func(z *ZSet) any {
			p.expect("remove span", z.RemoveSpan(s), int64(len(want)))
			return nil
		})
		p.drop(want)
	case op < 13 && size > 0:
		from := rng.Int64N(size)
		to := min(size-1, from+rng.Int64N(20))
		p.each("remove ranks", func(z *ZSet) any {
			p.expect("remove ranks", z.RemoveRanks(from, to), to-from+1)
			return nil
		})
		p.drop(elems[from : to+1])
	case op < 15:
		s, reverse, skip := p.span(), rng.IntN(2) == 0, rng.Int64N(20)
		want := p.within(s)
		p.each("walk", func(z *ZSet) any {
			p.expect("count", z.Count(s), int64(len(want)))
			var got [][]byte
			z.WalkFrom(s, reverse, skip, gather(&got))
			list := slices.Clone(want)
			if reverse {
				slices.Reverse(list)
			}
			p.expect("walk", got, list[min(len(list), int(skip)):])
			return nil
		})
	case op < 17 && size > 0:
		from, reverse := rng.Int64N(size), rng.IntN(2) == 0
		to := min(size-1, from+rng.Int64N(50))
		list := slices.Clone(elems)
		if reverse {
			slices.Reverse(list)
		}
		p.each("range by rank", func(z *ZSet) any {
			var got [][]byte
			z.RangeByRank(from, to, reverse, gather(&got))
			p.expect("range by rank", got, list[from:to+1])
			return nil
		})
	default:
		want := int64(slices.IndexFunc(elems, func(e []byte) bool { return string(e[scoreSize:]) == string(member) }))
		p.each("rank", func(z *ZSet) any {
			rank, s, ok := z.Rank(member, false)
			back, _, _ := z.Rank(member, true)
			p.expect("rank", ok, there)
			if ok {
				p.expect("rank", []any{rank, s, back}, []any{want, old, size - 1 - want})
			}
			return nil
		})
	}
}

// TestForms drives both forms, and one that unfolds on its way, with the same
// operations, and compares them with the model and with each other. Segments are
// so small that splits and joins of both levels happen all the time.
func TestForms(t *testing.T) {
	for _, sizes := range []struct {
		segment int64
		group   uint32
	}{{2, 8}, {4, 4}, {4, 16}, {8, 4}, {512, 256}} {
		t.Run(fmt.Sprint(sizes), func(t *testing.T) {
			smallRanks(t, sizes.segment, sizes.group)
			seed := uint64(time.Now().UnixNano())
			t.Log("seed", seed)
			p := &pair{
				t: t, rng: rand.New(rand.NewPCG(seed, 1)), store: typestest.New(t),
				model: model{make(map[string]float64)},
				keys:  []string{"packed", "rows", "unfolding"}, limits: []*types.Limits{&unlimited, &never, &redisLike},
			}
			for range 2500 {
				p.step()
				p.verify()
			}
		})
	}
}

// TestRankQueue fills a set at its end and empties it from its front, and the
// other way round, as queues do.
func TestRankQueue(t *testing.T) {
	smallRanks(t, 8, 4)
	for _, last := range []bool{false, true} {
		s := typestest.New(t)
		m := model{make(map[string]float64)}
		step := func(from, to, pops int64) {
			for i := from; i < to; i++ {
				score := float64(i)
				if last {
					score = -score
				}
				member := fmt.Sprintf("job%d", i)
				change(s, "q", &never, func(z *ZSet) { z.Add([]byte(member), score) })
				m.scores[member] = score
			}
			for range pops {
				change(s, "q", &never, func(z *ZSet) {
					z.Pop(1, last, func(member []byte, _ float64) { delete(m.scores, string(member)) })
				})
				s.Do(func(tx *keyspace.Tx) {
					if err := verify(tx, "q", m.elems()); err != nil {
						t.Fatal(err)
					}
				})
			}
		}
		step(0, 300, 150)
		step(300, 400, 249)
		step(400, 500, 101)
		if len(m.scores) != 0 {
			t.Fatalf("%d are left", len(m.scores))
		}
	}
}

// TestCreate replaces what is there, in both forms, and with nothing.
func TestCreate(t *testing.T) {
	smallRanks(t, 8, 4)
	s := typestest.New(t)
	for _, n := range []int{5, 500, 3, 0, 77} {
		m := model{make(map[string]float64)}
		s.Do(func(tx *keyspace.Tx) {
			z := Create(tx, []byte("k"), &redisLike)
			for i := range n {
				member := fmt.Sprintf("m%d", i*7919%1000)
				m.scores[member] = float64(i % 10)
				z.Add([]byte(member), 3) // twice, with another score
				z.Add([]byte(member), m.scores[member])
			}
			z.Save()
		})
		s.Do(func(tx *keyspace.Tx) {
			if err := verify(tx, "k", m.elems()); err != nil {
				t.Fatalf("%d elements: %v", n, err)
			}
		})
	}
}
