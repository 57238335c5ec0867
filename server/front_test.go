package server_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"redoubt/config"
	"redoubt/engine"
	"redoubt/engine/mem"
	"redoubt/internal/race"
	"redoubt/internal/respclient"
	"redoubt/server"
)

// The tests of the front talk to a server over real sockets. Each runs twice:
// with connections carried by event loops and by goroutines.

// carriers runs a test with both carriers.
func carriers(t *testing.T, f func(t *testing.T, pipes bool)) {
	for _, c := range []struct {
		name  string
		pipes bool
	}{{"loops", false}, {"pipes", true}} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			f(t, c.pipes)
		})
	}
}

// front is a server under test.
type front struct {
	*server.Server
	t    testing.TB
	addr string
	log  *logBook
}

// start starts a server with one event loop on an empty store; args are
// directives, as on the command line.
func start(t testing.TB, pipes bool, args ...string) *front {
	t.Helper()
	return startOn(t, mem.New(), pipes, args...)
}

func startOn(t testing.TB, eng engine.Engine, pipes bool, args ...string) *front {
	t.Helper()
	return startWith(t, server.Options{Engine: eng, Pipes: pipes}, args...)
}

func startWith(t testing.TB, o server.Options, args ...string) *front {
	t.Helper()
	cfg := config.New()
	all := append([]string{"--port", "0", "--bind", "127.0.0.1", "--dir", t.TempDir(), "--io-threads", "1"}, args...)
	if err := cfg.Args(all); err != nil {
		t.Fatal(err)
	}
	f := &front{t: t, log: &logBook{}}
	o.Config, o.Logger = cfg, slog.New(slog.NewTextHandler(f.log, nil))
	srv, err := server.New(o)
	if err != nil {
		t.Fatal(err)
	}
	if err := srv.Start(); err != nil {
		t.Fatal(err)
	}
	f.Server, f.addr = srv, srv.Addr().String()
	t.Cleanup(func() {
		f.stop()
		if t.Failed() {
			t.Logf("the server's log:\n%s", f.log)
		}
	})
	return f
}

func (f *front) stop() {
	f.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	if err := f.Shutdown(ctx); err != nil {
		f.t.Errorf("stop the server: %v", err)
	}
}

// logBook keeps a server's log.
type logBook struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *logBook) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *logBook) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// client is a connection whose failures end the test.
type client struct {
	*respclient.Client
	t testing.TB
}

func (f *front) dial() *client {
	f.t.Helper()
	c, err := respclient.Dial(f.addr)
	if err != nil {
		f.t.Fatal(err)
	}
	f.t.Cleanup(func() { c.Close() })
	return &client{c, f.t}
}

// over makes a client of an open connection.
func (f *front) over(conn net.Conn) *client {
	f.t.Cleanup(func() { conn.Close() })
	return &client{respclient.New(conn), f.t}
}

func (f *front) dialUnix(path string) *client {
	f.t.Helper()
	conn, err := net.Dial("unix", path)
	if err != nil {
		f.t.Fatal(err)
	}
	return f.over(conn)
}

// do sends a command and returns the reply, as redis-cli would show it.
func (c *client) do(args ...string) string {
	c.t.Helper()
	c.send(args...)
	return c.read()
}

func (c *client) send(args ...string) {
	c.t.Helper()
	if err := c.Send(args...); err != nil {
		c.t.Fatalf("%.60q: %v", args, err)
	}
}

// raw sends bytes as they are. It does not fail when the server hangs up.
func (c *client) raw(s string) {
	c.t.Helper()
	if err := c.Write([]byte(s)); err != nil && !gone(err) {
		c.t.Fatal(err)
	}
}

func (c *client) read() string {
	c.t.Helper()
	v, err := c.Read()
	if gone(err) {
		return "(closed)"
	}
	if err != nil {
		c.t.Fatal(err)
	}
	return v.String()
}

// want reads replies and compares them.
func (c *client) want(replies ...string) {
	c.t.Helper()
	for i, want := range replies {
		if got := c.read(); got != want {
			c.t.Fatalf("reply %d is %.200s, want %.200s", i+1, got, want)
		}
	}
}

