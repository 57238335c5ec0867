package gateway

import (
	"math/bits"
	"sync"
	"sync/atomic"
	"time"
)

// Figures count what the gateway did since its start.
type Figures struct {
	Published, Delivered, Acknowledged, Streams atomic.Int64
	// Rejected counts unauthorized requests, Limited requests above the rate limit, Left
	// clients that disconnected while their request waited.
	Rejected, Limited, Left atomic.Int64
	// Polls are the durations of polls that waited, from their beginning to their response.
	Polls Times

	mu       sync.Mutex
	requests map[Outcome]int64
}

// Outcome is a kind of request, and the status of its response.
type Outcome struct {
	Endpoint string
	Status   int
}

// Times is a histogram of durations; its buckets are powers of two of a millisecond.
type Times struct {
	buckets [TimeBuckets]atomic.Uint64
	nanos   atomic.Int64
}

// TimeBuckets is the number of buckets of Times: up to about half a minute.
const TimeBuckets = 16

func (t *Times) add(d time.Duration) {
	t.buckets[min(TimeBuckets-1, bits.Len64(uint64(max(0, d.Milliseconds()))))].Add(1)
	t.nanos.Add(int64(d))
}

// Sum returns for each i how many durations there were up to 2^i milliseconds, and the sum
// of all durations.
func (t *Times) Sum() (upTo [TimeBuckets]uint64, sum time.Duration) {
	n := uint64(0)
	for i := range t.buckets {
		n += t.buckets[i].Load()
		upTo[i] = n
	}
	return upTo, time.Duration(t.nanos.Load())
}

func (f *Figures) count(endpoint string, status int, _ time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.requests == nil {
		f.requests = make(map[Outcome]int64)
	}
	f.requests[Outcome{endpoint, status}]++
}

// polled notes the end of a poll.
func (f *Figures) polled(h *held) { f.Polls.add(time.Since(h.began)) }

// left notes that a client disconnected while its request waited.
func (f *Figures) left(*held) { f.Left.Add(1) }

// Requests returns how many requests there were by kind and status.
func (f *Figures) Requests() map[Outcome]int64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	out := make(map[Outcome]int64, len(f.requests))
	for k, n := range f.requests {
		out[k] = n
	}
	return out
}

// Connections returns how many connections are open, how many of them are parked, and how
// many were refused since the start.
func (g *Gateway) Connections() (open, parked int, refused int64) {
	open, refused = g.ln.counts()
	return open, g.parking.parked(), refused
}
