package resident

import (
	"bytes"

	"redoubt/engine"
)

// A Filling loads the rows of a part from the store while commits go on, so that the part
// becomes complete again. It relies on part.removals: if no row has left the part since before
// the store was read, then a row that is not resident is as the store has it.

// Filling loads one part, or one unit.
type Filling struct {
	s        *Set
	p        *part
	removals uint64
	unit     []byte // the unit whose rows are being added
	unitOnly bool   // only this unit is filled; its rows are pinned
}

// Untouched reports whether no row of the part has been asked for yet, and it is not
// known whether the store has any.
func (s *Set) Untouched(no int) bool { return s.parts[no].Load() == nil && !s.isVacant(no) }

// MarkVacant notes that the store has no row of a part, if the part is untouched.
func (s *Set) MarkVacant(no int) {
	if s.parts[no].Load() == nil {
		s.vacant[no/64].Or(1 << (no % 64))
	}
}

// Fill begins to fill a part. It returns nil if the part is complete. The store must be read
// after this call.
func (s *Set) Fill(no int) *Filling {
	if s.parts[no].Load() == nil && s.isVacant(no) {
		return nil
	}
	p := s.part(no)
	p.mu.RLock()
	defer p.mu.RUnlock()
	if p.allComplete() {
		return nil
	}
	return &Filling{s: s, p: p, removals: p.removals}
}

// FillUnit is Fill for the unit of a key, whose rows are pinned: other rows may leave the part
// meanwhile. It returns nil if the unit is complete.
func (s *Set) FillUnit(key []byte) *Filling {
	p := s.part(Part(key))
	p.mu.RLock()
	defer p.mu.RUnlock()
	prefix := s.prefix(key)
	if p.complete(prefix) || len(prefix) < s.unit(key) {
		return nil
	}
	return &Filling{s: s, p: p, removals: p.pinnedRemovals, unit: bytes.Clone(prefix), unitOnly: true}
}

// Unit is the prefix of the keys that FillUnit fills.
func (f *Filling) Unit() []byte { return f.unit }

// valid reports whether no row that belongs to the filling has been evicted since it began.
func (f *Filling) valid() bool {
	if f.unitOnly {
		return f.p.pinnedRemovals == f.removals
	}
	return f.p.removals == f.removals
}

// Add loads rows that were read from the store, in the order of their keys. ok is false if the
// filling is not valid any more: the part must then be read anew.
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

// endUnit marks the unit whose rows were added as complete.
func (f *Filling) endUnit() {
	if len(f.unit) > 0 {
		f.p.units.set(f.unit, true)
	}
}

// Done ends a filling to which all rows of the part, or of the unit, were added. It returns
// false if the filling is not valid any more.
func (f *Filling) Done() bool {
	f.p.mu.Lock()
	defer f.p.mu.Unlock()
	if !f.valid() {
		return false
	}
	if f.unitOnly {
		f.endUnit()
		return true
	}
	f.p.othersComplete, f.p.units = true, units{}
	return true
}

// Put adds a row to a chunk that is given to Add.
func (c *Chunk) Put(key, value []byte) { c.add(key, value, false) }

// Len is the number of rows in the chunk.
func (c *Chunk) Len() int { return len(c.items) }

// Size is the number of their bytes.
func (c *Chunk) Size() int { return len(c.data) }
