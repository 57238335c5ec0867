// Package str is the string type: byte strings of up to proto-max-bulk-len.
//
// A string has one of two forms behind one set of functions:
//
//   - inline: its bytes are the body of the meta row, so that reading it is one
//     read and writing it one write. The encodings Int, Embedded and Raw all
//     mean this form and differ only in what OBJECT ENCODING says.
//   - chunked, past inlineMax bytes: the body is a Ref whose size is the length
//     in bytes, and the bytes are cut into chunks of chunkSize, each a sub row
//     whose key ends with its number as 4 bytes, big-endian. Zeros at the end
//     of a chunk are not stored, nor is a chunk that has only zeros, so a
//     sparse string costs its chunks with bits in them.
//
// A string that is edited in place becomes chunked past editMax already: setting a
// bit of a bitmap of 60 KB should not write 60 KB. A string never goes back to
// inline: no command shortens one; replacing a string makes a new value.
//
// Functions that change a key note the change and its event, named as in Redis.
package str

import (
	"redoubt/keyspace"
	"redoubt/number"
	"redoubt/types"
)

// The limits of the forms. They are variables only so that tests can reach
// both forms with short strings; chunkSize is part of the format on disk.
var (
	inlineMax int64 = 64 << 10
	editMax   int64 = 16 << 10
	chunkSize int64 = 8 << 10
)

// embeddedMax is the length up to which Redis calls a string embstr.
const embeddedMax = 44

// Value is a string as its meta row has it. The zero Value is a missing key,
// which reads as an empty string.
type Value struct{ keyspace.Meta }

// Of returns the Value of a meta row that Find returned.
func Of(m keyspace.Meta) (Value, error) {
	if m.Type != keyspace.String && m.Exists() {
		return Value{}, types.ErrWrongType
	}
	return Value{m}, nil
}

// Find looks up a key that is about to be changed.
func Find(tx *keyspace.Tx, key []byte) (Value, error) { return Of(tx.Find(key)) }

// Read looks up a key for reading: the lookup counts as a hit or a miss.
func Read(tx *keyspace.Tx, key []byte) (Value, error) { return Of(tx.Read(key)) }

// Len is the length in bytes.
func (v Value) Len() int64 {
	if v.External() {
		return v.Ref().Size
	}
	return int64(len(v.Body))
}

// Inline returns the bytes of an inline string, valid until the end of the
// execution; it reports false for a chunked one.
func (v Value) Inline() ([]byte, bool) { return v.Body, !v.External() }

// Int returns the value as an integer; a missing key is 0.
func (v Value) Int() (int64, error) {
	if !v.Exists() {
		return 0, nil
	}
	if b, ok := v.Inline(); ok {
		if n, ok := number.ParseInt(b); ok {
			return n, nil
		}
	}
	return 0, types.ErrNotInteger
}

// Set makes the key a string with this value and this time of death (0: none).
// old is what Find returned for the key, of whatever type.
func Set(tx *keyspace.Tx, key []byte, old keyspace.Meta, value []byte, expire int64) {
	Put(tx, key, old, value, expire)
	tx.Changed(keyspace.StringEv, "set", key)
}

// Put is Set without noting a change.
func Put(tx *keyspace.Tx, key []byte, old keyspace.Meta, value []byte, expire int64) {
	m := keyspace.Meta{Type: keyspace.String, Encoding: encoding(value), Expire: expire, Body: value}
	if m.Encoding == keyspace.Chunked {
		setChunked(tx, key, old, value, expire)
	} else {
		tx.Store(key, old, m)
	}
}

// encoding is the encoding of a value that was given as a whole.
func encoding(value []byte) keyspace.Encoding {
	if len(value) <= 20 {
		if _, ok := number.ParseInt(value); ok {
			return keyspace.Int
		}
	}
	switch {
	case int64(len(value)) > inlineMax:
		return keyspace.Chunked
	case len(value) > embeddedMax:
		return keyspace.Raw
	}
	return keyspace.Embedded
}

// setChunked is apart from Set so that the short strings of the hot path do
// not pay for its buffers.
func setChunked(tx *keyspace.Tx, key []byte, old keyspace.Meta, value []byte, expire int64) {
	if tx.Heavy(int64(len(value))) {
		return
	}
	w := NewWriter(tx, key)
	w.Write(value)
	w.Store(old, expire)
}

// Delete removes the key, which must exist. old is what Find returned for the key.
func Delete(tx *keyspace.Tx, key []byte, old keyspace.Meta) {
	tx.Remove(key, old)
	tx.Changed(keyspace.Generic, "del", key)
}
