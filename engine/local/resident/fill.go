package resident

import (
	"bytes"

	"redoubt/engine"
)

// Filling brings the rows of a part in from the store, so that it becomes
// complete again, while commits go on. It rests on removals: if no row has left
// the part since before the store was read, a row that is not here is as the
// store has it.

// Filling is the filling of one part.
type Filling struct {
	s        *Set
	p        *part
	removals uint64
	unit     []byte // the one whose rows come just now
	alone    bool   // only this one is filled; it is kept
}

// Untouched says that no row of the part has been asked for yet, and that it is
// not known whether the store has any.
func (s *Set) Untouched(no int) bool { return s.parts[no].Load() == nil && !s.isVirgin(no) }

// Vacant tells that the store had no row of a part when it was opened. It has
// none now, either, if the part is still untouched.
func (s *Set) Vacant(no int) {
	if s.parts[no].Load() == nil {
		s.virgin[no/64].Or(1 << (no % 64))
	}
}

// Fill begins to fill a part; nil if it is whole. The store must be read after
// this call.
func (s *Set) Fill(no int) *Filling {
	if s.parts[no].Load() == nil && s.isVirgin(no) {
		return nil
	}
	p := s.part(no)
	p.mu.RLock()
	defer p.mu.RUnlock()
	if p.whole() {
		return nil
	}
	return &Filling{s: s, p: p, removals: p.removals}
}

// FillUnit is Fill for the unit of a key alone, whose rows are kept: that other rows
// leave the part does not matter. nil if it is complete.
func (s *Set) FillUnit(key []byte) *Filling {
	p := s.part(Part(key))
	p.mu.RLock()
	defer p.mu.RUnlock()
	prefix := s.prefix(key)
	if p.complete(prefix) || len(prefix) < s.unit(key) {
		return nil
	}
	return &Filling{s: s, p: p, removals: p.keptRemovals, unit: bytes.Clone(prefix), alone: true}
}

// Unit is the prefix of the keys of a unit that is filled alone.
func (f *Filling) Unit() []byte { return f.unit }

// valid says that no row has left of which that would have to be known.
func (f *Filling) valid() bool {
	if f.alone {
		return f.p.keptRemovals == f.removals
	}
	return f.p.removals == f.removals
}

// Add brings in rows of the store, which come in order. It says false when the
// filling is void: the part must be read anew.
func (f *Filling) Add(rows *Chunk) (ok bool, err error) {
	f.p.mu.Lock()
	defer f.p.mu.Unlock()
	if !f.valid() {
		return false, nil
	}
	err = rows.each(func(key, value []byte, _ bool) error {
		prefix := f.s.prefix(key)
		if string(prefix) != string(f.unit) {
			f.endUnit()
			f.unit = append(f.unit[:0], prefix...)
		}
		hash := engine.Hash(key)
		if f.s.find(f.p, hash, key) != 0 || f.p.pending() && f.s.storeDeleted(f.p, key, now) {
			return nil
		}
		return f.s.load(f.p, key, hash, value, true)
	})
	return err == nil, err
}

func (f *Filling) endUnit() {
	if len(f.unit) > 0 {
		f.p.units.set(f.unit, true)
	}
}

// Done ends a filling to which all rows of the part, or of the unit, were added.
func (f *Filling) Done() bool {
	f.p.mu.Lock()
	defer f.p.mu.Unlock()
	if !f.valid() {
		return false
	}
	if f.alone {
		f.endUnit()
		return true
	}
	f.p.rest, f.p.units = true, units{}
	return true
}

// Put adds a row to a chunk that is given to Add.
func (c *Chunk) Put(key, value []byte) { c.add(key, value, false) }

// Reset empties a chunk.
func (c *Chunk) Reset() { c.reset() }

// Len and Size tell how much a chunk holds.
func (c *Chunk) Len() int  { return len(c.items) }
func (c *Chunk) Size() int { return len(c.data) }
