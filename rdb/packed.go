package rdb

import (
	"encoding/binary"
	"fmt"
	"strconv"
)

// Small collections are packed into one string: a listpack since Redis 7, a ziplist
// before. Both are a head, consecutive entries, and an end of 0xff; each entry also has a
// length that serves to walk backwards.
//
//	listpack: bytes:4 entries:2, entries (encoding, data, length of these two), ff
//	ziplist:  bytes:4 offset of the last:4 entries:2, entries (length of the one
//	          before, encoding, data), ff
//
// The number of entries is 65535 if there are so many or more.

// packed iterates over the entries of a packed collection.
type packed struct {
	b       []byte
	at      int // of the next entry
	seen    int // entries so far
	entries int // according to the head; -1: unknown
	zip     bool
	before  int // length of the entry before, in a ziplist
	last    int // offset of the last entry, as a ziplist's head says
}

const (
	packEnd      = 0xff
	manyEntries  = 0xffff
	listpackHead = 6
	ziplistHead  = 10
)

func openPacked(b []byte, zip bool) (packed, error) {
	p := packed{b: b, zip: zip, at: listpackHead}
	if zip {
		p.at = ziplistHead
	}
	if len(b) < p.at+1 || int64(binary.LittleEndian.Uint32(b)) != int64(len(b)) || b[len(b)-1] != packEnd {
		return p, fmt.Errorf("%w: the head of a packed collection of %d bytes", ErrFormat, len(b))
	}
	p.entries = int(binary.LittleEndian.Uint16(b[p.at-2:]))
	if p.entries == manyEntries {
		p.entries = -1
	}
	if zip {
		p.last = int(binary.LittleEndian.Uint32(b[4:]))
	}
	return p, nil
}

// entry is an entry of a packed collection: bytes, or an integer.
type entry struct {
	text []byte
	n    int64
	num  bool
}

// bytes returns the entry as a string; an integer is put into the scratch.
func (e entry) bytes(scratch *[]byte) []byte {
	if !e.num {
		return e.text
	}
	*scratch = strconv.AppendInt((*scratch)[:0], e.n, 10)
	return *scratch
}

// next returns the next entry. ok is false at the end, if the head agrees with the entries.
func (p *packed) next() (e entry, ok bool, err error) {
	if p.b[p.at] == packEnd {
		return e, false, p.end()
	}
	e, size, err := p.entry(p.at)
	if err != nil {
		return e, false, err
	}
	if p.zip {
		if before, _ := ziplistBefore(p.b[p.at:]); before != p.before {
			return e, false, fmt.Errorf("%w: a ziplist's entry is wrong about the one before it", ErrFormat)
		}
		p.before = size
	}
	p.at += size
	p.seen++
	return e, true, nil
}

func (p *packed) end() error {
	switch {
	case p.at != len(p.b)-1:
		return fmt.Errorf("%w: a packed collection ends too early", ErrFormat)
	case p.entries >= 0 && p.entries != p.seen:
		return fmt.Errorf("%w: a packed collection of %d entries has %d", ErrFormat, p.entries, p.seen)
	case p.zip && p.seen > 0 && p.last != p.at-p.before:
		return fmt.Errorf("%w: a ziplist is wrong about its last entry", ErrFormat)
	}
	return nil
}

// number returns the next entry, which must be an integer.
func (p *packed) number() (int64, error) {
	e, ok, err := p.next()
	if err == nil && (!ok || !e.num) {
		err = fmt.Errorf("%w: no integer where one should be", ErrFormat)
	}
	return e.n, err
}

// entry decodes the entry at an offset, and returns its whole length. The entry ends
// before the last byte of the collection.
func (p *packed) entry(at int) (e entry, size int, err error) {
	b := p.b[at : len(p.b)-1]
	if p.zip {
		e, size = ziplistEntry(b)
	} else {
		e, size = listpackEntry(b)
	}
	if size == 0 {
		err = fmt.Errorf("%w: an entry of a packed collection", ErrFormat)
	}
	return e, size, err
}

// listpackEntry decodes the entry at the beginning of b. Size 0 means that there is
// none.
func listpackEntry(b []byte) (e entry, size int) {
	if len(b) == 0 {
		return e, 0
	}
	head, n, integer := 1, 0, 0
	switch c := b[0]; {
	case c < 0x80:
		e.num, e.n = true, int64(c)
	case c < 0xc0:
		n = int(c & 0x3f)
	case c < 0xe0:
		if head = 2; len(b) < head {
			return e, 0
		}
		e.num, e.n = true, int64(uint64(c)<<59|uint64(b[1])<<51)>>51
	case c < 0xf0:
		if head = 2; len(b) < head {
			return e, 0
		}
		n = int(c&0x0f)<<8 | int(b[1])
	case c == 0xf0:
		if head = 5; len(b) < head {
			return e, 0
		}
		n = int(binary.LittleEndian.Uint32(b[1:]))
	case c <= 0xf3:
		integer = int(c-0xf1) + 2
	case c == 0xf4:
		integer = 8
	default:
		return e, 0
	}
	if size = e.take(b, head, n, integer); size == 0 {
		return e, 0
	}
	var back [5]byte
	want := appendBackLength(back[:0], size)
	if len(b)-size < len(want) || string(b[size:size+len(want)]) != string(want) {
		return e, 0
	}
	return e, size + len(want)
}

