package server

import (
	"errors"
	"runtime"
	"strings"
	"testing"
	"time"
	"weak"

	"redoubt/config"
	"redoubt/engine"
	"redoubt/engine/mem"
	"redoubt/executor"
	"redoubt/server/output"
	"redoubt/wire"
)

// Sessions without a socket, for what a client cannot see.

func quietSession(srv *Server, t *turn) *session {
	s := &session{}
	srv.initSession(s, still{}, t, "127.0.0.1:1", "127.0.0.1:2", false)
	return s
}

// A large command is not kept by its session or its loop once it was run.
func TestLargeCommandsAreForgotten(t *testing.T) {
	srv, work := quietServer(t)
	s := quietSession(srv, work)
	run := func(in []byte) {
		t.Helper()
		if s.process(in) != len(in) {
			t.Fatal("not all was taken")
		}
		work.batch.Commit()
		if got := string(s.out.Buf); !strings.HasSuffix(got, ":3\r\n") {
			t.Fatalf("%.100q", got)
		}
		s.out.Buf = s.out.Buf[:0]
	}
	for _, name := range []string{"a command", "the last of a pipeline", "the first of a pipeline", "for a worker"} {
		if s.process(request("SET", "k", "v")); string(s.out.Buf) != "+OK\r\n" {
			t.Fatalf("%q", s.out.Buf)
		}
		in := request("EXISTS", "k", "k", "k", strings.Repeat("x", 1<<20))
		switch name {
		case "the last of a pipeline":
			in = append(request("SET", "k", "v"), in...)
		case "the first of a pipeline":
			in = append(in, request("EXISTS", "k", "k", "k")...)
		}
		gone := weak.Make(&in[len(in)/2])
		if name == "for a worker" {
			in = append(request("KEYS", strings.Repeat("x", 1<<20)), in...)
			gone = weak.Make(&in[len(in)/4])
			if n := s.process(in); n >= len(in) || !s.waiting() {
				t.Fatal("it does not wait")
			}
			work.workers, s.deferred = nil, nil // as if it were done
		} else {
			run(in)
		}
		in = nil
		runtime.GC()
		if gone.Value() != nil {
			t.Errorf("%s is still in memory", name)
		}
	}
}

// A commit that fails after a connection was closed is no trouble for it.
func TestFailedCommitOfAClosedSession(t *testing.T) {
	cfg := config.New()
	if err := cfg.Args([]string{"--port", "0", "--bind", "127.0.0.1"}); err != nil {
		t.Fatal(err)
	}
	srv, err := New(Options{Config: cfg, Engine: &refusing{Engine: mem.New()}})
	if err != nil {
		t.Fatal(err)
	}
	work := &turn{batch: srv.exec.NewBatch(), stats: srv.obs.Stats.NewLoop()}
	closed, open := quietSession(srv, work), quietSession(srv, work)
	closed.process(append(request("PING"), request("SET", "a", "1")...))
	open.process(append(request("PING"), request("SET", "b", "1")...))
	srv.eng.(*refusing).now = true
	closed.out.Buf = nil // as a carrier leaves it
	work.batch.Commit()
	if got := string(open.out.Buf); got != "+PONG\r\n-ERR commit: no luck\r\n" {
		t.Errorf("%q", got)
	}
}

// refusing is an engine whose commits fail.
type refusing struct {
	engine.Engine
	now bool
}

func (e *refusing) Begin(o engine.ViewOptions) (engine.View, error) {
	v, err := e.Engine.Begin(o)
	return refusingView{v, e}, err
}

type refusingView struct {
	engine.View
	e *refusing
}

func (v refusingView) Commit(b *engine.Batch) (engine.Ticket, error) {
	if v.e.now {
		return 0, errors.New("no luck")
	}
	return v.View.Commit(b)
}

