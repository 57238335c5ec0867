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

// Iter iterates over the merge of both; see Reader.Iter. What is written while
// the iterator is in use may show in it or not.
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

// skip passes over rows that the batch has deleted at the beginning of a walk, as
// the commands of a batch do that take from a queue one after the other. It is
// possible where the view can tell that there are no others before them.
func (t *Txn) skip(own *cursor, lo, hi []byte) (_, _ []byte) {
	ranked, ok := t.View.(Ranked)
	if !ok || hi == nil {
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
	// Rows that the batch has put and deleted are not in the view, which may have
	// others between them.
	there := 0
	for c = *own; n > 0; n-- {
		i := c.peek()
		found, err := t.under(i)
		if err != nil {
			return lo, hi // whoever walks will be told
		}
		if found {
			there++
		}
		c.take(i)
	}
	from, to := lo, hi
	if own.reverse {
		from = c.last
	} else {
		to = append(append(make([]byte, 0, len(c.last)+1), c.last...), 0)
	}
	if rows, ok := ranked.Count(from, to); !ok || rows != there {
		return lo, hi
	}
	*own = c
	if own.reverse {
		return lo, from
	}
	return to, hi
}

// under says whether the view has a row of the batch. It asks once for each: the
// rows that a batch writes are latched.
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

// fewDeleted is how many deleted rows are walked over rather than counted.
const fewDeleted = 4

// Count counts the rows of a range without a walk, if the view can; see Ranked.
func (t *Txn) Count(lo, hi []byte) (n int, ok bool) {
	ranked, ok := t.View.(Ranked)
	if !ok || len(t.Batch.ranges) > 0 {
		return 0, false
	}
	if n, ok = ranked.Count(lo, hi); !ok || t.Batch.Len() == 0 {
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

// Nth finds the row of a number without a walk, if the view can and the batch has
// no rows of the range; see Ranked.
func (t *Txn) Nth(lo, hi []byte, n int, b []byte) (key []byte, found, ok bool) {
	ranked, ok := t.View.(Ranked)
	if !ok || len(t.Batch.ranges) > 0 {
		return b, false, false
	}
	if t.Batch.Len() > 0 {
		if put, deleted := t.Batch.tally(lo, hi); put+deleted > 0 {
			return b, false, false
		}
	}
	return ranked.Nth(lo, hi, n, b)
}

// Any appends the key of some row of a range, each equally likely, to b, if the
// view can tell numbers and the batch has not many rows there. intn returns a random
// number below its argument.
func (t *Txn) Any(lo, hi []byte, intn func(int) int, b []byte) (key []byte, found, ok bool) {
	ranked, ok := t.View.(Ranked)
	if !ok || len(t.Batch.ranges) > 0 {
		return b, false, false
	}
	put, deleted := 0, 0
	if t.Batch.Len() > 0 {
		put, deleted = t.Batch.tally(lo, hi)
	}
	rows, ok := ranked.Count(lo, hi)
	if !ok || put > maxCounted || deleted > maxDeleted || rows <= 2*deleted { // it would be drawn too often
		return b, false, false
	}
	// The rows of the view are drawn from, those included that the batch has deleted,
	// and those that only the batch has. A deleted one is drawn again.
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
		if b, found, ok = ranked.Nth(lo, hi, n, b); !ok || !found {
			return b, false, false
		}
		if _, found, known := t.Batch.Get(b[at:]); found || !known {
			return b, true, true
		}
	}
}

// fresh counts the rows of a range that the batch has put and the view does not have,
// -1 if the view cannot tell, and returns the one of a number, counted from 0.
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

// maxDeleted is up to how many deleted rows of the batch Any passes over.
const maxDeleted = 1024

// merged joins an engine's iterator with the ordered entries of a batch.
type merged struct {
	batch   *Batch
	own     cursor
	under   Iterator
	have    bool // under stands on a row not yet given out
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
		c := 1 // the order of the batch's next row against under's: default, under first
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
