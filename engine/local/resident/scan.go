package resident

import (
	"bytes"
	"slices"

	"redoubt/engine/local/arena"
	"redoubt/internal/race"
)

// Chunk is a run of rows, copied out.
type Chunk struct {
	data  []byte
	items []item
	at    int
}

type item struct {
	key, value, end int
	dead            bool
}

// Reset empties the chunk, and keeps its memory.
func (c *Chunk) Reset() { c.data, c.items, c.at = c.data[:0], c.items[:0], 0 }

func (c *Chunk) add(key, value []byte, dead bool) {
	it := item{key: len(c.data), dead: dead}
	c.data = append(c.data, key...)
	it.value = len(c.data)
	if !dead {
		c.data = append(c.data, value...)
	}
	it.end = len(c.data)
	c.items = append(c.items, it)
}

func (c *Chunk) key(i item) []byte { return c.data[i.key:i.value:i.value] }

// sort orders the rows by their keys.
func (c *Chunk) sort() {
	slices.SortFunc(c.items, func(a, b item) int { return bytes.Compare(c.key(a), c.key(b)) })
}

func (c *Chunk) each(visit func(key, value []byte, deleted bool) error) error {
	for _, i := range c.items {
		if err := visit(c.key(i), c.data[i.value:i.end:i.end], i.dead); err != nil {
			return err
		}
	}
	return nil
}

// The size of a chunk that a walk copies; the next chunk is copied when it is used up. The
// first chunk is small, since most walks are short.
const (
	firstRows  = 4
	chunkRows  = 128
	chunkBytes = 64 << 10
)

// Range walks the rows of a range: as they were at a snapshot, or of the present
// state, in which rows that are changed meanwhile may be shown either way.
//
// Where a part of the range is not complete, the store must be read as well: from there on
// Store is true, and deleted rows are shown as such, so that they hide the store's. part.walks
// counts the walks of a complete part, so that no row of it is evicted meanwhile.
//
// A Range may be used again for another walk when it is closed.
type Range struct {
	s        *Set
	lo, hi   []byte
	reverse  bool
	mayStore bool
	no       int // the part that is walked
	last     int // the last one
	rows     int // how many the next chunk may have
	chunk    Chunk
	refs     []arena.Ref // room
	touched  byte        // sum of the bytes read ahead, kept so that the reads are compiled
	at       []byte      // where in this part to go on, if begun
	begun    bool
	id       uint64   // which state is shown
	snap     Snapshot // the walk's own, if held
	held     bool
	walked   *part
	origin   *part  // for NoteGap: the only part, when it is walked with the store,
	arrivals uint64 // and its arrivals at the opening

	// Store: the store must be read for the rows of part From and of the parts behind it in the
	// direction of the walk.
	Store bool
	From  int
	// Cold: the walk has ended where the store would have to be read.
	Cold bool
}

// OpenRange begins to walk the rows with lo <= key < hi; lo is below hi. If mayStore is false
// the walk ends where the store would have to be read. open is as in OpenSnapshot; it is called
// only if the walk needs a snapshot.
func (s *Set) OpenRange(r *Range, lo, hi []byte, reverse, mayStore bool, open func() uint64) {
	s.begin(r, lo, hi, reverse)
	r.mayStore = mayStore
	if r.no == r.last {
		r.openOne(open)
		return
	}
	r.hold(s.OpenSnapshot(open))
}

// RangeAt walks rows as they were at a snapshot, which must stay open.
func (s *Set) RangeAt(r *Range, snap Snapshot, lo, hi []byte, reverse bool) {
	s.begin(r, lo, hi, reverse)
	r.id, r.mayStore, r.rows = snap.ID, true, chunkRows
}

func (s *Set) begin(r *Range, lo, hi []byte, reverse bool) {
	r.chunk.Reset()
	*r = Range{
		s: s, lo: append(r.lo[:0], lo...), hi: append(r.hi[:0], hi...), reverse: reverse, id: now, rows: firstRows,
		chunk: r.chunk, refs: r.refs, at: r.at[:0],
	}
	r.no, r.last = Part(lo), Part(hi)
	if bytes.Equal(hi, PartKey(r.last)) && r.last > r.no {
		r.last-- // hi is where its part begins
	}
	if reverse {
		r.no, r.last = r.last, r.no
	}
}

func (r *Range) hold(snap Snapshot) { r.snap, r.held, r.id = snap, true, snap.ID }

