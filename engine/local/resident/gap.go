package resident

import (
	"bytes"
	"slices"
)

// A gap is a range of a part's keys in which no row lives: what is left behind
// where rows are taken from one end, as from a queue or from a sorted set with
// ZPOPMIN. The deleted rows still exist, as dead rows in memory and as tombstones and
// rows in the store, until rounds and compactions have removed them. Where all rows of
// a unit are resident the tree passes over dead rows. Else every walk from that end
// would step over all of them, in memory and in the store: so the first walk notes a
// gap, and the next one begins behind it.
//
// A gap holds for the present state only. It is found by a walk (NoteGap), grows
// with a row at its border that is deleted, and is cut by a row that is put into it.
// It may be forgotten at any time.
type gap struct {
	lo, hi []byte
	weight int // about how many rows walks are spared
}

const (
	// mostGaps is how many gaps a part keeps: the ends of a few large values, and the
	// rest between rows that were put into a gap.
	mostGaps = 16
	// gapKey is the length of the longest key that bounds a gap.
	gapKey = 1 << 10
)

// GapSteps is the number of dead rows from which on a walk notes a gap. It is a variable so that
// tests can have gaps everywhere.
var GapSteps = 16

// Narrow moves the beginning of a range of keys of one part behind the gap that it lies in, or
// the end of the range before such a gap if the range is to be walked backwards.
func (s *Set) Narrow(lo, hi []byte, reverse bool) (_, _ []byte) {
	p := s.parts[Part(lo)].Load()
	if p == nil || !p.gapped.Load() {
		return lo, hi
	}
	p.mu.RLock()
	defer p.mu.RUnlock()
	for i := range p.gaps {
		g := &p.gaps[i]
		switch {
		case !reverse && bytes.Compare(g.lo, lo) <= 0 && bytes.Compare(lo, g.hi) < 0:
			// The walk need not see rows that are put there from now on. The bytes of a
			// gap never change, so they may be read without the lock.
			return lesser(g.hi, hi), hi
		case reverse && bytes.Compare(g.lo, hi) < 0 && bytes.Compare(hi, g.hi) <= 0:
			return lo, greater(g.lo, lo)
		}
	}
	return lo, hi
}

func lesser(a, b []byte) []byte {
	if bytes.Compare(a, b) <= 0 {
		return a
	}
	return b
}

func greater(a, b []byte) []byte {
	if bytes.Compare(a, b) >= 0 {
		return a
	}
	return b
}

// NoteGap notes what a walk that was opened by OpenRange, and has read the store, has found:
// first is the key of the first live row, nil if there is none, and steps is the number of
// dead rows that the walk stepped over before that row.
func (r *Range) NoteGap(first []byte, steps int) {
	if steps < GapSteps || r.origin == nil || len(first) > gapKey || len(r.lo) > gapKey || len(r.hi) > gapKey {
		return
	}
	g := gap{lo: bytes.Clone(r.lo), hi: bytes.Clone(r.hi), weight: steps}
	switch {
	case first == nil:
	case r.reverse:
		g.lo = append(bytes.Clone(first), 0)
	default:
		g.hi = bytes.Clone(first)
	}
	p := r.origin
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.arrivals == r.arrivals { // else a row may have been put there
		p.addGap(g)
	}
}

// addGap adds a gap and merges it with the gaps that it touches.
func (p *part) addGap(g gap) {
	if bytes.Compare(g.lo, g.hi) >= 0 {
		return
	}
	p.gaps = slices.DeleteFunc(p.gaps, func(old gap) bool {
		if bytes.Compare(old.hi, g.lo) < 0 || bytes.Compare(g.hi, old.lo) < 0 {
			return false
		}
		g = gap{lo: lesser(old.lo, g.lo), hi: greater(old.hi, g.hi), weight: old.weight + g.weight}
		return true
	})
	if len(p.gaps) == mostGaps {
		least := 0
		for i := range p.gaps {
			if p.gaps[i].weight /= 2; p.gaps[i].weight < p.gaps[least].weight {
				least = i
			}
		}
		p.gaps = slices.Delete(p.gaps, least, least+1)
	}
	p.gaps = append(p.gaps, g)
	p.gapped.Store(true)
}

// noteInsert is called when a row is put that may not have existed. It cuts a gap.
func (p *part) noteInsert(key []byte) {
	p.arrivals++
	for i := range p.gaps {
		g := p.gaps[i]
		if bytes.Compare(g.lo, key) > 0 || bytes.Compare(key, g.hi) >= 0 {
			continue
		}
		p.gaps = slices.Delete(p.gaps, i, i+1)
		if len(key) <= gapKey {
			at := append(bytes.Clone(key), 0)
			p.addGap(gap{g.lo, at[:len(key):len(key)], g.weight / 2})
			p.addGap(gap{at, g.hi, g.weight / 2})
		}
		p.gapped.Store(len(p.gaps) > 0)
		return
	}
}

// noteDelete is called when a row is deleted: a gap that it borders on grows, and two
// become one if only the row was between them.
func (p *part) noteDelete(key []byte) {
	for i := range p.gaps {
		g := &p.gaps[i]
		if bytes.Equal(g.hi, key) || len(g.lo) == len(key)+1 && g.lo[len(key)] == 0 && bytes.Equal(g.lo[:len(key)], key) {
			if len(key) <= gapKey {
				at := append(bytes.Clone(key), 0)
				p.addGap(gap{at[:len(key):len(key)], at, 1})
			}
			return
		}
	}
}
