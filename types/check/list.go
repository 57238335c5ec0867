package check

import (
	"encoding/binary"
	"strconv"

	"redoubt/keyspace"
)

// list checks a list in rows: a row for each element, keyed by its index, without
// gaps from the head on.
type list struct {
	value
	head, bytes int64
	sum         int64
	next        int64
	wrong       bool
}

func newList(s *keyspace.Subject) keyspace.Judge {
	v, ok := open(s, 16)
	if !ok {
		return nil
	}
	j := &list{value: v}
	j.head, j.bytes = int64(binary.BigEndian.Uint64(v.tail)), int64(binary.BigEndian.Uint64(v.tail[8:]))
	j.next = j.head
	return j
}

func (j *list) Row(k keyspace.Kind, rest, value []byte) {
	if k != keyspace.SubRow || len(rest) != 8 {
		j.foreign(k, rest)
		return
	}
	at := int64(binary.BigEndian.Uint64(rest) ^ 1<<63)
	if at != j.next && !j.wrong {
		j.wrong = true // reported once: all later rows may be shifted
		j.WrongRow(k, rest, "the next element should be at %d", j.next)
	}
	j.next = at + 1
	j.rows++
	j.sum += listpackSize(value)
}

func (j *list) End() {
	j.count()
	if j.bytes != j.sum && j.bytes != -1 {
		j.Wrong("its elements are said to take %d bytes, and take %d", j.bytes, j.sum)
	}
}

// listpackSize is the size of an element in Redis's listpack, which decides on the
// form of a list.
func listpackSize(e []byte) int64 {
	n := int64(len(e))
	if v, err := strconv.ParseInt(string(e), 10, 64); n <= 20 && err == nil && strconv.FormatInt(v, 10) == string(e) {
		return listpackInteger(v)
	}
	switch {
	case n < 64:
		n++
	case n < 4096:
		n += 2
	default:
		n += 5
	}
	// The entry is followed by its length, seven bits per byte.
	switch {
	case n <= 127:
		return n + 1
	case n < 16383:
		return n + 2
	case n < 2097151:
		return n + 3
	case n < 268435455:
		return n + 4
	}
	return n + 5
}

func listpackInteger(v int64) int64 {
	fits := func(bits uint) bool { return v >= -1<<bits && v < 1<<bits }
	switch {
	case v >= 0 && v < 128:
		return 2
	case fits(12):
		return 3
	case fits(15):
		return 4
	case fits(23):
		return 5
	case fits(31):
		return 6
	}
	return 10
}
