package str

import (
	"encoding/binary"

	"redoubt/keyspace"
)

// Reading chunks, and writing a whole chunked string from its start to its end.

// appendChunkKey appends the key of a chunk's row.
func appendChunkKey(b []byte, r keyspace.Ref, index int64) []byte {
	return binary.BigEndian.AppendUint32(keyspace.AppendRowKey(b, r, keyspace.SubRow), uint32(index))
}

// trim removes the zeros at the end.
func trim(b []byte) []byte {
	n := len(b)
	for n > 0 && b[n-1] == 0 {
		n--
	}
	return b[:n]
}

// Walk visits the stored bytes of [from, to), which must lie inside the string,
// in ascending order, until visit returns false: pieces of data with the offset
// of each. Bytes that no piece covers are zeros. A piece is valid during its visit.
// A range that is large is moved to a worker first.
func (v Value) Walk(tx *keyspace.Tx, from, to int64, visit func(at int64, piece []byte) bool) {
	if from >= to {
		return
	}
	if b, ok := v.Inline(); ok {
		visit(from, b[from:to])
		return
	}
	if tx.Heavy(to - from) {
		return
	}
	c := v.Open(tx, from, to)
	defer c.Close()
	for {
		at, piece, ok := c.Next()
		if !ok || !visit(at, piece) {
			return
		}
	}
}

// AppendRange appends the bytes of [from, to), which must lie inside the
// string, to dst.
func (v Value) AppendRange(tx *keyspace.Tx, dst []byte, from, to int64) []byte {
	if b, ok := v.Inline(); ok {
		return append(dst, b[from:to]...)
	}
	end := from
	v.Walk(tx, from, to, func(at int64, piece []byte) bool {
		dst = append(appendZeros(dst, at-end), piece...)
		end = at + int64(len(piece))
		return true
	})
	if tx.Err() != nil {
		return dst
	}
	return appendZeros(dst, to-end)
}

// ReadAt fills b with the bytes at an offset; bytes past the end are zeros. ReadAt is
// meant for a few bytes.
func (v Value) ReadAt(tx *keyspace.Tx, off int64, b []byte) {
	clear(b)
	if body, ok := v.Inline(); ok {
		if off < int64(len(body)) {
			copy(b, body[off:])
		}
		return
	}
	var buf [rowKey]byte
	r := v.Ref()
	for len(b) > 0 && off < r.Size {
		in := off % chunkSize
		n := min(int64(len(b)), chunkSize-in)
		if row, found := tx.GetRow(appendChunkKey(buf[:0], r, off/chunkSize)); found && in < int64(len(row)) {
			copy(b[:n], row[in:])
		}
		b, off = b[n:], off+n
	}
}

// rowKey is the length of a chunk's row key.
const rowKey = keyspace.RowKeyHead + 4

func appendZeros(dst []byte, n int64) []byte {
	at := len(dst)
	if n <= int64(cap(dst)-at) {
		dst = dst[:at+int(n)]
		clear(dst[at:])
		return dst
	}
	return append(dst, make([]byte, n)...)
}

// Cursor walks the stored pieces of a range; see Walk. Rows of other values may
// be written meanwhile.
type Cursor struct {
	tx       *keyspace.Tx
	it       rowIterator
	inline   []byte
	from, to int64
}

// rowIterator is the part of an engine's iterator that a Cursor uses.
type rowIterator interface {
	Next() bool
	Key() []byte
	Value() []byte
	Close() error
}

// Open starts a walk over [from, to), which must lie inside the string. The
// cursor must be closed.
func (v Value) Open(tx *keyspace.Tx, from, to int64) *Cursor {
	c := &Cursor{tx: tx, from: from, to: to}
	if b, ok := v.Inline(); ok {
		c.inline = b
		return c
	}
	if from < to {
		r := v.Ref()
		lo := appendChunkKey(nil, r, from/chunkSize)
		hi := append(appendChunkKey(nil, r, (to-1)/chunkSize), 0)
		c.it = tx.IterRows(lo, hi, false)
	}
	return c
}

