package zset

import (
	"bytes"
	"fmt"

	"redoubt/engine"
	"redoubt/keyspace"
	"redoubt/types"
	"redoubt/types/pack"
)

// packed is the small form: the elements in order, in the meta row.
type packed struct {
	tx   *keyspace.Tx
	buf  pack.Buf
	own  bool   // buf is a copy that may be changed
	elem []byte // scratch
	offs []int  // scratch
}

func (p *packed) open(tx *keyspace.Tx, body []byte) { p.tx, p.buf, p.own = tx, body, false }

func (p *packed) close() { p.tx, p.buf = nil, nil }

func (p *packed) size() int64 { return int64(p.buf.Len()) }

func (p *packed) save() (keyspace.Encoding, []byte, bool) { return keyspace.Packed, p.buf, true }

// entry returns the element at an offset and the offset of the next.
func (p *packed) entry(off int) (elem []byte, next int, ok bool) {
	elem, next, ok = p.buf.At(off)
	if ok && len(elem) < scoreSize {
		p.tx.Fail(fmt.Errorf("%w: a packed sorted set has an element of %d bytes", engine.ErrCorrupt, len(elem)))
		return nil, off, false
	}
	return elem, next, ok
}

// fits reports whether the form has room for one more member.
func (p *packed) fits(member []byte, l *types.Limits) bool {
	return p.size() < l.ZSetEntries && int64(len(member)) <= l.ZSetValue &&
		len(p.buf)+len(member)+scoreSize+8 <= pack.MaxBytes
}

func (p *packed) find(member []byte) (bits uint64, ok bool) {
	for off := p.buf.First(); ; {
		elem, next, ok := p.entry(off)
		if !ok {
			return 0, false
		}
		if len(elem) == scoreSize+len(member) && bytes.Equal(elem[scoreSize:], member) {
			return bitsOf(elem), true
		}
		off = next
	}
}

// seek returns the offset of the first element that is not below a place, and the
// number of elements below.
func (p *packed) seek(place []byte) (off int, n int64) {
	for off = p.buf.First(); ; n++ {
		elem, next, ok := p.entry(off)
		if !ok || bytes.Compare(elem, place) >= 0 {
			return min(off, max(len(p.buf), p.buf.First())), n
		}
		off = next
	}
}

// edit makes buf a copy that may be changed.
func (p *packed) edit(room int) {
	if !p.own {
		p.buf, p.own = p.tx.Own(p.buf, room+16), true
	}
}

func (p *packed) insert(bits uint64, member []byte) {
	p.elem = appendElem(p.elem[:0], bits, member)
	p.edit(len(p.elem))
	off, _ := p.seek(p.elem)
	p.buf = p.buf.Splice(off, off, 0, p.elem)
}

func (p *packed) remove(bits uint64, member []byte) {
	p.elem = appendElem(p.elem[:0], bits, member)
	p.edit(0)
	off, _ := p.seek(p.elem)
	if elem, next, ok := p.entry(off); ok && bytes.Equal(elem, p.elem) {
		p.buf = p.buf.Splice(off, next, 1)
	}
}

func (p *packed) move(from, to uint64, member []byte) {
	p.remove(from, member)
	p.insert(to, member)
}

func (p *packed) walk(s Span, reverse bool, visit func(elem []byte) bool) {
	off := p.buf.First()
	if len(s.lo) > 0 {
		off, _ = p.seek(s.lo)
	}
	offs := p.offs[:0]
	for {
		elem, next, ok := p.entry(off)
		if !ok || s.hi != nil && bytes.Compare(elem, s.hi) >= 0 {
			break
		}
		if reverse {
			offs = append(offs, off)
		} else if !visit(elem) {
			return
		}
		off = next
	}
	p.offs = offs
	for i := len(offs) - 1; i >= 0; i-- {
		if elem, _, ok := p.entry(offs[i]); !ok || !visit(elem) {
			return
		}
	}
}

func (p *packed) before(place []byte) int64 {
	_, n := p.seek(place)
	return n
}

func (p *packed) at(n int64, b []byte) ([]byte, bool) {
	if n < 0 {
		return b, false
	}
	for off := p.buf.First(); ; n-- {
		elem, next, ok := p.entry(off)
		if !ok {
			return b, false
		}
		if n == 0 {
			return append(b, elem...), true
		}
		off = next
	}
}

func (p *packed) near(n int64) (place []byte, rest int64, ok bool) {
	return nil, n, n >= 0 && n < p.size()
}

func (p *packed) edge(s Span, reverse bool, b []byte) (_ []byte, found bool) {
	p.walk(s, reverse, func(elem []byte) bool {
		b, found = append(b, elem...), true
		return false
	})
	return b, found
}
