package server

import (
	"errors"
	"sync/atomic"
	"time"

	"redoubt/executor"
	"redoubt/wire"
)

// parts carry a large reply to its client in parts, from the worker that makes
// it. The worker goes on when the client has taken most of what it got, so that a
// reply of any size needs little memory here.
type parts struct {
	s      *session
	now    func() time.Time
	quiet  bool          // nobody wants it
	begun  bool          // a part was sent; all that the reply tells is durable
	spare  []byte        // the buffer of the part before
	room   chan struct{} // the client took something
	sent   atomic.Int64  // bytes that it has taken since its connection began
	unsent atomic.Int64
}

const (
	// partsRoom is how much of a reply waits for the client before the worker does.
	partsRoom = 256 << 10
	// A client must take partsStep bytes within partsPatience, or it is closed: the state
	// from which its reply is read is kept for it meanwhile.
	partsPatience = time.Minute
	partsStep     = 64 << 10
	// partsMemory is about what the two buffers of parts take.
	partsMemory = 256 << 10
)

var (
	errPartsGone = errors.New("the client has gone")
	errPartsSlow = errors.New("the client does not read its reply")
	errPartsStop = errors.New("the server shuts down")
)

// inParts lets a call that a worker runs send its reply in parts, if it turns out to
// be large. It returns what must be called behind it.
func (s *session) inParts(c *executor.Call, quiet bool) (end func()) {
	var st *parts
	c.Sink = func(w *wire.Writer) error {
		if st == nil {
			st = &parts{s: s, now: time.Now, quiet: quiet, room: make(chan struct{}, 1)}
		}
		return st.part(c, w)
	}
	return func() {
		if st != nil {
			st.end(c.Failed)
		}
	}
}

// part sends a part of the reply, and waits until there is room for the next.
func (st *parts) part(c *executor.Call, w *wire.Writer) error {
	if st.quiet {
		w.Buf = w.Buf[:0]
		return nil
	}
	if !st.begun {
		if err := st.s.srv.waitDurable(c.Wait); err != nil {
			return err
		}
		st.begun = true
	}
	part := w.Buf
	w.Buf = st.spare[:0]
	var taken atomic.Bool
	st.s.car.post(func() {
		st.s.parts = st
		st.s.out.Buf = append(st.s.out.Buf, part...)
		st.unsent.Store(int64(st.s.pending()))
		taken.Store(true)
	})
	err := st.await(func() bool { return taken.Load() && st.unsent.Load() < partsRoom })
	st.spare = part
	return err
}

// progress is told by the carrier what the client has taken.
func (st *parts) progress(sent int64, pending int) {
	st.sent.Store(sent)
	st.unsent.Store(int64(pending))
	select {
	case st.room <- struct{}{}:
	default:
	}
}

// await waits for the client.
func (st *parts) await(ok func() bool) error {
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	last, since := st.sent.Load(), st.now()
	for !ok() {
		select {
		case <-st.room:
		case <-tick.C:
			st.s.mu.Lock()
			closed := st.s.closed
			st.s.mu.Unlock()
			if closed {
				return errPartsGone
			}
		}
		now := st.now()
		if n := st.sent.Load(); n-last >= partsStep {
			last, since = n, now
		}
		switch {
		case now.Sub(since) > partsPatience:
			return errPartsSlow
		case st.s.srv.draining.Load():
			return errPartsStop
		}
	}
	return nil
}

// end is called when all parts are sent. A reply that broke off cannot be mended: the connection is
// closed.
func (st *parts) end(failed bool) {
	if !st.begun {
		return
	}
	st.s.car.post(func() { st.s.parts = nil })
	if failed {
		st.s.srv.clientLog.Warn("a reply broke off, and its connection is closed", "client", st.s.id, "addr", st.s.addr)
		go st.s.car.shut()
	}
}
