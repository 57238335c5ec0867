package server

import (
	"time"

	"redoubt/command"
	"redoubt/executor"
)

// blocked is a command of a session that waits: for an element of a key, until a
// time, or until somebody ends it.
type blocked struct {
	waiter *executor.Waiter
	cmd    *command.Command
	args   [][]byte
	size   int       // of what is kept for it
	until  time.Time // zero: for ever
	timer  *time.Timer
	quiet  bool // nobody wants the reply
	ended  time.Time
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
		s.car.post(func() { s.unblocked(w) })
	})
	w.waiter.Serving = s.mute
	if block.Timeout > 0 {
		w.until = since.Add(time.Duration(block.Timeout) * time.Millisecond)
	}
	return w
}

// block lets the session wait. It runs on the carrier, which holds mu. The time begins
// to run here: were it over before, the session would go on first and wait then.
func (s *session) block(w *blocked) {
	s.blocked, s.waiting = w, true
	s.car.interest()
	if !w.until.IsZero() {
		w.timer = time.AfterFunc(time.Until(w.until), func() { w.waiter.End(nil) })
	}
}

// blockFrom is block from a worker, which holds the latches of the keys: so the waiter
// cannot be served before the session waits. A client that has left does not wait: its
// waiter would take an element that nobody gets.
func (s *session) blockFrom(c *executor.Call, block *command.Block, proto int, quiet bool, since time.Time) *executor.Waiter {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil
	}
	w := s.waiter(c, block, proto, quiet, since)
	s.blocked = w // whoever closes the session finds it
	s.car.post(func() {
		s.deferred = nil
		s.unmute()
		s.show(w.cmd, w.args)
		s.block(w)
	})
	return w.waiter
}

// unblocked goes on after a command that waited. It runs on the carrier, which
// holds mu.
func (s *session) unblocked(w *blocked) {
	w.stop()
	s.blocked = nil
	if s.denials != nil { // its user may not run it any more
		s.work.stats.reject(w.cmd)
		s.noteDenials(w.args)
	} else {
		s.work.stats.record(w.cmd, 0, w.waiter.Failed)
		if s.srv.slow.threshold() <= 0 { // waiting is not slow, so only who wants all sees it
			s.work.reach(w.ended)
			s.srv.slow.add(s, w.args, 0, w.ended)
		}
	}
	if w.waiter.Failed {
		s.srv.errors.countReply(w.waiter.Reply())
	}
	if !w.quiet {
		s.answers++
		s.answer(w.waiter.Reply())
		s.wait = max(s.wait, w.waiter.Ticket)
	}
	s.unmute()
	s.readDone(w.cmd, w.args)
	s.lastUsed = s.work.now
	s.resume()
}

func (w *blocked) stop() {
	if w.timer != nil {
		w.timer.Stop()
	}
}

// abandon forgets a command that waits, since its client has gone.
func (s *session) abandon() {
	if w := s.blocked; w != nil {
		s.blocked = nil
		w.stop()
		w.waiter.Cancel()
	}
}

// unblock ends the waiting of another client, by an error or as if its time were
// over. It says whether there was any.
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
