// Package check finds errors in the stored values of collections, for `redoubt
// check`: keyspace.Check passes it each value, and each row of a value.
//
// The package reads rows by keyspace/FORMAT.md and shares no row code with the
// types: code that writes a row wrongly would read it wrongly as well.
//
// Memory does not grow with a value (save for a stream's group numbers, of which
// manyGroups are kept). Two sets of rows that must agree are reduced to digests in
// one pass; only if the digests differ are rows looked up one by one to report
// those at fault.
package check

import (
	"encoding/binary"
	"fmt"

	"redoubt/engine"
	"redoubt/keyspace"
	"redoubt/types/pack"
)

// Examine is the keyspace.Examiner of collections: it checks a packed value at
// once, and returns the Judge of a value in rows.
func Examine(s *keyspace.Subject) keyspace.Judge {
	m := s.Meta
	switch m.Encoding {
	case keyspace.Packed, keyspace.PackedTimed, keyspace.Integers:
		if what := packed(m); what != "" {
			s.Wrong("%s", what)
		}
		return nil
	}
	switch m.Type {
	case keyspace.Set:
		return newSet(s)
	case keyspace.Hash:
		return newHash(s)
	case keyspace.ZSet:
		return newZSet(s)
	case keyspace.List:
		return newList(s)
	case keyspace.Stream:
		return newStream(s)
	case keyspace.Channel:
		return newChannel(s)
	}
	return nil
}

// digest is a count and a sum of hashes that identify a set of rows.
type digest struct{ n, sum uint64 }

func (d *digest) add(thing []byte) { d.n, d.sum = d.n+1, d.sum+engine.Hash(thing) }

// value is the state that all judges share.
type value struct {
	*keyspace.Subject
	name string // of the type
	tail []byte // the body of the meta row after the Ref
	size int64
	rows int64  // sub rows of elements
	buf  []byte // scratch
}

// open reads the meta row, which must have tail bytes after its Ref.
func open(s *keyspace.Subject, tail int) (v value, ok bool) {
	v = value{Subject: s, name: s.Meta.Type.String(), tail: s.Meta.Body[keyspace.RefSize:], size: s.Meta.Ref().Size}
	if len(v.tail) != tail {
		s.Wrong("the body of its meta row has %d bytes behind the ref, not %d", len(v.tail), tail)
		return v, false
	}
	return v, true
}

// foreign reports a row of a kind that the type does not have.
func (v *value) foreign(k keyspace.Kind, rest []byte) {
	v.WrongRow(k, rest, "a %s has no such row", v.name)
}

// count compares the number of rows with the size.
func (v *value) count() {
	if v.rows != v.size {
		v.Wrong("it is said to have %d %s, and has %d", v.size, units[v.Meta.Type], v.rows)
	}
	if v.size == 0 && v.Meta.Type != keyspace.Stream {
		v.Wrong("it is empty, and should not be there")
	}
}

var units = map[keyspace.Type]string{
	keyspace.List: "elements", keyspace.Set: "members", keyspace.ZSet: "members", keyspace.Hash: "fields", keyspace.Stream: "entries",
}

// member returns the member in the key of a sub row, and whether its hash is right.
func (v *value) member(rest []byte) ([]byte, bool) {
	if len(rest) < hashSize {
		v.WrongRow(keyspace.SubRow, rest, "its key has no room for a hash")
		return nil, false
	}
	v.rows++
	m := rest[hashSize:]
	if h := hashOf(m); h != binary.BigEndian.Uint32(rest) {
		v.WrongRow(keyspace.SubRow, rest, "its key has the hash %x, not %08x", rest[:hashSize], h)
		return m, false
	}
	return m, true
}

// packed returns what is wrong with a value that is packed in its meta row.
func packed(m keyspace.Meta) string {
	body := m.Body
	if m.Timed() {
		body = body[keyspace.FieldTimesSize:]
	}
	most := pack.MaxBytes
	if m.Type == keyspace.Hash {
		most = pack.MaxHashBytes
	}
	if len(body) > most {
		return fmt.Sprintf("it has %d bytes, and packed values %d at the most", len(body), most)
	}
	if m.Encoding == keyspace.Integers {
		return integers(body)
	}
	buf := pack.Buf(body)
	if err := buf.Check(); err != nil {
		return err.Error()
	}
	if buf.Len() == 0 {
		return "it is empty, and should not be there"
	}
	switch m.Type {
	case keyspace.Hash:
		return packedHash(m, buf)
	case keyspace.Set:
		return once(buf, 1, 0)
	case keyspace.ZSet:
		return packedZSet(buf)
	}
	return "" // a list may have any entries
}

// once reports an entry that occurs twice. It compares every each-th entry, without
// its first skip bytes.
func once(b pack.Buf, each, skip int) string {
	seen := make(map[string]bool)
	i := 0
	for off := b.First(); ; i++ {
		e, next, ok := b.At(off)
		if !ok {
			return ""
		}
		off = next
		if i%each != 0 {
			continue
		}
		if e = e[skip:]; seen[string(e)] {
			return fmt.Sprintf("%.64q is in it twice", e)
		}
		seen[string(e)] = true
	}
}
