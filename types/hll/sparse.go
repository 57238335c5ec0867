package hll

import (
	"slices"
	"strconv"
)

// A sparse HyperLogLog has runs of equal registers, from the first register to the
// last, each run one of
//
//	00llllll             l+1 registers that are 0
//	01llllll llllllll    l+1 registers that are 0
//	1vvvvvll             l+1 registers that are v+1
//
// The same registers have several encodings. To produce the bytes of Redis, a change
// follows the same steps: it splits the run of its register, and then joins runs of
// equal values in the neighbourhood only.

const (
	maxShort = 64    // registers in a run of zeros of one byte
	maxLong  = 16384 // registers in a run of zeros of two bytes
	maxValue = 32    // the largest value of a run
	maxRun   = 4     // registers in a run of a value
)

// run is a decoded run.
type run struct {
	length int
	value  byte
	size   int // bytes
}

// runAt reads the run at an offset. A missing second byte counts as 0, as in Redis.
func runAt(b []byte, at int) run {
	c := b[at]
	switch c >> 6 {
	case 0:
		return run{length: int(c&63) + 1, size: 1}
	case 1:
		low := 0
		if at+1 < len(b) {
			low = int(b[at+1])
		}
		return run{length: (int(c&63)<<8 | low) + 1, size: 2}
	}
	return run{length: int(c&3) + 1, value: c>>2&31 + 1, size: 1}
}

func appendZeros(b []byte, length int) []byte {
	if length == 0 {
		return b
	}
	if length--; length < maxShort {
		return append(b, byte(length))
	}
	return append(b, byte(length>>8)|0x40, byte(length))
}

func appendValue(b []byte, value byte, length int) []byte {
	if length == 0 {
		return b
	}
	return append(b, 0x80|(value-1)<<2|byte(length-1))
}

// eachRun visits the runs. It returns ErrCorrupt if the runs do not cover exactly all
// registers.
func eachRun(b []byte, visit func(first, length int, value byte)) error {
	first := 0
	for at := headSize; at < len(b); {
		r := runAt(b, at)
		if first+r.length > registers {
			return ErrCorrupt
		}
		visit(first, r.length, r.value)
		first, at = first+r.length, at+r.size
	}
	if first != registers {
		return ErrCorrupt
	}
	return nil
}

// ToDense returns the dense form, with the same cached cardinality.
func ToDense(b []byte) ([]byte, error) {
	if Dense(b) {
		return b, nil
	}
	d := make([]byte, denseSize)
	copy(d, b[:headSize])
	d[4] = dense
	err := eachRun(b, func(first, length int, value byte) {
		for i := first; i < first+length && value > 0; i++ {
			setRegister(d, i, value)
		}
	})
	return d, err
}

// sparseRaise makes a register of a sparse HyperLogLog at least rank.
func sparseRaise(b []byte, index int, rank byte, limit int64) (_ []byte, changed bool, err error) {
	if rank > maxValue {
		return promote(b, index, rank)
	}
	at, before, first := headSize, headSize, 0
	var r run
	for ; at < len(b); before, at, first = at, at+r.size, first+r.length {
		if r = runAt(b, at); index < first+r.length {
			break
		}
	}
	if at+r.size > len(b) || at >= len(b) {
		return b, false, ErrCorrupt
	}
	if r.value >= rank {
		return b, false, nil
	}
	var buf [5]byte
	split := buf[:0]
	left, right := index-first, first+r.length-1-index
	if r.value == 0 {
		split = appendZeros(appendValue(appendZeros(split, left), rank, 1), right)
	} else {
		split = appendValue(appendValue(appendValue(split, r.value, left), rank, 1), r.value, right)
	}
	grow := len(split) - r.size
	if grow > 0 && int64(len(b)+grow) > limit {
		return promote(b, index, rank)
	}
	b = slices.Replace(b, at, at+r.size, split...)
	b = join(b, before)
	Invalidate(b)
	return b, true, nil
}

// join joins runs of the same value among the five runs from an offset on.
func join(b []byte, at int) []byte {
	for n := 0; n < 5 && at < len(b); n++ {
		r := runAt(b, at)
		if r.value > 0 && at+1 < len(b) {
			next := runAt(b, at+1)
			if sum := r.length + next.length; next.value == r.value && sum <= maxRun {
				b = slices.Delete(b, at, at+1)
				b[at] = 0x80 | (r.value-1)<<2 | byte(sum-1)
				continue // the next run may join, too
			}
		}
		at += r.size
	}
	return b
}

// promote makes a sparse HyperLogLog dense, whose registers can hold any rank, and
// raises a register.
func promote(b []byte, index int, rank byte) ([]byte, bool, error) {
	d, err := ToDense(b)
	if err != nil {
		return b, false, err
	}
	return d, raise(d, index, rank), nil
}

// Raise makes the registers at least those of r. Like Add, it may convert a sparse
// HyperLogLog to a dense one.
func Raise(b []byte, r *Registers, limit int64) (_ []byte, err error) {
	for i, v := range r {
		switch {
		case v == 0:
		case Dense(b):
			raise(b, i, v)
		default:
			if b, _, err = sparseRaise(b, i, v, limit); err != nil {
				return b, err
			}
		}
	}
	return b, nil
}

// Describe formats the runs of a sparse HyperLogLog as PFDEBUG DECODE does.
func Describe(b []byte) (out []byte) {
	for at := headSize; at < len(b); {
		r := runAt(b, at)
		if at > headSize {
			out = append(out, ' ')
		}
		switch {
		case r.value > 0:
			out = append(strconv.AppendInt(append(out, "v:"...), int64(r.value), 10), ',')
		case r.size == 1:
			out = append(out, "z:"...)
		default:
			out = append(out, "Z:"...)
		}
		out = strconv.AppendInt(out, int64(r.length), 10)
		at += r.size
	}
	return out
}
