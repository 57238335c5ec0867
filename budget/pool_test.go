package budget

import (
	"errors"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

func wants(t *testing.T, what string, got, want error) {
	t.Helper()
	if !errors.Is(got, want) {
		t.Errorf("%s: %v, want %v", what, got, want)
	}
}

func TestWhatFitsIsTaken(t *testing.T) {
	t.Parallel()
	var p Pool
	p.SetLimit(8 << 20) // 7 for large leases, 1 for small ones
	a, b, c := p.Lease(), p.Lease(), p.Lease()
	wants(t, "a", a.Grow(4<<20, nil), nil)
	wants(t, "b", b.Grow(3<<20, nil), nil)
	wants(t, "no room", b.Grow(1, nil), ErrBusy)
	wants(t, "never any room", a.Grow(4<<20, nil), ErrTooLarge)
	wants(t, "a small one", c.Grow(smallLease, nil), nil)
	wants(t, "it becomes large", c.Grow(1, nil), ErrBusy)
	if f := p.Figures(); f.Used != 7<<20+smallLease || f.Most != f.Used || f.Refused != 1 {
		t.Errorf("figures %+v", f)
	}
	a.Release()
	wants(t, "c again", c.Grow(1, nil), nil)
	b.Release()
	c.Release()
	if p.Used() != 0 || p.large != 0 || p.small != 0 {
		t.Errorf("%d large, %d small", p.large, p.small)
	}
}

func TestNoLimit(t *testing.T) {
	t.Parallel()
	var p Pool
	a, none := p.Lease(), (*Pool)(nil).Lease()
	wants(t, "without a limit", a.Grow(1<<40, nil), nil)
	wants(t, "without a pool", none.Grow(1<<40, nil), nil)
	wants(t, "turn", none.Await(nil), nil)
	none.Force(1)
	none.Release()
	none.Pass()
	if a.Release(); p.Used() != 0 {
		t.Errorf("%d bytes are used", p.Used())
	}
}

// The lease that has the turn waits for room, and nobody takes it away.
func TestTurn(t *testing.T) {
	t.Parallel()
	var p Pool
	p.SetLimit(8 << 20)
	a, b, c := p.Lease(), p.Lease(), p.Lease()
	wants(t, "a", a.Grow(4<<20, nil), nil)
	wants(t, "turn", b.Await(nil), nil)
	done := make(chan error)
	go func() { done <- b.Grow(6<<20, nil) }()
	until(t, "b waits", func() bool { p.mu.Lock(); defer p.mu.Unlock(); return p.wants })
	wants(t, "c", c.Grow(1<<20, nil), ErrBusy)
	small := p.Lease()
	wants(t, "a small one", small.Grow(1000, nil), nil)
	turn := make(chan error)
	go func() { turn <- c.Await(nil) }()
	until(t, "c waits", func() bool { return p.Figures().Waiting == 1 })
	a.Release()
	wants(t, "b", <-done, nil)
	b.Release()
	b.Pass()
	wants(t, "c", <-turn, nil)
	wants(t, "c grows", c.Grow(7<<20, nil), nil)
}

// Who has gone gives up its place, and the others move up.
func TestGone(t *testing.T) {
	t.Parallel()
	var p Pool
	p.SetLimit(8 << 20)
	first, second, third := p.Lease(), p.Lease(), p.Lease()
	wants(t, "first", first.Await(nil), nil)
	var gone atomic.Bool
	errs := make(chan error)
	go func() { errs <- second.Await(gone.Load) }()
	until(t, "second waits", func() bool { return p.Figures().Waiting == 1 })
	turn := make(chan error)
	go func() { turn <- third.Await(nil) }()
	until(t, "third waits", func() bool { return p.Figures().Waiting == 2 })
	gone.Store(true)
	wants(t, "second", <-errs, ErrGone)
	first.Pass()
	wants(t, "third", <-turn, nil)
	held := p.Lease()
	wants(t, "held", held.Grow(4<<20, nil), nil)
	wants(t, "third grows", third.Grow(6<<20, gone.Load), ErrGone)
	third.Pass()
	if f := p.Figures(); f.Waiting != 0 || p.turn != nil || p.wants {
		t.Errorf("figures %+v, turn %v", f, p.turn)
	}
}

// Many at once, each growing to a random size, all get what they need, one or the
// other way, and never more than there is at a time.
func TestManyAtOnce(t *testing.T) {
	t.Parallel()
	seed := rand.Uint64()
	var p Pool
	p.SetLimit(1 << 20)
	var wg sync.WaitGroup
	for i := range 32 {
		wg.Go(func() {
			r := rand.New(rand.NewPCG(seed, uint64(i)))
			l := p.Lease()
			for range 50 {
				goal := r.Int64N(p.largeLimit())
				for tries := 0; !grown(t, &l, goal, r); tries++ {
					l.Release()
					if err := l.Await(nil); err != nil || tries > 1 {
						t.Errorf("seed %d: %v after %d tries", seed, err, tries)
						return
					}
				}
				l.Release()
				l.Pass()
			}
		})
	}
	wg.Wait()
	if f := p.Figures(); f.Used != 0 || f.Most > f.Limit || f.Waiting != 0 || f.Refused != 0 {
		t.Errorf("seed %d: %+v", seed, f)
	}
}

func grown(t *testing.T, l *Lease, goal int64, r *rand.Rand) bool {
	for l.Held() < goal {
		err := l.Grow(min(goal-l.Held(), 1+r.Int64N(64<<10)), nil)
		if errors.Is(err, ErrBusy) {
			return false
		}
		wants(t, "grow", err, nil)
	}
	return true
}

func until(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); !ok(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("not seen: " + what)
		}
	}
}
