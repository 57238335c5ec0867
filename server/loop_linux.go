package server

import (
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"redoubt/engine"
)

// loop is an event loop on epoll: it carries the plain connections that were
// given to it. One turn: wait for events; read what is ready from each
// connection and run it; commit everything as one batch; send the replies.
//
// Why not a goroutine per connection: it pays a futile read, a park and a wake
// for every command. docs/adr/0002 has the figures.
//
// Sockets are non-blocking, so reads, writes and a poll without waiting are
// made without telling the Go scheduler (RawSyscall); only a wait that may last
// does tell it.
type loop struct {
	srv  *Server
	ep   int
	wake int // eventfd

	mu       sync.Mutex
	posted   []posted
	pushed   []*conn     // sessions to which something was pushed, and
	heard    atomic.Bool // there are some: to be asked without the lock
	signaled atomic.Bool
	// A loop that is awake looks at all that was posted before it waits, so it need
	// not be woken: poked is enough.
	awake, poked atomic.Bool

	turn     turn
	sessions map[int32]*conn
	rbuf     []byte // what was read in this turn: filled bytes of it
	filled   int
	arrived  []arrival
	dirty    []*conn
	output   int // bytes of large buffers of replies in this turn
	held     map[*conn]struct{}
	holding  atomic.Bool
	nextTick time.Time
	draining bool      // no new commands are read
	stopping bool      // the loop ends once no replies are held, or
	stopBy   time.Time // at this time
	done     chan struct{}
}

type posted struct {
	c *conn // nil: f is for the loop itself
	f func()
}

// arrival is what one read of a connection brought.
type arrival struct {
	c    *conn
	data []byte // in rbuf
}

// conn is a session's socket on a loop.
type conn struct {
	session
	loop  *loop
	fd    int32
	want  uint32 // events asked of epoll
	dirty bool
	eof   bool // the client sends no more, or was seen to close its side
}

const (
	haveLoops = true
	maxEvents = 512
)

func newLoop(srv *Server) (*loop, error) {
	ep, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("create epoll: %w", err)
	}
	wake, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	if err != nil {
		unix.Close(ep)
		return nil, fmt.Errorf("create eventfd: %w", err)
	}
	l := &loop{
		srv: srv, ep: ep, wake: wake,
		sessions: make(map[int32]*conn), held: make(map[*conn]struct{}),
		rbuf: make([]byte, 4*readSize), done: make(chan struct{}),
	}
	l.turn = turn{stats: srv.stats.newLoop(), now: time.Now()}
	if err := l.ctl(unix.EPOLL_CTL_ADD, int32(wake), unix.EPOLLIN); err != nil {
		unix.Close(wake)
		unix.Close(ep)
		return nil, err
	}
	return l, nil
}

func (l *loop) ctl(op int, fd int32, events uint32) error {
	if err := unix.EpollCtl(l.ep, op, int(fd), &unix.EpollEvent{Events: events, Fd: fd}); err != nil {
		return fmt.Errorf("epoll_ctl: %w", err)
	}
	return nil
}

// run turns until the loop is stopped.
func (l *loop) run() {
	defer close(l.done)
	events := make([]unix.EpollEvent, maxEvents)
	for !l.stopping || len(l.held) > 0 && time.Now().Before(l.stopBy) {
		n := l.poll(events)
		l.awake.Store(true)
		l.poked.Store(false)
		l.turn.now = time.Now()
		for i := range n {
			l.event(&events[i])
			l.srv.evictClients(&l.turn)
		}
		l.serve()
		l.runPosted()
		l.endTurn()
		if l.turn.now.After(l.nextTick) {
			l.tick()
			l.nextTick = l.turn.now.Add(tickEvery)
		}
	}
	for _, c := range l.sessions {
		c.mu.Lock()
		l.write(c)
		l.close(c)
		c.mu.Unlock()
	}
	l.release()
}

// release gives the loop's own descriptors back.
func (l *loop) release() {
	unix.Close(l.wake)
	unix.Close(l.ep)
}

