package rdb

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"
)

// portions is a writer that holds what it was given, and how much that was at once.
type portions struct {
	bytes.Buffer
	most int
}

func (p *portions) Write(b []byte) (int, error) {
	p.most = max(p.most, len(b))
	return p.Buffer.Write(b)
}

// Large values go out in portions, and are read again as what they are.
func TestWriterSpills(t *testing.T) {
	t.Parallel()
	const n = 30_000
	var b portions
	w := NewWriter(&b, VersionRedis74)
	wants, held := make(map[string]string), 0
	key := func(name string) (*Encoder, *describer, func()) {
		var d describer
		e := w.Key([]byte(name), 0)
		return e, &d, func() {
			if !e.Spill() {
				t.Fatal(w.Err())
			}
			held = max(held, len(e.Buf))
		}
	}
	element := func(i int) []byte { return fmt.Appendf(nil, "element %d", i) }
	for _, kind := range []Kind{List, Set, ZSet, Hash} {
		name := fmt.Sprint("kind ", kind)
		e, d, spill := key(name)
		switch kind {
		case List:
			e.BeginList()
		case Set:
			e.BeginSet()
		case ZSet:
			e.BeginZSet()
		case Hash:
			e.BeginHash()
		}
		e.Sized(n)
		for i := range n {
			switch kind {
			case List:
				e.Element(element(i))
				d.element(element(i))
			case Set:
				e.Element(element(i))
				d.member(element(i))
			case ZSet:
				e.Member(element(i), float64(i))
				d.scored(element(i), float64(i))
			case Hash:
				e.Field(element(i), element(2*i), 0)
				d.field(element(i), element(2*i), 0)
			}
			spill()
		}
		must(t, w.EndKey())
		wants[name] = d.text(kind)
	}
	e, d, spill := key("string")
	e.BeginString(n * 64)
	for range n {
		e.Piece(bytes.Repeat([]byte("x"), 64))
		d.piece(bytes.Repeat([]byte("x"), 64))
		spill()
	}
	must(t, w.EndKey())
	wants["string"] = d.text(String)

	e, d, spill = key("stream")
	var nodes NodeCounter
	entry := func(i int) (ID, [][]byte) {
		return ID{uint64(1 + i/3), uint64(i)}, [][]byte{element(i % 5), element(i)}
	}
	for i := range n {
		nodes.Add(entry(i))
	}
	e.BeginStream(true)
	e.Sized(nodes.Nodes())
	for i := range n {
		id, fields := entry(i)
		e.Entry(id, fields)
		must(t, d.Entry(id, fields))
		spill()
	}
	last, _ := entry(n - 1)
	first, _ := entry(0)
	info := StreamInfo{Length: n, Last: last, First: first, Added: n}
	e.EndEntries(info)
	e.Sized(2)
	must(t, d.Info(info))
	for g := range 2 {
		group := fmt.Appendf(nil, "group %d", g)
		e.BeginGroup(group, last, n)
		must(t, d.Group(group, last, n))
		e.Sized(n)
		for i := range n {
			id, _ := entry(i)
			e.GroupPending(id, int64(i), 1)
			spill()
		}
		e.EndPending()
		e.Sized(2)
		for c := range 2 {
			consumer := fmt.Appendf(nil, "consumer %d", c)
			e.BeginConsumer(consumer, 1, 2)
			must(t, d.Consumer(consumer, 1, 2))
			e.Sized(n / 2)
			for i := c; i < n; i += 2 {
				id, _ := entry(i)
				e.ConsumerPending(id)
				must(t, d.Pending(id, int64(i), 1))
				spill()
			}
		}
	}
	must(t, w.EndKey())
	wants["stream"] = d.text(Stream)
	must(t, w.End())
	if held > 2*spillBytes || b.most > 2*spillBytes || b.Len() < 3<<20 {
		t.Errorf("%d bytes were held, and %d of %d written at once", held, b.most, b.Len())
	}
	_, keys, _, err := readFile(&b.Buffer, Options{})
	must(t, err)
	for name, want := range wants {
		if got := keys[name].text; got != want {
			t.Errorf("%s is %.200s\nwant %.200s", name, got, want)
		}
	}
}

// What is not what was announced is an error, and no file.
func TestWriterRefuses(t *testing.T) {
	t.Parallel()
	for name, write := range map[string]func(w *Writer){
		"elements were announced": func(w *Writer) {
			e := w.Key([]byte("k"), 0)
			e.BeginSet()
			e.Sized(2)
			e.Element([]byte("a"))
		},
		"needs version 12": func(w *Writer) {
			e := w.Key([]byte("k"), 0)
			e.BeginTimedHash(5)
			e.Field([]byte("a"), []byte("b"), 5)
		},
		"needs version 11": func(w *Writer) {
			e := w.Key([]byte("k"), 0)
			e.BeginStream(true)
			e.EndEntries(StreamInfo{})
		},
	} {
		w := NewWriter(new(bytes.Buffer), VersionRedis70)
		write(w)
		if err := w.EndKey(); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%v, want %s", err, name)
		}
		if w.End() == nil || w.Err() == nil {
			t.Error("the error is forgotten")
		}
	}
	full := errors.New("no space left on device")
	for room := range 200 {
		w := NewWriter(&limited{room << 10, full}, VersionRedis70)
		e := w.Key([]byte("k"), 0)
		e.BeginList()
		e.Sized(20_000)
		for range 20_000 {
			e.Element([]byte("an element that is longer"))
			if !e.Spill() {
				break
			}
		}
		if err := errors.Join(w.EndKey(), w.End()); !errors.Is(err, full) {
			t.Fatalf("%d KiB: %v", room, err)
		}
	}
}

// limited is a writer with room for some bytes.
type limited struct {
	room int
	err  error
}

func (l *limited) Write(b []byte) (int, error) {
	if l.room -= len(b); l.room < 0 {
		return 0, l.err
	}
	return len(b), nil
}
