package stream

import (
	"encoding/binary"
	"math"

	"github.com/cespare/xxhash/v2"

	"redoubt/number"
)

// Nodes: runs of entries that Redis would have in one block of memory, a listpack.
// How many fit follows from stream-node-max-entries and from the size of the
// listpack, which is computed here without making one:
//
//	count deleted fields... 0 (flags ms seq [fields] values... pieces)*
//
// The fields at the start are those of the first entry; entries with the same fields
// do not repeat them. A deleted entry stays in the block until all its entries are
// deleted.

// node is a node. The zero node stands for none.
type node struct {
	id, last      ID // of its first and its last entry, which may be deleted
	live, deleted uint32
	bytes         uint32 // of the listpack, without the two counts
	fields        uint64 // a hash of the first entry's fields
}

// nodeSize is the length of an encoded node without its ID.
const nodeSize = idSize + 4 + 4 + 4 + 8

func (n *node) append(b []byte) []byte {
	b = binary.BigEndian.AppendUint32(appendID(b, n.last), n.live)
	b = binary.BigEndian.AppendUint32(b, n.deleted)
	b = binary.BigEndian.AppendUint32(b, n.bytes)
	return binary.BigEndian.AppendUint64(b, n.fields)
}

func (n *node) decode(b []byte) {
	n.last = decodeID(b)
	n.live, n.deleted = binary.BigEndian.Uint32(b[16:]), binary.BigEndian.Uint32(b[20:])
	n.bytes, n.fields = binary.BigEndian.Uint32(b[24:]), binary.BigEndian.Uint64(b[28:])
}

// maxNode bounds the size of a node, whatever the limits.
const maxNode = 1 << 30

// grow counts a new entry in the tail, or in a new tail if that is full. pairs are the
// fields and values of the entry, size their total length.
func (s *Stream) grow(id ID, pairs [][]byte, size int64) {
	l := s.limits
	most := l.StreamNodeBytes
	if most <= 0 || most > maxNode {
		most = maxNode
	}
	fields := hashFields(pairs)
	t := &s.tail
	if !t.id.IsZero() {
		bytes := int64(t.bytes) + intSize(int64(t.live)) + intSize(int64(t.deleted))
		if bytes+size >= most || l.StreamNodeEntries > 0 && int64(t.live)+int64(t.deleted) >= l.StreamNodeEntries {
			s.seal()
		}
	}
	if t.id.IsZero() {
		*t = node{id: id, fields: fields, bytes: 7 + uint32(intSize(int64(len(pairs)/2))+intSize(0))}
		for i := 0; i < len(pairs); i += 2 {
			t.bytes += uint32(itemSize(pairs[i]))
		}
	}
	n, pieces := int64(0), int64(len(pairs)/2)+3
	if fields != t.fields {
		n, pieces = intSize(int64(len(pairs)/2)), int64(len(pairs))+4
		for i := 0; i < len(pairs); i += 2 {
			n += itemSize(pairs[i])
		}
	}
	for i := 1; i < len(pairs); i += 2 {
		n += itemSize(pairs[i])
	}
	n += intSize(0) + intSize(int64(id.Ms-t.id.Ms)) + intSize(int64(id.Seq-t.id.Seq)) + intSize(pieces)
	t.bytes = uint32(min(int64(t.bytes)+n, math.MaxUint32))
	t.last = id
	t.live++
}

// seal writes the tail to a row and leaves no tail.
func (s *Stream) seal() {
	if s.nodes == 0 {
		s.head, s.headLive = s.tail.id, s.tail.live
	}
	s.putNode(&s.tail)
	s.nodes++
	s.tail = node{}
}

// putNode writes the row of a node.
func (s *Stream) putNode(n *node) {
	var b [nodeSize]byte
	s.tx.PutRow(s.idRow(rowNode, n.id), n.append(b[:0]))
}

// getNode reads the row of the node of an ID: the last node that begins at or before
// the ID.
func (s *Stream) getNode(id ID) (n node, ok bool) {
	if s.nodes == 0 || id.Less(s.head) {
		return node{}, false
	}
	if id == s.head {
		if v, found := s.tx.GetRow(s.idRow(rowNode, id)); found && len(v) == nodeSize {
			n.id = id
			n.decode(v)
			return n, true
		}
		s.corrupt("its first node has no row")
		return node{}, false
	}
	it := s.rows([]byte{rowNode}, s.head, id, true)
	if it.Next() {
		n, ok = s.nodeRow(rest(it.Key()), it.Value())
	}
	s.tx.CloseRows(it)
	return n, ok
}

