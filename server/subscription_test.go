package server

import (
	"bytes"
	"strconv"
	"testing"
	"time"

	"redoubt/server/pubsub"
)

// heldCarrier keeps what is posted until the test runs it.
type heldCarrier struct{ posted []func() }

func (c *heldCarrier) post(f func()) { c.posted = append(c.posted, f) }
func (c *heldCarrier) interest()     {}
func (c *heldCarrier) shut()         {}
func (c *heldCarrier) evict(*turn)   {}

// turn runs what was posted before, as an event loop does once in each turn.
func (c *heldCarrier) turn() {
	list := c.posted
	c.posted = nil
	for _, f := range list {
		f()
	}
}

// A long SUBSCRIBE or UNSUBSCRIBE gives way to the loop's other clients: in one turn
// there is a portion of it, its session waits, and all is answered in the end.
func TestSubscriptionsComeInPortions(t *testing.T) {
	t.Parallel()
	const n = 3*portion + 7
	args := [][]byte{[]byte("subscribe")}
	for i := range n {
		args = append(args, strconv.AppendInt([]byte("channel:"), int64(i), 10))
	}
	for _, k := range pubsub.Kinds {
		srv, car := bareServer(), new(heldCarrier)
		s := bareSession(srv, car)
		s.out.Proto = 2
		have := func() int { return s.subs.Total() }
		check := func(what string, run func(), next func(turn int) int, verb string, answers int) {
			t.Helper()
			s.out.Buf = nil
			run()
			for turn := 1; ; turn++ {
				if got := have(); got != next(turn) {
					t.Fatalf("%s: %d subscriptions in turn %d, not %d", what, got, turn, next(turn))
				}
				if s.waiting() != (len(car.posted) > 0) {
					t.Fatalf("%s: waiting is %v", what, s.waiting())
				}
				if !s.waiting() {
					break
				}
				car.turn()
			}
			if got := bytes.Count(s.out.Buf, []byte("\r\n"+verb+"\r\n")); got != answers {
				t.Errorf("%s: %d answers, not %d", what, got, answers)
			}
		}
		call := func(args [][]byte) *localCall { return &localCall{s: s, srv: srv, args: args, w: &s.out.Writer} }
		grow := func(turn int) int { return min(n, turn*portion) }
		shrink := func(turn int) int { return max(0, n-turn*portion) }
		subscribe := func() {
			if err := call(args).subscribe(k); err != nil {
				t.Fatal(err)
			}
		}
		check("subscribe", subscribe, grow, k.Subscribed, n)
		check("unsubscribe all", func() {
			if err := call(args[:1]).unsubscribe(k); err != nil {
				t.Fatal(err)
			}
		}, shrink, k.Unsubscribed, n)
		if s.subs != nil || s.subscribed.Load() || srv.pubsub.Figures().Clients != 0 {
			t.Error("still subscribed")
		}
		check("subscribe again", subscribe, grow, k.Subscribed, n)
		check("unsubscribe", func() {
			if err := call(args).unsubscribe(k); err != nil {
				t.Fatal(err)
			}
		}, shrink, k.Unsubscribed, n)
		check("subscribe once more", subscribe, grow, k.Subscribed, n)

		// When the client has gone the register is emptied behind its back, and
		// messages do not pile up meanwhile.
		s.closed = true
		s.discharge()
		s.unsubscribeAll()
		s.pushQueue.Push([]byte("message"), 0)
		if s.subs != nil || s.pushQueue.Any() {
			t.Error("a closed session listens")
		}
		p := &srv.pubsub
		for start := time.Now(); p.Figures() != (pubsub.Figures{}); time.Sleep(time.Millisecond) {
			if time.Since(start) > 20*time.Second {
				t.Fatal("the subscriptions of a closed session stay")
			}
		}
	}
}
