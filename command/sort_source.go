package command

import (
	"bytes"
	"math"

	"redoubt/keyspace"
	"redoubt/number"
	"redoubt/types"
	"redoubt/types/hash"
	"redoubt/types/list"
	sets "redoubt/types/set"
	"redoubt/types/str"
	"redoubt/types/zset"
)

// sortable is a value whose elements can be sorted.
type sortable struct {
	kind keyspace.Type
	size int64
	// walk visits the elements [from, to), counted from the end if reverse is set and the value has
	// an order.
	walk func(from, to int64, reverse bool, visit func(e []byte) bool)
}

func sortSource(c *Ctx, key []byte) (sortable, error) {
	m := c.Tx.Read(key)
	switch m.Type {
	case keyspace.None:
		return sortable{}, nil
	case keyspace.List:
		l, err := list.Of(c.Tx, key, m)
		if err != nil {
			return sortable{}, err
		}
		size := l.Len()
		return sortable{keyspace.List, size, func(from, to int64, reverse bool, visit func(e []byte) bool) {
			if reverse {
				from, to = size-to, size-from
			}
			l.Walk(from, to, reverse, visit)
		}}, nil
	case keyspace.ZSet:
		z, err := zset.Of(c.Tx, key, m)
		if err != nil {
			return sortable{}, err
		}
		return sortable{keyspace.ZSet, z.Len(), func(from, to int64, reverse bool, visit func(e []byte) bool) {
			z.RangeByRank(from, to-1, reverse, func(e []byte, _ float64) bool { return visit(e) })
		}}, nil
	case keyspace.Set:
		s, err := sets.Of(c.Tx, key, m)
		if err != nil {
			return sortable{}, err
		}
		return sortable{keyspace.Set, s.Len(), func(from, to int64, _ bool, visit func(e []byte) bool) {
			i := int64(-1)
			s.Each(func(e []byte) bool {
				i++
				return i < from || i < to && visit(e)
			})
		}}, nil
	}
	return sortable{}, types.ErrWrongType
}

// sortPattern names a value for each element: the element itself (#), or the key that results when
// the element replaces the first star; behind an arrow there may be a field of a hash.
type sortPattern struct {
	self          bool
	star          bool
	before, after []byte
	field         []byte
	hash          bool
}

func parseSortPattern(arg []byte) (p sortPattern) {
	// Redis searches for these characters up to a zero byte.
	text := cString(arg)
	if string(text) == "#" {
		p.self = true
		return p
	}
	star := bytes.IndexByte(text, '*')
	if star < 0 {
		return p
	}
	p.star, p.before, p.after = true, arg[:star], arg[star+1:]
	if arrow := bytes.Index(text[star+1:], []byte("->")); arrow >= 0 && star+1+arrow+2 < len(text) {
		p.hash, p.field, p.after = true, p.after[arrow+2:], p.after[:arrow]
	}
	return p
}

// foreign reports whether the pattern reads keys.
func (p *sortPattern) foreign() bool { return p.star }

// append appends the value of the pattern for an element to b. It returns false if
// there is none.
func (p *sortPattern) append(tx *keyspace.Tx, b, element []byte) ([]byte, bool) {
	if p.self {
		return append(b, element...), true
	}
	if !p.star {
		return b, false
	}
	key := make([]byte, 0, len(p.before)+len(element)+len(p.after))
	key = append(append(append(key, p.before...), element...), p.after...)
	m := tx.Read(key)
	switch {
	case p.hash && m.Type == keyspace.Hash:
		h, err := hash.Of(tx, key, m)
		if err != nil {
			return b, false
		}
		defer h.Release()
		e, found := h.Get(p.field)
		return append(b, e.Value...), found
	case !p.hash && m.Type == keyspace.String:
		v, err := str.Of(m)
		if err != nil {
			return b, false
		}
		if whole, inline := v.Inline(); inline {
			return append(b, whole...), true
		}
		return v.AppendRange(tx, b, 0, v.Len()), true
	}
	return b, false
}

// sortWeight reads a number as C's strtod does, up to a zero byte: leading space is allowed, and
// empty text is 0. A number that overflows or underflows is an error.
func sortWeight(b []byte) (float64, bool) {
	b = cString(b)
	if len(b) == 0 {
		return 0, true
	}
	if n, ok := number.ParseInt(b); ok {
		return float64(n), true
	}
	f, ok := number.ParseDouble(bytes.TrimLeft(b, " \t\n\v\f\r"))
	if tiny := math.Abs(f); ok && tiny != 0 && tiny < 0x1p-1022 {
		return 0, false
	}
	return f, ok
}
