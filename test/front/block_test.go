package front

import (
	"fmt"
	"strconv"
	"sync"
	"testing"
	"time"

	"redoubt/internal/respclient"
)

// Clients that wait at one front end for what comes by another.

// waits is a command that waits, and how elements come to it.
type waits struct {
	put  func(e string) []string
	take []string
	got  func(v respclient.Value) string
}

var blocking = map[string]waits{
	"BLPOP": {
		put:  func(e string) []string { return []string{"RPUSH", "list", e} },
		take: []string{"BLPOP", "none", "list", "0"},
		got:  func(v respclient.Value) string { return v.Elems[1].Str },
	},
	"BZPOPMIN": {
		put:  func(e string) []string { return []string{"ZADD", "zset", "1", e} },
		take: []string{"BZPOPMIN", "zset", "0"},
		got:  func(v respclient.Value) string { return v.Elems[1].Str },
	},
	"BLMOVE": {
		put:  func(e string) []string { return []string{"LPUSH", "from", e} },
		take: []string{"BLMOVE", "from", "to", "RIGHT", "LEFT", "0"},
		got:  func(v respclient.Value) string { return v.Str },
	},
	"XREADGROUP": {
		put:  func(e string) []string { return []string{"XADD", "stream", "*", "v", e} },
		take: []string{"XREADGROUP", "GROUP", "g", "c", "COUNT", "1", "BLOCK", "0", "STREAMS", "stream", ">"},
		got:  func(v respclient.Value) string { return v.Elems[0].Elems[1].Elems[0].Elems[1].Elems[1].Str },
	},
}

// sink is where what was taken goes.
type sink struct {
	mu  sync.Mutex
	got map[string]int
}

func (k *sink) add(e string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.got == nil {
		k.got = map[string]int{}
	}
	k.got[e]++
}

func (k *sink) count(e string) int {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.got[e]
}

func (k *sink) len() int {
	k.mu.Lock()
	defer k.mu.Unlock()
	return len(k.got)
}

// waiters take at some front ends until their connection ends.
func (s *stage) waiters(b waits, fronts ...int) *sink {
	k := new(sink)
	for _, i := range fronts {
		c := s.Dial(i)
		c.Timeout = time.Hour
		go func() {
			for {
				v, err := c.Do(b.take...)
				if err != nil {
					return
				}
				if v.IsError() {
					k.add("error: " + v.Str)
					continue
				}
				k.add(b.got(v))
			}
		}()
	}
	return k
}

// Each element that comes by any front end wakes one client, at any of them.
func TestBlocked(t *testing.T) {
	for name, b := range blocking {
		t.Run(name, func(t *testing.T) {
			onStores(t, 3, steady, nil, func(t *testing.T, s *stage) {
				var c [3]*client
				for i := range c {
					c[i] = s.dial(i)
				}
				c[0].do("XGROUP", "CREATE", "stream", "g", "$", "MKSTREAM")
				k := s.waiters(b, 0, 0, 1, 1, 2, 2)
				n, began := 60**rounds, time.Now()
				for i := range n {
					c[s.rng.IntN(3)].do(b.put(strconv.Itoa(i))...)
					if i%10 == 9 { // all wait, and one element comes
						s.until(fmt.Sprint(i+1, " elements are taken"), func() bool { return k.len() == i+1 })
					}
				}
				for i := range n {
					if k.count(strconv.Itoa(i)) != 1 {
						t.Errorf("element %d was taken %d times", i, k.count(strconv.Itoa(i)))
					}
				}
				if k.len() != n {
					t.Errorf("%d elements became %d: %v", n, k.len(), k.got)
				}
				t.Logf("%d elements in %s", n, time.Since(began))
			})
		})
	}
}

// Who waits is not forgotten when the front end that has put an element dies before it
// has said so.
func TestBlockedWhileFrontEndsDie(t *testing.T) {
	onStores(t, 3, hasty, nil, func(t *testing.T, s *stage) {
		b := blocking["BLPOP"]
		k := s.waiters(b, 0, 1)
		there := s.dial(0)
		s.until("they wait", func() bool { return field(there, "INFO", "blocked_clients") == "1" })
		told := 0
		deaths := 2 * *rounds
		if !s.mem {
			deaths *= 2 // not all of them find the right moment
		}
		for i := range deaths {
			e := strconv.Itoa(i)
			c := s.Dial(2)
			if s.mem {
				s.Server(2).StopPeers() // it commits, and tells nobody
				if v, err := c.Do(b.put(e)...); err != nil || v.IsError() {
					t.Fatal(v, err)
				}
			} else if err := c.Send(b.put(e)...); err != nil {
				t.Fatal(err)
			} else {
				time.Sleep(time.Duration(s.rng.IntN(30000)) * time.Microsecond)
			}
			s.Kill(2)
			s.until("nothing is left for who waits", func() bool { return there.do("LLEN", "list") == "0" })
			if s.mem {
				s.until("it is taken", func() bool { return k.count(e) == 1 })
			}
			told += k.count(e)
			s.Restart(2)
		}
		// And those that were put before the end are still served.
		c := s.dial(2)
		for i := range 6 {
			c.do(b.put(fmt.Sprint("last", i))...)
		}
		s.until("the last are taken", func() bool { return k.len() >= 6 && k.count("last5") == 1 })
		t.Logf("%d front ends killed, %d elements of theirs arrived", deaths, told)
	})
}

// A waiter whose element came with an unknown outcome is told so, and is not left
// behind in the books.
func TestBlockedWithUnknownOutcome(t *testing.T) {
	t.Parallel()
	s := onMemory(t, 2, steady)
	b := blocking["BLPOP"]
	k := s.waiters(b, 0, 0, 1, 1)
	c := s.dial(0)
	for i := range 2 {
		there := s.dial(i)
		s.until("they wait", func() bool { return field(there, "INFO", "blocked_clients") == "2" })
	}
	end := s.trouble()
	sent := 0
	for i := range 300 {
		v := c.value(b.put(strconv.Itoa(i))...)
		if !v.IsError() {
			sent++
		}
	}
	end()
	s.until("nothing is left", func() bool { return c.do("LLEN", "list") == "0" })
	c.do(b.put("last")...)
	s.until("the last is taken", func() bool { return k.count("last") == 1 })
	k.mu.Lock()
	defer k.mu.Unlock()
	failed := 0
	for e, n := range k.got {
		if len(e) > 5 && e[:6] == "error:" {
			failed += n
		} else if n > 1 {
			t.Errorf("%s was taken %d times", e, n)
		}
	}
	if len(k.got) < sent-failed {
		t.Errorf("%d elements were put, %d taken, and %d takers know nothing", sent, len(k.got), failed)
	}
	t.Logf("%d put, %d kinds taken, %d unknown", sent, len(k.got), failed)
}
