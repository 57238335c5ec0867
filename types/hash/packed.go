package hash

import (
	"bytes"
	"encoding/binary"
	"math/rand/v2"

	"redoubt/keyspace"
	"redoubt/types/pack"
)

// packed is the form of small hashes, in the body of the meta row. Encoding Packed is
// a pack.Buf with the entries
//
//	field value field value ...
//
// and PackedTimed, used once a field has a time, is keyspace.FieldTimes and then
//
//	field value time field value time ...
//
// where a time is 8 bytes, or empty for a field without one.
type packed struct {
	tx    *keyspace.Tx
	buf   pack.Buf
	timed bool
	first int64  // FieldTimes.Next as it was
	own   []byte // scratch: buf once it is edited
	mine  bool   // buf lies in own
	list  []int  // scratch
}

func (p *packed) open(tx *keyspace.Tx, m keyspace.Meta) {
	p.tx, p.buf, p.timed, p.first, p.mine = tx, m.Body, m.Timed(), 0, false
	if p.timed {
		p.buf, p.first = m.Body[keyspace.FieldTimesSize:], m.FieldTimes().Next
	}
}

func (p *packed) release() {
	if p.mine {
		p.own = p.buf[:0]
	}
	if cap(p.own) > maxScratch {
		p.own = nil
	}
	p.tx, p.buf, p.mine = nil, nil, false
}

// edit makes buf a copy that may be changed.
func (p *packed) edit() {
	if !p.mine {
		p.own = append(p.own[:0], p.buf...)
		p.buf, p.mine = p.own, true
	}
}

// perField is the number of entries of a field.
func (p *packed) perField() int {
	if p.timed {
		return 3
	}
	return 2
}

func (p *packed) size() int64 { return int64(p.buf.Len() / p.perField()) }
func (p *packed) next() int64 { return p.first }

// at reads the field at an offset. It reports false at the end.
func (p *packed) at(off int) (field []byte, e Entry, ok bool) {
	e.from = off
	if field, off, ok = p.buf.At(off); !ok {
		return nil, e, p.bad(e.from)
	}
	if e.Value, off, ok = p.buf.At(off); !ok {
		return nil, e, p.bad(e.from)
	}
	if p.timed {
		var t []byte
		if t, off, ok = p.buf.At(off); !ok || len(t) != 0 && len(t) != 8 {
			return nil, e, p.bad(e.from)
		}
		if len(t) == 8 {
			e.At = int64(binary.BigEndian.Uint64(t))
		}
	}
	e.to, e.found = off, true
	return field, e, true
}

// bad fails the execution unless an offset is the end of the fields, and returns false.
func (p *packed) bad(off int) bool {
	if off < len(p.buf) {
		p.tx.Fail(corrupt("packed fields from byte %d on", off))
	}
	return false
}

// find walks over the raw entries instead of calling at: most commands spend their
// time here.
func (p *packed) find(field []byte) Entry {
	b, off, others := p.buf, p.buf.First(), p.perField()-1
	for off < len(b) {
		n, from := int(b[off]), off+1
		if n >= 0x80 {
			n, from = longEntry(b, off)
		}
		// Names often share a prefix, so the last byte is compared first.
		if n == len(field) && from+n <= len(b) && (n == 0 || b[from+n-1] == field[n-1]) && bytes.Equal(b[from:from+n], field) {
			_, e, _ := p.at(off)
			return e
		}
		next := from + n
		for range others {
			if next >= len(b) {
				next = len(b) + 1
				break
			}
			if n, from = int(b[next]), next+1; n >= 0x80 {
				n, from = longEntry(b, next)
			}
			next = from + n
		}
		if next > len(b) {
			p.bad(off)
			return Entry{}
		}
		off = next
	}
	return Entry{}
}

// longEntry returns the length and the start of an entry with a length of several
// bytes. A malformed entry is reported to end past the end of b.
func longEntry(b []byte, off int) (n, from int) {
	u, size := binary.Uvarint(b[off:])
	if size <= 0 || u > uint64(len(b)) {
		return len(b), off + 1
	}
	return int(u), off + size
}

// grown is at least the length of the body after put of the field.
func (p *packed) grown(field, value []byte, at int64, was Entry) int {
	n := len(p.buf) - (was.to - was.from) + pack.Size(field) + pack.Size(value) + 1
	if at != 0 {
		n += 8
		if !p.timed {
			n += keyspace.FieldTimesSize + p.buf.Len()/2
		}
	}
	return n
}

