package server

import (
	"bufio"
	"crypto/tls"
	"net"
	"strings"
	"testing"
	"time"

	"redoubt/internal/testcert"
)

// stranger is a connection that seems to come from another machine.
type stranger struct {
	net.Conn
	from net.Addr
}

func (s stranger) RemoteAddr() net.Addr { return s.from }

// visit has the server welcome a connection from an address, and returns the
// client's end of it.
func visit(t *testing.T, srv *Server, from string, k kind) net.Conn {
	t.Helper()
	addr, err := net.ResolveTCPAddr("tcp", from)
	if err != nil {
		t.Fatal(err)
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	theirs, err := net.Dial("tcp", ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { theirs.Close() })
	theirs.SetDeadline(time.Now().Add(30 * time.Second))
	ours, err := ln.Accept()
	if err != nil {
		t.Fatal(err)
	}
	srv.welcome(stranger{ours, addr}, &listener{ln, k, "127.0.0.1"})
	return theirs
}

// Who comes from elsewhere is told why he is turned away, over TLS too, as long as
// there is no password.
func TestProtectedModeTellsStrangers(t *testing.T) {
	t.Parallel()
	srv, _ := quietServer(t)
	srv.car.usePipes = true // these connections are not sockets
	ca := testcert.New(t)
	pair := ca.Sign("server")
	if err := srv.cfg.SetAll([][2]string{
		{"tls-cert-file", pair.Cert}, {"tls-key-file", pair.Key}, {"tls-ca-cert-file", ca.File}, {"tls-replication", "yes"},
	}); err != nil {
		t.Fatal(err)
	}
	ask := func(from string, k kind) string {
		t.Helper()
		conn := visit(t, srv, from, k)
		if k == overTLS {
			c := ca.Client(pair)
			c.ServerName = "127.0.0.1"
			conn = tls.Client(conn, c)
		}
		conn.Write([]byte("PING\r\n")) // may fail: it may be closed already
		line, err := bufio.NewReader(conn).ReadString('\n')
		if err != nil {
			t.Fatalf("from %s: %q, %v", from, line, err)
		}
		return strings.TrimSpace(line)
	}
	const denied = "-DENIED Redis is running in protected mode because protected mode is enabled and no password is set for the default user."
	for _, k := range []kind{overTCP, overTLS} {
		rejected := srv.obs.Stats.Rejected.Load()
		if got := ask("192.0.2.1:1", k); !strings.HasPrefix(got, denied) {
			t.Errorf("%s: %s", k, got)
		}
		if got := srv.obs.Stats.Rejected.Load() - rejected; got != 1 {
			t.Errorf("%s: %d were rejected", k, got)
		}
		if got := ask("127.0.0.1:1", k); got != "+PONG" {
			t.Errorf("%s from here: %s", k, got)
		}
	}
	if err := srv.cfg.Set("requirepass", "secret"); err != nil {
		t.Fatal(err)
	}
	if got := ask("[2001:db8::1]:1", overTLS); !strings.HasPrefix(got, "-NOAUTH ") {
		t.Error(got)
	}
}

// Commands that a directive allows: to nobody, to this machine, to all.
func TestProtectedCommands(t *testing.T) {
	t.Parallel()
	for _, x := range []struct {
		allow     string
		here, far bool
	}{{"no", false, false}, {"local", true, false}, {"yes", true, true}} {
		srv, _ := quietServer(t, "--protected-mode", "no", "--enable-debug-command", x.allow,
			"--enable-module-command", x.allow, "--enable-protected-configs", x.allow)
		srv.car.usePipes = true
		for from, want := range map[string]bool{"127.0.0.1:1": x.here, "[::1]:1": x.here, "192.0.2.1:1": x.far} {
			conn := visit(t, srv, from, overTCP)
			replies := bufio.NewReader(conn)
			do := func(line string) string {
				t.Helper()
				if _, err := conn.Write([]byte(line + "\r\n")); err != nil {
					t.Fatal(err)
				}
				got, err := replies.ReadString('\n')
				if err != nil {
					t.Fatal(err)
				}
				return strings.TrimSpace(got)
			}
			for _, call := range []string{"DEBUG SLEEP 0", "MODULE LOAD x", "MODULE LOADEX x", "MODULE UNLOAD x", "CONFIG SET dbfilename x"} {
				got := do(call)
				refused := strings.Contains(got, "command not allowed. If the enable-") || strings.Contains(got, "can't set protected config")
				if refused == want {
					t.Errorf("%s, from %s: %s: %s", x.allow, from, call, got)
				}
			}
			if got := do("MODULE LIST"); got != "*0" {
				t.Error(got)
			}
			if got := do("CONFIG SET enable-debug-command yes"); !strings.Contains(got, "can't set immutable config") {
				t.Error(got)
			}
		}
	}
}