// take reads the data after the head of an entry: n bytes of text, or an integer of so many
// bytes, or nothing if the head holds the value. It returns the size of head and data, or 0
// if b is too short.
func (e *entry) take(b []byte, head, n, integer int) (size int) {
	size = head + n + integer
	if n+integer > len(b)-head {
		return 0
	}
	switch data := b[head:size:size]; {
	case integer > 0:
		e.num, e.n = true, signed(data)
	case !e.num:
		e.text = data
	}
	return size
}

// appendBackLength appends the length of an entry in a form that can be read backwards: 7
// bits in each byte; all bytes but the first have the eighth bit set.
func appendBackLength(b []byte, n int) []byte {
	switch {
	case n < 1<<7:
		return append(b, byte(n))
	case n < 1<<14-1:
		return append(b, byte(n>>7), byte(n)|0x80)
	case n < 1<<21-1:
		return append(b, byte(n>>14), byte(n>>7)|0x80, byte(n)|0x80)
	case n < 1<<28-1:
		return append(b, byte(n>>21), byte(n>>14)|0x80, byte(n>>7)|0x80, byte(n)|0x80)
	}
	return append(b, byte(n>>28), byte(n>>21)|0x80, byte(n>>14)|0x80, byte(n>>7)|0x80, byte(n)|0x80)
}

// ziplistBefore decodes the length of the previous entry, and returns how many bytes this
// length takes, 0 if b is too short.
func ziplistBefore(b []byte) (n, size int) {
	switch {
	case len(b) > 0 && b[0] < 0xfe:
		return int(b[0]), 1
	case len(b) >= 5 && b[0] == 0xfe:
		return int(binary.LittleEndian.Uint32(b[1:])), 5
	}
	return 0, 0
}

// ziplistEntry is listpackEntry for ziplists.
func ziplistEntry(b []byte) (e entry, size int) {
	_, head := ziplistBefore(b)
	if head == 0 || head >= len(b) {
		return e, 0
	}
	n, integer := 0, 0
	code := b[head:]
	switch c := code[0]; {
	case c < 0x40:
		head, n = head+1, int(c)
	case c < 0x80:
		if len(code) < 2 {
			return e, 0
		}
		head, n = head+2, int(c&0x3f)<<8|int(code[1])
	case c < 0xc0:
		if len(code) < 5 {
			return e, 0
		}
		head, n = head+5, int(binary.BigEndian.Uint32(code[1:]))
	case c > 0xf0 && c < 0xfe:
		head++
		e.num, e.n = true, int64(c&0x0f)-1
	default:
		if integer = map[byte]int{0xc0: 2, 0xd0: 4, 0xe0: 8, 0xf0: 3, 0xfe: 1}[c]; integer == 0 {
			return e, 0
		}
		head++
	}
	size = e.take(b, head, n, integer)
	return e, size
}

// eachInteger visits an intset, whose integers ascend: width:4 entries:4 integers, all
// little-endian.
func eachInteger(b []byte, visit func(n int64) error) error {
	if len(b) < 8 {
		return short("a set of integers")
	}
	width, n := int(binary.LittleEndian.Uint32(b)), uint64(binary.LittleEndian.Uint32(b[4:]))
	b = b[8:]
	if width != 2 && width != 4 && width != 8 || n*uint64(width) != uint64(len(b)) {
		return fmt.Errorf("%w: a set of %d integers of %d bytes each", ErrFormat, n, width)
	}
	if n == 0 {
		return ErrEmpty
	}
	for last := int64(0); len(b) > 0; b = b[width:] {
		v := signed(b[:width])
		if v <= last && n != uint64(len(b)/width) {
			return fmt.Errorf("%w: a set of integers is not in order", ErrFormat)
		}
		last = v
		if err := visit(v); err != nil {
			return err
		}
	}
	return nil
}

// eachZipmap visits a zipmap, a small hash of Redis before 2.6: entries:1, then each
// field (length, bytes), value (length, free:1, bytes, free bytes), and ff.
func eachZipmap(b []byte, visit func(at int, field, value []byte) error) error {
	if len(b) < 2 || b[len(b)-1] != packEnd {
		return fmt.Errorf("%w: a zipmap has no end", ErrFormat)
	}
	r := reader{b: b[:len(b)-1], at: 1}
	n := 0
	for ; r.left() > 0; n++ {
		at := r.at
		field, err := zipmapString(&r, 0)
		if err != nil {
			return err
		}
		value, err := zipmapString(&r, 1)
		if err != nil {
			return err
		}
		if err := visit(at, field, value); err != nil {
			return err
		}
	}
	if n == 0 {
		return ErrEmpty
	}
	if b[0] < 0xfe && int(b[0]) != n {
		return fmt.Errorf("%w: a zipmap of %d fields has %d", ErrFormat, b[0], n)
	}
	return nil
}

// zipmapString reads a field (gap 0), or a value (gap 1), which also has a byte with the
// number of unused bytes after it.
func zipmapString(r *reader, gap uint64) ([]byte, error) {
	b, err := r.take(1, "a zipmap")
	if err != nil {
		return nil, err
	}
	n := uint64(b[0])
	switch n {
	case 0xff:
		return nil, fmt.Errorf("%w: a zipmap ends too early", ErrFormat)
	case 0xfe:
		if b, err = r.take(4, "a zipmap"); err != nil {
			return nil, err
		}
		n = uint64(binary.LittleEndian.Uint32(b))
	}
	if gap > 0 {
		if b, err = r.take(1, "a zipmap"); err != nil {
			return nil, err
		}
		gap = uint64(b[0])
	}
	s, err := r.take(n, "a zipmap")
	if err == nil {
		_, err = r.take(gap, "a zipmap")
	}
	return s, err
}
