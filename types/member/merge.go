package member

import (
	"bytes"
	"encoding/binary"
	"slices"

	"redoubt/keyspace"
)

// Cursor walks over the members of a value, in the order of hashes. It reads a page at a
// time: an open iterator may force an engine to keep old versions of rows.
type Cursor struct {
	rows   *Rows // nil for a value without rows
	tx     *keyspace.Tx
	page   []byte // hash, member and value of the next members
	ends   []int  // the end in page of each key, then of its value
	at     int    // index into ends
	whole  bool   // there is no further page
	from   []byte // where the next page begins
	key    []byte // hash and member
	value  []byte
	more   bool
	Source int // the number that the cursor was made with
}

// pageMembers and pageBytes limit a page.
const (
	pageMembers = 512
	pageBytes   = 64 << 10
)

// Cursor returns a cursor over the rows.
func (r *Rows) Cursor(source int) *Cursor {
	return &Cursor{rows: r, tx: r.Tx, Source: source}
}

// Small returns a cursor over members without rows. each visits them, with the values that
// rows would have.
func Small(tx *keyspace.Tx, source int, each func(visit func(member, value []byte) bool)) *Cursor {
	type one struct{ key, value []byte }
	var list []one
	each(func(member, value []byte) bool {
		key := append(binary.BigEndian.AppendUint32(make([]byte, 0, hashSize+len(member)), hashOf(member)), member...)
		list = append(list, one{key, bytes.Clone(value)})
		return tx.Take(int64(len(key)+len(value)) + 80)
	})
	slices.SortFunc(list, func(a, b one) int { return bytes.Compare(a.key, b.key) })
	c := &Cursor{tx: tx, whole: true, Source: source}
	for _, o := range list {
		c.add(o.key, o.value)
	}
	return c
}

// add adds a member to the page.
func (c *Cursor) add(key, value []byte) {
	c.page = append(c.page, key...)
	c.ends = append(c.ends, len(c.page))
	c.page = append(c.page, value...)
	c.ends = append(c.ends, len(c.page))
}

// fill reads the next page.
func (c *Cursor) fill() {
	c.page, c.ends, c.at, c.whole = c.page[:0], c.ends[:0], 0, true
	it := c.tx.IterKind(c.rows.Ref, keyspace.SubRow, c.from, nil, false)
	defer c.tx.CloseRows(it)
	for it.Next() && c.rows.whole(it.Key()) {
		key := it.Key()[keyspace.RowKeyHead:]
		c.add(key, it.Value())
		if len(c.ends) >= 2*pageMembers || len(c.page) >= pageBytes {
			c.from, c.whole = append(append(c.from[:0], key...), 0), false
			return
		}
	}
}

// next moves to the next member.
func (c *Cursor) next() {
	if c.at == len(c.ends) && !c.whole {
		c.fill()
	}
	if c.more = c.at < len(c.ends); c.more {
		begin := 0
		if c.at > 0 {
			begin = c.ends[c.at-1]
		}
		c.key, c.value = c.page[begin:c.ends[c.at]], c.page[c.ends[c.at]:c.ends[c.at+1]]
		c.at += 2
	}
}

// Value is the value of the member's row.
func (c *Cursor) Value() []byte { return c.value }

// Merge visits the members of several values in the order of hashes, each once, with the
// cursors that are at the member, until visit returns false. Bytes are valid during the
// call only. visit may read, and write rows of other values.
func Merge(cursors []*Cursor, visit func(member []byte, at []*Cursor) bool) {
	if len(cursors) == 0 {
		return
	}
	tx := cursors[0].tx
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
