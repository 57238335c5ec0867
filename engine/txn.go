package engine

import "bytes"

// Txn is a View seen through a Batch: reads find the batch's own writes first.
type Txn struct {
	View  View
	Batch *Batch
}

// Get appends the row's value to dst; see Reader.Get.
func (t *Txn) Get(key, dst []byte) ([]byte, bool, error) {
	if v, found, known := t.Batch.Get(key); known {
		return append(dst, v...), found, nil
	}
	return t.View.Get(key, dst)
}

// Iter iterates over the merge of view and batch; see Reader.Iter. Rows that are written
// while the iterator is in use may show in it or not.
func (t *Txn) Iter(lo, hi []byte, reverse bool) Iterator {
	if t.Batch.Len() == 0 && len(t.Batch.ranges) == 0 {
		return t.View.Iter(lo, hi, reverse)
	}
	own := t.Batch.cursor(bytes.Clone(lo), bytes.Clone(hi), reverse)
	if own.peek() < 0 && len(t.Batch.ranges) == 0 {
		return t.View.Iter(lo, hi, reverse)
	}
	lo, hi = t.skip(&own, lo, hi)
	m := &merged{batch: t.Batch, reverse: reverse, own: own, under: t.View.Iter(lo, hi, reverse)}
	m.have = m.advance()
	return m
}

// skip starts a walk behind the rows at its beginning that the batch has deleted, as
// commands of a batch do that pop from a queue one after the other. It changes nothing
// unless Count of the view shows that no other rows lie before or among them.
func (t *Txn) skip(own *cursor, lo, hi []byte) (_, _ []byte) {
	if hi == nil {
		return lo, hi
	}
	c, n := *own, 0
	for i := c.peek(); i >= 0 && t.Batch.at(i).deleted; i = c.peek() {
		c.take(i)
		n++
	}
	if n < fewDeleted {
		return lo, hi
	}
	from, to := lo, hi
	if own.reverse {
		from = c.last
	} else {
		to = append(append(make([]byte, 0, len(c.last)+1), c.last...), 0)
	}
	rows, ok := t.View.Count(from, to)
	if !ok {
		return lo, hi
	}
	// Rows that the batch has put and deleted are not in the view, and the view may have
	// other rows between them.
	there := 0
	for c = *own; n > 0; n-- {
		i := c.peek()
		found, err := t.under(i)
		if err != nil {
			return lo, hi // the walk returns the error
		}
		if found {
			there++
		}
		c.take(i)
	}
	if rows != there {
		return lo, hi
	}
	*own = c
	if own.reverse {
		return lo, from
	}
	return to, hi
}

// under reports whether the view has a row of the batch. The answer is kept: the rows
// that a batch writes are latched.
func (t *Txn) under(row int32) (bool, error) {
	h := &t.Batch.heads[row]
	if h.under == 0 {
		var buf [64]byte
		_, found, err := t.View.Get(t.Batch.arena[h.key:h.end], buf[:0])
		if err != nil {
			return false, err
		}
		if h.under = -1; found {
			h.under = 1
		}
	}
	return h.under > 0, nil
}

// fewDeleted is the number of deleted rows from which on skip calls Count.
const fewDeleted = 4

// Count counts the rows of a range without a walk, if the view can; see Reader.
func (t *Txn) Count(lo, hi []byte) (n int, ok bool) {
	if len(t.Batch.ranges) > 0 {
		return 0, false
	}
	if n, ok = t.View.Count(lo, hi); !ok || t.Batch.Len() == 0 {
		return n, ok
	}
	if put, deleted := t.Batch.tally(lo, hi); put+deleted == 0 {
		return n, true
	} else if put+deleted > maxCounted {
		return 0, false
	}
	own := t.Batch.cursor(lo, hi, false)
	for i := own.peek(); i >= 0; i = own.peek() {
		found, err := t.under(i)
		switch deleted := t.Batch.at(i).deleted; {
		case err != nil:
			return 0, false
		case found && deleted:
			n--
		case !found && !deleted:
			n++
		}
		own.take(i)
	}
	return n, true
}

// maxCounted is how many rows of the batch Count looks up.
const maxCounted = 256

