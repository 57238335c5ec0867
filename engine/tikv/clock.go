package tikv

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tikv/client-go/v2/oracle"

	"redoubt/engine"
)

// clock estimates the store's time between two timestamps from PD.
//
// A timestamp says that the store's time had reached some millisecond before the answer
// arrived; how long before is not known, and PD advances the milliseconds in steps of
// some tens. So each timestamp is a lower bound of how far the store's clock is ahead of
// this machine's monotonic clock. The clock takes the greatest bound of the present
// window and the last one, so that it follows a store whose clock runs slower.
type clock struct {
	latest atomic.Uint64 // the newest timestamp seen

	mu       sync.Mutex
	begin    time.Time     // the monotonic clock at the first timestamp
	now, was time.Duration // how far ahead: the greatest bound of this window, and of the last
	since    time.Time     // when this window began
	last     time.Duration // the time that at returned last, since the epoch
}

const clockWindow = 10 * time.Second

// observe notes a timestamp that arrived at the given time of this machine.
func (c *clock) observe(ts uint64, at time.Time) {
	for {
		old := c.latest.Load()
		if ts <= old || c.latest.CompareAndSwap(old, ts) {
			break
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.begin.IsZero() {
		c.begin, c.since = at, at
		c.now = time.Duration(oracle.ExtractPhysical(ts)) * time.Millisecond
		c.was = c.now
		return
	}
	ahead := time.Duration(oracle.ExtractPhysical(ts))*time.Millisecond - at.Sub(c.begin)
	if at.Sub(c.since) > clockWindow {
		c.was, c.now, c.since = c.now, ahead, at
	}
	c.now = max(c.now, ahead)
}

// at converts a time of this machine to the store's time. It never goes back.
func (c *clock) at(t time.Time) time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.begin.IsZero() {
		return t
	}
	c.last = max(c.last, t.Sub(c.begin)+max(c.now, c.was))
	return time.Unix(0, int64(c.last))
}

// newest is the newest timestamp seen: every later request to PD returns a greater one.
func (c *clock) newest() uint64 { return c.latest.Load() }

// keepClock requests a timestamp periodically, which the clock observes.
func (e *Engine) keepClock() {
	e.periodically("the store's time is not known", func(ctx context.Context) error {
		_, err := e.timestamp(ctx)
		return err
	})
}

// refreshEvery is how often time and counters are read by default.
const refreshEvery = time.Second

// periodically calls f until the engine is closed, with background priority. failed is the
// text to log when f fails.
func (e *Engine) periodically(failed string, f func(ctx context.Context) error) {
	tick := time.NewTicker(e.opt.every)
	defer tick.Stop()
	for {
		select {
		case <-e.stop:
			return
		case <-tick.C:
		}
		ctx, cancel := context.WithTimeout(background(e.ctx), e.opt.Timeout)
		if err := f(ctx); err != nil {
			e.log.Debug(failed, "err", err)
		}
		cancel()
	}
}

// Now implements engine.Shared.
func (e *Engine) Now() time.Time { return e.clock.at(time.Now()) }

// Stamp implements engine.Shared.
func (e *Engine) Stamp() (engine.Stamp, error) {
	ts, err := e.fresh()
	return engine.Stamp(ts), err
}

// NextID implements engine.Shared: PD never returns a timestamp twice.
func (e *Engine) NextID() (uint64, error) { return e.fresh() }

func (e *Engine) fresh() (uint64, error) {
	if e.closed.Load() {
		return 0, engine.ErrClosed
	}
	ctx, cancel := context.WithTimeout(e.ctx, e.opt.Timeout)
	defer cancel()
	return e.timestamp(ctx)
}

// Later implements engine.Shared; d may be negative.
func (e *Engine) Later(s engine.Stamp, d time.Duration) engine.Stamp {
	const unit = int64(1) << 18 // timestamps per millisecond
	ms, rest := int64(d/time.Millisecond), int64(d%time.Millisecond)
	return s + engine.Stamp(ms*unit+rest*unit/int64(time.Millisecond))
}
