package front

import (
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"redoubt/internal/testtikv"
)

// FLUSHALL, SWAPDB and functions: all front ends go by the new state once the command
// is answered, and nothing is written to what is gone.

// field is a line of INFO, or such.
func field(c *client, command, name string) string {
	for line := range strings.Lines(c.do(command)) {
		if v, ok := strings.CutPrefix(strings.TrimSpace(line), name+":"); ok {
			return v
		}
	}
	return ""
}

// span is when something went on.
type span struct{ begin, end time.Time }

// wrote is a SET that was answered, and the GET behind it.
type wrote struct {
	key  string
	set  span
	read span
	seen bool // by the GET
}

// hammer writes keys at all front ends until stop is closed, and looks at each from
// another one.
func (s *stage) hammer(stop <-chan struct{}, name string) func() []wrote {
	var all sync.WaitGroup
	var mu sync.Mutex
	var list []wrote
	for i := range 2 * s.Len() {
		w, r := s.worker(i, s.rng.Uint64()), s.worker(i+1, 0)
		all.Go(func() {
			defer w.close()
			defer r.close()
			for n := 0; ; n++ {
				select {
				case <-stop:
					return
				default:
				}
				k := wrote{key: fmt.Sprintf("%s:%d:%d", name, i, n)}
				k.set.begin = time.Now()
				_, o := w.one("SET", k.key, "v")
				if k.set.end = time.Now(); o != done {
					continue
				}
				k.read.begin = time.Now()
				v, o := r.one("GET", k.key)
				k.read.end = time.Now()
				if k.seen = !v.IsNull; o != done {
					k.read = span{}
				}
				mu.Lock()
				list = append(list, k)
				mu.Unlock()
			}
		})
	}
	return func() []wrote {
		all.Wait()
		return list
	}
}

// judge says what is wrong with what became of the keys under some flushes.
func (s *stage) judge(keys []wrote, flushes []span) {
	s.t.Helper()
	c := s.dial(1)
	last, before, after := flushes[len(flushes)-1], 0, 0
	for _, k := range keys {
		overlaps := false
		for _, f := range flushes {
			overlaps = overlaps || k.set.begin.Before(f.end) && k.read.end.After(f.begin)
		}
		if !overlaps && !k.read.end.IsZero() && !k.seen {
			s.t.Errorf("%s was written and not there, and no flush went on", k.key)
		}
		switch exists := c.do("EXISTS", k.key) == "1"; {
		case k.set.begin.After(last.end):
			if after++; !exists {
				s.t.Errorf("%s was written %s after the flush was answered, and is lost", k.key, k.set.begin.Sub(last.end))
			}
		case k.set.end.Before(last.begin):
			if before++; exists {
				s.t.Errorf("%s was written %s before the flush, and is there", k.key, last.begin.Sub(k.set.end))
			}
		}
	}
	if before == 0 || after == 0 {
		s.t.Errorf("%d keys before and %d after: the test tested nothing", before, after)
	}
	s.t.Logf("%d keys, %d written before the last of %d flushes, %d after", len(keys), before, len(flushes), after)
}

// Whatever is written after the reply of FLUSHALL stays, whatever was before it is
// gone, at all front ends.
func TestFlush(t *testing.T) {
	onStores(t, 3, steady, nil, func(t *testing.T, s *stage) {
		stop := make(chan struct{})
		wait := s.hammer(stop, "k")
		var flushes []span
		clients := []*client{s.dial(0), s.dial(1), s.dial(2)}
		for i := range 1 + *rounds {
			c, command := clients[i%3], []string{"FLUSHALL", "FLUSHDB"}[i%2]
			c.do("SET", "mark", strconv.Itoa(i))
			f := span{begin: time.Now()}
			c.want("OK", command)
			f.end = time.Now()
			for _, c := range clients { // at once, everywhere
				c.want("nil", "GET", "mark")
			}
			flushes = append(flushes, f)
			<-time.After(time.Duration(s.rng.IntN(200)) * time.Millisecond)
		}
		close(stop)
		s.judge(wait(), flushes)
	})
}