// poll returns the ready events; first without, then with waiting.
func (l *loop) poll(events []unix.EpollEvent) int {
	n, _, _ := syscall.RawSyscall6(unix.SYS_EPOLL_PWAIT, uintptr(l.ep), uintptr(unsafe.Pointer(&events[0])), uintptr(len(events)), 0, 0, 0)
	if int(n) > 0 {
		return int(n)
	}
	if l.awake.Store(false); l.poked.Load() {
		return 0
	}
	wait := tickEvery
	if l.stopping {
		wait = max(0, min(wait, time.Until(l.stopBy)))
	}
	got, err := unix.EpollWait(l.ep, events, int((wait+time.Millisecond-1)/time.Millisecond))
	if err != nil && !errors.Is(err, unix.EINTR) {
		l.srv.log.Error("epoll_wait failed", "err", err)
	}
	return max(0, got)
}

func (l *loop) event(e *unix.EpollEvent) {
	if e.Fd == int32(l.wake) {
		var b [8]byte
		unix.Read(l.wake, b[:])
		l.signaled.Store(false)
		return
	}
	c := l.sessions[e.Fd]
	if c == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if e.Events&unix.EPOLLOUT != 0 {
		l.write(c)
		l.afterWrite(c)
	}
	if e.Events&(unix.EPOLLIN|unix.EPOLLHUP|unix.EPOLLERR|unix.EPOLLRDHUP) != 0 && !c.closed {
		switch {
		case c.want&unix.EPOLLIN != 0:
			l.read(c)
		case e.Events&(unix.EPOLLHUP|unix.EPOLLERR) != 0, c.paused, c.blocked != nil:
			l.close(c)
		default:
			// Not reading just now, and the client sends no more. It may still
			// read: what it has sent is answered, and then its end is read.
			c.eof = true
			c.ended()
			c.interest()
		}
	}
}

// read takes what one read brings. Most often that is whole commands: they stay
// in the loop's buffer until serve runs them. The rest of a command that has
// begun to come is read behind its first bytes, and run at once.
func (l *loop) read(c *conn) {
	if c.buf == nil {
		if len(l.rbuf)-l.filled < readSize/4 {
			c.mu.Unlock()
			l.serve()
			c.mu.Lock()
			if c.closed {
				return
			}
		}
		buf := l.rbuf[l.filled:min(len(l.rbuf), l.filled+readSize)]
		if n := l.receive(c, buf); n > 0 {
			l.arrived = append(l.arrived, arrival{c, buf[:n:n]})
			l.filled += n
		}
		return
	}
	at := len(c.buf)
	c.reserve()
	if c.in.Need() == 0 && cap(c.buf)-at < smallBuffer/2 {
		c.grow(2*cap(c.buf) + smallBuffer)
	}
	if n := l.receive(c, c.buf[at:cap(c.buf)]); n > 0 {
		c.buf = c.buf[:at+n]
		if c.overQueryLimit(min(len(c.buf), c.in.Need())) { // one read may bring much
			l.close(c)
			return
		}
		l.runInput(c, c.buf)
	}
}

// receive reads from the socket; the end and errors close the connection.
func (l *loop) receive(c *conn, buf []byte) int {
	n, _, errno := syscall.RawSyscall(unix.SYS_READ, uintptr(c.fd), uintptr(unsafe.Pointer(&buf[0])), uintptr(len(buf)))
	if errno != 0 {
		if errno != unix.EAGAIN && errno != unix.EINTR {
			l.close(c)
		}
		return 0
	}
	if n == 0 {
		if c.eof = true; c.pending() == 0 {
			l.close(c)
			return 0
		}
		c.closing = true // it closed its side only, or the next write will tell
		c.interest()
		return 0
	}
	c.netIn += int64(n)
	c.lastUsed = l.turn.now
	return int(n)
}

