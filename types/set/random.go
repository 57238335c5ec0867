package set

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"strconv"

	"redoubt/keyspace"
)

// Random members. A few members of a set in rows are drawn one by one; many are chosen
// in one walk. Small sets are always walked over.

// Pick returns a random member, each equally likely; ok is false if the set is empty.
// The member stays valid until the end of the execution.
func (s *Set) Pick(rng *rand.Rand) (member []byte, ok bool) {
	if s.enc == keyspace.Rows {
		member, _, ok = s.rows.Pick(rng, nil)
		return member, ok
	}
	n := s.Len()
	if n == 0 {
		return nil, false
	}
	return s.nth(rng.Int64N(n))
}

// nth returns the i-th member of a small set.
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

// Pop removes a random member and returns it.
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

// Sample visits count different members, or all if there are no more; each choice is
// equally likely. visit must not change the set.
func (s *Set) Sample(count int64, rng *rand.Rand, visit func(member []byte)) {
	if s.enc == keyspace.Rows {
		s.rows.Sample(count, rng, nil, func(m, _ []byte) { visit(m) })
		return
	}
	c := chooser{rng, s.Len(), count}
	s.Each(func(m []byte) bool {
		if c.next() {
			visit(m)
		}
		return c.count > 0
	})
}

// chooser is selection sampling: it chooses count of the next left items.
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

// PopMany removes count random members, fewer than there are, and visits them. If most
// members are removed, the rest becomes a new set in the form that fits it, as in
// Redis.
func (s *Set) PopMany(count int64, rng *rand.Rand, visit func(member []byte)) {
	left := s.Len() - count
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

// moveRatio is the least ratio of removed to remaining members for a new set.
const moveRatio = 5

func (s *Set) popMost(left int64, rng *rand.Rand, visit func(member []byte)) {
	if s.tx.Heavy(s.Weight()) {
		return
	}
	rest := &Set{tx: s.tx, key: s.key, limits: s.limits, enc: keyspace.Integers}
	if s.enc != keyspace.Integers {
		rest.become(keyspace.Packed)
	}
	c := chooser{rng, s.Len(), left}
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
	c := chooser{rng, s.Len(), count}
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
			rest.own(16 * int(s.Len()))
			rest.form().insert(m)
		}
		return true
	})
	s.ints, s.packed, s.changed = rest.ints, rest.packed, true
}

// Draw visits count random members, with repetition, until visit returns false.
func (s *Set) Draw(count int64, rng *rand.Rand, visit func(member []byte) bool) {
	if s.enc == keyspace.Rows && s.tx.Heavy(min(count, s.Len())*rowWork) {
		return
	}
	for count > 0 && s.Len() > 0 && s.tx.Err() == nil {
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

// drawMany is the most members that are drawn in one walk over the set.
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
		list[i] = drawn{rng.Int64N(s.Len()), i}
	}
	slices.SortFunc(list, func(a, b drawn) int { return cmp.Compare(a.number, b.number) })
	var page []byte
	place := make([][2]int, count) // the range in page of each drawn member
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
