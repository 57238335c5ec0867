// Package arena allocates bytes outside the Go heap. The resident set keeps its
// rows here: millions of rows are then a few thousand objects to the garbage
// collector, and a row is named by a number of 40 bits instead of a pointer.
//
// Approach. One range of addresses is reserved at the start and never moves, so
// a Ref is an offset into one long slice and reading needs no table and no
// lock. The range is taken into use in chunks, from the low end:
//
//	chunk  16 MiB   what is asked of the system at a time
//	grain   2 MiB   what is given back to it at a time (a huge page)
//	page   64 KiB   cut into slots of one size class
//	unit    4 KiB   what allocations of more than 16 KiB are rounded to
//
// Small allocations are slots of pages, larger ones runs of units inside a
// chunk, and those past half a chunk whole chunks in a row. All bookkeeping is
// kept beside the memory, never in it: a page has a bitmap of its free slots, a
// chunk one of its units.
//
// Dense filling matters more than speed of the rare paths: a grain that was
// touched costs its full size, since huge pages are asked for (without them the
// misses of the address cache dominate a look-up in gigabytes). So runs are
// taken at the lowest address of grains already touched, and slots from the
// fuller pages, which lets the others drain.
//
// Invariants (Check verifies them):
//  1. A unit is used exactly when it belongs to a page, a run or a huge allocation.
//  2. A used unit lies in a warm grain and is not gone; Mapped is the size of all
//     warm grains without the units in them that are gone.
//  3. A page with a free slot is its class's current one, or in the list of its
//     bucket, or sparse; an empty page is the current one (else it is given back).
//  4. bounds never hide room: a search that they skip would have failed.
//
// Locks: one per class for its pages, one (the pool's) for units and chunks,
// taken in this order. Readers take none: memory once granted stays readable
// until Close, also after Free and Trim, when its contents are undefined.
//
// Rejected: a mapping per huge allocation (a reader without a lock could fault;
// giving the memory back inside the range does the same), free lists threaded
// through the slots (each Alloc and Free would touch the row's own line, and a
// stray write would ruin the allocator), Go memory (the garbage collector).
package arena

import (
	"errors"
	"fmt"
	"math/bits"
	"sync"
	"sync/atomic"
)

const (
	unitSize  = 4 << 10
	pageUnits = 16
	pageSize  = pageUnits * unitSize
	maxGrain  = 2 << 20 / pageSize // pages in a huge page
	maxSmall  = 16 << 10           // larger allocations are runs of units

	chunkSize  = 1 << chunkBits
	chunkPages = chunkSize / pageSize
	chunkUnits = chunkSize / unitSize
	maxRun     = chunkSize / 2 // larger allocations are chunks in a row

	align     = 16 // of every allocation, and what a Ref counts
	refChunk  = chunkBits - 4
	refPage   = 16 - 4
	refUnit   = 12 - 4
	maxChunks = 1 << (40 - refChunk)
)

// Ref names an allocation: its place in units of 16 bytes, below 1<<40. 0 is none.
type Ref uint64

// Arena is an allocator. All methods but Close may be called concurrently. The
// bytes of an allocation belong to the caller of Alloc: the arena does not guard
// them.
type Arena struct {
	memory
	grain   int // pages given back to the system at a time
	chunks  []atomic.Pointer[chunk]
	classes []class
	pool    pool
	marks   marks

	mapped atomic.Int64
	misuse atomic.Int64
}

// Option changes how an arena is made.
type Option func(*Arena)

// New makes an empty arena. It takes addresses, not memory.
func New(options ...Option) *Arena {
	a := &Arena{classes: make([]class, len(classSizes))}
	for i := range a.classes {
		a.classes[i].init(i)
	}
	for _, o := range options {
		o(a)
	}
	a.chunks = make([]atomic.Pointer[chunk], a.reserve())
	a.pool.init()
	return a
}

// Close gives all memory back. Neither the arena nor a slice of its memory may be
// used afterwards.
func (a *Arena) Close() {
	a.unreserve()
	a.mapped.Store(0)
}

// Round returns how much memory an allocation of n bytes takes.
func Round(n int) int {
	switch {
	case n <= 0:
		return align
	case n <= maxSmall:
		return classSizes[classOf[(n+align-1)/align]]
	}
	return roundUp(n, unitSize)
}

func roundUp(n, to int) int { return (n + to - 1) &^ (to - 1) }

var errSize = errors.New("arena: impossible size")

// Alloc returns a place for n bytes, whose contents are undefined. It fails when
// the system gives no memory.
func (a *Arena) Alloc(n int) (Ref, error) {
	if uint(n) > maxSmall {
		return a.allocLarge(n)
	}
	c := &a.classes[classOf[(n+align-1)/align]]
	c.mu.Lock()
	p := c.current
	if p == nil {
		var err error
		if p, err = a.nextPage(c); err != nil {
			c.mu.Unlock()
			return 0, err
		}
	}
	w := p.hint
	for p.bits[w] == 0 {
		w++
	}
	word := p.bits[w]
	p.bits[w] = word & (word - 1)
	p.hint = w
	slot := int(w)<<6 + bits.TrailingZeros64(word)
	r := p.base + Ref(slot*c.step)
	p.free--
	if p.free == 0 {
		c.current = nil
	}
	c.used++
	c.mu.Unlock()
	return r, nil
}

// Free ends the allocation r of n bytes, or of another n with the same Round. A call
// that cannot be right (freed before, another size) changes nothing and is counted
// by Misused: a leak is better than two owners.
func (a *Arena) Free(r Ref, n int) {
	if uint(n) > maxSmall {
		if !a.freeLarge(r, n) {
			a.misuse.Add(1)
		}
		return
	}
	c := &a.classes[classOf[(n+align-1)/align]]
	p := a.page(r)
	if p == nil || p.class.Load() != c.id { // the lock is then held while the page is in the cache
		a.misuse.Add(1)
		return
	}
	c.mu.Lock()
	ok := p.class.Load() == c.id && p.put(c, int(r-p.base))
	if ok {
		c.used--
		switch {
		case p == c.current:
		case p.empty(c):
			a.freePage(c, p)
		case !p.sparse.Load():
			c.refile(p)
		}
	}
	c.mu.Unlock()
	if !ok {
		a.misuse.Add(1)
	}
}

// page returns the page in which r lies, whatever it is used for.
func (a *Arena) page(r Ref) *page {
	i := r >> refChunk
	if i >= Ref(len(a.chunks)) {
		return nil
	}
	ch := a.chunks[i].Load()
	if ch == nil {
		return nil
	}
	return &ch.pages[r>>refPage%chunkPages]
}

// Mapped is the memory taken from the system and not given back, the most that the
// arena adds to the process's memory. It leaves out the bookkeeping on the Go heap:
// 0.25 %, and up to 1 % where rows are shorter than 128 bytes.
func (a *Arena) Mapped() int64 { return a.mapped.Load() }

// Misused counts calls of Free that could not be right. It should always be 0.
func (a *Arena) Misused() int64 { return a.misuse.Load() }

func noMemory(err error) error { return fmt.Errorf("arena: no more memory: %w", err) }

// pool is the state of all units and chunks, under one lock.
type pool struct {
	mu     sync.Mutex
	top    int     // chunks taken into use, and chunk 0, which is never used: a Ref of 0 is none
	bounds []bound // of each chunk below top
	large  int64   // bytes in runs and huge allocations
}

func (p *pool) init() { p.top, p.bounds = 1, make([]bound, 1, 64) }
