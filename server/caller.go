package server

import (
	"time"

	"redoubt/command"
	"redoubt/script"
	"redoubt/server/admin"
	"redoubt/wire"
)

// caller is a session as the commands of its transactions and scripts see it: see
// command.Caller.
type caller struct {
	s *session
	// carried: the caller is used on the session's carrier, which holds mu. Else a
	// worker uses it while the session waits.
	carried bool
	stop    *script.Stop // of the command that a worker runs
	blocked bool         // the command has waited for a key
}

const errGone = command.Error("ERR the client has gone")

// Writable implements command.Caller.
func (c *caller) Writable(flags command.Flags) error { return c.s.srv.writable(flags) }

// OutOfMemory implements command.Caller.
func (c *caller) OutOfMemory() bool { return c.s.srv.outOfMemory() }

// Gone implements executor.Gone: the client has closed its connection, or for
// halfClosedGrace its side of it, or the server shuts down.
func (c *caller) Gone() bool {
	if c.carried {
		return false
	}
	if c.stop != nil && c.stop.Passed(time.Now()) {
		return true
	}
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	return c.s.closed || c.s.srv.life.draining.Load()
}

// Local implements command.Caller.
func (c *caller) Local(cmd *command.Command, args [][]byte, db int, w *wire.Writer, within command.Within) (int, error) {
	s, l := c.s, c.s.srv.locals[cmd.Declared]
	if l == nil {
		return db, admin.UnknownSubcommand(args)
	}
	call := localCall{s: s, srv: s.srv, args: args, w: w, within: within}
	if l.worker {
		err := l.run(&call)
		if call.after != nil {
			s.mu.Lock()
			defer s.mu.Unlock()
			call.after()
		}
		return db, err
	}
	if !c.carried {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.closed { // leave has run: new subscriptions or tracking would never be removed
			return db, errGone
		}
	}
	own := s.db
	s.db = db
	err := l.run(&call)
	db, s.db = s.db, own
	return db, err
}
