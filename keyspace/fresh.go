package keyspace

import (
	"encoding/binary"
	"slices"

	"redoubt/engine"
)

// A value that an execution has just made has no rows in the store, since its id was
// never used. Where to look for one is a trip over a network it is not done: a new
// collection of a thousand elements would make a thousand of them.

// isFresh says that a row belongs to such a value.
func (t *Tx) isFresh(row []byte) bool {
	return len(t.fresh) > 0 && len(row) >= partHead && row[2] >= kindSub && row[2] <= kindRank &&
		slices.Contains(t.fresh, binary.BigEndian.Uint64(row[3:]))
}

// rowsOf is where the row is looked for, or the range that begins there: for such a
// value among the rows that the execution has written, and nowhere else. A portion of a
// large value that is not committed yet comes between the batch and the view.
func (t *Tx) rowsOf(row []byte) *engine.Txn {
	if t.builds(row) && t.building.rows != nil {
		view := &portion{t.Rows.View, engine.Txn{View: t.Rows.View, Batch: t.building.rows}}
		t.own = engine.Txn{View: view, Batch: t.Rows.Batch}
		return &t.own
	}
	if !t.isFresh(row) {
		return &t.Rows
	}
	t.own = engine.Txn{View: noView, Batch: t.Rows.Batch}
	return &t.own
}

// noView is a view of no rows, to be read only.
var noView engine.View = nothing{}

type nothing struct{ engine.View }

func (nothing) Get(_, dst []byte) ([]byte, bool, error)  { return dst, false, nil }
func (nothing) Iter(_, _ []byte, _ bool) engine.Iterator { return noRows{} }
func (nothing) Edge(_, _ []byte, _ bool, b []byte) ([]byte, int, bool, bool) {
	return b, 0, false, true
}
