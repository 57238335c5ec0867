package rdb

import (
	"encoding/binary"
	"fmt"
	"math"
	"strconv"

	"redoubt/number"
)

// reader decodes the parts of a value from the bytes of a payload, or from a stream.
type reader struct {
	b    []byte // the payload, or a window of the stream
	at   int
	most int64   // how long an uncompressed string may be
	src  *source // nil: b is the whole payload
}

func short(what string) error { return fmt.Errorf("%w: it ends within %s", ErrFormat, what) }

func (r *reader) left() int { return len(r.b) - r.at }

// take takes n bytes. From a stream it takes windowBytes at most, and they are valid until
// the next call of any method.
func (r *reader) take(n uint64, what string) ([]byte, error) {
	if n > uint64(r.left()) {
		if r.src == nil {
			return nil, short(what)
		}
		if err := r.fill(int(n), what); err != nil {
			return nil, err
		}
	}
	b := r.b[r.at : r.at+int(n) : r.at+int(n)]
	r.at += int(n)
	return b, nil
}

// The first two bits of a length give its format; 11 means that a string in a special
// encoding follows instead, whose number is in the other bits.
const (
	len6       = 0
	len14      = 1
	lenLong    = 2
	lenEncoded = 3

	len32 = 0x80
	len64 = 0x81
)

// The special encodings of a string.
const (
	stringInt8  = 0
	stringInt16 = 1
	stringInt32 = 2
	stringLZF   = 3
)

// head takes a length, or the number of an encoding.
func (r *reader) head() (n uint64, encoded bool, err error) {
	b, err := r.take(1, "a length")
	if err != nil {
		return 0, false, err
	}
	low := uint64(b[0] & 0x3f)
	switch b[0] >> 6 {
	case len6:
		return low, false, nil
	case lenEncoded:
		return low, true, nil
	case len14:
		if b, err = r.take(1, "a length"); err == nil {
			n = low<<8 | uint64(b[0])
		}
		return n, false, err
	}
	switch b[0] {
	case len32:
		if b, err = r.take(4, "a length"); err == nil {
			n = uint64(binary.BigEndian.Uint32(b))
		}
	case len64:
		if b, err = r.take(8, "a length"); err == nil {
			n = binary.BigEndian.Uint64(b)
		}
	default:
		err = fmt.Errorf("%w: a length begins with %#x", ErrFormat, b[0])
	}
	return n, false, err
}

// length takes a length or any other unsigned number.
func (r *reader) length() (uint64, error) {
	n, encoded, err := r.head()
	if encoded {
		return 0, fmt.Errorf("%w: a string where a length should be", ErrFormat)
	}
	return n, err
}

// count takes the number of elements that follow, each of which has at least size bytes.
func (r *reader) count(size int, what string) (int, error) {
	n, err := r.length()
	left := uint64(r.left())
	if r.src != nil {
		left = math.MaxInt64
	}
	if err == nil && n > left/uint64(size) {
		err = short(what)
	}
	return int(n), err
}

// str takes a string. A plain string of a payload is a slice of the payload; any other
// string, and every string of a stream, is put into the scratch, and is valid until that is
// used again.
func (r *reader) str(scratch *[]byte) ([]byte, error) {
	n, encoded, err := r.head()
	if err != nil {
		return nil, err
	}
	if !encoded {
		if n > uint64(r.most) {
			return nil, fmt.Errorf("%w: a string of %d bytes", ErrFormat, n)
		}
		if r.src != nil {
			return r.copy(n, scratch, "a string")
		}
		return r.take(n, "a string")
	}
	switch n {
	case stringInt8, stringInt16, stringInt32:
		v, err := r.integer(1 << n)
		*scratch = strconv.AppendInt((*scratch)[:0], v, 10)
		return *scratch, err
	case stringLZF:
		packed, size, err := r.lzf()
		if err != nil {
			return nil, err
		}
		*scratch, err = unpackAll((*scratch)[:0], packed, size)
		return *scratch, err
	}
	return nil, fmt.Errorf("%w: a string in encoding %d", ErrFormat, n)
}

// integer takes a little-endian signed integer of 1, 2, 4 or 8 bytes.
func (r *reader) integer(size int) (int64, error) {
	b, err := r.take(uint64(size), "an integer")
	if err != nil {
		return 0, err
	}
	return signed(b), nil
}

// signed reads a little-endian signed integer.
func signed(b []byte) int64 {
	v := uint64(0)
	for i, c := range b {
		v |= uint64(c) << (8 * i)
	}
	unused := 64 - 8*len(b)
	return int64(v<<unused) >> unused
}

// lzf takes the head of a compressed string, and its bytes.
func (r *reader) lzf() (packed []byte, size int64, err error) {
	n, size, err := r.lzfHead()
	if err != nil {
		return nil, 0, err
	}
	if r.src != nil {
		packed, err = r.copy(n, &r.src.packed, "a compressed string")
	} else {
		packed, err = r.take(n, "a compressed string")
	}
	return packed, size, err
}

// lzfHead takes the head alone: the compressed and the uncompressed length.
func (r *reader) lzfHead() (n uint64, size int64, err error) {
	if n, err = r.length(); err != nil {
		return 0, 0, err
	}
	whole, err := r.length()
	if err != nil {
		return 0, 0, err
	}
	if r.src == nil && n > uint64(r.left()) {
		return 0, 0, short("a compressed string")
	}
	if n > uint64(r.most) || whole > uint64(r.most) || whole > lzfRatio*n {
		return 0, 0, fmt.Errorf("%w: %d bytes are said to be %d compressed", ErrFormat, whole, n)
	}
	return n, int64(whole), nil
}

// textDouble takes a score in the format of Redis before 4.0: its length and text, or one
// of three special lengths.
func (r *reader) textDouble() (float64, error) {
	b, err := r.take(1, "a score")
	if err != nil {
		return 0, err
	}
	switch b[0] {
	case 255:
		return math.Inf(-1), nil
	case 254:
		return math.Inf(1), nil
	case 253:
		return math.NaN(), nil
	}
	if b, err = r.take(uint64(b[0]), "a score"); err != nil {
		return 0, err
	}
	return parseScore(b)
}

func parseScore(b []byte) (float64, error) {
	f, ok := number.ParseDouble(b)
	if !ok {
		return 0, fmt.Errorf("%w: %.40q is no score", ErrFormat, b)
	}
	return f, nil
}

// double takes a score of 8 bytes.
func (r *reader) double() (float64, error) {
	b, err := r.take(8, "a score")
	if err != nil {
		return 0, err
	}
	return math.Float64frombits(binary.LittleEndian.Uint64(b)), nil
}

// millis takes a time.
func (r *reader) millis() (int64, error) { return r.integer(8) }
