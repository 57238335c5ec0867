package tikv_test

import (
	"fmt"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// TestPDDies has PD killed and started again under load: increments are done, or
// refused in time; it goes on by itself, and no acknowledged one is lost.
func TestPDDies(t *testing.T) {
	t.Parallel()
	b := breakable(t)
	const keys = 4
	var done, unknown [keys]atomic.Int64
	var all, failures atomic.Int64
	stop := make(chan struct{})
	var wg sync.WaitGroup
	for i := range 2 * keys {
		c := b.dial()
		wg.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				begin := time.Now()
				v, err := c.Do("INCR", fmt.Sprint("n", i%keys))
				if took := time.Since(begin); err != nil || v.IsError() && !refused(v) || took > faultTimeout+slack {
					t.Errorf("INCR: %v, %v, after %v", v, err, took)
					return
				}
				switch {
				case !v.IsError():
					done[i%keys].Add(1)
					all.Add(1)
				case strings.HasPrefix(v.Str, "UNKNOWN"):
					unknown[i%keys].Add(1)
					fallthrough
				default:
					failures.Add(1)
				}
			}
		})
	}
	for range 2 {
		before := all.Load()
		await(t, func() bool { return t.Failed() || all.Load() >= before+100 })
		refusals := failures.Load()
		b.KillPD()
		await(t, func() bool { return t.Failed() || failures.Load() > refusals+2*keys })
		b.StartPD()
		back := time.Now()
		before = all.Load()
		await(t, func() bool { return t.Failed() || all.Load() >= before+100 })
		t.Logf("a hundred increments %v after PD was back", time.Since(back).Round(time.Millisecond))
	}
	close(stop)
	wg.Wait()
	c := b.dial()
	for i := range keys {
		n, err := strconv.ParseInt(send(t, c, fmt.Sprint("GET n", i))[0].Str, 10, 64)
		if low := done[i].Load(); err != nil || n < low || n > low+unknown[i].Load() {
			t.Errorf("n%d is %d (%v) after %d acknowledged increments and %d unknown ones", i, n, err, low, unknown[i].Load())
		}
	}
	t.Logf("%d increments, %d failures", all.Load(), failures.Load())
}
