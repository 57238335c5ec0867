// Package member keeps the members of large hashes, sets and sorted sets: one
// sub row for each, keyed by the hash of the member and the member.
//
//	home:2 02 id:8 hash:4 member
//
// The order by hash distributes members uniformly whatever their names are. That
// makes two operations simple: a scan's cursor is the hash to continue from, without
// state on the server, and a random member is drawn without a walk, since parts of
// equal size of the hash range hold about as many members.
package member

import (
	"encoding/binary"
	"fmt"
	"math"

	"github.com/cespare/xxhash/v2"

	"redoubt/engine"
	"redoubt/keyspace"
)

// Rows are the members of one value. Ref.Size is their number.
type Rows struct {
	Tx  *keyspace.Tx
	Ref keyspace.Ref
	key []byte // scratch
	buf [56]byte
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
	if r.key == nil {
		r.key = r.buf[:0]
	}
	r.key = AppendKey(r.key[:0], r.Ref, member)
	return r.key
}

// Get returns the value of a member's row.
func (r *Rows) Get(member []byte) (value []byte, found bool) { return r.Tx.GetRow(r.rowKey(member)) }

// Prefetch prefetches the rows of every step-th of members, from the first on, where that is
// worth while.
func (r *Rows) Prefetch(members [][]byte, step int) {
	if !r.Tx.WorthPrefetching((len(members) + step - 1) / step) {
		return
	}
	for i := 0; i < len(members); i += step {
		r.Tx.Expect(r.rowKey(members[i]))
	}
	r.Tx.FetchExpected()
}

// Put writes a member's row. The caller maintains Ref.Size.
func (r *Rows) Put(member, value []byte) { r.Tx.PutRow(r.rowKey(member), value) }

// Delete deletes a member's row. The caller maintains Ref.Size.
func (r *Rows) Delete(member []byte) { r.Tx.DeleteRow(r.rowKey(member)) }

// Each visits the members until visit returns false. Bytes are valid during the call
// only. visit may read, write rows of other values, and delete the row of the member
// that it is called with.
func (r *Rows) Each(visit func(member, value []byte) bool) {
	it := r.Tx.IterKind(r.Ref, keyspace.SubRow, nil, nil, false)
	defer r.Tx.CloseRows(it)
	for it.Next() && r.whole(it.Key()) {
		if !visit(it.Key()[keyHead:], it.Value()) {
			return
		}
	}
}

// whole reports whether a row's key is long enough for a hash; a shorter key fails the
// execution.
func (r *Rows) whole(row []byte) bool {
	if len(row) < keyHead {
		r.Tx.Fail(fmt.Errorf("%w: the key of a member's row is % x", engine.ErrCorrupt, row))
		return false
	}
	return true
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
	for n := 0; it.Next() && r.whole(it.Key()); n++ {
		k := it.Key()
		h := binary.BigEndian.Uint32(k[keyspace.RowKeyHead:])
		if n >= count && h != last {
			return uint64(h)
		}
		last = h
		visit(k[keyHead:], it.Value())
	}
	return 0
}
