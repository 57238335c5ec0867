// Package loader puts load on a server that speaks Redis and measures how long replies take.
//
// With a rate it is an open loop: each request has a moment at which it is due, whatever became
// of those before, and its time runs from that moment. A server that stalls is thus charged
// for every request that had to wait, which a closed loop leaves out (coordinated omission).
// Without a rate it is a closed loop: each connection waits for its replies before it sends
// again, which measures throughput; its times say how long the server took, not how long
// users would have waited.
//
// The package promises: requests that were not answered are in the counts and, with the time
// they had waited when the run ended, in the histogram; a server that says nothing ends a run
// after Time and Patience.
package loader

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"redoubt/client"
	"redoubt/histogram"
)

// Options of a run.
type Options struct {
	Server   client.Server
	Clients  int           // connections
	Pipeline int           // closed loop: requests that a connection sends at once
	Rate     float64       // requests a second over all connections; 0 is a closed loop
	Time     time.Duration // for how long requests are sent
	Count    int64         // how many are sent at the most; 0 is no bound
	Patience time.Duration // how long replies are waited for at the end
	Seed     uint64
	// Request appends a request. It is called by several goroutines, each with its own random
	// numbers.
	Request func(b []byte, r *rand.Rand) []byte
	// Progress, if set, is called once a second with what came in that second.
	Progress func(elapsed time.Duration, times *histogram.Histogram, refused int64)
}

// Result is what was measured.
type Result struct {
	Took       time.Duration
	Answered   int64 // with any reply
	Refused    int64 // of these, with an error
	Refusal    string
	Unanswered int64 // sent, but the run ended first
	Unsent     int64 // due, but never sent: the connection took no more
	Times      histogram.Histogram
	// Late is how late requests were sent that nothing held up but this program: if that is
	// much, the machine is too slow for the rate.
	Late histogram.Histogram
}

// run is a run under way.
type run struct {
	Options
	begin, end time.Time
	planned    int64        // open loop
	left       atomic.Int64 // closed loop
	conns      []*conn
}

// conn is one connection with what it has measured.
type conn struct {
	*client.Client
	run    *run
	number int64
	random *rand.Rand

	mu       sync.Mutex
	changed  *sync.Cond
	sent     int64
	finished bool // nothing more is sent
	result   Result
	second   histogram.Histogram
	refused  int64 // in this second
}

// Run runs a load. If a connection fails the run ends, and the result has what was measured
// until then.
func Run(ctx context.Context, o Options) (*Result, error) {
	g := &run{Options: o, planned: math.MaxInt64}
	if o.Count > 0 {
		g.planned = o.Count
	}
	g.left.Store(g.planned)
	if o.Rate > 0 {
		g.planned = min(g.planned, int64(o.Rate*o.Time.Seconds()))
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer g.close()
	for i := range o.Clients {
		c, err := g.connect(ctx, int64(i))
		if err != nil {
			return nil, fmt.Errorf("connection %d to %s: %w", i+1, o.Server, err)
		}
		g.conns = append(g.conns, c)
	}
	g.begin = time.Now()
	g.end = g.begin.Add(o.Time)
	var working sync.WaitGroup
	for _, c := range g.conns {
		if err := c.Conn().SetDeadline(g.end.Add(o.Patience)); err != nil {
			return nil, err
		}
		working.Go(func() {
			work := c.closedLoop
			if o.Rate > 0 {
				work = c.openLoop
			}
			if err := work(ctx); err != nil {
				cancel(err)
			}
		})
	}
	done := make(chan struct{})
	go func() { working.Wait(); close(done) }()
	g.watch(done)
	r := g.sum()
	// The cause: with the context the connections were closed, whose errors say less.
	return r, context.Cause(ctx)
}

func (g *run) connect(ctx context.Context, number int64) (*conn, error) {
	s := g.Server
	s.Patience = g.Patience
	cl, err := client.Dial(ctx, s)
	if err != nil {
		return nil, err
	}
	c := &conn{Client: cl, run: g, number: number, random: rand.New(rand.NewPCG(g.Seed, uint64(number)))}
	c.changed = sync.NewCond(&c.mu)
	return c, nil
}

func (g *run) close() {
	for _, c := range g.conns {
		c.Close()
	}
}

// watch calls Progress until all connections are done.
func (g *run) watch(done <-chan struct{}) {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		select {
		case <-done:
			return
		case now := <-tick.C:
			if g.Progress == nil {
				continue
			}
			var times histogram.Histogram
			var refused int64
			for _, c := range g.conns {
				c.mu.Lock()
				times.Merge(&c.second)
				refused += c.refused
				c.second, c.refused = histogram.Histogram{}, 0
				c.mu.Unlock()
			}
			g.Progress(now.Sub(g.begin), &times, refused)
		}
	}
}

