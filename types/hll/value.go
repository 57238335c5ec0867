package hll

import (
	"redoubt/keyspace"
	"redoubt/types/str"
)

// Value is the HyperLogLog at a key. Bytes must not be changed before Own; Store stores
// changes.
type Value struct {
	Bytes []byte
	tx    *keyspace.Tx
	key   []byte
	old   str.Value
	own   bool
}

// Find opens a key that is about to be changed. A missing key has no Bytes.
func Find(tx *keyspace.Tx, key []byte) (*Value, error) {
	v, err := str.Find(tx, key)
	if err != nil {
		return nil, err
	}
	return of(tx, key, v)
}

// Read opens a key for reading: the lookup counts as a hit or a miss.
func Read(tx *keyspace.Tx, key []byte) (*Value, error) {
	v, err := str.Read(tx, key)
	if err != nil {
		return nil, err
	}
	return of(tx, key, v)
}

func of(tx *keyspace.Tx, key []byte, v str.Value) (*Value, error) {
	h := &Value{tx: tx, key: key, old: v}
	if !v.Exists() {
		return h, tx.Err() // a failed read is not a missing key
	}
	if b, ok := v.Inline(); ok {
		h.Bytes = b
	} else {
		h.Bytes, h.own = v.AppendRange(tx, nil, 0, v.Len()), true
	}
	if err := tx.Err(); err != nil {
		return nil, err
	}
	return h, Check(h.Bytes)
}

// Own makes Bytes a copy that may be changed.
func (h *Value) Own() {
	if !h.own {
		h.Bytes, h.own = h.tx.Own(h.Bytes, growth), true
	}
}

// Add adds an element and reports whether a register changed; see the function Add.
// Most elements change nothing, and then nothing is copied.
func (h *Value) Add(element []byte, limit int64) (changed bool, err error) {
	if Dense(h.Bytes) {
		if index, rank := place(element); register(h.Bytes, index) >= rank {
			return false, nil
		}
	}
	h.Own()
	h.Bytes, changed, err = Add(h.Bytes, element, limit)
	return changed, err
}

// growth is the most bytes that an element adds to a sparse HyperLogLog.
const growth = 3

// Exists reports whether the key exists.
func (h *Value) Exists() bool { return h.old.Exists() }

// Raw reports whether the string already has the encoding that it has after a change.
// Redis converts it even on a read.
func (h *Value) Raw() bool { return h.old.Encoding == keyspace.Raw || h.old.External() }

// Store stores Bytes at the key, which keeps its expiry.
func (h *Value) Store() {
	if len(h.Bytes) <= denseSize { // all that this package makes; without another copy
		h.tx.Store(h.key, h.old.Meta, keyspace.Meta{
			Type: keyspace.String, Encoding: keyspace.Raw, Expire: h.old.Expire, Body: h.Bytes,
		})
		return
	}
	w := str.NewWriter(h.tx, h.key)
	w.Write(h.Bytes)
	w.Store(h.old.Meta, h.old.Expire)
}
