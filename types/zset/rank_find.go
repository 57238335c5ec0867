package zset

import (
	"bytes"

	"redoubt/keyspace"
)

// Finding places by rank rows, and building the rank rows of a whole set.

// before is the number of elements before a place: it adds up the groups and segments
// before the place, and walks over the elements of its segment.
func (r *rows) before(place []byte) (n int64) {
	if r.bulk {
		r.build()
	}
	if len(place) > 0 { // the engine may count by itself
		if n, ok := r.m.Tx.CountKind(r.m.Ref, keyspace.ScoreRow, nil, place); ok {
			return n
		}
	}
	r.flush()
	k := &r.rank
	var lo []byte // the beginning of the run that holds the place
	sum := func(level byte, from []byte) {
		held := int64(0) // the count of the previous run, which may contain the place
		r.eachRank(level, from, after(place), false, func(boundary []byte, count int64, _ uint32) bool {
			n += held
			held = count
			lo = append(lo[:0], boundary...)
			return true
		})
	}
	if k.groups > 0 {
		sum(levelGroup, nil)
	}
	if k.segments > 0 {
		sum(levelSegment, bytes.Clone(lo))
	}
	r.walk(Span{lo, place}, false, func([]byte) bool {
		n++
		return true
	})
	return n
}

// near finds, by rank rows, a place lo such that element n of the set is element rest
// from lo on. ok is false if there is no element n.
func (r *rows) near(n int64) (lo []byte, rest int64, ok bool) {
	if r.bulk {
		r.build()
	}
	r.flush()
	k := &r.rank
	if n < 0 || n >= r.m.Ref.Size {
		return nil, 0, false
	}
	if elem, found, ok := r.m.Tx.NthKind(r.m.Ref, keyspace.ScoreRow, n, nil); ok && found {
		return elem, 0, true
	}
	switch { // near the ends it is faster to walk at once
	case n <= nearEnd():
		return nil, n, true
	case r.m.Ref.Size-n <= nearEnd():
		lo, ok = r.at(n, nil)
		return lo, 0, ok
	}
	find := func(level byte, from []byte) {
		r.eachRank(level, from, nil, false, func(boundary []byte, count int64, _ uint32) bool {
			lo = append(lo[:0], boundary...)
			if n < count {
				return false
			}
			n -= count
			return true
		})
	}
	if k.groups > 0 {
		find(levelGroup, nil)
	}
	if k.segments > 0 {
		find(levelSegment, bytes.Clone(lo))
	}
	return lo, n, true
}

// at finds the element n by rank rows. Near the end a walk alone is faster.
func (r *rows) at(n int64, b []byte) ([]byte, bool) {
	var lo []byte
	size := r.m.Ref.Size
	reverse := n < size && size-n <= nearEnd()
	if reverse {
		if elem, found, ok := r.m.Tx.NthKind(r.m.Ref, keyspace.ScoreRow, n, b); ok && found {
			return elem, true
		}
		n = size - 1 - n
	} else {
		var ok bool
		if lo, n, ok = r.near(n); !ok {
			return b, false
		}
	}
	found := false
	r.walk(Span{lo: lo}, reverse, func(elem []byte) bool {
		if found = n == 0; found {
			b = append(b, elem...)
		}
		n--
		return !found
	})
	if !found && r.m.Tx.Err() == nil {
		r.lost("score")
	}
	return b, found
}

// build builds the rank rows of a set without any. Segments and groups are made three
// quarters full, to leave room before they split.
func (r *rows) build() {
	r.bulk = false
	r.rank.reset()
	if r.m.Ref.Size <= segmentMax {
		return
	}
	var bounds []byte // the boundaries, concatenated; the first is empty
	ends := []int{0}
	counts := []int64{0}
	full := max(1, segmentMax*3/4)
	r.walk(Whole, false, func(elem []byte) bool {
		at := len(counts) - 1
		if counts[at] == full {
			bounds = append(bounds, elem...)
			ends, counts, at = append(ends, len(bounds)), append(counts, 0), at+1
		}
		counts[at]++
		return true
	})
	boundary := func(i int) []byte {
		if i == 0 {
			return nil
		}
		return bounds[ends[i-1]:ends[i]]
	}
	if len(counts) < 2 {
		r.lost("score")
		return
	}
	for i, n := range counts {
		r.putSegment(boundary(i), n)
	}
	r.rank.segments = uint32(len(counts))
	if r.rank.segments <= groupMax {
		return
	}
	step := int(max(1, groupMax*3/4))
	for i := 0; i < len(counts); i += step {
		sum, to := int64(0), min(i+step, len(counts))
		for _, n := range counts[i:to] {
			sum += n
		}
		r.putGroup(boundary(i), sum, uint32(to-i))
		r.rank.groups++
	}
}
