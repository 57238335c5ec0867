package list

import (
	"encoding/binary"
	"fmt"
	"slices"

	"redoubt/engine"
	"redoubt/keyspace"
	"redoubt/types/pack"
)

// packed is the form of a list inside its meta row.
type packed struct {
	tx  *keyspace.Tx
	buf pack.Buf
	own bool // buf may be changed
}

func (p *packed) size() int64 { return int64(p.buf.Len()) }

func (p *packed) save() (keyspace.Encoding, []byte) { return keyspace.Packed, p.buf }

func (p *packed) dropWork(int64) int64 { return 0 }

// cleared is false: the list may have had rows before it was packed.
func (p *packed) cleared() bool { return false }

// fits reports whether there is room for count more elements of add bytes together. As
// in Redis, elements count with their plain length.
func (p *packed) fits(add, count int64, l limit) bool {
	// An entry takes its bytes and at most three for its length.
	if int64(len(p.buf)+p.buf.First())+add+3*count > pack.MaxBytes {
		return false
	}
	return p.within(add, count, l)
}

// fitsEntry is fits for one element that counts with its listpack size, as where Redis
// builds a whole list at once.
func (p *packed) fitsEntry(e []byte, l limit) bool {
	return len(p.buf)+pack.Size(e)+2 <= pack.MaxBytes && p.buf.Len() < maxCount && p.within(entrySize(e), 1, l)
}

// within reports whether the elements, and count more of add bytes, do not exceed
// the limit.
func (p *packed) within(add, count int64, l limit) bool {
	count += int64(p.buf.Len())
	return !l.exceeded(packedBound(p.buf)+add, count) || !l.exceeded(packedSize(p.buf)+add, count)
}

// edit makes buf a copy that may be changed, with room for room more bytes.
func (p *packed) edit(room int) {
	if !p.own {
		p.buf, p.own = p.tx.Own(p.buf, room), true
	}
}

// offset is the offset of an element; for i equal to the length, the end.
func (p *packed) offset(i int64) int {
	off := p.buf.First()
	if i == int64(p.buf.Len()) {
		return max(off, len(p.buf))
	}
	for ; i > 0; i-- {
		_, next, ok := p.buf.At(off)
		if !ok {
			p.corrupt()
			return len(p.buf)
		}
		off = next
	}
	return off
}

func (p *packed) corrupt() {
	p.tx.Fail(fmt.Errorf("%w: a packed list of %d bytes ends before its %d entries", engine.ErrCorrupt, len(p.buf), p.buf.Len()))
}

func (p *packed) get(i int64) []byte {
	e, _, ok := p.buf.At(p.offset(i))
	if !ok {
		p.corrupt()
	}
	return e
}

func (p *packed) walk(from, to int64, reverse bool, visit func(e []byte) bool) {
	off := p.offset(from)
	if reverse {
		p.walkBack(off, to-from, visit)
		return
	}
	for i := from; i < to; i++ {
		e, next, ok := p.buf.At(off)
		if !ok {
			p.corrupt()
		}
		if !ok || !visit(e) {
			return
		}
		off = next
	}
}

// walkBack visits the n elements from an offset on, the last one first. Entries
// can be walked forward only, so their offsets are collected first.
func (p *packed) walkBack(off int, n int64, visit func(e []byte) bool) {
	var few [64]int
	offs := few[:0]
	for range n {
		_, next, ok := p.buf.At(off)
		if !ok {
			p.corrupt()
			return
		}
		offs = append(offs, off)
		off = next
	}
	for i := len(offs) - 1; i >= 0; i-- {
		if e, _, _ := p.buf.At(offs[i]); !visit(e) {
			return
		}
	}
}

func (p *packed) push(left bool, elems [][]byte) {
	room := p.buf.First()
	for _, e := range elems {
		room += pack.Size(e)
	}
	p.edit(room)
	if left && len(elems) > 1 {
		elems = slices.Clone(elems)
		slices.Reverse(elems)
	}
	at := max(p.buf.First(), len(p.buf))
	if left {
		at = p.buf.First()
	}
	p.buf = p.buf.Splice(at, at, 0, elems...)
}

func (p *packed) drop(left bool, n, _ int64) {
	from, to := p.buf.First(), len(p.buf)
	if left {
		to = p.offset(n)
	} else {
		from = p.offset(int64(p.buf.Len()) - n)
	}
	p.splice(from, to, int(n))
}

func (p *packed) splice(from, to, removed int, entries ...[]byte) {
	if p.tx.Err() != nil {
		return // the offsets may be wrong
	}
	room := 0
	for _, e := range entries {
		room += pack.Size(e)
	}
	p.edit(room)
	p.buf = p.buf.Splice(from, to, removed, entries...)
}

func (p *packed) set(i int64, e []byte) {
	from := p.offset(i)
	if _, to, ok := p.buf.At(from); ok {
		p.splice(from, to, 1, e)
	} else {
		p.corrupt()
	}
}

func (p *packed) insert(i int64, e []byte) {
	off := p.offset(i)
	p.splice(off, off, 0, e)
}

// remove compacts the remaining entries in place.
func (p *packed) remove(at []int64, _ []byte) {
	p.edit(0)
	b := p.buf
	left := b.Len() - len(at)
	to, i := b.First(), int64(0)
	for from := b.First(); ; i++ {
		_, next, ok := b.At(from)
		if !ok {
			break
		}
		if len(at) > 0 && at[0] == i {
			at = at[1:]
		} else {
			to += copy(b[to:], b[from:next])
		}
		from = next
	}
	if i != int64(b.Len()) {
		p.corrupt()
		return
	}
	binary.BigEndian.PutUint16(b, uint16(left))
	p.buf = b[:to]
}
