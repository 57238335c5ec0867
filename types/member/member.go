// Package member keeps the members of large hashes, sets and sorted sets: one
// sub row for each, named by the member and ordered by its hash.
//
//	home:2 02 id:8 hash:4 member
//
// The order by hash spreads members evenly whatever their names are. That makes
// two things simple that are hard in the order of names: a scan's cursor is the
// hash to go on from and needs no memory, and a member is drawn fairly without
// walking, since each part of the range of hashes holds about as many.
package member

import (
	"encoding/binary"
	"math"
	"math/rand/v2"

	"github.com/cespare/xxhash/v2"

	"redoubt/keyspace"
)

// Rows are the members of one value. Size is how many there are.
type Rows struct {
	Tx  *keyspace.Tx
	Ref keyspace.Ref
	key []byte // scratch
}

// hashSize is the length of the hash in a row's key. The hash is on disk: it
// never changes.
const hashSize = 4

const keyHead = keyspace.RowKeyHead + hashSize

func hashOf(member []byte) uint32 { return uint32(xxhash.Sum64(member) >> 32) }

// AppendKey appends the key of a member's row.
func AppendKey(b []byte, r keyspace.Ref, member []byte) []byte {
	b = keyspace.AppendRowKey(b, r, keyspace.SubRow)
	b = binary.BigEndian.AppendUint32(b, hashOf(member))
	return append(b, member...)
}

func (r *Rows) rowKey(member []byte) []byte {
	r.key = AppendKey(r.key[:0], r.Ref, member)
	return r.key
}

// Get returns the value of a member's row.
func (r *Rows) Get(member []byte) (value []byte, found bool) { return r.Tx.GetRow(r.rowKey(member)) }

// Put writes a member's row. The caller keeps the size.
func (r *Rows) Put(member, value []byte) { r.Tx.PutRow(r.rowKey(member), value) }

// Delete deletes a member's row. The caller keeps the size.
func (r *Rows) Delete(member []byte) { r.Tx.DeleteRow(r.rowKey(member)) }

// Each visits the members until visit says false. Bytes are valid during the call
// only, and visit must not write.
func (r *Rows) Each(visit func(member, value []byte) bool) {
	it := r.Tx.IterKind(r.Ref, keyspace.SubRow, nil, nil, false)
	defer r.Tx.CloseRows(it)
	for it.Next() {
		if len(it.Key()) >= keyHead && !visit(it.Key()[keyHead:], it.Value()) {
			return
		}
	}
}

// Scan visits about count members from a cursor on and returns the next cursor,
// 0 at the end. Members with the same hash are on the same page.
func (r *Rows) Scan(cursor uint64, count int, visit func(member, value []byte)) uint64 {
	if cursor > math.MaxUint32 {
		return 0
	}
	var from [hashSize]byte
	binary.BigEndian.PutUint32(from[:], uint32(cursor))
	it := r.Tx.IterKind(r.Ref, keyspace.SubRow, from[:], nil, false)
	defer r.Tx.CloseRows(it)
	last := uint32(0)
	for n := 0; it.Next(); n++ {
		k := it.Key()
		if len(k) < keyHead {
			continue
		}
		h := binary.BigEndian.Uint32(k[keyspace.RowKeyHead:])
		if n >= count && h != last {
			return uint64(h)
		}
		last = h
		visit(k[keyHead:], it.Value())
	}
	return 0
}

// A member is drawn so: the range of hashes is cut into parts that hold a few
// members each; a part is drawn, and a number below a bound that hardly any part
// reaches. If the part has a member of that number it is the one, else both are
// drawn again. So each member is as likely as any other.
const (
	perPart = 16
	bound   = 48 // perPart plus 8 standard deviations
	// maxDraws is how often it is tried: where most members are refused, walking
	// is cheaper.
	maxDraws = 64
)

// Pick returns a member for which live says true, each equally likely; nil live
// stands for all. The bytes stay valid until the end of the execution. It says
// false if there is none.
func (r *Rows) Pick(rng *rand.Rand, live func(value []byte) bool) (member, value []byte, ok bool) {
	parts := uint64(max(1, r.Ref.Size/perPart))
	held := r.Tx.Held()
	for range maxDraws {
		part, number, most := rng.Uint64N(parts), rng.IntN(bound), 0
		it := r.Tx.IterKind(r.Ref, keyspace.SubRow, edge(part, parts), edge(part+1, parts), false)
		for ; it.Next(); most++ {
			if most == number {
				member, value = r.Tx.Own(it.Key()[keyHead:], 0), r.Tx.Own(it.Value(), 0)
				ok = live == nil || live(value)
			}
		}
		r.Tx.CloseRows(it)
		if most > bound {
			break // hashes that somebody chose
		}
		if ok {
			return member, value, true
		}
		r.Tx.Release(held)
	}
	return r.walkPick(rng, live)
}

// edge is the first hash of a part; nil behind the last.
func edge(part, parts uint64) []byte {
	if part == parts {
		return nil
	}
	return binary.BigEndian.AppendUint32(nil, uint32((part<<32+parts-1)/parts))
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

// rowWork is what looking at a row weighs, in the terms of Tx.Heavy.
const rowWork = 64

// Sample visits count different members for which live says true, in no order,
// or all if there are no more; each such choice is equally likely. Visit must not
// write.
func (r *Rows) Sample(count int64, rng *rand.Rand, live func(value []byte) bool, visit func(member, value []byte)) {
	if count*4 > r.Ref.Size || r.Ref.Size < 4*perPart {
		r.walkSample(count, rng, live, visit)
		return
	}
	type one struct{ member, value []byte }
	list, seen := make([]one, 0, count), make(map[string]bool, count)
	for tries := 8*count + maxDraws; int64(len(list)) < count && r.Tx.Err() == nil; tries-- {
		if tries == 0 { // most are refused
			r.walkSample(count, rng, live, visit)
			return
		}
		held := r.Tx.Held()
		if m, v, ok := r.Pick(rng, live); ok && !seen[string(m)] {
			seen[string(m)] = true
			list = append(list, one{m, v})
		} else {
			r.Tx.Release(held)
		}
	}
	for _, o := range list {
		visit(o.member, o.value)
	}
}

// walkSample chooses while it walks: of the rows that are left each is taken with
// the chance that makes the number come out right.
func (r *Rows) walkSample(count int64, rng *rand.Rand, live func(value []byte) bool, visit func(member, value []byte)) {
	if r.Tx.Heavy(r.Ref.Size * rowWork) {
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
