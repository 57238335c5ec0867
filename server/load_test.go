package server_test

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"redoubt/engine"
	"redoubt/engine/mem"
	"redoubt/internal/respclient"
	"redoubt/server"
)

// slowStore is a store whose opening waits for the test.
type slowStore struct {
	engine.Engine
	began   chan struct{} // closed when it is being opened
	gate    chan error    // gets what the opening is to end with
	deaf    bool          // it does not give up when it is asked to
	report  func(done, total int64)
	closed  atomic.Bool
	foreign bool // it has rows of a version that nobody knows
}

func newSlowStore() *slowStore {
	return &slowStore{Engine: mem.New(), began: make(chan struct{}), gate: make(chan error, 1)}
}

func (s *slowStore) open(ctx context.Context, progress func(done, total int64)) (engine.Engine, error) {
	s.report = progress
	close(s.began)
	done := ctx.Done()
	if s.deaf {
		done = nil
	}
	select {
	case err := <-s.gate:
		if err != nil {
			return nil, err
		}
		return s, nil
	case <-done:
		return nil, ctx.Err()
	}
}

func (s *slowStore) Begin(o engine.ViewOptions) (engine.View, error) {
	if s.foreign {
		return nil, engine.ErrFormat
	}
	return s.Engine.Begin(o)
}

func (s *slowStore) Close() error {
	s.closed.Store(true)
	return s.Engine.Close()
}

// startSlow starts a server whose store is being opened.
func startSlow(t *testing.T, pipes bool, args ...string) (*front, *slowStore) {
	t.Helper()
	s := newSlowStore()
	f := startWith(t, server.Options{Open: s.open, Pipes: pipes, Patience: time.Millisecond}, args...)
	<-s.began
	return f, s
}

const loading = "(error) LOADING Redis is loading the dataset in memory"

func TestLoading(t *testing.T) {
	carriers(t, func(t *testing.T, pipes bool) {
		// No command is slow, however busy the machine is: SLOWLOG LEN is 0.
		f, s := startSlow(t, pipes, "--enable-debug-command", "yes", "--metrics-addr", "127.0.0.1:0", "--slowlog-log-slower-than", "-1")
		c := f.dial()
		for _, call := range []string{
			"GET k", "SET k v", "PING", "DBSIZE", "MGET a b", "FLUSHALL", "SAVE", "BGSAVE", "KEYS *", "SCAN 0",
			"CONFIG SET appendonly no", "DEBUG POPULATE 10", "DEBUG SET-ACTIVE-EXPIRE 0", "DEBUG RELOAD", "DEBUG HTSTATS 0", "DEBUG SLEEP 0",
		} {
			if got := c.do(strings.Fields(call)...); got != loading {
				t.Errorf("%s: %s", call, got)
			}
		}
		for call, want := range map[string]string{
			"ECHO x": `"x"`, "SELECT 0": "OK", "SELECT 15": "OK", "SELECT 99": "(error) ERR DB index is out of range", "CLIENT SETNAME me": "OK", "RESET": `RESET`,
			"CONFIG SET maxmemory-policy allkeys-lfu": "OK", "CONFIG RESETSTAT": "OK", "DEBUG STRINGMATCH-LEN a* abc": "(integer) 1",
			"CLIENT PAUSE 100000 WRITE": "OK", "NOSUCH": `(error) "ERR unknown command 'NOSUCH', with args beginning with: "`,
			"GET": "(error) ERR wrong number of arguments for 'get' command", "LATENCY RESET": "(integer) 0", "SLOWLOG LEN": "(integer) 0",
		} {
			if got := c.do(strings.Fields(call)...); got != want {
				t.Errorf("%s: %s, want %s", call, got, want)
			}
		}
		c.do("SELECT", "0")
		c.raw(strings.Repeat(frame("SET", "k", "v")+frame("ECHO", "x")+frame("GET", "k"), 100))
		for range 100 {
			c.want(loading, `"x"`, loading)
		}
		if got := c.info("everything", "engine"); got != "local" { // what the configuration says
			t.Errorf("INFO: %s", got)
		}
		if got := scrapeURL(t, f.MetricsAddr().String()); !strings.Contains(got, "\nredoubt_loading 1\n") {
			t.Errorf("metrics: %s", got)
		}

		s.gate <- nil
		<-f.Loaded()
		if err := f.LoadError(); err != nil {
			t.Fatal(err)
		}
		c.do("CLIENT", "UNPAUSE")
		for _, call := range [][3]string{
			{"SET k v", "OK"}, {"GET k", `"v"`}, {"PING", "PONG"}, {"DEBUG POPULATE 10", "OK"}, {"DBSIZE", "(integer) 11"},
			{"OBJECT FREQ k", "(integer) 5"}, // the policy that was set meanwhile
		} {
			if got := c.do(strings.Fields(call[0])...); got != call[1] {
				t.Errorf("then %s: %s, want %s", call[0], got, call[1])
			}
		}
		if got := f.dial().do("GET", "k"); got != `"v"` {
			t.Errorf("a new client: %s", got)
		}
		if got := c.info("redoubt", "engine") + c.info("persistence", "loading"); got != "server_test0" {
			t.Errorf("INFO then: %s", got)
		}
		text := scrapeURL(t, f.MetricsAddr().String())
		for _, want := range []string{"redoubt_loading 0", `redoubt_keys{db="0"} 11`} {
			if !strings.Contains(text, "\n"+want+"\n") {
				t.Errorf("metrics lack %s", want)
			}
		}
		f.stop()
		if !s.closed.Load() {
			t.Error("the store was not closed")
		}
	})
}

