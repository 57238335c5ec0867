package partition

import (
	"bytes"
	"encoding/binary"
	"fmt"

	"redoubt/engine"
)

// A stored value is the value and, in its last eight bytes, the version that the partition
// got by the change that put it: that is the row's version, too.

const versionSize = 8

func appendValue(b, value []byte, version int64) []byte {
	return binary.BigEndian.AppendUint64(append(b, value...), uint64(version))
}

// split splits a stored value.
func split(key, stored []byte) (value []byte, version int64, err error) {
	n := len(stored) - versionSize
	if n < 0 {
		return nil, 0, fmt.Errorf("row % x has %d bytes: %w", brief(key), len(stored), engine.ErrCorrupt)
	}
	return stored[:n:n], int64(binary.BigEndian.Uint64(stored[n:])), nil
}

// isReserved reports whether a row is the engine's own.
func isReserved(key []byte) bool { return bytes.HasPrefix(key, []byte(ownRows)) }

const ownRows = "\xff\xff\xff\xff"

// brief is the beginning of a key, for an error.
func brief(key []byte) []byte { return key[:min(len(key), 64)] }

func inside(key []byte, s Span) bool {
	return bytes.Compare(s.Lo, key) <= 0 && (s.Hi == nil || bytes.Compare(key, s.Hi) < 0)
}

func meet(a, b Span) bool {
	return (a.Hi == nil || bytes.Compare(b.Lo, a.Hi) < 0) && (b.Hi == nil || bytes.Compare(a.Lo, b.Hi) < 0)
}

// footprint is a set of rows and ranges.
type footprint struct {
	keys  map[string]struct{}
	spans []Span
}

func (f *footprint) add(key []byte) {
	if f.keys == nil {
		f.keys = make(map[string]struct{})
	}
	f.keys[string(key)] = struct{}{}
}

func (f *footprint) addAll(o *footprint) {
	for key := range o.keys {
		f.add([]byte(key))
	}
	f.spans = append(f.spans, o.spans...)
}

// meets reports whether two footprints have anything in common.
func (f *footprint) meets(o *footprint) bool {
	if len(f.keys) > len(o.keys) {
		f, o = o, f
	}
	for key := range f.keys {
		if _, ok := o.keys[key]; ok {
			return true
		}
	}
	return f.crosses(o) || o.crosses(f)
}

// crosses reports whether a range of f has a row or range of o.
func (f *footprint) crosses(o *footprint) bool {
	for _, s := range f.spans {
		for key := range o.keys {
			if inside([]byte(key), s) {
				return true
			}
		}
		for _, t := range o.spans {
			if meet(s, t) {
				return true
			}
		}
	}
	return false
}
