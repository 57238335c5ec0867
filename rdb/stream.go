package rdb

import (
	"encoding/binary"
	"fmt"
	"strconv"
)

// ID is the id of a stream's entry.
type ID struct{ Ms, Seq uint64 }

// Compare orders ids.
func (i ID) Compare(j ID) int {
	switch {
	case i == j:
		return 0
	case i.Ms < j.Ms, i.Ms == j.Ms && i.Seq < j.Seq:
		return -1
	}
	return 1
}

// StreamInfo is the metadata of a stream.
type StreamInfo struct {
	Length     int64
	Last       ID // the greatest id that an entry ever had
	First      ID // of the first entry; zero if there is none
	MaxDeleted ID // the greatest id of an entry that was deleted from between others
	Added      int64
}

// Unknown stands for a number of entries that is not known.
const Unknown = -1

// StreamVisitor visits a stream: its entries in order, then its metadata, then each group,
// followed by the group's consumers, each followed by its pending entries.
type StreamVisitor interface {
	// Entry gets an entry: its fields and values alternate.
	Entry(id ID, fields [][]byte) error
	Info(StreamInfo) error
	// Group gets a group. Read is how many entries the group has read, or Unknown.
	Group(name []byte, last ID, read int64) error
	// Consumer gets a consumer of the group. Active is -1 if it never was active.
	Consumer(name []byte, seen, active int64) error
	// Pending gets an entry that was delivered to the consumer, in the order of ids. The
	// entry itself may have been deleted.
	Pending(id ID, delivered int64, count uint64) error
}

// Stream visits a stream.
func (v *Value) Stream(to StreamVisitor) error {
	if v.Kind != Stream {
		return v.wrongKind()
	}
	s := streamReader{v: v, to: to}
	if err := s.nodes(); err != nil {
		return err
	}
	if err := s.info(); err != nil {
		return err
	}
	n, err := v.in.count(5, "the groups of a stream")
	if err != nil {
		return err
	}
	u := v.unique()
	for ; n > 0; n-- {
		if err := s.group(u); err != nil {
			return err
		}
	}
	return v.end()
}

type streamReader struct {
	v      *Value
	to     StreamVisitor
	about  StreamInfo
	seen   int64
	first  ID
	last   ID
	key    []byte
	name   []byte
	text   []byte   // integers among fields and values
	master [][]byte // the field names of a node's first entry
	fields [][]byte
	wait   []pending
}

// nodes visits the nodes of a stream: listpacks of some entries each, with the id to which
// the ids of these entries are relative.
func (s *streamReader) nodes() error {
	n, err := s.v.in.count(2, "the nodes of a stream")
	for ; n > 0 && err == nil; n-- {
		var key, b []byte
		if key, err = s.v.in.str(&s.key); err != nil {
			return err
		}
		if len(key) != 16 {
			return fmt.Errorf("%w: an id of %d bytes", ErrFormat, len(key))
		}
		base := rawID(key)
		if b, err = s.v.in.str(&s.v.blob); err != nil {
			return err
		}
		var p packed
		if p, err = openPacked(b, false); err == nil {
			err = s.node(&p, base)
		}
	}
	return err
}

func rawID(b []byte) ID { return ID{binary.BigEndian.Uint64(b), binary.BigEndian.Uint64(b[8:])} }

// The flags of an entry.
const (
	entryDeleted    = 1
	entrySameFields = 2
)

