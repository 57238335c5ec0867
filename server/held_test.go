package server_test

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"redoubt/budget"
	"redoubt/engine/mem"
	"redoubt/server"
)

// What clients may hold: maxmemory-clients, and what is charged.

func (c *client) number(id, field string) int {
	c.t.Helper()
	n, _ := strconv.Atoi(c.field(id, field))
	return n
}

// Whatever a client makes the server hold counts, and it is closed when that is too much,
// while another goes on.
func TestClientsAreEvicted(t *testing.T) {
	many := func(args ...string) func(*client, *client) {
		return func(c, _ *client) {
			for i := 0; ; i++ {
				var all strings.Builder
				for j := range 100 {
					words := append([]string(nil), args...)
					words[len(words)-1] += fmt.Sprint(i*100 + j)
					all.WriteString(frame(words...))
				}
				if err := c.Write([]byte(all.String())); err != nil {
					return
				}
				for range 100 {
					if c.read() == "(closed)" {
						return
					}
				}
			}
		}
	}
	kinds := map[string]func(c, other *client){
		"half a command": func(c, _ *client) {
			c.raw("*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$2097000\r\n" + strings.Repeat("x", 2096000))
		},
		"many arguments": func(c, _ *client) {
			c.raw("*1000000\r\n$3\r\nDEL\r\n" + strings.Repeat("$1\r\nk\r\n", 150_000))
		},
		"a transaction of large commands": func(c, _ *client) {
			c.raw(frame("MULTI") + strings.Repeat(frame("SET", "k", strings.Repeat("x", 100_000)), 30))
		},
		"a transaction of small commands": func(c, _ *client) {
			c.raw(frame("MULTI") + strings.Repeat(frame("SET", "k", "v"), 30_000))
		},
		"messages": func(c, other *client) {
			c.do("SUBSCRIBE", "c")
			for other.do("PUBLISH", "c", strings.Repeat("x", 100_000)) == "(integer) 1" {
			}
		},
		"what monitors see": func(c, other *client) {
			id := c.id()
			for c.do("MONITOR"); other.field(id, "id") != ""; {
				other.do("ECHO", strings.Repeat("x", 100_000))
			}
		},
		"watched keys":  many("WATCH", "key"),
		"subscriptions": many("SUBSCRIBE", "channel"),
		"patterns":      many("PSUBSCRIBE", "pattern*"),
		"prefixes":      many("CLIENT", "TRACKING", "ON", "BCAST", "PREFIX", "prefix1234567890:"),
	}
	for name, fill := range kinds {
		t.Run(name, func(t *testing.T) {
			carriers(t, func(t *testing.T, pipes bool) {
				f := start(t, pipes, "--maxmemory-clients", "2mb")
				c, other := f.deafDial(), f.dial()
				id := c.id()
				if name == "prefixes" { // which must not overlap
					fill = func(c, _ *client) {
						for i := 0; c.do("CLIENT", "TRACKING", "ON", "BCAST", "PREFIX", fmt.Sprintf("%08d%s", i, strings.Repeat("p", 1000))) != "(closed)"; i++ {
						}
					}
				}
				fill(c, other)
				until(t, "it is closed", func() bool { return other.field(id, "id") == "" })
				if n := other.info("stats", "evicted_clients"); n != "1" {
					t.Errorf("%s were evicted", n)
				}
				if !strings.Contains(f.log.String(), "evicting a client") {
					t.Error("the log does not say so")
				}
				until(t, "memory is back", func() bool {
					n, _ := strconv.Atoi(other.info("redoubt", "clients_memory"))
					return n < 300_000
				})
			})
		})
	}
}

