package front

import (
	"strconv"
	"sync"
	"testing"
	"time"

	"redoubt/engine"
	"redoubt/internal/respclient"
	"redoubt/internal/sharedmem"
)

// The commands of a pipeline take effect in their order: of two clients who each write
// one key and then read the other's, at least one sees the other.
func TestPipelines(t *testing.T) {
	onStores(t, 2, steady, nil, func(t *testing.T, s *stage) {
		names := []string{"x", "y"}
		clients := []*client{s.dial(0), s.dial(1)}
		if s.mem { // time for the other one
			for i := range 2 {
				s.Engine(i).Intercept(func(*engine.Batch) sharedmem.Fault { return sharedmem.Fault{Delay: time.Millisecond} })
			}
		}
		for i := range 300 * *rounds {
			n := strconv.Itoa(i)
			var saw [2]string
			var both sync.WaitGroup
			for k, c := range clients {
				both.Go(func() {
					buf := respclient.AppendCommand(nil, "SET", names[k], n)
					if err := c.Write(respclient.AppendCommand(buf, "GET", names[1-k])); err != nil {
						t.Error(err)
						return
					}
					for range 2 {
						v, err := c.Read()
						if err != nil || v.IsError() {
							t.Error(v, err)
						}
						saw[k] = text(v)
					}
				})
			}
			both.Wait()
			if saw[0] != n && saw[1] != n {
				t.Fatalf("round %d: both have written, and then seen %s and %s", i, saw[0], saw[1])
			}
		}
	})
}
