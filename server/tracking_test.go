package server_test

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"redoubt/engine"
	"redoubt/engine/mem"
	"redoubt/internal/race"
	"redoubt/internal/respclient"
)

// caching is a client that keeps what it has read until it is told to drop it. It
// counts versions: a value never goes back.
type caching struct {
	*client
	rand *rand.Rand
	kept map[string]string
}

// fetch sends a read and takes what comes until its reply. The values of the keys
// are kept, and dropped again by messages behind the reply.
func (c *caching) fetch(how []string, keys ...string) {
	c.t.Helper()
	for _, args := range respCommands(how, keys) {
		c.send(args...)
		v := c.next()
		if v.IsError() {
			c.t.Errorf("%v: %s", args, v)
		}
		switch args[0] {
		case "GET":
			c.kept[args[1]] = v.Str
		case "MGET", "EXEC", "EVAL":
			for i, k := range keys {
				c.kept[k] = v.Elems[i].Str
			}
		}
	}
}

func respCommands(how, keys []string) [][]string {
	if how[0] == "MULTI" {
		all := [][]string{{"MULTI"}}
		for _, k := range keys {
			all = append(all, []string{"GET", k})
		}
		return append(all, []string{"EXEC"})
	}
	return [][]string{append(how, keys...)}
}

// next reads a reply, and what is pushed before it.
func (c *caching) next() respclient.Value {
	c.t.Helper()
	for {
		v, err := c.Read()
		if err != nil {
			c.t.Fatal(err)
		}
		if v.Kind != respclient.Push {
			return v
		}
		c.drop(v)
	}
}

func (c *caching) drop(v respclient.Value) {
	if v.Elems[0].Str != "invalidate" {
		c.t.Errorf("pushed: %s", v)
		return
	}
	if len(v.Elems[1].Elems) == 0 {
		clear(c.kept)
	}
	for _, k := range v.Elems[1].Elems {
		delete(c.kept, k.Str)
	}
}

// TestNoStaleValueIsKept: clients read and write the same few keys in all ways,
// on several loops and on workers; when the writers are done, and a client has
// taken what was sent to it, what it still keeps is what the server has.
func TestNoStaleValueIsKept(t *testing.T) {
	carriers(t, func(t *testing.T, pipes bool) {
		seed := uint64(time.Now().UnixNano())
		t.Logf("seed %d", seed)
		f := start(t, pipes, "--io-threads", "4")
		const keys, readers, writers = 5, 6, 4
		const script = "return {redis.call('GET', KEYS[1]) or '', redis.call('GET', KEYS[2]) or ''}"
		key := func(r *rand.Rand) string { return "k" + strconv.Itoa(r.IntN(keys)) }
		for round := range race.Or(4, 15) {
			var all []*caching
			var work, writing sync.WaitGroup
			written := make(chan struct{})
			for i := range readers {
				c := &caching{f.dial(), rand.New(rand.NewPCG(seed, uint64(100*round+i))), map[string]string{}}
				c.do("HELLO", "3")
				all = append(all, c)
				work.Go(func() {
					if c.rand.IntN(2) == 0 {
						time.Sleep(time.Duration(c.rand.IntN(1000)) * time.Microsecond) // somebody writes when it begins to track
					}
					c.do("CLIENT", "TRACKING", "ON")
					for {
						switch c.rand.IntN(8) {
						case 0:
							c.fetch([]string{"MGET"}, key(c.rand), key(c.rand))
						case 1:
							c.fetch([]string{"MULTI"}, key(c.rand), key(c.rand))
						case 2:
							c.fetch([]string{"EVAL", script, "2"}, key(c.rand), key(c.rand))
						case 3: // it is for a worker
							list := make([]string, 2100)
							for i := range list {
								list[i] = key(c.rand)
							}
							c.fetch([]string{"MGET"}, list...)
						default:
							c.fetch([]string{"GET"}, key(c.rand))
						}
						select {
						case <-written:
							return
						default:
						}
					}
				})
			}
			for i := range writers {
				c := f.dial()
				r := rand.New(rand.NewPCG(seed, uint64(100*round+50+i)))
				writing.Go(func() {
					for n := range 150 {
						text := fmt.Sprintf("%d.%d", i, n)
						switch r.IntN(12) {
						case 0:
							c.do("DEL", key(r))
						case 1:
							c.do("MSET", key(r), text, key(r), text)
						case 2:
							c.raw(frame("MULTI") + frame("SET", key(r), text) + frame("APPEND", key(r), "x") + frame("EXEC"))
							for range 4 {
								c.read()
							}
						case 3:
							c.do("SET", key(r), text, "PX", "1")
						case 4:
							if r.IntN(10) == 0 {
								c.do("FLUSHALL")
							}
						case 5: // a pipeline, committed as one
							c.raw(strings.Repeat(frame("SET", key(r), text), 20))
							for range 20 {
								c.read()
							}
						default:
							c.do("SET", key(r), text)
						}
					}
				})
			}
			writing.Wait()
			close(written)
			work.Wait()
			admin := f.dial()
			now := map[string]string{}
			until(t, "no key expires any more", func() bool {
				for i := range keys {
					k := "k" + strconv.Itoa(i)
					if ttl := admin.do("PTTL", k); ttl != "(integer) -1" && ttl != "(integer) -2" {
						return false
					}
					admin.do("EXISTS", k)
					now[k] = get(admin, k)
				}
				return true
			})
			for _, c := range all {
				until(t, "what is kept is what there is", func() bool {
					c.send("PING")
					c.next()
					for k, v := range c.kept {
						if v != now[k] {
							return false // an expiry may be told later
						}
					}
					return true
				})
				c.Close()
			}
		}
	})
}

