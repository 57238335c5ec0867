package server_test

import (
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// message is one of a channel, as RESP2 has it.
func message(channel, payload string) string {
	return fmt.Sprintf("1) \"message\"\n2) %q\n3) %q", channel, payload)
}

// subscribed makes a client that listens to a channel.
func (f *front) subscribed(channel string) *client {
	c := f.dial()
	if got := c.do("SUBSCRIBE", channel); !strings.Contains(got, "(integer) 1") {
		f.t.Fatal(got)
	}
	return c
}

// A message of a write that is not safe yet is not sent, nor is what came behind
// it, in the order in which it came.
func TestMessagesWaitForDurability(t *testing.T) {
	carriers(t, func(t *testing.T, pipes bool) {
		d := newDisk()
		f := startOn(t, d, pipes, "--notify-keyspace-events", "K$")
		listener, writer, admin := f.dial(), f.dial(), f.dial()
		listener.do("PSUBSCRIBE", "*")
		id := writer.id()
		d.hold()
		writer.send("SET", "k", "v")
		admin.ran(id, "set")
		writer.send("PUBLISH", "c", "x") // it depends on nothing
		if got := admin.do("PUBLISH", "c", "y"); got != "(integer) 1" {
			t.Error(got)
		}
		if !listener.silent() {
			t.Error("an event was told before it was safe")
		}
		d.sync()
		listener.want("1) \"pmessage\"\n2) \"*\"\n3) \"__keyspace@0__:k\"\n4) \"set\"")
		writer.want("OK", "(integer) 1")
	})
}

// Nothing is told of a write whose commit failed.
func TestNoMessageOfAFailedCommit(t *testing.T) {
	carriers(t, func(t *testing.T, pipes bool) {
		d := newDisk()
		f := startOn(t, d, pipes, "--notify-keyspace-events", "KA")
		listener, writer := f.dial(), f.dial()
		listener.do("PSUBSCRIBE", "*")
		d.refuseNext(fmt.Errorf("no room"))
		if got := writer.do("SET", "k", "v"); !strings.HasPrefix(got, "(error)") {
			t.Error(got)
		}
		writer.do("SET", "other", "v")
		listener.want("1) \"pmessage\"\n2) \"*\"\n3) \"__keyspace@0__:other\"\n4) \"set\"")
	})
}

// Who has the reply of PUBLISH knows that a subscriber gets the message before the
// reply of anything that it sends from then on.
func TestMessageComesBeforeALaterReply(t *testing.T) {
	carriers(t, func(t *testing.T, pipes bool) {
		f := start(t, pipes, "--io-threads", "4")
		publisher := f.dial()
		var all []*client
		for range 8 {
			c := f.dial()
			c.do("HELLO", "3")
			c.do("SUBSCRIBE", "c")
			all = append(all, c)
		}
		for i := range 200 {
			text := strconv.Itoa(i)
			if got := publisher.do("PUBLISH", "c", text); got != "(integer) 8" {
				t.Fatal(got)
			}
			for _, c := range all {
				c.send("ECHO", "after "+text)
			}
			for _, c := range all {
				c.want("1> \"message\"\n2> \"c\"\n3> \""+text+"\"", `"after `+text+`"`)
			}
		}
	})
}

// Many publish to many, come and go, and each subscriber gets the messages of each
// publisher in order, without a gap.
func TestMessagesInOrder(t *testing.T) {
	carriers(t, func(t *testing.T, pipes bool) {
		f := start(t, pipes, "--io-threads", "3")
		const publishers, each = 4, 300
		var listeners []*client
		for range 6 {
			c := f.subscribed("c")
			c.do("PSUBSCRIBE", "[c]")
			listeners = append(listeners, c)
		}
		var work sync.WaitGroup
		done := make(chan struct{})
		passing := f.dial()
		work.Go(func() { // one who comes and goes
			for {
				select {
				case <-done:
					return
				default:
				}
				passing.raw(frame("SUBSCRIBE", "c") + frame("UNSUBSCRIBE", "c"))
				for n := 0; n < 2; { // messages may come between the two answers
					if got := passing.read(); strings.Contains(got, "subscribe") {
						n++
					}
				}
			}
		})
		for p := range publishers {
			c := f.dial()
			work.Go(func() {
				for i := range each {
					c.send("PUBLISH", "c", fmt.Sprintf("%d %d", p, i))
				}
				for range each {
					c.read()
				}
			})
		}
		for _, c := range listeners {
			next := map[string]map[int]int{"message": {}, "pmessage": {}}
			for range 2 * publishers * each {
				v, err := c.Read()
				if err != nil {
					t.Fatal(err)
				}
				kind, text := v.Elems[0].Str, v.Elems[len(v.Elems)-1].Str
				var p, i int
				fmt.Sscan(text, &p, &i)
				if next[kind][p] != i {
					t.Fatalf("%s of %d is %d, want %d", kind, p, i, next[kind][p])
				}
				next[kind][p]++
			}
		}
		close(done)
		work.Wait()
	})
}

// No message comes behind the answer to UNSUBSCRIBE or RESET.
func TestNothingBehindUnsubscribe(t *testing.T) {
	carriers(t, func(t *testing.T, pipes bool) {
		f := start(t, pipes, "--io-threads", "2")
		publisher, done := f.dial(), make(chan struct{})
		var work sync.WaitGroup
		work.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
					publisher.do("PUBLISH", "c", "x")
				}
			}
		})
		c := f.dial()
		for i := range 300 {
			end := []string{"UNSUBSCRIBE", "RESET"}[i%2]
			c.do("SUBSCRIBE", "c")
			c.send(end)
			for {
				if got := c.read(); strings.Contains(strings.ToUpper(got), end) {
					break
				}
			}
			if got := c.do("ECHO", "x"); got != `"x"` {
				t.Fatalf("behind %s came %s", end, got)
			}
		}
		close(done)
		work.Wait()
	})
}

