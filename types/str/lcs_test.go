package str

import (
	"bytes"
	"slices"
	"testing"
)

// lcsTableWalk is the definition: the table of lengths and the walk back.
func lcsTableWalk(a, b []byte) (result []byte, matches []Match) {
	w := len(b) + 1
	l := make([]int, (len(a)+1)*w)
	for i := 1; i <= len(a); i++ {
		for j := 1; j <= len(b); j++ {
			if a[i-1] == b[j-1] {
				l[i*w+j] = l[(i-1)*w+j-1] + 1
			} else {
				l[i*w+j] = max(l[(i-1)*w+j], l[i*w+j-1])
			}
		}
	}
	var m *Match
	for i, j := len(a), len(b); i > 0 && j > 0; {
		if a[i-1] == b[j-1] {
			i, j = i-1, j-1
			result = append(result, a[i])
			if m == nil {
				m = &Match{AEnd: i, BEnd: j}
			}
			m.AStart, m.BStart = i, j
			if i > 0 && j > 0 {
				continue
			}
		} else if l[(i-1)*w+j] > l[i*w+j-1] {
			i--
		} else {
			j--
		}
		if m != nil {
			matches, m = append(matches, *m), nil
		}
	}
	slices.Reverse(result)
	return result, matches
}

func TestLCS(t *testing.T) {
	t.Parallel()
	rnd := random(t)
	for range 2000 {
		text := func() []byte {
			b := make([]byte, rnd.IntN(200))
			for i := range b {
				b[i] = "abcdefgh"[rnd.IntN(1+rnd.IntN(8))]
			}
			return b
		}
		a, b := text(), text()
		want, wantMatches := lcsTableWalk(a, b)
		var matches []Match
		got := LCS(a, b, func(m Match) { matches = append(matches, m) })
		if !bytes.Equal(got, want) || !slices.Equal(matches, wantMatches) {
			t.Fatalf("LCS(%q, %q) = %q %v, want %q %v", a, b, got, matches, want, wantMatches)
		}
		if n := LCSLen(a, b); n != len(want) {
			t.Fatalf("LCSLen(%q, %q) = %d, want %d", a, b, n, len(want))
		}
	}
}
