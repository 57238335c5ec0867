package front

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"
)

// A publish on any front end wakes those who wait at any other, each subscriber of them, and
// nobody misses a message, gets one twice after it was acknowledged, or out of order.
func TestChannels(t *testing.T) {
	onStores(t, 3, steady, nil, func(t *testing.T, s *stage) {
		const perFront = 3
		n := 40 * *rounds
		c := s.dial(0)
		var readers sync.WaitGroup
		for i := range 3 * perFront {
			name := fmt.Sprintf("s-%d", i)
			c.do("CHSUBSCRIBE", "news", name)
			r := s.Dial(i % 3)
			r.Timeout = time.Minute
			readers.Go(func() {
				ack := []string(nil)
				for next := 0; next < n; {
					v, err := r.Do(append([]string{"CHREAD", "news", name, "BLOCK", "0"}, ack...)...)
					if err != nil || v.IsError() || len(v.Elems) != 3 {
						t.Errorf("%s: %v %v", name, v, err)
						return
					}
					for _, m := range v.Elems[0].Elems {
						if want := fmt.Sprintf("m-%d", next); m.Elems[1].Str != want {
							t.Errorf("%s: got %s, want %s", name, m.Elems[1].Str, want)
							return
						}
						next++
					}
					ack = []string{"ACK", v.Elems[2].Str}
				}
			})
		}
		var publishers [3]*client
		for i := range publishers {
			publishers[i] = s.dial(i)
		}
		for m := range n {
			if m%10 == 0 { // all wait, wherever they are
				s.until("all wait", func() bool { return s.waiting(publishers[:]) == 3*perFront })
			}
			publishers[s.rng.IntN(3)].do("CHPUBLISH", "news", fmt.Sprintf("m-%d", m), "1")
		}
		readers.Wait()
	})
}

// waiting is how many clients wait at all front ends.
func (s *stage) waiting(at []*client) (n int) {
	for _, c := range at {
		var here int
		if _, err := fmt.Sscan(field(c, "INFO", "blocked_clients"), &here); err != nil {
			s.t.Fatal(err)
		}
		n += here
	}
	return n
}

// The same over HTTP: a poll at one front end is answered with what comes by another.
func TestChannelsOverHTTP(t *testing.T) {
	onStores(t, 2, steady, []string{"--http-addr", "127.0.0.1:0"}, func(t *testing.T, s *stage) {
		there, poll := s.dial(0), "http://"+s.httpAddr(1)+"/channel/news/subscription/polling/s"
		ask := func(method, url string) string {
			t.Helper()
			req, err := http.NewRequest(method, url, nil)
			if err != nil {
				t.Fatal(err)
			}
			res, err := http.DefaultClient.Do(req)
			if err != nil {
				t.Error(err)
				return ""
			}
			defer res.Body.Close()
			b, err := io.ReadAll(res.Body)
			if err != nil || res.StatusCode >= 300 {
				t.Errorf("%s %s: %v %d %s", method, url, err, res.StatusCode, b)
			}
			return string(b)
		}
		ask("PUT", poll)
		for m := range 5 {
			var got string
			var waits sync.WaitGroup
			waits.Go(func() { got = ask("GET", poll+"?timeout=30s") })
			s.until("the poll waits", func() bool { return field(s.dial(1), "INFO", "blocked_clients") == "1" })
			there.do("CHPUBLISH", "news", fmt.Sprintf("m-%d", m), "1")
			waits.Wait()
			_, handle, ok := strings.Cut(got, `"ackHandle":"`)
			handle, _, ended := strings.Cut(handle, `"`)
			if want := fmt.Sprintf(`"messages":[{"messageID":"m-%d","content":1}]`, m); !ok || !ended || !strings.Contains(got, want) {
				t.Fatalf("the poll is answered with %s, want %s", got, want)
			}
			ask("DELETE", poll+"/message?ackHandle="+handle)
		}
	})
}

// httpAddr is where a front end serves channels over HTTP.
func (s *stage) httpAddr(i int) string {
	if s.mem {
		return s.Server(i).HTTPAddr().String()
	}
	return s.Process(i).HTTP
}
