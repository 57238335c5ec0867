package server

import (
	"redoubt/command"
	"redoubt/server/output"
	"redoubt/server/tracking"
)

// Client-side caching, as a session sees it. Package tracking has the keys that each client
// has read, and says why no invalidation is missed.

// initTracking connects the tracking table to the server's clients.
func (srv *Server) initTracking() {
	srv.tracking.Init(tracking.Config{
		Account: &srv.budget.Clients,
		Find: func(id int64) (*output.Queue, bool) {
			s := srv.clients.find(id)
			if s == nil {
				return nil, false
			}
			return &s.pushQueue, s.subscribed.Load()
		},
		Wanted: srv.raiseInterest,
	})
}

func clientTracking(c *localCall) error {
	s := c.s
	o, on, err := s.srv.tracking.Parse(c.args, s.tracker.Present())
	if err != nil {
		return err
	}
	if !on {
		s.tracker.End(false)
		return c.ok()
	}
	if s.tracker == nil {
		s.tracker = s.srv.tracking.New(s.id, &s.pushQueue)
		s.call.Reads = s.nestedRead
	}
	s.tracker.Begin(o)
	return c.ok()
}

func clientCaching(c *localCall) error {
	if err := c.s.tracker.SetCaching(c.args[2]); err != nil {
		return err
	}
	return c.ok()
}

func clientTrackingInfo(c *localCall) error {
	t := c.s.tracker.Present()
	t.Write(c.w)
	return nil
}

// trackRead remembers the keys of a command that is about to be run. It runs on the
// carrier, which holds mu. This turn's uncommitted writes to those keys are committed
// first: they come before the read, and must not invalidate it.
func (s *session) trackRead(cmd *command.Command, args [][]byte) {
	if s.tracker.Remembers(cmd) {
		s.work.batch.CommitIfChanged(cmd, args, s.call.Guard)
		s.tracker.Read(cmd, args)
	}
}

// nestedRead notes a read by EXEC or a script: see executor.Call.Reads. It
// runs on the carrier, or on a worker while the session waits.
func (s *session) nestedRead(cmd *command.Command, args [][]byte, late bool) {
	s.tracker.NestedRead(cmd, args, late)
}

// cachingOver ends the effect of CLIENT CACHING after one command. It is called before
// the next command is run.
func (s *session) cachingOver() {
	if last := s.lastCmd; s.multi == nil && last != nil && (last.Parent == nil || last.Parent.Name != "client") {
		s.tracker.EndCaching()
	}
}
