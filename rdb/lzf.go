package rdb

import "fmt"

// LZF: a byte n below 32 says that n+1 literal bytes follow. Any other byte begins a back
// reference: its first three bits are the length less 2, the others and the next byte the
// distance less 1; if the length bits are 111, a byte follows that is added to the length.
const (
	lzfWindow   = 1 << 13 // the largest distance
	lzfLiteral  = 1 << 5  // the longest run of literal bytes
	lzfLongest  = 7 + 255 + 2
	lzfRatio    = lzfLongest / 3 // how many bytes one compressed byte can become
	lzfPiece    = 64 << 10       // how much unpack passes on at a time
	lzfHashBits = 13
)

// unpack uncompresses bytes and passes them on in pieces, which are valid during
// the call. It holds only a piece and the window, whatever the size.
func unpack(packed []byte, size int64, visit func(piece []byte) error) error {
	u := newUnpacker(size, visit)
	if _, err := u.feed(packed, true); err != nil {
		return err
	}
	return u.end()
}

// unpacker is unpack for input that comes in parts.
type unpacker struct {
	size, total int64
	visit       func(piece []byte) error
	buf         []byte
	passed      int // how much of buf the visitor has seen
}

func newUnpacker(size int64, visit func(piece []byte) error) *unpacker {
	return &unpacker{size: size, visit: visit, buf: make([]byte, 0, min(size, lzfWindow+lzfPiece+lzfLongest))}
}

// feed uncompresses a part of the input, and returns the bytes that it did not consume: the
// beginning of an element whose end is still to come. There are none if last is set.
func (u *unpacker) feed(packed []byte, last bool) (rest []byte, err error) {
	for len(packed) > lzfLiteral || last && len(packed) > 0 {
		if len(u.buf) >= lzfWindow+lzfPiece {
			if err := u.visit(u.buf[u.passed:]); err != nil {
				return nil, err
			}
			n := copy(u.buf, u.buf[len(u.buf)-lzfWindow:])
			u.buf, u.passed = u.buf[:n], n
		}
		before := len(u.buf)
		if u.buf, packed, err = unpackOne(u.buf, packed); err != nil {
			return nil, err
		}
		if u.total += int64(len(u.buf) - before); u.total > u.size {
			return nil, fmt.Errorf("%w: a compressed string is longer than it says", ErrFormat)
		}
	}
	return packed, nil
}

// end passes the last piece on.
func (u *unpacker) end() error {
	if u.total != u.size {
		return fmt.Errorf("%w: a compressed string of %d bytes has %d", ErrFormat, u.size, u.total)
	}
	if u.passed == len(u.buf) {
		return nil
	}
	return u.visit(u.buf[u.passed:])
}

// unpackAll appends the uncompressed bytes to an empty buffer.
func unpackAll(dst, packed []byte, size int64) ([]byte, error) {
	for len(packed) > 0 {
		var err error
		if dst, packed, err = unpackOne(dst, packed); err != nil {
			return nil, err
		}
		if int64(len(dst)) > size {
			break
		}
	}
	if int64(len(dst)) != size {
		return nil, fmt.Errorf("%w: a compressed string of %d bytes has another length", ErrFormat, size)
	}
	return dst, nil
}

// unpackOne appends what the first element of the compressed bytes stands for.
func unpackOne(dst, packed []byte) (grown, rest []byte, err error) {
	c := int(packed[0])
	packed = packed[1:]
	if c < lzfLiteral {
		n := c + 1
		if n > len(packed) {
			return dst, nil, short("a compressed string")
		}
		return append(dst, packed[:n]...), packed[n:], nil
	}
	n := c >> 5
	if n == 7 {
		if len(packed) == 0 {
			return dst, nil, short("a compressed string")
		}
		n += int(packed[0])
		packed = packed[1:]
	}
	if len(packed) == 0 {
		return dst, nil, short("a compressed string")
	}
	n += 2
	from := len(dst) - (c&0x1f)<<8 - int(packed[0]) - 1
	packed = packed[1:]
	if from < 0 {
		return dst, nil, fmt.Errorf("%w: a compressed string refers to what is before it", ErrFormat)
	}
	for n > 0 { // a reference may overlap its own output
		k := min(n, len(dst)-from)
		dst = append(dst, dst[from:from+k]...)
		from, n = from+k, n-k
	}
	return dst, packed, nil
}

// pack appends src in compressed form and returns ok if that saves lzfSaves bytes. Seen maps
// hashes to the last offset of their bytes; stale values from earlier calls are harmless.
func pack(dst, src []byte, seen *[1 << lzfHashBits]int32) (packed []byte, ok bool) {
	start, limit := len(dst), len(src)-lzfSaves
	if limit <= 0 {
		return dst, false
	}
	from := 0 // bytes before it are in dst
	for at := 0; at+2 < len(src); {
		if len(dst)-start+at-from >= limit {
			return dst[:start], false
		}
		h := (uint32(src[at])<<16 | uint32(src[at+1])<<8 | uint32(src[at+2])) * 0x9e3779b1 >> (32 - lzfHashBits)
		ref := int(seen[h])
		seen[h] = int32(at)
		distance := at - ref - 1
		if ref < 0 || distance < 0 || distance >= lzfWindow ||
			src[ref] != src[at] || src[ref+1] != src[at+1] || src[ref+2] != src[at+2] {
			at++
			continue
		}
		n := 3
		for n < lzfLongest && at+n < len(src) && src[ref+n] == src[at+n] {
			n++
		}
		dst = appendLiterals(dst, src[from:at])
		if n-2 < 7 {
			dst = append(dst, byte((n-2)<<5|distance>>8))
		} else {
			dst = append(dst, byte(7<<5|distance>>8), byte(n-2-7))
		}
		dst = append(dst, byte(distance))
		at += n
		from = at
	}
	dst = appendLiterals(dst, src[from:])
	if len(dst)-start > limit {
		return dst[:start], false
	}
	return dst, true
}

// lzfSaves is how many bytes compression must save at least.
const lzfSaves = 4

func appendLiterals(dst, src []byte) []byte {
	for len(src) > 0 {
		n := min(len(src), lzfLiteral)
		dst = append(append(dst, byte(n-1)), src[:n]...)
		src = src[n:]
	}
	return dst
}
