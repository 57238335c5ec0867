// Package set is the set type: different byte strings, in no order.
//
// A set has one of three forms, which OBJECT ENCODING calls intset, listpack and
// hashtable:
//
//   - Integers: members that are all decimal integers, in the body of the meta row
//     as numbers of 8 bytes in ascending order;
//   - Packed: members in the body of the meta row, in the order in which they came;
//   - Rows: a row for each member, see package member. The row's value is empty.
//
// A set takes the next form when a member does not fit any more, by the rules of
// Redis 7.2 (see fit), and keeps it when members go. What the set does is written
// once, in this file, over what a form can do (type form).
package set

import (
	"sync"

	"redoubt/keyspace"
	"redoubt/types"
	"redoubt/types/member"
	"redoubt/types/pack"
)

// Set is a set that was looked up. Changes are kept in it until Save.
type Set struct {
	tx     *keyspace.Tx
	key    []byte
	limits *types.Limits
	old    keyspace.Meta

	enc     keyspace.Encoding
	ints    intForm
	packed  packForm
	rows    rowForm
	changed bool // the meta row must be written
	loose   bool // see InterStore
}

// form is what the forms can do.
type form interface {
	size() int64
	has(member []byte) bool
	// insert adds a member that is not there, and that fits.
	insert(member []byte)
	remove(member []byte) bool
	// each visits members until visit says false; bytes are valid during the
	// call, which may delete the member.
	each(visit func(member []byte) bool)
}

// Find looks a key up that is about to be changed.
func Find(tx *keyspace.Tx, key []byte, limits *types.Limits) (*Set, error) {
	return of(tx, key, limits, tx.Find(key))
}

// Read looks a key up for reading: it counts as a hit or a miss.
func Read(tx *keyspace.Tx, key []byte) (*Set, error) { return of(tx, key, nil, tx.Read(key)) }

// Of makes a Set for reading of what Find returned for the key.
func Of(tx *keyspace.Tx, key []byte, m keyspace.Meta) (*Set, error) { return of(tx, key, nil, m) }

// of makes a Set of what is at a key; a missing key is an empty set.
func of(tx *keyspace.Tx, key []byte, limits *types.Limits, m keyspace.Meta) (*Set, error) {
	if m.Exists() && m.Type != keyspace.Set {
		return nil, types.ErrWrongType
	}
	s := pool.Get().(*Set)
	s.tx, s.key, s.limits, s.old, s.enc = tx, key, limits, m, m.Encoding
	if !m.Exists() {
		s.enc = keyspace.Integers
		return s, nil
	}
	switch m.Encoding {
	case keyspace.Integers:
		s.ints.body = m.Body
	case keyspace.Packed:
		s.packed.body = pack.Buf(m.Body)
	case keyspace.Rows:
		s.rows.Tx, s.rows.Ref = tx, m.Ref()
	default:
		tx.Fail(corrupt("encoding", int(m.Encoding)))
	}
	if s.enc == keyspace.Integers && len(m.Body)%8 != 0 {
		tx.Fail(corrupt("integers of a length of", len(m.Body)))
	}
	return s, tx.Err()
}

var pool = sync.Pool{New: func() any { return new(Set) }}

// Release ends the use of the set. It need not be called; commands that are
// frequent and short do, and so make no garbage.
func (s *Set) Release() {
	*s = Set{}
	pool.Put(s)
}

func (s *Set) form() form {
	switch s.enc {
	case keyspace.Integers:
		return &s.ints
	case keyspace.Packed:
		return &s.packed
	}
	return &s.rows
}

// Exists says whether there is such a key.
func (s *Set) Exists() bool { return s.old.Exists() }

// Size is how many members there are.
func (s *Set) Size() int64 {
	switch s.enc { // without an interface, for SCARD's sake
	case keyspace.Integers:
		return s.ints.size()
	case keyspace.Packed:
		return s.packed.size()
	}
	return s.rows.size()
}

// Small says whether the set is in its meta row.
func (s *Set) Small() bool { return s.enc != keyspace.Rows }

// Has says whether the set has a member.
func (s *Set) Has(member []byte) bool { return s.form().has(member) }

// Each visits the members until visit says false. Bytes are valid during the call
// only. Visit must not change the set.
func (s *Set) Each(visit func(member []byte) bool) { s.form().each(visit) }

