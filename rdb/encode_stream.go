package rdb

import (
	"bytes"
	"encoding/binary"
	"math"

	"redoubt/number"
)

// A stream is written in this order: entries, EndEntries, then for each group
// BeginGroup, its pending entries by GroupPending, EndPending, and for each of its
// consumers BeginConsumer and ConsumerPending.

// nodeEntries and nodeBytes limit the entries and bytes of one node: Redis's defaults.
const (
	nodeEntries = 100
	nodeBytes   = 4096
)

// streamState is the state of an Encoder within a stream.
type streamState struct {
	active  bool // consumers' active times are written
	base    ID
	pack    []byte // the node in progress: a listpack without its end
	parts   int
	entries int
	names   [][]byte // the fields of the node's first entry
	text    []byte   // their bytes
}

// BeginStream begins a stream. Active says whether to write when consumers were last active,
// which Redis before 7.2 cannot read.
func (e *Encoder) BeginStream(active bool) {
	e.stream.active, e.stream.entries = active, 0
	if active {
		e.collection(typeStream3, versionActive)
	} else {
		e.collection(typeStream2, versionStream)
	}
}

// Entry gives an entry: fields and values by turns.
func (e *Encoder) Entry(id ID, fields [][]byte) {
	s := &e.stream
	if s.entries > 0 && (s.entries >= nodeEntries || len(s.pack) >= nodeBytes) {
		e.endNode()
	}
	if s.entries == 0 {
		s.begin(id, fields)
	}
	s.entries++
	same := s.same(fields)
	flags := int64(0)
	if same {
		flags = entrySameFields
	}
	first := s.parts
	s.number(flags)
	s.number(int64(id.Ms - s.base.Ms))
	s.number(int64(id.Seq - s.base.Seq))
	if !same {
		s.number(int64(len(fields) / 2))
	}
	for i, f := range fields {
		if i%2 == 1 || !same {
			s.add(f)
		}
	}
	s.number(int64(s.parts - first))
}

// begin begins a node. The number of its entries is written by endNode.
func (s *streamState) begin(id ID, fields [][]byte) {
	s.base, s.parts = id, 0
	s.pack = append(s.pack[:0], make([]byte, listpackHead)...)
	s.parts++
	s.pack = append(s.pack, make([]byte, nodeCount)...)
	s.number(0) // deleted
	s.number(int64(len(fields) / 2))
	s.names, s.text = s.names[:0], s.text[:0]
	for i := 0; i+1 < len(fields); i += 2 {
		s.add(fields[i])
		at := len(s.text)
		s.text = append(s.text, fields[i]...)
		s.names = append(s.names, s.text[at:])
	}
	s.number(0)
}

// nodeCount is the length of the listpack entry that holds the number of entries in a node,
// of a fixed width.
const nodeCount = 3

func (s *streamState) same(fields [][]byte) bool {
	if len(fields) != 2*len(s.names) {
		return false
	}
	for i, name := range s.names {
		if !bytes.Equal(fields[2*i], name) {
			return false
		}
	}
	return true
}

// endNode writes the node in progress.
func (e *Encoder) endNode() {
	s := &e.stream
	s.pack = append(s.pack, packEnd)
	binary.LittleEndian.PutUint32(s.pack, uint32(len(s.pack)))
	binary.LittleEndian.PutUint16(s.pack[4:], uint16(min(s.parts, manyEntries)))
	// 13 bits are enough for nodeEntries.
	s.pack[listpackHead], s.pack[listpackHead+1], s.pack[listpackHead+2] = 0xc0|byte(s.entries>>8), byte(s.entries), 2
	e.one()
	e.rawID(s.base, true)
	if !e.Compress || !e.pack(s.pack) {
		e.length(uint64(len(s.pack)))
		e.Buf = append(e.Buf, s.pack...)
	}
	s.entries = 0
}

