package set

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"slices"
	"strconv"

	"redoubt/engine"
	"redoubt/keyspace"
	"redoubt/number"
	"redoubt/types/member"
	"redoubt/types/pack"
)

func isInteger(member []byte) bool {
	_, ok := number.ParseInt(member)
	return ok
}

func corrupt(what string, n int) error {
	return fmt.Errorf("%w: a set with %s %d", engine.ErrCorrupt, what, n)
}

// intForm is the form Integers. The numbers have their sign bit flipped, so that bytes
// sort as numbers do.
type intForm struct {
	body []byte
}

const flip = 1 << 63

func (f *intForm) size() int64 { return int64(len(f.body) / 8) }

func (f *intForm) at(i int) int64 { return int64(binary.BigEndian.Uint64(f.body[8*i:]) ^ flip) }

// search returns the index at which a number is or would be.
func (f *intForm) search(n int64) (at int, found bool) {
	lo, hi := 0, len(f.body)/8
	for lo < hi {
		mid := (lo + hi) / 2
		if f.at(mid) < n {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	return lo, lo < len(f.body)/8 && f.at(lo) == n
}

func (f *intForm) has(member []byte) bool {
	n, ok := number.ParseInt(member)
	if !ok {
		return false
	}
	_, found := f.search(n)
	return found
}

func (f *intForm) insert(member []byte) {
	n, _ := number.ParseInt(member)
	at, _ := f.search(n)
	f.body = append(f.body, 0, 0, 0, 0, 0, 0, 0, 0)
	copy(f.body[8*at+8:], f.body[8*at:])
	binary.BigEndian.PutUint64(f.body[8*at:], uint64(n)^flip)
}

func (f *intForm) remove(member []byte) bool {
	n, ok := number.ParseInt(member)
	if !ok {
		return false
	}
	at, found := f.search(n)
	if found {
		f.body = slices.Delete(f.body, 8*at, 8*at+8)
	}
	return found
}

func (f *intForm) each(visit func(member []byte) bool) {
	var buf [20]byte
	body := intForm{f.body}
	for i := range len(body.body) / 8 {
		if !visit(strconv.AppendInt(buf[:0], body.at(i), 10)) {
			return
		}
	}
}

// digits is the length of the longest member.
func (f *intForm) digits() int {
	if len(f.body) == 0 {
		return 0
	}
	var buf [20]byte
	return max(len(strconv.AppendInt(buf[:0], f.at(0), 10)), len(strconv.AppendInt(buf[:0], f.at(len(f.body)/8-1), 10)))
}

type packForm struct {
	body pack.Buf
}

func (f *packForm) size() int64 { return int64(f.body.Len()) }

// find returns the place of a member; to is 0 if it is not there.
func (f *packForm) find(member []byte) (from, to int) {
	for off := f.body.First(); ; {
		entry, next, ok := f.body.At(off)
		if !ok {
			return 0, 0
		}
		if bytes.Equal(entry, member) {
			return off, next
		}
		off = next
	}
}

func (f *packForm) has(member []byte) bool {
	_, to := f.find(member)
	return to > 0
}

func (f *packForm) insert(member []byte) { f.body = f.body.Append(member) }

func (f *packForm) remove(member []byte) bool {
	from, to := f.find(member)
	if to > 0 {
		f.body = f.body.Splice(from, to, 1)
	}
	return to > 0
}

func (f *packForm) each(visit func(member []byte) bool) {
	body := f.body
	for off := body.First(); ; {
		entry, next, ok := body.At(off)
		if !ok || !visit(entry) {
			return
		}
		off = next
	}
}

type rowForm struct {
	member.Rows
}

func (f *rowForm) size() int64 { return f.Ref.Size }

func (f *rowForm) has(member []byte) bool {
	_, found := f.Get(member)
	return found
}

func (f *rowForm) insert(member []byte) {
	f.Put(member, nil)
	f.Ref.Size++
}

func (f *rowForm) remove(member []byte) bool {
	if !f.has(member) {
		return false
	}
	f.delete(member)
	return true
}

// delete removes a member, which must exist.
func (f *rowForm) delete(member []byte) {
	f.Delete(member)
	f.Ref.Size--
}

func (f *rowForm) each(visit func(member []byte) bool) {
	f.Each(func(m, _ []byte) bool { return visit(m) })
}

// fit returns the form that has room for another member. One integer too many turns
// Integers into Rows, even where Packed would have room, unless the set is loose.
func (s *Set) fit(member []byte) keyspace.Encoding {
	n, body := s.Len(), 0
	switch s.enc {
	case keyspace.Integers:
		if isInteger(member) {
			if n < min(s.limits.SetIntegers, maxIntegers) && len(s.ints.body)+8 <= pack.MaxBytes {
				return keyspace.Integers
			}
			if !s.loose {
				return keyspace.Rows
			}
		}
		digits := s.ints.digits()
		if int64(digits) > s.limits.SetValue {
			return keyspace.Rows
		}
		body = int(n) * (digits + 1)
	case keyspace.Packed:
		body = len(s.packed.body)
	default:
		return keyspace.Rows
	}
	// An entry has its length, and the body its count.
	if n < s.limits.SetEntries && int64(len(member)) <= s.limits.SetValue && body+len(member)+8 <= pack.MaxBytes {
		return keyspace.Packed
	}
	return keyspace.Rows
}

// maxIntegers is a limit of Redis's own.
const maxIntegers = 1 << 30

// become converts the set to a larger form.
func (s *Set) become(enc keyspace.Encoding) {
	if enc == s.enc {
		return
	}
	from := s.form()
	switch s.enc = enc; enc {
	case keyspace.Packed:
		s.packed.body = s.tx.Own(nil, int(from.size())*8+64)
	default:
		s.rows.Tx, s.rows.Ref = s.tx, s.tx.NewRef(s.key, 0)
	}
	s.changed = true
	to := s.form()
	from.each(func(m []byte) bool {
		to.insert(m)
		return true
	})
}
