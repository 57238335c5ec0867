package partition

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"slices"

	"redoubt/engine"
)

// A gap is a range of keys in which a partition has no rows, and in which many were deleted.
// A store keeps deleted rows for days, as tombstones, and reads over them: the first row of
// a queue that was popped a million times is found at the price of a million. So each
// partition keeps its largest gaps in its note (State.Note), and iterators leave them out.
//
// A gap must be right: a row inside of one would not be found. Every change that puts a row
// into a gap takes that row's place out of it, in the same change. It knows the gaps, since
// it is made from the version in which they were read.
//
//   - A view remembers what it has seen of a range without interruption: its runs. Where
//     its commit deletes the rows at the head of a run, or at the end of one that was read
//     backwards, there is a gap then. It is stored with the commit once enough rows were
//     deleted there.
//   - A read that the store says has passed over many deleted rows stores the gap before its
//     first row by a change of its own, behind the answer.
//   - A note has some thirty gaps, those with most deleted rows. One that is forgotten costs
//     time, no rows.

// gap is a gap, and about how many deleted rows it has.
type gap struct {
	Span
	weight int
}

// gaps are the gaps of a partition: ascending, with something between them. They are not
// changed once they are shared.
type gaps []gap

const (
	// worthStoring is from how many deleted rows on a gap is stored, or grows.
	worthStoring = 64
	// worthCutting is from how many on a read of a range is interrupted for a gap inside of it.
	worthCutting = 512
	// costly is from how many rows on, passed over by one read, a gap is stored at once.
	costly = 512

	maxGaps     = 32
	maxGapBytes = 4 << 10
	maxGrowing  = 256  // gaps in growth that a gate counts
	maxRun      = 4096 // rows of runs that a view remembers in a partition
)

// before reports whether a key comes before the end of a range.
func before(key, hi []byte) bool { return hi == nil || bytes.Compare(key, hi) < 0 }

// later returns the later of two ends.
func later(a, b []byte) []byte {
	if b == nil || a != nil && bytes.Compare(a, b) < 0 {
		return b
	}
	return a
}

// add returns the gaps with one more, joined with those that it meets or touches.
func (g gaps) add(n gap) gaps {
	var all gaps
	for _, o := range g {
		touch := (n.Hi == nil || bytes.Compare(o.Lo, n.Hi) <= 0) && (o.Hi == nil || bytes.Compare(n.Lo, o.Hi) <= 0)
		if !touch {
			all = append(all, o)
			continue
		}
		if bytes.Compare(o.Lo, n.Lo) < 0 {
			n.Lo = o.Lo
		}
		n.Hi, n.weight = later(n.Hi, o.Hi), n.weight+o.weight
	}
	all = append(all, n)
	slices.SortFunc(all, func(a, b gap) int { return bytes.Compare(a.Lo, b.Lo) })
	return all
}

// bound drops the smallest gaps while there are too many.
func (g gaps) bound() gaps {
	for len(g) > maxGaps || len(g.encode()) > maxGapBytes {
		least := 0
		for i := range g {
			if g[i].weight < g[least].weight {
				least = i
			}
		}
		g = slices.Delete(slices.Clone(g), least, least+1)
	}
	return g
}

// cut returns the gaps without the place of a row.
func (g gaps) cut(key []byte) gaps {
	i := g.at(key)
	if i < 0 {
		return g
	}
	old, all := g[i], slices.Clone(g[:i])
	for _, s := range []Span{{old.Lo, key}, {append(bytes.Clone(key), 0), old.Hi}} {
		if before(s.Lo, s.Hi) && old.weight/2 >= worthStoring {
			all = append(all, gap{s, old.weight / 2})
		}
	}
	return append(all, g[i+1:]...)
}

// at returns the index of the gap that has a key, -1 if none has.
func (g gaps) at(key []byte) int {
	i, exact := slices.BinarySearchFunc(g, key, func(x gap, key []byte) int { return bytes.Compare(x.Lo, key) })
	if !exact {
		i--
	}
	if i >= 0 && before(key, g[i].Hi) {
		return i
	}
	return -1
}

