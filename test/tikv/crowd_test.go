package tikv_test

import (
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"redoubt/engine/tikv"
	"redoubt/internal/respclient"
)

// TestCrowd has many clients meet a store that is out of reach: what is under way
// stays bounded, and of what was refused nothing is kept.
func TestCrowd(t *testing.T) { // not beside others: goroutines are counted
	const clients, pipeline = 200, 30
	b := breakable(t)
	b.Engine.(*tikv.Engine).SetMaxTransactions(64)
	send(t, b.dial(), "SET a 1")
	stop := make(chan struct{})
	var wg sync.WaitGroup
	var answers, refusals, late atomic.Int64
	for i := range clients {
		c, n, line := b.dial(), pipeline, []string{"SET", fmt.Sprint("k", i), "v"}
		switch i % 4 {
		case 0:
			line = []string{"GET", fmt.Sprint("k", i)}
			fallthrough
		case 1:
			n = 1
		}
		var out []byte
		for range n {
			out = respclient.AppendCommand(out, line...)
		}
		wg.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				begin := time.Now()
				if err := c.Write(out); err != nil {
					t.Error(err)
					return
				}
				for range n {
					v, err := c.Read()
					if err != nil || v.IsError() && !refused(v) {
						t.Errorf("%v: %v, %v", line, v, err)
						return
					}
					if answers.Add(1); v.IsError() {
						refusals.Add(1)
					}
				}
				if time.Since(begin) > faultTimeout+slack {
					late.Add(1)
				}
			}
		})
	}
	await(t, func() bool { return answers.Load() > clients*pipeline })
	whole := runtime.NumGoroutine()
	b.StoreLink().Cut()
	const first, last = 4_000, 20_000
	at, most, early := answers.Load(), 0, uint64(0)
	for begin := time.Now(); time.Since(begin) < 6*faultTimeout || refusals.Load() < last; {
		most = max(most, runtime.NumGoroutine())
		if early == 0 && refusals.Load() >= first {
			early = heap()
		}
		time.Sleep(10 * time.Millisecond)
		if time.Since(begin) > 12*(faultTimeout+slack) {
			t.Errorf("%d answers in %v", answers.Load()-at, time.Since(begin))
			break
		}
	}
	grown := int64(heap()) - int64(early)
	lines := b.log.n.Load()
	t.Logf("%d goroutines while all was well, at most %d while the store was away, %d commands refused then, %d lines of log", whole, most, refusals.Load(), lines)
	t.Logf("between %d and %d refusals the heap has grown from %d KiB by %d KiB", first, last, early>>10, grown>>10)
	b.StoreLink().Mend()
	b.recovers()
	close(stop)
	wg.Wait()
	if late.Load() > 0 {
		t.Errorf("%d answers came too late", late.Load())
	}
	if most > whole+6*clients {
		t.Errorf("%d goroutines", most)
	}
	if grown > 300*(last-first) {
		t.Errorf("the heap has grown by %d bytes, with the commands that were refused", grown)
	}
	if lines > 12 {
		t.Errorf("%d lines were logged", lines)
	}
}

// heap is how much of it is in use.
func heap() uint64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC() // also what has waited for its finalizer
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}
