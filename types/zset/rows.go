package zset

import (
	"encoding/binary"
	"fmt"
	"slices"

	"redoubt/engine"
	"redoubt/keyspace"
	"redoubt/types/member"
)

// rows is the large form: member rows, score rows and rank rows.
type rows struct {
	m    member.Rows
	old  keyspace.Meta // what was opened
	bulk bool          // being built: the ranks are made at the end
	rank rank
	next run    // scratch
	key  []byte // scratch for row keys
	// atFront: the elements that are removed are each the first of the set.
	atFront bool
	body    []byte // scratch for the meta row's body
}

// tailSize is the size of the meta row's body after the Ref: segments:4 groups:4.
const tailSize = 8

func (r *rows) open(tx *keyspace.Tx, m keyspace.Meta) {
	r.m.Tx, r.m.Ref = tx, m.Ref()
	r.old, r.bulk, r.atFront = m, false, false
	r.rank.reset()
	tail := m.Body[keyspace.RefSize:]
	if len(tail) != tailSize {
		tx.Fail(fmt.Errorf("%w: the meta row of a sorted set ends with %d bytes", engine.ErrCorrupt, len(tail)))
		return
	}
	r.rank.segments, r.rank.groups = binary.BigEndian.Uint32(tail), binary.BigEndian.Uint32(tail[4:])
}

// create begins new rows. They have no ranks until build is called.
func (r *rows) create(tx *keyspace.Tx, key []byte) {
	r.m.Tx, r.m.Ref = tx, tx.NewRef(key, 0)
	r.old, r.bulk, r.atFront = keyspace.Meta{}, true, false
	r.rank.reset()
}

func (r *rows) close() {
	r.m.Tx, r.old = nil, keyspace.Meta{}
	r.rank.reset()
}

// forget makes the set empty without reading its rows: the key is going to be
// removed.
func (r *rows) forget() {
	r.m.Ref.Size = 0
	r.rank.reset()
}

func (r *rows) size() int64 { return r.m.Ref.Size }

func (r *rows) save() (keyspace.Encoding, []byte, bool) {
	if r.bulk {
		r.build()
	}
	r.flush()
	r.body = keyspace.AppendRef(r.body[:0], r.m.Ref)
	r.body = binary.BigEndian.AppendUint32(r.body, r.rank.segments)
	r.body = binary.BigEndian.AppendUint32(r.body, r.rank.groups)
	return keyspace.Rows, r.body, !slices.Equal(r.body, r.old.Body)
}

func (r *rows) find(member []byte) (bits uint64, ok bool) {
	held := r.m.Tx.Held()
	v, ok := r.m.Get(member)
	if !ok {
		return 0, false
	}
	if len(v) != scoreSize {
		r.m.Tx.Fail(fmt.Errorf("%w: a member row of a sorted set has %d bytes", engine.ErrCorrupt, len(v)))
		return 0, false
	}
	bits = bitsOf(v)
	r.m.Tx.Release(held)
	return bits, true
}

// scoreKey makes the key of a score row; the element follows RowKeyHead.
func (r *rows) scoreKey(bits uint64, member []byte) []byte {
	r.key = keyspace.AppendRowKey(r.key[:0], r.m.Ref, keyspace.ScoreRow)
	r.key = appendElem(r.key, bits, member)
	return r.key
}

func (r *rows) putMember(bits uint64, member []byte) {
	var v [scoreSize]byte
	binary.BigEndian.PutUint64(v[:], bits)
	r.m.Put(member, v[:])
}

func (r *rows) insert(bits uint64, member []byte) {
	r.putMember(bits, member)
	k := r.scoreKey(bits, member)
	r.m.Tx.PutRow(k, nil)
	r.m.Ref.Size++
	r.count(k[keyspace.RowKeyHead:], 1)
}

func (r *rows) remove(bits uint64, member []byte) {
	r.m.Delete(member)
	k := r.scoreKey(bits, member)
	r.m.Tx.DeleteRow(k)
	r.m.Ref.Size--
	r.count(k[keyspace.RowKeyHead:], -1)
}

func (r *rows) move(from, to uint64, member []byte) {
	r.putMember(to, member)
	r.m.Tx.DeleteRow(r.scoreKey(from, member))
	if r.rank.segments == 0 || r.bulk {
		r.m.Tx.PutRow(r.scoreKey(to, member), nil)
		return
	}
	// In most moves both places are in the same segment, or one of them is in the
	// segment at hand. Only a segment that changed its count is written.
	r.count(r.key[keyspace.RowKeyHead:], -1)
	k := r.scoreKey(to, member)
	r.m.Tx.PutRow(k, nil)
	r.count(k[keyspace.RowKeyHead:], 1)
}

func (r *rows) walk(s Span, reverse bool, visit func(elem []byte) bool) {
	tx := r.m.Tx
	it := tx.IterKind(r.m.Ref, keyspace.ScoreRow, s.lo, s.hi, reverse)
	defer tx.CloseRows(it)
	for it.Next() {
		k := it.Key()
		if len(k) < keyspace.RowKeyHead+scoreSize {
			tx.Fail(fmt.Errorf("%w: score row % x", engine.ErrCorrupt, k))
			return
		}
		if !visit(k[keyspace.RowKeyHead:]) {
			return
		}
	}
}

func (r *rows) edge(s Span, reverse bool, b []byte) ([]byte, bool) {
	tx := r.m.Tx
	held := tx.Held()
	elem, _, found := tx.EdgeKind(r.m.Ref, keyspace.ScoreRow, s.lo, s.hi, reverse)
	if found && len(elem) < scoreSize {
		tx.Fail(fmt.Errorf("%w: score row % x", engine.ErrCorrupt, elem))
		found = false
	}
	if found {
		b = append(b, elem...)
	}
	tx.Release(held)
	return b, found
}
