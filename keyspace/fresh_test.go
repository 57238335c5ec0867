package keyspace

import (
	"encoding/binary"
	"testing"

	"redoubt/engine"
)

// Rows of a new value are looked for in the batch alone; others are not.
func TestFreshRows(t *testing.T) {
	t.Parallel()
	b := new(engine.Batch)
	tx := &Tx{Rows: engine.Txn{Batch: b}, Latched: true, fresh: []uint64{7}} // without a view, a read of it panics
	mine := AppendRowKey(nil, Ref{ID: 7, Home: 3}, SubRow)
	if _, found := tx.GetRow(mine); found {
		t.Error("a row that nobody put")
	}
	b.Put(mine, []byte("v"))
	v, found := tx.GetRow(mine)
	b.Put(mine, []byte("w"))
	lo, hi := kindRange(Ref{ID: 7, Home: 3}, SubRow, nil, nil)
	if key, value, found := tx.EdgeRow(lo, hi, true); string(key) != string(mine) || string(value) != "w" || !found {
		t.Errorf("the last one is % x, %q, %v", key, value, found)
	}
	n := 0
	it := tx.IterRows(lo, hi, false)
	for it.Next() {
		n++
	}
	if tx.CloseRows(it); n != 1 || tx.Err() != nil {
		t.Errorf("%d rows, %v", n, tx.Err())
	}
	if string(v) != "v" || !found {
		t.Errorf("%q, %v", v, found)
	}
	b.Delete(mine)
	if _, found := tx.GetRow(mine); found {
		t.Error("a row that was deleted")
	}
	meta := binary.BigEndian.AppendUint64([]byte{0, 3, kindMeta}, 7)
	for _, row := range [][]byte{AppendRowKey(nil, Ref{ID: 8, Home: 3}, SubRow), meta, meta[:5], {system, kindSub}} {
		if tx.isFresh(row) {
			t.Errorf("% x is not a row of the new value", row)
		}
	}
}
