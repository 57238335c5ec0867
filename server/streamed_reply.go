package server

import (
	"errors"
	"sync/atomic"
	"time"

	"redoubt/executor"
	"redoubt/wire"
)

// streamedReply sends a large reply to its client in parts, from the worker that makes
// it. The worker goes on when the client has taken most of what it got, so that a
// reply of any size needs little memory here.
type streamedReply struct {
	s      *session
	now    func() time.Time
	quiet  bool          // the reply is discarded
	begun  bool          // a part was sent, after the commits it depends on were durable
	spare  []byte        // the buffer of the part before
	room   chan struct{} // the client took something
	sent   atomic.Int64  // bytes that the client has taken since its connection began
	unsent atomic.Int64
}

const (
	// streamedRoom is how many unsent bytes make the worker wait for the client.
	streamedRoom = 256 << 10
	// A client must take streamedStep bytes within streamedPatience, or it is closed: its reply
	// keeps a snapshot of the store open.
	streamedPatience = time.Minute
	streamedStep     = 64 << 10
	// streamedMemory is about the size of the two buffers of parts.
	streamedMemory = 256 << 10
)

var (
	errClientGone   = errors.New("the client has gone")
	errClientSlow   = errors.New("the client does not read its reply")
	errShuttingDown = errors.New("the server shuts down")
)

// streamReply lets a call that a worker runs send its reply in parts, if the reply turns out
// to be large. It returns the function to call after the run.
func (s *session) streamReply(c *executor.Call, quiet bool) (end func()) {
	var st *streamedReply
	c.Sink = func(w *wire.Writer) error {
		if st == nil {
			st = &streamedReply{s: s, now: time.Now, quiet: quiet, room: make(chan struct{}, 1)}
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
func (st *streamedReply) part(c *executor.Call, w *wire.Writer) error {
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
		st.s.streamed = st
		st.s.out.Buf = append(st.s.out.Buf, part...)
		st.unsent.Store(int64(st.s.out.Pending()))
		taken.Store(true)
	})
	err := st.await(func() bool { return taken.Load() && st.unsent.Load() < streamedRoom })
	st.spare = part
	return err
}

// progress notes how much the client has taken, and how much is unsent. The carrier
// calls it.
func (st *streamedReply) progress(sent int64, pending int) {
	st.sent.Store(sent)
	st.unsent.Store(int64(pending))
	select {
	case st.room <- struct{}{}:
	default:
	}
}

// await waits until ok returns true. It fails if the client has gone or is too slow, or
// the server shuts down.
func (st *streamedReply) await(ok func() bool) error {
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
				return errClientGone
			}
		}
		now := st.now()
		if n := st.sent.Load(); n-last >= streamedStep {
			last, since = n, now
		}
		switch {
		case now.Sub(since) > streamedPatience:
			return errClientSlow
		case st.s.srv.life.draining.Load():
			return errShuttingDown
		}
	}
	return nil
}

// end is called after the run. A reply that failed after its first part cannot be
// corrected: the connection is closed.
func (st *streamedReply) end(failed bool) {
	if !st.begun {
		return
	}
	st.s.car.post(func() { st.s.streamed = nil })
	if failed {
		st.s.srv.clientLog.Warn("a reply broke off, and its connection is closed", "client", st.s.id, "addr", st.s.addr)
		go st.s.car.shut()
	}
}
