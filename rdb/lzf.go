package rdb

import "fmt"

// LZF: a byte below 32 says that as many bytes and one more follow as they are. Any
// other begins a reference to bytes before: its first three bits are the length
// less 2, the others and the next byte the distance less 1; length bits of 111 say
// that a byte follows them that is to be added.
const (
	lzfWindow   = 1 << 13 // the largest distance
	lzfLiteral  = 1 << 5  // the longest run of bytes as they are
	lzfLongest  = 7 + 255 + 2
	lzfRatio    = lzfLongest / 3 // how many bytes one compressed byte can become
	lzfPiece    = 64 << 10       // how much unpack passes on at a time
	lzfHashBits = 13
)

// unpack uncompresses bytes and passes them on in pieces, which are valid during
// the call. It holds a piece and the window only, whatever the size.
func unpack(packed []byte, size int64, visit func(piece []byte) error) error {
	buf := make([]byte, 0, min(size, lzfWindow+lzfPiece+lzfLongest))
	passed := 0 // how much of buf the visitor has seen
	total := int64(0)
	for len(packed) > 0 {
		if len(buf) >= lzfWindow+lzfPiece {
			if err := visit(buf[passed:]); err != nil {
				return err
			}
			n := copy(buf, buf[len(buf)-lzfWindow:])
			buf, passed = buf[:n], n
		}
		before := len(buf)
		var err error
		if buf, packed, err = unpackOne(buf, packed); err != nil {
			return err
		}
		if total += int64(len(buf) - before); total > size {
			return fmt.Errorf("%w: a compressed string is longer than it says", ErrFormat)
		}
	}
	if total != size {
		return fmt.Errorf("%w: a compressed string of %d bytes has %d", ErrFormat, size, total)
	}
	if passed == len(buf) {
		return nil
	}
	return visit(buf[passed:])
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
	for n > 0 { // what is referred to may reach into what it becomes
		k := min(n, len(dst)-from)
		dst = append(dst, dst[from:from+k]...)
		from, n = from+k, n-k
	}
	return dst, packed, nil
}

// pack appends src in compressed form if that is shorter, and says whether. Seen is
// where bytes with a hash were last; it may hold anything from calls before.
func pack(dst, src []byte, seen *[1 << lzfHashBits]int32) (packed []byte, ok bool) {
	start, limit := len(dst), len(src)-lzfSaves
	if limit <= 0 {
		return dst, false
	}
	from := 0 // what is before is in dst
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

// lzfSaves is how much compression must save at least.
const lzfSaves = 4

func appendLiterals(dst, src []byte) []byte {
	for len(src) > 0 {
		n := min(len(src), lzfLiteral)
		dst = append(append(dst, byte(n-1)), src[:n]...)
		src = src[n:]
	}
	return dst
}
