package partition

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"testing"

	"redoubt/engine"
)

// Gaps are compared with a set of single bytes.
func TestGapsAgainstSet(t *testing.T) {
	t.Parallel()
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 1))
	span := func() Span {
		lo := 1 + rng.IntN(254)
		s := Span{Lo: []byte{byte(lo)}, Hi: []byte{byte(lo + 1 + rng.IntN(255-lo))}}
		if rng.IntN(10) == 0 {
			s.Hi = nil
		}
		return s
	}
	for range 300 {
		var g gaps
		var in [256]bool
		for range 20 {
			if key := byte(1 + rng.IntN(255)); rng.IntN(2) == 0 {
				g = g.cut([]byte{key})
				// What is left around the key may be dropped, if it is small.
				for k := range in {
					in[k] = in[k] && g.at([]byte{byte(k)}) >= 0
				}
				if in[key] {
					t.Fatalf("%d is in a gap it was cut out of", key)
				}
			} else {
				s := span()
				g = g.add(gap{s, 100 + rng.IntN(2000)})
				for k := range in {
					in[k] = in[k] || inside([]byte{byte(k)}, s)
				}
			}
			for k := range in {
				if got := g.at([]byte{byte(k)}) >= 0; got != in[k] {
					t.Fatalf("%d in a gap: %v, want %v, of %v", k, got, in[k], g)
				}
			}
			again, err := decodeGaps(g.encode())
			if err != nil || !bytes.Equal(again.encode(), g.encode()) || len(again) != len(g) {
				t.Fatalf("%v became %v, %v", g, again, err)
			}
			// A read of a range, piece by piece, shows all that is in no gap.
			whole, reverse := span(), rng.IntN(2) == 0
			var read [256]bool
			for rest := &whole; rest != nil; {
				first, behind, ok := g.next(*rest, reverse)
				for k := 1; ok && k < 256; k++ {
					if inside([]byte{byte(k)}, first) {
						if read[k] {
							t.Fatalf("%d is read twice", k)
						}
						read[k] = true
					}
				}
				rest = behind
			}
			for k := 1; k < 256; k++ {
				if in := inside([]byte{byte(k)}, whole); read[k] && !in || !read[k] && in && g.at([]byte{byte(k)}) < 0 {
					t.Fatalf("%d of %v is read: %v, with %v, reverse %v", k, whole, read[k], g, reverse)
				}
			}
		}
	}
}

func TestNoteDoesNotDecode(t *testing.T) {
	t.Parallel()
	good := gaps{{Span{[]byte("a"), []byte("b")}, 100}, {Span{[]byte("c"), nil}, 200}}.encode()
	for n := 1; n < len(good); n++ {
		if g, err := decodeGaps(good[:n]); err == nil && len(g) != 1 || err != nil && !errors.Is(err, engine.ErrCorrupt) {
			t.Errorf("%d bytes: %v, %v", n, g, err)
		}
	}
	for _, b := range []gaps{{{Span{[]byte("b"), []byte("a")}, 1}}, {{Span{[]byte("c"), nil}, 1}, {Span{[]byte("d"), nil}, 1}}} {
		if _, err := decodeGaps(b.encode()); !errors.Is(err, engine.ErrCorrupt) {
			t.Errorf("%v: %v", b, err)
		}
	}
}

func TestGapsAreBounded(t *testing.T) {
	t.Parallel()
	var g gaps
	for i := range 100 {
		g = g.add(gap{Span{[]byte{byte(2 * i)}, []byte{byte(2*i + 1)}}, 1000 - i})
	}
	if g = g.bound(); len(g) != maxGaps || g[len(g)-1].weight != 1000-maxGaps+1 {
		t.Errorf("%d gaps are left, the last %v", len(g), g[len(g)-1])
	}
}