// silent says that nothing has come that was not read.
func (c *client) silent() bool {
	c.t.Helper()
	if c.Unread() > 0 {
		return false
	}
	raw, err := c.Conn().(syscall.Conn).SyscallConn()
	if err != nil {
		c.t.Fatal(err)
	}
	nothing := false
	if err := raw.Read(func(fd uintptr) bool {
		_, _, err := unix.Recvfrom(int(fd), make([]byte, 1), unix.MSG_PEEK|unix.MSG_DONTWAIT)
		nothing = errors.Is(err, unix.EAGAIN)
		return true
	}); err != nil {
		c.t.Fatal(err)
	}
	return nothing
}

// id is the connection's number.
func (c *client) id() string {
	c.t.Helper()
	return strings.TrimPrefix(c.do("CLIENT", "ID"), "(integer) ")
}

func gone(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)
}

// field is a field of a client's line in CLIENT LIST, as c sees it.
func (c *client) field(id, name string) string {
	c.t.Helper()
	v, err := c.Do("CLIENT", "LIST", "ID", id)
	if err != nil {
		c.t.Fatal(err)
	}
	for _, f := range strings.Fields(v.Str) {
		if value, ok := strings.CutPrefix(f, name+"="); ok {
			return value
		}
	}
	return ""
}

// info is a field of INFO.
func (c *client) info(section, name string) string {
	c.t.Helper()
	v, err := c.Do("INFO", section)
	if err != nil {
		c.t.Fatal(err)
	}
	for line := range strings.Lines(v.Str) {
		if value, ok := strings.CutPrefix(strings.TrimSpace(line), name+":"); ok {
			return value
		}
	}
	return ""
}

// until waits for something that is about to happen.
func until(t testing.TB, what string, f func() bool) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); !f(); {
		if time.Now().After(end) {
			t.Fatalf("waited in vain: %s", what)
		}
		time.Sleep(time.Millisecond)
	}
}

// refusing waits until the server takes no more connections.
func (f *front) refusing() {
	f.t.Helper()
	until(f.t, "nobody may connect", func() bool {
		conn, err := net.DialTimeout("tcp", f.addr, time.Second)
		if err == nil {
			conn.Close()
		}
		return err != nil
	})
}

// patience lets a little time pass, by things that take time.
func (f *front) patience() {
	for range 200 {
		if conn, err := net.DialTimeout("tcp", f.addr, time.Second); err == nil {
			conn.Close()
		}
	}
}

// frame is a command in its wire form.
func frame(args ...string) string { return string(respclient.AppendCommand(nil, args...)) }

func TestPipelineInOneWrite(t *testing.T) {
	carriers(t, func(t *testing.T, pipes bool) {
		const n = 100_000
		f := start(t, pipes)
		c := f.dial()
		var b strings.Builder
		for i := range n {
			switch i % 4 {
			case 0:
				b.WriteString(frame("SET", fmt.Sprint("k", i%97), fmt.Sprint(i)))
			case 1:
				b.WriteString(frame("GET", fmt.Sprint("k", (i-1)%97)))
			case 2:
				b.WriteString("PING\r\n")
			case 3:
				b.WriteString(frame("INCR", "n"))
			}
		}
		go c.raw(b.String())
		for i := range n {
			want := [4]string{"OK", fmt.Sprintf(`"%d"`, i-1), "PONG", fmt.Sprintf("(integer) %d", i/4+1)}[i%4]
			if got := c.read(); got != want {
				t.Fatalf("reply %d is %s, want %s", i, got, want)
			}
		}
	})
}

// A client that sends a lot before it reads gets all its replies, in order.
func TestPipelineReadAtTheEnd(t *testing.T) {
	carriers(t, func(t *testing.T, pipes bool) {
		const n = 100_000
		f := start(t, pipes)
		c := f.dial()
		c.raw(strings.Repeat(frame("INCR", "n"), n))
		for i := range n {
			c.want(fmt.Sprintf("(integer) %d", i+1))
		}
	})
}

