package keyspace

import (
	"encoding/binary"
	"slices"

	"redoubt/engine"
)

// A value that an execution has just made has no rows in the store, since its id was
// never used. On a remote store its rows are not looked up there: a new collection of a
// thousand elements would cost a thousand round trips.

// isFresh reports whether a row belongs to such a value.
func (t *Tx) isFresh(row []byte) bool {
	return len(t.fresh) > 0 && len(row) >= partHead && row[2] >= kindSub && row[2] <= kindRank &&
		slices.Contains(t.fresh, binary.BigEndian.Uint64(row[3:]))
}

// rowsOf returns the transaction in which to look up a row, or a range that begins there:
// for a fresh value one that has only the rows of the batch. For a value that is written
// aside, the portion that is not committed yet lies between the batch and the view.
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

// noView is a read-only view of no rows.
var noView engine.View = nothing{}

type nothing struct{ engine.View }

func (nothing) Get(_, dst []byte) ([]byte, bool, error)  { return dst, false, nil }
func (nothing) Iter(_, _ []byte, _ bool) engine.Iterator { return noRows{} }
func (nothing) Edge(_, _ []byte, _ bool, b []byte) ([]byte, int, bool, error) {
	return b, 0, false, nil
}
func (nothing) Count(_, _ []byte) (int, bool)                         { return 0, true }
func (nothing) Nth(_, _ []byte, _ int, b []byte) ([]byte, bool, bool) { return b, false, true }
