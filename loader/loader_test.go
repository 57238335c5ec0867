package loader_test

import (
	"bufio"
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"redoubt/client"
	"redoubt/histogram"
	"redoubt/internal/testserver"
	"redoubt/loader"
)

// listen serves connections with a function until the test ends.
func listen(t *testing.T, serve func(net.Conn)) client.Server {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ln.Close() })
	go func() {
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			t.Cleanup(func() { conn.Close() })
			go serve(conn)
		}
	}()
	return client.Server{Addr: ln.Addr().String()}
}

// ping is answered by pong.
func ping(b []byte, _ *rand.Rand) []byte { return append(b, "PING\r\n"...) }

func pong(conn net.Conn, before func()) {
	in := bufio.NewReader(conn)
	for {
		if _, err := in.ReadString('\n'); err != nil {
			return
		}
		before()
		if _, err := conn.Write([]byte("+PONG\r\n")); err != nil {
			return
		}
	}
}

func options(s client.Server) loader.Options {
	return loader.Options{Server: s, Clients: 4, Pipeline: 1, Time: time.Minute, Patience: time.Minute, Request: ping}
}

// Each request is sent once and answered once, in both loops.
func TestCounts(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*loader.Options){
		"closed loop": func(*loader.Options) {},
		"pipelines":   func(o *loader.Options) { o.Pipeline = 16 },
		"open loop":   func(o *loader.Options) { o.Rate = 20_000 },
	} {
		var got atomic.Int64
		o := options(listen(t, func(c net.Conn) { pong(c, func() { got.Add(1) }) }))
		o.Count = 1003
		change(&o)
		r, err := loader.Run(t.Context(), o)
		if err != nil || r.Answered != 1003 || got.Load() != 1003 || r.Times.Count() != 1003 || r.Refused+r.Unanswered+r.Unsent != 0 {
			t.Errorf("%s: %v, the server got %d: %d answered, %d timed, %+v", name, err, got.Load(), r.Answered, r.Times.Count(), r.Unanswered)
		}
		if o.Rate > 0 && r.Late.Count() == 0 {
			t.Error("how late the generator was is not measured")
		}
	}
}

// over counts the times that were longer than d.
func over(h *histogram.Histogram, d time.Duration) (n int) {
	h.Each(func(upTo time.Duration, count int) {
		if upTo > d {
			n += count
		}
	})
	return n
}

// A server that stalls for 300 ms is charged, in an open loop, for each request that was due
// meanwhile. The closed loop sends one request and waits: its server is charged once.
func TestStallsAreNotOmitted(t *testing.T) {
	t.Parallel()
	for _, rate := range []float64{1000, 0} {
		stall := false
		o := options(listen(t, func(c net.Conn) {
			pong(c, func() {
				if !stall {
					stall = true
					time.Sleep(300 * time.Millisecond)
				}
			})
		}))
		o.Clients, o.Count, o.Rate = 1, 500, rate
		r, err := loader.Run(t.Context(), o)
		if err != nil || r.Answered != 500 {
			t.Fatal(err, r)
		}
		n := over(&r.Times, 100*time.Millisecond)
		if rate > 0 && n < 190 { // those that were due within the first 200 ms
			t.Errorf("%d requests waited for more than 100 ms, not 200", n)
		}
		if rate == 0 && (n < 1 || r.Times.At(0.5) > 100*time.Millisecond) {
			t.Errorf("closed loop: %d slow ones, p50 %s", n, r.Times.At(0.5))
		}
	}
}

// A server that answers nothing ends a run after its time and the patience, and is charged for
// every request, with the time that it has waited.
func TestDeafServer(t *testing.T) {
	t.Parallel()
	deaf := listen(t, func(net.Conn) {})
	for _, rate := range []float64{1000, 0} {
		o := options(deaf)
		o.Time, o.Patience, o.Rate = 200*time.Millisecond, 100*time.Millisecond, rate
		want := int64(200)
		if rate == 0 {
			o.Pipeline, want = 3, 12
		}
		r, err := loader.Run(t.Context(), o)
		if err != nil || r.Answered != 0 || r.Unanswered+r.Unsent != want || int64(r.Times.Count()) != want {
			t.Fatalf("rate %v: %v: %d answered, %d unanswered, %d unsent, %d timed", rate, err, r.Answered, r.Unanswered, r.Unsent, r.Times.Count())
		}
		if least := r.Times.At(0); least < 100*time.Millisecond {
			t.Errorf("rate %v: a request is counted with %s", rate, least)
		}
	}
}

