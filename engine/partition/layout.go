package partition

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"slices"
)

// Layout says which rows lie in which partition. A partition is a contiguous range of keys,
// told by the first two bytes; its number is the first of those, as a 16-bit number. So the
// partitions, in the order of their numbers, hold the rows in the order of their keys.
type Layout struct {
	starts []uint16 // ascending; the first one is 0
}

// reserved is the first two bytes of the partition of the engine's own rows.
const reserved = 0xffff

// NewLayout makes a layout of groups of width slots, a power of two up to 64, and of the
// numbers in apart, which begin partitions besides.
func NewLayout(slots, width int, apart ...uint16) (Layout, error) {
	if width < 1 || width > 64 || width&(width-1) != 0 {
		return Layout{}, fmt.Errorf("a group of %d slots: it must be a power of two, 64 at most", width)
	}
	l := Layout{starts: append([]uint16{reserved, uint16(slots)}, apart...)}
	for s := 0; s < slots; s += width {
		l.starts = append(l.starts, uint16(s))
	}
	slices.Sort(l.starts)
	l.starts = slices.Compact(l.starts)
	return l, nil
}

// Parts returns the number of partitions, the engine's own included.
func (l Layout) Parts() int { return len(l.starts) }

// at returns the index of the partition of a key.
func (l Layout) at(key []byte) int {
	var head [2]byte
	copy(head[:], key)
	i, exact := slices.BinarySearch(l.starts, binary.BigEndian.Uint16(head[:]))
	if !exact {
		i--
	}
	return i
}

// index returns the index of the partition with a number.
func (l Layout) index(part int) int {
	i, _ := slices.BinarySearch(l.starts, uint16(part))
	return i
}

// part returns the number of the partition of a key.
func (l Layout) part(key []byte) int { return int(l.starts[l.at(key)]) }

// begin returns the first key of the partition with an index. It has no zeros at its end: a
// key that is shorter than two bytes counts as one with zeros.
func (l Layout) begin(i int) []byte {
	return bytes.TrimRight(binary.BigEndian.AppendUint16(nil, l.starts[i]), "\x00")
}

// within returns the indices of the partitions that have keys of a range: from first up to,
// but not including, end. The engine's own partition is left out.
func (l Layout) within(lo, hi []byte) (first, end int) {
	first, end = l.at(lo), len(l.starts)-1
	if hi != nil && bytes.Compare(lo, hi) >= 0 {
		return first, first
	}
	if hi != nil {
		i := l.at(hi)
		if bytes.Compare(l.begin(i), hi) < 0 {
			i++
		}
		end = min(end, i)
	}
	return first, max(first, end)
}

// clip returns the part of a range that lies in the partition with an index. A nil lo or hi is
// the beginning or end of the partition.
func (l Layout) clip(i int, lo, hi []byte) (_, _ []byte) {
	if bytes.Compare(lo, l.begin(i)) <= 0 {
		lo = nil
	}
	if i+1 < len(l.starts) && hi != nil && bytes.Compare(l.begin(i+1), hi) <= 0 {
		hi = nil
	}
	return lo, hi
}
