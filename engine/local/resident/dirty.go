package resident

import (
	"bytes"
	"slices"

	"redoubt/engine"
	"redoubt/engine/local/arena"
)

// Dirty rows are rows whose newest state is not in the store yet. Each part lists its own.
// A write-back round takes the list of a part and leaves an empty list in its place (Take),
// copies the rows (Copy), and marks them clean when the store has them (Finish), or puts
// them back (Return). A row that is changed during the round moves to the new list and is
// left to the next round: the journal has the new state.

// mark makes a row dirty, in the current list, if there is a store.
func (s *Set) mark(p *part, ref arena.Ref, r row) {
	if s.storeless {
		return
	}
	if r.is(dirty) {
		list := r.list()
		if list == int(p.cur) {
			return
		}
		p.lists[list][r.place()] = 0
		r.set(stored) // the round that has taken it may have written it already
	} else {
		s.dirtyBytes.Add(int64(arena.Round(r.size())))
		s.dirtyRows.Add(1)
	}
	s.enlist(p, ref, r)
}

// enlist appends a row to the current list.
func (s *Set) enlist(p *part, ref arena.Ref, r row) {
	list := p.lists[p.cur]
	if len(list) == 0 && cap(list) == 0 {
		list = make([]arena.Ref, 0, 8)
	}
	r.setPlace(uint32(len(list)))
	p.lists[p.cur] = append(list, ref)
	r.unset(loaded | secondList)
	r.set(dirty | uint32(p.cur)*secondList)
}

// undirty takes a row off its list.
func (s *Set) undirty(p *part, r row) {
	p.lists[r.list()][r.place()] = 0
	r.unset(dirty)
	s.dirtyBytes.Add(-int64(arena.Round(r.size())))
	s.dirtyRows.Add(-1)
}

// Take begins the write-back of a part: the current list is the round's from now on, and
// new dirty rows go to the other list. Take reports false if there is nothing to write.
func (s *Set) Take(no int) bool {
	p := s.parts[no].Load()
	if p == nil {
		return false
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.lists[p.cur]) == 0 && !p.pending() {
		return false
	}
	some := len(p.lists[p.cur]) > 0
	p.cur ^= 1
	p.eachDeletion(func(d *deletion) {
		if d.storedAt == notStored {
			d.taken, some = true, true
		}
	})
	return some
}

// eachDeletion calls f for every pending deletion of the part.
func (p *part) eachDeletion(f func(*deletion)) {
	for _, d := range p.gone {
		f(d)
	}
	for _, d := range p.ranges {
		f(d)
	}
}

// Span is a range of keys.
type Span struct{ Lo, Hi []byte }

// Deletions returns the range deletes of a part that were taken, in order and
// without overlap.
func (s *Set) Deletions(no int) (list []Span) {
	p := s.parts[no].Load()
	p.mu.RLock()
	p.eachDeletion(func(d *deletion) {
		if d.taken {
			list = append(list, Span{d.lo, d.hi})
		}
	})
	p.mu.RUnlock()
	slices.SortFunc(list, func(a, b Span) int { return bytes.Compare(a.Lo, b.Lo) })
	merged := list[:0]
	for _, d := range list {
		if n := len(merged); n > 0 && bytes.Compare(d.Lo, merged[n-1].Hi) <= 0 {
			if bytes.Compare(d.Hi, merged[n-1].Hi) > 0 {
				merged[n-1].Hi = d.Hi
			}
			continue
		}
		merged = append(merged, d)
	}
	return merged
}

// copyStep is how many rows are copied under one hold of the lock, and copyBytes about
// how many bytes at a time.
const (
	copyStep  = 256
	copyBytes = 1 << 20
)

// largeList is the number of dirty rows from which on Copy walks the part's tree instead of
// sorting a copy of them all.
const largeList = 32 << 10

// Copy calls visit for the taken rows of a part in the order of their keys. The bytes are
// valid during the call. A deleted row that the store never had is left out.
func (s *Set) Copy(no int, visit func(key, value []byte, deleted bool) error) error {
	p := s.parts[no].Load()
	if len(p.lists[p.cur^1]) > largeList {
		return s.copyWalk(p, visit)
	}
	var c Chunk
	if !s.eachTaken(p, func(r row) bool { s.copyRow(p, r, &c); return c.Size() < copyBytes }) {
		return s.copyByKey(p, &c, visit)
	}
	c.sort()
	return s.give(&c, visit)
}

// eachTaken calls f for the taken rows of a part, in any order, until it reports false.
func (s *Set) eachTaken(p *part, f func(row) bool) bool {
	taken := p.cur ^ 1
	for at, more := 0, true; more; at += copyStep {
		p.mu.RLock()
		list := p.lists[taken]
		more = at+copyStep < len(list)
		for _, ref := range list[min(at, len(list)):min(at+copyStep, len(list))] {
			if ref != 0 && !f(s.row(ref)) {
				p.mu.RUnlock()
				return false
			}
		}
		p.mu.RUnlock()
	}
	return true
}

