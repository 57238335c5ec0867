package bus

import (
	"crypto/tls"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// link is one connection after the handshake. A sender appends to a buffer and never waits;
// a goroutine writes the buffer. If the other side reads too slowly the connection is
// closed: the other side then knows that it has missed something, which is better than
// unbounded memory.
type link struct {
	conn  net.Conn // perhaps of TLS
	raw   net.Conn // the socket below
	time  Timing
	limit int
	since time.Time

	traffic *traffic
	wake    chan struct{} // has a token when there is something to write
	done    chan struct{} // closed with the link

	mu      sync.Mutex
	buf     []byte // to be written next
	writing int    // bytes of the buffer that is being written
	err     error  // why the link was closed

	bytes atomic.Int64 // written
}

// traffic counts frames of all kinds but those of handshakes.
type traffic struct{ sent, received atomic.Int64 }

// writeStep is how many bytes are written at once: each step must be done within
// Timing.Dead.
const writeStep = 64 << 10

// keepWrite is the largest buffer that is reused.
const keepWrite = 1 << 20

func newLink(conn net.Conn, raw net.Conn, t Timing, limit int, count *traffic) *link {
	return &link{
		conn: conn, raw: raw, time: t, limit: limit, since: time.Now(), traffic: count,
		wake: make(chan struct{}, 1), done: make(chan struct{}),
	}
}

// send appends frames to the buffer. It never waits.
func (l *link) send(add func(dst []byte) []byte) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.sendLocked(add)
}

// sendLocked is send with mu held. The limit is checked before the append, so that a single
// frame may exceed it.
func (l *link) sendLocked(add func(dst []byte) []byte) {
	if l.err != nil {
		return
	}
	if len(l.buf)+l.writing > l.limit {
		l.closeLocked(errSlow)
		return
	}
	if l.buf = add(l.buf); len(l.buf) == 0 {
		return
	}
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

// close ends the link; the first reason is kept.
func (l *link) close(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closeLocked(err)
}

func (l *link) closeLocked(err error) {
	if l.err != nil {
		return
	}
	l.err, l.buf = err, nil
	close(l.done)
	l.raw.Close() // closing TLS would send an alert first, and may wait
}

// reason returns why the link was closed.
func (l *link) reason() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.err
}

// write writes the buffer until the link is closed, and a beat if nothing was sent for
// Timing.Beat.
func (l *link) write() {
	tick := time.NewTicker(l.time.Beat)
	defer tick.Stop()
	var buf []byte
	for {
		beat := false
		select {
		case <-l.done:
			return
		case <-tick.C:
			beat = true
		case <-l.wake:
		}
		l.mu.Lock()
		if cap(buf) > keepWrite {
			buf = nil
		}
		buf, l.buf = l.buf, buf[:0]
		if beat && len(buf) == 0 {
			buf = appendFrame(buf, frameBeat)
		}
		l.writing = len(buf)
		l.mu.Unlock()
		for rest := buf; len(rest) > 0; {
			n, err := l.step(rest[:min(len(rest), writeStep)])
			if err != nil {
				l.close(err)
				return
			}
			rest = rest[n:]
		}
		l.traffic.sent.Add(framesIn(buf))
	}
}

func (l *link) step(b []byte) (int, error) {
	if err := l.raw.SetWriteDeadline(time.Now().Add(l.time.Dead)); err != nil {
		return 0, err
	}
	n, err := l.conn.Write(b)
	l.bytes.Add(int64(n))
	l.mu.Lock()
	l.writing = max(0, l.writing-n)
	l.mu.Unlock()
	return n, err
}

// patient is a socket whose reads time out after dead, once alive is set: before that,
// secure has set a deadline for the whole handshake.
type patient struct {
	net.Conn
	dead  time.Duration
	alive bool
}

func (p *patient) Read(b []byte) (int, error) {
	if p.alive {
		if err := p.SetReadDeadline(time.Now().Add(p.dead)); err != nil {
			return 0, err
		}
	}
	return p.Conn.Read(b)
}

// secure does the handshakes of a socket, TLS first, within Timing.Dead, and makes a link
// of the socket.
func secure(raw net.Conn, t Timing, limit int, count *traffic, wrap func(net.Conn) *tls.Conn, shake func(net.Conn) error) (*link, error) {
	if err := raw.SetDeadline(time.Now().Add(t.Dead)); err != nil {
		return nil, err
	}
	sock := &patient{Conn: raw, dead: t.Dead}
	var conn net.Conn = sock
	if wrap != nil {
		over := wrap(sock)
		if err := over.Handshake(); err != nil {
			return nil, err
		}
		conn = over
	}
	if err := shake(conn); err != nil {
		return nil, err
	}
	if err := raw.SetDeadline(time.Time{}); err != nil {
		return nil, err
	}
	sock.alive = true
	return newLink(conn, raw, t, limit, count), nil
}
