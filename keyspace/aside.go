package keyspace

import (
	"fmt"

	"redoubt/engine"
)

// A large value that a command makes is written aside: its rows are committed in
// portions, before the command, so that they need not be held in memory together. No
// meta row has their id yet, so nobody sees them. From the first portion on they have
// a garbage row, which the command's own commit removes when it stores the meta row.
// What came to nothing is deleted at once, or when the store is opened after a crash.
//
// Only on an engine with a cheap range delete: there garbage rows have no other use,
// and nobody clears what they name but Open.

// asideBytes is how much of a new value is held in memory. A variable for tests.
var asideBytes int64 = 4 << 20

// maxTogether is how large a value may be that has to be one commit with the command,
// on a store that is not in this process.
const maxTogether = 96 << 20

// aside is a value that is being written.
type aside struct {
	t    *Tx
	ref  Ref
	rows engine.Batch
	size int64 // of all that was put
	open bool  // a part of it is committed
}

// put adds a row to the value.
func (a *aside) put(key, value []byte) {
	t := a.t
	if t.err != nil {
		return
	}
	a.size += int64(len(key) + len(value))
	switch {
	case a.size <= asideBytes:
		t.Rows.Batch.Put(key, value)
	case t.Aside != nil:
		if a.rows.Put(key, value); int64(a.rows.Size()) >= asideBytes {
			a.flush()
		}
	case a.size <= maxTogether || t.Near():
		t.Rows.Batch.Put(key, value)
	default:
		t.Fail(fmt.Errorf("the value has more than %d MB, which this store cannot write as one commit", maxTogether>>20))
	}
}

// flush commits a portion.
func (a *aside) flush() {
	t := a.t
	var fx Effects
	if !a.open {
		a.rows.Put(appendGarbageKey(nil, a.ref.Home, a.ref.ID), nil)
		t.Space.cover(a.ref.ID, &a.rows, &fx)
		t.asides = append(t.asides, a.ref)
		a.open = true
	}
	if err := t.Aside(&a.rows); err != nil {
		t.Fail(fmt.Errorf("write a part of a large value: %w", err))
		return
	}
	t.Space.Publish(&fx)
	a.rows.Reset()
}

// end commits the last portion, and has the command's own commit make the value one
// that is there to stay.
func (a *aside) end() {
	t := a.t
	if t.err == nil && a.rows.Len() > 0 {
		a.flush()
	}
	if t.err == nil && a.open {
		t.Rows.Batch.Delete(appendGarbageKey(nil, a.ref.Home, a.ref.ID))
	}
}

// Settle is called when the batch is committed, or could not be.
func (t *Tx) Settle(committed bool) {
	if !committed {
		t.abandon(0)
	}
	t.asides = t.asides[:0]
}

// abandon deletes what was written aside from a number on. Should that fail, Aside
// has told of it, and the next start does it.
func (t *Tx) abandon(from int) {
	for _, r := range t.asides[from:] {
		var b engine.Batch
		deleteValue(&b, r)
		b.Delete(appendGarbageKey(nil, r.Home, r.ID))
		if t.Aside(&b) != nil {
			break
		}
	}
	t.asides = t.asides[:from]
}

// clearAside notes in a batch to delete what a crash has left of such values.
func clearAside(r engine.Reader, b *engine.Batch) error {
	for group := range Groups {
		list, err := listGarbage(r, group, maxAsides)
		if err != nil {
			return err
		}
		for _, v := range list {
			deleteValue(b, v)
			b.Delete(appendGarbageKey(nil, v.Home, v.ID))
		}
	}
	return nil
}

// maxAsides is more than there can be in one group: those of all commands that ran.
const maxAsides = 1 << 20