// Nth finds the n-th row of a range without a walk, if the view can and the batch has
// no rows of the range; see Reader.
func (t *Txn) Nth(lo, hi []byte, n int, b []byte) (key []byte, found, ok bool) {
	if len(t.Batch.ranges) > 0 {
		return b, false, false
	}
	if t.Batch.Len() > 0 {
		if put, deleted := t.Batch.tally(lo, hi); put+deleted > 0 {
			return b, false, false
		}
	}
	return t.View.Nth(lo, hi, n, b)
}

// Any appends the key of a random row of a range, each equally likely, to b. ok is false
// if the view cannot count, or the batch has many rows of the range. intn returns a
// random number below its argument.
func (t *Txn) Any(lo, hi []byte, intn func(int) int, b []byte) (key []byte, found, ok bool) {
	if len(t.Batch.ranges) > 0 {
		return b, false, false
	}
	put, deleted := 0, 0
	if t.Batch.Len() > 0 {
		put, deleted = t.Batch.tally(lo, hi)
	}
	rows, ok := t.View.Count(lo, hi)
	if !ok || put > maxCounted || deleted > maxDeleted || rows <= 2*deleted { // else deleted rows are drawn too often
		return b, false, false
	}
	// Draw from the rows of the view and from rows that only the batch has. If a row of
	// the view is drawn that the batch has deleted, draw again.
	fresh := 0
	if put > 0 {
		if fresh, _ = t.fresh(lo, hi, -1); fresh < 0 {
			return b, false, false
		}
	}
	for at := len(b); ; b = b[:at] {
		n := intn(rows + fresh)
		if n >= rows {
			_, row := t.fresh(lo, hi, n-rows)
			return append(b, t.Batch.keyAt(row)...), true, true
		}
		if b, found, ok = t.View.Nth(lo, hi, n, b); !ok || !found {
			return b, false, false
		}
		if _, found, known := t.Batch.Get(b[at:]); found || !known {
			return b, true, true
		}
	}
}

// fresh counts the rows of a range that the batch has put and the view does not have. It
// stops at the row with the given number, counted from 0, and returns that row. n is -1
// if the view cannot be read.
func (t *Txn) fresh(lo, hi []byte, number int) (n int, row int32) {
	own := t.Batch.cursor(lo, hi, false)
	for i := own.peek(); i >= 0; i = own.peek() {
		if !t.Batch.at(i).deleted {
			there, err := t.under(i)
			if err != nil {
				return -1, -1
			}
			if !there {
				if n == number {
					return n, i
				}
				n++
			}
		}
		own.take(i)
	}
	return n, -1
}

// maxDeleted is how many rows of the range the batch may have deleted for Any to work.
const maxDeleted = 1024

// merged joins an engine's iterator with the ordered entries of a batch.
type merged struct {
	batch   *Batch
	own     cursor
	under   Iterator
	have    bool // under stands on a row that Next has not returned yet
	reverse bool
	cur     Op
	borrow  bool // cur's bytes belong to under, which must be advanced next
}

// advance moves under to its next row that no range delete covers.
func (m *merged) advance() bool {
	for m.under.Next() {
		if !m.batch.rangeDeleted(m.under.Key()) {
			return true
		}
	}
	return false
}

func (m *merged) Next() bool {
	if m.borrow {
		m.borrow, m.have = false, m.advance()
	}
	for {
		own := m.own.peek()
		c := 1 // compares the batch's next row with under's; above 0: under's comes first
		switch {
		case own < 0 && !m.have:
			m.cur = Op{}
			return false
		case own < 0:
		case !m.have:
			c = -1
		default:
			if c = bytes.Compare(m.batch.keyAt(own), m.under.Key()); m.reverse {
				c = -c
			}
		}
		if c > 0 {
			m.cur, m.borrow = Op{Key: m.under.Key(), Value: m.under.Value()}, true
			return true
		}
		if c == 0 {
			m.have = m.advance()
		}
		m.cur = m.batch.op(own)
		m.own.take(own)
		if !m.cur.Delete {
			return true
		}
	}
}

func (m *merged) Key() []byte   { return m.cur.Key }
func (m *merged) Value() []byte { return m.cur.Value }
func (m *merged) Close() error  { return m.under.Close() }
