package server

import (
	"errors"
	"log/slog"
	"sync/atomic"
	"testing"
	"time"
)

// shutCarrier tells when its connection is closed.
type shutCarrier struct {
	heldCarrier
	closed chan struct{}
}

func (c *shutCarrier) shut() { close(c.closed) }

// A client that takes 64 KiB a minute of a large reply may take any time for it. One that
// takes less is closed after a minute, and taking a little does not help it.
func TestSlowReaderOfParts(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		every time.Duration
		bytes int64
		slow  int // the step in which the client is too slow, 0: never
	}{
		"just enough":        {59 * time.Second, 64 << 10, 0},
		"enough in pieces":   {14 * time.Second, 16 << 10, 0},
		"much":               {time.Second, 1 << 20, 0},
		"nothing":            {29 * time.Second, 0, 3},
		"one byte":           {time.Second, 1, 61},
		"a little less":      {time.Second, 1000, 61},
		"too late":           {61 * time.Second, 64<<10 - 1, 1},
		"a byte each minute": {59 * time.Second, 1, 2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			srv, car := &Server{clientLog: slog.New(slog.DiscardHandler)}, &shutCarrier{closed: make(chan struct{})}
			var clock atomic.Int64
			st := &streamedReply{
				s: &session{srv: srv, car: car}, room: make(chan struct{}, 1), begun: true,
				now: func() time.Time { return time.Unix(0, clock.Load()) },
			}
			seen, enough, result := make(chan int64), make(chan struct{}), make(chan error, 1)
			go func() {
				result <- st.await(func() bool {
					select {
					case seen <- st.sent.Load():
						return false
					case <-enough:
						return true
					}
				})
			}()
			<-seen // the clock runs from here
			for step := 1; step <= 100; step++ {
				clock.Add(int64(c.every))
				var err error
				for range 2 { // the first may be one that began before
					st.progress(int64(step)*c.bytes, streamedRoom)
					select {
					case err = <-result:
						result <- err
					case <-seen:
					}
				}
				if slow := step == c.slow; slow != errors.Is(err, errClientSlow) {
					t.Fatalf("step %d: %v", step, err)
				} else if slow {
					st.end(true)
					<-car.closed
					return
				}
			}
			close(enough)
			if err := <-result; err != nil {
				t.Error(err)
			}
		})
	}
}
