// Package hash is the hash type: fields with values, and optionally with times of
// death.
//
// A hash has one of two forms behind one set of functions:
//
//   - packed, for small hashes: fields and values lie in the meta row, in the order
//     of insertion; see packed.go.
//   - rows: each field is a sub row, named by package member. Fields with a time
//     have a second, empty row that is ordered by time; see rows.go.
//
// A hash unfolds from the first form to the second past the limits of the
// directives hash-max-listpack-entries and -value, or when it gets too large for
// one row, and never goes back.
//
// A field expires for every reader at its time of death, but is removed later. So
// the forms contain dead fields, and a Hash shows the live ones. A command that
// writes first removes some dead fields; the sweeper removes the rest. When the
// last field dies the key is dead (keyspace.FieldTimes.End), hence a hash that was
// found has a live field.
//
// Changes are kept in the Hash, and stored by Save:
//
//	h, err := hash.Open(tx, key, limits)
//	... h.Set, h.Delete ...
//	gone := h.Save()
//	h.Release()
package hash

import (
	"math/rand/v2"
	"sync"

	"redoubt/keyspace"
	"redoubt/types"
	"redoubt/types/pack"
)

// Hash is a hash as one execution sees it. A missing key is an empty hash. After
// Save, only Release may be called.
type Hash struct {
	tx     *keyspace.Tx
	key    []byte
	old    keyspace.Meta
	limits *types.Limits
	form   form // one of the next two
	packed packed
	rows   rows
	dirty  bool
	fresh  bool   // made by Create: replaces the key's value
	body   []byte // scratch
}

// Entry is the value and the time of death of a field.
type Entry struct {
	// Value stays valid until the hash is changed or released.
	Value []byte
	// At is the time of death in Unix milliseconds, or 0.
	At int64

	found    bool
	from, to int // the field's bytes in the packed form
}

// form is one of the two forms. Its fields include dead ones.
type form interface {
	// size is the number of fields.
	size() int64
	// next is a time before which no field dies; 0 if none ever does.
	next() int64
	// find finds a field.
	find(field []byte) Entry
	// put sets the value and the time of a field; was is what find returned.
	put(field, value []byte, at int64, was Entry)
	// remove removes a field; was is what find returned.
	remove(field []byte, was Entry)
	// due counts the fields that are past their time.
	due(now int64) int64
	// purge removes about limit dead fields, and returns how many. It calls gone before each
	// removal.
	purge(now int64, limit int, gone func(field []byte)) int
	// each visits the fields until visit returns false.
	each(visit func(field []byte, e Entry) bool)
	// scan visits about count fields from a cursor on and returns the next cursor.
	scan(cursor uint64, count int, visit func(field []byte, e Entry)) uint64
	// draw visits count random live fields, with repetition.
	draw(now, count int64, rng *rand.Rand, visit func(field []byte, e Entry) bool)
	// sample visits count different live fields, or all if there are no more.
	sample(now, count int64, rng *rand.Rand, visit func(field []byte, e Entry))
	// save returns the meta row, whose body may use the buffer, and whether the
	// meta row has changed.
	save(buf []byte) (m keyspace.Meta, changed bool)
}

var idle = sync.Pool{New: func() any { return new(Hash) }}

// Read opens the hash at a key for reading: the lookup counts as a hit or a miss.
func Read(tx *keyspace.Tx, key []byte) (*Hash, error) { return Of(tx, key, tx.Read(key)) }

// Open opens the hash at a key that is about to be changed, and removes some dead
// fields.
func Open(tx *keyspace.Tx, key []byte, limits *types.Limits) (*Hash, error) {
	h, err := Of(tx, key, tx.Find(key))
	if err != nil {
		return nil, err
	}
	h.limits = limits
	h.expire(purgeStep)
	return h, nil
}

// Of returns a Hash for reading, from the meta row that Find or Read returned.
func Of(tx *keyspace.Tx, key []byte, m keyspace.Meta) (*Hash, error) {
	if m.Type != keyspace.Hash && m.Exists() {
		return nil, types.ErrWrongType
	}
	h := idle.Get().(*Hash)
	h.tx, h.key, h.old, h.dirty, h.fresh = tx, key, m, false, false
	if m.External() {
		h.rows.open(tx, m)
		h.form = &h.rows
	} else {
		h.packed.open(tx, m)
		h.form = &h.packed
	}
	return h, nil
}

