package server

import (
	"strings"
	"time"

	"redoubt/command"
	"redoubt/script"
	"redoubt/server/observe"
)

// MONITOR: a session that sees the commands of all others. A line is pushed to it like a
// message: see push.go.

func monitorCommands() []*local {
	return []*local{{Command: &command.Command{
		Name: "monitor", Group: command.Server, Since: "1.0.0", Arity: 1,
		Flags:   command.Admin | command.NoScript | command.Loading | command.Stale,
		Summary: "Shows this connection every command that the server runs, as it runs.",
	}, run: monitor}}
}

func monitor(c *localCall) error {
	if c.s.monitor { // a second MONITOR gets no answer, as in Redis
		c.unanswered()
		return nil
	}
	c.s.monitor = true
	c.srv.obs.Monitors.Add(c.s)
	c.w.OK()
	return nil
}

// endMonitor ends MONITOR, if the session has called it. mu is held.
func (s *session) endMonitor() {
	if s.monitor {
		s.monitor = false
		s.srv.obs.Monitors.Remove(s)
	}
}

// ShowLine implements observe.Monitor.
func (s *session) ShowLine(line []byte) { s.pushQueue.Push(line, 0) }

// show sends a command to the monitors, unless the session has done so already.
func (s *session) show(cmd *command.Command, args [][]byte) {
	if !s.shown && s.srv.obs.Monitors.Any() {
		s.showTo(cmd, args)
	}
	s.shown = false
}

func (s *session) showTo(cmd *command.Command, args [][]byte) {
	if cmd.Flags&command.Admin != 0 || cmd.Flags&command.SkipMonitor != 0 && cmd.Group != command.Scripting {
		return
	}
	addr := s.addr
	if s.unix {
		addr = "unix:" + strings.TrimSuffix(addr, ":0")
	}
	s.srv.obs.Monitors.Show(time.Now(), s.db, addr, s.srv.redacted(args))
}

// showScripted sends a command that a script has run to the monitors.
func (srv *Server) showScripted(l script.Line) {
	if l.Cmd.Flags&(command.SkipMonitor|command.Admin) == 0 {
		srv.obs.Monitors.Show(time.Now(), l.DB, "lua", l.Args)
	}
}

// redacted returns a command's arguments without secrets. It looks up the declared name,
// since rename-command may have given the command another.
func (srv *Server) redacted(args [][]byte) [][]byte {
	name := ""
	if c := srv.table.Lookup(args[0]); c != nil {
		name = c.Name
	}
	return observe.Redact(srv.cfg, name, args)
}
