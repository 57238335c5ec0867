//go:build linux

package main

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"redoubt/histogram"
)

// The load generator. It shares the processors with the servers that it
// measures, so it must be cheap: one thread, one epoll, system calls that tell
// the scheduler nothing, requests that are copied and patched, no allocation
// per request. Like redis-benchmark it is a closed loop: a connection sends its
// pipeline in one write, waits for all replies, and sends the next; a server
// that stalls is therefore sent less, and its stall counts once per connection.
// A reply's time runs from the write of its pipeline to the read that has it.
//
// redis-benchmark itself is not used where keys must be skewed, replies
// checked, or percentiles taken per interval.

// mix is requests in their proportions: one is listed as often as it weighs.
type mix []*request

// load is what to send.
type load struct {
	port     int
	clients  int
	pipeline int
	requests mix
	keys     chooser
	count    int           // requests in all; 0 is no bound
	time     time.Duration // 0 is no bound
	window   time.Duration // 0 is one window
	mayMiss  bool          // keys that are read need not be there
	random   *rand.PCG
}

// outcome is what came of it.
type outcome struct {
	count   int
	missed  int // reads that found no key
	time    time.Duration
	cpu     time.Duration // of the generator itself
	all     histogram.Histogram
	windows []*histogram.Histogram
}

// sent is what is remembered of a request until its reply comes.
type sent struct {
	key   uint64
	reads bool
}

// client is one connection.
type client struct {
	fd       int
	out      []byte
	in       []byte // what was read and is not a whole reply yet
	waiting  []sent
	answered int // of waiting
	since    time.Duration
}

// generator is a load while it runs.
type generator struct {
	load
	outcome
	epoll   int
	clients []client
	idle    int // clients that are through
	left    int // requests that may still be sent
	begin   time.Time
}

// stuck is how long no reply at all may come.
const stuck = time.Minute

// run sends the load and waits for all replies.
func (l load) run() (*outcome, error) {
	runtime.LockOSThread() // the CPU time is the thread's
	defer runtime.UnlockOSThread()
	g := &generator{load: l, clients: make([]client, l.clients), left: l.count}
	defer func() {
		for _, c := range g.clients {
			if c.fd > 0 {
				unix.Close(c.fd)
			}
		}
	}()
	var err error
	if g.epoll, err = unix.EpollCreate1(unix.EPOLL_CLOEXEC); err != nil {
		return nil, err
	}
	defer unix.Close(g.epoll)
	for i := range g.clients {
		if err := g.open(i); err != nil {
			return nil, fmt.Errorf("connect: %w", err)
		}
	}
	cpu := threadCPU()
	g.begin = time.Now()
	if err := g.loop(); err != nil {
		return nil, err
	}
	g.outcome.time, g.cpu = time.Since(g.begin), threadCPU()-cpu
	return &g.outcome, nil
}

func threadCPU() time.Duration {
	var u unix.Rusage
	if unix.Getrusage(unix.RUSAGE_THREAD, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// open connects a client.
func (g *generator) open(i int) error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	c := &g.clients[i]
	c.fd, c.in = fd, make([]byte, 0, 64<<10)
	return errors.Join(
		unix.Connect(fd, &unix.SockaddrInet4{Port: g.port, Addr: [4]byte{127, 0, 0, 1}}),
		unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_NODELAY, 1),
		unix.SetNonblock(fd, true),
		unix.EpollCtl(g.epoll, unix.EPOLL_CTL_ADD, fd, &unix.EpollEvent{Events: unix.EPOLLIN, Fd: int32(i)}),
	)
}

func (g *generator) loop() error {
	for i := range g.clients {
		if err := g.send(&g.clients[i]); err != nil {
			return err
		}
	}
	events := make([]unix.EpollEvent, len(g.clients))
	for g.idle < len(g.clients) {
		n, err := unix.EpollWait(g.epoll, events, int(stuck/time.Millisecond))
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil {
			return fmt.Errorf("epoll: %w", err)
		}
		if n == 0 {
			return fmt.Errorf("no reply for %s", stuck)
		}
		for _, e := range events[:n] {
			if err := g.receive(&g.clients[e.Fd]); err != nil {
				return err
			}
		}
	}
	return nil
}

