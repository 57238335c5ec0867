package server

import (
	"errors"
	"fmt"
	"math"
	"net"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"redoubt/engine"
	"redoubt/server/output"
)

// loop is an event loop on epoll that carries plain connections. One turn: wait for events;
// read from each ready connection and run its commands; commit everything as one batch;
// send the replies.
//
// Why not a goroutine per connection: that costs a futile read, a park and a wake
// for every command. docs/adr/0002 has the figures.
//
// Sockets are non-blocking, so reads, writes and a poll without waiting bypass the Go
// scheduler (RawSyscall); only a wait that may last goes through it.
type loop struct {
	srv  *Server
	ep   int
	wake int // eventfd

	mu        sync.Mutex
	posted    []posted
	pushed    []*conn     // sessions to which something was pushed
	hasPushed atomic.Bool // pushed is not empty; read without mu
	signaled  atomic.Bool
	// A loop that is awake handles all posts before it waits, so it need not be woken
	// by a system call: setting poked is enough.
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
	stopping bool      // the loop ends once no replies are held
	stopBy   time.Time // ... or at this time
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
	l.turn = turn{stats: srv.obs.Stats.NewLoop(), now: time.Now()}
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

// release closes the loop's own descriptors.
func (l *loop) release() {
	unix.Close(l.wake)
	unix.Close(l.ep)
}

// poll fills events with ready events and returns their number. It waits only if none
// is ready.
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
		case e.Events&(unix.EPOLLHUP|unix.EPOLLERR) != 0, c.waitsForEvent():
			l.close(c)
		default:
			// The loop is not reading now, and the client sends no more. The client may
			// still read: its commands are answered, and then the end of input is read.
			c.eof = true
			c.ended()
			c.interest()
		}
	}
}

// read reads once from the connection. Mostly that brings whole commands, which stay
// in the loop's buffer until serve runs them. The rest of an incomplete command is read
// behind its first bytes, and the command is run at once.
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
	if c.in.Need() == 0 && cap(c.buf)-at < output.SmallBuffer/2 {
		c.grow(2*cap(c.buf) + output.SmallBuffer)
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
		if c.eof = true; c.out.Pending() == 0 {
			l.close(c)
			return 0
		}
		c.closing = true // the client closed its side only, or the next write fails
		c.interest()
		return 0
	}
	c.netIn += int64(n)
	c.lastUsed = l.turn.now
	return int(n)
}

// serve runs the input that has arrived. It prefetches the rows of the first command of
// all connections together; the session prefetches those of a pipeline's other commands.
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
		if l.output > turnOutput { // send some replies before more are made
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
	c.out.Open(c.out.LastSize())
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
	if n := cap(c.out.Buf); n > output.SmallBuffer {
		l.output += n
	}
	l.touch(c)
}

// touch adds the connection to those whose replies are sent when the turn ends.
func (l *loop) touch(c *conn) {
	if !c.dirty && !c.closed {
		c.dirty = true
		l.dirty = append(l.dirty, c)
	}
}