// A command answers -LOADING if and only if it lacks the flag. Only WATCH cannot
// note keys of a store that is not there.
func TestLoadingByFlag(t *testing.T) {
	t.Parallel()
	f, s := startSlow(t, false)
	c := f.dial()
	v, err := c.Do("COMMAND")
	if err != nil {
		t.Fatal(err)
	}
	refused, allowed := 0, 0
	var try func(list []respclient.Value, container string)
	try = func(list []respclient.Value, container string) {
		for _, cmd := range list {
			if subs := cmd.Elems[9].Elems; len(subs) > 0 {
				try(subs, cmd.Elems[0].Str)
				if container == "" && cmd.Elems[1].Int() < -1 {
					continue
				}
			}
			name, flagged := cmd.Elems[0].Str, false
			for _, flag := range cmd.Elems[2].Elems {
				flagged = flagged || flag.Str == "loading"
			}
			args := strings.Split(name, "|")
			for n := max(cmd.Elems[1].Int(), -cmd.Elems[1].Int()); int64(len(args)) < n; {
				args = append(args, "1")
			}
			switch name {
			case "shutdown", "monitor", "quit", "client|reply", "client|pause", "client|kill", "auth", "hello", "config|set", "watch":
				continue
			}
			got := c.do(args...)
			if (got == loading) == flagged {
				t.Errorf("%v, flag %v: %.200s", args, flagged, got)
			}
			if flagged {
				allowed++
			} else {
				refused++
			}
		}
	}
	try(v.Elems, "")
	if refused < 30 || allowed < 20 {
		t.Errorf("%d refused, %d allowed", refused, allowed)
	}
	s.gate <- nil
}

// The other refusals come first.
func TestLoadingAndAuthentication(t *testing.T) {
	t.Parallel()
	f, s := startSlow(t, false, "--requirepass", "secret")
	c := f.dial()
	for _, call := range [][2]string{
		{"GET k", "(error) NOAUTH Authentication required."}, {"INFO", "(error) NOAUTH Authentication required."},
		{"AUTH secret", "OK"}, {"GET k", loading}, {"ECHO x", `"x"`},
	} {
		if got := c.do(strings.Fields(call[0])...); got != call[1] {
			t.Errorf("%s: %s, want %s", call[0], got, call[1])
		}
	}
	s.gate <- nil
}

func TestLoadingProgress(t *testing.T) {
	carriers(t, func(t *testing.T, pipes bool) {
		before := time.Now().Unix()
		f, s := startSlow(t, pipes)
		c := f.dial()
		field := func(name string) string { return c.info("persistence", name) }
		want := func(name, value string) {
			t.Helper()
			if got := field(name); got != value {
				t.Errorf("%s is %q, want %q", name, got, value)
			}
		}
		for name, value := range map[string]string{
			"loading": "1", "async_loading": "0", "loading_total_bytes": "0", "loading_loaded_bytes": "0", "loading_loaded_perc": "0.00",
			"loading_rdb_used_mem": "0", "aof_enabled": "1",
		} {
			want(name, value)
		}
		if at, err := strconv.ParseInt(field("loading_start_time"), 10, 64); err != nil || at < before || at > time.Now().Unix() {
			t.Errorf("loading_start_time is %d, %v", at, err)
		}
		s.report(50, 200)
		want("loading_total_bytes", "200")
		want("loading_loaded_bytes", "50")
		want("loading_loaded_perc", "25.00")
		// In the first second it is a guess; then three times what it took so far.
		until(t, "an estimate", func() bool {
			eta, err := strconv.Atoi(field("loading_eta_seconds"))
			return err == nil && eta > 1
		})
		until(t, "the log tells of it once a second", func() bool {
			s.report(100, 200)
			return strings.Contains(f.log.String(), "msg=loading bytes=100 of=200 percent=50")
		})
		s.report(200, 200)
		want("loading_loaded_perc", "100.00")
		want("loading_eta_seconds", "0")
		s.gate <- nil
		<-f.Loaded()
		want("loading", "0")
		for _, name := range []string{"loading_start_time", "loading_total_bytes", "loading_eta_seconds"} {
			want(name, "")
		}
	})
}

