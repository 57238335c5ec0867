package server

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"time"
)

// sample measures rates for INFO until ctx ends.
func (srv *Server) sample(ctx context.Context) {
	const every = 100 * time.Millisecond
	const window = 16 // as many samples as Redis averages
	tick := time.NewTicker(every)
	defer tick.Stop()
	var ring [window]float64
	last, lastAt := srv.stats.calls(), time.Now()
	for i := 0; ; i++ {
		select {
		case <-ctx.Done():
			return
		case now := <-tick.C:
			n := srv.stats.calls()
			ring[i%window] = float64(n-last) / now.Sub(lastAt).Seconds()
			last, lastAt = n, now
			sum := 0.0
			for _, r := range ring {
				sum += r
			}
			srv.stats.opsPerSec.Store(int64(sum / float64(min(i+1, window))))
		}
	}
}

// randomID is a run id: 40 hexadecimal digits.
func randomID() string {
	b := make([]byte, 20)
	rand.Read(b) // never fails
	return hex.EncodeToString(b)
}

// abridge keeps the start of a long command for the slow log.
func abridge(args [][]byte) [][]byte {
	n := min(len(args), slowArgs)
	out := make([][]byte, n)
	for i := range out {
		if i == slowArgs-1 && len(args) > slowArgs {
			out[i] = fmt.Appendf(nil, "... (%d more arguments)", len(args)-slowArgs+1)
			break
		}
		if a := args[i]; len(a) > slowArgLen {
			out[i] = fmt.Appendf(nil, "%s... (%d more bytes)", a[:slowArgLen], len(a)-slowArgLen)
		} else {
			out[i] = append([]byte(nil), a...)
		}
	}
	return out
}
