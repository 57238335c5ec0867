// Package bitmap reads and changes the bits of strings. Bit 0 is the highest
// bit of the first byte. A bitmap is a string: package str keeps it, in either
// of its forms; a chunked one may be sparse, and counting or searching skips
// what is not stored.
package bitmap

import (
	"encoding/binary"
	"math/bits"

	"redoubt/keyspace"
	"redoubt/types/str"
)

// Get returns a bit; bits past the end are 0.
func Get(tx *keyspace.Tx, v str.Value, offset int64) int64 {
	var b [1]byte
	v.ReadAt(tx, offset>>3, b[:])
	return int64(b[0]>>(7-offset&7)) & 1
}

// Set sets a bit, in a string that is extended if necessary, and returns the old
// bit. The key counts as changed only if the string grew or the bit differs.
func Set(tx *keyspace.Tx, key []byte, offset int64, bit bool) (old bool, err error) {
	e, err := str.Edit(tx, key, offset>>3+1)
	if err != nil {
		return false, err
	}
	defer e.Release()
	var b [1]byte
	e.Read(offset>>3, b[:])
	mask := byte(0x80) >> (offset & 7)
	old = b[0]&mask != 0
	switch {
	case old != bit:
		b[0] ^= mask
		e.Write(offset>>3, b[:])
		fallthrough
	case e.Grown():
		e.Store()
		tx.Changed(keyspace.StringEv, "setbit", key)
	case !e.Raw():
		e.Store() // Redis stores the string as raw from here on, without an event
	}
	return old, nil
}

// Count returns the number of 1 bits in [from, to), a range of bits inside the
// string.
func Count(tx *keyspace.Tx, v str.Value, from, to int64) (n int64) {
	if from >= to {
		return 0
	}
	v.Walk(tx, from>>3, (to+7)>>3, func(at int64, piece []byte) bool {
		n += ones(piece)
		if lead := from - at*8; lead > 0 { // the first byte, in part
			n -= int64(bits.OnesCount8(piece[0] &^ (0xff >> lead)))
		}
		if tail := (at+int64(len(piece)))*8 - to; tail > 0 { // the last byte
			n -= int64(bits.OnesCount8(piece[len(piece)-1] & (1<<tail - 1)))
		}
		return true
	})
	return n
}

func ones(b []byte) int64 {
	n := 0
	for len(b) >= 8 {
		n += bits.OnesCount64(binary.LittleEndian.Uint64(b))
		b = b[8:]
	}
	for _, c := range b {
		n += bits.OnesCount8(c)
	}
	return int64(n)
}

// Pos returns the offset of the first bit in [from, to), a range of bits inside
// the string, that is 1 (if one is set) or 0, or -1 if there is none.
func Pos(tx *keyspace.Tx, v str.Value, one bool, from, to int64) int64 {
	pos, done := int64(-1), from // all bits before done were looked at
	if from >= to {
		return -1
	}
	v.Walk(tx, from>>3, (to+7)>>3, func(at int64, piece []byte) bool {
		if at*8 > done {
			if !one {
				return false // the zeros that are not stored
			}
			done = at * 8
		}
		if p := at*8 + first(piece, one, done-at*8); p < (at+int64(len(piece)))*8 {
			pos, done = p, to
			return false
		}
		done = (at + int64(len(piece))) * 8
		return true
	})
	if pos < 0 && !one && done < to {
		pos = done
	}
	if pos >= to {
		return -1
	}
	return pos
}

// first returns the offset of the first bit of b, at or after from, that is 1 (if
// one is set) or 0. If there is none, it returns the number of bits.
func first(b []byte, one bool, from int64) int64 {
	flip := byte(0xff)
	if one {
		flip = 0
	}
	i := int(from >> 3)
	if rest := from & 7; rest != 0 {
		if c := (b[i] ^ flip) & (0xff >> rest); c != 0 {
			return int64(i)*8 + int64(bits.LeadingZeros8(c))
		}
		i++
	}
	wide := uint64(flip) * 0x0101010101010101
	for ; len(b)-i >= 8; i += 8 {
		if w := binary.BigEndian.Uint64(b[i:]) ^ wide; w != 0 {
			return int64(i)*8 + int64(bits.LeadingZeros64(w))
		}
	}
	for ; i < len(b); i++ {
		if c := b[i] ^ flip; c != 0 {
			return int64(i)*8 + int64(bits.LeadingZeros8(c))
		}
	}
	return int64(len(b)) * 8
}
