package server_test

import (
	"fmt"
	"net"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"

	"redoubt/engine"
	"redoubt/internal/sharedmem"
)

func TestClientListTellsTheTruth(t *testing.T) {
	carriers(t, func(t *testing.T, pipes bool) {
		f := start(t, pipes)
		c, admin := f.dial(), f.dial()
		id := c.id()
		local := c.Conn().LocalAddr().String()
		for name, want := range map[string]string{
			"id": id, "addr": local, "laddr": f.addr, "name": "", "age": "0", "idle": "0", "flags": "N", "db": "0", "sub": "0", "psub": "0",
			"ssub": "0", "multi": "-1", "qbuf": "0", "argv-mem": "0", "multi-mem": "0", "obl": "0", "oll": "0", "omem": "0",
			"events": "r", "cmd": "client|id", "user": "default", "redir": "-1", "resp": "2", "lib-name": "", "lib-ver": "",
		} {
			if got := admin.field(id, name); got != want {
				t.Errorf("%s is %q, want %q", name, got, want)
			}
		}
		c.raw(frame("SELECT", "3") + frame("CLIENT", "NO-TOUCH", "ON") + frame("HELLO", "3"))
		for range 3 {
			c.read()
		}
		c.raw("*2\r\n$3\r\nGET\r\n$1000000\r\n" + strings.Repeat("x", 1000))
		until(t, "half a command is there", func() bool { return admin.field(id, "qbuf") == "1000" }) // as Redis counts
		if free, _ := strconv.Atoi(admin.field(id, "qbuf-free")); free < 10_000 || free > 200_000 {
			t.Errorf("room for %d bytes", free)
		}
		for name, want := range map[string]string{"db": "3", "flags": "T", "resp": "3", "cmd": "hello"} {
			if got := admin.field(id, name); got != want {
				t.Errorf("%s is %q, want %q", name, got, want)
			}
		}
	})
}

// The output of a client that does not read is shown.
func TestClientListShowsUnreadReplies(t *testing.T) {
	carriers(t, func(t *testing.T, pipes bool) {
		f := start(t, pipes)
		c, admin := f.deafDial(), f.dial()
		id := c.id()
		c.do("SET", "v", strings.Repeat("x", 1<<20))
		c.raw(strings.Repeat(frame("GET", "v"), 20))
		until(t, "replies wait", func() bool {
			n, _ := strconv.Atoi(admin.field(id, "omem"))
			return n > 1<<20 && admin.number(id, "oll") > 0 && admin.field(id, "events") == "rw"
		})
	})
}

// A client is killed at once, whatever it does: idle, held back, in the hands
// of a worker, or not reading.
func TestKill(t *testing.T) {
	carriers(t, func(t *testing.T, pipes bool) {
		d := newDisk()
		f := startOn(t, d, pipes)
		admin := f.dial()
		admin.do("SET", "v", strings.Repeat("x", 1<<19)) // no worker is needed to read it
		open := d.block()
		defer open()
		kinds := map[string]func(*client){
			"idle":    func(*client) {},
			"half":    func(c *client) { c.raw("*1\r\n$4\r\nPI") },
			"monitor": func(c *client) { c.do("MONITOR") },
			"worker":  func(c *client) { c.send("KEYS", "*"); <-d.waiting },
			"deaf": func(c *client) {
				c.raw(strings.Repeat(frame("GET", "v"), 40))
			},
			"paused": func(c *client) {
				admin.do("CLIENT", "PAUSE", "100000", "WRITE")
				c.send("SET", "k", "v")
				until(t, "it is held back", func() bool { return admin.info("clients", "blocked_clients") == "1" })
			},
		}
		for _, name := range []string{"idle", "half", "monitor", "worker", "deaf", "paused"} {
			c := f.deafDial()
			id := c.id()
			kinds[name](c)
			if name == "deaf" {
				until(t, "replies wait", func() bool { return admin.number(id, "oll") > 0 })
			}
			if got := admin.do("CLIENT", "KILL", "ID", id); got != "(integer) 1" {
				t.Errorf("%s: %s", name, got)
			}
			if got := admin.do("CLIENT", "LIST", "ID", id); got != `""` {
				t.Errorf("%s: %s", name, got)
			}
			if name == "deaf" {
				continue // what the sockets hold still comes
			}
			for got := c.read(); got != "(closed)"; got = c.read() {
				if name != "monitor" {
					t.Errorf("%s: it was answered %s", name, got)
				}
			}
		}
		if n := admin.info("clients", "blocked_clients"); n != "0" {
			t.Errorf("%s are held back", n)
		}
		admin.do("CLIENT", "UNPAUSE")
		open()
		if got := admin.do("EXISTS", "k"); got != "(integer) 0" {
			t.Error("a command of a killed client was run")
		}
	})
}

func TestKillByAddress(t *testing.T) {
	carriers(t, func(t *testing.T, pipes bool) {
		f := start(t, pipes)
		a, b, c, admin := f.dial(), f.dial(), f.dial(), f.dial()
		addr := func(c *client) string { return c.Conn().LocalAddr().String() }
		if got := admin.do("CLIENT", "KILL", addr(a)); got != "OK" {
			t.Error(got)
		}
		a.want("(closed)")
		if got := admin.do("CLIENT", "KILL", "ADDR", addr(b), "LADDR", f.addr, "USER", "default", "TYPE", "normal"); got != "(integer) 1" {
			t.Error(got)
		}
		b.want("(closed)")
		if got := admin.do("CLIENT", "KILL", "LADDR", f.addr); got != "(integer) 1" {
			t.Error(got)
		}
		c.want("(closed)")
		// The old form kills the caller, behind its answer.
		if got := admin.do("CLIENT", "KILL", addr(admin)); got != "OK" {
			t.Error(got)
		}
		admin.want("(closed)")
	})
}

