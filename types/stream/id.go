package stream

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"math"
	"strconv"
)

// ID names an entry: a time in milliseconds and a number within it. IDs are
// ordered by both.
type ID struct{ Ms, Seq uint64 }

// MaxID is the largest ID. No entry has the smallest one, 0-0.
var MaxID = ID{math.MaxUint64, math.MaxUint64}

// idSize is the length of an encoded ID.
const idSize = 16

// Compare is negative, 0 or positive as i is below, equal to or above j.
func (i ID) Compare(j ID) int { return cmp.Or(cmp.Compare(i.Ms, j.Ms), cmp.Compare(i.Seq, j.Seq)) }

// Less reports whether i is below j.
func (i ID) Less(j ID) bool { return i.Ms < j.Ms || i.Ms == j.Ms && i.Seq < j.Seq }

// IsZero reports whether i is 0-0.
func (i ID) IsZero() bool { return i == ID{} }

// Next is the ID after i. It returns false for the last one.
func (i ID) Next() (ID, bool) {
	switch {
	case i.Seq < math.MaxUint64:
		return ID{i.Ms, i.Seq + 1}, true
	case i.Ms < math.MaxUint64:
		return ID{i.Ms + 1, 0}, true
	}
	return ID{}, false
}

// Prev is the ID before i. It returns false for 0-0.
func (i ID) Prev() (ID, bool) {
	switch {
	case i.Seq > 0:
		return ID{i.Ms, i.Seq - 1}, true
	case i.Ms > 0:
		return ID{i.Ms - 1, math.MaxUint64}, true
	}
	return MaxID, false
}

// Append appends the ID as clients see it.
func (i ID) Append(b []byte) []byte {
	b = strconv.AppendUint(b, i.Ms, 10)
	b = append(b, '-')
	return strconv.AppendUint(b, i.Seq, 10)
}

func (i ID) String() string { return string(i.Append(nil)) }

// appendID appends the ID so that bytes sort as IDs do.
func appendID(b []byte, i ID) []byte {
	b = binary.BigEndian.AppendUint64(b, i.Ms)
	return binary.BigEndian.AppendUint64(b, i.Seq)
}

func decodeID(b []byte) ID {
	return ID{binary.BigEndian.Uint64(b), binary.BigEndian.Uint64(b[8:])}
}

// ParseID reads an ID that a client wrote: ms-seq, or ms alone, which stands for
// ms-missing. Signs and leading spaces and zeros are read as by C's strtoull, since
// Redis uses that; the text ends at a zero byte.
func ParseID(b []byte, missing uint64) (ID, bool) {
	id, open, ok := ParseOpenID(b, missing)
	return id, ok && !open
}

// ParseOpenID is ParseID that also accepts ms-*, for which open is true.
func ParseOpenID(b []byte, missing uint64) (id ID, open, ok bool) {
	if len(b) > maxText {
		return ID{}, false, false
	}
	if i := bytes.IndexByte(b, 0); i >= 0 {
		b = b[:i]
	}
	ms, seq, both := bytes.Cut(b, []byte{'-'})
	if id.Ms, ok = parseUint(ms); !ok {
		return ID{}, false, false
	}
	id.Seq = missing
	if !both {
		return id, false, true
	}
	if len(seq) == 1 && seq[0] == '*' {
		id.Seq = 0
		return id, true, true
	}
	id.Seq, ok = parseUint(seq)
	return id, false, ok
}

// maxText is the longest text that Redis accepts as an ID.
const maxText = 127

// parseUint reads an unsigned number. A negative number in canonical form is
// rejected, any other wraps around: the result of the two parsers that Redis tries
// in turn.
func parseUint(b []byte) (uint64, bool) {
	canonical := true
	for len(b) > 0 && (b[0] == ' ' || b[0] >= '\t' && b[0] <= '\r') {
		b, canonical = b[1:], false
	}
	negative := false
	if len(b) > 0 && (b[0] == '-' || b[0] == '+') {
		negative = b[0] == '-'
		canonical = canonical && negative
		b = b[1:]
	}
	if len(b) == 0 {
		return 0, false
	}
	canonical = canonical && b[0] != '0'
	n := uint64(0)
	for _, c := range b {
		d := uint64(c - '0')
		if d > 9 || n > math.MaxUint64/10 || n*10 > math.MaxUint64-d {
			return 0, false
		}
		n = n*10 + d
	}
	if negative {
		if canonical && n <= 1<<63 {
			return 0, false
		}
		n = -n
	}
	return n, true
}