func get(c *client, key string) string {
	v, err := c.Do("GET", key)
	if err != nil {
		c.t.Fatal(err)
	}
	return v.Str
}

// The table of keys is bounded: readers of a key that is forgotten drop it.
func TestTrackingTableIsBounded(t *testing.T) {
	carriers(t, func(t *testing.T, pipes bool) {
		f := start(t, pipes, "--tracking-table-max-keys", "10")
		c := &caching{f.dial(), nil, map[string]string{}}
		admin := f.dial()
		c.do("HELLO", "3")
		c.do("CLIENT", "TRACKING", "ON")
		for i := range 100 {
			c.fetch([]string{"GET"}, "k"+strconv.Itoa(i))
		}
		c.send("PING")
		c.next()
		if len(c.kept) != 10 {
			t.Errorf("%d keys are kept", len(c.kept))
		}
		for name, want := range map[string]string{"tracking_total_keys": "10", "tracking_total_items": "10", "tracking_clients": "1", "tracking_total_prefixes": "0"} {
			if got := admin.info("everything", name); got != want {
				t.Errorf("%s is %s, want %s", name, got, want)
			}
		}
		admin.do("CONFIG", "SET", "tracking-table-max-keys", "3")
		c.send("PING")
		c.next()
		if len(c.kept) != 3 || admin.info("everything", "tracking_total_keys") != "3" {
			t.Errorf("%d keys are kept, %s are remembered", len(c.kept), admin.info("everything", "tracking_total_keys"))
		}
		c.Close()
		until(t, "the client is forgotten", func() bool { return admin.info("everything", "tracking_clients") == "0" })
	})
}

// A message that a key has changed waits until that is safe.
func TestInvalidationWaitsForDurability(t *testing.T) {
	carriers(t, func(t *testing.T, pipes bool) {
		d := newDisk()
		f := startOn(t, d, pipes)
		reader, writer, admin := f.dial(), f.dial(), f.dial()
		reader.do("HELLO", "3")
		reader.do("CLIENT", "TRACKING", "ON")
		reader.do("GET", "k")
		id := writer.id()
		d.hold()
		writer.send("SET", "k", "v")
		admin.ran(id, "set")
		if !reader.silent() {
			t.Error("a change was told before it was safe")
		}
		d.sync()
		reader.want("1> \"invalidate\"\n2> 1) \"k\"")
		writer.want("OK")
	})
}

// A redirection to a client that has gone is told of, and seen.
func TestBrokenRedirection(t *testing.T) {
	carriers(t, func(t *testing.T, pipes bool) {
		f := start(t, pipes)
		other, c, writer := f.dial(), f.dial(), f.dial()
		id := other.id()
		c.do("HELLO", "3")
		c.do("CLIENT", "TRACKING", "ON", "REDIRECT", id)
		if got := writer.field(c.id(), "redir"); got != id {
			t.Errorf("redir is %s", got)
		}
		c.do("GET", "k")
		other.Close()
		until(t, "it is gone", func() bool { return !strings.Contains(writer.do("CLIENT", "LIST"), "id="+id+" ") })
		writer.do("SET", "k", "v")
		c.want("1> \"tracking-redir-broken\"\n2> (integer) " + id)
		if got := writer.field(c.id(), "flags"); got != "tR" {
			t.Errorf("flags are %s", got)
		}
	})
}

// late is an engine whose next commit of rows waits, before it is visible.
type late struct {
	engine.Engine
	armed         atomic.Bool
	waiting, open chan struct{}
}

func (g *late) Begin(o engine.ViewOptions) (engine.View, error) {
	v, err := g.Engine.Begin(o)
	return lateView{v, g}, err
}

type lateView struct {
	engine.View
	g *late
}

func (v lateView) Commit(b *engine.Batch) (engine.Ticket, error) {
	if v.g.armed.CompareAndSwap(true, false) {
		v.g.waiting <- struct{}{}
		<-v.g.open
	}
	return v.View.Commit(b)
}

// A write that began before anybody tracked, and so did not note its keys, has a
// client that read the old value meanwhile drop everything.
func TestWriteUnderWayWhenTrackingBegins(t *testing.T) {
	t.Parallel()
	g := &late{Engine: mem.New(), waiting: make(chan struct{}), open: make(chan struct{})}
	f := startOn(t, g, false, "--io-threads", "2")
	writer, reader := f.dial(), f.dial() // on different loops
	writer.do("SET", "k", "old")
	reader.do("HELLO", "3")
	g.armed.Store(true)
	writer.send("SET", "k", "new")
	<-g.waiting
	reader.do("CLIENT", "TRACKING", "ON")
	if got := reader.do("GET", "k"); got != `"old"` {
		t.Errorf("the write is seen before it is committed: %s", got)
	}
	close(g.open)
	writer.want("OK")
	reader.want("1> \"invalidate\"\n2> (nil)")
	if got := reader.do("GET", "k"); got != `"new"` {
		t.Error(got)
	}
}
