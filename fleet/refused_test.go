package fleet

import (
	"context"
	"strings"
	"testing"
	"time"
)

// refused reports that nobody listens at a member's address, and waits for the look that
// follows.
func (o *one) refused(of *one) {
	o.Refused(of.Self().ID)
	<-o.asked // at once, without a tick
}

// Who is refused is left out at once, and comes back when it writes its row.
func TestRefused(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a, b, c := w.join(1), w.join(2), w.join(3)
	w.pass(2*time.Second, a, b, c)
	w.expect(c, 1, 2, 3)
	w.beat(a) // what c has not seen yet does not mean that a lives
	c.refused(a)
	w.expect(c, 2, 3)
	w.expect(b, 1, 2, 3)
	w.pass(2*time.Second, b, c)
	w.expect(c, 2, 3)
	if c.Deaths() != 0 {
		t.Error("a death is counted before the lease is over")
	}
	w.beat(a, c)
	w.expect(c, 1, 2, 3) // it lives
	// That was wrong, so it is not believed again, until a was reached.
	c.refused(a)
	w.expect(c, 1, 2, 3)
	c.Reached(a.Self().ID)
	w.beat(c)
	c.refused(a)
	w.expect(c, 2, 3)
	// Reached again, it comes back without its row.
	c.Reached(a.Self().ID)
	w.beat(c)
	w.expect(c, 1, 2, 3)
	c.refused(a)
	w.pass(5*time.Second, b, c)
	w.expect(c, 2, 3)
	if c.Deaths() != 1 {
		t.Errorf("%d deaths", c.Deaths())
	}
	c.Refused(ID{1}) // of somebody who is not there
	<-c.asked
	w.expect(c, 2, 3)
}

// The leader is followed by the next one as soon as it is refused.
func TestRefusedLeader(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a, b := w.join(1), w.join(2)
	if b.Leader() {
		t.Fatal("two lead")
	}
	b.refused(a)
	if !b.Leader() {
		t.Error("nobody leads")
	}
}

// Who starts again at the address of one that was killed does not wait for it, once
// its row has not been written for a beat and a half.
func TestSucceed(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a, b := w.join(1), w.join(2)
	w.pass(time.Second, a, b)
	// a is killed.
	waited := time.Duration(0)
	again := w.join(1, func(o *Options) {
		after := o.Clock.After
		joined := false
		o.Clock.After = func(d time.Duration) <-chan time.Time {
			if d >= defaultBeat {
				joined = true
			}
			if joined {
				return after(d)
			}
			waited += d
			w.mu.Lock()
			w.now = w.now.Add(d)
			w.mu.Unlock()
			now := make(chan time.Time, 1)
			now <- w.time()
			return now
		}
	})
	w.expect(again, 2, 1)
	if waited < time.Second || waited > 2*time.Second {
		t.Errorf("it has waited for %s", waited)
	}
	// The others count a death when the lease is over, so that keys are counted again.
	w.pass(5*time.Second, b, again)
	w.expect(b, 2, 1)
	if b.Deaths() != 1 || again.Deaths() != 1 {
		t.Errorf("%d and %d deaths", b.Deaths(), again.Deaths())
	}
	// It was not dead after all: it is told of, and nobody is lost.
	w.beat(a, b, again)
	if n := len(again.Members()); n != 3 {
		t.Errorf("%d members", n)
	}
}

// Who announces the address of a living front end is refused.
func TestSameAddress(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a := w.join(1)
	options := Options{
		Engine: w.store.Open(), Self: Member{Host: "10.0.0.1", Port: 5, BusPort: 10001},
		Clock: Clock{Now: w.time, After: func(time.Duration) <-chan time.Time {
			w.pass(time.Second, a)
			now := make(chan time.Time, 1)
			now <- w.time()
			return now
		}},
	}
	_, err := Join(context.Background(), options)
	if err == nil || !strings.Contains(err.Error(), "10.0.0.1:10001") || !strings.Contains(err.Error(), "cluster-announce-ip") {
		t.Errorf("error %v", err)
	}
	w.beat(a)
	w.expect(a, 1)
	// Nobody can say whose a row without an address is.
	w.join(7, func(o *Options) { o.Self.BusPort = 0 })
	w.join(8, func(o *Options) { o.Self.BusPort = 0 })
}

// What others store for background work is told: by their counts, and by who comes and
// goes.
func TestNews(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a, b := w.join(1), w.join(2)
	count := uint64(0)
	b.SetWork(func() uint64 { return count })
	last := uint64(0)
	news := func() bool {
		was := last
		last = a.News()
		return last != was
	}
	w.beat(b, a)
	if !news() {
		t.Error("no news of one that has come")
	}
	w.pass(3*time.Second, b, a)
	if news() {
		t.Error("news without a reason")
	}
	count++
	w.beat(b, a)
	if !news() {
		t.Error("no news of what was stored")
	}
	w.pass(3*time.Second, b, a)
	if news() {
		t.Error("news twice")
	}
	c := w.join(3) // which does not tell, as those of older versions
	for range 3 {
		w.pass(time.Second, b, c, a)
		if !news() {
			t.Error("no news of one that does not tell")
		}
	}
	w.pass(5*time.Second, b, a) // c is killed
	if !news() {
		t.Error("no news of a death")
	}
	w.pass(2*time.Second, b, a)
	if news() {
		t.Error("news of a dead one")
	}
}
