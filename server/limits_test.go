package server_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"
)

func TestMaxBulk(t *testing.T) {
	carriers(t, func(t *testing.T, pipes bool) {
		f := start(t, pipes, "--proto-max-bulk-len", "1mb")
		c, other := f.dial(), f.dial()
		if got := c.do("SET", "k", strings.Repeat("x", 1<<20)); got != "OK" {
			t.Error(got)
		}
		c.raw("*2\r\n$4\r\nPING\r\n$1048577\r\n")
		c.want("(error) ERR Protocol error: invalid bulk length", "(closed)")
		// A new limit holds for connections that are there already.
		if got := other.do("CONFIG", "SET", "proto-max-bulk-len", "2mb"); got != "OK" {
			t.Error(got)
		}
		if got := other.do("SET", "k", strings.Repeat("x", 2<<20)); got != "OK" {
			t.Error(got)
		}
	})
}

// The largest limit that there is does not make lengths overflow, and a length
// that was announced takes no memory.
func TestHugeLengthIsOnlyAPromise(t *testing.T) {
	carriers(t, func(t *testing.T, pipes bool) {
		f := start(t, pipes, "--maxmemory-clients", "0")
		c, other := f.dial(), f.dial()
		if got := other.do("CONFIG", "SET", "proto-max-bulk-len", "9223372036854775807"); got != "OK" {
			t.Fatal(got)
		}
		id := c.id()
		c.raw("*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$9223372036854775807\r\n" + strings.Repeat("x", 100_000))
		until(t, "it has come", func() bool { n, _ := strconv.Atoi(other.field(id, "qbuf")); return n == 100_000 })
		if n, _ := strconv.Atoi(other.field(id, "tot-mem")); n > 1<<20 {
			t.Errorf("the connection takes %d bytes", n)
		}
	})
}

// A million arguments are fine; what was announced takes no memory.
func TestManyArguments(t *testing.T) {
	carriers(t, func(t *testing.T, pipes bool) {
		f := start(t, pipes)
		c, other := f.dial(), f.dial()
		id := c.id()
		c.raw("*1048576\r\n$4\r\nPING\r\n" + strings.Repeat("$1\r\nk\r\n", 1<<20-1))
		c.want("(error) ERR wrong number of arguments for 'ping' command")
		c.raw("*1048576\r\n$4\r\nPING\r\n" + strings.Repeat("$1\r\nk\r\n", 1000))
		until(t, "it has come", func() bool { n, _ := strconv.Atoi(other.field(id, "qbuf")); return n > 7000 })
		if n, _ := strconv.Atoi(other.field(id, "tot-mem")); n > 1<<20 {
			t.Errorf("the connection takes %d bytes", n)
		}
		c = f.dial()
		c.raw("*1048577\r\n")
		c.want("(error) ERR Protocol error: invalid multibulk length", "(closed)")
	})
}

func TestQueryBufferLimit(t *testing.T) {
	carriers(t, func(t *testing.T, pipes bool) {
		f := start(t, pipes, "--client-query-buffer-limit", "1mb")
		c, other := f.dial(), f.dial()
		if got := c.do("SET", "k", strings.Repeat("x", 900<<10)); got != "OK" {
			t.Error(got)
		}
		c.raw(frame("SET", "before", "1") + frame("SET", "k", strings.Repeat("x", 4<<20)))
		for got := ""; got != "(closed)"; got = c.read() {
		}
		// Many small commands are no large one.
		other.raw(strings.Repeat(frame("INCR", "n"), 100_000))
		for range 100_000 {
			other.read()
		}
		if got := other.do("STRLEN", "k"); got != "(integer) 921600" {
			t.Error(got)
		}
		if !strings.Contains(f.log.String(), "query buffer") {
			t.Error("the log does not say why")
		}
	})
}