// without returns the gaps that do not lie wholly inside of a range, or meet one of the spent.
func (g gaps) without(s Span, spent []emptied) gaps {
	return slices.DeleteFunc(slices.Clone(g), func(o gap) bool {
		whole := bytes.Compare(s.Lo, o.Lo) <= 0 && (s.Hi == nil || o.Hi != nil && bytes.Compare(o.Hi, s.Hi) <= 0)
		return whole && !slices.ContainsFunc(spent, func(e emptied) bool { return meet(e.Span, o.Span) })
	})
}

// next returns what a read of a range has to read first, and what is left behind a gap; ok
// is false if there is nothing to be read, rest nil if there is nothing behind.
func (g gaps) next(s Span, reverse bool) (first Span, rest *Span, ok bool) {
	if reverse {
		for i := len(g) - 1; i >= 0; i-- {
			o := g[i]
			switch {
			case !meet(o.Span, s):
			case o.Hi == nil || s.Hi != nil && bytes.Compare(s.Hi, o.Hi) <= 0: // the end is in the gap
				if s.Hi = o.Lo; !before(s.Lo, s.Hi) {
					return s, nil, false
				}
			case o.weight >= worthCutting:
				if bytes.Compare(s.Lo, o.Lo) < 0 {
					rest = &Span{s.Lo, o.Lo}
				}
				return Span{o.Hi, s.Hi}, rest, true
			}
		}
		return s, nil, true
	}
	for _, o := range g {
		switch {
		case !meet(o.Span, s):
		case bytes.Compare(o.Lo, s.Lo) <= 0: // the beginning is in the gap
			if o.Hi == nil || !before(o.Hi, s.Hi) {
				return s, nil, false
			}
			s.Lo = o.Hi
		case o.weight >= worthCutting:
			if o.Hi != nil && before(o.Hi, s.Hi) {
				rest = &Span{o.Hi, s.Hi}
			}
			return Span{s.Lo, o.Lo}, rest, true
		}
	}
	return s, nil, true
}

// The note of a partition is its gaps: of each the lengths of its ends and the ends, and its
// weight. The length of Hi is one more, and 0 if there is no Hi.

func (g gaps) encode() []byte {
	b := []byte{}
	for _, o := range g {
		b = append(binary.AppendUvarint(b, uint64(len(o.Lo))), o.Lo...)
		if o.Hi == nil {
			b = append(b, 0)
		} else {
			b = append(binary.AppendUvarint(b, uint64(len(o.Hi))+1), o.Hi...)
		}
		b = binary.AppendUvarint(b, uint64(o.weight))
	}
	return b
}

func decodeGaps(b []byte) (g gaps, err error) {
	bad := fmt.Errorf("the note of a partition does not decode: %w", engine.ErrCorrupt)
	number := func() (n uint64, ok bool) {
		n, w := binary.Uvarint(b)
		if w <= 0 {
			return 0, false
		}
		b = b[w:]
		return n, true
	}
	for len(b) > 0 {
		var o gap
		n, ok := number()
		if !ok || n > uint64(len(b)) {
			return nil, bad
		}
		o.Lo, b = b[:n:n], b[n:]
		if n, ok = number(); !ok || n > uint64(len(b))+1 {
			return nil, bad
		}
		if n > 0 {
			o.Hi, b = b[:n-1:n-1], b[n-1:]
		}
		weight, ok := number()
		if !ok || !before(o.Lo, o.Hi) || len(g) > 0 && (g[len(g)-1].Hi == nil || bytes.Compare(g[len(g)-1].Hi, o.Lo) > 0) {
			return nil, bad
		}
		o.weight = int(min(weight, 1<<40))
		g = append(g, o)
	}
	return g, nil
}

// run is a range of which a view has seen all rows.
type run struct {
	Span
	keys    [][]byte // ascending
	reverse bool     // it was read from its end
}

