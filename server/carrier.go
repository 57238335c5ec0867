package server

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"

	"redoubt/server/output"
)

// pipe carries a session on two goroutines: one reads and runs commands, one writes and
// runs posted functions. Pipes serve what the event loops do not: other systems
// than Linux, and streams that are more than a socket, such as TLS. A pipe has a batch
// of its own, and since it may wait, it runs most commands itself that a loop would
// hand to a worker.
type pipe struct {
	session
	conn net.Conn
	turn turn
	free *sync.Cond    // on mu: the session no longer waits, or has ended
	wake chan struct{} // wakes the writer
	done chan struct{} // closed with the connection
	// holding: replies wait for durability, so OnDurable must wake the writer.
	holding atomic.Bool

	postMu sync.Mutex
	posted []func()
}

// newPipe makes a session of an accepted connection; serve lets it run.
func (srv *Server) newPipe(conn net.Conn, l *listener) *pipe {
	p := &pipe{conn: conn, wake: make(chan struct{}, 1), done: make(chan struct{})}
	p.free = sync.NewCond(&p.mu)
	p.base = int(unsafe.Sizeof(*p)) + pipeMemory
	if l.kind == overTLS {
		p.base += handshakeMemory
	}
	p.turn = turn{stats: srv.obs.Stats.SharedLoop(), now: time.Now()}
	if c, ok := netConn(conn).(syscall.Conn); ok { // for CLIENT LIST
		if raw, err := c.SyscallConn(); err == nil {
			_ = raw.Control(func(fd uintptr) { p.session.fd = int(fd) }) // fails only when it is closed
		}
	}
	addr, laddr := l.ends(conn)
	srv.initSession(&p.session, p, &p.turn, addr, laddr, l.kind == overUnix)
	srv.car.pipes.Store(p, struct{}{})
	if srv.ready.Load() { // else serveStore finds the pipe among the pipes
		p.mu.Lock()
		p.equip()
		p.mu.Unlock()
	}
	return p
}

// equip gives the pipe its batch, once the store is open. mu is held.
func (p *pipe) equip() {
	switch {
	case p.turn.batch != nil:
	case p.srv.remote: // its commands run on workers: they may have to be run again
		p.turn.batch = p.srv.exec.NewBatch()
	default:
		p.turn.batch = p.srv.exec.NewWaitingBatch()
	}
}

func (p *pipe) serve() {
	go p.write()
	p.read()
}

func (p *pipe) read() {
	small := make([]byte, smallRead)
	buf := small
	for {
		n, err := p.conn.Read(buf)
		p.mu.Lock()
		if err != nil {
			p.ended()
		}
		for (p.suspended != running || p.out.Pending() > p.unread) && !p.closed && !(p.waitsForEvent() && err != nil) {
			p.free.Wait()
		}
		if n > 0 && !p.closed && !p.closing {
			p.netIn += int64(n)
			p.turn.now = time.Now()
			p.lastUsed = p.turn.now
			p.take(buf[:n])
		}
		switch {
		case errors.Is(err, io.EOF) && !p.waitsForEvent():
			// The client may have closed its side only: the writer sends what is left.
			p.closing = true
			p.notify()
		case err != nil:
			p.close()
		}
		ended := p.closed || err != nil
		p.mu.Unlock()
		// A read that fills its buffer means that there is more. Waiting for a
		// silent client takes the small buffer only.
		switch full := n == len(buf); {
		case full && len(buf) == smallRead:
			buf = p.srv.outputs.Get(0)[:output.SmallBuffer]
		case !full && len(buf) != smallRead:
			p.srv.outputs.Put(buf)
			buf = small
		}
		if ended {
			return
		}
	}
}

const (
	// smallRead is what an idle connection has for reading.
	smallRead = 2 << 10
	// pipeViews is how many pieces of an output are written at once.
	pipeViews = 64
	// pipeMemory is about the memory of a pipe's goroutines.
	pipeMemory = smallRead + 16<<10
)

// take runs the commands in data and keeps what is left.
func (p *pipe) take(data []byte) {
	p.out.Open(0)
	if p.buf != nil {
		p.buf = append(p.buf, data...)
		data = p.buf
	}
	taken := p.process(data)
	if p.buf == nil || taken > 0 || p.closing {
		p.keep(data[taken:])
	}
	p.peak()
	over := p.overQueryLimit(len(p.buf))
	p.reserve()
	p.chargeGrowth()
	p.endTurn()
	if over {
		p.close()
	}
}

