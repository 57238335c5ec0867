// Package stream is the stream type: entries of fields and values in the order
// of their IDs, and groups of consumers that read them.
//
// A stream is always stored in rows, and is kept when it is empty. The body of its
// meta row is the Ref, whose size is the number of entries, and after it:
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
// Nodes are the unit of trimming: Redis keeps about a hundred entries in a block of
// memory, and approximate trimming removes whole blocks only. Here nodes are counts
// only, see node.go: the ID of the first entry, and the number of entries. The last
// node, which grows, is in the meta row as tail; the others have a row, which is
// written when the node is full. So adding an entry writes the meta row and the
// entry, and trimming need not count what it removes. head is the first node if that
// is not the tail.
//
// A stream's functions change it in memory and in its rows; Save stores the meta
// row at the end, and Group.Save a group's. Functions that write walk in pages, since
// rows must not change under an open iterator.
package stream

import (
	"encoding/binary"
	"fmt"
	"sync"

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

// Stream is the stream at a key, as one execution sees and changes it. A missing key
// is a stream without entries.
type Stream struct {
	// Last is the ID given last, MaxDeleted the highest one that was deleted by
	// itself (not by trimming), First that of the first entry, or 0-0.
	Last, MaxDeleted, First ID
	// Added is the number of entries ever added.
	Added int64

	tx        *keyspace.Tx
	key       []byte
	old       keyspace.Meta
	limits    *types.Limits
	fresh     bool // made by Create: replaces the key's value
	ref       keyspace.Ref
	groups    uint32
	nextGroup uint32
	nodes     int64 // nodes with a row: all but the tail
	head      ID    // the ID of the first node with a row
	headLive  uint32
	tail      node
	scratch   []byte
	changed   bool
}

// bodySize is the length of a body.
const bodySize = keyspace.RefSize + 3*idSize + 8 + 4 + 4 + 8 + idSize + 4 + idSize + nodeSize

var pool = sync.Pool{New: func() any { return new(Stream) }}

// Open opens the stream at a key that is about to be changed.
func Open(tx *keyspace.Tx, key []byte, limits *types.Limits) (*Stream, error) {
	s, err := Of(tx, key, tx.Find(key))
	if err == nil {
		s.limits = limits
	}
	return s, err
}

// Read opens the stream at a key for reading: the lookup counts as a hit or a miss. Groups
// and their pending entries may be changed nevertheless.
func Read(tx *keyspace.Tx, key []byte) (*Stream, error) { return Of(tx, key, tx.Read(key)) }

// Of returns a Stream for reading, from the meta row that Find or Read returned.
func Of(tx *keyspace.Tx, key []byte, m keyspace.Meta) (*Stream, error) {
	if m.Exists() && m.Type != keyspace.Stream {
		return nil, types.ErrWrongType
	}
	s := pool.Get().(*Stream)
	s.tx, s.key, s.old = tx, key, m
	if !m.Exists() {
		return s, nil
	}
	if m.Encoding != keyspace.Rows || len(m.Body) != bodySize {
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

// Create returns an empty stream. Save replaces the key's value with it, of whatever
// type, without an expiry.
func Create(tx *keyspace.Tx, key []byte, limits *types.Limits) *Stream {
	s := pool.Get().(*Stream)
	s.tx, s.key, s.old, s.limits, s.fresh = tx, key, tx.Find(key), limits, true
	s.start()
	return s
}

// Release ends the use of the stream and of its groups. Calling it is optional:
// frequent commands do, to avoid garbage.
func (s *Stream) Release() {
	*s = Stream{}
	pool.Put(s)
}

// Exists reports whether the key was there when it was opened, or was saved since.
func (s *Stream) Exists() bool { return s.old.Exists() }

// Len is the number of entries, and Groups the number of groups.
func (s *Stream) Len() int64    { return s.ref.Size }
func (s *Stream) Groups() int64 { return int64(s.groups) }

// Nodes is the number of nodes.
func (s *Stream) Nodes() int64 {
	if s.tail.id.IsZero() {
		return s.nodes
	}
	return s.nodes + 1
}

// start assigns an id for the rows to a stream that is not stored yet.
func (s *Stream) start() {
	if s.ref.ID == 0 {
		s.ref = s.tx.NewRef(s.key, 0)
		s.changed = true
	}
}

// Save stores the meta row if it has changed. The key keeps its expiry, unless Create made
// the stream, and is never removed: a stream without entries is a value.
func (s *Stream) Save() (gone bool) {
	if !s.changed || s.tx.Err() != nil {
		return false
	}
	m := keyspace.Meta{Type: keyspace.Stream, Encoding: keyspace.Rows, Body: s.body()}
	if !s.fresh {
		m.Expire = s.old.Expire
	}
	s.tx.Store(s.key, s.old, m)
	s.old, s.changed, s.fresh = m, false, false
	return false
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

// SetID sets Last, and Added and MaxDeleted unless they are negative or zero.
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

// release frees the memory allocated since keyspace.Tx.Held returned held, and drops
// the scratch buffer, which may be part of it.
func (s *Stream) release(held int) {
	s.scratch = nil
	s.tx.Release(held)
}

// rows returns an iterator over the rows whose keys are prefix and an ID in [from, to].
// keyspace.Tx.CloseRows closes it.
func (s *Stream) rows(prefix []byte, from, to ID, reverse bool) engine.Iterator {
	lo := appendID(append(make([]byte, 0, len(prefix)+idSize), prefix...), from)
	hi := append(appendID(append(make([]byte, 0, len(prefix)+idSize+1), prefix...), to), 0)
	return s.tx.IterKind(s.ref, keyspace.SubRow, lo, hi, reverse)
}

// rest is the part of a row's key after the prefix that all rows of a value share.
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

// drop deletes the rows whose keys begin with prefix; count is their number. Many rows
// are deleted as one range.
func (s *Stream) drop(prefix []byte, count int64) { s.dropRange(prefix, successor(prefix), count) }

// dropRange deletes the count rows with keys in [from, to).
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

// rangeMin is the most rows that are deleted one by one: a range delete is cheap to
// write, but expensive for later reads.
const rangeMin = 512

// successor is the first key after all keys that begin with prefix, which must not
// consist of ff bytes only.
func successor(prefix []byte) []byte {
	s := append([]byte(nil), prefix...)
	for i := len(s) - 1; i >= 0; i-- {
		if s[i]++; s[i] != 0 {
			return s[:i+1]
		}
	}
	return nil
}

// rowWork is the cost of reading a row, in the unit of keyspace.Tx.Heavy.
const rowWork = 64

// work adds up the cost of a walk, and asks keyspace.Tx.Heavy now and then whether the
// execution must stop and move to a worker.
type work struct{ done, asked int64 }

// add returns false when the execution must stop.
func (w *work) add(tx *keyspace.Tx, bytes int) bool {
	w.done += int64(bytes) + rowWork
	if w.done-w.asked < 64<<10 {
		return true
	}
	w.asked = w.done
	return !tx.Heavy(w.done)
}
