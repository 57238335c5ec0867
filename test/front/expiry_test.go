package front

import (
	"fmt"
	"strconv"
	"sync"
	"testing"
	"time"
)

// Keys with a time to live die once, whether somebody looks or not, also when the
// front end that sees to it dies.
func TestExpiry(t *testing.T) {
	onStores(t, 3, steady, []string{"--notify-keyspace-events", "Ex"}, func(t *testing.T, s *stage) {
		heard := make([]map[string]int, 3)
		var mu sync.Mutex
		for i := range 3 {
			heard[i] = map[string]int{}
			c := s.dial(i)
			c.do("SUBSCRIBE", "__keyevent@0__:expired")
			c.Timeout = time.Hour
			go func() {
				for {
					v, err := c.Read()
					if err != nil {
						return
					}
					mu.Lock()
					heard[i][v.Elems[2].Str]++
					mu.Unlock()
				}
			}()
		}
		n := 0
		round := func(fronts ...int) {
			before := n
			for _, i := range fronts {
				c := s.dial(i)
				for range 30 {
					c.do("SET", "dies"+strconv.Itoa(n), "v", "PX", strconv.Itoa(50+s.rng.IntN(300)))
					n++
				}
				c.do("SET", "stays", "v", "EX", "1000")
			}
			c := s.dial(fronts[0])
			for i := before; i < n; i += 3 { // some are looked at, and found dead
				c.do("GET", "dies"+strconv.Itoa(i))
			}
			for _, i := range fronts {
				s.until(fmt.Sprintf("front end %d has heard of %d deaths", i, n), func() bool {
					mu.Lock()
					defer mu.Unlock()
					return len(heard[i]) >= n
				})
			}
			c.want("[stays]", "KEYS", "*") // DBSIZE is an estimate after a death
			mu.Lock()
			defer mu.Unlock()
			for _, i := range fronts {
				for k, times := range heard[i] {
					if times != 1 {
						t.Errorf("front end %d heard %d times that %s died", i, times, k)
					}
				}
			}
		}
		began := time.Now()
		round(0, 1, 2)
		s.Kill(0) // it has lived longest
		died := time.Now()
		round(1, 2)
		t.Logf("%d keys; %s, and %s after the leader's death", n, died.Sub(began), time.Since(died))
	})
}