// Create returns an empty hash. Save replaces the key's value with it, of whatever type,
// without an expiry.
func Create(tx *keyspace.Tx, key []byte, limits *types.Limits) *Hash {
	h, _ := Of(tx, key, keyspace.Meta{}) // no key, no wrong type
	h.old, h.limits, h.dirty, h.fresh = tx.Find(key), limits, true, true
	return h
}

// Release ends the use of the hash and of the bytes that it returned. Calling it is
// optional: frequent commands do, to avoid garbage.
func (h *Hash) Release() {
	h.tx, h.key, h.old, h.limits, h.form = nil, nil, keyspace.Meta{}, nil, nil
	h.packed.release()
	h.rows.release()
	if cap(h.body) > maxScratch {
		h.body = nil
	}
	idle.Put(h)
}

// maxScratch is the largest buffer that a hash keeps for the next one.
const maxScratch = 2 * pack.MaxHashBytes

// Exists reports whether the key was there when it was opened.
func (h *Hash) Exists() bool { return h.old.Exists() }

// lives reports whether a field with that time of death lives.
func (h *Hash) lives(at int64) bool { return at == 0 || at > h.tx.Past() }

// stale reports whether there may be fields that are past their time.
func (h *Hash) stale() bool {
	next := h.form.next()
	return next != 0 && next <= h.tx.Past()
}

// Len is the number of live fields. Dead fields that are not removed yet must be counted,
// which may be work: see Tx.Heavy.
func (h *Hash) Len() int64 {
	n := h.form.size()
	if h.stale() {
		n -= h.form.due(h.tx.Past())
	}
	return n
}

// Weight is the cost of a walk over the hash, in the unit of keyspace.Tx.Heavy.
func (h *Hash) Weight() int64 {
	if h.form == &h.rows {
		return h.form.size() * rowWork
	}
	return int64(len(h.packed.buf))
}

// Get returns a live field.
func (h *Hash) Get(field []byte) (Entry, bool) {
	e := h.form.find(field)
	if !e.found || !h.lives(e.At) {
		return Entry{}, false
	}
	return e, true
}

// Prefetch prefetches the rows of fields that are about to be read, where that is worth while.
func (h *Hash) Prefetch(fields [][]byte) { h.prefetch(fields, 1) }

func (h *Hash) prefetch(fields [][]byte, step int) {
	if len(fields) > step && h.old.External() && !h.fresh {
		h.rows.Prefetch(fields, step)
	}
}

// Expect prepares the hash for pairs, fields and values that are about to be set: it
// unfolds a packed hash that they would make unfold, or prefetches their rows.
func (h *Hash) Expect(pairs [][]byte) {
	if h.form != &h.packed {
		h.prefetch(pairs, 2)
		return
	}
	if int64(len(pairs)/2) > h.limits.HashEntries {
		h.unfold()
		return
	}
	for _, b := range pairs {
		if int64(len(b)) > h.limits.HashValue {
			h.unfold()
			return
		}
	}
}

// Set gives a field a value and a time of death (0: none), and reports whether the
// field is new.
func (h *Hash) Set(field, value []byte, at int64) (created bool) {
	was := h.form.find(field)
	h.put(field, value, at, was)
	return !was.found || !h.lives(was.At)
}

// Replace sets the value of a field and keeps its time of death. was is what Get
// returned.
func (h *Hash) Replace(field, value []byte, was Entry) {
	if !was.found {
		was = h.form.find(field) // the field may be stored but dead
		h.put(field, value, 0, was)
		return
	}
	h.put(field, value, was.At, was)
}

// SetAt changes the time of death of a field that Get has just found.
func (h *Hash) SetAt(field []byte, was Entry, at int64) {
	if was.At == at {
		return
	}
	value := was.Value
	if h.form == &h.packed {
		value = h.tx.Own(value, 0) // it is about to be moved
		if h.packed.grown(field, value, at, was) > pack.MaxHashBytes {
			h.unfold()
			was = h.form.find(field)
		}
	}
	h.dirty = true
	h.form.put(field, value, at, was)
}

