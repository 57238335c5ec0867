// Package zset is the sorted set: members, each once, in the order of their
// scores and, where those are equal, of their bytes.
//
// # Use
//
//	z, err := zset.Open(tx, key, limits)   // or Read, or Create
//	score, ok := z.Score(member)
//	added, changed := z.Add(member, 1.5)
//	z.Remove(member)
//	z.Save()                               // after changes, once
//
// These are the functions of every types.Collection. Create is what the commands with
// a destination need.
//
// Parts of a set are named by a Span: all elements between two places of the
// order. ByScore, Lex and Whole make one; Walk visits it, Count counts it and
// RemoveSpan removes it. RangeByScore, RangeByRank and Each are those that other
// packages need most. Callbacks must not change the set; what they get is valid
// during the call only.
//
// # Elements
//
// An element is its score and its member as one string of bytes that sorts as the
// set does:
//
//	score:8 member
//
// The score is the IEEE double with the sign bit flipped if it is positive and
// with all bits flipped if it is negative, so that its bytes sort as the numbers
// do. Minus zero is kept as zero.
//
// # Forms
//
//   - packed, up to zset-max-listpack-entries members of up to
//     zset-max-listpack-value bytes: a pack.Buf of the elements in their order;
//   - rows, past that and for good: a member row for each (see types/member) with
//     score:8 as its value, a score row whose key ends with the element, and rank
//     rows (see rank.go). The meta row has segments:4 groups:4 behind its Ref, the
//     numbers of rank rows of both levels.
//
// Both implement form, which all other code uses.
package zset

import (
	"sync"

	"redoubt/keyspace"
	"redoubt/types"
	"redoubt/types/member"
)

// ZSet is the sorted set at a key, in one execution.
type ZSet struct {
	tx     *keyspace.Tx
	key    []byte
	old    keyspace.Meta
	limits *types.Limits
	form   form
	dirty  bool
	fresh  bool // made by Create: replaces the key's value

	packed packed
	rows   rows
	page   []byte // elements to be removed, and where each ends
	ends   []int
}

// form is the interface of the two layouts. Bits are an encoded score.
type form interface {
	// size is the number of elements.
	size() int64
	// find returns the score of a member.
	find(member []byte) (bits uint64, ok bool)
	// insert adds a new member.
	insert(bits uint64, member []byte)
	// remove takes a member that is there, with its score.
	remove(bits uint64, member []byte)
	// move gives a member that is there another score.
	move(from, to uint64, member []byte)
	// walk visits the elements of a span in order, or in reverse, until visit
	// returns false.
	walk(s Span, reverse bool, visit func(elem []byte) bool)
	// edge appends the first element of a span, or the last one if reverse, to b.
	// It reports false if there is none.
	edge(s Span, reverse bool, b []byte) ([]byte, bool)
	// before counts the elements below a place.
	before(place []byte) int64
	// at appends the element of a number, counted from 0, to b. It reports false if
	// there is none.
	at(n int64, b []byte) ([]byte, bool)
	// near finds a place from which on the element of a number is the one of another,
	// smaller number, as near as that is known without a walk. It reports false if there
	// is none.
	near(n int64) (place []byte, rest int64, ok bool)
	// save returns the meta row's encoding and body, and whether they differ from
	// what was opened.
	save() (keyspace.Encoding, []byte, bool)
}

var pool = sync.Pool{New: func() any { return new(ZSet) }}

// Open opens the set at a key that is about to be changed.
func Open(tx *keyspace.Tx, key []byte, limits *types.Limits) (*ZSet, error) {
	z, err := Of(tx, key, tx.Find(key))
	if err == nil {
		z.limits = limits
	}
	return z, err
}

// Read opens the set at a key for reading: the lookup counts as a hit or a miss.
func Read(tx *keyspace.Tx, key []byte) (*ZSet, error) { return Of(tx, key, tx.Read(key)) }

// Of returns a ZSet for reading, from the meta row that Find or Read returned.
func Of(tx *keyspace.Tx, key []byte, m keyspace.Meta) (*ZSet, error) {
	if m.Exists() && m.Type != keyspace.ZSet {
		return nil, types.ErrWrongType
	}
	z := pool.Get().(*ZSet)
	z.tx, z.key, z.old, z.dirty, z.fresh = tx, key, m, false, false
	if m.External() {
		z.rows.open(tx, m)
		z.form = &z.rows
	} else {
		z.packed.open(tx, m.Body)
		z.form = &z.packed
	}
	return z, nil
}

// Create returns an empty set. Save replaces the key's value with it, of whatever type,
// without an expiry.
func Create(tx *keyspace.Tx, key []byte, limits *types.Limits) *ZSet {
	z := pool.Get().(*ZSet)
	z.tx, z.key, z.old, z.limits, z.dirty, z.fresh = tx, key, tx.Find(key), limits, true, true
	z.packed.open(tx, nil)
	z.form = &z.packed
	return z
}

