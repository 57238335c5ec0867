// Package sums has the sums of counters that processes of a shared store exchange, and
// their form in a row: for each counter the length of its key, its key, and its sum, length
// and sum as varints.
package sums

import (
	"encoding/binary"
	"fmt"
	"maps"
	"slices"

	"redoubt/engine"
)

// Sums are the sums of counters, by key.
type Sums map[string]int64

// Plus adds o, multiplied by times, to s.
func (s Sums) Plus(o Sums, times int64) Sums {
	for key, n := range o {
		if s[key] += n * times; s[key] == 0 {
			delete(s, key)
		}
	}
	return s
}

// Encode returns the form of the sums in a row.
func (s Sums) Encode() []byte {
	b := []byte{}
	for _, key := range slices.Sorted(maps.Keys(s)) {
		b = binary.AppendUvarint(b, uint64(len(key)))
		b = binary.AppendVarint(append(b, key...), s[key])
	}
	return b
}

// Decode reads what Encode returned.
func Decode(b []byte) (Sums, error) {
	s := Sums{}
	for len(b) > 0 {
		size, n := binary.Uvarint(b)
		if n <= 0 || size > uint64(len(b)-n) {
			return nil, fmt.Errorf("a row of counters does not decode: %w", engine.ErrCorrupt)
		}
		key := string(b[n : n+int(size)])
		b = b[n+int(size):]
		value, n := binary.Varint(b)
		if n <= 0 {
			return nil, fmt.Errorf("a row of counters does not decode: %w", engine.ErrCorrupt)
		}
		s[key], b = value, b[n:]
	}
	return s, nil
}
