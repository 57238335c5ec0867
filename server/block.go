package server

import (
	"time"

	"redoubt/command"
	"redoubt/executor"
)

// blocked is a command of a session that waits for an element of a key, until its
// timeout, or until CLIENT UNBLOCK.
type blocked struct {
	waiter *executor.Waiter
	cmd    *command.Command
	args   [][]byte
	size   int       // bytes kept for the command
	until  time.Time // zero: no timeout
	timer  *time.Timer
	quiet  bool // the reply is discarded
	ended  time.Time
	acks   *command.Acks // of replicas, if the command waits for them
	over   chan struct{} // closed by stop; nil without acks
}

var errUnblocked = command.Error("UNBLOCKED client unblocked via CLIENT UNBLOCK")

// waiter makes the waiter of a command. It may be called from any goroutine; c is
// the call as it was run.
func (s *session) waiter(c *executor.Call, block *command.Block, proto int, quiet bool, since time.Time) *blocked {
	w := &blocked{cmd: c.Cmd, args: copyArgs(c.Args), quiet: quiet}
	call := *c
	call.Args, call.Caller = w.args, &caller{s: s, blocked: true}
	own := *block
	if own.Keys = copyArgs(block.Keys); block.Args != nil {
		own.Args = copyArgs(block.Args)
	}
	w.size = argsSize(w.args) + argsSize(own.Keys) + argsSize(own.Args)
	w.waiter = s.srv.exec.NewWaiter(call, &own, proto, func(*executor.Waiter) {
		w.ended = time.Now()
		s.postResume(func() { s.unblocked(w) })
	})
	w.waiter.Serving = s.mute
	if block.Acks != nil {
		w.acks, w.over = block.Acks, make(chan struct{})
	}
	if block.Timeout > 0 {
		w.until = since.Add(time.Duration(block.Timeout) * time.Millisecond)
	}
	return w
}

// block suspends the session. It runs on the carrier, which holds mu. The timer starts
// here: one that fired earlier would resume the session before it is suspended.
func (s *session) block(w *blocked) {
	s.blocked = w
	s.suspend(forKey)
	if w.acks != nil {
		go s.srv.awaitAcks(w)
	}
	if !w.until.IsZero() {
		w.timer = time.AfterFunc(time.Until(w.until), func() { w.waiter.End(nil) })
	}
}

// blockFrom is block from a worker, which holds the latches of the keys, so the waiter
// cannot be served before the session waits. A client that has left does not wait: its
// waiter would take an element that no client gets.
func (s *session) blockFrom(c *executor.Call, block *command.Block, proto int, quiet bool, since time.Time) *executor.Waiter {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil
	}
	w := s.waiter(c, block, proto, quiet, since)
	s.blocked = w // for leave, which cancels the waiter
	s.car.post(func() {
		s.deferred = nil
		s.unmute()
		s.show(w.cmd, w.args)
		s.block(w)
	})
	return w.waiter
}

// unblocked ends a command that waited. It runs on the carrier, which
// holds mu.
func (s *session) unblocked(w *blocked) {
	w.stop()
	s.blocked = nil
	if s.denials != nil { // the user may no longer run the command
		s.work.stats.Reject(w.cmd)
		s.noteDenials(w.args)
	} else {
		s.work.stats.Record(w.cmd, 0, w.waiter.Failed)
		if s.srv.obs.Slow.Threshold() <= 0 { // waiting is not slow: logged only if all commands are
			s.work.advanceTo(w.ended)
			s.srv.obs.Slow.Add(s.srv.redacted(w.args), s.addr, s.name, 0, w.ended)
		}
	}
	if w.waiter.Failed {
		s.srv.obs.Errors.CountReply(w.waiter.Reply())
	}
	if !w.quiet {
		s.out.Answers++
		s.out.Append(w.waiter.Reply())
		s.out.Wait = max(s.out.Wait, w.waiter.Ticket)
		s.chargeGrowth()
	}
	w.waiter.Release()
	s.unmute()
	s.tracker.ReadDone(w.cmd, w.args)
	s.lastUsed = s.work.now
}

func (w *blocked) stop() {
	if w.timer != nil {
		w.timer.Stop()
	}
	if w.over != nil {
		close(w.over)
	}
}

// awaitAcks ends a command that waits for replicas once enough of them have acknowledged.
func (srv *Server) awaitAcks(w *blocked) {
	a := w.acks
	srv.source.AskForAcks()
	for {
		next := srv.source.Stream.NextAck()
		if int64(srv.source.Stream.Acked(a.Offset, a.Fsynced)) >= a.Replicas {
			w.waiter.End(nil)
			return
		}
		select {
		case <-next:
		case <-w.over:
			return
		}
	}
}

// abandon cancels a waiting command whose client has gone.
func (s *session) abandon() {
	if w := s.blocked; w != nil {
		s.blocked = nil
		w.stop()
		w.waiter.Cancel()
	}
}

var errInstanceChanged = command.Error("UNBLOCKED force unblock from blocking operation, instance state changed (master -> replica?)")

// becomes is called when the server has become a replica or a master. Clients that wait for a
// key get an error when it becomes a replica, and are closed: what they wait for may never come.
func (srv *Server) becomes(replica bool) {
	srv.upkeep.Follow(replica)
	if !replica {
		return
	}
	srv.pool.run(func() {
		for _, s := range srv.clients.list() {
			s.mu.Lock()
			w := s.blocked
			s.mu.Unlock()
			if w != nil && w.waiter.End(errInstanceChanged) {
				s.car.post(func() { s.closing = true })
			}
		}
	})
}

// unblock ends the waiting of another client, with an error or as if its timeout had
// passed. It reports whether the client was waiting.
func (srv *Server) unblock(id int64, byError bool) bool {
	s := srv.clients.find(id)
	if s == nil {
		return false
	}
	s.mu.Lock()
	w := s.blocked
	s.mu.Unlock()
	if w == nil {
		return false
	}
	if byError {
		return w.waiter.End(errUnblocked)
	}
	return w.waiter.End(nil)
}