// serve runs what has arrived. The rows of the first command of each connection
// are prefetched together; those of a pipeline's other commands are, too, when
// the session comes to them.
func (l *loop) serve() {
	if len(l.arrived) > 1 && l.turn.batch != nil {
		for _, a := range l.arrived {
			l.turn.batch.PrefetchFirst(l.srv.table, a.data, a.c.db)
		}
		l.turn.batch.Fetch()
	}
	for _, a := range l.arrived {
		a.c.mu.Lock()
		if !a.c.closed {
			l.runInput(a.c, a.data)
		}
		a.c.mu.Unlock()
		if l.output > turnOutput { // of each connection's replies something is sent first
			l.endTurn()
		}
		l.srv.evictClients(&l.turn)
	}
	clear(l.arrived)
	l.arrived, l.filled = l.arrived[:0], 0
}

// runInput runs the commands in data, which is the connection's own buffer or part
// of the loop's, and keeps what is left. Its mu is held.
func (l *loop) runInput(c *conn, data []byte) {
	if c.out.Buf == nil {
		c.out.Buf = l.srv.bufs.get(c.outSize)
	}
	if taken := c.process(data); c.buf == nil || taken > 0 || c.closing {
		c.keep(data[taken:])
	}
	c.peak()
	if c.overQueryLimit(len(c.buf)) {
		l.close(c)
		return
	}
	c.reserve()
	c.chargeGrowth()
	if n := cap(c.out.Buf); n > smallBuffer {
		l.output += n
	}
	l.touch(c)
}

// touch has the connection's replies looked at when the turn ends.
func (l *loop) touch(c *conn) {
	if !c.dirty && !c.closed {
		c.dirty = true
		l.dirty = append(l.dirty, c)
	}
}

// endTurn commits, releases replies and sends them. What the commit has pushed to other
// clients is sent before its replies: who has the reply of a write may count on it that
// others were told to drop what they keep of the key.
func (l *loop) endTurn() {
	ticket := l.turn.commit()
	for _, w := range l.turn.workers {
		l.srv.crew.run(w)
	}
	clear(l.turn.workers)
	l.turn.workers = l.turn.workers[:0]
	durable := l.srv.durable()
	l.pushElsewhere(durable)
	writers := len(l.dirty)
	l.movePushed()
	l.send(l.dirty[writers:], ticket, durable)
	l.send(l.dirty[:writers], ticket, durable)
	clear(l.dirty)
	l.dirty, l.output = l.dirty[:0], 0
	l.srv.evictClients(&l.turn)
	if len(l.held) > 0 {
		l.unpark()
	}
}

// send ends the turn for some sessions.
func (l *loop) send(list []*conn, ticket, durable engine.Ticket) {
	for _, c := range list {
		c.dirty = false
		if c.closed {
			continue
		}
		c.mu.Lock()
		c.settle(ticket, durable)
		l.flush(c)
		l.park(c)
		c.mu.Unlock()
	}
}

// park keeps track of connections with replies that wait for durability.
func (l *loop) park(c *conn) {
	if len(c.holds) > 0 && !c.closed {
		l.held[c] = struct{}{}
		l.holding.Store(true)
	}
}

func (l *loop) unpark() {
	durable := l.srv.durable()
	for _, messages := range []bool{true, false} { // first those who wait for nothing else
		for c := range l.held {
			c.mu.Lock()
			if c.messagesOnly() == messages || !messages {
				c.release(durable)
				l.flush(c)
				if len(c.holds) == 0 || c.closed {
					delete(l.held, c)
				}
			}
			c.mu.Unlock()
		}
	}
	l.holding.Store(len(l.held) > 0)
}

// flush sends what is released, unless the socket is full: then event does it when there
// is room. A message to a thousand clients that do not read costs no system call.
func (l *loop) flush(c *conn) {
	if c.want&unix.EPOLLOUT == 0 {
		l.write(c)
	}
	l.afterWrite(c)
}

