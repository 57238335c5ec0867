package tikv

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tikv/client-go/v2/oracle"

	"redoubt/engine"
)

// clock carries the store's time on between two looks at it.
//
// A timestamp says that the store's time had come to some millisecond before the
// answer arrived; how long before is not known, and PD moves the milliseconds on in
// steps of some tens. So each is a lower bound of how far the store is ahead of this
// machine's monotonic clock, and the greatest one of the last while is taken. That it
// is forgotten after a while lets the clock follow one that runs slower.
type clock struct {
	latest atomic.Uint64 // the newest timestamp seen

	mu       sync.Mutex
	begin    time.Time     // a place on the monotonic clock
	now, was time.Duration // how far ahead: the greatest of this window, and of the last
	since    time.Time     // when this window began
	last     time.Duration // what was told last, since the epoch
}

const clockWindow = 10 * time.Second

// observe notes a timestamp that arrived at some time of this machine.
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

// at is the store's time at a time of this machine.
func (c *clock) at(t time.Time) time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.begin.IsZero() {
		return t
	}
	c.last = max(c.last, t.Sub(c.begin)+max(c.now, c.was))
	return time.Unix(0, int64(c.last))
}

// newest is a timestamp that comes before all that will be asked for.
func (c *clock) newest() uint64 { return c.latest.Load() }

// keepClock looks at the store's time now and then.
func (e *Engine) keepClock() {
	tick := time.NewTicker(e.opt.every)
	defer tick.Stop()
	for {
		select {
		case <-e.stop:
			return
		case <-tick.C:
		}
		ctx, cancel := context.WithTimeout(behind(e.ctx), e.opt.Timeout)
		if _, err := e.timestamp(ctx); err != nil {
			e.log.Debug("the store's time is not known", "err", err)
		}
		cancel()
	}
}

// lookEvery is how often time and counters are looked at, as a rule.
const lookEvery = time.Second

// Now implements engine.Shared.
func (e *Engine) Now() time.Time { return e.clock.at(time.Now()) }

// Stamp implements engine.Shared.
func (e *Engine) Stamp() (engine.Stamp, error) {
	ts, err := e.fresh()
	return engine.Stamp(ts), err
}

// NextID implements engine.Shared: timestamps are given out once.
func (e *Engine) NextID() (uint64, error) { return e.fresh() }

func (e *Engine) fresh() (uint64, error) {
	if e.closed.Load() {
		return 0, engine.ErrClosed
	}
	ctx, cancel := context.WithTimeout(e.ctx, e.opt.Timeout)
	defer cancel()
	return e.timestamp(ctx)
}

// Later implements engine.Shared, and goes back if d is negative.
func (e *Engine) Later(s engine.Stamp, d time.Duration) engine.Stamp {
	const unit = int64(1) << 18 // of a millisecond
	ms, rest := int64(d/time.Millisecond), int64(d%time.Millisecond)
	return s + engine.Stamp(ms*unit+rest*unit/int64(time.Millisecond))
}
