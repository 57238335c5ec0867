package bitmap

import (
	"encoding/binary"
	"math"

	"redoubt/types/str"
)

// Field is an integer of 1 to 64 bits somewhere in a bitmap, highest bit first;
// an unsigned one has at most 63 bits.
type Field struct {
	Signed bool
	Bits   uint
	Offset int64
}

// Overflow is the treatment of a number that its field cannot hold.
type Overflow byte

const (
	Wrap Overflow = iota // the bits that fit remain
	Sat                  // the nearest number that fits
	Fail                 // nothing is changed
)

// Get returns the number; bits past the end of the string are 0.
func (f Field) Get(e *str.Editor) int64 {
	v := f.load(e)
	if f.Signed {
		return f.extend(v)
	}
	return int64(v)
}

// Set replaces the number and returns the old one. ok is false, and nothing
// changes, if the new number does not fit and o is Fail.
func (f Field) Set(e *str.Editor, v int64, o Overflow) (old int64, changed, ok bool) {
	old = f.Get(e)
	v, ok = f.fit(v, 0, o)
	if !ok {
		return old, false, false
	}
	f.store(e, uint64(v))
	return old, v != old, true
}

// Add adds to the number and returns the sum. ok is false, and nothing
// changes, if the sum does not fit and o is Fail.
func (f Field) Add(e *str.Editor, delta int64, o Overflow) (sum int64, changed, ok bool) {
	old := f.Get(e)
	sum, ok = f.fit(old, delta, o)
	if !ok {
		return 0, false, false
	}
	f.store(e, uint64(sum))
	return sum, sum != old, true
}

// End is the offset of the bit after the field.
func (f Field) End() int64 { return f.Offset + int64(f.Bits) }

// extend sign-extends the field's bits.
func (f Field) extend(v uint64) int64 {
	shift := 64 - f.Bits
	return int64(v<<shift) >> shift
}

// load reads the field: at most 64 bits, which touch at most 9 bytes.
func (f Field) load(e *str.Editor) uint64 {
	var b [9]byte
	e.Read(f.Offset>>3, b[:])
	lead := uint(f.Offset & 7)
	v := binary.BigEndian.Uint64(b[:])<<lead | uint64(b[8])>>(8-lead)
	return v >> (64 - f.Bits)
}

func (f Field) store(e *str.Editor, v uint64) {
	var b [9]byte
	n := (uint(f.Offset&7) + f.Bits + 7) / 8
	e.Read(f.Offset>>3, b[:n])
	lead := uint(f.Offset & 7)
	v <<= 64 - f.Bits // align the field's bits, and their mask, to the left
	mask := ^uint64(0) << (64 - f.Bits)
	w := binary.BigEndian.Uint64(b[:])&^(mask>>lead) | v>>lead
	binary.BigEndian.PutUint64(b[:], w)
	b[8] = b[8]&^byte(mask<<(8-lead)) | byte(v<<(8-lead))
	e.Write(f.Offset>>3, b[:n])
}

// fit returns v + delta, adjusted to the field by o; it is false if o is Fail and
// the sum does not fit.
//
// The comparisons are Redis's, including sums that wrap around where v is far
// outside of the field: clients can see at which limit a number saturates.
func (f Field) fit(v, delta int64, o Overflow) (int64, bool) {
	var over, under bool
	var lowest, highest int64
	if f.Signed {
		highest = math.MaxInt64 >> (64 - f.Bits)
		lowest = -highest - 1
		room, floor := highest-v, lowest-v
		narrow := f.Bits < 64
		over = v > highest || (narrow && delta > room) || (v >= 0 && delta > 0 && delta > room)
		under = !over && (v < lowest || (narrow && delta < floor) || (v < 0 && delta < 0 && delta < floor))
	} else {
		highest = 1<<f.Bits - 1
		over = uint64(v) > uint64(highest) || (delta > 0 && delta > highest-v)
		under = !over && delta < 0 && delta < -v
	}
	switch {
	case !over && !under:
		return v + delta, true
	case o == Fail:
		return 0, false
	case o == Sat && over:
		return highest, true
	case o == Sat:
		return lowest, true
	case f.Signed:
		return f.extend(uint64(v + delta)), true
	}
	return (v + delta) & highest, true
}
