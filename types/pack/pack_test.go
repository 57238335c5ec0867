package pack

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"redoubt/engine"
)

// entries reads all entries, with the offset of each and that behind the last.
func entries(b Buf) (list [][]byte, offs []int) {
	off := b.First()
	for {
		offs = append(offs, off)
		e, next, ok := b.At(off)
		if !ok {
			return list, offs
		}
		list, off = append(list, e), next
	}
}

// Random splices do to the bytes what they do to a list of entries.
func TestSplice(t *testing.T) {
	t.Parallel()
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 1))
	entry := func() []byte {
		n := rng.IntN(20)
		switch rng.IntN(10) {
		case 0:
			n = 126 + rng.IntN(4) // where the length takes a second byte
		case 1:
			n = 250 + rng.IntN(300)
		}
		b := make([]byte, n)
		for i := range b {
			b[i] = byte(rng.Uint32())
		}
		return b
	}
	for range 50 {
		var b Buf
		var model [][]byte
		for range 100 {
			_, offs := entries(b)
			from := rng.IntN(len(model) + 1)
			to := from + rng.IntN(min(4, len(model)-from+1))
			var put [][]byte
			for range rng.IntN(4) {
				put = append(put, entry())
			}
			b = b.Splice(offs[from], offs[to], to-from, put...)
			model = slices.Replace(model, from, to, put...)
			if rng.IntN(4) == 0 {
				e := entry()
				b, model = b.Append(e), append(model, e)
			}
			got, _ := entries(b)
			if b.Len() != len(model) || !slices.EqualFunc(got, model, bytes.Equal) {
				t.Fatalf("got %d entries %q, want %q", b.Len(), got, model)
			}
			if err := b.Check(); err != nil {
				t.Fatal(err)
			}
		}
	}
}

func TestSize(t *testing.T) {
	t.Parallel()
	for _, n := range []int{0, 1, 127, 128, 16383, 16384, 70000} {
		e := make([]byte, n)
		if got, want := Size(e), len(AppendEntry(nil, e)); got != want {
			t.Errorf("an entry of %d bytes takes %d, not %d", n, want, got)
		}
	}
}

func TestNothing(t *testing.T) {
	t.Parallel()
	var b Buf
	if _, _, ok := b.At(b.First()); ok || b.Len() != 0 || b.Check() != nil {
		t.Error("a nil Buf is not an empty one")
	}
	if b = b.Splice(b.First(), b.First(), 0); b.Len() != 0 || b.Check() != nil {
		t.Errorf("nothing in the place of nothing is % x", []byte(b))
	}
}

func TestCheck(t *testing.T) {
	t.Parallel()
	good := Buf(nil).Append([]byte("a"), []byte("bc"))
	for _, bad := range []Buf{
		{0}, {0, 1}, {0, 0, 0}, good[:len(good)-1], good[:4], append(slices.Clone(good), 0), {0, 1, 0xff}, {0, 1, 5, 1},
		{0, 1, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01},                   // a length of 2^64-1
		{0, 1, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01, 1, 1}, // and one that is longer
	} {
		if err := bad.Check(); !errors.Is(err, engine.ErrCorrupt) {
			t.Errorf("% x: %v", []byte(bad), err)
		}
	}
	if err := good.Check(); err != nil {
		t.Error(err)
	}
}

// Whatever the bytes are, they can be read and checked, and when they are good
// they can be edited.
func FuzzBuf(f *testing.F) {
	f.Add([]byte(nil), 0, []byte("x"))
	f.Add([]byte(Buf(nil).Append([]byte("a"), nil, bytes.Repeat([]byte("b"), 200))), 1, []byte("y"))
	f.Add([]byte{0, 2, 0x80, 0, 0}, 1, []byte(nil))
	f.Fuzz(func(t *testing.T, body []byte, at int, e []byte) {
		b := Buf(bytes.Clone(body)) // the input must stay as it is
		list, offs := entries(b)
		if b.Check() != nil {
			return
		}
		if len(list) != b.Len() {
			t.Fatalf("%d entries, and it says %d", len(list), b.Len())
		}
		if len(list) > 0 {
			i := (at%len(list) + len(list)) % len(list)
			want := slices.Clone(list)
			for i := range want {
				want[i] = bytes.Clone(want[i])
			}
			want[i] = e
			b = b.Splice(offs[i], offs[i+1], 1, e)
			if got, _ := entries(b); b.Check() != nil || !slices.EqualFunc(got, want, bytes.Equal) {
				t.Fatalf("entry %d of %q became %q: %q", i, list, e, got)
			}
		}
	})
}
