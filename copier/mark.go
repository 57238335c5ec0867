package copier

import (
	"encoding/binary"
	"fmt"
	"maps"
	"slices"

	"redoubt/engine"
	"redoubt/keyspace"
)

// mark is how far a copy has come: every row up to the key last was written; rows, bytes and
// census count them. It is the value of the system row keyspace.CopyRow:
//
//	version:1 rows:8 bytes:8 ids:8 max:8 spaces:4 (ks:4 keys:8 volatile:8)* length:2 source last
type mark struct {
	rows, bytes int64
	ids         uint64 // the higher watermark of ids of both stores
	census      keyspace.Census
	source      string
	last        []byte
}

const (
	markVersion = 1
	markHead    = 1 + 4*8 + 4
	spaceSize   = 4 + 8 + 8
)

// add moves the mark behind a portion that was written.
func (m *mark) add(p *portion) {
	m.rows += p.rows
	m.bytes += p.bytes
	m.census.Join(&p.census)
	m.last = append(m.last[:0], p.last...)
}

func (m *mark) encode() []byte {
	b := []byte{markVersion}
	b = binary.BigEndian.AppendUint64(b, uint64(m.rows))
	b = binary.BigEndian.AppendUint64(b, uint64(m.bytes))
	b = binary.BigEndian.AppendUint64(b, m.ids)
	b = binary.BigEndian.AppendUint64(b, m.census.MaxID)
	b = binary.BigEndian.AppendUint32(b, uint32(len(m.census.Spaces)))
	for _, ks := range slices.Sorted(maps.Keys(m.census.Spaces)) {
		n := m.census.Spaces[ks]
		b = binary.BigEndian.AppendUint32(b, ks)
		b = binary.BigEndian.AppendUint64(b, uint64(n.All))
		b = binary.BigEndian.AppendUint64(b, uint64(n.Volatile))
	}
	b = binary.BigEndian.AppendUint16(b, uint16(len(m.source)))
	return append(append(b, m.source...), m.last...)
}

func decodeMark(b []byte) (m mark, err error) {
	bad := fmt.Errorf("%w: the mark of an unfinished copy cannot be read", engine.ErrCorrupt)
	if len(b) < markHead {
		return m, bad
	}
	if b[0] != markVersion {
		return m, fmt.Errorf("%w: the unfinished copy was begun by another version of this program", engine.ErrFormat)
	}
	word := func(at int) uint64 { return binary.BigEndian.Uint64(b[at:]) }
	m.rows, m.bytes, m.ids = int64(word(1)), int64(word(9)), word(17)
	m.census = keyspace.Census{MaxID: word(25), Spaces: make(map[uint32]keyspace.Keys)}
	n := int64(binary.BigEndian.Uint32(b[33:]))
	if b = b[markHead:]; int64(len(b)) < n*spaceSize+2 {
		return m, bad
	}
	for ; n > 0; n-- {
		m.census.Spaces[binary.BigEndian.Uint32(b)] = keyspace.Keys{All: int64(word(4)), Volatile: int64(word(12))}
		b = b[spaceSize:]
	}
	size := int(binary.BigEndian.Uint16(b))
	if b = b[2:]; len(b) < size {
		return m, bad
	}
	m.source, m.last = string(b[:size]), slices.Clone(b[size:])
	return m, nil
}
