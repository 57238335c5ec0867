// Package set is the set type: different byte strings, in no order.
//
// A set has one of three forms, which OBJECT ENCODING calls intset, listpack and
// hashtable:
//
//   - Integers: members that are all decimal integers, in the body of the meta row
//     as numbers of 8 bytes in ascending order;
//   - Packed: members in the body of the meta row, in the order of insertion;
//   - Rows: a row for each member, see package member. The row's value is empty.
//
// A set takes a larger form when a member does not fit any more, by the rules of
// Redis 7.2 (see fit), and keeps it when members are removed. The operations of a
// set are in this file and use the interface form.
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
	fresh   bool // made by Create: replaces the key's value
	loose   bool // see CreateInter
}

// form is the interface of the three forms.
type form interface {
	size() int64
	has(member []byte) bool
	// insert adds a new member, which must fit.
	insert(member []byte)
	remove(member []byte) bool
	// each visits members until visit returns false; bytes are valid during the
	// call, which may delete the member.
	each(visit func(member []byte) bool)
}

// Open opens the set at a key that is about to be changed.
func Open(tx *keyspace.Tx, key []byte, limits *types.Limits) (*Set, error) {
	s, err := Of(tx, key, tx.Find(key))
	if err == nil {
		s.limits = limits
	}
	return s, err
}

// Read opens the set at a key for reading: the lookup counts as a hit or a miss.
func Read(tx *keyspace.Tx, key []byte) (*Set, error) { return Of(tx, key, tx.Read(key)) }

// Of returns a Set for reading, from the meta row that Find or Read returned.
func Of(tx *keyspace.Tx, key []byte, m keyspace.Meta) (*Set, error) {
	if m.Exists() && m.Type != keyspace.Set {
		return nil, types.ErrWrongType
	}
	s := pool.Get().(*Set)
	s.tx, s.key, s.old, s.enc = tx, key, m, m.Encoding
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

// Create returns an empty set. Save replaces the key's value with it, of whatever type,
// without an expiry.
func Create(tx *keyspace.Tx, key []byte, limits *types.Limits) *Set {
	s := pool.Get().(*Set)
	s.tx, s.key, s.limits, s.old, s.enc, s.fresh = tx, key, limits, tx.Find(key), keyspace.Integers, true
	return s
}

var pool = sync.Pool{New: func() any { return new(Set) }}

// Release ends the use of the set. Calling it is optional: frequent commands do, to
// avoid garbage.
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

// Exists reports whether the key was there when it was opened.
func (s *Set) Exists() bool { return s.old.Exists() }

// Len is the number of members.
func (s *Set) Len() int64 {
	switch s.enc { // without an interface, for SCARD's sake
	case keyspace.Integers:
		return s.ints.size()
	case keyspace.Packed:
		return s.packed.size()
	}
	return s.rows.size()
}

// Small reports whether the set is in its meta row.
func (s *Set) Small() bool { return s.enc != keyspace.Rows }

// Has reports whether the set has a member.
func (s *Set) Has(member []byte) bool { return s.form().has(member) }

// Each visits the members until visit returns false. Bytes are valid during the call
// only. Visit must not change the set.
func (s *Set) Each(visit func(member []byte) bool) { s.form().each(visit) }

// Members returns a cursor over the members in the order of their hashes.
func (s *Set) Members(source int) *member.Cursor {
	if s.enc == keyspace.Rows {
		return s.rows.Cursor(source)
	}
	return member.Small(s.tx, source, func(visit func(member, value []byte) bool) {
		s.Each(func(m []byte) bool { return visit(m, nil) })
	})
}

// Expect prepares the set for count members that will be added, the first of which is
// first: it chooses the form of a new set, and may convert an old one to a larger form.
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

// Prefetch prefetches the rows of members that are about to be read, where that is worth while.
func (s *Set) Prefetch(members [][]byte) {
	if len(members) > 1 && s.old.External() {
		s.rows.Prefetch(members, 1)
	}
}

// Add adds a member and reports whether it is new.
func (s *Set) Add(member []byte) bool {
	if s.form().has(member) || s.tx.Err() != nil {
		return false
	}
	s.insert(member)
	return true
}

// insert adds a new member.
func (s *Set) insert(member []byte) {
	if enc := s.fit(member); enc != s.enc {
		s.become(enc)
	}
	s.own(len(member) + 16)
	s.form().insert(member)
	s.changed = true
}

// Remove removes a member and reports whether the set had it.
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

// own makes the body of a small form a copy that may be changed, with room for room more
// bytes.
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

// Save stores the changes. The key keeps its expiry, unless Create made the set; a key
// without members is removed, and Save reports that.
func (s *Set) Save() (gone bool) {
	if !s.changed && !s.fresh {
		return false
	}
	if s.Len() == 0 {
		if s.old.Exists() {
			s.tx.Remove(s.key, s.old)
		}
		return true
	}
	expire := s.old.Expire
	if s.fresh {
		expire = 0
	}
	s.tx.Store(s.key, s.old, s.meta(expire))
	return false
}

// meta returns the meta row of the set.
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

// Clear removes all members without a walk: Save then removes the key.
func (s *Set) Clear() {
	s.enc, s.ints, s.packed, s.rows, s.changed = keyspace.Integers, intForm{}, packForm{}, rowForm{}, true
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
	count = min(count, s.Len())
	if s.tx.Heavy(count * rowWork) {
		return 0
	}
	return s.rows.Scan(cursor, int(count), func(m, _ []byte) { visit(m) })
}

// rowWork is the cost of reading a row, in the unit of keyspace.Tx.Heavy.
const rowWork = 64

// Weight is the cost of a walk over the set, in the unit of keyspace.Tx.Heavy.
func (s *Set) Weight() int64 { return s.Len() * rowWork }