// endTurn commits, releases replies and sends them. Messages that the commit has pushed to
// other clients are sent before its replies: a client that has the reply of a write may
// assume that others were told to invalidate their copies of the key.
func (l *loop) endTurn() {
	ticket := l.turn.commit()
	for _, w := range l.turn.workers {
		l.srv.pool.run(w)
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

// send settles and sends the replies of some sessions.
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

// park adds the connection to held if it has replies that wait for durability.
func (l *loop) park(c *conn) {
	if c.out.Held() && !c.closed {
		l.held[c] = struct{}{}
		l.holding.Store(true)
	}
}

func (l *loop) unpark() {
	durable := l.srv.durable()
	for _, messages := range []bool{true, false} { // first connections with messages only
		for c := range l.held {
			c.mu.Lock()
			if c.out.MessagesOnly() == messages || !messages {
				c.release(durable)
				l.flush(c)
				if !c.out.Held() || c.closed {
					delete(l.held, c)
				}
			}
			c.mu.Unlock()
		}
	}
	l.holding.Store(len(l.held) > 0)
}

// flush sends released replies, unless the socket is full: then event sends them when there
// is room. A message to a thousand clients that do not read costs no system call.
func (l *loop) flush(c *conn) {
	if c.want&unix.EPOLLOUT == 0 {
		l.write(c)
	}
	l.afterWrite(c)
}

// write writes released replies, as far as the socket takes them.
func (l *loop) write(c *conn) {
	for c.out.Sendable() && !c.closed {
		n, asked, errno := c.writeSome()
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
		c.advance(n)
		c.lastUsed = l.turn.now
		if n < asked {
			break // the rest later: other clients come first
		}
	}
}

// maxViews is how many pieces of an output are written at once.
const maxViews = 64

// writeSome writes to the socket once: all released replies, or maxViews pieces of them.
// It returns how many bytes the socket took, and how many it was offered.
func (c *conn) writeSome() (n, asked int, errno syscall.Errno) {
	var r uintptr
	if b := c.out.Next(); b != nil { // the common case
		r, _, errno = syscall.RawSyscall(unix.SYS_WRITE, uintptr(c.fd), uintptr(unsafe.Pointer(&b[0])), uintptr(len(b)))
		return int(r), len(b), errno
	}
	var room [maxViews][]byte
	var vec [maxViews]unix.Iovec
	views := c.out.Views(room[:0], math.MaxInt)
	for i, b := range views {
		vec[i].Base = &b[0]
		vec[i].SetLen(len(b))
		asked += len(b)
	}
	r, _, errno = syscall.RawSyscall(unix.SYS_WRITEV, uintptr(c.fd), uintptr(unsafe.Pointer(&vec[0])), uintptr(len(views)))
	return int(r), asked, errno
}

// afterWrite updates the session's state after a write, and closes it if that was the end.
func (l *loop) afterWrite(c *conn) {
	if c.closed {
		return
	}
	if c.out.Pending() == 0 {
		c.out.Emptied()
		if c.closing && !c.waiting() {
			l.close(c)
			return
		}
	} else if c.overLimit(l.turn.now) {
		l.close(c)
		return
	}
	c.progress()
	c.drained()
	c.charge()
	c.interest()
}

// interest implements carrier: it sets the epoll events that the session can handle.
func (c *conn) interest() {
	if c.closed {
		return
	}
	l := c.loop
	var want uint32
	if !c.eof {
		want |= unix.EPOLLRDHUP // not after eof: level-triggered, it would fire forever
	}
	if c.suspended == running && !c.closing && c.out.Pending() < c.unread && !l.draining {
		want |= unix.EPOLLIN
	}
	if c.out.Sendable() {
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
		l.hasPushed.Store(true)
	} else {
		l.posted = append(l.posted, posted{c, f})
	}
	l.mu.Unlock()
	l.notify()
}

// notify makes the loop run a turn soon.
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
			p.c.out.Open(0)
			p.f()
			l.touch(p.c)
		}
		p.c.mu.Unlock()
	}
}

// movePushed moves messages pushed to sessions, those of this turn's commit included,
// into their outputs.
func (l *loop) movePushed() {
	l.mu.Lock()
	list := l.pushed
	l.pushed = nil
	l.hasPushed.Store(false)
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
	c.srv.outputs.Put(c.buf)
	c.buf = nil
	c.out.Drop()
	l.srv.leave(&c.session)
}

// tick closes overdue connections and shrinks idle ones, once a second.
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
	l := srv.car.loops[int(srv.car.nextLoop.Add(1))%len(srv.car.loops)]
	c := &conn{loop: l, fd: int32(fd), want: unix.EPOLLIN | unix.EPOLLRDHUP}
	c.session.fd, c.base = fd, int(unsafe.Sizeof(*c))
	c.call.Guard = &c.mu // the batch is shared with other sessions
	srv.initSession(&c.session, c, &l.turn, addr, laddr, ln.kind == overUnix)
	l.post(nil, func() {
		if c.closed { // another goroutine has found it in the register and closed it
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

// startLoops creates n loops and runs them.
func (srv *Server) startLoops(n int) error {
	for range n {
		l, err := newLoop(srv)
		if err != nil {
			for _, l := range srv.car.loops {
				l.release()
			}
			srv.car.loops = nil
			return err
		}
		srv.car.loops = append(srv.car.loops, l)
	}
	for _, l := range srv.car.loops {
		go l.run()
	}
	return nil
}

// equipLoops gives the loops their batches, once the store is open.
func (srv *Server) equipLoops() {
	for _, l := range srv.car.loops {
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

// notifyLoops wakes the loops that hold replies until they are durable.
func (srv *Server) notifyLoops() {
	for _, l := range srv.car.loops {
		if l.holding.Load() {
			l.notify()
		}
	}
}

// drainLoops stops reading; running commands go on. When it returns no
// loop takes another command.
func (srv *Server) drainLoops() {
	var wait sync.WaitGroup
	defer wait.Wait()
	for _, l := range srv.car.loops {
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

// stopLoops ends the loops. Replies that wait for durability are still sent until the
// deadline.
func (srv *Server) stopLoops(deadline time.Time) {
	for _, l := range srv.car.loops {
		l.post(nil, func() { l.stopping, l.stopBy = true, deadline })
	}
	for _, l := range srv.car.loops {
		<-l.done
	}
}
