package engine

import "bytes"

// Edge appends the key and the value of the first row with lo <= key < hi, or of
// the last one if reverse, to b, and returns the length of the key and whether there is
// such a row. hi is not nil. The result is what the first step of an iterator would
// show, for less: most look-ups in an order, such as the run of a sorted set that an
// element belongs to, or the element that is popped next, need no more.
func (t *Txn) Edge(lo, hi []byte, reverse bool, b []byte) (row []byte, key int, found bool, err error) {
	if bytes.Compare(lo, hi) >= 0 {
		return b, 0, false, nil
	}
	switch {
	case len(t.Batch.ranges) > 0:
		return EdgeByIter(t, lo, hi, reverse, b)
	case len(t.Batch.log) > 0:
		return t.mergeEdge(lo, hi, reverse, b)
	}
	return t.View.Edge(lo, hi, reverse, b)
}

// mergeEdge is Edge where the batch may have rows of the range. If the view's row is one
// that the batch has deleted, mergeEdge asks the view again for the row behind it.
func (t *Txn) mergeEdge(lo, hi []byte, reverse bool, b []byte) (row []byte, key int, found bool, err error) {
	batch, at, begin, end := t.Batch, len(b), lo, hi
	own := batch.cursor(lo, hi, reverse)
	o := own.o
	lo, hi = batch.narrow(o, lo, hi, reverse)
	own.lo, own.hi = lo, hi
	steps := 0
	for {
		if lo, hi = own.passDeleted(lo, hi); bytes.Compare(lo, hi) >= 0 {
			found = false
			break
		}
		if steps > maxSteps {
			return EdgeByIter(t, begin, end, reverse, b[:at])
		}
		if row, key, found, err = t.View.Edge(lo, hi, reverse, b[:at]); err != nil {
			return b[:at], 0, false, err
		}
		b = row
		mine, same := own.before(row[at:at+key], found)
		if mine >= 0 && !batch.at(mine).deleted {
			op := batch.op(mine)
			b, key, found = append(append(b[:at], op.Key...), op.Value...), len(op.Key), true
			break
		}
		if mine < 0 || !same {
			break
		}
		// The view's row is deleted.
		own.take(mine)
		steps++
		if k := batch.keyAt(mine); reverse {
			hi = k
		} else {
			lo = own.after(k)
		}
	}
	if !found { // an earlier step may have found a row that the batch deletes
		b, key = b[:at], 0
	}
	if !bytes.Equal(lo, begin) || !bytes.Equal(hi, end) {
		batch.noteGap(o, begin, end, reverse, b[at:at+key], found)
	}
	return b, key, found, nil
}

// maxSteps is how many deleted rows mergeEdge steps over one by one before it uses an
// iterator.
const maxSteps = 64

// after returns the first key behind a key, valid until the next call.
func (c *cursor) after(key []byte) []byte {
	c.o.bound = append(append(c.o.bound[:0], key...), 0)
	return c.o.bound
}

// passDeleted narrows a range by rows that the batch has deleted exactly at its
// beginning, or at its end if the cursor walks backwards.
func (c *cursor) passDeleted(lo, hi []byte) (_, _ []byte) {
	for i := c.peek(); i >= 0 && c.b.at(i).deleted; i = c.peek() {
		switch k := c.b.keyAt(i); {
		case !c.reverse && bytes.Equal(k, lo):
			lo = c.after(k)
		case c.reverse && len(hi) == len(k)+1 && hi[len(k)] == 0 && bytes.Equal(k, hi[:len(k)]):
			hi = k
		default:
			return lo, hi
		}
		c.take(i)
	}
	return lo, hi
}

// before moves past deleted rows that come before the view's row key, and returns the
// batch's next row: a row before key, or key itself (same is true), or -1 if it comes
// behind key. found is false if the view has no row; then all rows come before.
func (c *cursor) before(key []byte, found bool) (row int32, same bool) {
	for i := c.peek(); i >= 0; i = c.peek() {
		order := -1
		if found {
			if order = bytes.Compare(c.b.keyAt(i), key); c.reverse {
				order = -order
			}
		}
		if order > 0 {
			return -1, false
		}
		if order == 0 || !c.b.at(i).deleted {
			return i, order == 0
		}
		c.take(i)
	}
	return -1, false
}

// A gap is a range without rows, neither of the view nor of the batch: what commands
// of a batch leave behind that pop from a queue one after the other. It is known as
// long as the batch puts no row there; the view gets none, since the commands that
// popped hold the latches.
type gap struct {
	known  bool
	lo, hi []byte
	seen   int // narrow has examined the notes below this index
}

// narrow cuts the gap off a range that begins, or ends if reverse, in the gap.
func (b *Batch) narrow(o *order, lo, hi []byte, reverse bool) (_, _ []byte) {
	g := &o.gap
	if !g.known {
		return lo, hi
	}
	for ; g.seen < len(b.log); g.seen++ {
		if e := &b.log[g.seen]; !e.deleted && (o.all || b.heads[e.row].near == o.near) && inRange(b.keyAt(e.row), g.lo, g.hi) {
			g.known = false
			return lo, hi
		}
	}
	switch {
	case !reverse && bytes.Compare(g.lo, lo) <= 0 && bytes.Compare(lo, g.hi) < 0:
		lo = g.hi
	case reverse && bytes.Compare(g.lo, hi) < 0 && bytes.Compare(hi, g.hi) <= 0:
		hi = g.lo
	}
	return lo, hi
}

// noteGap notes that there is no row before the one that Edge has found, or, if it has
// found none, no row in the range.
func (b *Batch) noteGap(o *order, lo, hi []byte, reverse bool, key []byte, found bool) {
	g := &o.gap
	switch {
	case found && reverse:
		g.lo, g.hi = append(append(g.lo[:0], key...), 0), append(g.hi[:0], hi...)
	case found:
		g.lo, g.hi = append(g.lo[:0], lo...), append(g.hi[:0], key...)
	default:
		g.lo, g.hi = append(g.lo[:0], lo...), append(g.hi[:0], hi...)
	}
	g.known, g.seen = true, len(b.log)
}

// A tally counts the rows of a range that a batch has put, and those it has deleted.
type tally struct {
	known        bool
	lo, hi       []byte
	seen         int // the notes below this index are counted
	put, deleted int
}

// tally counts the rows of a range that the batch has put, and those it has deleted.
func (b *Batch) tally(lo, hi []byte) (put, deleted int) {
	o := b.neighbours(lo, hi)
	t := &o.tally
	if !t.known || !bytes.Equal(t.lo, lo) || !bytes.Equal(t.hi, hi) {
		*t = tally{known: true, lo: append(t.lo[:0], lo...), hi: append(t.hi[:0], hi...)}
	}
	for ; t.seen < len(b.log); t.seen++ {
		e := &b.log[t.seen]
		if !o.all && b.heads[e.row].near != o.near || !inRange(b.keyAt(e.row), lo, hi) {
			continue
		}
		if e.prev >= 0 {
			t.add(&b.log[e.prev], -1)
		}
		t.add(e, 1)
	}
	return t.put, t.deleted
}

func (t *tally) add(e *entry, n int) {
	if e.deleted {
		t.deleted += n
	} else {
		t.put += n
	}
}
