package server_test

import (
	"net"
	"strconv"
	"strings"
	"testing"

	"redoubt/config"
	"redoubt/engine/mem"
	"redoubt/server"
)

// CONFIG SET port moves the listener. A port that cannot be had is refused, and
// the server goes on listening.
func TestChangingThePort(t *testing.T) {
	carriers(t, func(t *testing.T, pipes bool) {
		f := start(t, pipes)
		c := f.dial()
		taken, port := takePort(t)
		got := c.do("CONFIG", "SET", "port", port)
		if want := "Unable to listen on this port. Check server logs."; !strings.Contains(got, want) {
			t.Errorf("a port that is taken: %s", got)
		}
		taken.Close()

		old := f.Addr().String()
		f.addr = old
		if got := f.dial().do("PING"); got != "PONG" {
			t.Errorf("after a refusal: %s", got)
		}
		for got = ""; got != "OK"; { // somebody may take a port that was free
			if strings.Count(f.log.String(), "changing the listening address failed") > 5 {
				t.Fatal(got)
			}
			taken, port = takePort(t)
			taken.Close()
			got = c.do("CONFIG", "SET", "port", port)
		}
		f.addr = f.Addr().String()
		if _, now, _ := net.SplitHostPort(f.addr); now != port {
			t.Errorf("listens on %s, want %s", now, port)
		}
		if conn, err := net.Dial("tcp", old); err == nil {
			conn.Close()
			t.Errorf("%s is still served", old)
		}
		if got := f.dial().do("PING"); got != "PONG" {
			t.Errorf("on the new port: %s", got)
		}
		if got := c.do("PING"); got != "PONG" {
			t.Errorf("a connection from before: %s", got)
		}
	})
}

// Addresses that begin with "-" may be missing; one that is in use may not.
func TestOptionalAddresses(t *testing.T) {
	t.Parallel()
	f := start(t, false, "--bind", "-192.0.2.77", "127.0.0.1", "-127.0.0.2")
	c := f.dial()
	if got := c.do("CONFIG", "GET", "bind"); !strings.Contains(got, `"-192.0.2.77 127.0.0.1 -127.0.0.2"`) {
		t.Error(got)
	}
	if got := c.do("CONFIG", "SET", "bind", "127.0.0.1 -::*"); got != "OK" {
		t.Error(got)
	}
	if got := c.do("CONFIG", "SET", "bind", "127.0.0.1 192.0.2.77"); !strings.Contains(got, "Failed to bind to specified addresses.") {
		t.Errorf("an address that is not ours: %s", got)
	}
	taken, port := takePort(t)
	defer taken.Close()
	if got := c.do("CONFIG", "SET", "bind", "-127.0.0.1", "port", port); !strings.Contains(got, "Failed to bind") && !strings.Contains(got, "Unable to listen") {
		t.Errorf("an address in use: %s", got)
	}
	if got := c.do("CONFIG", "GET", "bind"); !strings.Contains(got, `"127.0.0.1 -::*"`) {
		t.Error(got)
	}
	f.addr = f.Addr().String()
	if got := f.dial().do("PING"); got != "PONG" {
		t.Error(got)
	}
}

// A server that would listen nowhere does not start.
func TestNowhereToListen(t *testing.T) {
	t.Parallel()
	for _, bind := range []string{"", "-192.0.2.77"} {
		cfg := config.New()
		if err := cfg.Args([]string{"--port", "0", "--bind", bind}); err != nil {
			t.Fatal(err)
		}
		srv, err := server.New(server.Options{Config: cfg, Engine: mem.New()})
		if err == nil {
			srv.Shutdown(t.Context())
			t.Errorf("bind %q: it starts", bind)
		}
	}
}

func takePort(t *testing.T) (ln net.Listener, port string) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return ln, strconv.Itoa(ln.Addr().(*net.TCPAddr).Port)
}