func (p *packed) put(field, value []byte, at int64, was Entry) {
	if at != 0 && !p.timed {
		p.makeTimed()
		was = p.find(field)
	}
	p.edit()
	if !was.found {
		was.from, was.to = len(p.buf), len(p.buf)
	}
	if !p.timed {
		p.buf = p.buf.Splice(was.from, was.to, p.count(was), field, value)
		return
	}
	var t [8]byte
	p.buf = p.buf.Splice(was.from, was.to, p.count(was), field, value, timeBytes(&t, at))
}

// count is the number of entries that was has.
func (p *packed) count(was Entry) int {
	if was.found {
		return p.perField()
	}
	return 0
}

func timeBytes(b *[8]byte, at int64) []byte {
	if at == 0 {
		return nil
	}
	binary.BigEndian.PutUint64(b[:], uint64(at))
	return b[:]
}

// makeTimed adds an empty time to every field.
func (p *packed) makeTimed() {
	old := *p
	p.buf, p.mine, p.timed = make(pack.Buf, 0, len(old.buf)+old.buf.Len()/2+64), true, true
	old.each(func(field []byte, e Entry) bool {
		p.buf = p.buf.Append(field, e.Value, nil)
		return true
	})
}

func (p *packed) remove(_ []byte, was Entry) {
	p.edit()
	p.buf = p.buf.Splice(was.from, was.to, p.perField())
}

func (p *packed) due(now int64) (n int64) {
	p.each(func(_ []byte, e Entry) bool {
		if e.At != 0 && e.At <= now {
			n++
		}
		return true
	})
	return n
}

// purge removes all dead fields: there are few.
func (p *packed) purge(now int64, _ int, gone func(field []byte)) (n int) {
	for off := p.buf.First(); ; {
		field, e, ok := p.at(off)
		if !ok {
			return n
		}
		if off = e.to; e.At != 0 && e.At <= now {
			gone(field)
			p.remove(nil, e)
			n++
			off = e.from
		}
	}
}

func (p *packed) each(visit func(field []byte, e Entry) bool) {
	for off := p.buf.First(); ; {
		field, e, ok := p.at(off)
		if !ok || !visit(field, e) {
			return
		}
		off = e.to
	}
}

// scan visits all fields at once, as Redis does with a small hash.
func (p *packed) scan(_ uint64, _ int, visit func(field []byte, e Entry)) uint64 {
	p.each(func(field []byte, e Entry) bool {
		visit(field, e)
		return true
	})
	return 0
}

// living lists the offsets of the live fields.
func (p *packed) living(now int64) []int {
	p.list = p.list[:0]
	p.each(func(_ []byte, e Entry) bool {
		if e.At == 0 || e.At > now {
			p.list = append(p.list, e.from)
		}
		return true
	})
	return p.list
}

func (p *packed) draw(now, count int64, rng *rand.Rand, visit func(field []byte, e Entry) bool) {
	list := p.living(now)
	for ; count > 0 && len(list) > 0; count-- {
		field, e, ok := p.at(list[rng.IntN(len(list))])
		if !ok || !visit(field, e) {
			return
		}
	}
}

// sample is selection sampling: it visits each field in order with the probability
// (fields still wanted) / (fields left).
func (p *packed) sample(now, count int64, rng *rand.Rand, visit func(field []byte, e Entry)) {
	list := p.living(now)
	for i, off := range list {
		if left := int64(len(list) - i); left > count && rng.Int64N(left) >= count {
			continue
		}
		field, e, ok := p.at(off)
		if !ok {
			return
		}
		visit(field, e)
		count--
	}
}

func (p *packed) save(buf []byte) (keyspace.Meta, bool) {
	if !p.timed {
		return keyspace.Meta{Type: keyspace.Hash, Encoding: keyspace.Packed, Body: p.buf}, true
	}
	buf = append(keyspace.AppendFieldTimes(buf, p.times()), p.buf...)
	return keyspace.Meta{Type: keyspace.Hash, Encoding: keyspace.PackedTimed, Body: buf}, true
}

func (p *packed) times() (f keyspace.FieldTimes) {
	all, last := true, int64(0)
	p.each(func(_ []byte, e Entry) bool {
		if e.At == 0 {
			all = false
			return true
		}
		last = max(last, e.At)
		if f.Next == 0 || e.At < f.Next {
			f.Next = e.At
		}
		return true
	})
	if all {
		f.End = last
	}
	return f
}
