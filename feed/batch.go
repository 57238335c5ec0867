package feed

import "strconv"

// Batch has the commands that one commit propagates, encoded as requests, in the order in
// which they took effect. The zero value notes nothing, as long as On is false.
type Batch struct {
	// On: replicas, or a backlog for them, want the commands.
	On bool
	// Own counts the commands that handlers have noted in place of their own arguments.
	Own int

	buf   []byte
	ops   []op
	unit  uint32
	units uint32
}

// op is one command in the buffer.
type op struct {
	db, end int
	unit    uint32
}

// BeginUnit begins a unit: the commands of a unit that has several go out as one transaction.
func (b *Batch) BeginUnit() {
	b.units++
	b.unit = b.units
}

// EndUnit ends the unit. Each command outside of a unit goes out by itself.
func (b *Batch) EndUnit() { b.unit = 0 }

// Add adds a command that takes effect in a database.
func (b *Batch) Add(db int, args ...[]byte) {
	b.buf = AppendCommand(b.buf, args...)
	b.ops = append(b.ops, op{db, len(b.buf), b.unit})
}

// Empty reports whether there is nothing to propagate.
func (b *Batch) Empty() bool { return len(b.ops) == 0 }

// Mark is a place to roll a Batch back to.
type Mark struct{ bytes, ops, own int }

// Mark returns the present place.
func (b *Batch) Mark() Mark { return Mark{len(b.buf), len(b.ops), b.Own} }

// Rollback drops what was added since the mark.
func (b *Batch) Rollback(m Mark) { b.buf, b.ops, b.Own = b.buf[:m.bytes], b.ops[:m.ops], m.own }

// keepBuffer is the largest buffer that Reset keeps.
const keepBuffer = 64 << 10

// Reset empties the batch and sets On to false.
func (b *Batch) Reset() {
	if cap(b.buf) > keepBuffer {
		b.buf = nil
	}
	*b = Batch{buf: b.buf[:0], ops: b.ops[:0]}
}

// AppendCommand appends a command as a request: an array of bulk strings.
func AppendCommand(dst []byte, args ...[]byte) []byte {
	dst = appendHead(dst, '*', len(args))
	for _, a := range args {
		dst = appendHead(dst, '$', len(a))
		dst = append(append(dst, a...), "\r\n"...)
	}
	return dst
}

func appendHead(dst []byte, kind byte, n int) []byte {
	return append(strconv.AppendInt(append(dst, kind), int64(n), 10), "\r\n"...)
}
