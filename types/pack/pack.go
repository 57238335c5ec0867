// Package pack is the form of small collections, inside their meta row: a count
// and then the entries, each prefixed with its length.
//
//	count:2 (length:uvarint bytes)*
//
// The types define what an entry means. A Buf is edited in place, so the editor
// must own it: see keyspace.Tx.Own.
package pack

import (
	"encoding/binary"
	"fmt"

	"redoubt/engine"
)

// MaxBytes is the largest packed body: a larger collection unfolds into rows
// whatever its limits, since each change rewrites the whole body.
const MaxBytes = 64 << 10

// MaxHashBytes is MaxBytes for hashes. As in Redis, a packed hash may hold a value
// of nearly 64 KB and other fields; since fields differ, even so large a hash has
// fewer entries than the count can hold.
const MaxHashBytes = 80 << 10

// head is the length of the count.
const head = 2

// Buf is a packed body. A nil Buf has no entries.
type Buf []byte

// Len is the number of entries.
func (b Buf) Len() int {
	if len(b) < head {
		return 0
	}
	return int(binary.BigEndian.Uint16(b))
}

// First is the offset of the first entry.
func (b Buf) First() int { return head }

// At returns the entry at an offset, and the offset of the next. It reports false
// at the end.
func (b Buf) At(off int) (entry []byte, next int, ok bool) {
	if off >= len(b) {
		return nil, off, false
	}
	// One byte is the common length.
	n, size := uint64(b[off]), 1
	if n >= 0x80 {
		if n, size = binary.Uvarint(b[off:]); size <= 0 {
			return nil, off, false
		}
	}
	from := off + size
	if n > uint64(len(b)-from) {
		return nil, off, false
	}
	next = from + int(n)
	return b[from:next:next], next, true
}

// Size is the number of bytes of an entry, with its length.
func Size(entry []byte) int { return uvarintLen(uint64(len(entry))) + len(entry) }

func uvarintLen(n uint64) int {
	size := 1
	for ; n >= 0x80; n >>= 7 {
		size++
	}
	return size
}

// AppendEntry appends an entry, with its length, to b, which has no count.
func AppendEntry(b, entry []byte) []byte {
	return append(binary.AppendUvarint(b, uint64(len(entry))), entry...)
}

// Splice replaces the bytes [from, to), which are removed entries, with other
// entries, which must not share memory with b.
func (b Buf) Splice(from, to, removed int, entries ...[]byte) Buf {
	if len(b) < head {
		b = append(b[:0], 0, 0)
		from, to = head, head
	}
	count, size := b.Len()-removed+len(entries), 0
	for _, e := range entries {
		size += Size(e)
	}
	grow, old := size-(to-from), len(b)
	if grow > 0 {
		for range (grow + len(zeros) - 1) / len(zeros) {
			b = append(b, zeros[:min(len(zeros), old+grow-len(b))]...)
		}
	}
	copy(b[to+grow:], b[to:old])
	b = b[:old+grow]
	at := b[from:from]
	for _, e := range entries {
		at = AppendEntry(at, e)
	}
	binary.BigEndian.PutUint16(b, uint16(count))
	return b
}

var zeros [256]byte

// Append appends entries.
func (b Buf) Append(entries ...[]byte) Buf { return b.Splice(len(b), len(b), 0, entries...) }

// Check returns what is wrong with the bytes, wrapping engine.ErrCorrupt.
func (b Buf) Check() error {
	if len(b) == 0 {
		return nil
	}
	n, off := 0, b.First()
	for ; ; n++ {
		_, next, ok := b.At(off)
		if !ok {
			break
		}
		off = next
	}
	if len(b) < head || off != len(b) || n != b.Len() {
		return fmt.Errorf("%w: a packed value of %d bytes says that it has %d entries; %d were found up to byte %d",
			engine.ErrCorrupt, len(b), b.Len(), n, off)
	}
	return nil
}