// The largest go first, and only as many as necessary; those that may not be evicted stay.
func TestEvictionOrder(t *testing.T) {
	carriers(t, func(t *testing.T, pipes bool) {
		f := start(t, pipes, "--maxmemory-clients", "0")
		admin := f.dial()
		half := func(n int, keep bool) string {
			c := f.dial()
			id := c.id()
			if keep {
				c.do("CLIENT", "NO-EVICT", "ON")
			}
			c.raw(fmt.Sprintf("*2\r\n$4\r\nECHO\r\n$%d\r\n%s", n, strings.Repeat("x", n)))
			until(t, "it has come", func() bool { return admin.number(id, "qbuf") == n })
			return id
		}
		small, large, middle, kept := half(200_000, false), half(900_000, false), half(500_000, false), half(950_000, true)
		is := func(want ...string) {
			t.Helper()
			for _, id := range []string{small, large, middle, kept} {
				there := false
				for _, w := range want {
					there = there || w == id
				}
				if (admin.field(id, "id") != "") != there {
					t.Errorf("client %s: want there %v\n%s", id, there, admin.do("CLIENT", "LIST"))
				}
			}
		}
		is(small, large, middle, kept)
		admin.do("CONFIG", "SET", "maxmemory-clients", "2000000")
		is(small, middle, kept)
		admin.do("CONFIG", "SET", "maxmemory-clients", "1400000")
		is(small, kept)
		// A percentage is one of maxmemory, whenever that changes.
		admin.do("CONFIG", "SET", "maxmemory", "10000000", "maxmemory-clients", "50%")
		is(small, kept)
		admin.do("CONFIG", "SET", "maxmemory", "2100000")
		is(kept)
		if n := admin.info("stats", "evicted_clients"); n != "3" && n != "4" { // with admin, maybe, at the end
			t.Errorf("%s were evicted", n)
		}
	})
}

// A command that can never fit is refused when it is announced.
func TestRequestThatDoesNotFit(t *testing.T) {
	carriers(t, func(t *testing.T, pipes bool) {
		f := start(t, pipes, "--maxmemory-clients", "2mb")
		c := f.dial()
		c.raw(frame("PING") + "*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$2097152\r\n")
		c.want("PONG")
		if got := c.read(); !strings.HasPrefix(got, `(error) OOM a request of 2097`) || !strings.Contains(got, "maxmemory-clients") {
			t.Error(got)
		}
		c.want("(closed)")
		// Many arguments add up.
		c = f.dial()
		c.raw("*3\r\n$3\r\nSET\r\n$1048576\r\n" + strings.Repeat("x", 1<<20) + "\r\n$1048576\r\n")
		if got := c.read(); !strings.HasPrefix(got, "(error) OOM") {
			t.Error(got)
		}
		// Who is not evicted may send it.
		c = f.dial()
		c.do("CLIENT", "NO-EVICT", "ON")
		if got := c.do("SET", "k", strings.Repeat("x", 3<<20)); got != "OK" {
			t.Error(got)
		}
		if got := f.dial().do("PING"); got != "PONG" {
			t.Error(got)
		}
	})
}

