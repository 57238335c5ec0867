// Package stream is the stream type: entries of fields and values in the order
// of their IDs, and groups of consumers that read them.
//
// A stream always has rows of its own, and stays when it is empty. The body of
// its meta row is the Ref, whose size is the number of entries, and behind it:
//
//	last:16 maxDeleted:16 first:16 added:8 groups:4 nextGroup:4
//	nodes:8 head:16 headLive:4 tail:16 tailLast:16 live:4 deleted:4 bytes:4 fields:8
//
// Its sub rows, by their first byte:
//
//	00 id:16                       entry: pairs:uvarint (length:uvarint bytes)*
//	01 id:16                       node: last:16 live:4 deleted:4 bytes:4 fields:8
//	02 name                        group: number:4 last:16 read:8 pending:8 top:16 consumers:4 nextConsumer:4
//	03 group:4 name                consumer: number:4 seen:8 active:8 pending:8
//	04 group:4 id:16               pending: time:8 count:8, name of the consumer
//	05 group:4 consumer:4 id:16    pending, by consumer: empty
//
// An ID is ms:8 seq:8, so rows lie in the order of IDs. Groups and consumers have
// numbers that are not used twice in a stream, so that the rows of pending entries
// are short, and those of a group or a consumer are one range.
//
// Nodes are what Redis trims by: it keeps about a hundred entries in a block of
// memory, and the approximate forms of trimming remove whole blocks only. Here
// nodes are bookkeeping, see node.go: the ID of the first entry, and how many
// there are. The last node, which grows, is in the meta row as tail; others have a
// row, which is written when the node is full. So adding an entry writes the meta
// row and the entry, and trimming needs no count of what it removes. head is the
// first node if that is not the tail.
//
// A stream's functions change it in memory and in its rows; Save stores the meta
// row at the end, and Group.Save a group's. Those that write walk in pages, since
// a batch must not change under an iterator.
package stream

import (
	"encoding/binary"
	"fmt"

	"redoubt/engine"
	"redoubt/keyspace"
	"redoubt/types"
)

// The kinds of sub rows. The numbers are on disk.
const (
	rowEntry    = 0x00
	rowNode     = 0x01
	rowGroup    = 0x02
	rowConsumer = 0x03
	rowPending  = 0x04
	rowOwned    = 0x05
)

// Stream is a stream as its meta row has it.
type Stream struct {
	// Last is the ID given last, MaxDeleted the highest one that was deleted by
	// itself (not by trimming), First that of the first entry, or 0-0.
	Last, MaxDeleted, First ID
	// Added is how many entries there ever were.
	Added int64

	tx        *keyspace.Tx
	key       []byte
	old       keyspace.Meta
	ref       keyspace.Ref
	groups    uint32
	nextGroup uint32
	nodes     int64 // how many have a row: all but the tail
	head      ID    // of those, the first one's ID
	headLive  uint32
	tail      node
	scratch   []byte
	changed   bool
}

// bodySize is the length of a body.
const bodySize = keyspace.RefSize + 3*idSize + 8 + 4 + 4 + 8 + idSize + 4 + idSize + nodeSize

// Open finds the stream at a key that is about to be changed.
func Open(tx *keyspace.Tx, key []byte) (Stream, error) { return open(tx, key, tx.Find(key)) }

// Read finds the stream at a key for reading: it counts as a hit or a miss.
func Read(tx *keyspace.Tx, key []byte) (Stream, error) { return open(tx, key, tx.Read(key)) }

func open(tx *keyspace.Tx, key []byte, m keyspace.Meta) (Stream, error) {
	s := Stream{tx: tx, key: key, old: m}
	switch {
	case !m.Exists():
		return s, nil
	case m.Type != keyspace.Stream:
		return s, types.ErrWrongType
	case m.Encoding != keyspace.Rows || len(m.Body) != bodySize:
		tx.Fail(fmt.Errorf("%w: stream %.64q has encoding %d and a body of %d bytes", engine.ErrCorrupt, key, m.Encoding, len(m.Body)))
		return s, nil
	}
	s.ref = m.Ref()
	b := m.Body[keyspace.RefSize:]
	s.Last, s.MaxDeleted, s.First = decodeID(b), decodeID(b[16:]), decodeID(b[32:])
	s.Added = int64(binary.BigEndian.Uint64(b[48:]))
	s.groups, s.nextGroup = binary.BigEndian.Uint32(b[56:]), binary.BigEndian.Uint32(b[60:])
	s.nodes, s.head = int64(binary.BigEndian.Uint64(b[64:])), decodeID(b[72:])
	s.headLive = binary.BigEndian.Uint32(b[88:])
	s.tail.id = decodeID(b[92:])
	s.tail.decode(b[108:])
	return s, nil
}

// Exists says whether there is a stream.
func (s *Stream) Exists() bool { return s.ref.ID != 0 }

// Len is the number of entries, and Groups that of groups.
func (s *Stream) Len() int64    { return s.ref.Size }
func (s *Stream) Groups() int64 { return int64(s.groups) }

// Nodes is the number of nodes.
func (s *Stream) Nodes() int64 {
	if s.tail.id.IsZero() {
		return s.nodes
	}
	return s.nodes + 1
}

// Create makes an empty stream where there is none.
func (s *Stream) Create() {
	if !s.Exists() {
		s.ref = s.tx.NewRef(s.key, 0)
		s.changed = true
	}
}

