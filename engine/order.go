package engine

import (
	"bytes"
	"slices"
	"sort"
)

// order is the key order of a batch's newest entries, as indices into its log: a
// list of short sorted runs, so that an entry is put in or taken out at the cost of
// moving a few hundred numbers, however large the batch is.
//
// It is made when somebody first iterates, and kept up to date by the notes that
// follow, so that each of many commands in a batch can walk over a range. When
// nobody asks for it any more it is given up.
type order struct {
	runs  [][]int32
	n     int
	live  bool
	moves int       // changes with every change of the places of entries
	idle  int       // changes since it was last asked for
	spare [][]int32 // runs to be used again
}

// runMax is how long a run may be.
const runMax = 256

// place is where an entry is.
type place struct{ run, at int }

// ordered returns the order, up to date.
func (b *Batch) ordered() *order {
	o := &b.order
	o.idle = 0
	if o.live {
		return o
	}
	o.drop()
	all := make([]int32, 0, len(b.log))
	for i := range b.log {
		if !b.log[i].stale {
			all = append(all, int32(i))
		}
	}
	slices.SortFunc(all, func(x, y int32) int { return bytes.Compare(b.keyAt(x), b.keyAt(y)) })
	o.n, o.live = len(all), true
	for run := range slices.Chunk(all, runMax/2) {
		o.runs = append(o.runs, append(o.newRun(), run...))
	}
	return o
}

func (o *order) newRun() []int32 {
	if n := len(o.spare); n > 0 {
		run := o.spare[n-1]
		o.spare = o.spare[:n-1]
		return run[:0]
	}
	return make([]int32, 0, runMax+1)
}

// drop gives the order up.
func (o *order) drop() {
	const keep = 256
	if room := keep - len(o.spare); room > 0 {
		o.spare = append(o.spare, o.runs[:min(room, len(o.runs))]...)
	}
	clear(o.runs)
	o.runs, o.n, o.live = o.runs[:0], 0, false
	o.moves++
}

// seek returns the place of the first entry whose key is not below a key.
func (b *Batch) seek(key []byte) place {
	runs := b.order.runs
	r := sort.Search(len(runs), func(i int) bool {
		run := runs[i]
		return bytes.Compare(b.keyAt(run[len(run)-1]), key) >= 0
	})
	if r == len(runs) {
		return place{r, 0}
	}
	at, _ := slices.BinarySearchFunc(runs[r], key, func(i int32, key []byte) int { return bytes.Compare(b.keyAt(i), key) })
	return place{r, at}
}

// reorder replaces the entry of a key by another one; -1 stands for none.
func (b *Batch) reorder(key []byte, from, to int32) {
	o := &b.order
	if o.idle++; o.idle > 64+o.n/4 {
		o.drop()
		return
	}
	p := b.seek(key)
	switch {
	case from >= 0 && to >= 0:
		o.runs[p.run][p.at] = to
	case to >= 0:
		o.insert(p, to)
	default:
		o.remove(p)
	}
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

func (o *order) remove(p place) {
	o.moves++
	o.n--
	run := slices.Delete(o.runs[p.run], p.at, p.at+1)
	o.runs[p.run] = run
	if len(run) == 0 {
		o.spare = append(o.spare, run)
		o.runs = slices.Delete(o.runs, p.run, p.run+1)
	}
}

// cursor walks over the entries of a range. It stays right when entries come and
// go meanwhile: it then looks for its place again.
type cursor struct {
	b       *Batch
	lo, hi  []byte
	reverse bool
	last    []byte // the key that was given out last; nil at the beginning
	next    place
	moves   int
}

func (b *Batch) cursor(lo, hi []byte, reverse bool) cursor {
	return cursor{b: b, lo: lo, hi: hi, reverse: reverse, moves: -1}
}

// find makes next the place of the entry that comes next.
func (c *cursor) find() {
	o := c.b.ordered()
	c.moves = o.moves
	if c.reverse {
		end := c.hi
		if c.last != nil {
			end = c.last
		}
		c.next = place{len(o.runs), 0}
		if end != nil {
			c.next = c.b.seek(end)
		}
		c.back()
		return
	}
	if c.last == nil {
		c.next = c.b.seek(c.lo)
		return
	}
	if c.next = c.b.seek(c.last); c.next.run < len(o.runs) && bytes.Equal(c.b.keyAt(o.runs[c.next.run][c.next.at]), c.last) {
		c.next.at++
	}
}

// back moves next to the place before it; its run is -1 if there is none.
func (c *cursor) back() {
	if c.next.at > 0 {
		c.next.at--
		return
	}
	if c.next.run--; c.next.run >= 0 {
		c.next.at = len(c.b.order.runs[c.next.run]) - 1
	}
}

// peek returns the entry that comes next, or -1.
func (c *cursor) peek() int32 {
	o := &c.b.order
	if !o.live || c.moves != o.moves {
		c.find()
	}
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

// take steps over the entry that peek returned.
func (c *cursor) take(i int32) {
	c.last = c.b.keyAt(i)
	if c.reverse {
		c.back()
	} else {
		c.next.at++
	}
}