// rawID appends the 16 bytes of an id, with str preceded by their length.
func (e *Encoder) rawID(id ID, str bool) {
	if str {
		e.Buf = append(e.Buf, 16)
	}
	e.Buf = binary.BigEndian.AppendUint64(e.Buf, id.Ms)
	e.Buf = binary.BigEndian.AppendUint64(e.Buf, id.Seq)
}

func (e *Encoder) id(id ID) {
	e.length(id.Ms)
	e.length(id.Seq)
}

// add appends a string to the node.
func (s *streamState) add(b []byte) {
	s.parts++
	s.pack = appendListpack(s.pack, b)
}

func (s *streamState) number(n int64) {
	s.parts++
	s.pack = appendListpackInt(s.pack, n)
}

// EndEntries ends the entries of a stream.
func (e *Encoder) EndEntries(a StreamInfo) {
	if e.stream.entries > 0 {
		e.endNode()
	}
	e.shut()
	e.length(uint64(a.Length))
	e.id(a.Last)
	e.id(a.First)
	e.id(a.MaxDeleted)
	e.length(uint64(a.Added))
	e.open() // the groups
}

// down closes the counts that are open above a level.
func (e *Encoder) down(level int) {
	for len(e.counts) > level {
		e.shut()
	}
}

// BeginGroup gives a group of the stream. Read may be Unknown.
func (e *Encoder) BeginGroup(name []byte, last ID, read int64) {
	e.down(1)
	e.one()
	e.str(name)
	e.id(last)
	e.length(uint64(read))
	e.open() // what is pending
}

// GroupPending gives a pending entry of the group; ids must ascend.
func (e *Encoder) GroupPending(id ID, delivered int64, count uint64) {
	e.one()
	e.rawID(id, false)
	e.Buf = binary.LittleEndian.AppendUint64(e.Buf, uint64(delivered))
	e.length(count)
}

// EndPending ends what is pending in the group: its consumers follow.
func (e *Encoder) EndPending() {
	e.shut()
	e.open()
}

// BeginConsumer gives a consumer of the group.
func (e *Encoder) BeginConsumer(name []byte, seen, active int64) {
	e.down(2)
	e.one()
	e.str(name)
	e.Buf = binary.LittleEndian.AppendUint64(e.Buf, uint64(seen))
	if e.stream.active {
		e.Buf = binary.LittleEndian.AppendUint64(e.Buf, uint64(active))
	}
	e.open() // what is pending
}

// ConsumerPending gives a pending entry of the consumer; ids must ascend.
func (e *Encoder) ConsumerPending(id ID) {
	e.one()
	e.rawID(id, false)
}

// appendListpack appends an entry to a listpack.
func appendListpack(b, s []byte) []byte {
	if n, ok := number.ParseInt(s); ok {
		return appendListpackInt(b, n)
	}
	start := len(b)
	switch n := len(s); {
	case n < 1<<6:
		b = append(b, 0x80|byte(n))
	case n < 1<<12:
		b = append(b, 0xe0|byte(n>>8), byte(n))
	default:
		b = binary.LittleEndian.AppendUint32(append(b, 0xf0), uint32(n))
	}
	b = append(b, s...)
	return appendBackLength(b, len(b)-start)
}

func appendListpackInt(b []byte, n int64) []byte {
	start := len(b)
	switch {
	case n >= 0 && n < 1<<7:
		b = append(b, byte(n))
	case n >= -1<<12 && n < 1<<12:
		b = append(b, 0xc0|byte(n>>8)&0x1f, byte(n))
	case n >= math.MinInt16 && n <= math.MaxInt16:
		b = append(b, 0xf1, byte(n), byte(n>>8))
	case n >= -1<<23 && n < 1<<23:
		b = append(b, 0xf2, byte(n), byte(n>>8), byte(n>>16))
	case n >= math.MinInt32 && n <= math.MaxInt32:
		b = binary.LittleEndian.AppendUint32(append(b, 0xf3), uint32(n))
	default:
		b = binary.LittleEndian.AppendUint64(append(b, 0xf4), uint64(n))
	}
	return appendBackLength(b, len(b)-start)
}