// The same with a front end that sleeps for longer than its lease, and wakes.
func TestFlushWhileOneSleeps(t *testing.T) {
	t.Parallel()
	s := onTiKV(t, 3, testtikv.Shared(t))
	stop := make(chan struct{})
	wait := s.hammer(stop, "k")
	var flushes []span
	c, sleepy := s.dial(0), s.dial(2)
	for range 1 + *rounds {
		<-time.After(time.Duration(100+s.rng.IntN(200)) * time.Millisecond)
		c.do("SET", "mark", "v")
		if err := s.Process(2).Pause(); err != nil {
			t.Fatal(err)
		}
		f := span{begin: time.Now()}
		if err := sleepy.Send("GET", "mark"); err != nil { // it comes while it sleeps
			t.Fatal(err)
		}
		c.want("OK", "FLUSHALL")
		f.end = time.Now()
		<-time.After(time.Duration(s.rng.IntN(1500)) * time.Millisecond)
		if err := sleepy.Send("EXISTS", "mark"); err != nil {
			t.Fatal(err)
		}
		if err := s.Process(2).Resume(); err != nil {
			t.Fatal(err)
		}
		if _, err := sleepy.Read(); err != nil {
			t.Fatal(err)
		}
		if v, err := sleepy.Read(); err != nil || text(v) != "0" {
			t.Errorf("a key from before the flush is there: %v, %v", v, err)
		}
		flushes = append(flushes, f)
	}
	<-time.After(200 * time.Millisecond)
	close(stop)
	s.judge(wait(), flushes)
}

// SWAPDB is seen by all once it is answered, and nothing counted meanwhile is lost.
func TestSwap(t *testing.T) {
	onStores(t, 3, steady, nil, func(t *testing.T, s *stage) {
		clients := []*client{s.dial(0), s.dial(1), s.dial(2)}
		clients[0].do("SET", "where", "0")
		clients[0].do("SELECT", "1")
		clients[0].do("SET", "where", "1")
		clients[0].do("SELECT", "0")
		stop := make(chan struct{})
		var all sync.WaitGroup
		var mu sync.Mutex
		sum, maybe := 0, 0
		for i := range 6 {
			w := s.worker(i, s.rng.Uint64())
			all.Go(func() {
				defer w.close()
				for {
					select {
					case <-stop:
						return
					default:
					}
					_, o := w.do([]string{"SELECT", strconv.Itoa(i % 2)}, []string{"INCR", "count"})
					mu.Lock()
					if o == done {
						sum++
					} else if o == unknown {
						maybe++
					}
					mu.Unlock()
				}
			})
		}
		for i := range 2 * *rounds {
			clients[i%3].want("OK", "SWAPDB", "0", "1")
			for _, c := range clients {
				c.want(strconv.Itoa((i+1)%2), "GET", "where")
			}
		}
		close(stop)
		all.Wait()
		a, _ := strconv.Atoi(clients[0].do("GET", "count"))
		clients[0].do("SELECT", "1")
		b, _ := strconv.Atoi(clients[0].do("GET", "count"))
		if a+b < sum || a+b > sum+maybe {
			t.Errorf("%d and %d after %d increments and %d unknown", a, b, sum, maybe)
		}
		t.Logf("%d increments", sum)
	})
}

// A function can be called at any front end once FUNCTION LOAD is answered.
func TestFunctions(t *testing.T) {
	onStores(t, 3, steady, nil, func(t *testing.T, s *stage) {
		clients := []*client{s.dial(0), s.dial(1), s.dial(2)}
		for i := range 1 + *rounds {
			code := fmt.Sprintf("#!lua name=lib\nredis.register_function{function_name='f', callback=function() return %d end, flags={'no-writes'}}", i)
			clients[i%3].want("lib", "FUNCTION", "LOAD", "REPLACE", code)
			for _, c := range clients {
				c.want(strconv.Itoa(i), "FCALL", "f", "0")
			}
		}
		clients[0].want("OK", "FUNCTION", "FLUSH")
		clients[1].want("[]", "FUNCTION", "LIST")
		for _, c := range clients {
			c.want("ERR Function not found", "FCALL", "f", "0")
		}
	})
}
