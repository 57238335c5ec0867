package set

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"strconv"

	"redoubt/keyspace"
)

// Random members. Of a set in rows a few are drawn without walking over it; many
// are chosen in one walk. Small sets are walked over always.

// Pick returns a member, each equally likely, or false from an empty set. It
// stays valid until the end of the execution.
func (s *Set) Pick(rng *rand.Rand) (member []byte, ok bool) {
	if s.enc == keyspace.Rows {
		member, _, ok = s.rows.Pick(rng, nil)
		return member, ok
	}
	n := s.Size()
	if n == 0 {
		return nil, false
	}
	return s.nth(rng.Int64N(n))
}

// nth returns the member with a number from a small set.
func (s *Set) nth(i int64) (found []byte, ok bool) {
	if s.enc == keyspace.Integers {
		return strconv.AppendInt(s.tx.Own(nil, 20), s.ints.at(int(i)), 10), true
	}
	s.packed.each(func(m []byte) bool {
		if i == 0 {
			found, ok = s.tx.Own(m, 0), true
		}
		i--
		return i >= 0
	})
	return found, ok
}

// Pop takes a random member away and returns it.
func (s *Set) Pop(rng *rand.Rand) (member []byte, ok bool) {
	if member, ok = s.Pick(rng); !ok {
		return nil, false
	}
	if s.enc == keyspace.Rows {
		s.rows.delete(member)
		s.changed = true
	} else {
		s.Remove(member)
	}
	return member, true
}

// Sample visits so many different members, or all if there are no more; each
// choice is equally likely. Visit must not change the set.
func (s *Set) Sample(count int64, rng *rand.Rand, visit func(member []byte)) {
	if s.enc == keyspace.Rows {
		s.rows.Sample(count, rng, nil, func(m, _ []byte) { visit(m) })
		return
	}
	c := chooser{rng, s.Size(), count}
	s.Each(func(m []byte) bool {
		if c.next() {
			visit(m)
		}
		return c.count > 0
	})
}

// chooser takes count out of left things that it is asked about one by one.
type chooser struct {
	rng         *rand.Rand
	left, count int64
}

func (c *chooser) next() bool {
	take := c.count > 0 && (c.left <= c.count || c.rng.Int64N(c.left) < c.count)
	if c.left--; take {
		c.count--
	}
	return take
}

// PopMany takes count random members away, fewer than there are, and visits them.
// What is left of a set when much goes is a new set, in the form that fits it, as
// in Redis.
func (s *Set) PopMany(count int64, rng *rand.Rand, visit func(member []byte)) {
	left := s.Size() - count
	switch {
	case left*moveRatio <= count:
		s.popMost(left, rng, visit)
	case s.enc != keyspace.Rows || !s.rows.Sparse(count):
		s.popWalk(count, rng, visit)
	default:
		s.rows.Sample(count, rng, nil, func(m, _ []byte) {
			visit(m)
			s.rows.delete(m)
		})
		s.changed = true
	}
}

// moveRatio is how many times more members must go than stay for a new set.
const moveRatio = 5

func (s *Set) popMost(left int64, rng *rand.Rand, visit func(member []byte)) {
	if s.tx.Heavy(s.Weight()) {
		return
	}
	rest := Build(s.tx, s.key, s.limits)
	if s.enc != keyspace.Integers {
		rest.become(keyspace.Packed)
	}
	c := chooser{rng, s.Size(), left}
	s.Each(func(m []byte) bool {
		if c.next() {
			rest.insert(m)
		} else {
			visit(m)
		}
		return true
	})
	s.enc, s.ints, s.packed, s.rows, s.changed = rest.enc, rest.ints, rest.packed, rest.rows, true
}

func (s *Set) popWalk(count int64, rng *rand.Rand, visit func(member []byte)) {
	if s.tx.Heavy(s.Weight()) {
		return
	}
	c := chooser{rng, s.Size(), count}
	if s.enc == keyspace.Rows {
		s.rows.Each(func(m, _ []byte) bool {
			if c.next() {
				visit(m)
				s.rows.delete(m)
			}
			return c.count > 0
		})
		s.changed = true
		return
	}
	rest := Set{tx: s.tx, enc: s.enc, limits: s.limits}
	s.Each(func(m []byte) bool {
		if c.next() {
			visit(m)
		} else {
			rest.own(16 * int(s.Size()))
			rest.form().insert(m)
		}
		return true
	})
	s.ints, s.packed, s.changed = rest.ints, rest.packed, true
}

// Draw visits count random members; one may come more than once. It stops when
// visit says false.
func (s *Set) Draw(count int64, rng *rand.Rand, visit func(member []byte) bool) {
	if s.enc == keyspace.Rows && s.tx.Heavy(min(count, s.Size())*rowWork) {
		return
	}
	for count > 0 && s.Size() > 0 && s.tx.Err() == nil {
		if s.enc == keyspace.Rows && s.rows.Sparse(count) {
			s.drawOne(rng, &count, visit)
			continue
		}
		n := min(count, drawMany)
		if !s.drawPage(n, rng, visit) {
			return
		}
		count -= n
	}
}

func (s *Set) drawOne(rng *rand.Rand, count *int64, visit func(member []byte) bool) {
	held := s.tx.Held()
	m, ok := s.Pick(rng)
	if !ok || !visit(m) {
		*count = 0
		return
	}
	s.tx.Release(held)
	*count--
}

// drawMany is how many members are drawn by one walk over the set.
const drawMany = 1 << 16

// drawPage draws numbers, finds their members in one walk, and visits them in the
// order in which they were drawn.
func (s *Set) drawPage(count int64, rng *rand.Rand, visit func(member []byte) bool) bool {
	if s.tx.Heavy(s.Weight() + count*rowWork) {
		return false
	}
	type drawn struct {
		number int64
		order  int
	}
	if !s.tx.Take(count * 48) {
		return false
	}
	list := make([]drawn, count)
	for i := range list {
		list[i] = drawn{rng.Int64N(s.Size()), i}
	}
	slices.SortFunc(list, func(a, b drawn) int { return cmp.Compare(a.number, b.number) })
	var page []byte
	place := make([][2]int, count) // where in page each is
	next, number := 0, int64(0)
	s.Each(func(m []byte) bool {
		at := len(page)
		for ; next < len(list) && list[next].number == number; next++ {
			if len(page) == at {
				page = append(page, m...)
			}
			place[list[next].order] = [2]int{at, at + len(m)}
		}
		number++
		return next < len(list)
	})
	for _, p := range place {
		if s.tx.Err() != nil || !visit(page[p[0]:p[1]]) {
			return false
		}
	}
	return true
}
