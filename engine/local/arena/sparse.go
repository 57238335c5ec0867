package arena

import (
	"cmp"
	"slices"
	"sync"
)

// marks has the pages that the last call of Sparse marked.
type marks struct {
	mu     sync.Mutex
	pages  []*page
	avoids []*chunk
}

// lot is a group of pages that Sparse marks together: a grain, or one page.
type lot struct {
	page, n int // the first, counted through all chunks, and how many
	live    int // bytes to move
	freed   int // pages that are free already, and in memory
}

// chunk returns the chunk of a lot, and where in it the lot begins.
func (a *Arena) chunk(l lot) (*chunk, int) {
	return a.chunks[l.page/chunkPages].Load(), l.page % chunkPages
}

// pages returns the pages of a lot.
func (a *Arena) pages(l lot) []page {
	ch, i := a.chunk(l)
	return ch.pages[i : i+l.n]
}

// Sparse chooses pages to be emptied and marks them: they get no new allocations. The
// owner then moves each row for which InSparse reports true (Alloc, copy, Free), the pages
// become free, and Trim can give them back. Sparse returns how many bytes are to be moved,
// at most maxBytes; 0 if no page is worth it. The next call removes the marks of this one;
// Sparse(0) does nothing else.
//
// Sparse chooses first grains less than half used, so that memory can go back to the
// system, then pages less than half used, so that other classes can have them; emptiest
// first, and only as many as fit into the free slots of the other pages: moving rows never
// needs more memory than there is.
func (a *Arena) Sparse(maxBytes int) int64 {
	a.marks.mu.Lock()
	defer a.marks.mu.Unlock()
	a.unmark()
	if maxBytes <= 0 {
		return 0
	}
	s := a.survey()
	var moved int64
	for _, l := range s.grains {
		if l.live <= maxBytes && s.fits(a, l, true) {
			ch, first := a.chunk(l)
			a.avoid(ch, first/a.grain)
			maxBytes -= l.live
			moved += a.mark(l)
		}
	}
	for _, l := range s.pages {
		if l.live <= maxBytes && !a.pages(l)[0].sparse.Load() && s.fits(a, l, false) {
			maxBytes -= l.live
			moved += a.mark(l)
		}
	}
	return moved
}

// InSparse reports whether r lies in a page that is to be emptied.
func (a *Arena) InSparse(r Ref) bool {
	p := a.page(r)
	return p != nil && p.sparse.Load()
}

// survey is what Sparse knows of the arena. It is collected page by page while the arena
// is in use, so it is only an estimate, which is enough to choose by.
type survey struct {
	grains, pages []lot
	room, need    []int // slots per class: free in pages that stay, and to be moved
	freePages     int   // in warm grains that stay and are in use
}

func (a *Arena) survey() *survey {
	s := &survey{room: make([]int, len(a.classes)), need: make([]int, len(a.classes))}
	a.pool.mu.Lock()
	top := a.pool.top
	a.pool.mu.Unlock()
	for i := 1; i < top; i++ {
		ch := a.chunks[i].Load()
		a.pool.mu.Lock()
		used, warm, gone := ch.used, ch.warm, ch.gone
		a.pool.mu.Unlock()
		for first := 0; first < chunkPages; first += a.grain {
			if !warm.has(first / a.grain) {
				continue
			}
			g := lot{page: i*chunkPages + first, n: a.grain}
			slabs, free := true, 0
			for j := first; j < first+a.grain; j++ {
				p := lot{page: i*chunkPages + j, n: 1}
				switch c, inUse := a.occupancy(&ch.pages[j]); {
				case c != nil:
					s.room[c.id-1] += c.slots - inUse
					p.live = inUse * c.size
					if g.live += p.live; inUse*2 < c.slots {
						s.pages = append(s.pages, p)
					}
				case next(used[:], j*pageUnits, 0) >= (j+1)*pageUnits:
					if free++; count(gone[:], j*pageUnits, pageUnits) == 0 {
						g.freed++
					}
				default:
					slabs = false // a run: it cannot be moved by this
				}
			}
			switch {
			case a.grain == 1: // the page is the grain
			case free == g.n: // Trim can have it: nothing should move there
				a.avoid(ch, first/a.grain)
			default:
				s.freePages += g.freed
				if slabs && g.live*2 < a.grain*pageSize {
					s.grains = append(s.grains, g)
				}
			}
		}
	}
	// The emptiest first; among equals the highest address, since new runs are taken low.
	emptiest := func(x, y lot) int { return cmp.Or(x.live-y.live, y.page-x.page) }
	slices.SortFunc(s.grains, emptiest)
	slices.SortFunc(s.pages, emptiest)
	return s
}