func TestMaxClients(t *testing.T) {
	carriers(t, func(t *testing.T, pipes bool) {
		f := start(t, pipes, "--maxclients", "3")
		var all []*client
		for range 3 {
			c := f.dial()
			if got := c.do("PING"); got != "PONG" {
				t.Fatal(got)
			}
			all = append(all, c)
		}
		f.dial().want("(error) ERR max number of clients reached", "(closed)")
		if n := all[0].info("stats", "rejected_connections"); n != "1" {
			t.Errorf("%s were rejected", n)
		}
		id := all[1].id()
		all[1].Close()
		until(t, "one is gone", func() bool { return all[0].field(id, "id") == "" })
		if got := f.dial().do("PING"); got != "PONG" {
			t.Error(got)
		}
		all[0].do("CONFIG", "SET", "maxclients", "4")
		if got := f.dial().do("PING"); got != "PONG" {
			t.Error(got)
		}
	})
}

// Idle clients are closed, others not: one that is held back, one that
// monitors, one that was active.
func TestTimeout(t *testing.T) {
	carriers(t, func(t *testing.T, pipes bool) {
		f := start(t, pipes, "--timeout", "1")
		begin := time.Now() // before the clients begin to be idle
		idle, half, monitor, held, busy := f.dial(), f.dial(), f.dial(), f.dial(), f.dial()
		half.raw("*1\r\n$4\r\nPI")
		monitor.do("MONITOR")
		busy.do("CLIENT", "PAUSE", "60000", "WRITE")
		held.send("SET", "k", "v")
		for _, c := range []*client{idle, half} {
			for closed := false; !closed; {
				if got := busy.do("PING"); got != "PONG" {
					t.Fatal(got)
				}
				closed = !c.silent()
			}
			if got := c.read(); got != "(closed)" {
				t.Error(got)
			}
		}
		if took := time.Since(begin); took < time.Second {
			t.Errorf("closed after %v", took)
		}
		busy.do("CLIENT", "UNPAUSE")
		held.want("OK")
		if got := monitor.read(); !strings.Contains(got, `"PING"`) {
			t.Errorf("the monitor got %s", got)
		}
	})
}

// deafDial connects with a small receive buffer.
func (f *front) deafDial() *client {
	f.t.Helper()
	c := f.dial()
	if err := c.Conn().(*net.TCPConn).SetReadBuffer(4096); err != nil {
		f.t.Fatal(err)
	}
	return c
}

// A client that never reads is closed at once past the hard limit, and past the
// soft limit when its time is over; meanwhile the others are served.
func TestOutputLimit(t *testing.T) {
	for _, limit := range []struct {
		name, text string
		atLeast    time.Duration
	}{{"hard", "normal 20mb 0 0", 0}, {"soft", "normal 0 20mb 1", time.Second}} {
		t.Run(limit.name, func(t *testing.T) {
			carriers(t, func(t *testing.T, pipes bool) {
				f := start(t, pipes)
				c, other := f.deafDial(), f.dial()
				if got := other.do("CONFIG", "SET", "client-output-buffer-limit", limit.text); got != "OK" {
					t.Fatal(got)
				}
				other.do("SET", "v", strings.Repeat("x", 1<<20))
				id := c.id()
				begin := time.Now()
				c.raw(strings.Repeat(frame("GET", "v"), 30))
				until(t, "it is closed", func() bool { return other.field(id, "id") == "" })
				if took := time.Since(begin); took < limit.atLeast {
					t.Errorf("closed after %v", took)
				}
				if !strings.Contains(f.log.String(), "does not read") {
					t.Error("the log does not say why")
				}
				if n := other.info("stats", "client_output_buffer_limit_disconnections"); n != "1" {
					t.Errorf("%s were closed", n)
				}
			})
		})
	}
}

// A client may stay above the soft limit as long as it comes below it in time.
func TestSoftLimitForgives(t *testing.T) {
	carriers(t, func(t *testing.T, pipes bool) {
		f := start(t, pipes, "--client-output-buffer-limit", "normal 0 1mb 60")
		c := f.dial()
		c.do("SET", "v", strings.Repeat("x", 1<<20))
		c.raw(strings.Repeat(frame("GET", "v"), 20))
		for range 20 {
			if v, err := c.Read(); err != nil || len(v.Str) != 1<<20 {
				t.Fatal(err)
			}
		}
		if got := c.do("PING"); got != "PONG" {
			t.Error(got)
		}
	})
}