// write writes what is released, as far as the socket takes it.
func (l *loop) write(c *conn) {
	for c.sent < c.released && !c.closed {
		b := c.out.Buf[c.sent:c.released]
		n, _, errno := syscall.RawSyscall(unix.SYS_WRITE, uintptr(c.fd), uintptr(unsafe.Pointer(&b[0])), uintptr(len(b)))
		if errno == unix.EINTR {
			continue
		}
		if errno == unix.EAGAIN {
			break
		}
		if errno != 0 {
			l.close(c)
			return
		}
		c.sent += int(n)
		c.netOut += int64(n)
		c.lastUsed = l.turn.now
		if int(n) < len(b) {
			break // the rest later: other clients have their turn
		}
	}
}

// afterWrite brings the session's state up to what was written and what is left.
func (l *loop) afterWrite(c *conn) {
	if c.closed {
		return
	}
	if c.sent == len(c.out.Buf) {
		c.emptied()
		if c.closing && !c.waiting {
			l.close(c)
			return
		}
	} else if c.overLimit(l.turn.now) {
		l.close(c)
		return
	} else {
		c.compact()
	}
	if c.parts != nil {
		c.parts.progress(c.netOut, c.pending())
	}
	c.drained()
	c.charge()
	c.interest()
}

// interest implements carrier: it asks epoll for what the session can use.
func (c *conn) interest() {
	if c.closed {
		return
	}
	l := c.loop
	var want uint32
	if !c.eof {
		want |= unix.EPOLLRDHUP // it stays set: asked for again it would come again
	}
	if !c.waiting && !c.closing && !c.stalled && c.pending() < c.unread && !l.draining {
		want |= unix.EPOLLIN
	}
	if c.sent < c.released {
		want |= unix.EPOLLOUT
	}
	if want != c.want {
		c.want = want
		if err := l.ctl(unix.EPOLL_CTL_MOD, c.fd, want); err != nil {
			l.srv.log.Error("changing a socket's events failed", "err", err)
			l.close(c)
		}
	}
}

// post implements carrier.
func (c *conn) post(f func()) { c.loop.post(c, f) }

// evict implements carrier.
func (c *conn) evict(t *turn) {
	l := c.loop
	end := func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		l.close(c)
	}
	if t == &l.turn {
		end()
	} else {
		l.post(nil, end)
	}
}

// shut implements carrier.
func (c *conn) shut() {
	l, done := c.loop, make(chan struct{})
	l.post(nil, func() {
		c.mu.Lock()
		l.close(c)
		c.mu.Unlock()
		close(done)
	})
	select {
	case <-done:
	case <-l.done:
	}
}

func (l *loop) post(c *conn, f func()) {
	l.mu.Lock()
	if f == nil {
		l.pushed = append(l.pushed, c)
		l.heard.Store(true)
	} else {
		l.posted = append(l.posted, posted{c, f})
	}
	l.mu.Unlock()
	l.notify()
}

// notify makes the loop turn.
func (l *loop) notify() {
	if l.poked.Store(true); l.awake.Load() {
		return
	}
	if l.signaled.CompareAndSwap(false, true) {
		one := [8]byte{7: 0, 0: 1}
		unix.Write(l.wake, one[:])
	}
}

func (l *loop) runPosted() {
	l.mu.Lock()
	list := l.posted
	l.posted = nil
	l.mu.Unlock()
	for _, p := range list {
		if p.c == nil {
			p.f()
			continue
		}
		p.c.mu.Lock()
		if !p.c.closed {
			if p.c.out.Buf == nil {
				p.c.out.Buf = l.srv.bufs.get(0)
			}
			p.f()
			l.touch(p.c)
		}
		p.c.mu.Unlock()
	}
}

// movePushed moves what was pushed to sessions, also by the commit of this turn, into
// their outputs.
func (l *loop) movePushed() {
	l.mu.Lock()
	list := l.pushed
	l.pushed = nil
	l.heard.Store(false)
	l.mu.Unlock()
	for _, c := range list {
		c.mu.Lock()
		if !c.closed {
			c.movePushed()
			l.touch(c)
		}
		c.mu.Unlock()
	}
}