// While replies of more than 32 MiB wait for a client its commands wait too,
// whatever it has sent already: a few bytes cannot fill the memory.
func TestUnreadRepliesHoldCommandsBack(t *testing.T) {
	carriers(t, func(t *testing.T, pipes bool) {
		f := start(t, pipes)
		c, other := f.dial(), f.dial()
		id := c.id()
		c.do("SET", "big", strings.Repeat("x", 1<<20))
		const enough = 80
		n := race.Or(120, 300)
		c.raw(strings.Repeat(frame("GET", "big"), n))
		until(t, "the client falls behind", func() bool { return len(other.field(id, "omem")) > 7 })
		for range race.Or(200, 1000) {
			var calls int
			fmt.Sscanf(other.info("commandstats", "cmdstat_get"), "calls=%d,", &calls)
			if calls > enough {
				t.Fatalf("%d commands were run", calls)
			}
		}
		for range n {
			if v, err := c.Read(); err != nil || len(v.Str) != 1<<20 {
				t.Fatalf("%d bytes, %v", len(v.Str), err)
			}
		}
		if got := c.do("PING"); got != "PONG" {
			t.Error(got)
		}
	})
}

// A client that always leaves a little unread costs what it leaves, not what
// it was ever sent.
func TestReplyBufferDoesNotCreep(t *testing.T) {
	if race.Enabled {
		t.Skip("it is about memory, and takes long with the race detector")
	}
	carriers(t, func(t *testing.T, pipes bool) {
		f := start(t, pipes)
		c, other := f.dial(), f.dial()
		if err := c.Conn().(*net.TCPConn).SetReadBuffer(256 << 10); err != nil {
			t.Fatal(err)
		}
		id := c.id()
		c.do("SET", "v", strings.Repeat("x", 1<<19)) // it does not go out in parts
		const behind = 40                            // more than the sockets take
		for range behind {
			c.send("GET", "v")
		}
		for range 320 {
			c.send("GET", "v")
			c.read()
		}
		var mem int
		until(t, "the client is behind", func() bool {
			fmt.Sscan(other.field(id, "tot-mem"), &mem)
			return mem >= 4<<20
		})
		if mem > 80<<20 {
			t.Errorf("the connection takes %d bytes", mem)
		}
		for range behind {
			c.read()
		}
	})
}

// A large reply that is read slowly keeps nobody else waiting.
func TestLargeReplyIsFair(t *testing.T) {
	carriers(t, func(t *testing.T, pipes bool) {
		f := start(t, pipes)
		slow, other := f.dial(), f.dial()
		const parts = 12
		size := race.Or(24, 48) << 20
		if got := slow.do("SET", "big", strings.Repeat("x", size)); got != "OK" {
			t.Fatal(got)
		}
		slow.send("GET", "big")
		part := make([]byte, size/parts)
		for range parts {
			if _, err := io.ReadFull(slow.Conn(), part); err != nil {
				t.Fatal(err)
			}
			for range 10 {
				if got := other.do("PING"); got != "PONG" {
					t.Fatal(got)
				}
			}
		}
	})
}

func TestLargeValue(t *testing.T) {
	carriers(t, func(t *testing.T, pipes bool) {
		f := start(t, pipes)
		c := f.dial()
		c.Timeout = 2 * time.Minute
		value := strings.Repeat("0123456789abcdef", race.Or(16, 100)<<20/16)
		if got := c.do("SET", "big", value); got != "OK" {
			t.Fatal(got)
		}
		v, err := c.Do("GET", "big")
		if err != nil {
			t.Fatal(err)
		}
		if v.Str != value {
			t.Errorf("%d bytes came back", len(v.Str))
		}
	})
}

// Commands cut anywhere, one byte at a time, between other clients' commands.
func TestHalfFrames(t *testing.T) {
	carriers(t, func(t *testing.T, pipes bool) {
		f := start(t, pipes)
		c, other := f.dial(), f.dial()
		text := frame("SET", "k", "a\r\nb") + "PING \"x y\"\r\n" + frame("GET", "k") + "\r\n*0\r\n" + frame("PING")
		for i := range len(text) {
			c.raw(text[i : i+1])
			if got := other.do("PING"); got != "PONG" {
				t.Fatal(got)
			}
		}
		c.want("OK", `"x y"`, `"a\r\nb"`, "PONG")
	})
}

