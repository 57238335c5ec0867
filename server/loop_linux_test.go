package server

import (
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"redoubt/config"
)

// A loop does not write to a socket that was full until epoll says that there is room: a
// message to many clients that do not read costs no system calls.
func TestFullSocketIsLeftToEpoll(t *testing.T) {
	t.Parallel()
	srv := bareServer()
	srv.clients.init()
	srv.initTracking()
	srv.buildTable()
	srv.obs.Init(srv.table)
	srv.set.outLimit.Store(&config.BufferLimit{})
	l, err := newLoop(srv)
	if err != nil {
		t.Fatal(err)
	}
	defer l.release()
	ends, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(ends[1])
	c := &conn{loop: l, fd: int32(ends[0]), want: unix.EPOLLIN | unix.EPOLLRDHUP}
	c.srv, c.car, c.work, c.unread = srv, c, &l.turn, mostUnread
	c.initOutput()
	l.sessions[c.fd] = c
	if err := l.ctl(unix.EPOLL_CTL_ADD, c.fd, c.want); err != nil {
		t.Fatal(err)
	}
	defer func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		l.close(c)
	}()
	buf := make([]byte, 1<<20)
	read := func() (n int) {
		for {
			got, err := unix.Read(ends[1], buf)
			if err != nil {
				return n
			}
			n += got
		}
	}
	deliver := func(bytes int) {
		c.pushQueue.Push(make([]byte, bytes), 0)
		l.endTurn()
	}

	deliver(100)
	if n := read(); n != 100 {
		t.Fatalf("%d bytes have come, not 100: the socket was empty", n)
	}
	deliver(4 << 20) // more than a socket takes
	first := read()
	if first == 0 || first >= 4<<20 {
		t.Fatalf("%d bytes have come", first)
	}
	for range 10 { // there is room, and the loop was not told
		deliver(100)
	}
	if n := read(); n != 0 {
		t.Errorf("%d bytes have come to a client whose socket was full", n)
	}
	events := make([]unix.EpollEvent, maxEvents)
	rest := 0
	for end := time.Now().Add(20 * time.Second); rest < 4<<20+1000-first && time.Now().Before(end); rest += read() {
		for i := range l.poll(events) {
			l.event(&events[i])
		}
	}
	if rest != 4<<20+1000-first || c.want&unix.EPOLLOUT != 0 {
		t.Errorf("%d bytes have come, not %d; epoll is asked for %#x", rest, 4<<20+1000-first, c.want)
	}
	deliver(100)
	if n := read(); n != 100 {
		t.Errorf("%d bytes have come, not 100: the socket is empty again", n)
	}
}
