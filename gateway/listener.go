package gateway

import (
	"container/list"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync"
	"syscall"
	"time"
)

// listener gives net/http its connections: new ones once they have sent something, and
// parked ones once their client has sent the next request.
// It limits the open connections, and the connections inside net/http, where each has a
// goroutine and buffers. When too many are inside, the listener closes one that is idle, as
// HTTP allows, or one that has not sent all of its request for a while; else the next
// connection waits.
type listener struct {
	net.Listener
	tls      *tls.Config
	maxConns func() int64
	// await calls wake when a connection has sent something (alive), or will not.
	await func(c net.Conn, wake func(alive bool)) error
	// charge accounts for the memory of connections.
	charge func(int64)
	// full reports whether clients hold as much memory as they may.
	full func() bool

	mu     sync.Mutex
	wake   chan struct{} // has one value when there may be something to do
	queue  []net.Conn    // to be given to net/http
	open   map[*conn]struct{}
	active map[net.Conn]*list.Element // inside net/http; in one of the lists below unless a request is under way
	idle   *list.List                 // of since: connections between two requests, the longest idle first
	// reading is the same for connections whose request is being read.
	reading *list.List
	closed  bool
	// Refused counts connections beyond the limit.
	Refused int64
}

// since is a connection in a list, and when it was put there.
type since struct {
	net.Conn
	time time.Time
	in   *list.List
}

const (
	// maxActive is how many connections may be inside net/http.
	maxActive = 1024
	// minIdle is how long a connection may be idle before it is closed to make room.
	minIdle = time.Second
	// minReading is the same for a connection whose request is being read.
	minReading = 2 * time.Second
)

// conn is a connection that leaves the listener's books when it is closed.
type conn struct {
	net.Conn
	ln   *listener
	once sync.Once
}

func (c *conn) Close() error {
	c.once.Do(func() {
		c.ln.mu.Lock()
		delete(c.ln.open, c)
		c.ln.mu.Unlock()
		c.ln.charge(-connMemory)
	})
	return c.Conn.Close()
}

// SyscallConn implements syscall.Conn.
func (c *conn) SyscallConn() (syscall.RawConn, error) {
	if s, ok := c.Conn.(syscall.Conn); ok {
		return s.SyscallConn()
	}
	return nil, errors.ErrUnsupported
}

func newListener(ln net.Listener, conf *tls.Config, maxConns func() int64, await func(net.Conn, func(bool)) error, charge func(int64), full func() bool) *listener {
	return &listener{
		Listener: ln, tls: conf, maxConns: maxConns, await: await, charge: charge, full: full, wake: make(chan struct{}, 1),
		open: make(map[*conn]struct{}), active: make(map[net.Conn]*list.Element), idle: list.New(), reading: list.New(),
	}
}

// run accepts connections until the listener is closed.
func (l *listener) run() {
	for {
		raw, err := l.Listener.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil { // most likely there are no descriptors left
			time.Sleep(100 * time.Millisecond)
			continue
		}
		c := &conn{Conn: raw, ln: l}
		l.mu.Lock()
		full := int64(len(l.open)) >= l.maxConns() || l.full()
		if closed := l.closed; full || closed {
			if !closed {
				l.Refused++
			}
			l.mu.Unlock()
			refuse(raw, l.tls != nil)
			continue
		}
		l.open[c] = struct{}{}
		l.mu.Unlock()
		l.charge(connMemory)
		err = l.await(c, func(alive bool) {
			if alive {
				l.begin(c)
			} else {
				c.Close()
			}
		})
		if err != nil { // the connection cannot be watched
			l.begin(c)
		}
	}
}

// begin gives a new connection to net/http, through TLS if that is configured.
func (l *listener) begin(c *conn) {
	if l.tls != nil {
		l.give(tls.Server(c, l.tls))
	} else {
		l.give(c)
	}
}