func TestLimitsBeforeAuthentication(t *testing.T) {
	carriers(t, func(t *testing.T, pipes bool) {
		f := start(t, pipes, "--requirepass", "secret")
		c := f.dial()
		if got := c.do("DEL", "1", "2", "3", "4", "5", "6", "7", "8", "9"); got != "(error) NOAUTH Authentication required." {
			t.Error(got)
		}
		c.raw("*11\r\n")
		c.want("(error) ERR Protocol error: unauthenticated multibulk length", "(closed)")

		c = f.dial()
		if got := c.do("ECHO", strings.Repeat("x", 16384)); got != "(error) NOAUTH Authentication required." {
			t.Error(got)
		}
		c.raw("*2\r\n$4\r\nECHO\r\n$16385\r\n")
		c.want("(error) ERR Protocol error: unauthenticated bulk length", "(closed)")

		// They end with AUTH, also inside of a pipeline, and come back with RESET.
		c = f.dial()
		c.raw(frame("PING") + frame("AUTH", "secret") + frame("MSET", "a", "1", "b", "2", "c", "3", "d", "4", "e", "5", "f", "6") +
			frame("STRLEN", strings.Repeat("x", 20000)) + frame("RESET"))
		c.want("(error) NOAUTH Authentication required.", "OK", "OK", "(integer) 0", "RESET")
		c.raw("*11\r\n")
		c.want("(error) ERR Protocol error: unauthenticated multibulk length", "(closed)")

		c = f.dial()
		c.raw(frame("HELLO", "2", "AUTH", "default", "secret") + frame("STRLEN", strings.Repeat("x", 20000)))
		c.read()
		c.want("(integer) 0")
	})
}

func TestMalformedInputEndsOneConnection(t *testing.T) {
	carriers(t, func(t *testing.T, pipes bool) {
		f := start(t, pipes)
		other := f.dial()
		for _, m := range []struct{ in, want string }{
			{"*1\r\nfoo\r\n", "expected '$', got 'f'"},
			{"*1\r\n\xff\r\n", "expected '$', got '\xff'"},
			{"*x\r\n", "invalid multibulk length"},
			{"*3000000000\r\n", "invalid multibulk length"},
			{"*9223372036854775808\r\n", "invalid multibulk length"},
			{"*1\r\n$x\r\n", "invalid bulk length"},
			{"*1\r\n$-5\r\n", "invalid bulk length"},
			{"*1\r\n$2000000000\r\n", "invalid bulk length"},
			{"*1\r\n$99999999999999999999\r\n", "invalid bulk length"},
			{"*" + strings.Repeat("1", 70000), "too big mbulk count string"},
			{"*1\r\n$" + strings.Repeat("1", 70000), "too big bulk count string"},
			{strings.Repeat("x", 70000), "too big inline request"},
			{"set \"a b\r\n", "unbalanced quotes in request"},
			{"set 'a\r\n", "unbalanced quotes in request"},
			{"set \"a\"b\r\n", "unbalanced quotes in request"},
		} {
			c := f.dial()
			// What came before is answered, what follows is not.
			c.raw(frame("ECHO", "x") + m.in + frame("SET", "k", "v"))
			c.want(`"x"`)
			v, err := c.Read()
			if err != nil || v.Str != "ERR Protocol error: "+m.want {
				t.Errorf("%.20q: %q, %v", m.in, v.Str, err)
			}
			c.want("(closed)")
		}
		if got := other.do("EXISTS", "k"); got != "(integer) 0" {
			t.Error("a command behind malformed input was run")
		}
	})
}

