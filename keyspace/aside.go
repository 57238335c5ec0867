package keyspace

import (
	"encoding/binary"
	"fmt"

	"redoubt/engine"
)

// A large value that a command makes is written aside: its rows are committed in
// portions, before the command, so that they need not be held in memory together. No
// meta row has their id yet, so nobody sees them. From the first portion on they have
// a garbage row, which the command's own commit removes when it stores the meta row.
// What came to nothing is deleted at once, or when the store is opened after a crash.
//
// It begins with NewRef and ends with Store: in between nobody but the command under
// way knows the value, and if the command fails the value goes as a whole. A later
// command of the same execution writes to it as to any other value.
//
// Only on an engine with a cheap range delete: there garbage rows have no other use,
// and nobody clears what they name but Open.

// asideBytes is how much of new values is held in memory: as a part of the batch, and
// again in a portion. Buffers of up to 1 MB, which this needs at most, are used again for
// the next portion. A variable for tests.
var asideBytes int64 = 768 << 10

// maxTogether is how large a value may be that has to be one commit with the command,
// on a store that is not in this process.
const maxTogether = 96 << 20

// aside is a value that is being written.
type aside struct {
	t    *Tx
	ref  Ref
	rows *engine.Batch // the portion, or nil
	size int64         // of all that was put
	open bool          // a part of it is committed
}

// build begins a new value. One that was begun before and not stored is dropped.
func (t *Tx) build(r Ref) {
	t.dropBuilding()
	t.room = aside{t: t, ref: r}
	t.building = &t.room
}

// builds says whether a row, or a range that begins there, belongs to the value that
// is being written.
func (t *Tx) builds(row []byte) bool {
	return t.building != nil && len(row) >= partHead && row[2] >= kindSub && row[2] <= kindRank &&
		binary.BigEndian.Uint64(row[3:]) == t.building.ref.ID
}

// write notes a row of the value, or that there is none.
func (a *aside) write(key, value []byte, deleted bool) {
	t := a.t
	if t.err != nil {
		return
	}
	a.size += int64(len(key) + len(value))
	b := t.Rows.Batch
	if t.Aside != nil && (a.rows != nil || a.size+weigh(b) > asideBytes) {
		if a.rows == nil {
			a.rows = &t.portion
			a.rows.Reset()
		}
		// The batch is committed last: what it has of a row is what counts.
		if _, _, known := b.Get(key); !known {
			b = a.rows
		}
	} else if t.Aside == nil && a.size > maxTogether && !t.Near() {
		t.Fail(fmt.Errorf("the value has more than %d MB, which this store cannot write as one commit", maxTogether>>20))
		return
	}
	if deleted {
		b.Delete(key)
	} else {
		b.Put(key, value)
	}
	if b == a.rows && weigh(b) >= asideBytes {
		a.flush()
	}
}

// weigh is about how much memory the notes of a batch take.
func weigh(b *engine.Batch) int64 { return int64(b.Size() + noteBytes*b.Len()) }

// noteBytes is what a batch needs for a row besides its bytes.
const noteBytes = 96

// flush commits a portion.
func (a *aside) flush() {
	t := a.t
	t.account()
	if t.err != nil {
		return
	}
	var fx Effects
	if !a.open {
		a.rows.Put(appendGarbageKey(nil, a.ref.Home, a.ref.ID), nil)
		t.Space.cover(a.ref.ID, a.rows, &fx)
		t.asides = append(t.asides, a.ref)
		a.open = true
	}
	if err := t.Aside(a.rows); err != nil {
		t.Fail(fmt.Errorf("write a part of a large value: %w", err))
		return
	}
	t.Space.Publish(&fx)
	a.rows.Reset()
}

// built ends the value, if it is the one that is being written: it commits the last
// portion, and has the command's own commit make the value one that is there to stay.
func (t *Tx) built(m Meta) {
	a := t.building
	if a == nil || !m.External() || m.Ref().ID != a.ref.ID {
		return
	}
	if a.rows != nil && a.rows.Len() > 0 {
		a.flush()
	}
	if t.err != nil {
		return
	}
	if a.open {
		t.Rows.Batch.Delete(appendGarbageKey(nil, a.ref.Home, a.ref.ID))
	}
	t.building, a.rows = nil, nil
}

// dropBuilding deletes what is being written.
func (t *Tx) dropBuilding() {
	if a := t.building; a != nil && a.open {
		t.abandon(len(t.asides) - 1)
	}
	t.building = nil
}

// portion is a view through the rows that are going to be committed next.
type portion struct {
	engine.View
	through engine.Txn
}

func (p *portion) Get(key, dst []byte) ([]byte, bool, error) { return p.through.Get(key, dst) }
func (p *portion) Iter(lo, hi []byte, reverse bool) engine.Iterator {
	return p.through.Iter(lo, hi, reverse)
}

// Settle is called when the batch is committed, or could not be.
func (t *Tx) Settle(committed bool) {
	if !committed {
		t.abandon(0)
		t.building = nil
	}
	t.dropBuilding()
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
