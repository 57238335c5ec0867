package tikv

import (
	"errors"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/tikv/client-go/v2/oracle"

	"redoubt/engine"
	"redoubt/engine/enginetest"
)

// The clock is told timestamps that lag and arrive late, by a store whose clock runs at
// another speed than this machine's. It does not go back and stays near the truth.
func TestClock(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(enginetest.Seed(t), 2))
	for _, speed := range []float64{1, 1.001, 0.999} {
		var c clock
		begin := time.Now()
		store := func(d time.Duration) time.Time { // the truth
			return time.UnixMilli(1_700_000_000_000).Add(time.Duration(float64(d) * speed))
		}
		var last time.Time
		for d := time.Duration(0); d < 5*time.Minute; d += time.Duration(rng.IntN(300)) * time.Millisecond {
			// PD's milliseconds move on in steps of 50; the answer takes up to 30.
			ms := store(d).UnixMilli() / 50 * 50
			d += time.Duration(rng.IntN(30)) * time.Millisecond
			c.observe(oracle.ComposeTS(ms, rng.Int64N(1000)), begin.Add(d))
			now := c.at(begin.Add(d))
			if now.Before(last) {
				t.Fatalf("%v after %v", now, last)
			}
			last = now
			if off := now.Sub(store(d)); off > 25*time.Millisecond || off < -100*time.Millisecond {
				t.Fatalf("after %v, at speed %v, it is off by %v", d, speed, off)
			}
		}
	}
}

// A store that sets its time forward is followed at once, one that sets it back never.
func TestClockJumps(t *testing.T) {
	t.Parallel()
	var c clock
	begin := time.Now()
	at := func(ms int64, d time.Duration) time.Time {
		c.observe(oracle.ComposeTS(ms, 0), begin.Add(d))
		return c.at(begin.Add(d))
	}
	if got := at(1000, 0); got.UnixMilli() != 1000 {
		t.Errorf("%d", got.UnixMilli())
	}
	if got := at(61_000, time.Second); got.UnixMilli() != 61_000 {
		t.Errorf("set forward: %d", got.UnixMilli())
	}
	if got := at(3000, 2*time.Second); got.UnixMilli() != 62_000 || c.newest() != oracle.ComposeTS(61_000, 0) {
		t.Errorf("set back: %d", got.UnixMilli())
	}
}

func TestClockIsMonotone(t *testing.T) {
	t.Parallel()
	var c clock
	c.observe(oracle.ComposeTS(1_700_000_000_000, 0), time.Now())
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			var last time.Time
			for i := range 2000 {
				if i%10 == 0 {
					c.observe(oracle.ComposeTS(1_700_000_000_000-int64(i%100), 0), time.Now())
				}
				now := c.at(time.Now())
				if now.Before(last) {
					t.Errorf("%v after %v", now, last)
				}
				last = now
			}
		})
	}
	wg.Wait()
}

func TestLater(t *testing.T) {
	t.Parallel()
	e := new(Engine)
	s := engine.Stamp(oracle.ComposeTS(1000, 5))
	for _, d := range []time.Duration{0, time.Millisecond, time.Second, -time.Second, time.Hour, 24 * 365 * 100 * time.Hour} {
		if got, want := e.Later(s, d), engine.Stamp(int64(s)+d.Milliseconds()<<18); got != want {
			t.Errorf("%v later is %d, want %d", d, got, want)
		}
	}
	if got := e.Later(s, 500*time.Microsecond) - s; got != 1<<17 {
		t.Errorf("half a millisecond is %d", got)
	}
}

func TestLease(t *testing.T) {
	t.Parallel()
	limit := lease(func() engine.Stamp { return engine.Stamp(oracle.ComposeTS(10_000, 0)) })
	for ms, ok := range map[int64]bool{0: true, 9749: true, 9750: false, 9999: false, 10_000: false, 20_000: false} {
		if _, err := limit.CheckBySchemaVer(oracle.ComposeTS(ms, 0), nil); (err == nil) != ok || err != nil && !errors.Is(err, errLate) {
			t.Errorf("at %d: %v", ms, err)
		}
	}
}

func TestReaders(t *testing.T) {
	t.Parallel()
	var r readers
	now := func() uint64 { return 100 }
	if got := r.oldest(now); got != 100 {
		t.Errorf("nothing is open: %d", got)
	}
	a := r.expect(50)
	b := r.expect(60)
	if got := r.oldest(now); got != 50 {
		t.Errorf("one is about to begin: %d", got)
	}
	r.fix(a, 70)
	if got := r.oldest(now); got != 60 {
		t.Errorf("%d", got)
	}
	r.leave(b)
	if got := r.oldest(now); got != 70 {
		t.Errorf("%d", got)
	}
	r.leave(a)
	if got := r.oldest(now); got != 100 || len(r.at) != 0 {
		t.Errorf("%d, %v", got, r.at)
	}
}
