package server

import (
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"redoubt/engine"
)

// fewPushes is to how many sessions of another loop a loop sends itself. More of them
// are that loop's work: they would make the replies late.
const fewPushes = 16

// pushElsewhere sends what was pushed to idle sessions of other loops. Left to those it
// would mostly arrive behind the reply of the command that has caused it, since they
// have to wake up first.
func (l *loop) pushElsewhere(durable engine.Ticket) {
	for _, other := range l.srv.loops {
		if other == l || !other.heard.Load() {
			continue
		}
		var some [fewPushes]*conn
		other.mu.Lock()
		n := len(other.pushed)
		if n <= fewPushes {
			copy(some[:], other.pushed)
		}
		other.mu.Unlock()
		for _, c := range some[:min(n, fewPushes)] {
			if c != nil {
				c.pushNow(durable)
			}
		}
	}
}

// pushNow sends what was pushed to the session, from another goroutine than its loop's.
// Whatever stands in the way is left to the loop, which is told already: a client that
// has other output, a socket that is full or broken, a message that is not durable.
func (c *conn) pushNow(durable engine.Ticket) {
	if !c.mu.TryLock() {
		return
	}
	defer c.mu.Unlock()
	q := &c.pushes
	q.mu.Lock()
	defer q.mu.Unlock()
	if c.closed || len(c.out.Buf) > 0 || q.muted || len(q.buf) == 0 || q.ticket > durable {
		return
	}
	n, _, errno := syscall.RawSyscall(unix.SYS_WRITE, uintptr(c.fd), uintptr(unsafe.Pointer(&q.buf[0])), uintptr(len(q.buf)))
	if errno != 0 {
		return
	}
	c.netOut += int64(n)
	if int(n) < len(q.buf) { // nothing may come in between
		c.out.Buf = append(c.out.Buf, q.buf[n:]...)
		c.released = len(c.out.Buf)
	}
	c.srv.bufs.put(q.buf)
	q.buf, q.ticket = nil, 0
	q.charge(c.srv)
	q.some.Store(false)
}
