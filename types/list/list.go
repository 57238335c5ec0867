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
// Both implement form (packed.go, rows.go), which the operations of a list use.
//
// Redis packs a list again only when one node of its quicklist is left. Where its
// nodes begin depends on the list's history, which is not stored here: a list is
// packed again as soon as all its elements fit into half of a node. And Redis unfolds
// a list for an LSET or LINSERT that then changes nothing; here the list stays packed.
package list

import (
	"fmt"
	"sync"

	"redoubt/engine"
	"redoubt/keyspace"
	"redoubt/types"
)

// List is the list at a key, as one execution sees and changes it; a missing key is
// an empty list. Changes are kept in memory until Save, except that rows of elements
// are written at once.
//
// Bytes that Index returns stay valid until the end of the execution.
type List struct {
	tx    *keyspace.Tx
	key   []byte
	old   keyspace.Meta
	limit limit

	form   form // one of the next two
	packed packed
	rows   rows
	dirty  bool
	shrunk bool
	fresh  bool      // made by Create: replaces the key's value
	one    [1][]byte // scratch for Push
}

// form is the interface of the two layouts. Indexes must be those of existing elements.
type form interface {
	// size is the number of elements.
	size() int64
	// get returns an element.
	get(i int64) []byte
	// push adds elements at an end, one after the other.
	push(left bool, elems [][]byte)
	// drop removes n elements at an end. bytes is the sum of their entrySize, or
	// unknown.
	drop(left bool, n, bytes int64)
	// dropWork is the cost of dropping n elements, in the unit of Tx.Heavy.
	dropWork(n int64) int64
	// set replaces an element.
	set(i int64, e []byte)
	// insert puts an element before the one at an index, or at the end.
	insert(i int64, e []byte)
	// remove removes the elements at some indexes, in ascending order, which all
	// equal e.
	remove(at []int64, e []byte)
	// cleared reports whether no row of an empty list is left, so that only its meta
	// row must be deleted.
	cleared() bool
	// save returns the encoding and the body of the meta row; the body is valid
	// until the list is changed or released.
	save() (keyspace.Encoding, []byte)
}

var pool = sync.Pool{New: func() any { return new(List) }}

// Open opens the list at a key that is about to be changed.
func Open(tx *keyspace.Tx, key []byte, limits *types.Limits) (*List, error) {
	l, err := Of(tx, key, tx.Find(key))
	if err == nil {
		l.limit = limitOf(limits.ListSize)
	}
	return l, err
}

// Read opens the list at a key for reading: the lookup counts as a hit or a miss.
func Read(tx *keyspace.Tx, key []byte) (*List, error) { return Of(tx, key, tx.Read(key)) }

// Of returns a List for reading, from the meta row that Find or Read returned.
func Of(tx *keyspace.Tx, key []byte, m keyspace.Meta) (*List, error) {
	if m.Exists() && m.Type != keyspace.List {
		return nil, types.ErrWrongType
	}
	l := pool.Get().(*List)
	l.tx, l.key, l.old = tx, key, m
	l.packed.tx, l.rows.tx = tx, tx
	l.form = &l.packed
	switch {
	case !m.Exists():
	case m.Encoding == keyspace.Packed:
		l.packed.buf = m.Body
	case m.Encoding == keyspace.Rows && len(m.Body) == bodySize && m.Ref().Size > 0:
		l.rows.open(m)
		l.form = &l.rows
	default:
		tx.Fail(fmt.Errorf("%w: list with encoding %d and a body of %d bytes", engine.ErrCorrupt, m.Encoding, len(m.Body)))
	}
	return l, nil
}

// Create returns an empty list. Save replaces the key's value with it, of whatever type,
// without an expiry.
func Create(tx *keyspace.Tx, key []byte, limits *types.Limits) *List {
	l, _ := Of(tx, key, keyspace.Meta{}) // no key, no wrong type
	l.old, l.limit, l.dirty, l.fresh = tx.Find(key), limitOf(limits.ListSize), true, true
	return l
}

// Release ends the use of the list. Calling it is optional: frequent commands do, to
// avoid garbage.
func (l *List) Release() {
	*l = List{}
	pool.Put(l)
}

// bodySize is the length of the meta row's body of a list in rows.
const bodySize = keyspace.RefSize + 16

// Exists reports whether the key was there when it was opened.
func (l *List) Exists() bool { return l.old.Exists() }

// Len is the number of elements.
func (l *List) Len() int64 { return l.form.size() }

// Save stores the changes. The key keeps its expiry, unless Create made the list; a key
// without elements is removed, and Save reports that.
func (l *List) Save() (gone bool) {
	if !l.dirty {
		return false
	}
	if l.shrunk {
		l.fold()
	}
	l.dirty, l.shrunk = false, false
	if l.Len() == 0 {
		switch {
		case !l.old.Exists():
		case l.form.cleared() && !l.fresh:
			l.tx.Detach(l.key, l.old)
		default:
			l.tx.Remove(l.key, l.old)
		}
		return true
	}
	m := keyspace.Meta{Type: keyspace.List}
	if !l.fresh {
		m.Expire = l.old.Expire
	}
	m.Encoding, m.Body = l.form.save()
	l.tx.Store(l.key, l.old, m)
	return false
}

// Index returns an element; negative indexes count from the end. ok is false if
// there is none.
func (l *List) Index(i int64) (e []byte, ok bool) {
	if i < 0 {
		i += l.Len()
	}
	if i < 0 || i >= l.Len() {
		return nil, false
	}
	return l.form.get(i), true
}

// Walk visits the elements [from, to), which must exist, until visit returns
// false; backwards if reverse. The bytes are valid during the call, and visit must
// not write. A range that is large is moved to a worker first.
func (l *List) Walk(from, to int64, reverse bool, visit func(e []byte) bool) {
	if from >= to {
		return
	}
	// Called directly: through the interface, visit would be allocated.
	if l.form == &l.packed {
		l.packed.walk(from, to, reverse, visit)
	} else if !l.tx.Heavy(l.rows.work(to - from)) {
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