// send sends the next pipeline of a client, unless the load is at its end.
func (g *generator) send(c *client) error {
	n := g.pipeline
	if g.load.count > 0 {
		n = min(n, g.left)
		g.left -= n
	}
	if n == 0 || g.load.time > 0 && time.Since(g.begin) >= g.load.time {
		g.idle++
		return nil
	}
	c.out, c.waiting, c.answered = c.out[:0], c.waiting[:0], 0
	for range n {
		r := g.requests[0]
		if len(g.requests) > 1 {
			r = g.requests[below(g.random, uint64(len(g.requests)))]
		}
		k := g.keys.next()
		c.out = r.appendTo(c.out, k, g.random)
		for range r.replies {
			c.waiting = append(c.waiting, sent{k, r.reads})
		}
	}
	c.since = time.Since(g.begin)
	for rest := c.out; len(rest) > 0; {
		n, _, errno := syscall.RawSyscall(unix.SYS_WRITE, uintptr(c.fd), uintptr(unsafe.Pointer(&rest[0])), uintptr(len(rest)))
		switch errno {
		case 0:
			rest = rest[n:]
		case unix.EINTR:
		case unix.EAGAIN: // the pipelines are small: this is rare
			if _, err := unix.Poll([]unix.PollFd{{Fd: int32(c.fd), Events: unix.POLLOUT}}, -1); err != nil && !errors.Is(err, unix.EINTR) {
				return fmt.Errorf("poll: %w", err)
			}
		default:
			return fmt.Errorf("write: %w", errno)
		}
	}
	return nil
}

// receive takes what has come for a client, and sends again once all of its
// replies are there.
func (g *generator) receive(c *client) error {
	if len(c.in) == cap(c.in) {
		return fmt.Errorf("a reply is longer than %d bytes", cap(c.in))
	}
	free := c.in[len(c.in):cap(c.in)]
	n, _, errno := syscall.RawSyscall(unix.SYS_READ, uintptr(c.fd), uintptr(unsafe.Pointer(&free[0])), uintptr(len(free)))
	switch {
	case errno == unix.EAGAIN || errno == unix.EINTR:
		return nil
	case errno != 0:
		return fmt.Errorf("read: %w", errno)
	case n == 0:
		return errors.New("the server closed a connection")
	}
	now := time.Since(g.begin)
	c.in = c.in[:len(c.in)+int(n)]
	used, err := g.take(c, now)
	if err != nil {
		return err
	}
	c.in = c.in[:copy(c.in, c.in[used:])]
	if c.answered < len(c.waiting) {
		return nil
	}
	if len(c.in) > 0 {
		return fmt.Errorf("more replies than requests: %.40q", c.in)
	}
	return g.send(c)
}

// take counts and checks the whole replies among what was read, and says how
// many bytes they are.
func (g *generator) take(c *client, now time.Duration) (used int, err error) {
	h := g.windowAt(now)
	for c.answered < len(c.waiting) {
		r, n, err := nextReply(c.in[used:])
		if err != nil {
			return 0, err
		}
		if n == 0 {
			break
		}
		if err := g.check(r, c.waiting[c.answered]); err != nil {
			return 0, err
		}
		used += n
		c.answered++
		g.outcome.count++
		g.all.Add(now - c.since)
		if h != nil {
			h.Add(now - c.since)
		}
	}
	return used, nil
}

func (g *generator) check(r reply, s sent) error {
	switch {
	case r.kind == '-':
		return fmt.Errorf("error reply: %s", r.body)
	case !s.reads || r.body != nil && belongs(r.body, s.key):
	case r.body == nil && g.mayMiss:
		g.missed++
	default:
		return fmt.Errorf("GET %s answered %.40q", key(s.key), r.body)
	}
	return nil
}

// windowAt is the histogram of a moment, nil if there are no windows.
func (g *generator) windowAt(now time.Duration) *histogram.Histogram {
	if g.window == 0 {
		return nil
	}
	for int(now/g.window) >= len(g.windows) {
		g.windows = append(g.windows, new(histogram.Histogram))
	}
	return g.windows[now/g.window]
}