// A server that does not even read: what could not be sent is charged, too.
func TestBlockedServer(t *testing.T) {
	t.Parallel()
	o := options(listen(t, func(net.Conn) {}))
	big := []byte("*2\r\n$4\r\nECHO\r\n$100000\r\n" + strings.Repeat("x", 100_000) + "\r\n")
	o.Request = func(b []byte, _ *rand.Rand) []byte { return append(b, big...) }
	o.Clients, o.Rate, o.Time, o.Patience = 1, 1000, time.Second, 50*time.Millisecond
	r, err := loader.Run(t.Context(), o)
	if err != nil || r.Unsent == 0 || r.Unanswered+r.Unsent != 1000 || r.Times.Count() != 1000 {
		t.Fatalf("%v: %d unanswered, %d unsent, %d timed", err, r.Unanswered, r.Unsent, r.Times.Count())
	}
}

// What ends a run early is told, with what was measured until then.
func TestEarlyEnds(t *testing.T) {
	t.Parallel()
	var n atomic.Int64
	hangsUp := listen(t, func(c net.Conn) {
		pong(c, func() {
			if n.Add(1) == 5 {
				c.Close()
			}
		})
	})
	ctx, cancel := context.WithCancel(t.Context())
	cancels := listen(t, func(c net.Conn) {
		pong(c, func() {
			if n.Add(1) == 105 {
				cancel()
			}
		})
	})
	for _, c := range []struct {
		name string
		at   client.Server
		rate float64
		want string
		from int64
	}{
		{"closed", hangsUp, 0, "connection 1: ", 0},
		{"open", hangsUp, 10_000, "connection 1: ", 0},
		{"not Redis", listen(t, func(c net.Conn) { fmt.Fprint(c, "HTTP/1.1 400 Bad Request\r\n") }), 0, "the reply is not one of Redis", 0},
		{"cancelled", cancels, 0, "context canceled", 100},
	} {
		n.Store(c.from)
		o := options(c.at)
		o.Clients, o.Rate = 1, c.rate
		r, err := loader.Run(ctx, o)
		if err == nil || !strings.Contains(err.Error(), c.want) || c.name != "not Redis" && r.Answered == 0 {
			t.Errorf("%s: %v, %+v", c.name, err, r)
		}
	}
}

// Against our server: replies of all kinds are read, refusals counted, and progress is told.
func TestServer(t *testing.T) {
	t.Parallel()
	s := testserver.Start(t, testserver.Options{})
	o := options(client.Server{Addr: s.Addr})
	o.Time, o.Rate = 1300*time.Millisecond, 2000
	o.Request = func(b []byte, r *rand.Rand) []byte {
		switch r.IntN(4) {
		case 0:
			return client.AppendRequest(b, "SET", "s", "x")
		case 1:
			return client.AppendRequest(b, "RPUSH", "s", "x")
		case 2:
			return client.AppendRequest(b, "COMMAND", "INFO", "get")
		}
		return client.AppendRequest(b, "GET", "s")
	}
	told := 0
	o.Progress = func(elapsed time.Duration, times *histogram.Histogram, refused int64) {
		if times.Count() > 0 && refused > 0 && elapsed > 0 {
			told++
		}
	}
	r, err := loader.Run(t.Context(), o)
	if err != nil || r.Answered != 2600 || r.Refused < 400 || r.Refused > 900 || !strings.HasPrefix(r.Refusal, "WRONGTYPE ") || told == 0 {
		t.Errorf("%v: %d answered, %d refused: %s; told %d times", err, r.Answered, r.Refused, r.Refusal, told)
	}
}
