package zset

import "math/rand/v2"

// Drawing random members, and scanning with a stateless cursor.

// Pick returns a random member, each equally likely. The member stays valid until the
// end of the execution. ok is false if the set is empty.
func (z *ZSet) Pick(rng *rand.Rand) (member []byte, score float64, ok bool) {
	if z.Packed() {
		if z.Len() == 0 {
			return nil, 0, false
		}
		elem, ok := z.packed.at(rng.Int64N(z.Len()), nil)
		if !ok {
			return nil, 0, false
		}
		return elem[scoreSize:], decode(bitsOf(elem)), true
	}
	member, value, ok := z.rows.m.Pick(rng, nil)
	if !ok || len(value) != scoreSize {
		return nil, 0, false
	}
	return member, decode(bitsOf(value)), true
}

// Sample visits count different members, or all if there are no more; each choice is
// equally likely.
func (z *ZSet) Sample(count int64, rng *rand.Rand, visit func(member []byte, score float64)) {
	if !z.Packed() {
		z.rows.m.Sample(count, rng, nil, func(member, value []byte) {
			if len(value) == scoreSize {
				visit(member, decode(bitsOf(value)))
			}
		})
		return
	}
	// Selection sampling: each element is visited with the probability (members still
	// wanted) / (members left).
	left := z.Len()
	z.packed.walk(Whole, false, func(elem []byte) bool {
		if left <= count || rng.Int64N(left) < count {
			count--
			visit(elem[scoreSize:], decode(bitsOf(elem)))
		}
		left--
		return count > 0
	})
}

// Scan visits about count members from a cursor on, and returns the next cursor, 0
// at the end. A packed set is visited at once.
func (z *ZSet) Scan(cursor uint64, count int, visit func(member []byte, score float64)) uint64 {
	if z.Packed() {
		z.Each(func(member []byte, score float64) bool {
			visit(member, score)
			return true
		})
		return 0
	}
	return z.rows.m.Scan(cursor, count, func(member, value []byte) {
		if len(value) == scoreSize {
			visit(member, decode(bitsOf(value)))
		}
	})
}
