package keyspace

import (
	"encoding/binary"
	"fmt"

	"redoubt/engine"
)

// A large value that a command makes is written aside: its rows are committed in
// portions, before the command, so that they need not be in memory together. No
// meta row has their id yet, so they are invisible. From the first portion on they have
// a garbage row, which the command's own commit removes when it stores the meta row.
// If the command fails the rows are deleted at once; after a crash Open deletes them.
//
// The value begins with NewRef and ends with Store: in between only the command under
// way knows it, and if the command fails the whole value is deleted. A later command
// of the same execution writes to it as to any other value.
//
// This is done only on an engine with a cheap range delete: there garbage rows have no
// other use, and only Open clears what they name.

// asideBytes is how much of a new value is held in the batch, and again in a portion.
// Larger portions would need buffers above 1 MB, which are not reused. It is a variable
// for tests.
var asideBytes int64 = 768 << 10

// maxTogether is the largest value on a remote store, where it must be one commit with the
// command.
const maxTogether = 96 << 20

// aside is a value that is being written.
type aside struct {
	t    *Tx
	ref  Ref
	rows *engine.Batch // the portion that is not committed yet, or nil
	size int64         // of all rows written
	open bool          // a portion is committed
}

// build begins a new value, and drops an earlier one that was not stored.
func (t *Tx) build(r Ref) {
	t.dropBuilding()
	t.room = aside{t: t, ref: r}
	t.building = &t.room
}

// builds reports whether a row, or a range that begins there, belongs to the value under
// construction.
func (t *Tx) builds(row []byte) bool {
	return t.building != nil && len(row) >= partHead && row[2] >= kindSub && row[2] <= kindRank &&
		binary.BigEndian.Uint64(row[3:]) == t.building.ref.ID
}

// write puts a row of the value, or deletes it.
func (a *aside) write(key, value []byte, deleted bool) {
	t := a.t
	if t.err != nil {
		return
	}
	a.size += int64(len(key) + len(value))
	b := t.Rows.Batch
	if t.CommitAside != nil && (a.rows != nil || a.size+weigh(b) > asideBytes) {
		if a.rows == nil {
			a.rows = &t.portion
			a.rows.GroupBy(RowGroup)
			a.rows.Reset()
		}
		// The batch is committed last: a row that it has must be written there.
		if _, _, known := b.Get(key); !known {
			b = a.rows
		}
	} else if t.CommitAside == nil && a.size > maxTogether && !t.Local() {
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

// weigh estimates the memory that a batch takes.
func weigh(b *engine.Batch) int64 { return int64(b.Size() + noteBytes*b.Len()) }

// noteBytes is the overhead of a row in a batch.
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
	if err := t.CommitAside(a.rows); err != nil {
		t.Fail(fmt.Errorf("write a part of a large value: %w", err))
		return
	}
	t.Space.Publish(&fx)
	a.rows.Reset()
}

// built ends the value under construction if m names it: it commits the last portion, and
// has the command's own commit delete the garbage row.
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

// dropBuilding deletes the value under construction.
func (t *Tx) dropBuilding() {
	if a := t.building; a != nil && a.open {
		t.abandon(len(t.asides) - 1)
	}
	t.building = nil
}

// portion is a view with the uncommitted rows of a portion on top.
type portion struct {
	engine.View
	through engine.Txn
}

func (p *portion) Get(key, dst []byte) ([]byte, bool, error) { return p.through.Get(key, dst) }
func (p *portion) Iter(lo, hi []byte, reverse bool) engine.Iterator {
	return p.through.Iter(lo, hi, reverse)
}

func (p *portion) Edge(lo, hi []byte, reverse bool, b []byte) ([]byte, int, bool, error) {
	return p.through.Edge(lo, hi, reverse, b)
}
func (p *portion) Count(lo, hi []byte) (int, bool) { return p.through.Count(lo, hi) }
func (p *portion) Nth(lo, hi []byte, n int, b []byte) ([]byte, bool, bool) {
	return p.through.Nth(lo, hi, n, b)
}

// Settle is called after the commit of the batch, and deletes the values written aside if
// that failed.
func (t *Tx) Settle(committed bool) {
	if !committed {
		t.abandon(0)
		t.building = nil
	}
	t.dropBuilding()
	t.asides = t.asides[:0]
}

// abandon deletes t.asides[from:]. On a failure, which Aside has logged, the next Open
// deletes them.
func (t *Tx) abandon(from int) {
	for _, r := range t.asides[from:] {
		var b engine.Batch
		deleteValue(&b, r)
		b.Delete(appendGarbageKey(nil, r.Home, r.ID))
		if t.CommitAside(&b) != nil {
			break
		}
	}
	t.asides = t.asides[:from]
}

// clearAside adds to a batch the deletion of values that a crash has left unfinished.
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

// maxAsides is more than one group can have: all commands that ran at the crash.
const maxAsides = 1 << 20
