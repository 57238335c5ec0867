package server

import (
	"net"
	"sync"
	"time"
)

// pipe carries a session on two goroutines: one reads and runs, one writes and
// runs what was posted. It serves what the event loops do not: other systems
// than Linux, and streams that are more than a socket, such as TLS. Its batch
// is its own, and since it may wait, commands that are for workers elsewhere
// mostly run right here.
type pipe struct {
	session
	conn net.Conn
	turn turn
	free *sync.Cond    // on mu: the session no longer waits, or has ended
	wake chan struct{} // for the writer: something to do

	postMu sync.Mutex
	posted []func()
}

func (srv *Server) servePipe(conn net.Conn, unix bool) {
	p := &pipe{conn: conn, wake: make(chan struct{}, 1)}
	p.free = sync.NewCond(&p.mu)
	p.turn = turn{batch: srv.exec.NewWaitingBatch(), stats: srv.stats.newLoop(), now: time.Now()}
	if t, ok := conn.(*net.TCPConn); ok && srv.keepalive.Load() > 0 {
		idle := time.Duration(srv.keepalive.Load()) * time.Second
		if err := t.SetKeepAliveConfig(net.KeepAliveConfig{Enable: true, Idle: idle}); err != nil {
			srv.log.Debug("setting keepalive failed", "err", err)
		}
	}
	srv.initSession(&p.session, p, &p.turn, conn.RemoteAddr().String(), conn.LocalAddr().String(), unix)
	srv.pipes.Store(p, struct{}{})
	go p.write()
	p.read()
	srv.pipes.Delete(p)
}

func (p *pipe) read() {
	buf := make([]byte, readSize)
	for {
		if t := p.srv.timeout.Load(); t > 0 {
			p.conn.SetReadDeadline(time.Now().Add(time.Duration(t) * time.Second))
		}
		n, err := p.conn.Read(buf)
		p.mu.Lock()
		for (p.waiting || p.pending() > pausedRead) && !p.closed {
			p.free.Wait()
		}
		if n > 0 && !p.closed && !p.closing {
			p.netIn += int64(n)
			p.turn.now = time.Now()
			p.lastUsed = p.turn.now
			p.take(buf[:n])
		}
		if err != nil {
			p.close()
		}
		ended := p.closed
		p.mu.Unlock()
		if ended {
			return
		}
	}
}

// take runs what came.
func (p *pipe) take(data []byte) {
	if p.out.Buf == nil {
		p.out.Buf = p.srv.bufs.get(0)
	}
	if p.buf != nil {
		p.buf = append(p.buf, data...)
		data = p.buf
	}
	taken := p.process(data)
	if p.buf == nil || taken > 0 || p.closing {
		p.keep(data[taken:])
	}
	p.peak()
	if p.overQueryLimit() {
		p.close()
		return
	}
	p.endTurn()
}

// endTurn commits, releases replies and has them written.
func (p *pipe) endTurn() {
	ticket := p.turn.batch.Commit()
	for _, w := range p.turn.workers {
		go w()
	}
	clear(p.turn.workers)
	p.turn.workers = p.turn.workers[:0]
	p.settle(ticket, p.srv.eng.Durable())
	if p.overLimit(p.turn.now) {
		p.close()
	}
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

// write runs what was posted and writes what is released, until the end.
func (p *pipe) write() {
	var chunk []byte
	for range p.wake {
		for {
			p.mu.Lock()
			p.runPosted()
			p.release(p.srv.eng.Durable())
			if p.closing && !p.waiting && p.pending() == 0 {
				p.close()
			}
			if p.closed {
				p.mu.Unlock()
				return
			}
			chunk = append(chunk[:0], p.out.Buf[p.sent:min(p.released, p.sent+readSize)]...)
			p.mu.Unlock()
			if len(chunk) == 0 {
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
	p.sent += n
	p.netOut += int64(n)
	if err != nil {
		p.close()
	} else if p.sent == len(p.out.Buf) {
		p.emptied()
	}
	p.free.Broadcast()
}

func (p *pipe) runPosted() {
	p.postMu.Lock()
	list := p.posted
	p.posted = nil
	p.postMu.Unlock()
	if len(list) == 0 || p.closed {
		return
	}
	if p.out.Buf == nil {
		p.out.Buf = p.srv.bufs.get(0)
	}
	p.turn.now = time.Now()
	for _, f := range list {
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
	p.conn.Close()
	p.buf, p.out.Buf = nil, nil
	p.srv.leave(&p.session)
	p.free.Broadcast()
	p.notify()
}
