package rdb

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// describer turns a value into text, the same for equal values.
type describer struct {
	lines  []string
	bytes  []byte
	size   int64
	times  bool // consumers with their times
	stream strings.Builder
}

func (d *describer) add(format string, args ...any) {
	d.lines = append(d.lines, fmt.Sprintf(format, args...))
}
func (d *describer) piece(b []byte)               { d.bytes = append(d.bytes, b...) }
func (d *describer) element(b []byte)             { d.add("%q", b) }
func (d *describer) member(b []byte)              { d.add("%q", b) }
func (d *describer) scored(b []byte, f float64)   { d.add("%q %v", b, f+0) } // no minus zero
func (d *describer) field(f, v []byte, at int64)  { d.add("%q %q %d", f, v, at) }
func (d *describer) line(format string, a ...any) { fmt.Fprintf(&d.stream, format+"\n", a...) }

func (d *describer) text(k Kind) string {
	switch k {
	case String:
		return fmt.Sprintf("%q", d.bytes)
	case Stream:
		return d.stream.String()
	case Set, ZSet, Hash:
		slices.Sort(d.lines)
	}
	return strings.Join(d.lines, "\n")
}

func (i ID) String() string { return fmt.Sprintf("%d-%d", i.Ms, i.Seq) }

func (d *describer) Entry(id ID, fields [][]byte) error {
	d.line("%v %s", id, bytes.Join(fields, []byte(" ")))
	return nil
}

func (d *describer) Info(i StreamInfo) error {
	d.line("length %d last %v first %v deleted %v added %d", i.Length, i.Last, i.First, i.MaxDeleted, i.Added)
	return nil
}

func (d *describer) Group(name []byte, last ID, read int64) error {
	d.line("group %q %v %d", name, last, read)
	return nil
}

func (d *describer) Consumer(name []byte, seen, active int64) error {
	if d.times {
		d.line("consumer %q %d %d", name, seen, active)
	} else {
		d.line("consumer %q", name)
	}
	return nil
}

func (d *describer) Pending(id ID, delivered int64, count uint64) error {
	d.line("pending %v %d %d", id, delivered, count)
	return nil
}

// visit reads a value into the describer.
func (d *describer) visit(v *Value) error {
	switch v.Kind {
	case String:
		err := v.String(func(size int64, b []byte) error {
			d.piece(b)
			d.size = size
			return nil
		})
		if err == nil && d.size != int64(len(d.bytes)) {
			err = fmt.Errorf("a string of %d bytes was said to have %d", len(d.bytes), d.size)
		}
		return err
	case List:
		return v.List(func(b []byte) error { d.element(b); return nil })
	case Set:
		return v.Set(func(b []byte) error { d.member(b); return nil })
	case ZSet:
		return v.ZSet(func(b []byte, f float64) error { d.scored(b, f); return nil })
	case Hash:
		return v.Hash(func(f, b []byte, at int64) error { d.field(f, b, at); return nil })
	case Stream:
		return v.Stream(d)
	case Module:
		_, err := v.Module("redoubtch", 1)
		return err
	}
	return errors.New("no such kind")
}

// describe is the text of a payload.
func describe(payload []byte, o Options) (string, error) {
	v, err := Open(payload, o)
	if err != nil {
		return "", err
	}
	var d describer
	if err := d.visit(v); err != nil {
		return "", err
	}
	return d.text(v.Kind), nil
}

// encode writes the value of a payload anew.
func encode(payload []byte, compress bool) ([]byte, error) {
	v, err := Open(payload, Options{})
	if err != nil {
		return nil, err
	}
	e := &Encoder{Buf: []byte("before"), Compress: compress}
	switch v.Kind {
	case String:
		begun := false
		err = v.String(func(size int64, b []byte) error {
			if !begun && size == int64(len(b)) {
				e.String(b)
				return nil
			}
			if !begun {
				begun = true
				e.BeginString(size)
			}
			e.Piece(b)
			return nil
		})
		if e.version == 0 {
			e.String(nil)
		}
	case List:
		e.BeginList()
		err = v.List(func(b []byte) error { e.Element(b); return nil })
	case Set:
		e.BeginSet()
		err = v.Set(func(b []byte) error { e.Element(b); return nil })
	case ZSet:
		e.BeginZSet()
		err = v.ZSet(func(b []byte, f float64) error { e.Member(b, f); return nil })
	case Hash:
		if v.code == typeHashTimed || v.code == typeHashListpackEX || v.code == typeHashTimedEarly || v.code == typeHashListpackEXEarly {
			e.BeginTimedHash(1)
		} else {
			e.BeginHash()
		}
		err = v.Hash(func(f, b []byte, at int64) error { e.Field(f, b, at); return nil })
	case Stream:
		s := streamCopy{Encoder: e}
		e.BeginStream(v.code == typeStream3)
		err = v.Stream(&s)
		s.flush()
	}
	return e.End()[len("before"):], err
}

// streamCopy encodes a stream as it is visited. The groups come in another order than
// they are written: what is pending is written first, and then by consumers.
type streamCopy struct {
	*Encoder
	group     bool
	pending   []pending
	consumers []func()
}

func (s *streamCopy) flush() {
	if !s.group {
		return
	}
	slices.SortFunc(s.pending, func(x, y pending) int { return x.id.Compare(y.id) })
	for _, p := range s.pending {
		s.GroupPending(p.id, p.delivered, p.count)
	}
	s.EndPending()
	for _, f := range s.consumers {
		f()
	}
	s.group, s.pending, s.consumers = false, nil, nil
}

func (s *streamCopy) Entry(id ID, fields [][]byte) error {
	s.Encoder.Entry(id, fields)
	return nil
}

func (s *streamCopy) Info(i StreamInfo) error {
	s.EndEntries(i)
	return nil
}

func (s *streamCopy) Group(name []byte, last ID, read int64) error {
	s.flush()
	s.BeginGroup(name, last, read)
	s.group = true
	return nil
}

func (s *streamCopy) Consumer(name []byte, seen, active int64) error {
	name = bytes.Clone(name)
	s.consumers = append(s.consumers, func() { s.BeginConsumer(name, seen, active) })
	return nil
}

func (s *streamCopy) Pending(id ID, delivered int64, count uint64) error {
	s.pending = append(s.pending, pending{id: id, delivered: delivered, count: count})
	s.consumers = append(s.consumers, func() { s.ConsumerPending(id) })
	return nil
}
