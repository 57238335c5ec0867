package tikv

import (
	"bytes"
	"encoding/binary"
	"fmt"

	"redoubt/engine"
)

// space is the part of TiKV's key space that belongs to the store.
type space struct {
	prefix []byte
	end    []byte // behind the rows: the first of the reserved keys
}

// reserved is the prefix of rows that are the engine's own.
const reserved = "\xff\xff\xff\xff"

func newSpace(prefix string) space {
	return space{prefix: []byte(prefix), end: []byte(prefix + reserved)}
}

// key is the key under which a row is stored.
func (s *space) key(row []byte) []byte {
	return s.append(make([]byte, 0, s.size(row)), row)
}

func (s *space) size(row []byte) int {
	if isLong(row) {
		return len(s.prefix) + maxPlain + hashSize
	}
	return len(s.prefix) + len(row)
}

// append appends the key under which a row is stored.
func (s *space) append(b, row []byte) []byte {
	b = append(b, s.prefix...)
	if isLong(row) {
		return appendLong(b, row)
	}
	return append(b, row...)
}

// keys returns the keys under which rows are stored, in one allocation.
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

// bounds returns the range of stored keys of the rows with lo <= key < hi, no upper limit
// if hi is nil. The range is empty if from is not below to. If lo or hi is a long key, the
// range may contain long rows outside of lo and hi.
func (s *space) bounds(lo, hi []byte) (from, to []byte) {
	from, to = s.bound(lo, false), s.end
	if hi != nil && bytes.Compare(hi, []byte(reserved)) < 0 {
		to = s.bound(hi, true)
	}
	return from, to
}

// row returns the key of a row from its stored key, unless the row is a long one.
func (s *space) row(key []byte) []byte { return key[len(s.prefix):] }

func isReserved(row []byte) bool { return bytes.HasPrefix(row, []byte(reserved)) }

// versionSize is the size of the version at the end of a stored value.
const versionSize = 8

func appendValue(b, value []byte, ts uint64) []byte {
	return binary.BigEndian.AppendUint64(append(b, value...), ts)
}

// valueOf splits the stored value of a row into value and version.
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

// split splits the version off a stored value.
func split(key, stored []byte) (value []byte, version uint64, err error) {
	n := len(stored) - versionSize
	if n < 0 {
		return nil, 0, fmt.Errorf("row % x has %d bytes: %w", key, len(stored), engine.ErrCorrupt)
	}
	return stored[:n:n], binary.BigEndian.Uint64(stored[n:]), nil
}
