package stream

import (
	"bytes"
	"math"
	"testing"
)

func TestParseID(t *testing.T) {
	t.Parallel()
	const top = math.MaxUint64
	for _, test := range []struct {
		in   string
		want ID
		ok   bool
	}{
		{"0", ID{0, 7}, true},
		{"5-0", ID{5, 0}, true},
		{"5", ID{5, 7}, true},
		{"18446744073709551615-18446744073709551615", ID{top, top}, true},
		{"18446744073709551616", ID{}, false},
		{"1-18446744073709551616", ID{}, false},
		{"", ID{}, false},
		{"-", ID{}, false},
		{"+", ID{}, false},
		{"-1", ID{}, false},
		{"1-", ID{}, false},
		{"-1-1", ID{}, false},
		{"1-2-3", ID{}, false},
		{"1--2", ID{}, false},
		{"1- -2", ID{1, top - 1}, true}, // strtoull wraps around
		{"1--02", ID{1, top - 1}, true},
		{"1--0", ID{1, 0}, true},
		{"01-002", ID{1, 2}, true},
		{"+1-+2", ID{1, 2}, true},
		{" 1-\t2", ID{1, 2}, true},
		{"1 -2", ID{}, false},
		{"1-2 ", ID{}, false},
		{"1-*", ID{}, false},
		{"x", ID{}, false},
		{"1-2\x00junk", ID{1, 2}, true},
	} {
		if id, ok := ParseID([]byte(test.in), 7); ok != test.ok || ok && id != test.want {
			t.Errorf("%q: %v, %v; want %v, %v", test.in, id, ok, test.want, test.ok)
		}
	}
	if id, open, ok := ParseOpenID([]byte("9-*"), 7); !ok || !open || id != (ID{9, 0}) {
		t.Errorf("9-*: %v, %v, %v", id, open, ok)
	}
	if _, ok := ParseID(bytes.Repeat([]byte{'0'}, 128), 0); ok {
		t.Error("an ID of 128 characters was read")
	}
}

func TestNeighbours(t *testing.T) {
	t.Parallel()
	for _, id := range []ID{{}, {0, 1}, {1, 0}, {5, math.MaxUint64}, {math.MaxUint64, 0}, MaxID} {
		next, ok := id.Next()
		if ok != (id != MaxID) {
			t.Errorf("%v: next %v, %v", id, next, ok)
		}
		if back, _ := next.Prev(); ok && (back != id || !id.Less(next) || id.Compare(next) != -1) {
			t.Errorf("%v: next is %v, and before that is %v", id, next, back)
		}
		if _, ok := id.Prev(); ok == id.IsZero() {
			t.Errorf("%v: prev says %v", id, ok)
		}
	}
}

// What is written can be read, and the order of the bytes is the order of the IDs.
func FuzzID(f *testing.F) {
	f.Add("1-2", "1-10", uint64(0))
	f.Add("18446744073709551615", "+1- 5", uint64(math.MaxUint64))
	f.Fuzz(func(t *testing.T, a, b string, missing uint64) {
		x, okX := ParseID([]byte(a), missing)
		y, okY := ParseID([]byte(b), missing)
		if !okX || !okY {
			return
		}
		if again, ok := ParseID([]byte(x.String()), 0); !ok || again != x {
			t.Fatalf("%q: %v became %v, %v", a, x, again, ok)
		}
		ex, ey := appendID(nil, x), appendID(nil, y)
		if bytes.Compare(ex, ey) != x.Compare(y) || decodeID(ex) != x || x.Less(y) != (x.Compare(y) < 0) {
			t.Fatalf("%v and %v: %x and %x", x, y, ex, ey)
		}
	})
}

// Entries come back, and bytes that are none do no harm.
func FuzzEntry(f *testing.F) {
	f.Add([]byte("field"), []byte("value"), []byte{1, 1, 'f', 0})
	f.Add([]byte{}, []byte{0xff}, []byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1})
	f.Fuzz(func(t *testing.T, field, value, raw []byte) {
		e := Entry(appendEntry(nil, [][]byte{field, value, value, field}))
		n, items := e.Pairs()
		for _, want := range [][]byte{field, value, value, field} {
			if got, ok := items.Next(); !ok || !bytes.Equal(got, want) {
				t.Fatalf("%q became %q, %v", want, got, ok)
			}
		}
		if n != 2 || len(items) != 0 || !e.Valid() {
			t.Fatalf("%d pairs, %d bytes left", n, len(items))
		}
		n, items = Entry(raw).Pairs()
		for range 2 * n {
			if _, ok := items.Next(); !ok {
				break
			}
		}
		Entry(raw).Valid()
	})
}