// The replies to a client that wants none leave no large buffer behind.
func TestDiscardedRepliesAreForgotten(t *testing.T) {
	srv, work := quietServer(t)
	s := quietSession(srv, work)
	in := append(request("CLIENT", "REPLY", "OFF"), request("ECHO", strings.Repeat("x", 1<<20))...)
	in = append(in, request("PING")...)
	if s.process(in) != len(in) || len(s.out.Buf) != 0 {
		t.Fatalf("%q", s.out.Buf)
	}
	if cap(s.scratch.Buf) > output.KeepBuffer {
		t.Errorf("%d bytes are kept", cap(s.scratch.Buf))
	}
}

func TestProtectedMode(t *testing.T) {
	srv, _ := quietServer(t)
	admitted := func(addr string, unix bool) bool { return srv.protectedModeError(addr, unix) == "" }
	set := func(name, value string) {
		t.Helper()
		if err := srv.cfg.Set(name, value); err != nil {
			t.Fatal(err)
		}
	}
	for _, addr := range []string{"127.0.0.1:1", "127.1.2.3:1", "[::1]:1"} {
		if !admitted(addr, false) {
			t.Errorf("%s is refused", addr)
		}
	}
	if !admitted("/run/s:0", true) {
		t.Error("a unix socket is refused")
	}
	for _, addr := range []string{"10.0.0.1:1", "[fe80::1%eth0]:1", "[2001:db8::1]:1"} {
		if text := srv.protectedModeError(addr, false); !strings.HasPrefix(text, "DENIED ") {
			t.Errorf("%s: %q", addr, text)
		}
	}
	set("requirepass", "secret")
	if !admitted("10.0.0.1:1", false) {
		t.Error("refused although there is a password")
	}
	set("requirepass", "")
	set("protected-mode", "no")
	if !admitted("10.0.0.1:1", false) {
		t.Error("refused although protected-mode is off")
	}
}

// There are never more clients than descriptors for them.
func TestMaxClientsFitsTheSystem(t *testing.T) {
	srv, _ := quietServer(t)
	if err := srv.cfg.Set("maxclients", "4000000000"); err != nil {
		t.Fatal(err)
	}
	if got, can := srv.set.maxClients.Load(), descriptorLimit(); got >= can || got < min(can, 1000)-ownFiles {
		t.Errorf("%d clients with %d descriptors", got, can)
	}
	if err := srv.cfg.Set("maxclients", "7"); err != nil {
		t.Fatal(err)
	}
	if got := srv.set.maxClients.Load(); got != 7 {
		t.Errorf("%d clients", got)
	}
}

// A pause that is extended at the moment it ends goes on.
func TestPauseIsExtended(t *testing.T) {
	p := pause{changed: func(bool) {}}
	p.begin(time.Now().Add(time.Hour), false)
	p.expire() // the timer of a shorter one, too late
	if !p.active.Load() {
		t.Error("it ended early")
	}
	p.begin(time.Now().Add(time.Minute), true)
	if p.until.Before(time.Now().Add(30*time.Minute)) || !p.all {
		t.Error("it was shortened, or holds what it held before")
	}
	p.end()
	if p.active.Load() {
		t.Error("it goes on")
	}
}

// A session that leaves during a pause is forgotten by it.
func TestPausedSessionLeaves(t *testing.T) {
	srv, work := quietServer(t)
	s := quietSession(srv, work)
	srv.pause.begin(time.Now().Add(time.Hour), true)
	if s.process(request("PING")) != 0 || srv.pause.waiting() != 1 {
		t.Fatal("it does not wait")
	}
	srv.leave(s)
	if n := srv.pause.waiting(); n != 0 {
		t.Errorf("%d wait", n)
	}
}