// Members begins a walk over the members in the order of their hashes.
func (s *Set) Members(source int) *member.Cursor {
	if s.enc == keyspace.Rows {
		return s.rows.Cursor(source)
	}
	return member.Small(s.tx, source, func(visit func(member, value []byte) bool) {
		s.Each(func(m []byte) bool { return visit(m, nil) })
	})
}

// Expect tells how many members will be added, of which this is the first: it
// decides on the form of a new set, and may make that of an old one a larger one.
func (s *Set) Expect(first []byte, count int) {
	n := int64(count)
	switch {
	case s.Exists():
		if s.enc == keyspace.Packed && n > s.limits.SetEntries || s.enc == keyspace.Integers && n > s.limits.SetIntegers {
			s.become(keyspace.Rows)
		}
	case isInteger(first) && n <= s.limits.SetIntegers:
	case n <= s.limits.SetEntries:
		s.become(keyspace.Packed)
	default:
		s.become(keyspace.Rows)
	}
}

// Ahead tells that these members are about to be looked up, where that is worth while.
func (s *Set) Ahead(members [][]byte) {
	if len(members) > 1 && s.old.External() {
		s.rows.Ahead(members, 1)
	}
}

// Add adds a member and says whether it is new.
func (s *Set) Add(member []byte) bool {
	if s.form().has(member) || s.tx.Err() != nil {
		return false
	}
	s.insert(member)
	return true
}

// insert adds a member that is not there.
func (s *Set) insert(member []byte) {
	if enc := s.fit(member); enc != s.enc {
		s.become(enc)
	}
	s.own(len(member) + 16)
	s.form().insert(member)
	s.changed = true
}

// Remove takes a member away and says whether it was there.
func (s *Set) Remove(member []byte) bool {
	f := s.form()
	if s.enc != keyspace.Rows && !s.changed {
		if !f.has(member) {
			return false
		}
		s.own(0)
	}
	if !f.remove(member) {
		return false
	}
	s.changed = true
	return true
}

// own makes the body of a small form one that may be changed.
func (s *Set) own(room int) {
	if s.changed {
		return
	}
	switch s.enc {
	case keyspace.Integers:
		s.ints.body = s.tx.Own(s.ints.body, room)
	case keyspace.Packed:
		s.packed.body = s.tx.Own(s.packed.body, room)
	}
	s.changed = true
}

// Save writes the set back if it has changed: without members the key goes.
func (s *Set) Save() {
	if !s.changed {
		return
	}
	if s.Size() == 0 {
		if s.old.Exists() {
			s.tx.Remove(s.key, s.old)
		}
		return
	}
	s.tx.Store(s.key, s.old, s.meta(s.old.Expire))
}

// meta is the set as its meta row is to have it.
func (s *Set) meta(expire int64) keyspace.Meta {
	m := keyspace.Meta{Type: keyspace.Set, Encoding: s.enc, Expire: expire}
	switch s.enc {
	case keyspace.Integers:
		m.Body = s.ints.body
	case keyspace.Packed:
		m.Body = s.packed.body
	default:
		m.Body = keyspace.AppendRef(s.tx.Own(nil, keyspace.RefSize), s.rows.Ref)
	}
	return m
}

// Note notes a change of so many members, as Redis does: one event, and one more
// when the last member went.
func (s *Set) Note(event string, members int) {
	s.tx.Changed(keyspace.SetEv, event, s.key)
	s.tx.FX.Changes += members - 1
	if s.Size() == 0 {
		s.tx.Note(keyspace.Generic, "del", s.key)
	}
}

// Clear removes the key.
func (s *Set) Clear() {
	s.tx.Remove(s.key, s.old)
	s.enc, s.ints, s.packed, s.rows, s.changed = keyspace.Integers, intForm{}, packForm{}, rowForm{}, false
}

// Scan visits about count members from a cursor on and returns the next cursor, 0
// at the end. The members of a small set come all at once, as in Redis.
func (s *Set) Scan(cursor uint64, count int64, visit func(member []byte)) uint64 {
	if s.enc != keyspace.Rows {
		s.Each(func(m []byte) bool {
			visit(m)
			return true
		})
		return 0
	}
	count = min(count, s.Size())
	if s.tx.Heavy(count * rowWork) {
		return 0
	}
	return s.rows.Scan(cursor, int(count), func(m, _ []byte) { visit(m) })
}

// rowWork is what looking at a row weighs, in the terms of keyspace.Tx.Heavy.
const rowWork = 64

// Weight is what walking over the set costs, in the same terms.
func (s *Set) Weight() int64 { return s.Size() * rowWork }