// A store that cannot be opened ends the server, and nothing is left behind.
func TestLoadingFails(t *testing.T) {
	for name, fail := range map[string]func(*slowStore){
		"open":     func(s *slowStore) { s.gate <- engine.ErrLocked },
		"keyspace": func(s *slowStore) { s.foreign = true; s.gate <- nil },
	} {
		carriers(t, func(t *testing.T, pipes bool) {
			socket := filepath.Join(t.TempDir(), "sock")
			f, s := startSlow(t, pipes, "--unixsocket", socket, "--port", "0")
			c := f.dialUnix(socket)
			if got := c.do("GET", "k"); got != loading {
				t.Errorf("%s: %s", name, got)
			}
			fail(s)
			<-f.Loaded()
			if err := f.LoadError(); !errors.Is(err, engine.ErrLocked) && !errors.Is(err, engine.ErrFormat) {
				t.Errorf("%s: %v", name, err)
			}
			if s.foreign != s.closed.Load() {
				t.Errorf("%s: closed is %v", name, s.closed.Load())
			}
			f.stop()
			if got := c.read(); got != "(closed)" {
				t.Errorf("%s: %s", name, got)
			}
			if _, err := os.Stat(socket); !errors.Is(err, os.ErrNotExist) {
				t.Errorf("%s: the socket is still there: %v", name, err)
			}
		})
	}
}

func TestShutdownWhileLoading(t *testing.T) {
	carriers(t, func(t *testing.T, pipes bool) {
		f, s := startSlow(t, pipes)
		c := f.dial()
		c.send("SHUTDOWN", "SAVE") // there is nothing to save yet
		<-f.Stopping()
		f.stop()
		<-f.Loaded()
		if err := f.LoadError(); !errors.Is(err, context.Canceled) || s.closed.Load() {
			t.Errorf("%v, closed %v", err, s.closed.Load())
		}
		if _, err := net.DialTimeout("tcp", f.addr, time.Second); err == nil {
			t.Error("it still listens")
		}
	})
}

// Who comes while a store is being opened that is soon open is not sent away.
func TestPatience(t *testing.T) {
	carriers(t, func(t *testing.T, pipes bool) {
		s := newSlowStore()
		f := startWith(t, server.Options{Open: s.open, Pipes: pipes, Patience: time.Hour})
		<-s.began
		c := f.dial()
		c.raw(frame("PING"))
		s.gate <- nil
		c.want("PONG")
	})
	s := newSlowStore()
	f := startWith(t, server.Options{Open: s.open, Patience: time.Hour})
	<-s.began
	if err := f.Shutdown(t.Context()); err != nil {
		t.Error(err)
	}
}

// A store that does not give up is waited for, and closed when it is there.
func TestShutdownWhileADeafStoreLoads(t *testing.T) {
	t.Parallel()
	for _, late := range []bool{false, true} {
		s := newSlowStore()
		s.deaf = true
		f := startWith(t, server.Options{Open: s.open, Patience: time.Millisecond})
		<-s.began
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- f.Shutdown(ctx) }()
		f.refusing()
		if late {
			cancel()
			if err := <-done; err != nil {
				t.Error(err)
			}
			if s.closed.Load() {
				t.Error("closed before it was open")
			}
			s.gate <- nil
		} else {
			s.gate <- nil
			if err := <-done; err != nil {
				t.Error(err)
			}
		}
		cancel()
		<-f.Loaded()
		if !s.closed.Load() || late && f.LoadError() == nil {
			t.Errorf("late %v: closed %v, %v", late, s.closed.Load(), f.LoadError())
		}
	}
}

// Clients that come and go while the store gets ready never see anything but
// -LOADING and then service.
func TestBecomingReadyUnderLoad(t *testing.T) {
	carriers(t, func(t *testing.T, pipes bool) {
		f, s := startSlow(t, pipes, "--io-threads", "3")
		const clients = 8
		refused, served := make(chan struct{}, clients), make(chan error, clients)
		for range clients {
			c := f.dial()
			go func() {
				first := true
				for {
					v, err := c.Do("INCR", "n")
					switch {
					case err != nil:
						served <- err
						return
					case !v.IsError():
						served <- nil
						return
					case "(error) "+v.Str != loading:
						served <- errors.New(v.Str)
						return
					case first:
						refused <- struct{}{}
						first = false
					}
				}
			}()
		}
		for range clients {
			<-refused
		}
		s.gate <- nil
		<-f.Loaded()
		after := f.dial() // everybody is served from now on
		if got := after.do("PING"); got != "PONG" {
			t.Error(got)
		}
		for range clients {
			if err := <-served; err != nil {
				t.Error(err)
			}
		}
		if got := after.do("GET", "n"); got != strconv.Quote(strconv.Itoa(clients)) {
			t.Error(got)
		}
	})
}