// refuse closes a connection for which there is no room.
func refuse(raw net.Conn, secure bool) {
	if !secure {
		_ = raw.SetWriteDeadline(time.Now().Add(10 * time.Millisecond)) // the answer is optional: it may fail
		fmt.Fprint(raw, "HTTP/1.1 503 Service Unavailable\r\nRetry-After: 1\r\nConnection: close\r\nContent-Length: 0\r\n\r\n")
	}
	raw.Close()
}

// give queues a connection for net/http, without waiting.
func (l *listener) give(c net.Conn) {
	l.mu.Lock()
	closed := l.closed
	if !closed {
		l.queue = append(l.queue, c)
	}
	l.mu.Unlock()
	if closed {
		c.Close()
		return
	}
	l.stir()
}

func (l *listener) stir() {
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

// Accept implements net.Listener for net/http.
func (l *listener) Accept() (net.Conn, error) {
	again := time.NewTimer(time.Hour)
	defer again.Stop()
	for {
		c, wait, err := l.next()
		if c != nil || err != nil {
			return c, err
		}
		again.Reset(wait)
		select {
		case <-l.wake:
		case <-again.C:
		}
	}
}

// next returns the next connection for net/http, or how long to wait for one.
func (l *listener) next() (net.Conn, time.Duration, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.closed:
		return nil, 0, net.ErrClosed
	case len(l.queue) == 0:
		return nil, time.Hour, nil
	case len(l.active) < maxActive:
		c := l.queue[0]
		l.queue[0] = nil
		if l.queue = l.queue[1:]; len(l.queue) > 0 {
			l.stir()
		} else {
			l.queue = nil
		}
		l.active[c] = nil
		l.moveLocked(c, l.reading)
		return c, 0, nil
	}
	wait := minIdle
	for _, from := range []struct {
		list  *list.List
		least time.Duration
	}{{l.idle, minIdle}, {l.reading, minReading}} {
		first := from.list.Front()
		if first == nil {
			continue
		}
		oldest := first.Value.(since)
		left := from.least - time.Since(oldest.time)
		if left <= 0 {
			l.moveLocked(oldest.Conn, nil)
			go oldest.Close() // net/http calls state when it has dropped the connection
			return nil, minIdle, nil
		}
		wait = min(wait, left)
	}
	return nil, wait, nil
}

// moveLocked moves a connection inside net/http to the end of a list, or to none if to is nil.
func (l *listener) moveLocked(c net.Conn, to *list.List) {
	e, inside := l.active[c]
	if !inside {
		return
	}
	if e != nil {
		e.Value.(since).in.Remove(e)
	}
	if l.active[c] = nil; to != nil {
		l.active[c] = to.PushBack(since{c, time.Now(), to})
	}
}

// arrived is called when a request has been read to its end.
func (l *listener) arrived(c net.Conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.moveLocked(c, nil)
}

// state is the ConnState hook of net/http.
func (l *listener) state(c net.Conn, s http.ConnState) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch s {
	case http.StateIdle:
		l.moveLocked(c, l.idle)
	case http.StateActive:
		l.moveLocked(c, l.reading)
	case http.StateHijacked, http.StateClosed:
		l.moveLocked(c, nil)
		delete(l.active, c)
		l.stir()
	}
}

// Close implements net.Listener.
func (l *listener) Close() error {
	l.mu.Lock()
	was := l.closed
	l.closed = true
	queue := l.queue
	l.queue = nil
	l.mu.Unlock()
	l.stir()
	for _, c := range queue {
		c.Close()
	}
	if was {
		return nil
	}
	return l.Listener.Close()
}

// closeAll closes every connection.
func (l *listener) closeAll() {
	l.mu.Lock()
	all := make([]*conn, 0, len(l.open))
	for c := range l.open {
		all = append(all, c)
	}
	l.mu.Unlock()
	for _, c := range all {
		c.Close()
	}
}

// counts returns how many connections are open, and how many were refused.
func (l *listener) counts() (open int, refused int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.open), l.Refused
}
