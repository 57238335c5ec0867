package engine

import (
	"bytes"
	"encoding/binary"
	"hash/maphash"
	"iter"
	"slices"
	"unsafe"
)

// Batch is a write set: the rows that one commit will put and delete, as they
// stand after everything noted so far. A batch answers reads of its own writes and
// can be rolled back to a mark, so that a command that fails, or that is run again,
// leaves no trace.
//
// Approach: each row that was noted has a head, in the order of the first notes,
// and a small open-addressing hash table finds the head by the row's key. Notes are appended to a
// log; a head knows its newest note, and a note the one it replaced, so a rollback
// pops the log and then the heads that have no note left. Bytes live in one arena,
// so that a batch in steady state allocates nothing. A range delete
// also deletes the noted rows inside it; hence the meaning of a batch is: all
// range deletes first, then the newest note of each row.
//
// A Batch belongs to one goroutine.
type Batch struct {
	arena    []byte
	heads    []head
	log      []entry
	table    []int32 // index into heads + 1; 0 is empty
	ranges   []span
	counters []addend
	orders   []*order
	spare    []*order // free list
	checks   []byte   // keys of rows to be checked, each preceded by its length
	group    int      // see GroupBy
}

// head is a row that was noted.
type head struct {
	hash     uint64
	near     uint64 // see nearOf
	key, end int    // the row's key is arena[key:end]
	newest   int32  // index into log
	under    int8   // whether the view has the row: 1 yes, -1 no, 0 not known; see Txn.under
}

// entry is a note of a row.
type entry struct {
	val, end  int   // the value is arena[val:end]
	row, prev int32 // index into heads; index of the note that this one replaced, or -1
	deleted   bool
}

type span struct{ lo, mid, hi int }

type addend struct {
	key, end int
	delta    int64
}

// Mark is a place in a batch to roll back to.
type Mark struct{ log, arena, ranges, counters int }

var seed = maphash.MakeSeed()

// Hash is the hash of a row key, the same for the life of the process. A batch
// computes it for its own table; Op.Hash lets an engine use it again.
func Hash(key []byte) uint64 { return maphash.Bytes(seed, key) }

// Put notes that the row key has this value. Key and value are copied.
func (b *Batch) Put(key, value []byte) { b.note(key, value, nil, false) }

// Put2 is Put with a value given in two parts.
func (b *Batch) Put2(key, head, tail []byte) { b.note(key, head, tail, false) }

// Delete notes that the row does not exist.
func (b *Batch) Delete(key []byte) { b.note(key, nil, nil, true) }

// DeleteRange notes that no row with lo <= key < hi exists.
func (b *Batch) DeleteRange(lo, hi []byte) {
	if bytes.Compare(lo, hi) >= 0 {
		return
	}
	for i := range b.heads {
		if k := b.keyAt(int32(i)); !b.at(int32(i)).deleted && inRange(k, lo, hi) {
			b.Delete(slices.Clone(k))
		}
	}
	at := len(b.arena)
	b.arena = append(append(b.arena, lo...), hi...)
	b.ranges = append(b.ranges, span{at, at + len(lo), len(b.arena)})
}

// Add notes that the counter key changes by delta.
func (b *Batch) Add(key []byte, delta int64) {
	for i := len(b.counters) - 1; i >= 0 && i >= len(b.counters)-4; i-- {
		c := &b.counters[i]
		if bytes.Equal(b.arena[c.key:c.end], key) {
			b.counters = append(b.counters, addend{c.key, c.end, delta})
			return
		}
	}
	at := len(b.arena)
	b.arena = append(b.arena, key...)
	b.counters = append(b.counters, addend{at, len(b.arena), delta})
}

// Check notes that the commit depends on the row being as its view shows it. Only a
// Shared engine uses checks. Rollback keeps them; DropChecks removes them.
func (b *Batch) Check(key []byte) {
	b.checks = binary.BigEndian.AppendUint32(b.checks, uint32(len(key)))
	b.checks = append(b.checks, key...)
}

