package tikv

import (
	"bytes"
	"encoding/binary"
	"fmt"

	"redoubt/engine"
)

// space is the part of TiKV's keys that belongs to the store.
type space struct {
	prefix []byte
	end    []byte // behind the rows: the first of the reserved keys
}

// reserved is how keys begin that are the engine's own.
const reserved = "\xff\xff\xff\xff"

func newSpace(prefix string) space {
	return space{prefix: []byte(prefix), end: []byte(prefix + reserved)}
}

// key is where a row is stored.
func (s *space) key(row []byte) []byte {
	return s.append(make([]byte, 0, s.size(row)), row)
}

func (s *space) size(row []byte) int {
	if isLong(row) {
		return len(s.prefix) + maxPlain + hashSize
	}
	return len(s.prefix) + len(row)
}

// append appends where a row is stored.
func (s *space) append(b, row []byte) []byte {
	b = append(b, s.prefix...)
	if isLong(row) {
		return appendLong(b, row)
	}
	return append(b, row...)
}

// keys are where rows are stored, in one piece of memory.
func (s *space) keys(rows [][]byte) [][]byte {
	size := 0
	for _, row := range rows {
		size += s.size(row)
	}
	arena, keys := make([]byte, 0, size), make([][]byte, len(rows))
	for i, row := range rows {
		at := len(arena)
		arena = s.append(arena, row)
		keys[i] = arena[at:len(arena):len(arena)]
	}
	return keys
}

// bounds are where the rows with lo <= key < hi are stored, hi nil for all. The range
// is empty if from is not below to. If a bound is long there may be long rows that are
// out of bounds.
func (s *space) bounds(lo, hi []byte) (from, to []byte) {
	from, to = s.bound(lo, false), s.end
	if hi != nil && bytes.Compare(hi, []byte(reserved)) < 0 {
		to = s.bound(hi, true)
	}
	return from, to
}

// row is the key of a row as its users know it, unless it is a long one.
func (s *space) row(key []byte) []byte { return key[len(s.prefix):] }

func isReserved(row []byte) bool { return bytes.HasPrefix(row, []byte(reserved)) }

// versionSize is how many bytes of a stored value come behind the row's own.
const versionSize = 8

func appendValue(b, value []byte, ts uint64) []byte {
	return binary.BigEndian.AppendUint64(append(b, value...), ts)
}

// valueOf takes the stored value of a row apart.
func valueOf(row, stored []byte) (value []byte, version uint64, err error) {
	if !isLong(row) {
		return split(row, stored)
	}
	value, rest, version, err := splitLong(row, stored)
	if err == nil && !bytes.Equal(rest, row[maxPlain:]) {
		err = fmt.Errorf("the long row % x is another one: %w", row[:64], engine.ErrCorrupt)
	}
	return value, version, err
}

// split takes the version off a stored value.
func split(key, stored []byte) (value []byte, version uint64, err error) {
	n := len(stored) - versionSize
	if n < 0 {
		return nil, 0, fmt.Errorf("row % x has %d bytes: %w", key, len(stored), engine.ErrCorrupt)
	}
	return stored[:n:n], binary.BigEndian.Uint64(stored[n:]), nil
}
