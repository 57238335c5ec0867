package keyspace

import "encoding/binary"

// On a store that several processes share, a key's meta row is what its latch is
// inside one process: whoever changes anything of the key writes that row, and
// whoever writes anything at all has the meta rows checked of all keys that it read
// (Tx.Find notes them). So two executions of which one depends on the other conflict,
// and the engine needs to know nothing of ranges or of which rows belong together.
//
// Types that change rows of a value without a word to its meta row need not care: the
// values that an execution has found are remembered, and Guard puts the meta rows of
// those whose rows were written.

// guard is the meta row of a value that has rows of its own.
type guard struct {
	id    uint64
	row   []byte
	wrote bool
}

// guardWrite notes that a row of a value was written.
func (t *Tx) guardWrite(row []byte) {
	if len(t.guards) == 0 || len(row) < partHead {
		return
	}
	id := binary.BigEndian.Uint64(row[3:])
	for i := len(t.guards) - 1; i >= 0; i-- { // mostly the last one
		if g := &t.guards[i]; g.id == id {
			g.wrote = true
			return
		}
	}
}

// Guard ends an execution on a shared store. mark is where it began to check rows: one
// that has written nothing depends on nothing, unless the batch has written before: in
// a pipeline what is read behind a write must hold when that takes effect.
func (t *Tx) Guard(m TxMark, checks int) {
	if t.err != nil {
		return
	}
	if !t.Rows.Batch.Changed(m.rows) {
		if t.Rows.Batch.Empty() {
			t.Rows.Batch.DropChecks(checks)
		}
		return
	}
	for i := range t.guards {
		g := &t.guards[i]
		if !g.wrote {
			continue
		}
		if _, _, known := t.Rows.Batch.Get(g.row); known {
			continue
		}
		if v, found := t.GetRow(g.row); found {
			t.Rows.Batch.Put(g.row, v)
		}
	}
}