// The account is the sum of what CLIENT LIST tells, and nothing is left of clients that
// have gone.
func TestAccountOfClients(t *testing.T) {
	carriers(t, func(t *testing.T, pipes bool) {
		var b budget.Budget
		f := startWith(t, server.Options{Engine: mem.New(), Pipes: pipes, Budget: &b})
		admin := f.dial()
		admin.do("SET", "v", strings.Repeat("x", 1<<20))
		var all []*client
		for i := range 8 {
			c := f.deafDial()
			id := c.id()
			switch i {
			case 0:
				c.raw("*2\r\n$4\r\nECHO\r\n$300000\r\n" + strings.Repeat("x", 200_000))
				until(t, "it has come", func() bool { return admin.number(id, "qbuf") == 200_000 })
			case 1:
				c.raw(frame("MULTI") + frame("SET", "k", strings.Repeat("x", 200_000)))
				c.want("OK", "QUEUED")
			case 2:
				c.do("SUBSCRIBE", "c")
			case 3:
				c.do("MONITOR")
			case 4:
				c.raw(strings.Repeat(frame("GET", "v"), 10))
				until(t, "replies wait", func() bool { return admin.number(id, "omem") > 1<<20 })
			case 5:
				c.do("WATCH", "a", "b")
				c.send("BLPOP", strings.Repeat("q", 100_000), "0")
				until(t, "it waits", func() bool { return admin.number(id, "tot-mem") > 200_000 })
			case 6:
				c.do("CLIENT", "TRACKING", "ON", "BCAST", "PREFIX", "p")
			}
			all = append(all, c)
		}
		for range 20 {
			admin.do("PUBLISH", "c", strings.Repeat("x", 50_000))
		}
		until(t, "the sums agree", func() bool {
			sum := int64(0)
			for line := range strings.Lines(mustDo(t, admin, "CLIENT", "LIST")) {
				_, rest, _ := strings.Cut(line, "tot-mem=")
				n, _ := strconv.ParseInt(rest[:strings.IndexByte(rest, ' ')], 10, 64)
				sum += n
			}
			return sum == b.Clients.Used()
		})
		if n, _ := strconv.ParseInt(admin.info("memory", "mem_clients_normal"), 10, 64); n < 1<<20 {
			t.Errorf("mem_clients_normal is %d", n)
		}
		for _, c := range append(all, admin) {
			c.Close()
		}
		until(t, "nothing is charged", func() bool { return b.Clients.Used() == 0 })
	})
}

func mustDo(t *testing.T, c *client, args ...string) string {
	t.Helper()
	v, err := c.Do(args...)
	if err != nil {
		t.Fatal(err)
	}
	return v.Str
}

// A large string that nobody reads costs little, and comes whole and in order.
func TestLargeStringsGoOutInParts(t *testing.T) {
	carriers(t, func(t *testing.T, pipes bool) {
		f := start(t, pipes)
		c, admin := f.dial(), f.dial()
		want := strings.Repeat("0123456789abcdef", 1<<19) + "end"
		admin.do("SET", "v", want)
		admin.do("SETRANGE", "sparse", "9000000", "x")
		id := c.id()
		c.raw(frame("GET", "v") + frame("GETRANGE", "v", "5", "-1") + frame("GET", "sparse") + frame("MGET", "v", "none", "v") + frame("PING"))
		until(t, "it runs", func() bool { return admin.number(id, "tot-mem") > 1<<18 })
		if n := admin.number(id, "tot-mem"); n > 2<<20 {
			t.Errorf("it costs %d bytes", n)
		}
		for i, w := range []string{want, want[5:], strings.Repeat("\x00", 9000000) + "x"} {
			if v, err := c.Read(); err != nil || v.Str != w {
				t.Fatalf("reply %d: %d bytes, %v", i, len(v.Str), err)
			}
		}
		v, err := c.Read()
		if err != nil || len(v.Elems) != 3 || v.Elems[0].Str != want || v.Elems[2].Str != want {
			t.Fatalf("MGET: %d elements, %v", len(v.Elems), err)
		}
		c.want("PONG")
	})
}

// The table of what clients have read takes a part of what all may hold, whatever the
// length of the keys.
func TestTrackedKeysAreBounded(t *testing.T) {
	carriers(t, func(t *testing.T, pipes bool) {
		var b budget.Budget
		f := startWith(t, server.Options{Engine: mem.New(), Pipes: pipes, Budget: &b}, "--maxmemory-clients", "4mb")
		c, admin := f.dial(), f.dial()
		c.do("HELLO", "3")
		c.do("CLIENT", "TRACKING", "ON")
		long := strings.Repeat("k", 10_000)
		for i := range 300 {
			c.send("GET", long+strconv.Itoa(i))
		}
		for nulls := 0; nulls < 300; {
			if c.read() == "(nil)" { // else it is told to drop a key
				nulls++
			}
		}
		if n, _ := strconv.Atoi(admin.info("stats", "tracking_total_keys")); n < 50 || n > 104 {
			t.Errorf("%d keys are remembered", n)
		}
		c.Close()
		admin.Close()
		until(t, "nothing is charged", func() bool { return b.Clients.Used() == 0 })
	})
}
