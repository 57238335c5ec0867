package server_test

import (
	"net"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// Clients that have not authenticated.

// A guest that does not read is closed with little memory, one that reads is answered
// whatever it sends.
func TestGuestsHoldLittle(t *testing.T) {
	carriers(t, func(t *testing.T, pipes bool) {
		f := start(t, pipes, "--requirepass", "secret")
		conn, err := (&net.Dialer{Control: func(_, _ string, raw syscall.RawConn) error {
			return raw.Control(func(fd uintptr) { _ = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_RCVBUF, 4096) })
		}}).Dial("tcp", f.addr)
		if err != nil {
			t.Fatal(err)
		}
		c, reader, admin := f.over(conn), f.dial(), f.dial()
		admin.do("AUTH", "secret")
		go func() {
			for {
				if err := c.Write([]byte(strings.Repeat("nonsense\r\n", 1000))); err != nil {
					return
				}
			}
		}()
		most := 0
		until(t, "it is closed", func() bool {
			there := false
			for line := range strings.Lines(mustDo(t, admin, "CLIENT", "LIST")) {
				if strings.Contains(line, " addr="+c.Conn().LocalAddr().String()+" ") {
					there = true
					most = max(most, admin.number(strings.TrimPrefix(strings.Fields(line)[0], "id="), "tot-mem"))
				}
			}
			return !there
		})
		if most > 256<<10 {
			t.Errorf("it held %d bytes", most)
		}
		const n = 20_000
		go reader.raw(strings.Repeat("nonsense\r\n", n))
		for range n {
			reader.want(`(error) "ERR unknown command 'nonsense', with args beginning with: "`)
		}
		if got := reader.do("AUTH", "secret"); got != "OK" {
			t.Error(got)
		}
	})
}

// A guest may not send much without ending a command.
func TestGuestsSendLittle(t *testing.T) {
	carriers(t, func(t *testing.T, pipes bool) {
		f := start(t, pipes, "--requirepass", "secret")
		c := f.dial()
		c.raw("*10\r\n" + strings.Repeat("$16384\r\n"+strings.Repeat("x", 16384)+"\r\n", 9))
		c.want("(closed)")
		// But to authenticate and to go on at once is fine.
		c = f.dial()
		c.raw(frame("AUTH", "default", "secret") + frame("SET", "k", strings.Repeat("x", 1<<20)) + frame("STRLEN", "k"))
		c.want("OK", "OK", "(integer) 1048576")
	})
}

// Who does not authenticate in time is closed, who did is not.
func TestAuthTimeout(t *testing.T) {
	carriers(t, func(t *testing.T, pipes bool) {
		f := start(t, pipes, "--requirepass", "secret", "--auth-timeout", "1")
		guest, c := f.dial(), f.dial()
		if got := c.do("AUTH", "secret"); got != "OK" {
			t.Fatal(got)
		}
		guest.want("(closed)")
		if got := c.do("PING"); got != "PONG" {
			t.Error(got)
		}
		if !strings.Contains(f.log.String(), "auth-timeout") {
			t.Error("the log does not say why")
		}
	})
}

// Guests do not keep others out: the oldest one leaves.
func TestGuestsMakeRoom(t *testing.T) {
	carriers(t, func(t *testing.T, pipes bool) {
		f := start(t, pipes, "--requirepass", "secret", "--maxclients", "5")
		first := f.dial()
		if got := first.do("AUTH", "secret"); got != "OK" {
			t.Fatal(got)
		}
		var guests []*client
		for range 4 {
			c := f.dial()
			if got := c.do("PING"); got != "(error) NOAUTH Authentication required." {
				t.Fatal(got)
			}
			guests = append(guests, c)
		}
		c := f.dial()
		if got := c.do("AUTH", "secret"); got != "OK" {
			t.Error(got)
		}
		guests[0].want("(closed)")
		if got := first.info("redoubt", "unauthenticated_closed"); got != "1" {
			t.Errorf("%s guests were closed", got)
		}
		if got := guests[3].do("AUTH", "secret"); got != "OK" {
			t.Error(got)
		}
		if got := first.info("redoubt", "unauthenticated_clients"); got != "2" {
			t.Errorf("%s guests are there", got)
		}
	})
}
