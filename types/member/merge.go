package member

import (
	"bytes"
	"encoding/binary"
	"slices"

	"redoubt/engine"
	"redoubt/keyspace"
)

// Cursor stands on a member of a value, in the order of hashes.
type Cursor struct {
	tx    *keyspace.Tx
	it    engine.Iterator
	small [][2][]byte // of a value without rows: what is left of hash and member, and value
	key   []byte      // hash and member
	value []byte
	more  bool
	// Source is the number that the cursor was made with.
	Source int
}

// Cursor begins a walk over the rows. The cursor must be closed, as Merge does.
func (r *Rows) Cursor(source int) *Cursor {
	return &Cursor{tx: r.Tx, it: r.Tx.IterKind(r.Ref, keyspace.SubRow, nil, nil, false), Source: source}
}

// Small begins a walk over members that have no rows. each visits them, with the values
// that rows would have.
func Small(tx *keyspace.Tx, source int, each func(visit func(member, value []byte) bool)) *Cursor {
	c := &Cursor{tx: tx, Source: source}
	each(func(member, value []byte) bool {
		key := append(binary.BigEndian.AppendUint32(make([]byte, 0, hashSize+len(member)), hashOf(member)), member...)
		c.small = append(c.small, [2][]byte{key, bytes.Clone(value)})
		return tx.Take(int64(len(key)+len(value)) + 80)
	})
	slices.SortFunc(c.small, func(a, b [2][]byte) int { return bytes.Compare(a[0], b[0]) })
	return c
}

// next moves to the next member.
func (c *Cursor) next() {
	if c.it == nil {
		if c.more = len(c.small) > 0; c.more {
			c.key, c.value, c.small = c.small[0][0], c.small[0][1], c.small[1:]
		}
		return
	}
	if c.more = c.it.Next(); !c.more {
		return
	}
	row := c.it.Key()
	r := Rows{Tx: c.tx}
	if c.more = r.whole(row); c.more {
		c.key, c.value = row[keyspace.RowKeyHead:], c.it.Value()
	}
}

// Value is that of the member's row.
func (c *Cursor) Value() []byte { return c.value }

// Merge visits the members of several values, each once, with the cursors that stand
// on it, in their order. Bytes are valid during the call only. Visit may read, and
// write rows of other values. Merge ends the cursors.
func Merge(cursors []*Cursor, visit func(member []byte, at []*Cursor) bool) {
	if len(cursors) == 0 {
		return
	}
	tx := cursors[0].tx
	defer func() {
		for _, c := range cursors {
			if c.it != nil {
				tx.CloseRows(c.it)
			}
		}
	}()
	for _, c := range cursors {
		c.next()
	}
	at := make([]*Cursor, 0, len(cursors))
	for tx.Err() == nil {
		at = at[:0]
		for _, c := range cursors {
			if !c.more {
				continue
			}
			order := -1
			if len(at) > 0 {
				order = bytes.Compare(c.key, at[0].key)
			}
			switch {
			case order < 0:
				at = append(at[:0], c)
			case order == 0:
				at = append(at, c)
			}
		}
		if len(at) == 0 || !visit(at[0].key[hashSize:], at) {
			return
		}
		for _, c := range at {
			c.next()
		}
	}
}
