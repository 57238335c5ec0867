package member

import (
	"encoding/binary"
	"math/rand/v2"

	"redoubt/keyspace"
)

// A random member is drawn by rejection sampling: the range of hashes is cut into
// parts that hold a few members each; draw a part, and a number below a bound that
// hardly any part reaches. If the part has a member of that number, return it, else
// draw both again. So all members are equally likely, whatever the distribution of
// their hashes.
//
// A draw reads about as many rows as the bound, in bound / (members per part) ranges;
// opening a range costs as much as some ten rows. Parts of 8 are the cheapest then.
// Where the engine must read a disk, opening a range costs as much as a hundred rows,
// and parts of 32 are the cheapest.
//
// One in some ten million parts holds more than the bound, unless a client chose
// members by their hashes. Then the bound is raised, and if that does not suffice, all
// members are walked over.
const (
	perPart   = 8
	bound     = 28 // perPart plus 7 standard deviations
	coldPart  = 32
	coldBound = 72 // likewise
	// maxRaised is the largest factor by which the bound is raised.
	maxRaised = 8
	// maxDraws is the most attempts of a draw; about a third of them succeed.
	maxDraws = 64
	// pickWork is about the cost of drawing a member, in rows of a walk.
	pickWork = 64
)

// rowWork is the cost of reading a row, in the unit of Tx.Heavy.
const rowWork = 64

// Pick returns a random member for which live returns true, each equally likely; nil
// live stands for all. The bytes stay valid until the end of the execution. ok is
// false if there is none.
func (r *Rows) Pick(rng *rand.Rand, live func(value []byte) bool) (member, value []byte, ok bool) {
	if member, value, ok = r.draw(rng, live); ok {
		return member, value, true
	}
	return r.walkPick(rng, live)
}

// draw is Pick without the walk. ok is also false if all attempts failed.
func (r *Rows) draw(rng *rand.Rand, live func(value []byte) bool) (member, value []byte, ok bool) {
	per, below := int64(perPart), bound
	if live == nil { // the engine may draw a row itself
		per, below = coldPart, coldBound
		if rest, ok := r.Tx.AnyKind(r.Ref, keyspace.SubRow, rng.IntN, nil); ok && len(rest) >= hashSize {
			if value, ok = r.Get(rest[hashSize:]); ok {
				return rest[hashSize:], value, true
			}
		}
	}
	parts := uint64(max(1, r.Ref.Size/per))
	limit, held := maxRaised*below, r.Tx.Held()
	for range maxDraws {
		part, number, most := rng.Uint64N(parts), rng.IntN(below), 0
		var lo, hi [hashSize]byte
		it := r.Tx.IterKind(r.Ref, keyspace.SubRow, edge(lo[:], part, parts), edge(hi[:], part+1, parts), false)
		for ; it.Next() && r.whole(it.Key()) && most <= below; most++ {
			if most == number {
				member, value = r.Tx.Own(it.Key()[keyHead:], 0), r.Tx.Own(it.Value(), 0)
				ok = live == nil || live(value)
			}
		}
		r.Tx.CloseRows(it)
		switch {
		case r.Tx.Err() != nil:
			return nil, nil, false
		case most > below:
			if below *= 2; below > limit {
				return nil, nil, false
			}
			ok = false
		case ok:
			return member, value, true
		}
		r.Tx.Release(held)
	}
	return nil, nil, false
}

// edge is the first hash of a part; nil after the last part.
func edge(b []byte, part, parts uint64) []byte {
	if part == parts {
		return nil
	}
	binary.BigEndian.PutUint32(b, uint32((part<<32+parts-1)/parts))
	return b
}

// walkPick draws a member by walking over all of them.
func (r *Rows) walkPick(rng *rand.Rand, live func(value []byte) bool) (member, value []byte, ok bool) {
	if r.Tx.Heavy(r.Ref.Size * rowWork) {
		return nil, nil, false
	}
	n := int64(0)
	r.Each(func(m, v []byte) bool {
		if live == nil || live(v) {
			if n++; rng.Int64N(n) == 0 {
				member, value, ok = append(member[:0], m...), append(value[:0], v...), true
			}
		}
		return true
	})
	return member, value, ok
}

// Sample visits count different members for which live reports true, in no order,
// or all if there are no more; each such choice is equally likely. visit may
// do what it may do in Each.
func (r *Rows) Sample(count int64, rng *rand.Rand, live func(value []byte) bool, visit func(member, value []byte)) {
	if !r.Sparse(count) || !r.drawSample(count, rng, live, visit) {
		r.walkSample(count, rng, live, visit)
	}
}

// Sparse reports whether drawing count members one by one is cheaper than a walk over
// all.
func (r *Rows) Sparse(count int64) bool { return count <= r.Ref.Size/pickWork }

// drawSample is Sample by single draws. It returns false, before any visit, if too many
// draws failed.
func (r *Rows) drawSample(count int64, rng *rand.Rand, live func(value []byte) bool, visit func(member, value []byte)) bool {
	if r.Tx.Heavy(count * pickWork * rowWork) {
		return true
	}
	type one struct{ member, value []byte }
	if !r.Tx.Take(count * 112) {
		return true
	}
	list, seen := make([]one, 0, count), make(map[string]bool, count)
	start := r.Tx.Held()
	for tries := 8*count + maxDraws; int64(len(list)) < count; tries-- {
		held := r.Tx.Held()
		m, v, ok := r.draw(rng, live)
		switch {
		case !ok || tries == 0:
			r.Tx.Release(start)
			return false
		case seen[string(m)]:
			r.Tx.Release(held)
		default:
			seen[string(m)] = true
			list = append(list, one{m, v})
		}
	}
	for _, o := range list {
		visit(o.member, o.value)
	}
	return true
}

// walkSample is selection sampling in one walk: it visits each row with the probability
// (members still wanted) / (members left).
func (r *Rows) walkSample(count int64, rng *rand.Rand, live func(value []byte) bool, visit func(member, value []byte)) {
	if count <= 0 || r.Tx.Heavy(r.Ref.Size*rowWork) {
		return
	}
	left := r.Ref.Size
	if live != nil {
		left = 0
		r.Each(func(_, v []byte) bool {
			if live(v) {
				left++
			}
			return true
		})
	}
	r.Each(func(m, v []byte) bool {
		if live != nil && !live(v) {
			return true
		}
		if left <= count || rng.Int64N(left) < count {
			count--
			visit(m, v)
		}
		left--
		return count > 0
	})
}