// occupancy returns the class of a page and how many of its slots are in use; nil if
// it is not cut into slots.
func (a *Arena) occupancy(p *page) (of *class, inUse int) {
	a.locked(p, func(c *class) { of, inUse = c, p.used(c) })
	return of, inUse
}

// fits reports whether the rows of a lot fit elsewhere, and if so reserves the space in
// the survey. Rows of a grain may move to free pages, those of a single page only to free
// slots of their class, or no page would become free.
func (s *survey) fits(a *Arena, l lot, grain bool) bool {
	type slab struct{ class, free, used int }
	slabs := make([]slab, 0, maxGrain)
	pages := a.pages(l)
	for j := range pages {
		if c, inUse := a.occupancy(&pages[j]); c != nil {
			slabs = append(slabs, slab{int(c.id - 1), c.slots - inUse, inUse})
		}
	}
	ok := true
	for _, b := range slabs {
		s.room[b.class] -= b.free
		s.need[b.class] += b.used
		ok = ok && s.need[b.class] <= s.room[b.class]
	}
	if grain {
		left := s.freePages - l.freed
		for i, need := range s.need {
			slots := a.classes[i].slots
			left -= (max(0, need-s.room[i]) + slots - 1) / slots
		}
		ok = left >= 0
	}
	if ok {
		s.freePages -= l.freed
		return true
	}
	for _, b := range slabs {
		s.room[b.class] += b.free
		s.need[b.class] -= b.used
	}
	return false
}

// mark excludes the pages of a lot from Alloc and returns the bytes in use there.
func (a *Arena) mark(l lot) (live int64) {
	pages := a.pages(l)
	for j := range pages {
		p := &pages[j]
		a.locked(p, func(c *class) {
			if p.empty(c) {
				a.freePage(c, p)
				return
			}
			if p == c.current {
				c.current = nil
			}
			c.unlist(p)
			p.sparse.Store(true)
			a.marks.pages = append(a.marks.pages, p)
			live += int64(p.used(c) * c.size)
		})
	}
	return live
}

// locked calls f with the class of a page, if it has one, while the class is locked.
func (a *Arena) locked(p *page, f func(c *class)) {
	if id := p.class.Load(); id != 0 {
		c := &a.classes[id-1]
		c.mu.Lock()
		defer c.mu.Unlock()
		if p.class.Load() == id {
			f(c)
		}
	}
}

func (a *Arena) unmark() {
	for _, p := range a.marks.pages {
		a.locked(p, func(c *class) {
			if p.sparse.Load() { // else it was emptied, and serves others by now
				p.sparse.Store(false)
				c.refile(p)
			}
		})
	}
	a.pool.mu.Lock()
	for _, ch := range a.marks.avoids {
		ch.avoid = grains{}
		a.pool.bounds[ch.index] = unknown
	}
	a.pool.mu.Unlock()
	a.marks.pages, a.marks.avoids = a.marks.pages[:0], a.marks.avoids[:0]
}

// avoid has new pages and runs taken from a grain only when there is no room elsewhere.
func (a *Arena) avoid(ch *chunk, g int) {
	a.pool.mu.Lock()
	ch.avoid.add(g)
	a.pool.mu.Unlock()
	a.marks.avoids = append(a.marks.avoids, ch)
}
