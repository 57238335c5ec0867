package keyspace

import (
	"bytes"
	"fmt"

	"redoubt/engine"
)

// The interface between the check of a store and the types: keyspace knows which rows
// a value has, a type knows what is in them.

// Examiner checks a value of a collection. A value that lies in its meta row is checked
// at once, and the result is nil. For an external value it returns the Judge of its
// rows.
type Examiner func(s *Subject) Judge

// Judge checks the rows of one value.
type Judge interface {
	// Row is called with each row of the value: sub rows, then score rows, then
	// rank rows, each kind in the order of the keys. rest is the key without its
	// first RowKeyHead bytes. Bytes are valid during the call.
	Row(k Kind, rest, value []byte)
	// End is called after the last row, unless rows could not be read.
	End()
}

// Subject is a value that is being checked.
type Subject struct {
	Meta Meta

	c   *checker
	key []byte // of the meta row
	ref Ref
}

// Wrong reports something about the value as a whole.
func (s *Subject) Wrong(format string, args ...any) {
	kind := "meta"
	if s.Meta.External() {
		kind = "value"
	}
	s.c.report(kind, s.c.tell.Key(s.key), fmt.Sprintf(format, args...))
}

// WrongRow reports something about one of the value's rows.
func (s *Subject) WrongRow(k Kind, rest []byte, format string, args ...any) {
	row := append(AppendRowKey(nil, s.ref, k), rest...)
	s.c.report("value", s.c.tell.Key(row), fmt.Sprintf(format, args...)+"; it belongs to "+s.c.tell.Key(s.key))
}

// Get reads one of the value's rows. ok is false if that failed, which is reported.
func (s *Subject) Get(k Kind, rest []byte) (value []byte, found, ok bool) {
	return s.c.get(append(AppendRowKey(nil, s.ref, k), rest...))
}

// Iter opens a second walk over rows of one kind with from <= rest < to; see Judge.Row
// for rest. A nil bound is none.
func (s *Subject) Iter(k Kind, from, to []byte) *RowIter {
	lo := append(AppendRowKey(nil, s.ref, k), from...)
	hi := successor(lo[:partHead])
	if to != nil {
		hi = append(bytes.Clone(lo[:partHead]), to...)
	}
	return &RowIter{s.c.r.Iter(lo, hi, false), s, lo}
}

// RowIter is a walk over rows of a value.
type RowIter struct {
	it engine.Iterator
	s  *Subject
	lo []byte
}

// Next moves to the next row.
func (i *RowIter) Next() bool { return i.it.Next() }

// Rest returns the key without its first RowKeyHead bytes. Like Value it is valid until
// Next is called again.
func (i *RowIter) Rest() []byte { return i.it.Key()[partHead:] }

// Value returns the row's value.
func (i *RowIter) Value() []byte { return i.it.Value() }

// Close ends the walk. It returns false if rows could not be read, which is reported.
func (i *RowIter) Close() bool {
	err := i.it.Close()
	if err != nil {
		i.s.c.unreadable("rows from "+inHex(i.lo), err)
	}
	return err == nil
}
