package str

import (
	"sync"

	"redoubt/keyspace"
	"redoubt/types"
)

// Editor changes bytes inside a string. Of an inline string it holds a copy;
// of a chunked one it holds the chunk that was used last, so that many small
// changes near each other read and write it once.
//
//	e, err := Edit(tx, key, size)
//	... e.Read, e.Write ...
//	e.Store()   // or not
//	e.Release()
type Editor struct {
	tx   *keyspace.Tx
	key  []byte
	old  keyspace.Meta
	size int64 // the length after the edit

	chunked bool
	buf     []byte // the string, or the chunk number at without zeros at its end
	ref     keyspace.Ref
	stored  int64 // no chunk at or after this offset has a row
	at      int64 // the number of the chunk in buf; -1 if none
	dirty   bool  // buf differs from its row
	row     []byte
}

var editors = sync.Pool{New: func() any { return new(Editor) }}

// Edit opens the key's string and makes it at least size bytes long, with zeros
// at the end; a missing key begins as an empty string.
func Edit(tx *keyspace.Tx, key []byte, size int64) (*Editor, error) {
	v, err := Find(tx, key)
	if err != nil {
		return nil, err
	}
	return v.Edit(tx, key, size), nil
}

// Edit is the function Edit for a string that was found already.
func (v Value) Edit(tx *keyspace.Tx, key []byte, size int64) *Editor {
	e := editors.Get().(*Editor)
	*e = Editor{tx: tx, key: key, old: v.Meta, size: max(size, v.Len()), at: -1, buf: e.buf[:0], row: e.row}
	b, inline := v.Inline()
	switch {
	case !inline:
		e.chunked, e.ref, e.stored = true, v.Ref(), v.Len()
	case e.size <= inlineMax:
		e.buf = appendZeros(append(e.buf, b...), e.size-int64(len(b)))
	default:
		e.unfold()
	}
	return e
}

// unfold converts an inline string, before the first write, to a chunked one.
func (e *Editor) unfold() {
	e.chunked, e.ref, e.buf = true, e.tx.NewRef(e.key, 0), e.buf[:0]
	e.Write(0, e.old.Body)
}

// Release ends the use of the editor.
func (e *Editor) Release() {
	e.tx, e.key, e.old = nil, nil, keyspace.Meta{}
	editors.Put(e)
}

// Len is the length after the edit.
func (e *Editor) Len() int64 { return e.size }

// Grown reports whether the edit creates the key, or makes its string longer.
func (e *Editor) Grown() bool { return !e.old.Exists() || e.size != Value{e.old}.Len() }

// Raw reports whether the string already had the encoding raw, which an edit gives it
// in Redis.
func (e *Editor) Raw() bool {
	return e.old.Encoding == keyspace.Raw || e.old.Encoding == keyspace.Chunked
}

// Read fills b with the bytes at an offset; bytes past the end are zeros.
func (e *Editor) Read(off int64, b []byte) {
	clear(b)
	if !e.chunked {
		if off < int64(len(e.buf)) {
			copy(b, e.buf[off:])
		}
		return
	}
	for len(b) > 0 {
		e.load(off / chunkSize)
		in := off % chunkSize
		n := min(int64(len(b)), chunkSize-in)
		if in < int64(len(e.buf)) {
			copy(b[:n], e.buf[in:])
		}
		b, off = b[n:], off+n
	}
}

// Write replaces the bytes at an offset; they must lie inside Len.
func (e *Editor) Write(off int64, b []byte) {
	if !e.chunked && e.size > editMax {
		e.unfold()
	}
	if !e.chunked {
		copy(e.buf[off:], b)
		return
	}
	e.prefetch(off, off+int64(len(b)))
	for len(b) > 0 {
		in := off % chunkSize
		n := min(int64(len(b)), chunkSize-in)
		if n == chunkSize {
			e.forget(off / chunkSize)
			e.put(off/chunkSize, b[:n])
		} else {
			e.load(off / chunkSize)
			if grow := in + n - int64(len(e.buf)); grow > 0 {
				e.buf = appendZeros(e.buf, grow)
			}
			copy(e.buf[in:], b[:n])
			e.dirty = true
		}
		b, off = b[n:], off+n
	}
}