// openOne opens a range inside one part: its lock is enough to see one state.
func (r *Range) openOne(open func() uint64) {
	p := r.enter()
	if p == nil {
		return
	}
	defer p.mu.RUnlock()
	// What is read from the store must fit to what is here: see Snapshot.
	if r.fill(p); r.Store {
		r.hold(r.s.snapshots.register(open, nil))
		r.origin, r.arrivals = p, p.arrivals
	}
}

// enter locks the present part, if it exists and has rows to show, and decides whether the store
// must be read.
func (r *Range) enter() *part {
	s := r.s
	p := s.parts[r.no].Load()
	if p == nil {
		// For a snapshot only the store may have rows of it.
		if s.isVacant(r.no) || r.Store && r.id != now {
			r.step()
			return nil
		}
		p = s.part(r.no)
	}
	s.lockOrdered(p)
	if r.Store || r.begun || s.covers(p, r.lo, r.hi) && !p.changedCold(r.id) {
		return p
	}
	if r.mayStore {
		r.Store, r.From = true, r.no
		return p
	}
	p.mu.RUnlock()
	r.Cold = true
	r.end()
	return nil
}

// changedCold reports whether rows that were not resident may have been changed or
// deleted since a snapshot, so that only the store has what they were. That all
// rows are resident by now says nothing then.
func (p *part) changedCold(id uint64) (some bool) {
	if id != now {
		some = p.cold > 0
		p.eachDeletion(func(d *deletion) { some = some || d.tag >= id })
	}
	return some
}

// step goes to the next part.
func (r *Range) step() {
	if r.walked != nil {
		r.walked.walks.Add(-1)
		r.walked = nil
	}
	r.begun = false
	if r.reverse {
		r.no--
	} else {
		r.no++
	}
}

// end makes the range have no more parts.
func (r *Range) end() {
	r.no = r.last
	r.step()
}

// ID is the id of the reader, for calls of StoreDeleted.
func (r *Range) ID() uint64 { return r.id }

// Next moves to the next row.
func (r *Range) Next() bool {
	for {
		if r.chunk.at < len(r.chunk.items) {
			r.chunk.at++
			return true
		}
		if r.reverse && r.no < r.last || !r.reverse && r.no > r.last {
			return false
		}
		r.chunk.Reset()
		if p := r.enter(); p != nil {
			r.fill(p)
			p.mu.RUnlock()
		}
	}
}

// Row returns the present row. It is valid until the next call of Next.
func (r *Range) Row() (key, value []byte, deleted bool) {
	i := r.chunk.items[r.chunk.at-1]
	return r.chunk.key(i), r.chunk.data[i.value:i.end:i.end], i.dead
}

// Close ends the walk.
func (r *Range) Close() {
	r.end()
	if r.held {
		r.held = false
		r.s.CloseSnapshot(r.snap)
	}
	if race.Enabled { // so that a reader of stale rows fails
		for i := range r.chunk.data {
			r.chunk.data[i] = 0xdb
		}
	}
	r.chunk.Reset()
	if cap(r.chunk.data) > 2*chunkBytes {
		r.chunk.data = nil
	}
}

// fill copies rows of the part into the chunk and reports whether there may be more in the part;
// if not, fill has moved to the next part.
//
// The refs come first, then the rows: so the misses of the processor's cache for
// different rows overlap.
func (r *Range) fill(p *part) (more bool) {
	living := r.id == now && !r.Store
	from := r.lo
	switch {
	case r.begun:
		from = r.at
	case r.reverse:
		from = r.hi
	}
	r.refs = p.tree.collect(p.tree.root, from, r.reverse, living, r.rows, r.refs[:0])
	for _, ref := range r.refs {
		r.touched += r.s.arena.Touch(ref)
	}
	more = len(r.refs) == r.rows
	for i, ref := range r.refs {
		row := r.s.row(ref)
		key := row.key()
		if r.reverse && bytes.Compare(key, r.lo) < 0 || !r.reverse && bytes.Compare(key, r.hi) >= 0 {
			more = false
			break
		}
		switch value, state := r.s.resolve(p, row, key, r.id); state {
		case Found:
			r.chunk.add(key, value, false)
		case Absent:
			if r.Store {
				r.chunk.add(key, nil, true)
			}
		}
		full := len(r.chunk.data) >= chunkBytes
		if full || i == len(r.refs)-1 {
			r.at = append(r.at[:0], key...)
			if !r.reverse {
				r.at = append(r.at, 0)
			}
		}
		if full {
			more = true
			break
		}
	}
	r.rows = min(chunkRows, 4*r.rows)
	r.begun = true
	switch {
	case !more:
		r.step()
	case !r.Store && r.walked == nil:
		r.walked = p
		p.walks.Add(1)
	}
	return more
}