// Many clients look at, kill, hold back and name each other.
func TestClientsMeddle(t *testing.T) {
	carriers(t, func(t *testing.T, pipes bool) {
		f := start(t, pipes, "--io-threads", "2")
		var all sync.WaitGroup
		for i := range 8 {
			all.Go(func() {
				for j := range 25 {
					conn, err := net.Dial("tcp", f.addr)
					if err != nil {
						t.Error(err)
						return
					}
					c := &client{f.over(conn).Client, t}
					for _, words := range [][]string{
						{"CLIENT", "SETNAME", fmt.Sprint("c", i)}, {"CLIENT", "LIST"}, {"MONITOR"}, {"SET", "k", "v"}, {"KEYS", "*"},
						{"CLIENT", "PAUSE", "1"}, {"CLIENT", "KILL", "TYPE", "normal", "ID", strconv.Itoa(i*j + 1)}, {"INFO"}, {"RESET"},
						{"GET", "k"}, {"CLIENT", "UNPAUSE"},
					} {
						if c.Send(words...) != nil {
							break
						}
						if _, err := c.Read(); err != nil { // killed
							break
						}
					}
					c.Close()
				}
			})
		}
		all.Wait()
		admin := f.dial()
		until(t, "all are gone", func() bool { return admin.info("clients", "connected_clients") == "1" })
	})
}

var monitorText = regexp.MustCompile(`^\d{10}\.\d{6} \[0 127\.0\.0\.1:\d+\] "INCR" "n(\d+)"$`)

// A monitor sees the commands of each client in their order.
func TestMonitorKeepsOrder(t *testing.T) {
	carriers(t, func(t *testing.T, pipes bool) {
		f := start(t, pipes, "--io-threads", "2")
		m := f.dial()
		m.do("MONITOR")
		const clients, each = 4, 500
		var all sync.WaitGroup
		for range clients {
			c := f.dial()
			all.Go(func() {
				var b strings.Builder
				for i := range each {
					b.WriteString(frame("INCR", fmt.Sprint("n", i)))
				}
				c.raw(b.String())
				for range each {
					c.read()
				}
			})
		}
		seen := make(map[string]int)
		for range clients * each {
			line := m.read()
			p := monitorText.FindStringSubmatch(line)
			if p == nil {
				t.Fatal(line)
			}
			addr := strings.Fields(line)[2]
			if n, _ := strconv.Atoi(p[1]); n != seen[addr] {
				t.Fatalf("%s comes after %d", line, seen[addr]-1)
			}
			seen[addr]++
		}
		all.Wait()
	})
}

// A monitor that does not read slows nobody down and is closed by the limits.
func TestDeafMonitor(t *testing.T) {
	carriers(t, func(t *testing.T, pipes bool) {
		f := start(t, pipes, "--client-output-buffer-limit", "normal 1mb 0 0")
		m, c := f.deafDial(), f.dial()
		id := m.id()
		m.do("MONITOR")
		value := strings.Repeat("x", 10_000)
		until(t, "the monitor is closed", func() bool {
			for range 100 {
				if got := c.do("SET", "k", value); got != "OK" {
					t.Fatal(got)
				}
			}
			return c.field(id, "id") == ""
		})
		if got := c.do("PING"); got != "PONG" {
			t.Error(got)
		}
	})
}

// What a monitor was sent before it left is all that it gets.
func TestResetEndsMonitor(t *testing.T) {
	carriers(t, func(t *testing.T, pipes bool) {
		f := start(t, pipes)
		m, c := f.dial(), f.dial()
		for range 20 {
			m.do("MONITOR")
			c.raw(strings.Repeat(frame("PING"), 50))
			for range 50 {
				c.read()
			}
			m.send("RESET")
			for m.read() != "RESET" {
			}
			c.do("PING")
			if got := m.do("ECHO", "x"); got != `"x"` {
				t.Fatal(got)
			}
		}
	})
}

// slow is a shared store whose views begin when they may.
type slow struct {
	*sharedmem.Engine
	mu sync.RWMutex
}

func (s *slow) Begin(o engine.ViewOptions) (engine.View, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.Engine.Begin(o)
}

// A command that may wait is shown when it is handed to a worker: what comes after it
// may be shown before it is known whether it waits.
func TestMonitorShowsWhatMayWait(t *testing.T) {
	carriers(t, func(t *testing.T, pipes bool) {
		store := &slow{Engine: sharedmem.New().Open()}
		f := startOn(t, store, pipes)
		m, c := f.dial(), f.dial()
		m.do("MONITOR")
		store.mu.Lock()
		free := sync.OnceFunc(store.mu.Unlock)
		t.Cleanup(free)
		c.send("BLPOP", "k", "0")
		if line := m.read(); !strings.Contains(line, `"BLPOP" "k" "0"`) {
			t.Error(line)
		}
		free()
		f.dial().do("RPUSH", "k", "v")
		if got := c.read(); !strings.Contains(got, `"v"`) {
			t.Error(got)
		}
		if line := m.read(); !strings.Contains(line, `"RPUSH"`) { // once only
			t.Error(line)
		}
	})
}
