package server

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"redoubt/command"
	"redoubt/wire"
)

// MONITOR: a session that sees the commands of all others.
//
// A line is pushed to each monitor like a message: see push.go. Monitors are walked
// under a read lock: when one has left, no line is on its way to it any more.

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
	c.srv.monitorMu.Lock()
	c.srv.monitorList = append(c.srv.monitorList, c.s)
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
	srv.monitorList = slices.DeleteFunc(srv.monitorList, func(m *session) bool { return m == s })
	srv.monitors.Store(int32(len(srv.monitorList)))
}

// feedMonitors shows a command that s has run to every monitor.
func (srv *Server) feedMonitors(s *session, cmd *command.Command, args [][]byte) {
	if cmd.Flags&command.Admin != 0 || cmd.Flags&command.SkipMonitor != 0 && cmd.Group != command.Scripting {
		return
	}
	line := monitorLine(s, time.Now(), redact(srv.cfg, srv.declared(args[0]), args))
	srv.monitorMu.RLock()
	defer srv.monitorMu.RUnlock()
	for _, m := range srv.monitorList {
		m.push(line, 0)
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
