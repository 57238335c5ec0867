package zset

import "math/rand/v2"

// Drawing members, and walking in pages that need no memory.

// Pick returns a member, each as likely as any other. It stays valid until the
// end of the execution. It says false if the set is empty.
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

// Sample visits count different members, or all if there are no more; each choice
// is as likely as any other.
func (z *ZSet) Sample(count int64, rng *rand.Rand, visit func(member []byte, score float64)) {
	if !z.Packed() {
		z.rows.m.Sample(count, rng, nil, func(member, value []byte) {
			if len(value) == scoreSize {
				visit(member, decode(bitsOf(value)))
			}
		})
		return
	}
	// Of those that are left each is taken with the chance that makes the number
	// come out right.
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
