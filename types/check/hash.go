package check

import (
	"encoding/binary"
	"fmt"

	"redoubt/keyspace"
	"redoubt/types/pack"
)

// times collects the times of death of fields.
type times struct {
	fields, timed int64
	first, last   int64
}

func (t *times) add(at int64) {
	t.fields++
	if at == 0 {
		return
	}
	if t.timed++; t.timed == 1 || at < t.first {
		t.first = at
	}
	t.last = max(t.last, at)
}

// wrong returns what is wrong with the times in a meta row.
func (t *times) wrong(f keyspace.FieldTimes) string {
	end := int64(0)
	if t.timed == t.fields {
		end = t.last
	}
	switch {
	case t.timed > 0 && (f.Next == 0 || f.Next > t.first):
		return fmt.Sprintf("a field dies at %d, and the first is said to die at %d", t.first, f.Next)
	case f.End != end:
		return fmt.Sprintf("its last field dies at %d, and is said to die at %d", end, f.End)
	}
	return ""
}

func packedHash(m keyspace.Meta, b pack.Buf) string {
	each := 2
	if m.Timed() {
		each = 3
	}
	if b.Len()%each != 0 {
		return fmt.Sprintf("%d entries are no fields of %d each", b.Len(), each)
	}
	if what := once(b, each, 0); what != "" || !m.Timed() {
		return what
	}
	var t times
	i := 0
	for off := b.First(); ; i++ {
		e, next, ok := b.At(off)
		if !ok {
			break
		}
		off = next
		switch {
		case i%each != 2:
		case len(e) == 0:
			t.add(0)
		case len(e) == 8 && int64(binary.BigEndian.Uint64(e)) > 0:
			t.add(int64(binary.BigEndian.Uint64(e)))
		default:
			return fmt.Sprintf("field %d has the time %x", i/each, e)
		}
	}
	f := m.FieldTimes()
	if t.timed == 0 && f.Next != 0 {
		return fmt.Sprintf("no field has a time, and the first is said to die at %d", f.Next)
	}
	return t.wrong(f)
}

// hash checks a hash in rows: a sub row for each field, and for each field with a
// time a score row without a value.
type hash struct {
	value
	times
	fieldTimes, timeRows digest
}

func newHash(s *keyspace.Subject) keyspace.Judge {
	tail := 0
	if s.Meta.Timed() {
		tail = keyspace.FieldTimesSize + 8
	}
	v, ok := open(s, tail)
	if !ok {
		return nil
	}
	return &hash{value: v}
}

// fieldTime reads the time in the value of a field's row.
func fieldTime(value []byte) (at int64, ok bool) {
	switch {
	case len(value) > 0 && value[0] == 0:
		return 0, true
	case len(value) >= 9 && value[0] == 1:
		at = int64(binary.BigEndian.Uint64(value[1:]))
		return at, at > 0
	}
	return 0, false
}

// timeRow appends the key of a field's score row, without the prefix of the value.
func timeRow(b []byte, at int64, field []byte) []byte {
	return append(binary.BigEndian.AppendUint64(b, uint64(at)), field...)
}

func (j *hash) Row(k keyspace.Kind, rest, value []byte) {
	switch {
	case k == keyspace.SubRow:
		field, _ := j.member(rest)
		at, ok := fieldTime(value)
		if !ok {
			j.WrongRow(k, rest, "its value begins with %x", value[:min(len(value), 9)])
		}
		if j.times.add(at); at != 0 {
			j.buf = timeRow(j.buf[:0], at, field)
			j.fieldTimes.add(j.buf)
		}
	case k == keyspace.ScoreRow && len(rest) >= 8:
		if j.timeRows.add(rest); len(value) > 0 {
			j.WrongRow(k, rest, "it has a value: %x", value[:min(len(value), 64)])
		}
	default:
		j.foreign(k, rest)
	}
}

func (j *hash) End() {
	j.count()
	if j.fieldTimes != j.timeRows {
		j.compare()
	}
	if !j.Meta.Timed() {
		if j.timed > 0 {
			j.Wrong("%d fields have times, and the meta row has none", j.timed)
		}
		return
	}
	if n := int64(binary.BigEndian.Uint64(j.tail[keyspace.FieldTimesSize:])); n != j.timed {
		j.Wrong("%d fields are said to have times, and %d have", n, j.timed)
	}
	if what := j.times.wrong(j.Meta.FieldTimes()); what != "" {
		j.Wrong("%s", what)
	}
}

// compare reports the fields and the score rows that do not match.
func (j *hash) compare() {
	it := j.Iter(keyspace.SubRow, nil, nil)
	for it.Next() {
		rest := it.Rest()
		at, _ := fieldTime(it.Value())
		if at == 0 || len(rest) < hashSize {
			continue
		}
		if _, found, ok := j.Get(keyspace.ScoreRow, timeRow(nil, at, rest[hashSize:])); ok && !found {
			j.WrongRow(keyspace.SubRow, rest, "it dies at %d, and has no score row for that", at)
		}
	}
	it.Close()
	it = j.Iter(keyspace.ScoreRow, nil, nil)
	for it.Next() {
		rest := it.Rest()
		if len(rest) < 8 {
			continue
		}
		v, found, ok := j.Get(keyspace.SubRow, memberRow(rest[8:]))
		at, _ := fieldTime(v)
		switch {
		case !ok:
		case !found:
			j.WrongRow(keyspace.ScoreRow, rest, "there is no such field")
		case at != int64(binary.BigEndian.Uint64(rest)):
			j.WrongRow(keyspace.ScoreRow, rest, "the time of the field is %d", at)
		}
	}
	it.Close()
}

// memberRow is the key of a member's sub row, without the prefix of the value.
func memberRow(member []byte) []byte {
	return append(binary.BigEndian.AppendUint32(nil, hashOf(member)), member...)
}
