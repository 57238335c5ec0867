package gateway

import (
	"crypto/tls"
	"errors"
	"net"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// parking watches connections that no goroutine reads, by an epoll instance of its own: each
// has a descriptor in the kernel's list and a small record here.
type parking struct {
	epoll int
	event int // an eventfd that wakes run
	idle  time.Duration

	mu     sync.Mutex
	places map[int32]*place
	last   int32
	closed bool
	ended  chan struct{}
}

// place is a parked connection.
type place struct {
	net.Conn
	fd       int
	number   int32
	deadline time.Time // zero: none
	wake     func(alive bool)
}

const canPark = true

func newParking(idle time.Duration) (*parking, error) {
	epoll, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return nil, err
	}
	event, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	if err == nil {
		err = unix.EpollCtl(epoll, unix.EPOLL_CTL_ADD, event, &unix.EpollEvent{Events: unix.EPOLLIN, Fd: -1})
	}
	if err != nil {
		return nil, errors.Join(err, unix.Close(epoll))
	}
	return &parking{epoll: epoll, event: event, idle: idle, places: make(map[int32]*place), ended: make(chan struct{})}, nil
}

// descriptor is the socket below a connection.
func descriptor(c net.Conn) (fd int, err error) {
	if t, ok := c.(*tls.Conn); ok {
		c = t.NetConn()
	}
	s, ok := c.(syscall.Conn)
	if !ok {
		return 0, errors.ErrUnsupported
	}
	raw, err := s.SyscallConn()
	if err != nil {
		return 0, err
	}
	err = raw.Control(func(n uintptr) { fd = int(n) })
	return fd, err
}

// watch arranges that wake is called once: with false when the client closes the connection,
// and, if idle, with true when the client sends something, or with false when the idle time
// is over. wake is not called after a successful leave.
func (p *parking) watch(c net.Conn, idle bool, wake func(alive bool)) (*place, error) {
	fd, err := descriptor(c)
	if err != nil {
		return nil, err
	}
	at := &place{Conn: c, fd: fd, wake: wake}
	events := uint32(unix.EPOLLRDHUP | unix.EPOLLONESHOT)
	if idle {
		events |= unix.EPOLLIN
		at.deadline = time.Now().Add(p.idle)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return nil, net.ErrClosed
	}
	for p.last++; p.last <= 0 || p.places[p.last] != nil; p.last++ {
		p.last = max(0, p.last)
	}
	at.number = p.last
	// Descriptors are used again, and an event may be one of a descriptor's earlier
	// connection: so an event carries the number of a place, not a descriptor.
	if err := unix.EpollCtl(p.epoll, unix.EPOLL_CTL_ADD, fd, &unix.EpollEvent{Events: events, Fd: at.number}); err != nil {
		return nil, err
	}
	p.places[at.number] = at
	return at, nil
}

// leave ends the watch. It returns false if wake was called, or is about to be.
func (p *parking) leave(at *place) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.leaveLocked(at)
}

func (p *parking) leaveLocked(at *place) bool {
	if p.places[at.number] != at {
		return false
	}
	delete(p.places, at.number)
	if !p.closed {
		_ = unix.EpollCtl(p.epoll, unix.EPOLL_CTL_DEL, at.fd, nil) // closing the descriptor would do it, too
	}
	return true
}

// run waits for events and calls wake for each, until close.
func (p *parking) run() {
	defer close(p.ended)
	events := make([]unix.EpollEvent, 256)
	swept := time.Now()
	for {
		n, err := unix.EpollWait(p.epoll, events, 1000)
		if err != nil && err != unix.EINTR {
			return
		}
		for _, e := range events[:max(0, n)] {
			p.mu.Lock()
			at := p.places[e.Fd]
			ok := at != nil && p.leaveLocked(at)
			p.mu.Unlock()
			if ok {
				at.wake(e.Events&(unix.EPOLLRDHUP|unix.EPOLLHUP|unix.EPOLLERR) == 0)
			}
		}
		if p.sweep(&swept) {
			return
		}
	}
}

// sweep wakes connections whose idle time is over. It returns true once parking is closed.
func (p *parking) sweep(last *time.Time) bool {
	now := time.Now()
	p.mu.Lock()
	closed := p.closed
	var late []*place
	if now.Sub(*last) >= time.Second {
		*last = now
		for _, at := range p.places {
			if !at.deadline.IsZero() && now.After(at.deadline) {
				late = append(late, at)
			}
		}
		for _, at := range late {
			p.leaveLocked(at)
		}
	}
	p.mu.Unlock()
	for _, at := range late {
		at.wake(false)
	}
	return closed
}

// close ends all watches without calling wake, and returns when no call is under way.
func (p *parking) close() {
	p.mu.Lock()
	was := p.closed
	p.closed = true
	clear(p.places)
	p.mu.Unlock()
	if was {
		return
	}
	one := [8]byte{1}
	_, _ = unix.Write(p.event, one[:]) // run looks every second in any case
	<-p.ended
	_ = errors.Join(unix.Close(p.event), unix.Close(p.epoll)) // nobody uses them any more
}

// parked returns how many connections are watched.
func (p *parking) parked() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.places)
}

// tryWrite writes what the kernel takes without blocking, and returns how many bytes.
func tryWrite(c net.Conn, b []byte) (n int) {
	s, ok := c.(syscall.Conn)
	if !ok { // TLS
		return 0
	}
	raw, err := s.SyscallConn()
	if err != nil {
		return 0
	}
	err = raw.Write(func(fd uintptr) bool {
		if m, err := unix.Write(int(fd), b); err == nil {
			n = m
		}
		return true
	})
	if err != nil {
		return 0
	}
	return n
}
