package latch

import (
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"redoubt/engine"
	"redoubt/internal/race"
)

type fixture struct {
	*Table
	newest, scripts, wanted atomic.Int64
}

func newFixture() *fixture {
	f := &fixture{}
	f.Table = New(Options{
		Committed: func() engine.Ticket { return engine.Ticket(f.newest.Load()) },
		Scripts:   &f.scripts, Wanted: &f.wanted,
	})
	f.LoopWait = time.Hour
	return f
}

func equal[T comparable](t *testing.T, what string, got, want T) {
	t.Helper()
	if got != want {
		t.Errorf("%s: %v, want %v", what, got, want)
	}
}

func TestTry(t *testing.T) {
	t.Parallel()
	f := newFixture()
	a, b := f.NewHolder(false), f.NewHolder(false)
	equal(t, "free stripes, one twice", a.Try([]uint32{3, 1, 3}), true)
	equal(t, "held once each", len(a.Held()), 2)
	equal(t, "its own again", a.Try([]uint32{1}), true)
	equal(t, "one is taken", b.Try([]uint32{2, 3}), false)
	equal(t, "what it took before stays", b.Holds(2) && !b.Holds(3), true)
	a.Release(0)
	equal(t, "now free", b.Try([]uint32{3}), true)
	b.Release(0)
	equal(t, "held", f.Held(), 0)
}

// Holders that take several stripes in any order never wait for each other in a circle,
// and two never hold a stripe at once.
func TestLockExcludes(t *testing.T) {
	t.Parallel()
	f := newFixture()
	var inside [8]int // guarded by the stripes
	var wait sync.WaitGroup
	for range 8 {
		wait.Go(func() {
			h := f.NewHolder(true)
			for range 2000 {
				list := []uint32{rand.Uint32N(8), rand.Uint32N(8), rand.Uint32N(8)}
				list = h.Lock(list)
				for _, i := range list {
					inside[i]++
				}
				h.Release(0)
			}
		})
	}
	wait.Wait()
	sum := 0
	for _, n := range inside {
		sum += n
	}
	if sum < 8*2000 || sum > 3*8*2000 {
		t.Errorf("%d increments", sum)
	}
	equal(t, "held", f.Held(), 0)
}

// A reader without the latch waits for the last commit that is stamped on the stripe, or
// for the newest of all while somebody holds the stripe.
func TestSeen(t *testing.T) {
	t.Parallel()
	f := newFixture()
	h := f.NewHolder(false)
	equal(t, "never written", f.Seen(5), 0)
	h.Try([]uint32{5})
	f.newest.Store(9)
	equal(t, "while held", f.Seen(5), 9)
	h.Release(7)
	equal(t, "stamped", f.Seen(5), 7)
	h.Try([]uint32{5})
	h.Release(0)
	equal(t, "a batch without a commit leaves the stamp", f.Seen(5), 7)
	equal(t, "another stripe", f.Seen(6), 0)
}

// Whatever a reader saw of a stripe before it asks, it is told to wait for.
func TestSeenIsNeverBeforeWhatIsVisible(t *testing.T) {
	t.Parallel()
	f := newFixture()
	var visible atomic.Int64
	var done atomic.Bool
	var wait sync.WaitGroup
	for range 2 {
		wait.Go(func() {
			h := f.NewHolder(true)
			for range race.Or(50_000, 200_000) {
				h.Lock([]uint32{7})
				ticket := f.newest.Add(1)
				visible.Store(ticket)
				h.Release(engine.Ticket(ticket))
			}
			done.Store(true)
		})
	}
	for !done.Load() {
		saw := engine.Ticket(visible.Load())
		if told := f.Seen(7); told < saw {
			t.Errorf("saw %d and was told to wait for %d", saw, told)
			break
		}
	}
	wait.Wait()
}

func TestAwaitLoops(t *testing.T) {
	t.Parallel()
	f := newFixture()
	a, b := f.NewHolder(false), f.NewHolder(false)
	for range 3 { // the second time with what the first has left behind
		a.Try([]uint32{1, 2})
		done := make(chan bool)
		go func() { done <- b.AwaitLoops([]uint32{2, 1, 3}) }()
		for !a.Awaited() {
			runtime.Gosched()
		}
		a.Release(0)
		a.Yield()
		equal(t, "given back", <-done, true)
		equal(t, "has them", b.Try([]uint32{1, 2, 3}), true)
		b.Release(0)
	}
}

func TestAwaitLoopsGivesUp(t *testing.T) {
	t.Parallel()
	f := newFixture()
	worker, loop, b := f.NewHolder(true), f.NewHolder(false), f.NewHolder(false)
	worker.Lock([]uint32{1})
	equal(t, "a worker may take long", b.AwaitLoops([]uint32{1}), false)
	f.LoopWait = time.Millisecond
	loop.Try([]uint32{2})
	equal(t, "a loop that does not give it back", b.AwaitLoops([]uint32{2}), false)
	loop.Release(0)
	worker.Release(0)
}

func TestTheKeyspaceLatch(t *testing.T) {
	t.Parallel()
	f := newFixture()
	f.Share()
	equal(t, "two share it", f.TryShare(), true)
	equal(t, "exclusively meanwhile", f.TryLockKeyspace(), false)
	f.Unshare()
	f.Unshare()
	f.LockKeyspace()
	equal(t, "shared meanwhile", f.TryShare(), false)
	f.UnlockKeyspace(4)
	f.LockKeyspace()
	f.UnlockKeyspace(0)
	equal(t, "the last commit", f.KeyspaceLast(), 4)
}

// Scripts are told to give way only when the latch was wanted for a while.
func TestScriptsGiveWay(t *testing.T) {
	t.Parallel()
	f := newFixture()
	f.scripts.Add(1)
	f.Share()
	start := time.Now()
	done := make(chan struct{})
	go func() {
		f.LockKeyspace()
		f.UnlockKeyspace(0)
		close(done)
	}()
	for f.wanted.Load() == 0 {
		runtime.Gosched()
	}
	if took := time.Since(start); took < patience {
		t.Errorf("told after %v", took)
	}
	f.Unshare()
	<-done
	equal(t, "wanted", f.wanted.Load(), 0)
}

func TestUsed(t *testing.T) {
	t.Parallel()
	f := newFixture()
	i := f.Stripe([]byte("k"))
	equal(t, "at first", f.Used(i), 0)
	f.SetUsed(i, 12)
	equal(t, "used", f.Used(i), 12)
	equal(t, "the same key, the same stripe", f.Stripe([]byte("k")), i)
}