// node visits the entries of one node.
//
//	live deleted fields name* 0
//	(flags ms seq (value* | fields (name value)*) parts)*
//
// An entry with the node's field names does not repeat them; parts is how many parts the
// entry has, for walking backwards.
func (s *streamReader) node(p *packed, base ID) error {
	live, err := p.number()
	if err != nil {
		return err
	}
	deleted, err := p.number()
	if err != nil {
		return err
	}
	s.text = s.text[:0]
	s.master = s.master[:0]
	names, err := s.parts(p, 1)
	if err != nil {
		return err
	}
	s.master = append(s.master, names...)
	if zero, err := p.number(); err != nil || zero != 0 {
		return badEntry(err)
	}
	most := int64(len(p.b))
	if live < 0 || deleted < 0 || live > most || deleted > most || live+deleted == 0 {
		return fmt.Errorf("%w: a stream's node with %d entries", ErrFormat, live)
	}
	text := len(s.text)
	for left := live + deleted; left > 0; left-- {
		s.text = s.text[:text]
		gone, err := s.entry(p, base)
		if err != nil {
			return err
		}
		if gone {
			deleted--
		}
	}
	if deleted != 0 {
		return fmt.Errorf("%w: a stream's node is wrong about what was deleted", ErrFormat)
	}
	if _, ok, err := p.next(); err != nil || ok {
		return badEntry(err)
	}
	return nil
}

func badEntry(err error) error {
	if err == nil {
		err = fmt.Errorf("%w: an entry of a stream", ErrFormat)
	}
	return err
}

// parts takes a number n and then n*each strings.
func (s *streamReader) parts(p *packed, each int) ([][]byte, error) {
	n, err := p.number()
	if err != nil {
		return nil, err
	}
	if n < 0 || n > int64(len(p.b)) {
		return nil, badEntry(nil)
	}
	s.fields = s.fields[:0]
	for range n * int64(each) {
		if err := s.part(p); err != nil {
			return nil, err
		}
	}
	return s.fields, nil
}

// part takes a string and adds it to the fields.
func (s *streamReader) part(p *packed) error {
	e, ok, err := p.next()
	if err != nil || !ok {
		return badEntry(err)
	}
	b := e.text
	if e.num {
		at := len(s.text)
		// If the buffer grows into a new one, earlier slices keep pointing into the old one.
		s.text = strconv.AppendInt(s.text, e.n, 10)
		b = s.text[at:len(s.text):len(s.text)]
	}
	s.fields = append(s.fields, b)
	return nil
}

// entry visits one entry, or returns gone if it was deleted.
func (s *streamReader) entry(p *packed, base ID) (gone bool, err error) {
	start := p.seen
	var head [3]int64 // flags, ms, seq
	for i := range head {
		if head[i], err = p.number(); err != nil {
			return false, err
		}
	}
	id := ID{base.Ms + uint64(head[1]), base.Seq + uint64(head[2])}
	if head[0]&entrySameFields == 0 {
		if _, err = s.parts(p, 2); err != nil {
			return false, err
		}
	} else {
		s.fields = s.fields[:0]
		for _, name := range s.master {
			s.fields = append(s.fields, name)
			if err = s.part(p); err != nil {
				return false, err
			}
		}
	}
	parts := int64(p.seen - start)
	if n, err := p.number(); err != nil || n != parts {
		return false, badEntry(err)
	}
	if head[0]&entryDeleted != 0 {
		return true, nil
	}
	if id == (ID{}) || s.seen > 0 && id.Compare(s.last) <= 0 {
		return false, fmt.Errorf("%w: the entries of a stream are not in order", ErrFormat)
	}
	if s.seen++; s.seen == 1 {
		s.first = id
	}
	s.last = id
	return false, s.to.Entry(id, s.fields)
}

// info visits the metadata after the entries. Redis before 7.0 wrote only a part of it.
func (s *streamReader) info() error {
	full := s.v.code != typeStream
	numbers := make([]uint64, 3, 8)
	if full {
		numbers = numbers[:8]
	}
	for i := range numbers {
		var err error
		if numbers[i], err = s.v.in.length(); err != nil {
			return err
		}
	}
	a := &s.about
	a.Length, a.Last, a.First = int64(numbers[0]), ID{numbers[1], numbers[2]}, s.first
	a.Added = a.Length
	if full {
		a.MaxDeleted, a.Added = ID{numbers[5], numbers[6]}, int64(numbers[7])
	}
	if a.Length != s.seen || a.Added < 0 || s.seen > 0 && a.Last.Compare(s.last) < 0 {
		return fmt.Errorf("%w: a stream of %d entries has %d", ErrFormat, a.Length, s.seen)
	}
	return s.to.Info(*a)
}