// Next returns the next piece and its offset. The piece is valid until the
// next call. ok is false at the end.
func (c *Cursor) Next() (at int64, piece []byte, ok bool) {
	if c.it == nil {
		if c.from >= c.to || c.inline == nil {
			return 0, nil, false
		}
		at, piece = c.from, c.inline[c.from:c.to]
		c.from = c.to
		return at, piece, true
	}
	for c.it.Next() {
		at = chunkSize * int64(binary.BigEndian.Uint32(c.it.Key()[keyspace.RowKeyHead:]))
		piece = c.it.Value()
		if over := at + int64(len(piece)) - c.to; over > 0 {
			piece = piece[:int64(len(piece))-over]
		}
		if under := c.from - at; under > 0 {
			if under >= int64(len(piece)) {
				continue
			}
			at, piece = c.from, piece[under:]
		}
		return at, piece, true
	}
	return 0, nil, false
}

// Close ends the walk.
func (c *Cursor) Close() {
	if c.it != nil {
		c.tx.CloseRows(c.it)
		c.it = nil
	}
}

// Writer makes a new string of pieces in order. Once the string exceeds inlineMax,
// Writer holds at most one chunk in memory.
type Writer struct {
	tx   *keyspace.Tx
	key  []byte
	ref  keyspace.Ref
	row  []byte
	buf  []byte // what is not stored yet: the whole string while it may be inline, then less than a chunk
	size int64
}

// NewWriter begins a new value for the key.
func NewWriter(tx *keyspace.Tx, key []byte) *Writer { return &Writer{tx: tx, key: key} }

// Write adds bytes at the end.
func (w *Writer) Write(b []byte) {
	if w.size+int64(len(b)) <= inlineMax {
		w.buf, w.size = append(w.buf, b...), w.size+int64(len(b))
		return
	}
	w.unfold()
	w.chunks(b)
}

// Skip adds n zeros at the end, in a time that does not depend on n.
func (w *Writer) Skip(n int64) {
	if w.size+n <= inlineMax {
		w.buf, w.size = appendZeros(w.buf, n), w.size+n
		return
	}
	w.unfold()
	if rest := chunkSize - int64(len(w.buf)); len(w.buf) > 0 && n >= rest {
		n, w.size = n-rest, w.size+rest
		w.flush(w.buf, w.size/chunkSize-1)
	}
	w.size += n
	w.buf = appendZeros(w.buf, w.size%chunkSize-int64(len(w.buf)))
}

// unfold makes the string a chunked one: from then on buf holds the size modulo
// chunkSize bytes of the chunk in progress.
func (w *Writer) unfold() {
	if w.ref.ID == 0 {
		held := w.buf
		w.ref, w.buf, w.size = w.tx.NewRef(w.key, 0), make([]byte, 0, chunkSize), 0
		w.chunks(held)
	}
}

// chunks stores the chunks that b completes and holds the rest back.
func (w *Writer) chunks(b []byte) {
	for len(b) > 0 {
		n := min(int64(len(b)), chunkSize-int64(len(w.buf)))
		piece := b[:n]
		if n < chunkSize {
			w.buf = append(w.buf, piece...)
			piece = w.buf
		}
		b, w.size = b[n:], w.size+n
		if w.size%chunkSize == 0 {
			w.flush(piece, w.size/chunkSize-1)
		}
	}
}

// flush stores a chunk and empties buf.
func (w *Writer) flush(piece []byte, index int64) {
	if piece = trim(piece); len(piece) > 0 {
		w.row = appendChunkKey(w.row[:0], w.ref, index)
		w.tx.PutRow(w.row, piece)
	}
	w.buf = w.buf[:0]
}

// Store stores the new string at the key. old is what Find returned for the key, of
// whatever type. An inline string gets the encoding Raw, however short it is.
func (w *Writer) Store(old keyspace.Meta, expire int64) {
	m := keyspace.Meta{Type: keyspace.String, Encoding: keyspace.Raw, Expire: expire, Body: w.buf}
	if w.ref.ID != 0 {
		w.flush(w.buf, w.size/chunkSize)
		w.ref.Size = w.size
		m.Encoding, m.Body = keyspace.Chunked, keyspace.AppendRef(nil, w.ref)
	}
	w.tx.Store(w.key, old, m)
}
