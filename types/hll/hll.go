// Package hll estimates how many different elements were added to a HyperLogLog,
// which is a string in the format of Redis, byte for byte:
//
//	HYLL encoding:1 zeros:3 cardinality:8 registers
//
// The cardinality, little endian, is a cache of the last estimate; its highest bit
// marks it as out of date. There are 16384 registers of 6 bits:
//
//   - dense (0): all registers one after the other, each byte filled from its lowest
//     bit on: 12288 bytes;
//   - sparse (1): runs of equal registers, see sparse.go.
//
// An element is hashed to 64 bits. 14 of them choose a register, which keeps the
// longest run of zeros seen at the start of the other 50, plus one. The standard
// error of an estimate is 1.04/sqrt(16384), 0.81 %.
//
// The functions here work on bytes; value.go stores them at a key.
package hll

import (
	"encoding/binary"
	"errors"
	"math"
	"math/bits"
)

var (
	// ErrNotHLL: the string is no HyperLogLog.
	ErrNotHLL = errors.New("not a HyperLogLog")
	// ErrCorrupt: the string has the head of a HyperLogLog, but malformed runs.
	ErrCorrupt = errors.New("corrupted HyperLogLog")
)

// HeadSize is the length of the head, before the registers.
const HeadSize = 16

const (
	indexBits = 14
	registers = 1 << indexBits
	rankBits  = 64 - indexBits
	maxRank   = rankBits + 1 // the largest value that a hash can give
	width     = 6            // bits of a register

	magic     = "HYLL"
	headSize  = HeadSize
	denseSize = headSize + registers*width/8

	dense  = 0
	sparse = 1

	stale = 0x80 // in the last byte of the cardinality
)

// Check returns ErrNotHLL unless the string has the head of a HyperLogLog.
func Check(b []byte) error {
	if len(b) < headSize || string(b[:4]) != magic || b[4] > sparse || b[4] == dense && len(b) != denseSize {
		return ErrNotHLL
	}
	return nil
}

// New is an empty HyperLogLog, whose cardinality is known to be 0.
func New() []byte {
	b := make([]byte, headSize, headSize+32)
	copy(b, magic)
	b[4] = sparse
	return appendZeros(b, registers)
}

// Dense reports whether the encoding is dense.
func Dense(b []byte) bool { return b[4] == dense }

// Cached returns the cached cardinality, and whether it is up to date.
func Cached(b []byte) (n uint64, ok bool) {
	return binary.LittleEndian.Uint64(b[8:]), b[15]&stale == 0
}

// SetCached caches a cardinality.
func SetCached(b []byte, n uint64) { binary.LittleEndian.PutUint64(b[8:], n) }

// Invalidate marks the cached cardinality as out of date.
func Invalidate(b []byte) { b[15] |= stale }

// Add adds an element and reports whether a register changed. The result may share
// its bytes with b, which the caller must own. A sparse HyperLogLog that would be
// longer than limit becomes dense.
func Add(b, element []byte, limit int64) (_ []byte, changed bool, err error) {
	index, rank := place(element)
	if Dense(b) {
		return b, raise(b, index, rank), nil
	}
	return sparseRaise(b, index, rank, limit)
}

// place returns the register of an element, and the least value that the register
// must have.
func place(element []byte) (index int, rank byte) {
	h := murmur(element, seed)
	// The bit above the highest one ends every run of zeros.
	return int(h & (registers - 1)), byte(bits.TrailingZeros64(h>>indexBits|1<<rankBits) + 1)
}

// seed is Redis's.
const seed = 0xadc83b19

// murmur is MurmurHash2 with 64 bits, for 64-bit machines.
func murmur(b []byte, seed uint64) uint64 {
	const mul, shift = 0xc6a4a7935bd1e995, 47
	h := seed ^ uint64(len(b))*mul
	for ; len(b) >= 8; b = b[8:] {
		k := binary.LittleEndian.Uint64(b) * mul
		k = (k ^ k>>shift) * mul
		h = (h ^ k) * mul
	}
	if len(b) > 0 {
		var last [8]byte
		copy(last[:], b)
		h = (h ^ binary.LittleEndian.Uint64(last[:])) * mul
	}
	h = (h ^ h>>shift) * mul
	return h ^ h>>shift
}

