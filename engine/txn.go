package engine

import (
	"bytes"
	"slices"
	"sort"
)

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
	under := t.View.Iter(lo, hi, reverse)
	if t.Batch.Len() == 0 {
		return under
	}
	all := t.Batch.order()
	from := sort.Search(len(all), func(i int) bool { return bytes.Compare(t.Batch.keyAt(all[i]), lo) >= 0 })
	to := len(all)
	if hi != nil {
		to = sort.Search(len(all), func(i int) bool { return bytes.Compare(t.Batch.keyAt(all[i]), hi) >= 0 })
	}
	m := &merged{batch: t.Batch, under: under, reverse: reverse}
	if from < to {
		m.own = slices.Clone(all[from:to])
	}
	if reverse {
		slices.Reverse(m.own)
	}
	m.have = m.advance()
	return m
}

// merged joins an engine's iterator with the ordered entries of a batch.
type merged struct {
	batch   *Batch
	own     []int32
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
		c := 1 // the order of the batch's next row against under's: default, under first
		switch {
		case len(m.own) == 0 && !m.have:
			m.cur = Op{}
			return false
		case len(m.own) == 0:
		case !m.have:
			c = -1
		default:
			if c = bytes.Compare(m.batch.keyAt(m.own[0]), m.under.Key()); m.reverse {
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
		m.cur = m.batch.op(&m.batch.log[m.own[0]])
		m.own = m.own[1:]
		if !m.cur.Delete {
			return true
		}
	}
}

func (m *merged) Key() []byte   { return m.cur.Key }
func (m *merged) Value() []byte { return m.cur.Value }
func (m *merged) Close() error  { return m.under.Close() }