func (h *Hash) put(field, value []byte, at int64, was Entry) {
	if h.tx.Heavy(int64(len(value))) {
		return
	}
	if h.form == &h.packed && h.tooLarge(field, value, at, was) {
		h.unfold()
		was = h.form.find(field)
	}
	h.dirty = true
	if was.found && !h.lives(was.At) {
		h.died(field)
	}
	h.form.put(field, value, at, was)
}

// died tells replicas that a dead field is removed.
func (h *Hash) died(field []byte) { h.tx.PropagateFieldDeath(h.key, field) }

// tooLarge reports whether a packed hash has no room for a field and value. The limits
// may have changed since the hash was packed.
func (h *Hash) tooLarge(field, value []byte, at int64, was Entry) bool {
	p, size := &h.packed, h.packed.size()
	if !was.found {
		size++
	}
	return int64(len(field)) > h.limits.HashValue || int64(len(value)) > h.limits.HashValue ||
		size > h.limits.HashEntries || p.grown(field, value, at, was) > pack.MaxHashBytes
}

// unfold moves the packed fields to rows.
func (h *Hash) unfold() {
	h.dirty = true
	h.rows.start(h.tx, h.tx.NewRef(h.key, 0))
	h.packed.each(func(field []byte, e Entry) bool {
		h.rows.put(field, e.Value, e.At, Entry{})
		return true
	})
	h.form = &h.rows
}

// Delete removes a field, and reports whether there was one.
func (h *Hash) Delete(field []byte) bool {
	e, ok := h.Get(field)
	if ok {
		h.Remove(field, e)
	}
	return ok
}

// Remove removes a field that Get has just found.
func (h *Hash) Remove(field []byte, was Entry) {
	h.dirty = true
	h.form.remove(field, was)
}

// Each visits the live fields until visit returns false. Bytes are valid during the call
// only, and visit must not write.
func (h *Hash) Each(visit func(field []byte, e Entry) bool) {
	if !h.stale() {
		h.form.each(visit)
		return
	}
	h.form.each(func(field []byte, e Entry) bool { return !h.lives(e.At) || visit(field, e) })
}

// Scan visits about count fields from a cursor on and returns the next cursor, 0
// at the end. Bytes are valid during the call only, and visit must not write.
func (h *Hash) Scan(cursor uint64, count int, visit func(field []byte, e Entry)) uint64 {
	return h.form.scan(cursor, count, func(field []byte, e Entry) {
		if h.lives(e.At) {
			visit(field, e)
		}
	})
}

// Draw visits count random fields, with repetition, until visit returns false. Bytes
// are valid during the call only, and visit must not write.
func (h *Hash) Draw(count int64, rng *rand.Rand, visit func(field []byte, e Entry) bool) {
	if h.Exists() {
		h.form.draw(h.tx.Past(), count, rng, visit)
	}
}

// Sample visits count different fields, or all if there are no more; each such
// choice is equally likely. Bytes are valid during the call only, and visit must
// not write.
func (h *Hash) Sample(count int64, rng *rand.Rand, visit func(field []byte, e Entry)) {
	if h.Exists() {
		h.form.sample(h.tx.Past(), min(count, h.form.size()), rng, visit)
	}
}

// Save stores the changes. The key keeps its expiry, unless Create made the hash; a key
// without live fields is removed, and Save reports that.
func (h *Hash) Save() (gone bool) {
	if !h.dirty || h.tx.Err() != nil {
		return false
	}
	m, changed := h.form.save(h.body[:0])
	if m.Encoding != keyspace.Packed { // which needs no buffer
		h.body = m.Body[:0]
	}
	if !h.fresh {
		m.Expire = h.old.Expire
	}
	if h.form.size() == 0 || h.old.Exists() && !h.fresh && h.dead(m) {
		if h.old.Exists() {
			h.tx.Remove(h.key, h.old)
		}
		return true
	}
	if changed {
		h.tx.Store(h.key, h.old, m)
	}
	return false
}

// dead reports whether only dead fields are left. (The fields of a hash that has just
// unfolded are live: its dead ones were removed.)
func (h *Hash) dead(m keyspace.Meta) bool {
	end := m.FieldTimes().End
	return end != 0 && end <= h.tx.Past()
}
