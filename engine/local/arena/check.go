package arena

import (
	"errors"
	"fmt"
	"math/bits"
)

// Check verifies every invariant of the arena's bookkeeping and returns an error that
// names those which do not hold. It is for tests: nobody else may use the arena meanwhile.
func (a *Arena) Check() error {
	k := &checker{arena: a, used: make([]int, len(a.classes)), pages: make([]int, len(a.classes)), listed: map[*page]bool{}}
	for i := range a.classes {
		k.lists(&a.classes[i])
	}
	for i := 1; i < a.pool.top; i++ {
		k.chunk(a.chunks[i].Load())
	}
	for i := range a.classes {
		c := &a.classes[i]
		k.equal(c.used, k.used[i], "slots in use of class %d", c.size)
		k.equal(c.pages, k.pages[i], "pages of class %d", c.size)
	}
	k.equal(a.pool.large, k.large, "bytes in runs")
	k.equal(a.Mapped(), k.mapped, "bytes mapped")
	k.equal(a.Misused(), int64(0), "misuses")
	k.equal(len(a.pool.bounds), a.pool.top, "bounds")
	return errors.Join(k.errs...)
}

type checker struct {
	arena         *Arena
	used, pages   []int // per class
	listed        map[*page]bool
	large, mapped int64
	huge          int // bytes of a huge allocation that go on in the next chunk
	errs          []error
}

func (k *checker) equal(is, want any, what string, args ...any) {
	if is != want {
		k.fail("%s: %v, counted %v", fmt.Sprintf(what, args...), is, want)
	}
}

func (k *checker) fail(format string, args ...any) {
	k.errs = append(k.errs, fmt.Errorf("arena: "+format, args...))
}

func (k *checker) lists(c *class) {
	for b := range c.lists {
		var last *page
		for p := c.lists[b].head; p != nil; last, p = p, p.next {
			if p.prev != last || !p.listed || int(p.bucket) != b || int(p.free-1)/c.quarter != b || p.class.Load() != c.id || k.listed[p] {
				k.fail("page %x is wrong in list %d of class %d", p.base, b, c.size)
				return
			}
			k.listed[p] = true
		}
		if c.lists[b].tail != last {
			k.fail("list %d of class %d ends elsewhere", b, c.size)
		}
	}
	if p := c.current; p != nil && (p.class.Load() != c.id || p.free == 0 || p.listed || p.sparse.Load()) {
		k.fail("current page of class %d is of another, full, listed or sparse", c.size)
	}
}

func (k *checker) chunk(ch *chunk) {
	a := k.arena
	if ch.huge > 0 {
		k.equal(k.huge, 0, "huge allocation before chunk %d", ch.index)
		k.huge = ch.huge
		k.large += int64(ch.huge)
	}
	in := min(k.huge, chunkSize) // bytes of this chunk that are part of it
	k.huge -= in
	free := 0
	for u := 0; u < chunkUnits; {
		n := 1
		switch p := &ch.pages[u/pageUnits]; {
		case in > 0:
			n = chunkUnits
			k.equal(next(ch.used[:], 0, ^uint64(0)), n, "used units of huge chunk %d", ch.index)
		case u%pageUnits == 0 && p.class.Load() != 0:
			n = pageUnits
			k.equal(ch.length(u), n, "units of page %x", p.base)
			k.equal(p.base, ch.ref(u), "base of page %d", u/pageUnits)
			k.page(p)
		case next(ch.used[:], u, 0) != u:
			free++
			k.equal(next(ch.heads[:], u, 0) == u, false, "head of free unit %d", u)
		default:
			if n = ch.length(u); n == 0 {
				k.fail("unit %d of chunk %d is used by nobody", u, ch.index)
				return
			}
			k.large += int64(n * unitSize)
		}
		u += n
	}
	k.equal(ch.free, free, "free units of chunk %d", ch.index)
	for g, gu := 0, a.grainUnits(); g < chunkUnits/gu; g++ {
		gone := count(ch.gone[:], g*gu, gu)
		if ch.warm.has(g) {
			k.mapped += int64((gu - gone) * unitSize)
		} else if gone > 0 {
			k.fail("cold grain %d of chunk %d has gone units", g, ch.index)
		} else if u := next(ch.used[:], g*gu, 0); u < (g+1)*gu && (in == 0 || u*unitSize < in) {
			k.fail("cold unit %d of chunk %d is used", u, ch.index)
		}
	}
	for i := range ch.gone {
		if in == 0 && ch.gone[i]&ch.used[i] != 0 {
			k.fail("gone units of chunk %d are used", ch.index)
		}
	}
	for pass, b := range a.pool.bounds[ch.index] {
		used := a.unavailable(ch, pass)
		if b[0] <= chunkUnits && find(used[:], int(b[0]), 1) >= 0 || b[1] <= chunkUnits && find(used[:], int(b[1]), pageUnits) >= 0 {
			k.fail("chunk %d has more room than its bound %v", ch.index, b)
		}
	}
}

func (k *checker) page(p *page) {
	c := &k.arena.classes[p.class.Load()-1]
	k.pages[c.id-1]++
	k.used[c.id-1] += p.used(c)
	n := 0
	for w, word := range p.bits {
		n += bits.OnesCount64(word)
		if word != 0 && w < int(p.hint) {
			k.fail("page %x has free slots below its hint", p.base)
		}
	}
	k.equal(int(p.free), n, "free slots of page %x", p.base)
	if len(p.bits)*64-c.slots >= 64 || bits.Len64(p.bits[len(p.bits)-1]) > c.slots-(len(p.bits)-1)*64 {
		k.fail("page %x has slots behind its end", p.base)
	}
	k.equal(p.listed, k.listed[p], "listing of page %x", p.base)
	if reachable := p.listed || p == c.current || p.sparse.Load(); reachable != (p.free > 0) && !(p.sparse.Load() && p.free == 0) {
		k.fail("page %x with %d free slots: reachable %v", p.base, p.free, reachable)
	}
	if p.empty(c) && p != c.current || p.sparse.Load() && p.listed {
		k.fail("page %x is empty and kept, or sparse and listed", p.base)
	}
}

// Used is the size of all live allocations, each as Round says. It is for tests, as Check is:
// of the packages that use an arena, too.
func (a *Arena) Used() int64 {
	used, _ := a.count()
	return used
}

func (a *Arena) count() (used, free int64) {
	for i := range a.classes {
		c := &a.classes[i]
		c.mu.Lock()
		used += int64(c.used) * int64(c.size)
		free += int64(c.pages*c.slots-c.used) * int64(c.size)
		c.mu.Unlock()
	}
	a.pool.mu.Lock()
	used += a.pool.large
	a.pool.mu.Unlock()
	return used, free
}
