package zset

import "bytes"

// Operations on parts of a set, over either form.

// Walk visits the elements of a span in order, or in reverse, until visit returns
// false.
func (z *ZSet) Walk(s Span, reverse bool, visit func(member []byte, score float64) bool) {
	z.form.walk(s, reverse, func(elem []byte) bool { return visit(elem[scoreSize:], decode(bitsOf(elem))) })
}

// Each visits all elements in their order.
func (z *ZSet) Each(visit func(member []byte, score float64) bool) { z.Walk(Whole, false, visit) }

// RangeByScore visits the elements with scores from min to max in order, or in
// reverse.
func (z *ZSet) RangeByScore(min, max Bound, reverse bool, visit func(member []byte, score float64) bool) {
	z.Walk(ByScore(min, max), reverse, visit)
}

// nearEnd is the most elements that are skipped by a walk rather than by ranks.
func nearEnd() int64 { return segmentMax / 2 }

// WalkFrom is Walk without the first skip elements.
func (z *ZSet) WalkFrom(s Span, reverse bool, skip int64, visit func(member []byte, score float64) bool) {
	if skip > nearEnd() {
		var rest Span
		if rest, skip = z.skip(s, reverse, skip); skip < 0 {
			return
		}
		s = rest
	}
	z.form.walk(s, reverse, func(elem []byte) bool {
		if skip > 0 {
			skip--
			return true
		}
		return visit(elem[scoreSize:], decode(bitsOf(elem)))
	})
}

// skip cuts the first elements off a span. It returns the number of elements still to
// be skipped, or -1 if the span has no more.
func (z *ZSet) skip(s Span, reverse bool, skip int64) (Span, int64) {
	if reverse {
		n := z.below(s.hi) - 1 - skip
		place, ok := z.form.at(n, nil)
		if n < 0 || !ok || bytes.Compare(place, s.lo) < 0 {
			return none, -1
		}
		s.hi = append(place, 0)
		return s, 0
	}
	place, rest, ok := z.form.near(z.before(s.lo) + skip)
	if !ok {
		return none, -1
	}
	s.lo = place // may be before the span: rest counts from place
	return s, rest
}

// RangeByRank visits the elements with ranks from start to stop, both included,
// counted from 0, and from the end if reverse. Ranks outside of the set are clipped.
func (z *ZSet) RangeByRank(start, stop int64, reverse bool, visit func(member []byte, score float64) bool) {
	size := z.Len()
	start, stop = max(start, 0), min(stop, size-1)
	left := stop - start + 1
	if left <= 0 {
		return
	}
	step := func(elem []byte) bool {
		if !visit(elem[scoreSize:], decode(bitsOf(elem))) {
			return false
		}
		left--
		return left > 0
	}
	s, skip := Whole, start
	if start > nearEnd() {
		var ok bool
		if reverse {
			var place []byte
			place, ok = z.form.at(size-1-start, nil)
			s.hi, skip = append(place, 0), 0
		} else {
			s.lo, skip, ok = z.form.near(start)
		}
		if !ok {
			return
		}
	}
	z.form.walk(s, reverse, func(elem []byte) bool {
		if skip > 0 {
			skip--
			return true
		}
		return step(elem)
	})
}

// Rank returns the rank of a member in order, or in reverse order, and its score.
func (z *ZSet) Rank(member []byte, reverse bool) (rank int64, score float64, ok bool) {
	bits, ok := z.form.find(member)
	if !ok {
		return 0, 0, false
	}
	z.page = appendElem(z.page[:0], bits, member)
	rank = z.form.before(z.page)
	if reverse {
		rank = z.Len() - 1 - rank
	}
	return rank, decode(bits), true
}

// Count counts the elements of a span.
func (z *ZSet) Count(s Span) int64 { return max(0, z.below(s.hi)-z.before(s.lo)) }

// CountUpTo counts the elements of a span, up to a limit, by walking over them.
func (z *ZSet) CountUpTo(s Span, limit int64) (n int64) {
	if limit <= 0 {
		return 0
	}
	z.form.walk(s, false, func([]byte) bool {
		n++
		return n < limit
	})
	return n
}

