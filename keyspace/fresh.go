package keyspace

import (
	"encoding/binary"
	"slices"
)

// A value that an execution has just made has no rows in the store, since its id was
// never used. Where to look for one is a trip over a network it is not done: a new
// collection of a thousand elements would make a thousand of them.

// isFresh says that a row belongs to such a value.
func (t *Tx) isFresh(row []byte) bool {
	return len(t.fresh) > 0 && len(row) >= partHead && row[2] >= kindSub && row[2] <= kindRank &&
		slices.Contains(t.fresh, binary.BigEndian.Uint64(row[3:]))
}

// getFresh is GetRow for such a row.
func (t *Tx) getFresh(row []byte) ([]byte, bool) {
	v, found, _ := t.Rows.Batch.Get(row)
	at := len(t.vals)
	t.vals = append(t.vals, v...)
	return t.vals[at:len(t.vals):len(t.vals)], found
}
