package command

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"math"
	"slices"

	"redoubt/keyspace"
)

// sortTable holds elements that are to be sorted, and their sort keys, in as little memory as
// possible: a record of bytes for each, one behind the other in chunks, and the record's offset as
// a number of four bytes. Records are in the order of the elements, so of two offsets the smaller
// one is that of the earlier element.
//
//	weight:8            unless elements are sorted as text
//	has:1 by            if they are sorted by the text of other keys
//	element
//
// by and element are fields: their length times two, and their bytes; or, if they are long, their
// index in large times two, plus one.
type sortTable struct {
	tx      *keyspace.Tx
	weighed bool
	keyed   bool // by is there
	chunks  [][]byte
	large   [][]byte
	order   []uint32
	// keep is the number of elements that are wanted, in their order; 0 is all. When there are more
	// than twice as many, the others are dropped.
	keep    int
	base    int64 // Tx.Taken without the chunks
	compare func(a, b uint32) int
}

// init prepares the table for so many elements, of which keep are wanted, or all if it
// is 0.
func (t *sortTable) init(tx *keyspace.Tx, n, keep int64) bool {
	if t.tx = tx; keep > 0 && 2*keep+sortSpare < n {
		t.keep, n = int(keep), 2*keep+sortSpare
	}
	if !tx.Take(4 * n) {
		return false
	}
	t.order, t.base = make([]uint32, 0, n), tx.Taken()
	return true
}

const (
	sortChunk = 1 << 18 // bytes of a chunk
	sortLarge = 1 << 14 // a field of so many bytes is not in a chunk
	maxChunks = 1 << 32 / sortChunk
)

const errSortLarge = Error("OOM command not allowed: the elements that are to be sorted take more than 4 GB; use LIMIT, or sort less at a time")

// add appends an element.
func (t *sortTable) add(element []byte, weight float64, by []byte, has bool) bool {
	c := t.chunk(8 + 1 + sortField(by) + sortField(element))
	if c == nil {
		return false
	}
	at, size := uint32(len(t.chunks)-1)*sortChunk+uint32(len(*c)), cap(*c)
	if t.weighed {
		*c = binary.BigEndian.AppendUint64(*c, math.Float64bits(weight))
	}
	if t.keyed {
		flag := byte(0)
		if has {
			flag = 1
		}
		*c = t.field(append(*c, flag), by)
	}
	*c = t.field(*c, element)
	if grown := cap(*c) - size; grown > 0 && !t.tx.Take(int64(grown)) { // the first chunk
		return false
	}
	if n := len(t.order); n == cap(t.order) && !t.tx.Take(int64(4*max(n, 16))) { // append may double it
		return false
	}
	t.order = append(t.order, at)
	if t.keep > 0 && len(t.order) >= 2*t.keep+sortSpare {
		return t.prune()
	}
	return t.tx.Err() == nil
}

// sortSpare is how many elements more than twice those wanted may be in the table.
const sortSpare = 1024

// sortField is the most bytes that a field takes in a chunk.
func sortField(b []byte) int {
	if len(b) >= sortLarge {
		return binary.MaxVarintLen64
	}
	return binary.MaxVarintLen64 + len(b)
}

// chunk returns the one to which so many bytes can be appended, or nil if there is no
// memory for it.
func (t *sortTable) chunk(size int) *[]byte {
	n := len(t.chunks)
	if n == 0 || len(t.chunks[n-1])+size > sortChunk {
		if n == maxChunks {
			t.tx.Fail(errSortLarge)
			return nil
		}
		if n > 0 { // the first one grows as it is needed
			if !t.tx.Take(sortChunk) {
				return nil
			}
			t.chunks = append(t.chunks, make([]byte, 0, sortChunk))
		} else {
			t.chunks = append(t.chunks, nil)
		}
	}
	return &t.chunks[len(t.chunks)-1]
}

func (t *sortTable) field(c, b []byte) []byte {
	if len(b) < sortLarge {
		return append(binary.AppendUvarint(c, uint64(len(b))<<1), b...)
	}
	t.tx.Take(int64(len(b)))
	t.large = append(t.large, slices.Clone(b))
	return binary.AppendUvarint(c, uint64(len(t.large)-1)<<1|1)
}

// read returns a field, and what is behind it.
func (t *sortTable) read(c []byte) (b, rest []byte) {
	n, size := binary.Uvarint(c)
	if c = c[size:]; n&1 != 0 {
		return t.large[n>>1], c
	}
	return c[:n>>1], c[n>>1:]
}

func (t *sortTable) record(at uint32) []byte { return t.chunks[at/sortChunk][at%sortChunk:] }

// weight returns the weight of the element at an offset.
func (t *sortTable) weight(at uint32) float64 {
	return math.Float64frombits(binary.BigEndian.Uint64(t.record(at)))
}

// by returns the text of another key by which the element is sorted, if there is one.
func (t *sortTable) by(at uint32) (text []byte, has bool) {
	c := t.record(at)
	text, _ = t.read(c[1:])
	return text, c[0] != 0
}

// element returns the element at an offset.
func (t *sortTable) element(at uint32) []byte {
	c := t.record(at)
	if t.weighed {
		c = c[8:]
	}
	if t.keyed {
		_, c = t.read(c[1:])
	}
	b, _ := t.read(c)
	return b
}

// byWeight compares elements by their weight, and those of the same by their bytes.
func (t *sortTable) byWeight(a, b uint32) int {
	x, y := t.weight(a), t.weight(b)
	switch {
	case x < y:
		return -1
	case x > y:
		return 1
	}
	return bytes.Compare(t.element(a), t.element(b))
}

// sort sorts. Elements that are equal stay in their order.
func (t *sortTable) sort() {
	slices.SortFunc(t.order, func(a, b uint32) int {
		return cmp.Or(t.compare(a, b), cmp.Compare(a, b))
	})
}

// prune drops the elements behind the wanted ones, and frees their memory.
func (t *sortTable) prune() bool {
	t.sort()
	kept := t.order[:t.keep]
	slices.Sort(kept) // in the order in which they came
	old, taken := *t, t.tx.Taken()
	t.chunks, t.large, t.order = nil, nil, t.order[:0]
	t.keep = 0 // not meanwhile
	for _, at := range kept {
		var weight float64
		var by []byte
		var has bool
		if old.weighed {
			weight = old.weight(at)
		}
		if old.keyed {
			by, has = old.by(at)
		}
		if !t.add(old.element(at), weight, by, has) {
			return false
		}
	}
	t.keep = old.keep
	t.tx.Give(t.base + t.tx.Taken() - taken) // only the new chunks are held from now on
	return true
}