func (z *ZSet) before(lo []byte) int64 {
	if len(lo) == 0 {
		return 0
	}
	return z.form.before(lo)
}

func (z *ZSet) below(hi []byte) int64 {
	if hi == nil {
		return z.Len()
	}
	if len(hi) == 0 {
		return 0
	}
	return z.form.before(hi)
}

// takePage is the number of elements that are collected before they are removed: rows
// must not change under an open iterator.
const takePage = 512

// RemoveSpan removes the elements of a span and returns how many.
func (z *ZSet) RemoveSpan(s Span) int64 { return z.take(s, false, z.Len(), nil) }

// RemoveRanks removes the elements with ranks from start to stop, both included, and
// returns how many.
func (z *ZSet) RemoveRanks(start, stop int64) int64 {
	start, stop = max(start, 0), min(stop, z.Len()-1)
	if start > stop {
		return 0
	}
	s := Whole
	if start > 0 {
		place, ok := z.form.at(start, nil)
		if !ok {
			return 0
		}
		s.lo = place
	}
	return z.take(s, false, stop-start+1, nil)
}

// Pop removes up to count elements from the start, or from the end if last, passes each
// to visit, and returns how many.
func (z *ZSet) Pop(count int64, last bool, visit func(member []byte, score float64)) int64 {
	return z.take(Whole, last, count, visit)
}

// take removes up to most elements from the start of a span, or from its end.
func (z *ZSet) take(s Span, reverse bool, most int64, visit func(member []byte, score float64)) (taken int64) {
	if most = min(most, z.Len()); visit == nil && s.lo == nil && s.hi == nil && most == z.Len() && !z.Packed() {
		z.dirty = z.dirty || most > 0
		z.rows.forget() // no need to read the elements: Save deletes all rows
		return most
	}
	z.rows.atFront = len(s.lo) == 0 && !reverse
	defer func() { z.rows.atFront = false }()
	for taken < most && z.tx.Err() == nil {
		page, ends := z.page[:0], z.ends[:0]
		if taken+1 == most {
			var found bool
			if page, found = z.form.edge(s, reverse, page); found {
				ends = append(ends, len(page))
			}
		} else {
			z.form.walk(s, reverse, func(elem []byte) bool {
				page = append(page, elem...)
				ends = append(ends, len(page))
				return len(ends) < takePage && taken+int64(len(ends)) < most
			})
		}
		z.page, z.ends = page, ends
		at := 0
		for _, end := range ends {
			bits, member := bitsOf(page[at:]), page[at+scoreSize:end]
			if visit != nil {
				visit(member, decode(bits))
			}
			z.form.remove(bits, member)
			z.dirty = true
			at = end
		}
		n := len(ends)
		if taken += int64(n); n < takePage {
			break
		}
		// Continue after this page: from its start, the deleted rows would be
		// stepped over one by one.
		last := append([]byte(nil), page[ends[n-2]:]...)
		if reverse {
			s.hi = last
		} else {
			s.lo = append(last, 0)
		}
	}
	return taken
}

// WalkApart is WalkFrom, over at most limit elements, for a visit that writes
// other values: the elements are collected page by page, since rows must not change
// under an open iterator.
func (z *ZSet) WalkApart(s Span, reverse bool, skip, limit int64, visit func(member []byte, score float64) bool) {
	var page []byte
	var ends []int
	for limit > 0 && z.tx.Err() == nil {
		page, ends = page[:0], ends[:0]
		most := int(min(limit, takePage))
		z.WalkFrom(s, reverse, skip, func(member []byte, score float64) bool {
			page = appendElem(page, encode(score), member)
			ends = append(ends, len(page))
			return len(ends) < most
		})
		at := 0
		for _, end := range ends {
			if !visit(page[at+scoreSize:end], decode(bitsOf(page[at:]))) {
				return
			}
			at = end
		}
		n := len(ends)
		if limit -= int64(n); n < takePage {
			return
		}
		skip = 0
		if last := append([]byte(nil), page[ends[n-2]:]...); reverse {
			s.hi = last
		} else {
			s.lo = append(last, 0)
		}
	}
}