// Save stores the meta row if anything in it has changed.
func (s *Stream) Save() {
	if !s.changed || s.tx.Err() != nil {
		return
	}
	m := keyspace.Meta{Type: keyspace.Stream, Encoding: keyspace.Rows, Expire: s.old.Expire, Body: s.body()}
	s.tx.Store(s.key, s.old, m)
	s.old, s.changed = m, false
}

func (s *Stream) body() []byte {
	b := keyspace.AppendRef(s.tx.Own(nil, bodySize), s.ref)
	b = appendID(appendID(appendID(b, s.Last), s.MaxDeleted), s.First)
	b = binary.BigEndian.AppendUint64(b, uint64(s.Added))
	b = binary.BigEndian.AppendUint32(b, s.groups)
	b = binary.BigEndian.AppendUint32(b, s.nextGroup)
	b = binary.BigEndian.AppendUint64(b, uint64(s.nodes))
	b = appendID(b, s.head)
	b = binary.BigEndian.AppendUint32(b, s.headLive)
	b = appendID(b, s.tail.id)
	return s.tail.append(b)
}

// SetID makes the ID given last another one, and what else is given.
func (s *Stream) SetID(last ID, added int64, maxDeleted ID) {
	s.Last, s.changed = last, true
	if added >= 0 {
		s.Added = added
	}
	if !maxDeleted.IsZero() {
		s.MaxDeleted = maxDeleted
	}
}

// row begins the key of a row in the scratch buffer.
func (s *Stream) row(kind byte) []byte {
	if s.scratch == nil {
		s.scratch = s.tx.Own(nil, 64)
	}
	return append(keyspace.AppendRowKey(s.scratch[:0], s.ref, keyspace.SubRow), kind)
}

// done keeps a buffer that row began, in case it has grown, and returns it.
func (s *Stream) done(b []byte) []byte {
	s.scratch = b
	return b
}

func (s *Stream) idRow(kind byte, id ID) []byte { return s.done(appendID(s.row(kind), id)) }

// release gives back the memory of what was read since keyspace.Tx.Held was asked,
// and the scratch buffer, which may lie behind that.
func (s *Stream) release(held int) {
	s.scratch = nil
	s.tx.Release(held)
}

// rows iterates over the rows whose keys begin with prefix, from those that go on
// with from up to those that go on with to, the last one included. It is closed by
// keyspace.Tx.CloseRows.
func (s *Stream) rows(prefix []byte, from, to ID, reverse bool) engine.Iterator {
	lo := appendID(append(make([]byte, 0, len(prefix)+idSize), prefix...), from)
	hi := append(appendID(append(make([]byte, 0, len(prefix)+idSize+1), prefix...), to), 0)
	return s.tx.IterKind(s.ref, keyspace.SubRow, lo, hi, reverse)
}

// rest is the part of a row's key behind the prefix that all rows of a value have.
func rest(key []byte) []byte {
	if len(key) < keyspace.RowKeyHead {
		return nil
	}
	return key[keyspace.RowKeyHead:]
}

// corrupt fails the execution because of a row.
func (s *Stream) corrupt(what string) {
	s.tx.Fail(fmt.Errorf("%w: stream %.64q: %s", engine.ErrCorrupt, s.key, what))
}

// drop deletes the rows whose keys begin with prefix; count is how many there
// are. Many go by one range delete.
func (s *Stream) drop(prefix []byte, count int64) { s.dropRange(prefix, successor(prefix), count) }

// dropRange deletes the rows from one key up to another.
func (s *Stream) dropRange(from, to []byte, count int64) {
	if count == 0 || s.tx.Err() != nil {
		return
	}
	head := keyspace.AppendRowKey(nil, s.ref, keyspace.SubRow)
	if count > rangeMin {
		lo, hi := append(head[:len(head):len(head)], from...), append(head[:len(head):len(head)], to...)
		s.tx.DeleteRange(lo, hi)
		return
	}
	keys, ends := []byte(nil), []int(nil)
	it := s.tx.IterKind(s.ref, keyspace.SubRow, from, to, false)
	for it.Next() {
		keys = append(keys, it.Key()...)
		ends = append(ends, len(keys))
	}
	s.tx.CloseRows(it)
	at := 0
	for _, end := range ends {
		s.tx.DeleteRow(keys[at:end])
		at = end
	}
}

// rangeMin is how many rows are deleted one by one at the most: a range delete
// is cheap to make and dear to keep.
const rangeMin = 512

// successor is the first key behind all that begin with prefix, which does not
// consist of ff bytes.
func successor(prefix []byte) []byte {
	s := append([]byte(nil), prefix...)
	for i := len(s) - 1; i >= 0; i-- {
		if s[i]++; s[i] != 0 {
			return s[:i+1]
		}
	}
	return nil
}

// rowWork is what looking at a row weighs, in the terms of keyspace.Tx.Heavy.
const rowWork = 64

// work adds up what an execution has looked at, and asks now and then whether it
// should go on elsewhere.
type work struct{ done, asked int64 }

// add says false when the execution is to stop.
func (w *work) add(tx *keyspace.Tx, bytes int) bool {
	w.done += int64(bytes) + rowWork
	if w.done-w.asked < 64<<10 {
		return true
	}
	w.asked = w.done
	return !tx.Heavy(w.done)
}
