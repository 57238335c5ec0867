//go:build linux

package main

import (
	"bufio"
	"fmt"
	"math"
	"math/rand/v2"
	"net"
	"strings"
	"testing"
	"time"

	"redoubt/internal/respclient"
)

func TestZipfRanksFollowTheLaw(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		s float64
		n uint64
	}{{0.99, 1000}, {0.99, 5_000_000}, {0.5, 10_000}, {1.2, 100}, {0.99, 1}} {
		const draws = 1_000_000
		z := newZipf(rand.NewPCG(1, 2), c.s, c.n)
		counts := map[uint64]int{}
		for range draws {
			k := z.rank()
			if k < 1 || k > c.n {
				t.Fatalf("s=%v n=%d: rank %d", c.s, c.n, k)
			}
			counts[k]++
		}
		sum := 0.0
		for k := c.n; k > 0; k-- {
			sum += math.Pow(float64(k), -c.s)
		}
		// The first ranks one by one, and the part that ever more of them have
		// together; five standard deviations are allowed.
		together, expected := 0, 0.0
		for k := uint64(1); k <= min(c.n, 100_000); k++ {
			p := math.Pow(float64(k), -c.s) / sum
			if k <= 20 {
				near(t, fmt.Sprintf("s=%v n=%d: rank %d", c.s, c.n, k), counts[k], p, draws)
			}
			together, expected = together+counts[k], expected+p
			if k&(k-1) == 0 {
				near(t, fmt.Sprintf("s=%v n=%d: ranks up to %d", c.s, c.n, k), together, expected, draws)
			}
		}
	}
}

func near(t *testing.T, what string, got int, p float64, draws int) {
	t.Helper()
	want := p * float64(draws)
	if diff := math.Abs(float64(got) - want); diff > 5*math.Sqrt(max(0, want*(1-p)))+1 {
		t.Errorf("%s came %d times, not %.0f", what, got, want)
	}
}

func TestZipfSpreadsRanksOverAllKeys(t *testing.T) {
	t.Parallel()
	const n = 1000
	z := newZipf(rand.NewPCG(1, 2), 0.99, n)
	seen := map[uint64]int{}
	for range 200_000 {
		k := z.next()
		if k >= n {
			t.Fatalf("key %d of %d", k, n)
		}
		seen[k]++
	}
	if len(seen) != n {
		t.Errorf("%d of %d keys came", len(seen), n)
	}
	hottest := uint64(0)
	for k, c := range seen {
		if k != 0 && c > seen[hottest] {
			hottest = k
		}
	}
	if hottest != 0 {
		t.Errorf("key %d is hotter than key 0, which is rank 1", hottest)
	}
}

func TestNextReply(t *testing.T) {
	t.Parallel()
	stream := "+OK\r\n$5\r\nhel\nl\r\n:42\r\n$-1\r\n$0\r\n\r\n-ERR no\r\n$12\r\n$3\r\nabc\r\n+OK\r\n*2\r\n+OK\r\n*1\r\n$1\r\nx\r\n*-1\r\n*1\r\n-ERR\r\n"
	want := []string{"+OK", "$hel\nl", ":42", "$(nil)", "$", "-ERR no", "$" + "$3\r\nabc\r\n+OK", "**2\r\n+OK\r\n*1\r\n$1\r\nx\r\n", "**-1\r\n", "-*1\r\n-ERR\r\n"}
	// However the stream is cut, the same replies come out of it.
	for cut := 1; cut <= len(stream); cut++ {
		var got []string
		var pending []byte
		for rest := stream; rest != ""; {
			n := min(cut, len(rest))
			pending, rest = append(pending, rest[:n]...), rest[n:]
			for {
				r, n, err := nextReply(pending)
				if err != nil {
					t.Fatalf("cut %d: %v", cut, err)
				}
				if n == 0 {
					break
				}
				text := string(r.kind) + string(r.body)
				if r.body == nil {
					text += "(nil)"
				}
				got = append(got, text)
				pending = pending[n:]
			}
		}
		if fmt.Sprintf("%q", got) != fmt.Sprintf("%q", want) || len(pending) > 0 {
			t.Fatalf("cut %d: %q and %q left, not %q", cut, got, pending, want)
		}
	}
	for _, bad := range []string{"\r\n", "+OK\n", "$x\r\n", "$\r\n\r\n", "$2\r\nabc\r\n", "*x\r\n", "hello\r\n", "$99999999999\r\n"} {
		if _, n, err := nextReply([]byte(bad)); err == nil {
			t.Errorf("%q is a reply of %d bytes", bad, n)
		}
	}
}

// echo is a server that keeps keys, answers in small pieces, and lies about key
// 7 if told so.
func echo(t *testing.T, lies bool) int {
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
			go func() {
				defer conn.Close()
				c := respclient.New(conn) // a request has the form of a reply
				out := bufio.NewWriterSize(conn, 7)
				for {
					v, err := c.Read()
					if err != nil {
						return
					}
					var n uint64
					fmt.Sscanf(v.Elems[1].Str, "key:%d", &n)
					if lies && n == 7 {
						n = 8
					}
					if v.Elems[0].Str == "GET" {
						fmt.Fprintf(out, "$%d\r\n%s\r\n", *size, value(n, rand.NewPCG(1, 1)))
					} else if belongs([]byte(v.Elems[2].Str), n) {
						fmt.Fprint(out, "+OK\r\n")
					} else {
						fmt.Fprint(out, "-ERR not a value of this key\r\n")
					}
					if out.Flush() != nil {
						return
					}
				}
			}()
		}
	}()
	return ln.Addr().(*net.TCPAddr).Port
}

func TestLoadCountsAndChecksReplies(t *testing.T) {
	t.Parallel()
	get, set := getSet()
	random := rand.NewPCG(1, 2)
	l := load{
		port: echo(t, false), clients: 3, pipeline: 5, requests: mix{get, set},
		keys: &uniform{random, 1000}, count: 1003, window: time.Hour, random: random,
	}
	o, err := l.run()
	if err != nil {
		t.Fatal(err)
	}
	if o.count != 1003 || o.all.Count() != 1003 || len(o.windows) != 1 || o.windows[0].Count() != 1003 {
		t.Errorf("%d requests, %d and %d windows of times", o.count, o.all.Count(), len(o.windows))
	}
	l.port = echo(t, true)
	if _, err = l.run(); err == nil || !strings.Contains(err.Error(), "key:000000000007") && !strings.Contains(err.Error(), "not a value") {
		t.Errorf("a wrong value gives %v", err)
	}
}

func TestLoadEndsInTime(t *testing.T) {
	t.Parallel()
	get, _ := getSet()
	random := rand.NewPCG(1, 2)
	o, err := load{
		port: echo(t, false), clients: 2, pipeline: 2, requests: mix{get},
		keys: &uniform{random, 1000}, time: 50 * time.Millisecond, random: random,
	}.run()
	if err != nil {
		t.Fatal(err)
	}
	if o.count == 0 || o.time < 50*time.Millisecond {
		t.Errorf("%d requests in %s", o.count, o.time)
	}
}