func TestUnknownCommandText(t *testing.T) {
	for _, test := range []struct {
		args []string
		want string
	}{
		{[]string{"nosuch"}, "ERR unknown command 'nosuch', with args beginning with: "},
		{[]string{"no\x00such", "a\x00b", "c"}, "ERR unknown command 'no', with args beginning with: 'a' 'c' "},
		{[]string{strings.Repeat("\xff", 200), strings.Repeat("\xfe", 200), "c"},
			"ERR unknown command '" + strings.Repeat("\xff", 128) + "', with args beginning with: '" + strings.Repeat("\xfe", 128) + "' "},
		{[]string{"x", strings.Repeat("a", 100), strings.Repeat("b", 100), "c"},
			"ERR unknown command 'x', with args beginning with: '" + strings.Repeat("a", 100) + "' '" + strings.Repeat("b", 25) + "' "},
	} {
		args := make([][]byte, len(test.args))
		for i, a := range test.args {
			args[i] = []byte(a)
		}
		if got := unknownCommand(args).Error(); got != test.want {
			t.Errorf("got  %q\nwant %q", got, test.want)
		}
	}
}

// A large command that is kept is not copied, and its buffer is not used again.
func TestLargeCommandsAreKeptOnce(t *testing.T) {
	srv, work := quietServer(t)
	s := quietSession(srv, work)
	s.process(request("MULTI"))
	value := strings.Repeat("x", 20<<20)
	in := request("SET", "k", value)
	next := request("SET", "k", "next")
	// As a carrier reads it: first a part, then the rest into the session's buffer.
	s.keep(in[:1000])
	if n := s.process(s.buf); n != 0 {
		t.Fatal(n)
	}
	grown := 0
	for s.reserve(); cap(s.buf) < len(in); s.reserve() {
		if cap(s.buf) > max(reserveAhead, 16*(len(s.buf)+readSize)) {
			t.Errorf("%d bytes came, and room was made for %d", len(s.buf), cap(s.buf))
		}
		grown += cap(s.buf)
		s.buf = append(s.buf, in[len(s.buf):cap(s.buf)]...)
	}
	if cap(s.buf) != len(in) || grown > len(in)/8 {
		t.Errorf("room for %d bytes, of %d, after buffers of %d", cap(s.buf), len(in), grown)
	}
	s.buf = append(s.buf, in[len(s.buf):]...)
	buf := s.buf
	if n := s.process(s.buf); n != len(in) {
		t.Fatal(n)
	}
	s.keep(next[:5]) // what follows goes elsewhere
	kept := s.multi.queue[0].Args[2]
	if &kept[0] != &buf[len(buf)-2-len(kept)] || string(kept) != value {
		t.Error("it was copied, or overwritten")
	}
	if n := s.held(); n > len(in)+64<<10 {
		t.Errorf("%d bytes are held", n)
	}
	// Small ones are copied.
	s.buf = append([]byte(nil), next...)
	s.keep(s.buf[s.process(s.buf):])
	if got := string(s.multi.queue[1].Args[2]); got != "next" || s.retained {
		t.Errorf("%q", got)
	}
}

// The worker knows why the loop did not run a command: a long read goes to a snapshot at
// once, and does not wait for the latch of its key.
func TestDetourIsHandedOver(t *testing.T) {
	srv, work := quietServer(t)
	s := quietSession(srv, work)
	s.process(request("SETBIT", "big", "64000000", "1"))
	work.batch.Commit()
	hot := srv.exec.NewWaitingBatch()
	args := [][]byte{[]byte("SETBIT"), []byte("big"), []byte("1"), []byte("1")}
	if d := hot.Run(&executor.Call{Cmd: srv.table.Find(args), Args: args, Reply: new(wire.Writer)}); d != 0 {
		t.Fatal(d)
	}
	s.process(request("BITCOUNT", "big"))
	work.batch.Commit()
	if len(work.workers) != 1 {
		t.Fatalf("%d commands are for workers", len(work.workers))
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		work.workers[0]()
	}()
	select {
	case <-done:
	case <-time.After(time.Minute):
		t.Error("it waits for a latch")
	}
	hot.Commit()
	<-done
}
