package zset

import (
	"bytes"
	"encoding/binary"
	"math"
)

// scoreSize is the length of a score in an element.
const scoreSize = 8

const signBit = 1 << 63

// encode returns a score as a number that sorts as scores do.
func encode(f float64) uint64 {
	if f == 0 {
		return signBit // also of minus zero
	}
	bits := math.Float64bits(f)
	if bits&signBit != 0 {
		return ^bits
	}
	return bits | signBit
}

// decode is the reverse of encode.
func decode(bits uint64) float64 {
	if bits&signBit != 0 {
		return math.Float64frombits(bits &^ signBit)
	}
	return math.Float64frombits(^bits)
}

// bitsOf is the encoded score of an element, or of a member row's value.
func bitsOf(elem []byte) uint64 { return binary.BigEndian.Uint64(elem) }

// appendElem appends an element.
func appendElem(b []byte, bits uint64, member []byte) []byte {
	return append(binary.BigEndian.AppendUint64(b, bits), member...)
}

// Span is a part of a set: the elements from lo up to, not including, hi; nil
// stands for the beginning and for the end. An element is never empty, so an
// empty hi has nothing below it.
type Span struct{ lo, hi []byte }

// Whole is all of a set.
var Whole Span

var none = Span{hi: []byte{}}

// Bound is an end of a range of scores. Open leaves the score itself out.
type Bound struct {
	Score float64
	Open  bool
}

// ByScore is the span of the scores from min to max.
func ByScore(min, max Bound) Span {
	lo, hi := encode(min.Score), encode(max.Score)
	if min.Open {
		lo++ // the next number
	}
	if !max.Open {
		hi++
	}
	if lo >= hi {
		return none
	}
	return Span{binary.BigEndian.AppendUint64(nil, lo), binary.BigEndian.AppendUint64(nil, hi)}
}

// LexBound is an end of a range of members: the lowest or the highest there can be,
// or a member.
type LexBound struct {
	Inf    int // -1: before all members, 1: behind all
	Member []byte
	Open   bool
}

// Lex is the span of the members from min to max in a set whose members all have
// the same score. If they do not, there is no telling what it means; it then goes,
// as in the small sets of Redis, from the first member that is not below min to the
// last one before another that is above max.
func (z *ZSet) Lex(min, max LexBound) Span {
	first, _ := z.form.at(0, nil)
	last, ok := z.form.at(z.Len()-1, nil)
	if !ok || min.Inf > 0 || max.Inf < 0 {
		return none
	}
	if bitsOf(first) != bitsOf(last) {
		return z.lexMixed(min, max, first, last)
	}
	s := Whole
	if min.Inf == 0 {
		if s.lo = appendElem(nil, bitsOf(first), min.Member); min.Open {
			s.lo = append(s.lo, 0)
		}
	}
	if max.Inf == 0 {
		if s.hi = appendElem(nil, bitsOf(first), max.Member); !max.Open {
			s.hi = append(s.hi, 0)
		}
	}
	if s.lo != nil && s.hi != nil && bytes.Compare(s.lo, s.hi) >= 0 {
		return none
	}
	return s
}

func (z *ZSet) lexMixed(min, max LexBound, first, last []byte) Span {
	if z.tx.Heavy(z.Len()*elemWork) || min.above(last[scoreSize:]) || max.below(first[scoreSize:]) {
		return none
	}
	s, begun := none, false
	z.form.walk(Whole, false, func(elem []byte) bool {
		switch member := elem[scoreSize:]; {
		case !begun && min.above(member):
		case max.below(member):
			if begun {
				s.hi = bytes.Clone(elem)
			}
			return false
		case !begun:
			s, begun = Span{lo: bytes.Clone(elem)}, true
		}
		return true
	})
	return s
}

// elemWork is the cost of reading an element, in the unit of keyspace.Tx.Heavy.
const elemWork = 64

// above reports whether a bound excludes a member that is below it.
func (b LexBound) above(member []byte) bool {
	c := bytes.Compare(member, b.Member)
	return b.Inf > 0 || b.Inf == 0 && (c < 0 || c == 0 && b.Open)
}

// below reports whether a bound excludes a member that is above it.
func (b LexBound) below(member []byte) bool {
	c := bytes.Compare(member, b.Member)
	return b.Inf < 0 || b.Inf == 0 && (c > 0 || c == 0 && b.Open)
}
