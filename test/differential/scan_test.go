package differential

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"redoubt/internal/respclient"
	"redoubt/internal/testserver"
)

// TestScanGuarantee scans while other keys come and go, the key that a cursor
// stands at among them: whatever was there all the time is returned. At times
// so many other cursors are drawn in between that the server has forgotten
// where a cursor stood.
func TestScanGuarantee(t *testing.T) {
	t.Parallel()
	for _, engine := range []string{"mem", "local", "tight", "cold"} {
		t.Run(engine, func(t *testing.T) {
			t.Parallel()
			s := *seed
			if s == 0 {
				s = uint64(time.Now().UnixNano())
			}
			t.Logf("seed %d", s)
			rng := rand.New(rand.NewPCG(s, 3))
			c, err := respclient.Dial(testserver.Start(t, testserver.Options{Engine: engine}).Addr)
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			sc := &scanner{t: t, c: c, rng: rng}
			sc.fill()
			for round := range 12 {
				sc.round(round%6 == 5)
			}
		})
	}
}

type scanner struct {
	t   *testing.T
	c   *respclient.Client
	rng *rand.Rand
}

func (s *scanner) do(args ...string) respclient.Value {
	s.t.Helper()
	v, err := s.c.Do(args...)
	if err != nil || v.IsError() {
		s.t.Fatalf("%q: %s, %v", args, v, err)
	}
	return v
}

const stay = 150

func stayName(i int) string { return fmt.Sprintf("{t%d}stay%d", i%20, i) } // many of them in one slot

// fill makes the keys that stay, and in another database those whose cursors
// push others out of the server's memory.
func (s *scanner) fill() {
	for i := range stay {
		s.do("SET", stayName(i), "x")
	}
	s.do("SELECT", "1")
	for i := 0; i < 4200; i += 100 {
		args := []string{"MSET"}
		for j := range 100 {
			args = append(args, fmt.Sprintf("other%d", i+j), "x")
		}
		s.do(args...)
	}
	s.do("SELECT", "0")
}

func (s *scanner) churnName() string {
	return fmt.Sprintf("{t%d}churn%d", s.rng.IntN(20), s.rng.IntN(100))
}

func (s *scanner) round(forget bool) {
	s.t.Helper()
	for range 60 {
		s.do("SET", s.churnName(), "x")
	}
	found := make(map[string]bool)
	cursor := "0"
	for page := 0; ; page++ {
		v := s.do("SCAN", cursor, "COUNT", fmt.Sprint(1+s.rng.IntN(8)))
		for _, k := range v.Elems[1].Elems {
			found[k.Str] = true
			if s.rng.IntN(2) == 0 && len(k.Str) > 5 && !isStay(k.Str) {
				s.do("DEL", k.Str)
			}
		}
		if cursor = v.Elems[0].Str; cursor == "0" {
			break
		}
		for range s.rng.IntN(4) {
			if s.rng.IntN(2) == 0 {
				s.do("SET", s.churnName(), "x")
			} else {
				s.do("DEL", s.churnName())
			}
		}
		if forget && page == 10 {
			s.drawCursors()
		}
		if page > 5000 {
			s.t.Fatal("SCAN does not end")
		}
	}
	for i := range stay {
		if !found[stayName(i)] {
			s.t.Fatalf("SCAN has not returned %s, which was there all the time", stayName(i))
		}
	}
}

func isStay(k string) bool {
	for i := range stay {
		if k == stayName(i) {
			return true
		}
	}
	return false
}

func (s *scanner) drawCursors() {
	s.do("SELECT", "1")
	for cursor := "0"; ; {
		if cursor = s.do("SCAN", cursor, "COUNT", "1").Elems[0].Str; cursor == "0" {
			break
		}
	}
	s.do("SELECT", "0")
}
