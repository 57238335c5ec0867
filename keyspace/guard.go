package keyspace

import "encoding/binary"

// On a store that several processes share, a key's meta row serves as its lock: an
// execution that changes anything of the key writes the meta row, and an execution that
// writes anything has the meta rows of all keys that it read in the read set of its
// commit (Tx.Find adds them). So two executions of which one depends on the other
// conflict, and the engine needs no read ranges, nor which rows belong together.
//
// A type may change rows of a value without storing its meta row: the Tx remembers the
// values that an execution has found, and Guard puts the meta rows of those whose rows
// were written.

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

// Guard ends an execution on a shared store. m and checks are the marks of its start. An
// execution that has written nothing leaves the read set, unless the batch has written
// before: a read behind a write of the same pipeline must be valid when the write commits.
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