// register reads a register of a dense HyperLogLog.
func register(b []byte, index int) byte {
	at, shift := headSize+index*width/8, uint(index*width%8)
	v := uint16(b[at])
	if at+1 < len(b) { // the last register ends with the last byte
		v |= uint16(b[at+1]) << 8
	}
	return byte(v>>shift) & (1<<width - 1)
}

// setRegister writes a register of a dense HyperLogLog.
func setRegister(b []byte, index int, value byte) {
	at, shift := headSize+index*width/8, uint(index*width%8)
	mask, v := uint16(1<<width-1)<<shift, uint16(value)<<shift
	b[at] = b[at]&^byte(mask) | byte(v)
	if mask>>8 != 0 {
		b[at+1] = b[at+1]&^byte(mask>>8) | byte(v>>8)
	}
}

// four reads the four registers that three bytes hold.
func four(b []byte) (w, x, y, z byte) {
	v := uint32(b[0]) | uint32(b[1])<<8 | uint32(b[2])<<16
	return byte(v & 63), byte(v >> 6 & 63), byte(v >> 12 & 63), byte(v >> 18 & 63)
}

// raise makes a register of a dense HyperLogLog at least rank, and reports a change.
func raise(b []byte, index int, rank byte) bool {
	if register(b, index) >= rank {
		return false
	}
	setRegister(b, index, rank)
	return true
}

// Registers are unpacked registers, of one HyperLogLog or the union of several.
type Registers [registers]byte

// Merge raises the registers to those of b.
func (r *Registers) Merge(b []byte) error {
	if Dense(b) {
		for i, at := 0, headSize; at < denseSize; i, at = i+4, at+3 {
			w, x, y, z := four(b[at:])
			r[i], r[i+1], r[i+2], r[i+3] = max(r[i], w), max(r[i+1], x), max(r[i+2], y), max(r[i+3], z)
		}
		return nil
	}
	return eachRun(b, func(first, length int, value byte) {
		for i := first; i < first+length && value > 0; i++ {
			r[i] = max(r[i], value)
		}
	})
}

// Count estimates the cardinality.
func (r *Registers) Count() uint64 {
	var h histogram
	for _, v := range r {
		h[v&63]++
	}
	return h.estimate()
}

// Count estimates the cardinality.
func Count(b []byte) (uint64, error) {
	var h histogram
	if Dense(b) {
		for at := headSize; at < denseSize; at += 3 {
			w, x, y, z := four(b[at:])
			h[w]++
			h[x]++
			h[y]++
			h[z]++
		}
		return h.estimate(), nil
	}
	err := eachRun(b, func(_, length int, value byte) { h[value] += length })
	return h.estimate(), err
}

// histogram counts the registers by their values.
type histogram [1 << width]int

// estimate is the improved estimator of Otmar Ertl, "New cardinality estimation
// algorithms for HyperLogLog sketches", arXiv:1702.01284, algorithm 6. The
// conversions keep the compiler from fusing a product and a sum, whose result would
// differ between processors.
func (h *histogram) estimate() uint64 {
	const m = float64(registers)
	z := m * tau((m-float64(h[maxRank]))/m)
	for v := rankBits; v >= 1; v-- {
		z = (z + float64(h[v])) * 0.5
	}
	z += float64(m * sigma(float64(h[0])/m))
	if z == 0 { // registers that no hash can give
		return 1 << 63
	}
	return uint64(math.Round(alpha * m * m / z))
}

// alpha is 1 / (2 ln 2).
const alpha = 0.721347520444481703680

func sigma(x float64) float64 {
	if x == 1 {
		return math.Inf(1)
	}
	for y, z := 1.0, x; ; y += y {
		x *= x
		last := z
		if z += float64(x * y); z == last {
			return z
		}
	}
}

func tau(x float64) float64 {
	if x == 0 || x == 1 {
		return 0
	}
	for y, z := 0.5, 1-x; ; y *= 0.5 {
		x = math.Sqrt(x)
		last := z
		if z -= float64(float64((1-x)*(1-x)) * y); z == last {
			return z / 3
		}
	}
}