// Release ends the use of the set. Calling it is optional: frequent commands do, to
// avoid garbage.
func (z *ZSet) Release() {
	z.tx, z.key, z.old, z.limits, z.form = nil, nil, keyspace.Meta{}, nil, nil
	z.packed.close()
	z.rows.close()
	pool.Put(z)
}

// Key is the key of the set.
func (z *ZSet) Key() []byte { return z.key }

// Exists reports whether the key was there when it was opened.
func (z *ZSet) Exists() bool { return z.old.Exists() }

// Packed reports whether the set is in its small form.
func (z *ZSet) Packed() bool { return z.form == &z.packed }

// Len is the number of members.
func (z *ZSet) Len() int64 { return z.form.size() }

// Score returns the score of a member.
func (z *ZSet) Score(member []byte) (float64, bool) {
	bits, ok := z.form.find(member)
	if !ok {
		return 0, false
	}
	return decode(bits), true
}

// Add gives a member this score, which is not NaN, whether it is there or not.
func (z *ZSet) Add(member []byte, score float64) (added, changed bool) {
	bits := encode(score)
	old, ok := z.form.find(member)
	switch {
	case !ok:
		z.insert(member, bits)
		return true, true
	case old == bits:
		return false, false
	}
	z.dirty = true
	z.form.move(old, bits, member)
	return false, true
}

// Insert adds a member that Score did not find.
func (z *ZSet) Insert(member []byte, score float64) { z.insert(member, encode(score)) }

// Replace gives a member another score. old is what Score found. It reports whether
// they differ.
func (z *ZSet) Replace(member []byte, old, score float64) bool {
	from, to := encode(old), encode(score)
	if from == to {
		return false
	}
	z.dirty = true
	z.form.move(from, to, member)
	return true
}

func (z *ZSet) insert(member []byte, bits uint64) {
	z.dirty = true
	if z.Packed() && !z.packed.fits(member, z.limits) {
		z.unfold()
	}
	z.form.insert(bits, member)
}

// Expect reports that so many members are about to be added, the first one as long
// as given. As in Redis, a set that would not stay small then unfolds at once.
func (z *ZSet) Expect(members, length int) {
	if z.Packed() && (int64(members) > z.limits.ZSetEntries || !z.old.Exists() && int64(length) > z.limits.ZSetValue) {
		z.dirty = true
		z.unfold()
	}
}

// Members returns a cursor over the members in the order of their hashes; ScoreOf reads
// the values.
func (z *ZSet) Members(source int) *member.Cursor {
	if z.form == &z.rows {
		return z.rows.m.Cursor(source)
	}
	return member.Small(z.tx, source, func(visit func(member, value []byte) bool) {
		z.packed.walk(Whole, false, func(elem []byte) bool { return visit(elem[scoreSize:], elem[:scoreSize]) })
	})
}

// ScoreOf is the score that the row of a member has as its value.
func ScoreOf(value []byte) (float64, bool) {
	if len(value) != scoreSize {
		return 0, false
	}
	return decode(bitsOf(value)), true
}

// Prefetch tells that members are about to be looked up, where that is worth while. They
// are every step-th of a list, from the first on.
func (z *ZSet) Prefetch(members [][]byte, step int) {
	if len(members) > step && z.form == &z.rows && z.old.External() {
		z.rows.m.Prefetch(members, step)
	}
}

// Remove takes a member out. It reports whether it was there.
func (z *ZSet) Remove(member []byte) bool {
	bits, ok := z.form.find(member)
	if ok {
		z.dirty = true
		z.form.remove(bits, member)
	}
	return ok
}

// unfold moves the elements of a packed set to rows.
func (z *ZSet) unfold() {
	z.rows.create(z.tx, z.key)
	z.packed.walk(Whole, false, func(elem []byte) bool {
		z.rows.insert(bitsOf(elem), elem[scoreSize:])
		return true
	})
	if !z.fresh { // else the ranks are made by Save
		z.rows.build()
	}
	z.form = &z.rows
}

// Save stores what was changed. The key keeps its expiry; without members it is
// removed, and Save reports that.
func (z *ZSet) Save() (gone bool) {
	if !z.dirty || z.tx.Err() != nil {
		return false
	}
	z.dirty = false
	if z.form.size() == 0 {
		if z.old.Exists() {
			z.tx.Remove(z.key, z.old)
		}
		return true
	}
	enc, body, changed := z.form.save()
	if !changed {
		return false
	}
	m := keyspace.Meta{Type: keyspace.ZSet, Encoding: enc, Body: body}
	if !z.fresh {
		m.Expire = z.old.Expire
	}
	z.tx.Store(z.key, z.old, m)
	return false
}
