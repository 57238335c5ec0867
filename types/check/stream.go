package check

import (
	"bytes"
	"encoding/binary"
	"fmt"

	"redoubt/keyspace"
)

// The kinds of a stream's rows, and the sizes of their parts.
const (
	rowEntry    = 0x00
	rowNode     = 0x01
	rowGroup    = 0x02
	rowConsumer = 0x03
	rowPending  = 0x04
	rowOwned    = 0x05

	idSize       = 16
	nodeSize     = idSize + 4 + 4 + 4 + 8
	streamTail   = 3*idSize + 8 + 4 + 4 + 8 + idSize + 4 + idSize + nodeSize
	groupSize    = 4 + idSize + 8 + 8 + idSize + 4 + 4
	consumerSize = 4 + 8 + 8 + 8
	pendingHead  = 8 + 8
)

// id is an entry's ID as stored: bytes sort as IDs do.
type id [idSize]byte

func idOf(b []byte) id { return id(b[:idSize]) }

func (i id) String() string {
	return fmt.Sprintf("%d-%d", binary.BigEndian.Uint64(i[:]), binary.BigEndian.Uint64(i[8:]))
}

func (i id) compare(j id) int { return bytes.Compare(i[:], j[:]) }

// node is a run of entries that are counted together.
type node struct {
	first, last id
	live        uint32
}

func nodeOf(first, v []byte) node {
	return node{idOf(first), idOf(v), binary.BigEndian.Uint32(v[idSize:])}
}

// stream checks a stream. A second iterator reads the rows of nodes along with those
// of entries; others read a group's consumers and pending entries at the group's row.
type stream struct {
	value
	last, first, head id
	added             int64
	groups, nextGroup uint32
	nodes             int64
	headLive          uint32
	tailNode          node

	entry    id // the last one seen
	nodeIter *keyspace.RowIter
	began    bool
	here     *node
	next     *node
	counted  uint32
	nodeRows int64 // that were read
	ended    bool
	whole    bool // nodes could be read

	numbers      map[uint32]bool // of groups
	groupRows    uint32
	differ       bool   // the pending entries of a group and of its consumers differ
	owns, ownsOf digest // rows of consumers' entries: all, and those of existing consumers
}

// manyGroups is the most group numbers that are kept in memory.
const manyGroups = 1 << 16

func newStream(s *keyspace.Subject) keyspace.Judge {
	v, ok := open(s, streamTail)
	if !ok {
		return nil
	}
	b := v.tail
	j := &stream{value: v, whole: true, numbers: make(map[uint32]bool)}
	j.last, j.first, j.added = idOf(b), idOf(b[32:]), int64(binary.BigEndian.Uint64(b[48:]))
	j.groups, j.nextGroup = binary.BigEndian.Uint32(b[56:]), binary.BigEndian.Uint32(b[60:])
	j.nodes, j.head, j.headLive = int64(binary.BigEndian.Uint64(b[64:])), idOf(b[72:]), binary.BigEndian.Uint32(b[88:])
	j.tailNode = nodeOf(b[92:], b[108:])
	return j
}

func (j *stream) Row(k keyspace.Kind, rest, value []byte) {
	if k != keyspace.SubRow || len(rest) == 0 {
		j.foreign(k, rest)
		return
	}
	if rest[0] != rowEntry {
		j.endEntries()
	}
	switch sort, n := rest[0], len(rest)-1; {
	case sort == rowEntry && n == idSize:
		j.entryRow(rest, value)
	case sort == rowNode && n == idSize:
		if len(value) != nodeSize {
			j.WrongRow(k, rest, "its value has %d bytes", len(value))
		}
	case sort == rowGroup:
		j.groupRow(rest, value)
	case sort == rowConsumer && n >= 4, sort == rowPending && n == 4+idSize:
		j.ofGroup(rest)
	case sort == rowOwned && n == 4+4+idSize:
		j.ofGroup(rest)
		if j.owns.add(rest); len(value) > 0 {
			j.WrongRow(k, rest, "it has a value: %x", value[:min(len(value), 64)])
		}
	default:
		j.foreign(k, rest)
	}
}

