package resident

import (
	"bytes"
)

// Counting without walking: each node of the tree has the number of live rows below it.

// lockCountable locks the part of a range and returns it, if the part's tree can count the rows
// of the range: all of them are resident and no pending deletion overlaps the range. Else it
// returns nil.
func (s *Set) lockCountable(lo, hi []byte) *part {
	no := Part(lo)
	p := s.parts[no].Load()
	if p == nil || Part(hi) != no && !bytes.Equal(hi, PartKey(no+1)) {
		return nil
	}
	s.lockOrdered(p)
	clear := s.covers(p, lo, hi)
	if clear && p.pending() {
		p.eachDeletion(func(d *deletion) {
			clear = clear && (bytes.Compare(d.hi, lo) <= 0 || bytes.Compare(hi, d.lo) <= 0)
		})
	}
	if !clear {
		p.mu.RUnlock()
		return nil
	}
	return p
}

// Count counts the rows of a range. ok is false if that would take a walk.
func (s *Set) Count(lo, hi []byte) (n int, ok bool) {
	p := s.lockCountable(lo, hi)
	if p == nil {
		return 0, false
	}
	defer p.mu.RUnlock()
	return p.tree.rank(hi) - p.tree.rank(lo), true
}

// Nth appends the key of the n-th row of a range, counted from 0, to b. found reports whether
// there is such a row; ok is false if that would take a walk.
func (s *Set) Nth(lo, hi []byte, n int, b []byte) (key []byte, found, ok bool) {
	p := s.lockCountable(lo, hi)
	if p == nil {
		return b, false, false
	}
	defer p.mu.RUnlock()
	ref := p.tree.nth(p.tree.rank(lo) + n)
	if ref == 0 || n < 0 {
		return b, false, true
	}
	key = s.row(ref).key()
	if bytes.Compare(key, hi) >= 0 {
		return b, false, true
	}
	return append(b, key...), true, true
}

// Edge appends the key and the value of the first row of a range, or of the last row if
// reverse, to b. key is the length of the key; found reports whether there is such a row; ok is
// false if that would take a walk.
func (s *Set) Edge(lo, hi []byte, reverse bool, b []byte) (row []byte, key int, found, ok bool) {
	p := s.lockCountable(lo, hi)
	if p == nil {
		return b, 0, false, false
	}
	defer p.mu.RUnlock()
	from := lo
	if reverse {
		from = hi
	}
	ref := p.tree.edge(from, reverse)
	if ref == 0 {
		return b, 0, false, true
	}
	r := s.row(ref)
	k := r.key()
	if reverse && bytes.Compare(k, lo) < 0 || !reverse && bytes.Compare(k, hi) >= 0 {
		return b, 0, false, true
	}
	r.touch()
	return append(append(b, k...), r.value()...), len(k), true, true
}
