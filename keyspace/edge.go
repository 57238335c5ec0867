package keyspace

import "fmt"

// EdgeRow returns the first of a type's own rows with lo <= key < hi, or the last
// if reverse, and whether there is one: what the first step of IterRows would
// return, at a lower cost. hi is not nil.
func (t *Tx) EdgeRow(lo, hi []byte, reverse bool) (key, value []byte, found bool) {
	if t.err != nil {
		return nil, nil, false
	}
	if t.reads++; t.reads > 1 && !t.Latched {
		t.err = NeedsLatch
		return nil, nil, false
	}
	at := len(t.vals)
	row, n, found, err := t.rowsOf(lo).Edge(lo, hi, reverse, t.vals)
	if err != nil {
		t.err = fmt.Errorf("read row: %w", err)
		return nil, nil, false
	}
	t.vals = row
	row = row[at:len(row):len(row)]
	return row[:n:n], row[n:], found
}

// EdgeKind returns the first row that IterKind would visit: its key behind the
// first RowKeyHead bytes, and its value.
func (t *Tx) EdgeKind(r Ref, k Kind, from, to []byte, reverse bool) (rest, value []byte, found bool) {
	// The bounds are kept in t.vals, so that they need no allocation.
	at := len(t.vals)
	t.vals = append(AppendRowKey(t.vals, r, k), from...)
	lo := t.vals[at:len(t.vals):len(t.vals)]
	at = len(t.vals)
	t.vals = append(AppendRowKey(t.vals, r, k), to...)
	hi := t.vals[at:len(t.vals):len(t.vals)]
	if to == nil {
		hi = successorIn(hi)
	}
	key, value, found := t.EdgeRow(lo, hi, reverse)
	if !found {
		return nil, nil, false
	}
	return key[partHead:], value, true
}
