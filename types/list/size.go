package list

import (
	"redoubt/number"
	"redoubt/types/pack"
)

// The size of a list is measured as in Redis, in the bytes that the elements would
// take in a listpack, Redis's form of small lists: so that a list unfolds where Redis
// converts it to a quicklist. Nothing here is stored as a listpack.

const (
	// overhead is the size of a listpack besides its entries: 6 bytes of header and
	// 1 byte at the end.
	overhead = 7
	// least is the size of the smallest entry.
	least = 2
)

// entrySize is the length of an element's entry in a listpack: its encoding, as
// an integer if it is one, followed by the length of the encoding, in groups of 7
// bits, by which Redis walks backwards.
func entrySize(e []byte) int64 {
	n := int64(len(e))
	if n > 0 && n <= 20 && (e[0] == '-' || e[0]-'0' < 10) {
		if v, ok := number.ParseInt(e); ok {
			return integerSize(v)
		}
	}
	switch {
	case n < 64:
		return n + 2
	case n < 4096:
		n += 2
	default:
		n += 5
	}
	switch {
	case n <= 127:
		return n + 1
	case n < 16383:
		return n + 2
	case n < 2097151:
		return n + 3
	case n < 268435455:
		return n + 4
	}
	return n + 5
}

func integerSize(v int64) int64 {
	if v < 0 {
		v = ^v // -4096 needs as many bits as 4095
		if v <= 127 {
			v = 128 // only positive numbers have the shortest form
		}
	}
	switch {
	case v <= 127:
		return 2
	case v < 1<<12:
		return 3
	case v < 1<<15:
		return 4
	case v < 1<<23:
		return 5
	case v < 1<<31:
		return 6
	}
	return 10
}

// packedSize is the size that the entries of a packed list would have in a listpack.
func packedSize(b pack.Buf) (size int64) {
	for off := b.First(); ; {
		e, next, ok := b.At(off)
		if !ok {
			return size
		}
		size += entrySize(e)
		off = next
	}
}

// packedBound is an upper bound of packedSize, without a walk. An entry of pack is
// at most one byte shorter than that of a listpack, three if it is of 64 bytes or
// more, and seven if it is of 4096 or more.
func packedBound(b pack.Buf) int64 {
	n := int64(len(b))
	return n + int64(b.Len()) + n/64*2 + n/4096*4
}

// limit is the largest size of a packed list: list-max-listpack-size.
type limit struct {
	bytes int64 // of the listpack; 0 if the number of elements is limited
	count int64
}

// maxBytes is the largest listpack if the limit is a number of elements.
const maxBytes = 8192

// limitOf decodes the setting: a number of elements, or if negative, one of five
// sizes.
func limitOf(setting int64) limit {
	if setting >= 0 {
		return limit{count: max(1, setting)}
	}
	return limit{bytes: 4096 << (min(-setting, 5) - 1)}
}

// exceeded reports whether a list of count entries of size bytes is too large.
func (l limit) exceeded(size, count int64) bool {
	if l.bytes > 0 {
		return size+overhead > l.bytes
	}
	return count > l.count || size+overhead > maxBytes
}

// folds reports whether a list that shrank is packed again: at half of the limit, so
// that a list near the limit does not change form back and forth.
func (l limit) folds(size, count int64) bool {
	if l.bytes > 0 {
		return size+overhead <= l.bytes/2
	}
	return count <= l.count/2 && (count == 1 || size+overhead <= maxBytes)
}

// mayFold is folds for an unknown size: it returns false if folds must be false.
func (l limit) mayFold(count int64) bool {
	if l.bytes > 0 {
		return count*least+overhead <= l.bytes/2
	}
	return count <= l.count/2
}
