package resident

import (
	"sync"

	"redoubt/engine"
	"redoubt/engine/local/arena"
)

// Eviction uses the clock algorithm: a hand passes over the parts, and in each part over the
// rows; one pass over all parts is a lap. A row counts up to three uses. The hand takes one
// use away, and evicts a row without any. New rows start without uses, so that rows which are
// read once, by a scan say, go first. Unlike an LRU list this costs a reader one byte in a
// cache line that the reader has anyway, and no memory; docs/adr/0008 has the figures.
//
// A complete part is worth more than its rows, since a miss in it needs no read of the store.
// Its rows are evicted only when most of them are out of use, or when a lap has freed too
// little elsewhere. So of data twice the size of the memory about half of the parts stay
// complete.

type hand struct {
	mu        sync.Mutex
	no        int
	cursor    uint64
	freed     int64       // in this lap
	emptyLaps int         // laps in a row in which nothing was freed
	victims   []arena.Ref // reused buffer
}

// Evict frees about want bytes of clean rows and returns how many bytes it freed. Less than
// want means that no more could be evicted now.
func (s *Set) Evict(want int64) (freed int64) {
	h := &s.hand
	h.mu.Lock()
	defer h.mu.Unlock()
	for passed := 0; freed < want && passed <= 2*parts; {
		p := s.parts[h.no].Load()
		if p != nil {
			n, next := s.evictFrom(p, h.cursor, h.emptyLaps)
			freed += n
			h.freed += n
			if h.cursor = next; next != 0 {
				continue
			}
		}
		h.cursor = 0
		passed++
		if h.no++; h.no == parts {
			h.no = 0
			if h.emptyLaps++; h.freed > 0 {
				h.emptyLaps = 0
			}
			h.freed = 0
		}
	}
	return freed
}

// evictFrom moves the hand over one bucket of a part. After one empty lap rows of complete
// parts are evicted too, and after two empty laps pinned rows.
func (s *Set) evictFrom(p *part, cursor uint64, emptyLaps int) (freed int64, next uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.walks.Load() > 0 || cursor == 0 && emptyLaps == 0 && p.allComplete() && s.inUse(p) {
		return 0, 0
	}
	if cursor == 0 {
		s.disorder(p)
	}
	victims := s.hand.victims[:0]
	sparesPinned := emptyLaps < 2 && s.sparesPinned()
	next = p.tab.walk(cursor, func(ref arena.Ref) {
		r := s.row(ref)
		if sparesPinned && r.is(pinned) && !r.is(dead) {
			return
		}
		if !r.is(dirty) && !r.cool() && s.evictable(r) {
			victims = append(victims, ref)
		}
	})
	for _, ref := range victims {
		r := s.row(ref)
		if !r.is(dead) {
			p.markIncomplete(s.prefix(r.key()))
		}
		freed += int64(arena.Round(r.size())) + tableRow
		s.drop(p, ref, r, engine.Hash(r.key()))
	}
	s.evicted.Add(int64(len(victims)))
	s.hand.victims = victims
	return freed, next
}

// inUse reports whether most rows of a sample of a part were used since the hand last
// passed. It takes one use from each row of the sample.
func (s *Set) inUse(p *part) bool {
	used, seen := 0, 0
	p.tab.walk(0, func(ref arena.Ref) {
		seen++
		if r := s.row(ref); r.is(dirty) || r.cool() {
			used++
		}
	})
	return seen > 0 && 2*used > seen
}

// Bytes is the memory that rows, tables and trees take.
func (s *Set) Bytes() int64 { return s.bytes.Load() }

// Mapped is the memory that the set's arena has taken from the system.
func (s *Set) Mapped() int64 { return s.arena.Mapped() }

// Trim gives free memory back to the system.
func (s *Set) Trim() int64 { return s.arena.Trim() }

// Split gives free memory back that lies between rows: see arena.Split.
func (s *Set) Split(want int64) int64 { return s.arena.Split(want) }

// Figures are for INFO and metrics.
type Figures struct {
	Rows, Dead, Bytes, Mapped    int64
	DirtyRows, DirtyBytes        int64
	Complete, Incomplete         int64 // slots
	Evicted, PendingRanges, Open int64
}

// slots is how many parts, from the first on, Redoubt has keys in.
const slots = 1 << 14

// Figures returns the present figures of the set.
func (s *Set) Figures() (f Figures) {
	f = Figures{
		Rows: s.rows.Load(), Dead: s.dead.Load(), Bytes: s.Bytes(), Mapped: s.Mapped(),
		DirtyRows: s.dirtyRows.Load(), DirtyBytes: s.dirtyBytes.Load(),
		Evicted: s.evicted.Load(), PendingRanges: s.pendingRanges.Load(),
	}
	for no := range slots {
		p := s.parts[no].Load()
		whole := p == nil && s.isVacant(no)
		if p != nil {
			p.mu.RLock()
			whole = p.allComplete()
			p.mu.RUnlock()
		}
		if whole {
			f.Complete++
		}
	}
	f.Incomplete = slots - f.Complete
	s.snapshots.mu.Lock()
	f.Open = int64(len(s.snapshots.open))
	s.snapshots.mu.Unlock()
	return f
}
