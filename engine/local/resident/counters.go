package resident

import (
	"maps"
	"sync"

	"redoubt/engine"
)

// Counters are sums that commits add to.
type Counters struct {
	mu sync.Mutex
	m  map[string]int64
}

// NewCounters returns counters that begin with these sums, which they take over.
func NewCounters(sums map[string]int64) *Counters { return &Counters{m: sums} }

// Add adds what a commit adds.
func (c *Counters) Add(b *engine.Batch) {
	locked := false
	for key, delta := range b.Counters() {
		if !locked {
			locked = true
			c.mu.Lock()
		}
		c.m[string(key)] += delta
	}
	if locked {
		c.mu.Unlock()
	}
}

// Get returns a sum.
func (c *Counters) Get(key []byte) int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.m[string(key)]
}

// Copy returns all sums.
func (c *Counters) Copy() map[string]int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return maps.Clone(c.m)
}

// Forget drops counters that are zero now and were in sums.
func (c *Counters) Forget(sums map[string]int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for key, sum := range sums {
		if sum == 0 && c.m[key] == 0 {
			delete(c.m, key)
		}
	}
}
