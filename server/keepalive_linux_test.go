package server_test

import (
	"strconv"
	"testing"

	"golang.org/x/sys/unix"
)

func TestKeepalive(t *testing.T) {
	carriers(t, func(t *testing.T, pipes bool) {
		option := func(f *front, level, name int) int {
			c := f.dial()
			fd, err := strconv.Atoi(c.field(c.id(), "fd"))
			if err != nil {
				t.Fatal(err)
			}
			n, err := unix.GetsockoptInt(fd, level, name) // the server's descriptors are ours
			if err != nil {
				t.Fatal(err)
			}
			return n
		}
		f := start(t, pipes, "--tcp-keepalive", "60")
		if option(f, unix.SOL_SOCKET, unix.SO_KEEPALIVE) != 1 || option(f, unix.IPPROTO_TCP, unix.TCP_KEEPIDLE) != 60 ||
			option(f, unix.IPPROTO_TCP, unix.TCP_KEEPINTVL) != 20 || option(f, unix.IPPROTO_TCP, unix.TCP_KEEPCNT) != 3 {
			t.Error("keepalive is not set")
		}
		if option(f, unix.IPPROTO_TCP, unix.TCP_NODELAY) != 1 {
			t.Error("nodelay is not set")
		}
		if option(start(t, pipes, "--tcp-keepalive", "0"), unix.SOL_SOCKET, unix.SO_KEEPALIVE) != 0 {
			t.Error("keepalive is set")
		}
	})
}