// close ends a connection at once. The session's mu is held.
func (l *loop) close(c *conn) {
	if c.closed {
		return
	}
	c.closed = true
	delete(l.sessions, c.fd)
	delete(l.held, c)
	unix.Close(int(c.fd))
	c.srv.bufs.put(c.buf)
	c.srv.bufs.put(c.out.Buf)
	c.buf, c.out.Buf = nil, nil
	l.srv.leave(&c.session)
}

// tick does what is due once a second.
func (l *loop) tick() {
	for _, c := range l.sessions {
		c.mu.Lock()
		if c.overdue(l.turn.now) {
			l.close(c)
		} else {
			c.decay(l.turn.now)
		}
		c.mu.Unlock()
	}
}

// adopt makes a session of an accepted connection and gives it to a loop. The
// socket leaves Go's own poller: it is duplicated and the original closed.
func (srv *Server) adopt(nc net.Conn, ln *listener) error {
	addr, laddr := ln.ends(nc)
	raw, err := nc.(syscall.Conn).SyscallConn()
	if err != nil {
		return errors.Join(err, nc.Close())
	}
	fd := -1
	var failed error
	err = raw.Control(func(old uintptr) { fd, failed = unix.FcntlInt(old, unix.F_DUPFD_CLOEXEC, 0) })
	if err := errors.Join(err, failed, nc.Close()); err != nil {
		if fd >= 0 {
			unix.Close(fd)
		}
		return err
	}
	l := srv.loops[int(srv.nextLoop.Add(1))%len(srv.loops)]
	c := &conn{loop: l, fd: int32(fd), want: unix.EPOLLIN | unix.EPOLLRDHUP}
	c.session.fd, c.base = fd, int(unsafe.Sizeof(*c))
	c.call.Guard = &c.mu // the batch is shared with other sessions
	srv.initSession(&c.session, c, &l.turn, addr, laddr, ln.kind == overUnix)
	l.post(nil, func() {
		if c.closed { // somebody has found it among the clients, and closed it
			return
		}
		l.sessions[c.fd] = c
		if err := l.ctl(unix.EPOLL_CTL_ADD, c.fd, c.want); err != nil {
			l.srv.log.Error("adding a connection failed", "err", err)
			c.mu.Lock()
			l.close(c)
			c.mu.Unlock()
		}
	})
	return nil
}

// startLoops makes the loops and lets them run.
func (srv *Server) startLoops(n int) error {
	for range n {
		l, err := newLoop(srv)
		if err != nil {
			for _, l := range srv.loops {
				l.release()
			}
			srv.loops = nil
			return err
		}
		srv.loops = append(srv.loops, l)
	}
	for _, l := range srv.loops {
		go l.run()
	}
	return nil
}

// equipLoops gives the loops their batches, when the store is there.
func (srv *Server) equipLoops() {
	for _, l := range srv.loops {
		done := make(chan struct{})
		l.post(nil, func() {
			l.turn.batch = srv.exec.NewBatch()
			close(done)
		})
		select {
		case <-done:
		case <-l.done:
		}
	}
}

// notifyLoops has replies looked at that wait for durability.
func (srv *Server) notifyLoops() {
	for _, l := range srv.loops {
		if l.holding.Load() {
			l.notify()
		}
	}
}

// drainLoops stops reading; what runs goes on. When it returns no
// loop takes another command.
func (srv *Server) drainLoops() {
	var wait sync.WaitGroup
	defer wait.Wait()
	for _, l := range srv.loops {
		wait.Add(1)
		l.post(nil, func() {
			defer wait.Done()
			l.draining = true
			for _, c := range l.sessions {
				c.mu.Lock()
				c.interest()
				c.mu.Unlock()
			}
		})
	}
}

// stopLoops ends the loops. Replies that wait for durability are given the
// chance until the deadline.
func (srv *Server) stopLoops(deadline time.Time) {
	for _, l := range srv.loops {
		l.post(nil, func() { l.stopping, l.stopBy = true, deadline })
	}
	for _, l := range srv.loops {
		<-l.done
	}
}
