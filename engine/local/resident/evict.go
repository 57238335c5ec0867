package resident

import (
	"sync"

	"redoubt/engine"
	"redoubt/engine/local/arena"
)

// Eviction goes by a clock: a hand passes over the parts, and in each part over
// the rows. A row counts up to three uses; the hand takes one away, and a row
// without any leaves. New rows start without, so what is read once, by a scan
// say, goes first. Against an LRU list this costs a reader nothing but a byte in
// a cache line that it has anyway, and no memory; docs/adr/0008 has the figures.
//
// A part that is whole is worth more than its rows: there a miss needs no look
// at the store. It is only broken when most of its rows are out of use, or when
// a round of the hand did not find enough elsewhere. So data of twice the memory
// leaves about half of the parts whole.

type hand struct {
	mu     sync.Mutex
	no     int
	cursor uint64
	freed  int64       // in this round of the clock
	vain   int         // rounds in a row in which nothing was freed
	doomed []arena.Ref // room
}

// Evict frees about want bytes of clean rows. It returns what it freed; less
// than want means that there was no more to be had just now.
func (s *Set) Evict(want int64) (freed int64) {
	h := &s.hand
	h.mu.Lock()
	defer h.mu.Unlock()
	for passed := 0; freed < want && passed <= 2*parts; {
		p := s.parts[h.no].Load()
		if p != nil {
			n, next := s.evictFrom(p, h.cursor, h.vain)
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
			if h.vain++; h.freed > 0 {
				h.vain = 0
			}
			h.freed = 0
		}
	}
	return freed
}

// evictFrom has the hand pass over one bucket of a part. vain says after how many
// rounds in vain: then parts that are whole are broken, and in the end rows go that are
// kept.
func (s *Set) evictFrom(p *part, cursor uint64, vain int) (freed int64, next uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.pins.Load() > 0 || cursor == 0 && vain == 0 && p.whole() && s.inUse(p) {
		return 0, 0
	}
	if cursor == 0 {
		s.disorder(p)
	}
	doomed := s.hand.doomed[:0]
	spares := vain < 2 && s.spares()
	next = p.tab.walk(cursor, func(ref arena.Ref) {
		r := s.row(ref)
		if spares && r.is(kept) && !r.is(dead) {
			return
		}
		if !r.is(dirty) && !r.cool() && s.evictable(r) {
			doomed = append(doomed, ref)
		}
	})
	for _, ref := range doomed {
		r := s.row(ref)
		if !r.is(dead) {
			p.breach(s.prefix(r.key()))
		}
		freed += int64(arena.Round(r.size())) + tableRow
		s.drop(p, ref, r, engine.Hash(r.key()))
	}
	s.evicted.Add(int64(len(doomed)))
	s.hand.doomed = doomed
	return freed, next
}

// inUse says whether most rows of a part, by a sample, were used since the hand
// came by last. It ages those it looks at.
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

// Bytes is the memory that the set takes: rows, and what finds them.
func (s *Set) Bytes() int64 { return s.bytes.Load() }

// Mapped is the memory that the rows, and what finds them, have taken from the system.
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

// Figures counts.
func (s *Set) Figures() (f Figures) {
	f = Figures{
		Rows: s.rows.Load(), Dead: s.dead.Load(), Bytes: s.Bytes(), Mapped: s.Mapped(),
		DirtyRows: s.dirtyRows.Load(), DirtyBytes: s.dirtyBytes.Load(),
		Evicted: s.evicted.Load(), PendingRanges: s.pendingRanges.Load(),
	}
	for no := range slots {
		p := s.parts[no].Load()
		whole := p == nil && s.isVirgin(no)
		if p != nil {
			p.mu.RLock()
			whole = p.whole()
			p.mu.RUnlock()
		}
		if whole {
			f.Complete++
		}
	}
	f.Incomplete = slots - f.Complete
	s.frozen.mu.Lock()
	f.Open = int64(len(s.frozen.open))
	s.frozen.mu.Unlock()
	return f
}

// OffHeap is the memory of the rows alone.
func (s *Set) OffHeap() int64 { return s.arena.Mapped() }
