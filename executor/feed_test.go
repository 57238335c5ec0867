package executor

import (
	"testing"

	"redoubt/feed"
)

// Nothing is noted for replicas while nobody wants the stream.
func TestNothingIsNotedForNobody(t *testing.T) {
	s := feed.New()
	turn, _ := turnsFor(t, s, "set a 1", "incr a", "del a")
	turn()
	if n := s.End(); n != 0 {
		t.Errorf("the stream has %d bytes", n)
	}
	s.Want()
	turn()
	first := s.End()
	turn()
	if n := s.End() - first; n == 0 || n == first { // SELECT comes once
		t.Errorf("the stream has %d bytes, and then %d more", first, n)
	}
}

// What propagation costs a turn of one SET, and one of 16.
func BenchmarkPropagation(b *testing.B) {
	lines := make([]string, 16)
	for i := range lines {
		lines[i] = "set key" + string(rune('a'+i)) + " some-value-of-some-length"
	}
	for _, size := range []int{1, 16} {
		for _, c := range []struct {
			name         string
			some, wanted bool
		}{{"impossible", false, false}, {"unwanted", true, false}, {"wanted", true, true}} {
			b.Run(c.name+"/"+string(rune('0'+size/10))+string(rune('0'+size%10)), func(b *testing.B) {
				var s *feed.Stream
				if c.some {
					s = feed.New()
				}
				turn, _ := turnsFor(b, s, lines[:size]...)
				if c.wanted {
					s.SetLimits(feed.Limits{Backlog: 1 << 20})
					s.Want()
				}
				b.ReportAllocs()
				for b.Loop() {
					turn()
				}
			})
		}
	}
}