// A subscriber that does not read is closed by the limit of its class; others stay.
func TestSubscriberThatDoesNotRead(t *testing.T) {
	carriers(t, func(t *testing.T, pipes bool) {
		f := start(t, pipes, "--client-output-buffer-limit", "pubsub 1mb 0 0")
		deaf, reader, publisher := f.deafDial(), f.subscribed("c"), f.dial()
		id := deaf.id()
		deaf.do("SUBSCRIBE", "c")
		text := strings.Repeat("x", 100_000)
		until(t, "the deaf one is closed", func() bool {
			publisher.do("PUBLISH", "c", text)
			if v, err := reader.Read(); err != nil || v.Elems[2].Str != text {
				t.Fatal(v, err)
			}
			return !strings.Contains(publisher.do("CLIENT", "LIST"), "id="+id+" ")
		})
		publisher.do("PUBLISH", "c", "last")
		reader.want(message("c", "last"))
	})
}

// The subscribed state is seen in CLIENT LIST and INFO, and ends with the client.
func TestSubscribersAreCounted(t *testing.T) {
	carriers(t, func(t *testing.T, pipes bool) {
		f := start(t, pipes)
		c, admin := f.dial(), f.dial()
		id := c.id()
		c.raw(frame("SUBSCRIBE", "a", "b") + frame("PSUBSCRIBE", "p*") + frame("SSUBSCRIBE", "s"))
		for range 4 {
			c.read()
		}
		for name, want := range map[string]string{"sub": "2", "psub": "1", "ssub": "1", "flags": "P"} {
			if got := admin.field(id, name); got != want {
				t.Errorf("%s is %q, want %q", name, got, want)
			}
		}
		if got := admin.do("CLIENT", "LIST", "TYPE", "pubsub"); strings.Count(got, "id=") != 1 || !strings.Contains(got, "id="+id+" ") {
			t.Errorf("of type pubsub: %s", got)
		}
		if got := admin.do("CLIENT", "LIST", "TYPE", "normal"); strings.Contains(got, "id="+id+" ") {
			t.Errorf("of type normal: %s", got)
		}
		figures := func(want ...string) func() bool {
			return func() bool {
				for _, w := range want {
					name, value, _ := strings.Cut(w, ":")
					if admin.info("everything", name) != value {
						return false
					}
				}
				return true
			}
		}
		until(t, "they are counted", figures("pubsub_channels:2", "pubsub_patterns:1", "pubsubshard_channels:1", "pubsub_clients:1"))
		if got := admin.do("CLIENT", "KILL", "TYPE", "pubsub"); got != "(integer) 1" {
			t.Error(got)
		}
		until(t, "they are gone", figures("pubsub_channels:0", "pubsub_patterns:0", "pubsubshard_channels:0", "pubsub_clients:0"))
	})
}

// Many channels and patterns cost a publisher nothing.
func TestManyChannels(t *testing.T) {
	t.Parallel()
	f := start(t, false)
	c, publisher := f.dial(), f.dial()
	const n = 50_000
	for from := 0; from < n; from += 1000 {
		channels, patterns := []string{"SUBSCRIBE"}, []string{"PSUBSCRIBE"}
		for i := from; i < from+1000; i++ {
			channels = append(channels, "user:"+strconv.Itoa(i))
			patterns = append(patterns, "room:"+strconv.Itoa(i)+":*")
		}
		c.raw(frame(channels...) + frame(patterns...))
		for range 2000 {
			c.read()
		}
	}
	// The fastest of many is what a message costs, however busy the machine is.
	fastest := func(receivers string) time.Duration {
		least := time.Hour
		for range 1000 {
			start := time.Now()
			if got := publisher.do("PUBLISH", "room:777:x", ""); got != "(integer) "+receivers {
				t.Fatal(got)
			}
			least = min(least, time.Since(start))
		}
		return least
	}
	among := fastest("1")
	c.raw(frame("UNSUBSCRIBE") + frame("PUNSUBSCRIBE"))
	for range 2*n + 1000 {
		c.read()
	}
	if got := publisher.do("PUBSUB", "NUMPAT"); got != "(integer) 0" {
		t.Error(got)
	}
	if got := publisher.do("PUBSUB", "CHANNELS"); got != "(empty array)" {
		t.Error(got)
	}
	if alone := fastest("0"); among > 8*alone {
		t.Errorf("a message takes %s among %d patterns, %s without them", among, n, alone)
	}
}
