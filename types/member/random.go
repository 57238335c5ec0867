package member

import (
	"encoding/binary"
	"math/rand/v2"

	"redoubt/keyspace"
)

// A member is drawn so: the range of hashes is cut into parts that hold a few
// members each; a part is drawn, and a number below a bound that hardly any part
// reaches. If the part has a member of that number it is the one, else both are
// drawn again. So each member is as likely as any other, whatever its name is and
// however the hashes of the others lie.
//
// On the way a draw comes to about as many rows as the bound says, in so many
// ranges as it is larger than what a part holds; opening a range costs as much as
// some ten rows. Parts of 8 are the cheapest then. Where the engine has to read a disk
// opening a range costs as much as a hundred rows, and parts of 32 are.
//
// A part that holds more than the bound comes up once in some ten million parts,
// or when somebody chose members by their hashes. Then the bound is raised, and
// when that does not help all members are walked over.
const (
	perPart   = 8
	bound     = 28 // perPart plus 7 standard deviations
	coldPart  = 32
	coldBound = 72 // likewise
	// maxRaised is how many times the bound is raised to at the most.
	maxRaised = 8
	// maxDraws is how often it is tried: it succeeds in a third of the cases.
	maxDraws = 64
	// pickWork is about how many rows one could walk over in the time in which
	// a member is drawn.
	pickWork = 64
)

// rowWork is what looking at a row weighs, in the terms of Tx.Heavy.
const rowWork = 64

// Pick returns a member for which live says true, each equally likely; nil live
// stands for all. The bytes stay valid until the end of the execution. It says
// false if there is none.
func (r *Rows) Pick(rng *rand.Rand, live func(value []byte) bool) (member, value []byte, ok bool) {
	if member, value, ok = r.draw(rng, live); ok {
		return member, value, true
	}
	return r.walkPick(rng, live)
}

// draw is Pick without walking. It says false also when it had no luck.
func (r *Rows) draw(rng *rand.Rand, live func(value []byte) bool) (member, value []byte, ok bool) {
	per, below := int64(perPart), bound
	if live == nil { // an engine may know of a shorter way
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

// edge is the first hash of a part; nil behind the last.
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

// Sample visits count different members for which live says true, in no order,
// or all if there are no more; each such choice is equally likely. What visit may
// do is what it may do in Each.
func (r *Rows) Sample(count int64, rng *rand.Rand, live func(value []byte) bool, visit func(member, value []byte)) {
	if !r.Sparse(count) || !r.drawSample(count, rng, live, visit) {
		r.walkSample(count, rng, live, visit)
	}
}

// Sparse says whether so many members are so few of all that they are drawn one by
// one; else the members are walked over.
func (r *Rows) Sparse(count int64) bool { return count <= r.Ref.Size/pickWork }

// drawSample says false, and has visited nobody, when it had no luck.
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

// walkSample chooses while it walks: of the rows that are left each is taken with
// the chance that makes the number come out right.
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
