package engine

import (
	"bytes"
	"encoding/binary"
	"slices"
	"sort"
)

// order is the key order of some rows of a batch, as indices into its heads: a
// list of short sorted runs, so that a row is put in at the cost of moving a few
// hundred numbers, however large the batch is.
//
// A batch has an order for each group of keys in which there was a walk (see
// Batch.GroupBy), and one for all keys if there was a walk over several groups. Noting a
// row does nothing to orders: an order takes in the rows that are new when a walk needs
// it. So each of many commands in a batch can walk over a range, and rows that no walk
// visits cost nothing.
type order struct {
	near  uint64
	all   bool // holds the rows of all groups; near is not used
	seen  int  // heads below this index are in, if they belong to the group
	runs  [][]int32
	n     int
	moves int       // incremented whenever places of rows change
	spare [][]int32 // free list of runs
	gap   gap
	tally tally
	bound []byte // scratch
}

const (
	// runMax is how long a run may be.
	runMax = 256
	// maxOrders is how many orders a batch keeps.
	maxOrders = 64
)

// GroupBy tells an empty batch that walks mostly stay among keys with the same first n
// bytes, which makes such walks cheap in a batch of many rows. n is 8 or more; by
// default it is 0, and all keys are one group.
func (b *Batch) GroupBy(n int) { b.group = n }

// place is where a row is in an order: the run and the index in that run.
type place struct{ run, at int }

// nearOf is the group of a key: the last eight bytes of its prefix. Groups whose
// prefixes differ only before those bytes share an order.
func (b *Batch) nearOf(key []byte) uint64 {
	if n := b.group; n >= 8 && len(key) >= n {
		return binary.BigEndian.Uint64(key[n-8 : n])
	}
	return 0
}

// neighbours returns the order that the rows of a range belong to. It may hold other
// rows, too, and may lack new ones.
func (b *Batch) neighbours(lo, hi []byte) *order {
	near, all := uint64(0), true
	if n := b.group; n >= 8 && len(lo) >= n && len(hi) >= n && string(lo[:n]) == string(hi[:n]) {
		near, all = b.nearOf(lo), false
	}
	for _, o := range b.orders {
		if o.near == near && o.all == all {
			return o
		}
	}
	if len(b.orders) >= maxOrders {
		b.dropOrders()
	}
	var o *order
	if n := len(b.spare); n > 0 {
		o, b.spare = b.spare[n-1], b.spare[:n-1]
	} else {
		o = new(order)
	}
	o.near, o.all = near, all
	b.orders = append(b.orders, o)
	return o
}

// ordered is neighbours with all rows of the batch taken in.
func (b *Batch) ordered(lo, hi []byte) *order {
	o := b.neighbours(lo, hi)
	if o.seen < len(b.heads) {
		b.takeIn(o)
	}
	return o
}

// takeIn inserts into an order the rows that are new since it was last used.
func (b *Batch) takeIn(o *order) {
	if o.seen == 0 {
		b.build(o)
		return
	}
	for i := o.seen; i < len(b.heads); i++ {
		if o.all || b.heads[i].near == o.near {
			o.insert(b.seek(o, b.keyAt(int32(i))), int32(i))
		}
	}
	o.seen = len(b.heads)
}

// build fills an empty order with the rows that belong to it.
func (b *Batch) build(o *order) {
	first := o.newRun()
	all := first
	for i := range b.heads {
		if o.all || b.heads[i].near == o.near {
			all = append(all, int32(i))
		}
	}
	o.seen, o.n = len(b.heads), len(all)
	o.moves++
	if len(all) > 1 {
		slices.SortFunc(all, func(x, y int32) int { return bytes.Compare(b.keyAt(x), b.keyAt(y)) })
	}
	switch {
	case len(all) == 0:
		o.spare = append(o.spare, first)
	case len(all) <= runMax:
		o.runs = append(o.runs, all)
	default:
		for run := range slices.Chunk(all, runMax/2) {
			o.runs = append(o.runs, append(o.newRun(), run...))
		}
	}
}

func (o *order) newRun() []int32 {
	if n := len(o.spare); n > 0 {
		run := o.spare[n-1]
		o.spare = o.spare[:n-1]
		return run[:0]
	}
	return make([]int32, 0, 16)
}

// empty removes all rows from an order.
func (o *order) empty() {
	const keep = 16
	if room := keep - len(o.spare); room > 0 {
		o.spare = append(o.spare, o.runs[:min(room, len(o.runs))]...)
	}
	clear(o.runs)
	o.runs, o.n, o.seen = o.runs[:0], 0, 0
	o.moves++
	o.gap.known, o.tally.known = false, false
}

