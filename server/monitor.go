package server

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"redoubt/command"
	"redoubt/wire"
)

// MONITOR: a session that sees the commands of all others.
//
// Whoever runs a command holds its own session's mu and must not wait for
// another's. So a line is appended to the queue of each monitor, under a lock
// that is never held for long, and the monitor's carrier moves the queue into
// its output. A monitor that does not read is closed by the limits on its
// output, which count the queue too.

// monitorQueue is what a monitor has not taken into its output yet.
type monitorQueue struct {
	mu     sync.Mutex
	lines  []byte
	posted bool // the carrier was told
}

func monitorCommands() []*local {
	return []*local{{Command: &command.Command{
		Name: "monitor", Group: command.Server, Since: "1.0.0", Arity: 1,
		Flags:   command.Admin | command.NoScript | command.Loading | command.Stale,
		Summary: "Shows this connection every command that the server runs, as it runs.",
	}, run: monitor}}
}

func monitor(c *localCall) error {
	if c.s.monitor { // Redis ignores it, without an answer
		c.unanswered()
		return nil
	}
	c.s.monitor = true
	c.s.feed = &monitorQueue{}
	c.srv.monitorMu.Lock()
	c.srv.monitorList = append(slices.Clip(c.srv.monitorList), c.s)
	c.srv.monitors.Store(int32(len(c.srv.monitorList)))
	c.srv.monitorMu.Unlock()
	c.w.OK()
	return nil
}

// dropMonitor forgets a monitor. Its mu is held.
func (srv *Server) dropMonitor(s *session) {
	s.monitor = false
	srv.monitorMu.Lock()
	defer srv.monitorMu.Unlock()
	// A copy: feedMonitors walks the old list without the lock.
	srv.monitorList = slices.DeleteFunc(slices.Clone(srv.monitorList), func(m *session) bool { return m == s })
	srv.monitors.Store(int32(len(srv.monitorList)))
}

// feedMonitors shows a command that s has run to every monitor.
func (srv *Server) feedMonitors(s *session, cmd *command.Command, args [][]byte) {
	if cmd.Flags&(command.SkipMonitor|command.Admin) != 0 {
		return
	}
	srv.monitorMu.Lock()
	list := srv.monitorList
	srv.monitorMu.Unlock()
	line := monitorLine(s, time.Now(), redact(srv.cfg, args))
	for _, m := range list {
		m.feedLine(line)
	}
}

func monitorLine(s *session, now time.Time, args [][]byte) []byte {
	addr := s.addr
	if s.unix {
		addr = "unix:" + strings.TrimSuffix(addr, ":0")
	}
	line := fmt.Appendf(nil, "+%d.%06d [%d %s]", now.Unix(), now.Nanosecond()/1000, s.db, addr)
	for _, a := range args {
		line = wire.AppendQuoted(append(line, ' '), string(a))
	}
	return append(line, '\r', '\n')
}

// feedLine queues a line for a monitor. It may be called from any session.
func (s *session) feedLine(line []byte) {
	q := s.feed
	q.mu.Lock()
	defer q.mu.Unlock()
	q.lines = append(q.lines, line...)
	if hard := s.srv.outLimit.Load().Hard; hard > 0 && uint64(len(q.lines)) > hard {
		// Its carrier does not get around to the queue: the client's socket is
		// full. shut may wait, and we may be on the carrier.
		q.lines = nil
		go s.car.shut()
		return
	}
	if !q.posted {
		q.posted = true
		s.car.post(func() {
			q.mu.Lock()
			lines := q.lines
			q.lines, q.posted = nil, false
			q.mu.Unlock()
			if s.monitor && s.feed == q {
				s.out.Buf = append(s.out.Buf, lines...)
			}
		})
	}
}
