package rdb

import (
	"fmt"
	"math"
	"strconv"
)

// Bytes passed to a visitor are valid during the call only.

// String visits a string in pieces, none if it is empty, each with the length of the whole.
func (v *Value) String(visit func(size int64, piece []byte) error) error {
	if v.Kind != String {
		return v.wrongKind()
	}
	if v.Streamed() {
		return v.streamString(visit)
	}
	r := v.in
	start := r.at
	if n, encoded, err := r.head(); err == nil && encoded && n == stringLZF {
		packed, size, err := r.lzf()
		if err == nil {
			err = unpack(packed, size, func(piece []byte) error { return visit(size, piece) })
		}
		if err != nil {
			return err
		}
		return v.end()
	}
	r.at = start
	var scratch []byte
	b, err := r.str(&scratch)
	if err == nil {
		err = v.end()
	}
	if err == nil && len(b) > 0 {
		err = visit(int64(len(b)), b)
	}
	return err
}

// List visits the elements of a list in their order.
func (v *Value) List(visit func(element []byte) error) error {
	n, err := 0, v.wrongKind()
	count := func(element []byte) error {
		n++
		return visit(element)
	}
	switch v.code {
	case typeList:
		err = v.eachString(func(_ int, s []byte) error { return count(s) })
	case typeListZiplist:
		err = v.eachPacked(true, func(_ *packed, _ int, s []byte) error { return count(s) })
	case typeListQuicklist, typeListQuicklist2:
		err = v.quicklist(count)
	}
	return v.done(n, err)
}

// done ends a collection of n elements. It returns ErrEmpty if n is 0.
func (v *Value) done(n int, err error) error {
	switch {
	case err != nil:
		return err
	case n == 0:
		v.read = true
		return ErrEmpty
	}
	return v.end()
}

// The nodes of a quicklist of version 2.
const (
	nodePlain  = 1
	nodePacked = 2
)

// quicklist visits a list of packed parts.
func (v *Value) quicklist(visit func(element []byte) error) error {
	nodes, err := v.in.count(1, "a list")
	node := uint64(nodePacked)
	var scratch []byte
	for ; nodes > 0 && err == nil; nodes-- {
		if v.code == typeListQuicklist2 {
			if node, err = v.in.length(); err != nil {
				return err
			}
		}
		switch node {
		case nodePacked:
			err = v.eachPacked(v.code == typeListQuicklist, func(_ *packed, _ int, s []byte) error { return visit(s) })
		case nodePlain:
			var s []byte
			if s, err = v.in.str(&scratch); err == nil && len(s) == 0 {
				err = fmt.Errorf("%w: a list's node is empty", ErrFormat)
			} else if err == nil {
				err = visit(s)
			}
		default:
			err = fmt.Errorf("%w: a list's node of kind %d", ErrFormat, node)
		}
	}
	return err
}

// eachString visits the strings of a plain collection, with the offset of each.
func (v *Value) eachString(visit func(at int, s []byte) error) error {
	n, err := v.in.count(1, "a collection")
	var scratch []byte
	for ; n > 0 && err == nil; n-- {
		at := v.in.at
		var s []byte
		if s, err = v.in.str(&scratch); err == nil {
			err = visit(at, s)
		}
	}
	return err
}

// eachPacked visits the entries of a packed collection, with the offset of each in it.
func (v *Value) eachPacked(zip bool, visit func(p *packed, at int, s []byte) error) error {
	b, err := v.in.str(&v.blob)
	if err != nil {
		return err
	}
	p, err := openPacked(b, zip)
	if err != nil {
		return err
	}
	var scratch []byte
	for {
		at := p.at
		e, ok, err := p.next()
		if err != nil || !ok {
			return err
		}
		if err := visit(&p, at, e.bytes(&scratch)); err != nil {
			return err
		}
	}
}

// reload returns a function that reads again a string of the payload, which is known to be
// valid.
func (v *Value) reload() func(at int) []byte {
	var scratch []byte
	return func(at int) []byte {
		again := *v.in
		again.at = at
		s, _ := again.str(&scratch)
		return s
	}
}

// unique returns a check for duplicates; nil, which finds none, in a stream.
func (v *Value) unique() *unique {
	if v.Streamed() {
		return nil
	}
	return newUnique(v.reload())
}

// reloadEntry is reload for an entry of a packed collection.
func reloadEntry(p *packed) func(at int) []byte {
	var scratch []byte
	return func(at int) []byte {
		e, _, _ := p.entry(at)
		return e.bytes(&scratch)
	}
}

// Set visits the members of a set.
func (v *Value) Set(visit func(member []byte) error) error {
	n, err := 0, v.wrongKind()
	var u *unique
	each := func(at int, s []byte) error {
		n++
		if err := u.add(at, s); err != nil {
			return err
		}
		return visit(s)
	}
	switch v.code {
	case typeSet:
		u = v.unique()
		err = v.eachString(each)
	case typeSetListpack:
		err = v.eachPacked(false, func(p *packed, at int, s []byte) error {
			if u == nil {
				u = newUnique(reloadEntry(p))
			}
			return each(at, s)
		})
	case typeSetIntset:
		var blob, scratch []byte
		if blob, err = v.in.str(&scratch); err == nil {
			var text []byte
			err = eachInteger(blob, func(i int64) error {
				n++
				text = strconv.AppendInt(text[:0], i, 10)
				return visit(text)
			})
		}
	}
	return v.done(n, err)
}

// ZSet visits the members of a sorted set, in any order.
func (v *Value) ZSet(visit func(member []byte, score float64) error) error {
	n, err := 0, v.wrongKind()
	var u *unique
	each := func(at int, member []byte, score float64) error {
		n++
		if math.IsNaN(score) {
			return fmt.Errorf("%w: a score is not a number", ErrFormat)
		}
		if err := u.add(at, member); err != nil {
			return err
		}
		return visit(member, score)
	}
	switch v.code {
	case typeZSet, typeZSet2:
		score := v.in.double
		if v.code == typeZSet {
			score = v.in.textDouble
		}
		u = v.unique()
		err = v.eachString(func(at int, s []byte) error {
			f, err := score()
			if err != nil {
				return err
			}
			return each(at, s, f)
		})
	case typeZSetZiplist, typeZSetListpack:
		err = v.eachTuple(v.code == typeZSetZiplist, 2, func(p *packed, at int, t *[3]field) error {
			if u == nil {
				u = newUnique(reloadEntry(p))
			}
			f, err := parseScore(t[1].s)
			if err != nil {
				return err
			}
			return each(at, t[0].s, f)
		})
	}
	return v.done(n, err)
}

// field is an entry of a tuple.
type field struct {
	entry
	s       []byte
	scratch []byte
}

// eachTuple visits the entries of a packed collection size at a time, with the
// offset of the first.
func (v *Value) eachTuple(zip bool, size int, visit func(p *packed, at int, t *[3]field) error) error {
	b, err := v.in.str(&v.blob)
	if err != nil {
		return err
	}
	p, err := openPacked(b, zip)
	if err != nil {
		return err
	}
	var t [3]field
	for {
		at := p.at
		for i := range size {
			f := &t[i]
			var ok bool
			if f.entry, ok, err = p.next(); err != nil {
				return err
			}
			if !ok && i > 0 {
				return fmt.Errorf("%w: the last entry of a packed collection has no other half", ErrFormat)
			}
			if !ok {
				return nil
			}
			f.s = f.bytes(&f.scratch)
		}
		if err := visit(&p, at, &t); err != nil {
			return err
		}
	}
}