// copyRow copies a taken row into a chunk.
func (s *Set) copyRow(p *part, r row, c *Chunk) {
	gone := r.is(dead) || p.pending() && s.deleted(p, r.key(), r.seq(), now)
	if !gone || r.is(stored) {
		c.add(r.key(), r.value(), gone)
	}
}

// give calls visit for the rows of a chunk, and adds their keys to the filter.
func (s *Set) give(c *Chunk, visit func(key, value []byte, deleted bool) error) error {
	return c.each(func(key, value []byte, deleted bool) error {
		if deleted {
			s.filter.gone.Add(1)
		} else {
			s.addToFilter(engine.Hash(key))
		}
		return visit(key, value, deleted)
	})
}

// copyByKey is Copy for large rows; c is its buffer. It copies and sorts the keys, and then
// copies the rows a few at a time. Rows that were changed meanwhile are left to the next round.
func (s *Set) copyByKey(p *part, c *Chunk, visit func(key, value []byte, deleted bool) error) error {
	taken := int(p.cur ^ 1)
	var keys Chunk
	s.eachTaken(p, func(r row) bool { keys.add(r.key(), nil, false); return true })
	keys.sort()
	for rest := keys.items; len(rest) > 0; {
		c.Reset()
		p.mu.RLock()
		for n := 0; n < copyStep && len(rest) > 0 && c.Size() < copyBytes; n++ {
			key := keys.key(rest[0])
			if ref := s.find(p, engine.Hash(key), key); ref != 0 {
				if r := s.row(ref); r.is(dirty) && r.list() == taken {
					s.copyRow(p, r, c)
				}
			}
			rest = rest[1:]
		}
		p.mu.RUnlock()
		if err := s.give(c, visit); err != nil {
			return err
		}
	}
	return nil
}

// copyWalk is Copy for many rows: it walks the part's tree.
func (s *Set) copyWalk(p *part, visit func(key, value []byte, deleted bool) error) error {
	var c Chunk
	taken := int(p.cur ^ 1)
	for at, more := PartKey(p.no), true; more; {
		c.Reset()
		seen := 0
		more = false
		s.lockOrdered(p)
		p.tree.ascend(at, func(ref arena.Ref) bool {
			r := s.row(ref)
			if seen++; seen > copyStep || c.Size() >= copyBytes {
				at, more = bytes.Clone(r.key()), true
				return false
			}
			if r.is(dirty) && r.list() == taken {
				s.copyRow(p, r, &c)
			}
			return true
		})
		p.mu.RUnlock()
		if err := s.give(&c, visit); err != nil {
			return err
		}
	}
	return nil
}

// Finish ends the write-back of a part: the store has what was taken.
func (s *Set) Finish(no int) {
	p := s.parts[no].Load()
	taken := p.cur ^ 1
	// The range deletes end first: once the rows that the round wrote behind them are evicted,
	// the deletes would hide these rows. A reader that has read the store before this round may
	// hold rows that only the deletes hid; the changed count of removals makes it discard them.
	p.mu.Lock()
	id := s.snapshots.lastID()
	p.eachDeletion(func(d *deletion) {
		if d.taken {
			d.taken, d.storedAt = false, id
			p.removals++
			p.pinnedRemovals++
			s.filter.ranges.Store(true)
		}
	})
	p.mu.Unlock()
	for at := 0; at < len(p.lists[taken]); at += copyStep {
		p.mu.Lock()
		list := p.lists[taken]
		for _, ref := range list[at:min(at+copyStep, len(list))] {
			if ref == 0 {
				continue
			}
			r := s.row(ref)
			r.set(stored)
			if r.is(dead) && s.storedForAll(r.seq()) {
				s.drop(p, ref, r, engine.Hash(r.key()))
			} else { // a dead row that a snapshot needs is evicted later
				s.undirty(p, r)
			}
		}
		p.mu.Unlock()
	}
	p.mu.Lock()
	p.resetList(taken)
	s.forget(p)
	p.mu.Unlock()
}

// resetList empties a list at the end of its round.
func (p *part) resetList(list uint8) {
	if cap(p.lists[list]) > keepList {
		p.lists[list] = nil
	}
	p.lists[list] = p.lists[list][:0]
}

// keepList is the size up to which an empty list keeps its memory.
const keepList = 16

// Return ends a write-back that failed: the taken rows and deletions stay dirty.
func (s *Set) Return(no int) {
	p := s.parts[no].Load()
	p.mu.Lock()
	defer p.mu.Unlock()
	taken := p.cur ^ 1
	for _, ref := range p.lists[taken] {
		if ref != 0 {
			s.enlist(p, ref, s.row(ref))
		}
	}
	p.resetList(taken)
	p.eachDeletion(func(d *deletion) { d.taken = false })
}

// lastID returns the id of the newest snapshot, open or closed.
func (f *snapshots) lastID() uint64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.last
}

// Dirty returns the number of dirty rows and their bytes.
func (s *Set) Dirty() (rows, bytes int64) { return s.dirtyRows.Load(), s.dirtyBytes.Load() }
