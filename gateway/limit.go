package gateway

import (
	"net/netip"
	"sync"
	"sync/atomic"
	"time"
)

// allowance is a limit on a sum of bytes.
type allowance struct {
	used  atomic.Int64
	limit func() int64
}

func (a *allowance) take(n int64) bool {
	if a.used.Add(n) <= a.limit() {
		return true
	}
	a.used.Add(-n)
	return false
}

func (a *allowance) give(n int64) { a.used.Add(-n) }

// rates limits requests by address: each has a token bucket that holds one second's worth.
type rates struct {
	mu      sync.Mutex
	buckets map[string]*bucket
	cleared time.Time
}

type bucket struct {
	left float64
	at   time.Time
}

// maxBuckets is how many addresses are remembered. When there are more, the addresses with a
// full bucket are forgotten, and if that is not enough, all.
const maxBuckets = 65536

// network returns what one client is taken to own: an IPv4 address, or an IPv6 /64 network.
func network(addr string) string {
	a, err := netip.ParseAddr(addr)
	if err != nil {
		return addr
	}
	if a = a.Unmap(); a.Is4() {
		return a.String()
	}
	p, err := a.WithZone("").Prefix(64)
	if err != nil {
		return addr
	}
	return p.String()
}

// take reports whether an address may make another request; rate is its limit per second.
func (r *rates) take(addr string, rate int64, now time.Time) bool {
	name := network(addr)
	r.mu.Lock()
	defer r.mu.Unlock()
	b := r.buckets[name]
	if b == nil {
		r.makeRoom(rate, now)
		b = &bucket{float64(rate), now}
		r.buckets[name] = b
	}
	b.left = min(float64(rate), b.left+now.Sub(b.at).Seconds()*float64(rate))
	b.at = now
	if b.left < 1 {
		return false
	}
	b.left--
	return true
}

func (r *rates) makeRoom(rate int64, now time.Time) {
	if r.buckets == nil {
		r.buckets = make(map[string]*bucket)
	}
	if len(r.buckets) < maxBuckets {
		return
	}
	if now.Sub(r.cleared) > time.Second {
		r.cleared = now
		for name, b := range r.buckets {
			if now.Sub(b.at) >= time.Second {
				delete(r.buckets, name)
			}
		}
	}
	if len(r.buckets) >= maxBuckets {
		clear(r.buckets)
	}
}