// saw notes that a range has these rows, which were read in an order, and no others.
func (s *seen) saw(r Span, rows []Row, reverse bool) {
	if s.ran += len(rows); s.ran > maxRun {
		return
	}
	keys := make([][]byte, len(rows))
	for i, row := range rows {
		keys[i] = row.Key
	}
	if reverse {
		slices.Reverse(keys)
	}
	if n := len(s.runs); n > 0 && s.runs[n-1].reverse == reverse {
		last := &s.runs[n-1]
		switch {
		case !reverse && last.Hi != nil && bytes.Equal(last.Hi, r.Lo):
			last.Hi, last.keys = r.Hi, append(last.keys, keys...)
			return
		case reverse && r.Hi != nil && bytes.Equal(last.Lo, r.Hi):
			last.Lo, last.keys = r.Lo, append(keys, last.keys...)
			return
		}
	}
	s.runs = append(s.runs, run{r, keys, reverse})
}

// emptied is a range in which a commit leaves no rows.
type emptied struct {
	gap
	end string // what does not move while the gap grows
}

// empties returns where a piece deletes all rows that its view has seen.
func (s *seen) empties(p *piece) (all []emptied) {
	if len(p.deletes)+len(p.ranges) == 0 {
		return nil
	}
	deletes := make(map[string]struct{}, len(p.deletes))
	for _, key := range p.deletes {
		deletes[string(key)] = struct{}{}
	}
	deleted := func(key []byte) bool {
		_, ok := deletes[string(key)]
		return ok || slices.ContainsFunc(p.ranges, func(s Span) bool { return inside(key, s) })
	}
	for _, r := range s.runs {
		at := gap{Span: Span{Lo: r.Lo}}
		emit := func(hi []byte) {
			if at.weight > 0 {
				at.Hi = hi
				end := "f" + string(at.Lo)
				if r.reverse {
					end = "r" + string(hi)
				}
				all = append(all, emptied{at, end})
			}
		}
		for _, key := range r.keys {
			if deleted(key) {
				at.weight++
				continue
			}
			emit(key)
			at = gap{Span: Span{Lo: append(bytes.Clone(key), 0)}}
		}
		emit(r.Hi)
	}
	return all
}

// noteGaps returns the gaps as they are after a change, and has the change store them. The
// caller has the turn; all that the change does is in it.
func (g *gate) noteGaps(c *Change, spent []emptied) gaps {
	next := g.gaps
	for _, s := range c.Ranges {
		next = next.without(s, spent)
	}
	for _, e := range spent {
		if len(g.growing) >= maxGrowing {
			clear(g.growing)
		}
		if g.growing == nil {
			g.growing = make(map[string]int)
		}
		if g.growing[e.end] += e.weight; g.growing[e.end] < worthStoring {
			continue
		}
		e.weight = g.growing[e.end]
		delete(g.growing, e.end)
		next = next.add(e.gap)
	}
	return c.store(g.gaps, next)
}

// store takes the rows that a change puts out of the gaps, and has the change store them if
// they are not those that the partition had.
func (c *Change) store(was, g gaps) gaps {
	if len(was)+len(g) == 0 {
		return nil
	}
	for _, r := range c.Puts {
		g = g.cut(r.Key)
	}
	g = g.bound()
	if note := g.encode(); !bytes.Equal(note, was.encode()) {
		c.Note = note
	}
	return g
}

// remember stores a gap that a read has found, unless the partition has changed there.
func (e *Engine) remember(part int, s *seen, at Span) {
	g := e.gateOf(part)
	if e.closed.Load() || g.remembering.Swap(true) {
		return
	}
	p := &pending{base: s.version, gaps: s.gaps, piece: new(piece), read: &footprint{spans: []Span{at}}}
	p.spent = []emptied{{gap: gap{at, costly}, end: "read"}}
	e.wg.Add(1)
	go func() {
		defer e.wg.Done()
		defer g.remembering.Store(false)
		ctx, cancel := context.WithTimeout(e.ctx, e.opt.Timeout)
		defer cancel()
		p.ctx = ctx
		if err := e.commit(g, p); err != nil {
			e.log.Debug("where a range begins was not remembered", "partition", part, "err", err)
		}
	}()
}
