package server_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"
)

// blocked waits until so many clients wait.
func (c *client) blocked(n int) {
	c.t.Helper()
	until(c.t, fmt.Sprintf("%d clients wait", n), func() bool { return c.info("clients", "blocked_clients") == fmt.Sprint(n) })
}

const nullArray, popped = "(nil array)", "1) \"q\"\n2) \"%s\""

func pop(element string) string { return fmt.Sprintf(popped, element) }

func TestBlockingPop(t *testing.T) {
	carriers(t, func(t *testing.T, pipes bool) {
		f := start(t, pipes)
		first, second, c := f.dial(), f.dial(), f.dial()
		first.raw(frame("BLPOP", "q", "0") + frame("PING")) // what follows waits too
		c.blocked(1)
		second.send("BLPOP", "other", "q", "0")
		c.blocked(2)
		if got := c.field(second.idOf(c, "blpop"), "flags"); got != "b" {
			t.Errorf("flags of a client that waits: %s", got)
		}
		// The one who waits is served before the next command of whoever pushed.
		c.raw(frame("RPUSH", "q", "a") + frame("LPOP", "q") + frame("RPUSH", "q", "b", "c") + frame("LPOP", "q"))
		c.want("(integer) 1", "(nil)", "(integer) 2", `"c"`)
		first.want(pop("a"), "PONG")
		second.want(pop("b"))
		c.blocked(0)
	})
}

// A command that waited is in the slow log when it was served, not before.
func TestSlowlogOfWaiting(t *testing.T) {
	carriers(t, func(t *testing.T, pipes bool) {
		f := start(t, pipes, "--slowlog-log-slower-than", "0")
		waits, c := f.dial(), f.dial()
		waits.send("BLPOP", "q", "0")
		c.blocked(1)
		logged := func() bool { return strings.Contains(c.do("SLOWLOG", "GET", "-1"), "\"BLPOP\"") }
		if logged() {
			t.Error("a command that waits is in the slow log")
		}
		c.do("RPUSH", "q", "a")
		waits.want(pop("a"))
		if !logged() {
			t.Error("a command that waited and was served is not in the slow log")
		}
	})
}

// A command that waited is listed behind those of the EXEC that served it, although both
// are noted by whoever comes first.
func TestSlowlogOfWaitingForExec(t *testing.T) {
	carriers(t, func(t *testing.T, pipes bool) {
		f := start(t, pipes, "--slowlog-log-slower-than", "0")
		waits, c := f.dial(), f.dial()
		waits.send("BLPOP", "q", "0")
		c.blocked(1)
		c.do("MULTI")
		c.do("LPUSH", "q", "a")
		c.do("SLOWLOG", "RESET") // has the transaction run on a worker
		c.do("EXEC")
		waits.want(pop("a"))
		if newest := c.do("SLOWLOG", "GET", "1"); !strings.Contains(newest, "\"BLPOP\"") {
			t.Errorf("the newest entry is %s", newest)
		}
	})
}

// idOf finds the client whose last command is this, the last one if there are
// several.
func (c *client) idOf(via *client, cmd string) (id string) {
	c.t.Helper()
	v, err := via.Do("CLIENT", "LIST")
	if err != nil {
		c.t.Fatal(err)
	}
	for line := range strings.Lines(v.Str) {
		if strings.Contains(line, " cmd="+cmd+" ") {
			id = strings.TrimPrefix(strings.Fields(line)[0], "id=")
		}
	}
	return id
}

func TestBlockingTimeout(t *testing.T) {
	carriers(t, func(t *testing.T, pipes bool) {
		f := start(t, pipes)
		c := f.dial()
		begin := time.Now()
		if got := c.do("BLPOP", "q", "0.02"); got != nullArray {
			t.Errorf("after its time: %s", got)
		}
		if took := time.Since(begin); took < 20*time.Millisecond {
			t.Errorf("after %v", took)
		}
		if got := c.do("BLMOVE", "q", "p", "LEFT", "RIGHT", "0.001"); got != nullArray {
			t.Errorf("after its time: %s", got)
		}
		c.blocked(0)
	})
}

func TestClientUnblock(t *testing.T) {
	carriers(t, func(t *testing.T, pipes bool) {
		f := start(t, pipes)
		w, c := f.dial(), f.dial()
		id := w.id()
		for _, how := range []struct{ word, reply string }{
			{"TIMEOUT", nullArray}, {"ERROR", "(error) UNBLOCKED client unblocked via CLIENT UNBLOCK"},
		} {
			w.send("BLPOP", "q", "0")
			c.blocked(1)
			if got := c.do("CLIENT", "UNBLOCK", id, how.word); got != "(integer) 1" {
				t.Errorf("%s: %s", how.word, got)
			}
			w.want(how.reply)
			if got := c.do("CLIENT", "UNBLOCK", id, how.word); got != "(integer) 0" {
				t.Errorf("nobody waits: %s", got)
			}
		}
		if got := w.do("PING"); got != "PONG" {
			t.Error(got)
		}
	})
}

