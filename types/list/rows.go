package list

import (
	"encoding/binary"
	"fmt"

	"redoubt/engine"
	"redoubt/keyspace"
)

// rows is the form of a list with a row for each element.
type rows struct {
	tx   *keyspace.Tx
	ref  keyspace.Ref // its Size is the number of elements
	head int64        // the index of the first element's row
	size int64        // the sum of entrySize of all elements, or unknown
	key  []byte       // scratch for row keys
}

// These are variables only so that tests can reach every case with short lists.
var (
	// lookMax is how many elements are looked at when they are removed, to keep
	// the size known.
	lookMax int64 = 1024
	// rangeMin is from how many rows on a range delete is used where it is cheap:
	// fewer are cheaper one by one.
	rangeMin int64 = 1024
	// pointMax is up to how many elements are read one by one. An iterator is the
	// better way through many; but where not all rows of a list are in memory it
	// must ask the disk, also when those that it passes are.
	pointMax int64 = 128
	// pageBytes is how much is read before it is written, when elements move:
	// nothing may be written while an iterator is open.
	pageBytes = 1 << 20
)

const (
	// unknown is a size that is to be counted when it matters: after much was
	// removed without a look at it.
	unknown = -1
	// rowWork is what a row weighs besides its bytes, in the terms of Tx.Heavy.
	rowWork = 64

	rowKeySize = keyspace.RowKeyHead + 8
)

func (r *rows) appendBody(b []byte) []byte {
	b = keyspace.AppendRef(b, r.ref)
	b = binary.BigEndian.AppendUint64(b, uint64(r.head))
	return binary.BigEndian.AppendUint64(b, uint64(r.size))
}

// row is the key of an element's row, valid until the next call.
func (r *rows) row(i int64) []byte {
	if r.key == nil {
		r.key = keyspace.AppendRowKey(r.tx.Own(nil, rowKeySize), r.ref, keyspace.SubRow)
	}
	r.key = binary.BigEndian.AppendUint64(r.key[:keyspace.RowKeyHead], uint64(r.head+i)^1<<63)
	return r.key
}

// bounds are the keys of a range of rows.
func (r *rows) bounds(from, to int64) (lo, hi []byte) {
	return r.tx.Own(r.row(from), 0), r.tx.Own(r.row(to), 0)
}

// work is about how many bytes of work so many elements are.
func (r *rows) work(n int64) int64 {
	each := int64(rowWork)
	if r.size > 0 && r.ref.Size > 0 {
		each += r.size / r.ref.Size
	}
	return n * each
}

func (r *rows) missing(i int64) {
	if r.tx.Err() == nil {
		r.tx.Fail(fmt.Errorf("%w: a list of %d elements has no row for element %d", engine.ErrCorrupt, r.ref.Size, i))
	}
}

func (r *rows) get(i int64) []byte {
	e, found := r.tx.GetRow(r.row(i))
	if !found {
		r.missing(i)
	}
	return e
}

func (r *rows) walk(from, to int64, reverse bool, visit func(e []byte) bool) {
	i, step := from, int64(1)
	if reverse {
		i, step = to-1, -1
	}
	if n := to - from; n == 1 || n <= pointMax && r.tx.Near() {
		for ; i >= from && i < to; i += step {
			row := r.row(i)
			held := r.tx.Held()
			e, found := r.tx.GetRow(row)
			if !found {
				r.missing(i)
				return
			}
			used := r.tx.Held()
			if !visit(e) {
				return
			}
			if r.tx.Held() == used { // visit has put nothing behind it
				r.tx.Release(held)
			}
		}
		return
	}
	lo, hi := r.bounds(from, to)
	it := r.tx.IterRows(lo, hi, reverse)
	for ; i >= from && i < to; i += step {
		if !it.Next() || string(it.Key()) != string(r.row(i)) {
			break
		}
		if !visit(it.Value()) {
			i = to
			break
		}
	}
	r.tx.CloseRows(it)
	if i >= from && i < to {
		r.missing(i)
	}
}

// count makes the size known.
func (r *rows) count() {
	size := int64(0)
	r.walk(0, r.ref.Size, false, func(e []byte) bool {
		size += entrySize(e)
		return true
	})
	r.size = size
}

func (r *rows) grew(e []byte) {
	if r.ref.Size++; r.size != unknown {
		r.size += entrySize(e)
	}
}

// push adds elements at an end, one after the other.
func (r *rows) push(left bool, elems [][]byte) {
	for _, e := range elems {
		if left {
			r.head--
			r.tx.PutRow(r.row(0), e)
		} else {
			r.tx.PutRow(r.row(r.ref.Size), e)
		}
		r.grew(e)
	}
}

// drop removes n elements at an end. gone is what entrySize of them comes to, or
// unknown.
func (r *rows) drop(left bool, n, gone int64) {
	from := r.ref.Size - n
	if left {
		from = 0
	}
	if gone == unknown && r.size != unknown && n <= lookMax {
		gone = 0
		r.walk(from, from+n, false, func(e []byte) bool {
			gone += entrySize(e)
			return true
		})
	}
	r.clear(from, from+n)
	if left {
		r.head += n
	}
	r.ref.Size -= n
	switch {
	case r.ref.Size == 0:
		r.size = 0
	case gone == unknown || r.size == unknown:
		r.size = unknown
	default:
		r.size -= gone
	}
}

// clear deletes rows.
func (r *rows) clear(from, to int64) {
	if to-from >= rangeMin {
		lo, hi := r.bounds(from, to)
		if r.tx.DeleteRows(lo, hi) {
			return
		}
	}
	for i := from; i < to; i++ {
		r.tx.DeleteRow(r.row(i))
	}
}

func (r *rows) set(i int64, e []byte) {
	if r.size != unknown {
		r.size += entrySize(e) - entrySize(r.get(i))
	}
	r.tx.PutRow(r.row(i), e)
}

// insert puts an element before the one at an index. The elements of the shorter
// side make room.
func (r *rows) insert(i int64, e []byte) {
	if i < r.ref.Size/2 {
		r.move(0, i, false, func(j int64) int64 { return j - 1 })
		r.head--
	} else {
		r.move(i, r.ref.Size, true, func(j int64) int64 { return j + 1 })
	}
	r.tx.PutRow(r.row(i), e)
	r.grew(e)
}

// remove removes the elements at some indexes, in ascending order, which all
// equal e. Those of the shorter side close up.
func (r *rows) remove(at []int64, e []byte) {
	n, before := int64(len(at)), 0 // how many of at are before the element that moves
	if first, last := at[0], at[n-1]; r.ref.Size-first <= last {
		r.move(first, r.ref.Size, false, func(j int64) int64 {
			for before < len(at) && at[before] <= j {
				if at[before] == j {
					return gone
				}
				before++
			}
			return j - int64(before)
		})
		r.drop(false, n, n*entrySize(e))
		return
	}
	before = len(at)
	r.move(0, at[n-1]+1, true, func(j int64) int64 {
		for before > 0 && at[before-1] >= j {
			if at[before-1] == j {
				return gone
			}
			before--
		}
		return j + n - int64(before)
	})
	r.drop(true, n, n*entrySize(e))
}