// Half a command is not run when its client disconnects.
func TestHalfFrameThenGone(t *testing.T) {
	carriers(t, func(t *testing.T, pipes bool) {
		f := start(t, pipes)
		c, other := f.dial(), f.dial()
		id := c.id()
		whole := frame("SET", "k", "v")
		c.raw(frame("SET", "before", "1") + whole[:len(whole)-1])
		c.want("OK")
		c.Close()
		until(t, "the server notices", func() bool { return other.field(id, "id") == "" })
		if got := other.do("EXISTS", "before", "k"); got != "(integer) 1" {
			t.Errorf("keys: %s", got)
		}
	})
}

// A client that closes its side only still gets its replies, also those that a
// worker gives.
func TestHalfClosedClientIsAnswered(t *testing.T) {
	carriers(t, func(t *testing.T, pipes bool) {
		f := start(t, pipes)
		for range 50 {
			c := f.dial()
			c.raw(frame("SET", "k", "v") + frame("KEYS", "*") + frame("GET", "k") + frame("CLIENT", "LIST", "ID", "0") + "PING\r\n")
			if err := c.Conn().(*net.TCPConn).CloseWrite(); err != nil {
				t.Fatal(err)
			}
			c.want("OK", `1) "k"`, `"v"`, `""`, "PONG", "(closed)")
		}
	})
}

// A large reply is sent to its end, too.
func TestHalfClosedClientGetsALargeReply(t *testing.T) {
	carriers(t, func(t *testing.T, pipes bool) {
		f := start(t, pipes)
		c := f.dial()
		value := strings.Repeat("x", 20<<20)
		c.do("SET", "big", value)
		c.raw(frame("GET", "big") + frame("PING"))
		if err := c.Conn().(*net.TCPConn).CloseWrite(); err != nil {
			t.Fatal(err)
		}
		v, err := c.Read()
		if err != nil || v.Str != value {
			t.Fatalf("%d bytes, %v", len(v.Str), err)
		}
		c.want("PONG", "(closed)")
	})
}

// Connections vanish while workers run their commands.
func TestGoneWhileAWorkerRuns(t *testing.T) {
	carriers(t, func(t *testing.T, pipes bool) {
		f := start(t, pipes)
		other := f.dial()
		for i := range 2000 {
			other.do("SET", fmt.Sprint("k", i), "v")
		}
		for range 100 {
			c := f.dial()
			c.raw(frame("KEYS", "*") + frame("PING"))
			c.Close()
		}
		until(t, "all are gone", func() bool { return strings.Count(other.do("CLIENT", "LIST"), "id=") == 1 })
		if got := other.do("DBSIZE"); got != "(integer) 2000" {
			t.Error(got)
		}
	})
}

func TestQuitEndsAPipeline(t *testing.T) {
	carriers(t, func(t *testing.T, pipes bool) {
		f := start(t, pipes)
		c, other := f.dial(), f.dial()
		c.raw(frame("SET", "a", "1") + frame("QUIT") + frame("SET", "b", "1"))
		c.want("OK", "OK", "(closed)")
		if got := other.do("EXISTS", "a", "b"); got != "(integer) 1" {
			t.Error(got)
		}
	})
}

// A browser that is made to send a request to the server is cut off before the
// body of it is taken for commands.
func TestBrowsersAreCutOff(t *testing.T) {
	carriers(t, func(t *testing.T, pipes bool) {
		f := start(t, pipes)
		for _, head := range []string{"POST / HTTP/1.1\r\n", "GET / HTTP/1.1\r\nHost: localhost\r\n"} {
			c, other := f.dial(), f.dial()
			c.raw(head + "Content-Length: 100\r\n\r\nSET k v\r\n")
			for got := ""; got != "(closed)"; got = c.read() {
				if got == "OK" {
					t.Errorf("%q: the body was run", head)
				}
			}
			if got := other.do("EXISTS", "k"); got != "(integer) 0" {
				t.Error(got)
			}
		}
	})
}
