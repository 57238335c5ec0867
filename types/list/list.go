// Package list is the list type.
//
// A list has one of two forms behind one set of functions:
//
//   - packed: its elements are the entries of a pack.Buf in the meta row. It
//     unfolds when it would exceed list-max-listpack-size as Redis measures it
//     (size.go), and is packed again when it shrinks to half of that.
//   - rows: the body of the meta row is a Ref whose size is the number of
//     elements, the index of the first one (8 bytes) and the sum of entrySize of
//     all of them (8 bytes). Element i is the value of the sub row whose key ends
//     with the index of the first plus i, as 8 bytes with the sign flipped. So
//     both ends are reached, and moved, in O(1).
//
// packed.go and rows.go have the same methods for the two forms; what a list does
// is written once, over those.
//
// Redis packs a list again only when one node of its quicklist is left. Where its
// nodes begin is a matter of the list's history, which is not kept here: a list is
// packed again as soon as all that is left would fit into half of a node. And Redis
// unfolds a list for an LSET or LINSERT that then finds nothing to do; here it stays.
//
// Functions that change a list do not note it: the caller does, after Save.
package list

import (
	"encoding/binary"
	"fmt"

	"redoubt/engine"
	"redoubt/keyspace"
	"redoubt/types"
	"redoubt/types/pack"
)

// List is the list at a key, as one execution sees and changes it. Changes are
// kept back until Save, except that rows of elements are written at once.
//
// Bytes that it returns stay valid until the end of the execution.
type List struct {
	tx    *keyspace.Tx
	key   []byte
	old   keyspace.Meta
	limit limit

	unfolded bool // rows count, else packed
	packed   packed
	rows     rows
	expire   int64 // the key's time of death
	dirty    bool
	shrunk   bool
	// kept says that rows may be left although the list is empty.
	kept bool
}

// Open finds the list at a key that is about to be changed. setting is
// list-max-listpack-size. A missing key is an empty list.
func Open(tx *keyspace.Tx, key []byte, setting int64) (List, error) {
	return Of(tx, key, tx.Find(key), setting)
}

// Read finds the list at a key for reading: it counts as a hit or a miss.
func Read(tx *keyspace.Tx, key []byte) (List, error) { return Of(tx, key, tx.Read(key), 0) }

// Of makes a List of what Find returned for the key.
func Of(tx *keyspace.Tx, key []byte, m keyspace.Meta, setting int64) (List, error) {
	l := List{tx: tx, key: key, old: m, limit: limitOf(setting), expire: m.Expire}
	l.packed.tx, l.rows.tx = tx, tx
	switch {
	case !m.Exists():
	case m.Type != keyspace.List:
		return List{}, types.ErrWrongType
	case m.Encoding == keyspace.Packed:
		l.packed.buf = pack.Buf(m.Body)
	case m.Encoding == keyspace.Rows && len(m.Body) == bodySize && m.Ref().Size > 0:
		l.unfolded, l.rows.ref = true, m.Ref()
		l.rows.head = int64(binary.BigEndian.Uint64(m.Body[keyspace.RefSize:]))
		l.rows.size = int64(binary.BigEndian.Uint64(m.Body[keyspace.RefSize+8:]))
	default:
		tx.Fail(fmt.Errorf("%w: list with encoding %d and a body of %d bytes", engine.ErrCorrupt, m.Encoding, len(m.Body)))
	}
	return l, nil
}

// bodySize is the length of the meta row's body of a list in rows.
const bodySize = keyspace.RefSize + 16

// Exists says whether there is such a key.
func (l *List) Exists() bool { return l.old.Exists() }

// Len is the number of elements.
func (l *List) Len() int64 {
	if l.unfolded {
		return l.rows.ref.Size
	}
	return int64(l.packed.buf.Len())
}

// Save stores what was changed. The key's time of death stays; a list that is
// empty goes.
func (l *List) Save() {
	if !l.dirty {
		return
	}
	if l.shrunk {
		l.shrink()
	}
	l.dirty, l.shrunk = false, false
	m := keyspace.Meta{Type: keyspace.List, Expire: l.expire}
	switch {
	case l.Len() == 0 && !l.old.Exists():
		return
	case l.Len() == 0 && l.unfolded && !l.kept:
		// Each of its rows was deleted: nothing is left to be cleared.
		l.tx.Detach(l.key, l.old)
		return
	case l.Len() == 0:
		l.tx.Remove(l.key, l.old)
		return
	case !l.unfolded:
		m.Encoding, m.Body = keyspace.Packed, l.packed.buf
		l.tx.Store(l.key, l.old, m)
		return
	}
	var body [bodySize]byte
	m.Encoding, m.Body = keyspace.Rows, l.rows.appendBody(body[:0])
	l.tx.Store(l.key, l.old, m)
}

// Index returns an element; negative indexes count from the end. It says false if
// there is none.
func (l *List) Index(i int64) (e []byte, ok bool) {
	if i < 0 {
		i += l.Len()
	}
	if i < 0 || i >= l.Len() {
		return nil, false
	}
	if l.unfolded {
		return l.rows.get(i), true
	}
	return l.packed.get(i), true
}

// Walk visits the elements [from, to), which must be there, until visit says
// false; backwards if reverse. The bytes are valid during the call, and visit must
// not write. A range that is large is moved to a worker first.
func (l *List) Walk(from, to int64, reverse bool, visit func(e []byte) bool) {
	switch {
	case from >= to:
	case !l.unfolded:
		l.packed.walk(from, to, reverse, visit)
	case !l.tx.Heavy(l.rows.work(to - from)):
		l.rows.walk(from, to, reverse, visit)
	}
}

// Range turns a first and a last index, which count from the end if they are
// negative, into [from, to) inside a length. An empty range is 0, 0.
func Range(first, last, length int64) (from, to int64) {
	if first < 0 {
		first = max(0, first+length)
	}
	if last < 0 {
		last += length
	}
	if first > last || first >= length {
		return 0, 0
	}
	return first, min(last, length-1) + 1
}
