package resident

import (
	"bytes"
	"slices"

	"redoubt/engine/local/arena"
)

// Most parts are read and written by key alone, and need no tree. A part gets its tree when it
// is first walked, or before it has so many rows that making the tree would take long. The part
// keeps the tree as long as it is walked between two laps of the clock's hand.

const (
	// alwaysOrdered is the number of rows from which on a part always has a tree.
	alwaysOrdered = 1024
	// tableRow and treeRow are about how many bytes the table and the tree take for a row.
	tableRow = 13
	treeRow  = 22
)

// order makes the tree of a part, if it has none. The part's lock is held exclusively.
func (s *Set) order(p *part) {
	p.walked.Store(true)
	if p.ordered {
		return
	}
	refs := make([]arena.Ref, 0, p.tab.rows)
	for cursor, more := uint64(0), true; more; more = cursor != 0 {
		cursor = p.tab.walk(cursor, func(ref arena.Ref) { refs = append(refs, ref) })
	}
	slices.SortFunc(refs, func(a, b arena.Ref) int { return bytes.Compare(s.row(a).key(), s.row(b).key()) })
	for _, ref := range refs {
		p.tree.insert(s.row(ref).key(), ref)
	}
	p.ordered = true
	s.bytes.Add(int64(len(refs)) * treeRow)
}

// disorder drops the tree of a small part that was not walked since the last call.
func (s *Set) disorder(p *part) {
	if p.ordered && !p.walked.Swap(false) && p.tab.rows < alwaysOrdered/2 {
		p.tree.drop()
		p.ordered = false
		s.bytes.Add(-int64(p.tab.rows) * treeRow)
	}
}

// lockOrdered locks a part shared, and sees to it that the part has its tree.
func (s *Set) lockOrdered(p *part) {
	for {
		p.mu.RLock()
		if p.ordered {
			if !p.walked.Load() {
				p.walked.Store(true)
			}
			return
		}
		p.mu.RUnlock()
		p.mu.Lock()
		s.order(p)
		p.mu.Unlock()
	}
}

// Disorder drops the trees of small parts that were not walked since the last call, in n parts
// from number no on. It returns the number to go on from.
func (s *Set) Disorder(no, n int) int {
	for range n {
		if p := s.parts[no].Load(); p != nil {
			p.mu.Lock()
			if p.walks.Load() == 0 {
				s.disorder(p)
			}
			p.mu.Unlock()
		}
		no = (no + 1) % parts
	}
	return no
}