// CheckMark returns the present place in the checks, and DropChecks forgets the checks
// since such a place: the checks of an execution that has written nothing.
func (b *Batch) CheckMark() int      { return len(b.checks) }
func (b *Batch) DropChecks(mark int) { b.checks = b.checks[:mark] }

// Checks yields the keys of the rows to be checked. A key may come twice, and the batch
// may write its row, too. The keys are valid while the batch is unchanged.
func (b *Batch) Checks() iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		for rest := b.checks; len(rest) > 0; {
			n := 4 + int(binary.BigEndian.Uint32(rest))
			if !yield(rest[4:n:n]) {
				return
			}
			rest = rest[n:]
		}
	}
}

func (b *Batch) note(key, head, tail []byte, deleted bool) {
	if len(b.heads)*2 >= len(b.table) {
		b.grow()
	}
	h := Hash(key)
	slot, row := b.find(h, key)
	prev := int32(-1)
	if row >= 0 {
		prev = b.heads[row].newest
	} else {
		row = b.newHead(h, key)
		b.table[slot] = row + 1
	}
	val := len(b.arena)
	b.arena = append(append(b.arena, head...), tail...)
	b.heads[row].newest = int32(len(b.log))
	b.log = append(b.log, entry{val: val, end: len(b.arena), row: row, prev: prev, deleted: deleted})
}

func (b *Batch) newHead(hash uint64, key []byte) int32 {
	at := len(b.arena)
	b.arena = append(b.arena, key...)
	b.heads = append(b.heads, head{hash: hash, near: b.nearOf(key), key: at, end: len(b.arena)})
	return int32(len(b.heads) - 1)
}

// find returns the table slot of a key and the index of its head, or -1.
func (b *Batch) find(h uint64, key []byte) (slot int, row int32) {
	mask := len(b.table) - 1
	for slot = int(h) & mask; ; slot = (slot + 1) & mask {
		i := b.table[slot] - 1
		if i < 0 {
			return slot, -1
		}
		if e := &b.heads[i]; e.hash == h && bytes.Equal(b.arena[e.key:e.end], key) {
			return slot, i
		}
	}
}

func (b *Batch) grow() {
	b.table = make([]int32, max(64, 2*len(b.table)))
	mask := len(b.table) - 1
	for i := range b.heads {
		slot := int(b.heads[i].hash) & mask
		for b.table[slot] != 0 {
			slot = (slot + 1) & mask
		}
		b.table[slot] = int32(i + 1)
	}
}

// Get looks a row up among the noted writes. If known is false the batch says
// nothing about the row. The value is valid until the next note or Reset.
func (b *Batch) Get(key []byte) (value []byte, found, known bool) {
	if len(b.heads) > 0 {
		if _, i := b.find(Hash(key), key); i >= 0 {
			e := b.at(i)
			return b.arena[e.val:e.end], !e.deleted, true
		}
	}
	return nil, false, b.rangeDeleted(key)
}

func (b *Batch) rangeDeleted(key []byte) bool {
	for _, r := range b.ranges {
		if inRange(key, b.arena[r.lo:r.mid], b.arena[r.mid:r.hi]) {
			return true
		}
	}
	return false
}

func inRange(key, lo, hi []byte) bool {
	return bytes.Compare(lo, key) <= 0 && (hi == nil || bytes.Compare(key, hi) < 0)
}

// Pending returns what the batch adds to a counter.
func (b *Batch) Pending(key []byte) (sum int64) {
	for _, c := range b.counters {
		if bytes.Equal(b.arena[c.key:c.end], key) {
			sum += c.delta
		}
	}
	return sum
}

// Mark returns the present place in the batch.
func (b *Batch) Mark() Mark { return Mark{len(b.log), len(b.arena), len(b.ranges), len(b.counters)} }

// Changed reports whether anything was noted since the mark.
func (b *Batch) Changed(m Mark) bool {
	return len(b.log) != m.log || len(b.ranges) != m.ranges || len(b.counters) != m.counters
}