func (g *run) sum() *Result {
	r := &Result{Took: time.Since(g.begin)}
	for _, c := range g.conns {
		r.Answered += c.result.Answered
		r.Refused += c.result.Refused
		r.Unanswered += c.result.Unanswered
		r.Unsent += c.result.Unsent
		r.Times.Merge(&c.result.Times)
		r.Late.Merge(&c.result.Late)
		if r.Refusal == "" {
			r.Refusal = c.result.Refusal
		}
	}
	return r
}

// answered counts a reply.
func (c *conn) answered(took time.Duration, refusal string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.result.Answered++
	c.result.Times.Add(took)
	c.second.Add(took)
	if refusal != "" {
		c.result.Refused++
		c.refused++
		c.result.Refusal = refusal
	}
}

// unanswered counts a request without a reply, with the time that it has waited.
func (c *conn) unanswered(waited time.Duration) {
	c.result.Unanswered++
	c.result.Times.Add(waited)
}

// claim takes the requests of a pipeline out of those that are left.
func (g *run) claim() int {
	for {
		left := g.left.Load()
		n := min(int64(g.Pipeline), left)
		if g.left.CompareAndSwap(left, left-n) {
			return int(n)
		}
	}
}

// failed says which connection failed, and how.
func (c *conn) failed(err error) error {
	if errors.Is(err, io.EOF) {
		err = errors.New("the server closed it")
	}
	return fmt.Errorf("connection %d: %w", c.number+1, err)
}

// closedLoop sends a pipeline, waits for its replies, and sends the next.
func (c *conn) closedLoop(context.Context) error {
	var out []byte
	for time.Now().Before(c.run.end) {
		n := c.run.claim()
		if n == 0 {
			return nil
		}
		out = out[:0]
		for range n {
			out = c.run.Request(out, c.random)
		}
		since := time.Now()
		_, err := c.Conn().Write(out)
		for i := 0; i < n && err == nil; i++ {
			var refusal string
			if refusal, err = c.Skip(); err == nil {
				c.answered(time.Since(since), refusal)
				continue
			}
			for range n - i {
				c.unanswered(time.Since(since))
			}
		}
		if errors.Is(err, os.ErrDeadlineExceeded) {
			return nil // Unanswered says so
		}
		if err != nil {
			return c.failed(err)
		}
	}
	return nil
}

// due is when request k of this connection is due: requests are dealt out to the connections
// in turn. There is none at the end of the run.
func (c *conn) due(k int64) (at time.Time, ok bool) {
	n := c.number + k*int64(len(c.run.conns))
	return c.run.begin.Add(time.Duration(float64(n) / c.run.Rate * 1e9)), n < c.run.planned
}

// openLoop sends each request when it is due, and reads replies meanwhile.
func (c *conn) openLoop(ctx context.Context) error {
	sending := make(chan error, 1)
	go func() {
		err := c.send(ctx)
		if err != nil {
			c.Conn().Close() // ends the reader
		}
		c.mu.Lock()
		c.finished = true
		c.changed.Signal()
		c.mu.Unlock()
		sending <- err
	}()
	taken, err := c.take()
	if err != nil {
		c.Conn().Close() // ends the sender
	}
	if sendErr := <-sending; sendErr != nil && (err == nil || errors.Is(sendErr, os.ErrDeadlineExceeded)) {
		err = sendErr
	}
	now := time.Now()
	for k := taken; ; k++ {
		due, ok := c.due(k)
		if !ok || due.After(now) {
			break
		}
		if k < c.sent {
			c.unanswered(now.Sub(due))
		} else {
			c.result.Unsent++
			c.result.Times.Add(now.Sub(due))
		}
	}
	if err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
		return c.failed(err)
	}
	return nil
}

// send sends the requests.
func (c *conn) send(ctx context.Context) error {
	timer := time.NewTimer(0)
	defer timer.Stop()
	var out []byte
	free := c.run.begin // since when nothing held the sender up
	for k := int64(0); ; {
		due, ok := c.due(k)
		if !ok {
			return nil
		}
		if wait := time.Until(due); wait > 0 {
			timer.Reset(wait)
			select {
			case <-timer.C:
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		out = out[:0]
		now := time.Now()
		for ; ok && !due.After(now) && len(out) < 1<<16; due, ok = c.due(k) {
			if !due.Before(free) {
				c.result.Late.Add(now.Sub(due))
			}
			out = c.run.Request(out, c.random)
			k++
		}
		if _, err := c.Conn().Write(out); err != nil {
			return err
		}
		free = time.Now()
		c.mu.Lock()
		c.sent = k
		c.changed.Signal()
		c.mu.Unlock()
	}
}

// take reads the replies to what is sent, and returns how many there were.
func (c *conn) take() (k int64, err error) {
	for ; ; k++ {
		c.mu.Lock()
		for c.sent == k && !c.finished {
			c.changed.Wait()
		}
		end := c.sent == k
		c.mu.Unlock()
		if end {
			return k, nil
		}
		refusal, err := c.Skip()
		if err != nil {
			return k, err
		}
		due, _ := c.due(k)
		c.answered(time.Since(due), refusal)
	}
}