// dropOrders empties all orders and moves them to the free list.
func (b *Batch) dropOrders() {
	for _, o := range b.orders {
		o.empty()
		b.spare = append(b.spare, o)
	}
	clear(b.orders)
	b.orders = b.orders[:0]
}

// reorder is called after a rollback. It empties orders that hold removed rows, so that
// the next walk builds them anew, and forgets gaps and tallies that depend on removed
// notes.
func (b *Batch) reorder() {
	for _, o := range b.orders {
		if o.seen > len(b.heads) {
			o.empty()
		}
		if o.gap.seen > len(b.log) {
			o.gap.known = false
		}
		if o.tally.seen > len(b.log) {
			o.tally.known = false
		}
	}
}

// seek returns the place of the first row whose key is not below a key.
func (b *Batch) seek(o *order, key []byte) place {
	runs := o.runs
	r := 0
	if len(runs) > 1 {
		r = sort.Search(len(runs), func(i int) bool {
			run := runs[i]
			return bytes.Compare(b.keyAt(run[len(run)-1]), key) >= 0
		})
	}
	if r == len(runs) {
		return place{r, 0}
	}
	run := runs[r]
	at, n := 0, len(run)
	for at < n {
		if mid := int(uint(at+n) >> 1); bytes.Compare(b.keyAt(run[mid]), key) < 0 {
			at = mid + 1
		} else {
			n = mid
		}
	}
	if at == len(run) { // only in the last run
		return place{r + 1, 0}
	}
	return place{r, at}
}

func (o *order) insert(p place, i int32) {
	o.moves++
	o.n++
	if p.run == len(o.runs) {
		if p.run == 0 {
			o.runs = append(o.runs, append(o.newRun(), i))
			return
		}
		p.run--
		p.at = len(o.runs[p.run])
	}
	run := slices.Insert(o.runs[p.run], p.at, i)
	if len(run) > runMax {
		half := len(run) / 2
		o.runs = slices.Insert(o.runs, p.run+1, append(o.newRun(), run[half:]...))
		run = run[:half]
	}
	o.runs[p.run] = run
}

// cursor walks over the batch's rows of a range. It stays correct when rows are inserted
// meanwhile: it then seeks its place again.
type cursor struct {
	b       *Batch
	o       *order
	lo, hi  []byte
	reverse bool
	last    []byte // the key that was given out last; nil at the beginning
	next    place
	moves   int
	near    uint64 // o.near and o.all when the cursor began
	all     bool
}

func (b *Batch) cursor(lo, hi []byte, reverse bool) cursor {
	o := b.ordered(lo, hi)
	return cursor{b: b, o: o, lo: lo, hi: hi, reverse: reverse, moves: o.moves - 1, near: o.near, all: o.all}
}

// find sets next to the place of the row after last.
func (c *cursor) find() {
	if c.o.seen == 0 || c.o.near != c.near || c.o.all != c.all { // dropOrders has emptied it
		c.o = c.b.ordered(c.lo, c.hi)
	}
	o := c.o
	c.moves = o.moves
	if c.reverse {
		end := c.hi
		if c.last != nil {
			end = c.last
		}
		c.next = place{len(o.runs), 0}
		if end != nil {
			c.next = c.b.seek(o, end)
		}
		c.back()
		return
	}
	if c.last == nil {
		c.next = c.b.seek(o, c.lo)
		return
	}
	if c.next = c.b.seek(o, c.last); c.next.run < len(o.runs) && bytes.Equal(c.b.keyAt(o.runs[c.next.run][c.next.at]), c.last) {
		c.next.at++
	}
}

// back moves next one place back; next.run is -1 if there is none.
func (c *cursor) back() {
	if c.next.at > 0 {
		c.next.at--
		return
	}
	if c.next.run--; c.next.run >= 0 {
		c.next.at = len(c.o.runs[c.next.run]) - 1
	}
}

// peek returns the row that comes next, or -1.
func (c *cursor) peek() int32 {
	if c.moves != c.o.moves {
		c.find()
	}
	o := c.o
	if !c.reverse && c.next.run < len(o.runs) && c.next.at == len(o.runs[c.next.run]) {
		c.next = place{c.next.run + 1, 0}
	}
	if c.next.run < 0 || c.next.run >= len(o.runs) {
		return -1
	}
	i := o.runs[c.next.run][c.next.at]
	key := c.b.keyAt(i)
	if c.reverse && bytes.Compare(key, c.lo) < 0 || !c.reverse && c.hi != nil && bytes.Compare(key, c.hi) >= 0 {
		return -1
	}
	return i
}

// take steps over the row that peek returned.
func (c *cursor) take(i int32) {
	c.last = c.b.keyAt(i)
	if c.reverse {
		c.back()
	} else {
		c.next.at++
	}
}