func (s *Stream) nodeRow(key, value []byte) (n node, ok bool) {
	if len(key) != 1+idSize || len(value) != nodeSize {
		s.corrupt("a node's row is malformed")
		return node{}, false
	}
	n.id = decodeID(key[1:])
	n.decode(value)
	return n, true
}

// shrink counts a deleted entry in its node.
func (s *Stream) shrink(id ID) {
	if t := &s.tail; !t.id.IsZero() && !id.Less(t.id) {
		t.live, t.deleted = t.live-1, t.deleted+1
		if t.live == 0 {
			s.unseal()
		}
		return
	}
	n, ok := s.getNode(id)
	if !ok {
		s.corrupt("an entry has no node")
		return
	}
	n.live, n.deleted = n.live-1, n.deleted+1
	if n.live > 0 {
		if n.id == s.head {
			s.headLive = n.live
		}
		s.putNode(&n)
		return
	}
	s.tx.DeleteRow(s.idRow(rowNode, n.id))
	if s.nodes--; n.id == s.head {
		s.findHead(n.id)
	}
}

// unseal replaces the empty tail with the last node that has a row, so that the next
// entry goes there if it fits.
func (s *Stream) unseal() {
	s.tail = node{}
	if s.nodes == 0 {
		return
	}
	n, ok := s.getNode(MaxID)
	if !ok {
		s.corrupt("its last node has no row")
		return
	}
	s.tx.DeleteRow(s.idRow(rowNode, n.id))
	s.tail = n
	if s.nodes--; s.nodes == 0 {
		s.head, s.headLive = ID{}, 0
	}
}

// findHead sets head to the first node at or after an ID.
func (s *Stream) findHead(from ID) {
	s.head, s.headLive = ID{}, 0
	if s.nodes == 0 {
		return
	}
	it := s.rows([]byte{rowNode}, from, MaxID, false)
	if it.Next() {
		if n, ok := s.nodeRow(rest(it.Key()), it.Value()); ok {
			s.head, s.headLive = n.id, n.live
		}
	}
	s.tx.CloseRows(it)
}

// eachNode visits the nodes in order, the tail included, until visit returns false.
// Rows are read only as needed, and visit must not write.
func (s *Stream) eachNode(visit func(n node) bool) {
	if s.nodes > 0 {
		n, ok := s.getNode(s.head)
		if !ok || !visit(n) {
			return
		}
		if s.nodes > 1 && !s.laterNodes(visit) {
			return
		}
	}
	if !s.tail.id.IsZero() {
		visit(s.tail)
	}
}

func (s *Stream) laterNodes(visit func(n node) bool) bool {
	from, _ := s.head.Next()
	it := s.rows([]byte{rowNode}, from, MaxID, false)
	defer s.tx.CloseRows(it)
	var w work
	for it.Next() {
		n, ok := s.nodeRow(rest(it.Key()), it.Value())
		if !ok || !w.add(s.tx, 0) || !visit(n) {
			return false
		}
	}
	return true
}

// hashFields is a hash of the fields of an entry.
func hashFields(pairs [][]byte) uint64 {
	h := uint64(len(pairs))
	for i := 0; i < len(pairs); i += 2 {
		h = (h ^ xxhash.Sum64(pairs[i])) * 0x9e3779b97f4a7c15
	}
	return h
}

// itemSize is the size of a string in a listpack.
func itemSize(b []byte) int64 {
	n := int64(len(b))
	if n <= 20 {
		if v, ok := number.ParseInt(b); ok {
			return intSize(v)
		}
	}
	switch {
	case n < 64:
		n++
	case n < 4096:
		n += 2
	default:
		n += 5
	}
	return n + backSize(n)
}

// intSize is the size of an integer in a listpack.
func intSize(v int64) int64 {
	n := int64(9)
	switch {
	case v >= 0 && v <= 127:
		n = 1
	case v >= -4096 && v <= 4095:
		n = 2
	case v >= math.MinInt16 && v <= math.MaxInt16:
		n = 3
	case v >= -1<<23 && v < 1<<23:
		n = 4
	case v >= math.MinInt32 && v <= math.MaxInt32:
		n = 5
	}
	return n + 1
}

// backSize is the size of the length that follows an item of n bytes.
func backSize(n int64) int64 {
	switch {
	case n <= 127:
		return 1
	case n < 16383:
		return 2
	case n < 2097151:
		return 3
	case n < 268435455:
		return 4
	}
	return 5
}