// Rollback forgets everything noted since the mark.
func (b *Batch) Rollback(m Mark) {
	if !b.Changed(m) {
		return
	}
	for i := len(b.log) - 1; i >= m.log; i-- {
		e := &b.log[i]
		if h := &b.heads[e.row]; e.prev >= 0 {
			h.newest = e.prev
		} else { // heads are in the order of first notes: this is the last one
			slot, _ := b.find(h.hash, b.arena[h.key:h.end])
			b.unlink(slot)
			b.heads = b.heads[:e.row]
		}
	}
	b.log = b.log[:m.log]
	b.reorder()
	b.arena, b.ranges, b.counters = b.arena[:m.arena], b.ranges[:m.ranges], b.counters[:m.counters]
}

// unlink empties a table slot and moves later entries of its probe sequence back.
func (b *Batch) unlink(slot int) {
	mask := len(b.table) - 1
	for next := (slot + 1) & mask; b.table[next] != 0; next = (next + 1) & mask {
		home := int(b.heads[b.table[next]-1].hash) & mask
		if (next-home)&mask >= (next-slot)&mask {
			b.table[slot], slot = b.table[next], next
		}
	}
	b.table[slot] = 0
}

// Empty reports whether the batch would change nothing.
func (b *Batch) Empty() bool { return len(b.log)+len(b.ranges)+len(b.counters) == 0 }

// Len is the number of rows and ranges noted, and Size about how many bytes of keys
// and values.
func (b *Batch) Len() int  { return len(b.heads) + len(b.ranges) }
func (b *Batch) Size() int { return len(b.arena) }

// Memory is about how many bytes the batch occupies.
func (b *Batch) Memory() int64 {
	return int64(cap(b.arena)) + int64(cap(b.heads))*int64(unsafe.Sizeof(head{})) + int64(cap(b.log))*int64(unsafe.Sizeof(entry{})) +
		int64(cap(b.table))*4 + int64(cap(b.checks))
}

// Reset empties the batch. It keeps the memory for reuse, unless that is large.
func (b *Batch) Reset() {
	const keep = 1 << 20
	if cap(b.arena) > keep || len(b.table) > keep/16 {
		*b = Batch{group: b.group}
		return
	}
	if len(b.heads) > 0 {
		clear(b.table)
	}
	b.arena, b.heads, b.log, b.ranges, b.counters = b.arena[:0], b.heads[:0], b.log[:0], b.ranges[:0], b.counters[:0]
	b.checks = b.checks[:0]
	b.dropOrders()
}

// Op is one change of a row. Its bytes are valid while the batch is unchanged.
type Op struct {
	Key, Value []byte
	Hash       uint64 // Hash(Key)
	Delete     bool
}

// Ranges yields the deleted ranges. An engine applies them before the Ops.
func (b *Batch) Ranges() iter.Seq2[[]byte, []byte] {
	return func(yield func(lo, hi []byte) bool) {
		for _, r := range b.ranges {
			if !yield(b.arena[r.lo:r.mid], b.arena[r.mid:r.hi]) {
				return
			}
		}
	}
}

// Ops yields the newest change of each row, in the order in which rows were first noted.
func (b *Batch) Ops() iter.Seq[Op] {
	return func(yield func(Op) bool) {
		for i := range b.heads {
			if !yield(b.op(int32(i))) {
				return
			}
		}
	}
}

func (b *Batch) op(row int32) Op {
	h := &b.heads[row]
	e := &b.log[h.newest]
	return Op{Key: b.arena[h.key:h.end:h.end], Value: b.arena[e.val:e.end:e.end], Hash: h.hash, Delete: e.deleted}
}

// Counters yields the keys of counters and what is added to each. A key may come more
// than once.
func (b *Batch) Counters() iter.Seq2[[]byte, int64] {
	return func(yield func([]byte, int64) bool) {
		for _, c := range b.counters {
			if !yield(b.arena[c.key:c.end:c.end], c.delta) {
				return
			}
		}
	}
}

// keyAt is the key of a row, given as an index into heads, and at is its newest note.
func (b *Batch) keyAt(row int32) []byte { h := &b.heads[row]; return b.arena[h.key:h.end] }
func (b *Batch) at(row int32) *entry    { return &b.log[b.heads[row].newest] }