// prefetch prefetches the first and the last chunk of a range that is about to be written,
// if the range covers neither whole.
func (e *Editor) prefetch(from, to int64) {
	first, last := from/chunkSize, (to-1)/chunkSize
	if first < last && from%chunkSize > 0 && to%chunkSize > 0 && last*chunkSize < e.stored && e.tx.WorthPrefetching(2) {
		e.row = appendChunkKey(e.row[:0], e.ref, first)
		e.tx.Expect(e.row)
		e.row = appendChunkKey(e.row[:0], e.ref, last)
		e.tx.Expect(e.row)
		e.tx.FetchExpected()
	}
}

// load reads a chunk into buf.
func (e *Editor) load(index int64) {
	if e.at == index {
		return
	}
	e.flush()
	e.at, e.buf = index, e.buf[:0]
	if index*chunkSize < e.stored {
		e.row = appendChunkKey(e.row[:0], e.ref, index)
		if row, found := e.tx.GetRow(e.row); found {
			e.buf = append(e.buf, row...)
		}
	}
}

// forget drops the chunk index from buf, if buf has it: the chunk is overwritten.
func (e *Editor) forget(index int64) {
	if e.at == index {
		e.at, e.dirty = -1, false
	}
}

func (e *Editor) flush() {
	if e.dirty {
		e.put(e.at, e.buf)
		e.dirty = false
	}
}

// put stores a chunk.
func (e *Editor) put(index int64, b []byte) {
	e.row = appendChunkKey(e.row[:0], e.ref, index)
	if b = trim(b); len(b) > 0 {
		e.tx.PutRow(e.row, b)
	} else if index*chunkSize < e.stored {
		e.tx.DeleteRow(e.row)
	}
	// A chunk of a new part may have to be read again later.
	e.stored = max(e.stored, (index+1)*chunkSize)
}

// Store stores the edited string. The key keeps its expiry.
func (e *Editor) Store() {
	m := keyspace.Meta{Type: keyspace.String, Encoding: keyspace.Raw, Expire: e.old.Expire, Body: e.buf}
	if e.chunked {
		e.flush()
		if e.old.External() && e.ref.Size == e.size {
			return // the meta row stays as it is
		}
		var body [refSize]byte
		e.ref.Size = e.size
		m.Encoding, m.Body = keyspace.Chunked, keyspace.AppendRef(body[:0], e.ref)
	}
	e.tx.Store(e.key, e.old, m)
}

const refSize = 18

// SetRange writes data at an offset and returns the new length. The string may
// not become longer than limit. With no data nothing happens.
func SetRange(tx *keyspace.Tx, key []byte, off int64, data []byte, limit int64) (int64, error) {
	v, err := Find(tx, key)
	if err != nil || len(data) == 0 {
		return v.Len(), err
	}
	if off > limit-int64(len(data)) {
		return 0, types.ErrTooLong
	}
	return v.write(tx, key, off, data, "setrange"), nil
}

// Append adds data at the end and returns the new length. The string may not
// become longer than limit.
func Append(tx *keyspace.Tx, key, data []byte, limit int64) (int64, error) {
	v, err := Find(tx, key)
	if err != nil {
		return 0, err
	}
	if !v.Exists() { // encoded as by SET
		m := keyspace.Meta{Type: keyspace.String, Encoding: encoding(data), Body: data}
		if m.Encoding == keyspace.Chunked {
			setChunked(tx, key, v.Meta, data, 0)
		} else {
			tx.Store(key, v.Meta, m)
		}
		tx.Changed(keyspace.StringEv, "append", key)
		return int64(len(data)), nil
	}
	if v.Len() > limit-int64(len(data)) {
		return 0, types.ErrTooLong
	}
	return v.write(tx, key, v.Len(), data, "append"), nil
}

func (v Value) write(tx *keyspace.Tx, key []byte, off int64, data []byte, event string) int64 {
	if tx.Heavy(int64(len(data))) {
		return 0
	}
	e := v.Edit(tx, key, off+int64(len(data)))
	defer e.Release()
	e.Write(off, data)
	e.Store()
	tx.Changed(keyspace.StringEv, event, key)
	return e.Len()
}