// pairs reports whether the value of an entry's row can be read.
func pairs(b []byte) bool {
	n, head := binary.Uvarint(b)
	if head <= 0 {
		return false
	}
	for b = b[head:]; len(b) > 0; n-- {
		for range 2 {
			size, head := binary.Uvarint(b)
			if head <= 0 || size > uint64(len(b)-head) {
				return false
			}
			b = b[head+int(size):]
		}
	}
	return n == 0
}

func (j *stream) entryRow(rest, value []byte) {
	at := idOf(rest[1:])
	if !pairs(value) {
		j.WrongRow(keyspace.SubRow, rest, "its fields and values cannot be read")
	}
	if j.rows++; j.rows == 1 && at != j.first {
		j.Wrong("its first entry is %v, and is said to be %v", at, j.first)
	}
	j.entry = at
	if !j.began {
		j.begin()
	}
	for j.next != nil && at.compare(j.next.first) >= 0 {
		j.enter()
	}
	switch {
	case j.here == nil:
		j.WrongRow(keyspace.SubRow, rest, "it lies in no node")
	case at.compare(j.here.last) > 0:
		j.WrongRow(keyspace.SubRow, rest, "it lies behind the end of its node, %v", j.here.last)
	}
	j.counted++
}

func (j *stream) begin() {
	j.began = true
	j.nodeIter = j.Iter(keyspace.SubRow, []byte{rowNode}, []byte{rowNode + 1})
	j.advance()
}

// advance reads the next node: from its row, or the tail node after all rows.
func (j *stream) advance() {
	before := j.next
	j.next = nil
	for j.nodeIter.Next() {
		rest, v := j.nodeIter.Rest(), j.nodeIter.Value()
		if len(rest) != 1+idSize || len(v) != nodeSize {
			continue // Row reports it
		}
		j.nodeRows++
		n := nodeOf(rest[1:], v)
		j.next = &n
		if j.nodeRows == 1 && (j.next.first != j.head || j.next.live != j.headLive) {
			j.Wrong("its first node is from %v and has %d entries; it is said to be from %v with %d", j.next.first, j.next.live, j.head, j.headLive)
		}
		break
	}
	if j.next == nil && !j.ended && j.tailNode.first != (id{}) {
		j.next, j.ended = &j.tailNode, true
	}
	if j.next == nil {
		return
	}
	if j.next.first.compare(j.next.last) > 0 || before != nil && j.next.first.compare(before.last) <= 0 {
		j.Wrong("its node from %v to %v is not in its place", j.next.first, j.next.last)
	}
}

// enter goes to the next node.
func (j *stream) enter() {
	j.leave()
	j.here, j.counted = j.next, 0
	j.advance()
}

// leave checks the count of the current node.
func (j *stream) leave() {
	if j.here != nil && j.here.live != j.counted {
		j.Wrong("its node from %v is said to have %d entries, and has %d", j.here.first, j.here.live, j.counted)
	}
	j.here = nil
}

// endEntries ends the walk over the nodes.
func (j *stream) endEntries() {
	if !j.began {
		j.begin()
	}
	if j.nodeIter == nil {
		return
	}
	for j.next != nil {
		j.enter()
	}
	j.leave()
	j.whole = j.nodeIter.Close()
	j.nodeIter = nil
}

func (j *stream) End() {
	j.endEntries()
	j.count()
	if j.rows == 0 && j.first != (id{}) {
		j.Wrong("it has no entries, and the first is said to be %v", j.first)
	}
	if j.rows > 0 && j.last.compare(j.entry) < 0 {
		j.Wrong("its last entry is %v, and the last ID is said to be %v", j.entry, j.last)
	}
	if j.added < j.size {
		j.Wrong("it has %d entries, and %d are said to have been added", j.size, j.added)
	}
	if j.whole && (j.nodeRows != j.nodes || j.nodes == 0 && j.head != (id{})) {
		j.Wrong("it is said to have %d nodes from %v besides the last, and has %d", j.nodes, j.head, j.nodeRows)
	}
	if j.groupRows != j.groups {
		j.Wrong("it is said to have %d groups, and has %d", j.groups, j.groupRows)
	}
	if j.differ || j.owns != j.ownsOf {
		j.compareOwned()
	}
}