func TestInline(t *testing.T) {
	carriers(t, func(t *testing.T, pipes bool) {
		f := start(t, pipes)
		c := f.dial()
		c.raw("  set  k \"a \\x41\\n\" \r\n\r\n\n get k\nECHO 'it\\'s \\n'\r\nECHO \"\"\r\n   \r\nPING\r\n")
		c.want("OK", `"a A\n"`, `"it's \\n"`, `""`, "PONG")
		c.raw("ECHO " + strings.Repeat("x", 60_000) + "\r\n")
		if v, err := c.Read(); err != nil || len(v.Str) != 60_000 {
			t.Errorf("%d bytes, %v", len(v.Str), err)
		}
		c.raw("nosuch 1 2\r\n")
		c.want(`(error) "ERR unknown command 'nosuch', with args beginning with: '1' '2' "`)
	})
}

// Whatever bytes come, the server answers others.
func TestGarbage(t *testing.T) {
	carriers(t, func(t *testing.T, pipes bool) {
		seed := uint64(time.Now().UnixNano())
		t.Logf("seed %d", seed)
		rnd := rand.New(rand.NewPCG(seed, 1))
		f := start(t, pipes)
		other := f.dial()
		words := []string{"*", "$", "\r\n", "1", "3", "-1", "GET", "SET", "k", "\x00", " ", "\"", "'", "\\x", "$3\r\nGET\r\n", "*2\r\n", "\n", "\r"}
		for range 200 {
			c := f.dial()
			var b bytes.Buffer
			for range rnd.IntN(60) {
				b.WriteString(words[rnd.IntN(len(words))])
				if rnd.IntN(5) == 0 {
					fmt.Fprintf(&b, "%c", rnd.IntN(256))
				}
			}
			c.raw(b.String())
			c.Close()
			if got := other.do("PING"); got != "PONG" {
				t.Fatalf("%q: %s", b.String(), got)
			}
		}
		if strings.Contains(f.log.String(), "panic") {
			t.Error("something panicked")
		}
	})
}

func TestUnixSocket(t *testing.T) {
	carriers(t, func(t *testing.T, pipes bool) {
		dir, err := os.MkdirTemp("", "front") // a short path: sockets allow about 100 bytes
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { os.RemoveAll(dir) })
		path := dir + "/s"
		if err := os.WriteFile(path, nil, 0o600); err != nil { // a stale one is replaced
			t.Fatal(err)
		}
		f := start(t, pipes, "--unixsocket", path, "--unixsocketperm", "700", "--port", "0")
		stat, err := os.Stat(path)
		if err != nil || stat.Mode().Perm() != 0o700 || stat.Mode().Type() != os.ModeSocket {
			t.Fatalf("%v, %v", stat.Mode(), err)
		}
		c, m := f.dialUnix(path), f.dialUnix(path)
		m.do("MONITOR")
		if got := c.do("SET", "k", "v"); got != "OK" {
			t.Error(got)
		}
		if got := m.read(); !strings.Contains(got, "[0 unix:"+path+"] \"SET\" \"k\" \"v\"") {
			t.Errorf("the monitor sees %s", got)
		}
		id := c.id()
		if c.field(id, "addr") != path+":0" || c.field(id, "laddr") != path+":0" || c.field(id, "flags") != "U" {
			t.Error(c.do("CLIENT", "LIST"))
		}
		f.stop()
		if _, err := os.Stat(path); !os.IsNotExist(err) {
			t.Errorf("the socket is left behind: %v", err)
		}
	})
}

// Both families can listen on one port, as the default of bind has it.
func TestBothFamilies(t *testing.T) {
	if ln, err := net.Listen("tcp6", "[::1]:0"); err != nil {
		t.Skip("no IPv6 here")
	} else {
		ln.Close()
	}
	carriers(t, func(t *testing.T, pipes bool) {
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		_, port, _ := net.SplitHostPort(ln.Addr().String())
		ln.Close()
		f := start(t, pipes, "--bind", "*", "-::*", "--port", port)
		for _, addr := range []string{"127.0.0.1:" + port, "[::1]:" + port} {
			conn, err := net.Dial("tcp", addr)
			if err != nil {
				t.Fatal(err)
			}
			c := f.over(conn)
			if got := c.field(c.id(), "laddr"); got != addr {
				t.Errorf("%s is seen as %s", addr, got)
			}
		}
	})
}
