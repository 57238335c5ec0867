package server

import (
	"log/slog"
	"testing"
	"time"

	"redoubt/budget"
	"redoubt/config"
)

// bareServer is a server without a store, for tests of sessions.
func bareServer() *Server {
	srv := &Server{budget: new(budget.Budget)}
	srv.initOutputs()
	return srv
}

// bareSession is a session of it that is in no register.
func bareSession(srv *Server, car carrier) *session {
	s := &session{srv: srv, car: car, work: new(turn)}
	s.initOutput()
	return s
}

// The limits of an output count what the client has yet to take: not what was sent, of a
// piece that is there still either.
func TestOutputLimitCountsWhatIsLeft(t *testing.T) {
	t.Parallel()
	srv := bareServer()
	srv.clientLog = slog.New(slog.DiscardHandler)
	srv.set.outLimit.Store(&config.BufferLimit{Hard: 1 << 20})
	s := bareSession(srv, new(heldCarrier))
	for range 10 {
		s.pushQueue.Push(make([]byte, 600<<10), 0)
		s.movePushed()
		s.settle(0, 0)
		if s.overLimit(time.Now()) {
			t.Fatalf("%d bytes are too much", s.out.Pending())
		}
		s.advance(s.out.Pending() - 300<<10)
	}
	s.pushQueue.Push(make([]byte, 800<<10), 0)
	s.movePushed()
	if n := s.out.Pending(); n != 1100<<10 || !s.overLimit(time.Now()) {
		t.Errorf("%d bytes are not too much", n)
	}
}
