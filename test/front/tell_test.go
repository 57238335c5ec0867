package front

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"redoubt/internal/respclient"
)

// What is published, or happens to keys, at one front end is heard at the others.

// Messages of all front ends arrive everywhere, once, and those of one client in its
// order.
func TestMessages(t *testing.T) {
	onStores(t, 3, steady, nil, func(t *testing.T, s *stage) {
		n := 100 * *rounds
		var all sync.WaitGroup
		for i := range 3 {
			c := s.dial(i)
			c.do("SUBSCRIBE", "ch")
			all.Go(func() {
				var next [3]int
				for range 3 * n {
					v, err := c.Read()
					if err != nil {
						t.Errorf("after %v: %v", next, err)
						return
					}
					var from, k int
					fmt.Sscan(v.Elems[2].Str, &from, &k)
					if k != next[from] {
						t.Errorf("message %d of front end %d instead of %d", k, from, next[from])
						return
					}
					next[from]++
				}
			})
		}
		for i := range 3 {
			c := s.dial(i)
			all.Go(func() {
				for k := range n {
					if v, err := c.Do("PUBLISH", "ch", fmt.Sprint(i, " ", k)); err != nil || v.IsError() {
						t.Error(v, err)
						return
					}
				}
			})
		}
		all.Wait()
	})
}

// Events of keys are told at all front ends, once.
func TestEvents(t *testing.T) {
	onStores(t, 3, steady, []string{"--notify-keyspace-events", "E$gx"}, func(t *testing.T, s *stage) {
		c := s.dial(0)
		var ears []*client
		for i := range 3 {
			ear := s.dial(i)
			ear.do("PSUBSCRIBE", "__keyevent@0__:*")
			ears = append(ears, ear)
		}
		n := 20
		for i := range n {
			c.do("SET", fmt.Sprint("k", i), "v")
			c.do("DEL", fmt.Sprint("k", i))
		}
		for i, ear := range ears {
			for k := range n {
				for _, event := range []string{"set", "del"} {
					v, err := ear.Read()
					if want := fmt.Sprintf("[pmessage __keyevent@0__:* __keyevent@0__:%s k%d]", event, k); err != nil || text(v) != want {
						t.Fatalf("front end %d: %s instead of %s, %v", i, text(v), want, err)
					}
				}
			}
		}
	})
}

// cache is a client that keeps what it has read until it is told to forget it.
type cache struct {
	c     *respclient.Client
	known map[string]string
	reads int
	hits  int
	drops int
}

func (s *stage) cache(i int) (*cache, error) {
	c, err := respclient.DialProto(s.Addr(i), 3)
	if err != nil {
		return nil, err
	}
	if v, err := c.Do("CLIENT", "TRACKING", "ON"); err != nil || v.IsError() {
		return nil, fmt.Errorf("%v, %w", v, err)
	}
	return &cache{c: c, known: map[string]string{}}, nil
}

// reply reads on until there is a reply. What is pushed is heeded in the order in which
// it comes.
func (k *cache) reply() (respclient.Value, error) {
	for {
		v, err := k.c.Read()
		if err != nil || v.Kind != respclient.Push {
			return v, err
		}
		k.drops++
		if v.Elems[1].IsNull {
			clear(k.known)
		}
		for _, key := range v.Elems[1].Elems {
			delete(k.known, key.Str)
		}
	}
}

// get reads a key, mostly from the cache.
func (k *cache) get(key string) error {
	if _, ok := k.known[key]; ok {
		k.hits++
		return nil
	}
	k.reads++
	if err := k.c.Send("GET", key); err != nil {
		return err
	}
	// What is told before the reply may be about what the reply shows, or not: the
	// server sees to it that this is no problem.
	v, err := k.reply()
	if err == nil && !v.IsError() {
		k.known[key] = text(v)
	}
	return err
}

// settle hears what there is to hear.
func (k *cache) settle() error {
	if err := k.c.Send("PING"); err != nil {
		return err
	}
	_, err := k.reply()
	return err
}

const cached = 8

// Nobody who caches keeps an old value, whatever front end has changed it, and
// whatever happens to commits and front ends.
func TestTracking(t *testing.T) {
	onStores(t, 3, hasty, nil, func(t *testing.T, s *stage) {
		key := func(i int) string { return fmt.Sprint("key", i) }
		writes, stats := 0, [3]int{}
		for r := range 2 * *rounds {
			var caches []*cache
			for i := range 4 {
				k, err := s.cache(i % 2) // the third one will die
				if err != nil {
					t.Fatal(err)
				}
				defer k.c.Close()
				caches = append(caches, k)
			}
			end := s.trouble()
			stop := make(chan struct{})
			var writers, readers sync.WaitGroup
			var mu sync.Mutex
			for i := range 3 {
				w := s.worker(i, s.rng.Uint64())
				writers.Go(func() {
					defer w.close()
					for n := range 80 {
						k := key(w.rng.IntN(cached))
						switch w.rng.IntN(4) {
						case 0:
							w.one("DEL", k)
						case 1:
							w.do([]string{"MULTI"}, []string{"SET", k, fmt.Sprint(r, i, n)}, []string{"SET", key(0), fmt.Sprint(r, i, n)}, []string{"EXEC"})
						default:
							w.one("SET", k, fmt.Sprint(r, i, n))
						}
					}
					mu.Lock()
					defer mu.Unlock()
					writes += w.ops
				})
			}
			for i, k := range caches {
				w := s.worker(i, s.rng.Uint64())
				readers.Go(func() {
					for {
						select {
						case <-stop:
							return
						default:
						}
						if err := k.get(key(w.rng.IntN(cached))); err != nil {
							t.Error(err)
							return
						}
						if w.rng.IntN(8) == 0 {
							if err := k.settle(); err != nil {
								t.Error(err)
								return
							}
						}
					}
				})
			}
			<-time.After(time.Duration(10+s.rng.IntN(100)) * time.Millisecond)
			sleeps := !s.mem && r%2 == 1
			if sleeps { // until all take it for dead, and then its writers go on
				if err := s.Process(2).Pause(); err != nil {
					t.Fatal(err)
				}
				<-time.After(6 * time.Second)
				if err := s.Process(2).Resume(); err != nil {
					t.Fatal(err)
				}
			} else {
				s.Kill(2)
			}
			writers.Wait()
			close(stop)
			readers.Wait()
			end()
			c := s.dial(1)
			s.until("no client has an old value", func() bool {
				stale := false
				now := map[string]string{}
				for i := range cached {
					now[key(i)] = c.do("GET", key(i))
				}
				for _, k := range caches {
					if err := k.settle(); err != nil {
						t.Fatal(err)
					}
					for name, v := range k.known {
						stale = stale || now[name] != v
					}
				}
				return !stale
			})
			for _, k := range caches {
				stats[0], stats[1], stats[2] = stats[0]+k.reads, stats[1]+k.hits, stats[2]+k.drops
			}
			if !sleeps {
				s.Restart(2)
			}
		}
		t.Logf("%d writes, %d reads, %d from the cache, %d messages", writes, stats[0], stats[1], stats[2])
		if stats[0] == 0 || stats[2] == 0 {
			t.Error("the test tested nothing")
		}
	})
}
