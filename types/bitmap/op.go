package bitmap

import (
	"encoding/binary"

	"redoubt/keyspace"
	"redoubt/types/str"
)

// Op is an operation of BITOP.
type Op byte

const (
	And   Op = iota // bits set in all sources
	Or              // in any source
	Xor             // in an odd number of sources
	Not             // not in the only source
	Diff            // in the first and in none of the others
	Diff1           // not in the first, but in any of the others
	AndOr           // in the first and in any of the others
	One             // in exactly one source
)

// block is the number of bytes that are combined at a time: whole chunks, so that
// the result is written without a copy.
const block = 8 << 10

// Combine stores the result of an operation on the sources at dest, and returns
// its length: that of the longest source. An empty result deletes dest. Besides
// the result in the transaction, Combine uses memory for a few blocks only; parts
// that no source has stored cost nothing, except with Not.
func Combine(tx *keyspace.Tx, op Op, dest []byte, sources []str.Value) int64 {
	var size, work int64
	for _, v := range sources {
		size, work = max(size, v.Len()), work+v.Len()
	}
	if tx.Heavy(work) {
		return 0
	}
	old := tx.Find(dest)
	if size == 0 {
		if old.Exists() {
			str.Delete(tx, dest, old)
		}
		return 0
	}
	c := combiner{op: op, in: make([]input, len(sources))}
	for i, v := range sources {
		c.in[i].Cursor = v.Open(tx, 0, v.Len())
		c.in[i].next()
	}
	w := str.NewWriter(tx, dest)
	for at := int64(0); at < size && tx.Err() == nil; {
		if op != Not {
			if gap := c.gap(at, size); gap > 0 {
				w.Skip(gap)
				at += gap
				continue
			}
		}
		n := min(block-at%block, size-at)
		w.Write(c.block(at, n))
		at += n
	}
	for i := range c.in {
		c.in[i].Close()
	}
	w.Store(old, 0)
	tx.Changed(keyspace.StringEv, "set", dest)
	return size
}

// input is a source and the next piece read from it.
type input struct {
	*str.Cursor
	at    int64
	piece []byte
	ok    bool
}

func (in *input) next() { in.at, in.piece, in.ok = in.Cursor.Next() }

// fill sets b to the source's bytes at an offset. Offsets only grow.
func (in *input) fill(b []byte, off int64) {
	clear(b)
	end := off + int64(len(b))
	for in.ok && in.at < end {
		skip := max(0, off-in.at)
		if skip < int64(len(in.piece)) {
			copy(b[max(0, in.at-off):], in.piece[skip:])
		}
		if in.at+int64(len(in.piece)) > end {
			return // the rest belongs to the next block
		}
		in.next()
	}
}

type combiner struct {
	op            Op
	in            []input
	acc, tmp, aux [block]byte
}

// gap returns the number of bytes, from an offset on, that no source has stored,
// rounded down to whole blocks unless they reach the end.
func (c *combiner) gap(at, size int64) int64 {
	next := size
	for i := range c.in {
		if in := &c.in[i]; in.ok {
			next = min(next, max(at, in.at))
		}
	}
	if next < size {
		next -= next % block
	}
	return max(0, next-at)
}

// block combines n bytes at an offset.
func (c *combiner) block(at, n int64) []byte {
	acc, tmp, aux := c.acc[:n], c.tmp[:n], c.aux[:n]
	c.in[0].fill(acc, at)
	rest := c.in[1:]
	switch c.op {
	case Not:
		combine(acc, acc, func(x, _ uint64) uint64 { return ^x })
	case Diff, Diff1, AndOr:
		clear(aux)
		for i := range rest {
			rest[i].fill(tmp, at)
			combine(aux, tmp, func(x, y uint64) uint64 { return x | y })
		}
		switch c.op {
		case Diff:
			combine(acc, aux, func(x, y uint64) uint64 { return x &^ y })
		case Diff1:
			combine(acc, aux, func(x, y uint64) uint64 { return y &^ x })
		case AndOr:
			combine(acc, aux, func(x, y uint64) uint64 { return x & y })
		}
	case One:
		clear(aux) // the bits seen more than once
		for i := range rest {
			rest[i].fill(tmp, at)
			for k := range acc {
				aux[k] |= acc[k] & tmp[k]
				acc[k] |= tmp[k]
			}
		}
		combine(acc, aux, func(x, y uint64) uint64 { return x &^ y })
	default:
		for i := range rest {
			rest[i].fill(tmp, at)
			switch c.op {
			case And:
				combine(acc, tmp, func(x, y uint64) uint64 { return x & y })
			case Or:
				combine(acc, tmp, func(x, y uint64) uint64 { return x | y })
			case Xor:
				combine(acc, tmp, func(x, y uint64) uint64 { return x ^ y })
			}
		}
	}
	return acc
}

// combine sets x to f(x, y), eight bytes at a time. Callers pass function
// literals, so that the compiler can inline them.
func combine(x, y []byte, f func(x, y uint64) uint64) {
	i := 0
	for ; len(x)-i >= 8; i += 8 {
		binary.LittleEndian.PutUint64(x[i:], f(binary.LittleEndian.Uint64(x[i:]), binary.LittleEndian.Uint64(y[i:])))
	}
	for ; i < len(x); i++ {
		x[i] = byte(f(uint64(x[i]), uint64(y[i])))
	}
}