// endTurn commits, releases replies and wakes the writer.
func (p *pipe) endTurn() {
	ticket := p.turn.commit()
	for _, w := range p.turn.workers {
		p.srv.pool.run(w)
	}
	clear(p.turn.workers)
	p.turn.workers = p.turn.workers[:0]
	p.settle(ticket, p.srv.durable())
	p.holding.Store(p.out.Held()) // before the writer is woken, which checks again
	if p.overLimit(p.turn.now) {
		p.close()
	}
	p.settleAccount()
	p.notify()
}

func (p *pipe) notify() {
	select {
	case p.wake <- struct{}{}:
	default:
	}
}

// post implements carrier.
func (p *pipe) post(f func()) {
	p.postMu.Lock()
	p.posted = append(p.posted, f)
	p.postMu.Unlock()
	p.notify()
}

// interest implements carrier.
func (p *pipe) interest() { p.free.Broadcast() }

// evict implements carrier.
func (p *pipe) evict(*turn) { go p.shut() }

// shut implements carrier. It does not go through post: the writer may be
// waiting for a client that does not read.
func (p *pipe) shut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.close()
}

// write runs posted functions and writes released replies, until the pipe is closed.
func (p *pipe) write() {
	var chunk []byte
	var views [pipeViews][]byte
	for range p.wake {
		for {
			p.mu.Lock()
			p.runPosted()
			p.release(p.srv.durable())
			p.holding.Store(p.out.Held())
			if p.closing && (!p.waiting() || p.blocked != nil) && p.out.Pending() == 0 {
				p.close()
			}
			if p.closed {
				p.mu.Unlock()
				return
			}
			chunk = chunk[:0]
			for _, b := range p.out.Views(views[:0], readSize) {
				chunk = append(chunk, b...)
			}
			clear(views[:])
			p.mu.Unlock()
			if len(chunk) == 0 {
				chunk = nil // an idle connection needs none
				break
			}
			n, err := p.conn.Write(chunk)
			p.mu.Lock()
			p.wrote(n, err)
			p.mu.Unlock()
		}
	}
}

func (p *pipe) wrote(n int, err error) {
	if p.closed {
		return
	}
	p.advance(n)
	if n > 0 {
		p.lastUsed = time.Now()
	}
	switch {
	case err != nil:
		p.close()
	case p.out.Pending() == 0:
		p.out.Emptied()
	}
	p.progress()
	p.drained()
	p.settleAccount()
	p.free.Broadcast()
}

// settleAccount charges the session, and has clients evicted if that was too much.
func (p *pipe) settleAccount() {
	if p.charge(); p.srv.budget.Clients.Over() > 0 {
		p.srv.requestEviction()
	}
}

func (p *pipe) runPosted() {
	p.postMu.Lock()
	list := p.posted
	p.posted = nil
	p.postMu.Unlock()
	if len(list) == 0 || p.closed {
		return
	}
	p.turn.now = time.Now()
	for _, f := range list {
		if f == nil {
			p.movePushed()
			continue
		}
		p.out.Open(0)
		f()
	}
	if !p.closed {
		p.endTurn()
	}
}

// close ends the connection. mu is held.
func (p *pipe) close() {
	if p.closed {
		return
	}
	p.closed = true
	close(p.done)
	if _, ok := p.conn.(*tls.Conn); ok {
		go p.conn.Close() // sends close_notify first, which may block
	} else {
		p.conn.Close()
	}
	p.buf = nil
	p.out.Drop()
	p.srv.car.pipes.Delete(p)
	p.srv.leave(&p.session)
	p.free.Broadcast()
	p.notify()
}

// tickPipes closes overdue pipes and shrinks idle ones once a second, until ctx ends.
func (srv *Server) tickPipes(ctx context.Context) {
	tick := time.NewTicker(tickEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case now := <-tick.C:
			srv.eachPipe(func(p *pipe) {
				if p.overdue(now) {
					p.close()
				} else {
					p.decay(now)
				}
			})
		}
	}
}

// eachPipe calls f with the mu of each pipe held.
func (srv *Server) eachPipe(f func(*pipe)) {
	srv.car.pipes.Range(func(v, _ any) bool {
		p := v.(*pipe)
		p.mu.Lock()
		defer p.mu.Unlock()
		f(p)
		return true
	})
}

// stopPipes closes all pipes. Pending replies, those that wait for durability included,
// are sent until the deadline.
func (srv *Server) stopPipes(deadline time.Time) {
	var all []*pipe
	srv.eachPipe(func(p *pipe) {
		p.closing = true
		p.notify()
		all = append(all, p)
	})
	over := time.After(time.Until(deadline))
	for _, p := range all {
		select {
		case <-p.done:
		case <-over:
			over = time.After(0) // for the others, too
			p.shut()
		}
	}
}
