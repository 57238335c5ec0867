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
	// bytes is the sum of entrySize of all elements, or unknown.
	bytes int64
	// kept: rows may be left although the list is empty; Save deletes them.
	kept bool
	key  []byte         // scratch for row keys
	body [bodySize]byte // scratch
}

func (r *rows) open(m keyspace.Meta) {
	r.ref = m.Ref()
	r.head = int64(binary.BigEndian.Uint64(m.Body[keyspace.RefSize:]))
	r.bytes = int64(binary.BigEndian.Uint64(m.Body[keyspace.RefSize+8:]))
}

func (r *rows) save() (keyspace.Encoding, []byte) {
	b := keyspace.AppendRef(r.body[:0], r.ref)
	b = binary.BigEndian.AppendUint64(b, uint64(r.head))
	return keyspace.Rows, binary.BigEndian.AppendUint64(b, uint64(r.bytes))
}

func (r *rows) size() int64 { return r.ref.Size }

func (r *rows) cleared() bool { return !r.kept }

func (r *rows) dropWork(n int64) int64 { return rowWork * n }

// These are variables only so that tests can reach every case with short lists.
var (
	// lookMax is the most elements that are read when they are removed, to keep the
	// sum of sizes known.
	lookMax int64 = 1024
	// rangeMin is the least number of rows for a range delete, where the engine has
	// a cheap one: fewer rows are cheaper one by one.
	rangeMin int64 = 1024
	// pointMax is the most elements that are read one by one. An iterator is faster
	// for many; but unless all rows of a list are in memory it must read the disk,
	// even if the rows in its range are in memory.
	pointMax int64 = 128
	// pageBytes is the number of bytes that move reads before it writes them: nothing
	// may be written while an iterator is open.
	pageBytes = 1 << 20
)

const (
	// unknown stands for a sum of sizes that was lost, when many elements were removed
	// without reading them; it is computed when needed.
	unknown = -1
	// rowWork is the cost of a row besides its bytes, in the unit of Tx.Heavy.
	rowWork = 64

	rowKeySize = keyspace.RowKeyHead + 8
)

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

// work is about the cost of reading n elements, in the unit of Tx.Heavy.
func (r *rows) work(n int64) int64 {
	each := int64(rowWork)
	if r.bytes > 0 && r.ref.Size > 0 {
		each += r.bytes / r.ref.Size
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
	if n := to - from; n == 1 || n <= pointMax && r.tx.Local() {
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
			if r.tx.Held() == used { // visit has allocated nothing since
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

// count computes bytes.
func (r *rows) count() {
	bytes := int64(0)
	r.walk(0, r.ref.Size, false, func(e []byte) bool {
		bytes += entrySize(e)
		return true
	})
	r.bytes = bytes
}

func (r *rows) grew(e []byte) {
	if r.ref.Size++; r.bytes != unknown {
		r.bytes += entrySize(e)
	}
}

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

func (r *rows) drop(left bool, n, bytes int64) {
	if n == r.ref.Size && n > lookMax {
		// All elements are removed: Save deletes their rows as one range.
		r.ref.Size, r.kept = 0, true
		return
	}
	from := r.ref.Size - n
	if left {
		from = 0
	}
	if bytes == unknown && r.bytes != unknown && n <= lookMax {
		bytes = 0
		r.walk(from, from+n, false, func(e []byte) bool {
			bytes += entrySize(e)
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
		r.bytes = 0
	case bytes == unknown || r.bytes == unknown:
		r.bytes = unknown
	default:
		r.bytes -= bytes
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
	if r.bytes != unknown {
		r.bytes += entrySize(e) - entrySize(r.get(i))
	}
	r.tx.PutRow(r.row(i), e)
}

// insert moves the elements of the shorter side to make room.
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

// remove moves the elements of the shorter side to close the gaps.
func (r *rows) remove(at []int64, e []byte) {
	if int64(len(at)) == r.ref.Size {
		r.drop(true, r.ref.Size, 0)
		return
	}
	n, before := int64(len(at)), 0 // before: how many of at precede the element that moves
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
