package partition

import (
	"context"
	"fmt"
	"sync"
	"time"

	"redoubt/engine"
)

// There is no time of the store, as its nodes' clocks differ. Now is this machine's clock,
// corrected by what a node says. Stamps are a clock of this process alone, which runs as
// the machine's monotonic clock does: they measure leases, and are never compared with those
// of another process.

type clock struct {
	begin time.Time // wall and monotonic

	mu     sync.Mutex
	offset time.Duration
	now    time.Time    // the newest time returned
	stamp  engine.Stamp // the newest stamp returned
}

// logical is how many bits of a stamp count within a millisecond.
const logical = 18

func (c *clock) start() { c.begin = time.Now() }

// Now implements engine.Shared.
func (e *Engine) Now() time.Time {
	c := &e.clock
	c.mu.Lock()
	defer c.mu.Unlock()
	if t := time.Now().Round(0).Add(c.offset); t.After(c.now) {
		c.now = t
	}
	return c.now
}

// Stamp implements engine.Shared.
func (e *Engine) Stamp() (engine.Stamp, error) {
	if e.closed.Load() {
		return 0, engine.ErrClosed
	}
	return e.present(), nil
}

func (e *Engine) present() engine.Stamp {
	c := &e.clock
	c.mu.Lock()
	defer c.mu.Unlock()
	c.stamp = max(c.stamp+1, engine.Stamp(c.begin.Add(time.Since(c.begin)).UnixMilli())<<logical)
	return c.stamp
}

// Later implements engine.Shared.
func (e *Engine) Later(s engine.Stamp, d time.Duration) engine.Stamp {
	return s + engine.Stamp(d.Milliseconds()<<logical) // also back
}

// Oldest is now: no reader needs an old state.
func (e *Engine) Oldest() engine.Stamp { return e.present() }

// Forget does nothing: there are no old states.
func (e *Engine) Forget(engine.Stamp) error { return nil }

// clockSlack is by how much the clocks may differ, besides the way of an answer.
const clockSlack = 20 * time.Millisecond

// adjustClock compares this machine's clock with a node's.
func (e *Engine) adjustClock(ctx context.Context) error {
	sent := time.Now()
	theirs, err := e.store.Time(ctx)
	if err != nil {
		return fmt.Errorf("read the clock of the store: %w", err)
	}
	way := time.Since(sent)
	offset := theirs.Sub(sent.Add(way / 2))
	c := &e.clock
	c.mu.Lock()
	defer c.mu.Unlock()
	if d := offset - c.offset; d > way/2+clockSlack || -d > way/2+clockSlack {
		c.offset = offset
	}
	return nil
}

func (e *Engine) keepClock() {
	e.periodically(10*e.opt.every, "the clock of the store cannot be read", e.adjustClock)
}