func TestBlockedClientLeaves(t *testing.T) {
	carriers(t, func(t *testing.T, pipes bool) {
		f := start(t, pipes)
		w, k, c := f.dial(), f.dial(), f.dial()
		id := k.id()
		w.send("BLPOP", "q", "0")
		k.send("BLPOP", "q", "0")
		c.blocked(2)
		w.Close()
		c.blocked(1)
		c.do("CLIENT", "KILL", "ID", id)
		c.blocked(0)
		c.do("RPUSH", "q", "a")
		if got := c.do("LLEN", "q"); got != "(integer) 1" {
			t.Errorf("somebody who had left took the element: %s", got)
		}
		// A server stops though somebody waits.
		f.dial().send("BLPOP", "p", "0")
		c.blocked(1)
		f.stop()
	})
}

// A command that waits was run on a worker, since its rows were not in memory.
func TestBlockingOnColdRows(t *testing.T) {
	carriers(t, func(t *testing.T, pipes bool) {
		f, eng := startCold(t, pipes)
		w, c := f.dial(), f.dial()
		eng.Set(keyRows(""))
		for i := range 20 {
			element := fmt.Sprint(i)
			w.send("BLPOP", "q", "0")
			c.blocked(1)
			c.do("RPUSH", "q", element)
			w.want(pop(element))
		}
		c.blocked(0)
		for range 100 { // the time may be over before the session waits
			if got := w.do("BLPOP", "q", "0.001"); got != nullArray {
				t.Fatal(got)
			}
		}
	})
}

// What is too large for an event loop reaches who waits for it all the same.
func TestBlockedForLargeElement(t *testing.T) {
	carriers(t, func(t *testing.T, pipes bool) {
		f := start(t, pipes)
		reader, taker, c := f.dial(), f.dial(), f.dial()
		for _, size := range []int{10, 1_000_000, 1_500_000, 5_000_000} {
			value := strings.Repeat("v", size)
			reader.send("XREAD", "BLOCK", "0", "STREAMS", "s", "$")
			taker.send("BLPOP", "q", "0")
			c.blocked(2)
			c.do("XADD", "s", "*", "f", value)
			c.do("RPUSH", "q", value)
			shown := value // large ones are shown by their size
			if size > 10 {
				shown = fmt.Sprintf("(bulk %d bytes", size)
			}
			for _, waits := range []*client{reader, taker} {
				if got := waits.read(); !strings.Contains(got, shown) {
					t.Fatalf("%d bytes: %.200s", size, got)
				}
			}
		}
		c.blocked(0)
	})
}

// A client that leaves while a worker finds that it must wait takes nothing.
func TestClientLeavesBeforeItWaits(t *testing.T) {
	t.Parallel()
	f, eng := startCold(t, false)
	w, c := f.dial(), f.dial()
	id := w.id()
	reading, leave := make(chan struct{}), make(chan struct{})
	eng.Set(keyRows("q"))
	eng.OnRead(sync.OnceFunc(func() {
		close(reading)
		<-leave
	}))
	w.send("BLPOP", "q", "0")
	<-reading
	if got := c.do("CLIENT", "KILL", "ID", id); got != "(integer) 1" {
		t.Fatal(got)
	}
	close(leave)
	eng.Set(nil)
	for range 20 { // whenever it comes to wait
		c.do("RPUSH", "q", "a")
		f.patience()
	}
	if got := c.do("LLEN", "q"); got != "(integer) 20" {
		t.Errorf("it has taken something: %s", got)
	}
	c.blocked(0)
}

// A large reply goes out in parts: little of it is held for a client that reads
// slowly, and writers of the key do not wait for him.
func TestLargeReplyInParts(t *testing.T) {
	carriers(t, func(t *testing.T, pipes bool) {
		f := start(t, pipes)
		slow, c := f.dial(), f.dial()
		id := slow.id()
		const rounds, each = 200, 100
		element := strings.Repeat("x", 1000)
		args := []string{"RPUSH", "q"}
		for range each {
			args = append(args, element)
		}
		for range rounds {
			c.do(args...)
		}
		slow.raw(frame("LRANGE", "q", "0", "-1") + frame("PING"))
		until(t, "the reply is under way", func() bool { return c.field(id, "omem") > "0" })
		c.do("DEL", "q")
		c.do("FLUSHALL")
		if n := c.field(id, "omem"); len(n) > 6 {
			t.Errorf("%s bytes are held for a client", n)
		}
		v, err := slow.Read()
		if err != nil {
			t.Fatal(err)
		}
		if len(v.Elems) != rounds*each || v.Elems[rounds*each-1].Str != element {
			t.Errorf("a reply of %d elements", len(v.Elems))
		}
		slow.want("PONG")

		// A client that leaves in the middle hurts nobody.
		for range rounds {
			c.do(args...)
		}
		slow.send("LRANGE", "q", "0", "-1")
		until(t, "the reply is under way", func() bool { return c.field(id, "omem") > "0" })
		slow.Close()
		until(t, "it is forgotten", func() bool { return c.field(id, "id") == "" })
		if got := c.do("LLEN", "q"); got != fmt.Sprintf("(integer) %d", rounds*each) {
			t.Error(got)
		}
	})
}
