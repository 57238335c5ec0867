package local

import (
	"encoding/binary"
	"fmt"

	"redoubt/engine"
)

// A journal record is a commit: its range deletes, then its rows, then what it
// adds to counters. FORMAT.md has the bytes.

// Tags of the entries of a record. They are never reused.
const (
	tagPut     = 1
	tagDelete  = 2
	tagRange   = 3
	tagCounter = 4
)

// appendRecord appends a commit to b.
func appendRecord(b []byte, batch *engine.Batch) []byte {
	for lo, hi := range batch.Ranges() {
		b = appendBytes(appendBytes(append(b, tagRange), lo), hi)
	}
	for op := range batch.Ops() {
		if op.Delete {
			b = appendBytes(append(b, tagDelete), op.Key)
		} else {
			b = append(b, tagPut)
			b = binary.AppendUvarint(b, uint64(len(op.Key)))
			b = binary.AppendUvarint(b, uint64(len(op.Value)))
			b = append(append(b, op.Key...), op.Value...)
		}
	}
	for key, delta := range batch.Counters() {
		b = binary.AppendVarint(appendBytes(append(b, tagCounter), key), delta)
	}
	return b
}

func appendBytes(b, s []byte) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}

// readRecord decodes a record into a batch.
func readRecord(b []byte, batch *engine.Batch) error {
	r := reader{b: b}
	for len(r.b) > 0 && !r.bad {
		tag := r.b[0]
		r.b = r.b[1:]
		switch tag {
		case tagPut:
			key, value := r.uvarint(), r.uvarint()
			k := r.take(key)
			v := r.take(value)
			if !r.bad {
				batch.Put(k, v)
			}
		case tagDelete:
			if k := r.bytes(); !r.bad {
				batch.Delete(k)
			}
		case tagRange:
			lo, hi := r.bytes(), r.bytes()
			if !r.bad {
				batch.DeleteRange(lo, hi)
			}
		case tagCounter:
			k := r.bytes()
			delta, n := binary.Varint(r.b)
			if n <= 0 {
				r.bad = true
			}
			if !r.bad {
				r.b = r.b[n:]
				batch.Add(k, delta)
			}
		default:
			return fmt.Errorf("%w: a journal record has an entry of kind %d", engine.ErrCorrupt, tag)
		}
	}
	if r.bad {
		return fmt.Errorf("%w: a journal record ends in the middle of an entry", engine.ErrCorrupt)
	}
	return nil
}

// reader decodes a record; after the first failure it returns only empty values.
type reader struct {
	b   []byte
	bad bool
}

func (r *reader) uvarint() uint64 {
	n, size := binary.Uvarint(r.b)
	if size <= 0 {
		r.bad = true
		return 0
	}
	r.b = r.b[size:]
	return n
}

func (r *reader) take(n uint64) []byte {
	if r.bad || n > uint64(len(r.b)) {
		r.bad = true
		return nil
	}
	s := r.b[:n]
	r.b = r.b[n:]
	return s
}

func (r *reader) bytes() []byte { return r.take(r.uvarint()) }
