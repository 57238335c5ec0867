package arena

import (
	"sync"
	"sync/atomic"
)

// classSizes are the sizes of slots: steps of 16 up to 256, then eight per
// doubling up to 16 KiB. Where a page holds as many slots of a larger size, that
// one is taken: 13,104 instead of 12,288, since five fit either way.
var classSizes = func() (sizes []int) {
	add := func(s int) {
		s = pageSize / (pageSize / s) &^ (align - 1)
		if len(sizes) == 0 || s > sizes[len(sizes)-1] {
			sizes = append(sizes, s)
		}
	}
	for s := align; s <= 128; s += align {
		add(s)
	}
	for base := 128; base < maxSmall; base *= 2 {
		for i := 1; i <= 8; i++ {
			add(base + i*base/8)
		}
	}
	return sizes
}()

// classOf gives the class of a size in steps of 16.
var classOf = func() (of [maxSmall/align + 1]uint8) {
	k := 0
	for i := range of {
		if i*align > classSizes[k] {
			k++
		}
		of[i] = uint8(k)
	}
	return of
}()

const buckets = 4

// class is one size of slots and the pages cut into them.
type class struct {
	mu      sync.Mutex
	current *page // where Alloc takes from; nil when it is full
	size    int
	step    int    // size in steps of 16
	magic   uint64 // (1<<24)/step rounded up: off*magic>>24 is off/step for all off in a page
	slots   int    // per page
	quarter int    // of them, rounded up
	used    int    // slots in use
	pages   int
	id      uint32 // index + 1
	lists   [buckets]struct{ head, tail *page }
	_       [64]byte // the next class's lock lies in another cache line
}

func (c *class) init(i int) {
	c.id = uint32(i + 1)
	c.size = classSizes[i]
	c.step = c.size / align
	c.magic = (1<<24 + uint64(c.step) - 1) / uint64(c.step)
	c.slots = pageSize / c.size
	c.quarter = (c.slots + buckets - 1) / buckets
}

// page is the bookkeeping of 64 KiB of memory while it is cut into slots. The lock of its
// class guards it; class and sparse are also read without the lock.
type page struct {
	bits       []uint64 // a set bit is a free slot
	next, prev *page    // in its list
	base       Ref
	class      atomic.Uint32 // id of its class; 0: not cut into slots
	sparse     atomic.Bool   // marked by Sparse: no new allocations here
	listed     bool
	bucket     uint8
	hint       uint16    // no free slot in words below this one
	free       int32     // slots
	room       [8]uint64 // bits of classes from 128 bytes up, in the neighbouring cache line
}

// cut makes a page of free slots.
func (p *page) cut(c *class) {
	words := (c.slots + 63) / 64
	switch {
	case words <= len(p.room):
		p.bits = p.room[:words]
	case len(p.bits) >= words:
		p.bits = p.bits[:words]
	default:
		p.bits = make([]uint64, words)
	}
	for i := range p.bits {
		p.bits[i] = ^uint64(0)
	}
	if rest := c.slots % 64; rest != 0 {
		p.bits[words-1] = 1<<rest - 1
	}
	p.hint, p.free = 0, int32(c.slots)
	p.class.Store(c.id)
}

// put frees the slot at off, in steps of 16. It reports false if no slot in use begins there.
func (p *page) put(c *class, off int) bool {
	slot := int(uint64(off) * c.magic >> 24)
	w, bit := slot>>6, uint64(1)<<(slot&63)
	if slot*c.step != off || slot >= c.slots || p.bits[w]&bit != 0 {
		return false
	}
	p.bits[w] |= bit
	p.hint = min(p.hint, uint16(w))
	p.free++
	return true
}

// used returns how many slots of the page are in use.
func (p *page) used(c *class) int { return c.slots - int(p.free) }

func (p *page) empty(c *class) bool { return int(p.free) == c.slots }

// nextPage makes another page the current one: the fullest page with a free slot, else a
// new page. Within a bucket the page that has waited longest is taken: it has had the most
// time to collect free slots.
func (a *Arena) nextPage(c *class) (*page, error) {
	for b := range c.lists {
		if p := c.lists[b].head; p != nil {
			c.unlist(p)
			c.current = p
			return p, nil
		}
	}
	a.pool.mu.Lock()
	ch, unit, err := a.takeRun(pageUnits, true)
	a.pool.mu.Unlock()
	if err != nil {
		return nil, err
	}
	p := &ch.pages[unit/pageUnits]
	p.base = ch.ref(unit)
	p.cut(c)
	c.current = p
	c.pages++
	return p, nil
}

// freePage gives an empty page back to the pool, where it can serve any class.
func (a *Arena) freePage(c *class, p *page) {
	if p == c.current {
		c.current = nil
	}
	c.unlist(p)
	p.class.Store(0)
	p.sparse.Store(false)
	c.pages--
	ch := a.chunks[p.base>>refChunk].Load()
	a.pool.mu.Lock()
	a.giveRun(ch, ch.unit(p.base), pageUnits)
	a.pool.mu.Unlock()
}

// refile moves a page with free slots to the list of its bucket. Bucket 0 holds the fullest
// pages.
func (c *class) refile(p *page) {
	b := uint8(0)
	for f := int(p.free) - c.quarter; f > 0; f -= c.quarter {
		b++
	}
	if p.listed && p.bucket == b {
		return
	}
	c.unlist(p)
	if p.free == 0 {
		return
	}
	l := &c.lists[b]
	p.listed, p.bucket, p.prev = true, b, l.tail
	if l.tail != nil {
		l.tail.next = p
	} else {
		l.head = p
	}
	l.tail = p
}

func (c *class) unlist(p *page) {
	if !p.listed {
		return
	}
	l := &c.lists[p.bucket]
	if p.prev != nil {
		p.prev.next = p.next
	} else {
		l.head = p.next
	}
	if p.next != nil {
		p.next.prev = p.prev
	} else {
		l.tail = p.prev
	}
	p.next, p.prev, p.listed = nil, nil, false
}
