package server

import (
	"strings"
	"time"

	"redoubt/command"
	"redoubt/server/admin"
	"redoubt/wire"
)

// local is a command about the connection or the server: it has a descriptor
// like every command, and a handler that sees the session.
type local struct {
	*command.Command
	// run answers the call. It runs with the session's mu held, on the carrier.
	run func(c *localCall) error
	// worker: run is called on a goroutine of its own, after the commit of what
	// came before it, without the session's mu. It may take long, may lock
	// other sessions, and must not touch the calling session's state.
	worker bool
	subs   []*local
}

// localCall is one call of a local command.
type localCall struct {
	s    *session
	srv  *Server
	args [][]byte
	w    *wire.Writer
	// within runs commands as part of the calling transaction or script; nil outside of one.
	within command.Within
	// after, if a worker's run sets it, is called on the carrier with the
	// session's mu held, behind the reply.
	after func()
	// delay is how long the reply is delayed.
	delay time.Duration
}

func (s *session) local(cmd *command.Command, args [][]byte, w *wire.Writer) {
	l := s.srv.locals[cmd.Declared]
	if l.worker {
		s.toWorker(cmd, args, func(w *wire.Writer) {
			d := s.deferred
			c := &localCall{s: s, srv: s.srv, args: d.args, w: w}
			if err := l.run(c); err != nil {
				w.Buf = w.Buf[:0]
				w.Error(command.Text(err))
			}
			d.after = c.after
		})
		return
	}
	at := len(w.Buf)
	s.localCall = localCall{s: s, srv: s.srv, args: args, w: w}
	err := l.run(&s.localCall)
	delay := s.localCall.delay
	s.localCall = localCall{}
	if err != nil {
		w.Buf = w.Buf[:at]
		w.Error(command.Text(err))
	}
	s.finished(cmd, args, s.work.lap(s.srv.life.started), err != nil, w)
	if delay > 0 {
		s.holdBack(w, at, delay)
	}
}

// unknownCommand returns the error for a command that does not exist.
func unknownCommand(args [][]byte) error {
	var b strings.Builder
	for _, a := range args[1:] {
		if b.Len() >= 128 {
			break
		}
		b.WriteString("'" + admin.CString(a, 128-b.Len()) + "' ")
	}
	return command.Error("ERR unknown command '" + admin.CString(args[0], 128) + "', with args beginning with: " + b.String())
}

// is reports whether the i-th argument is the word, in upper or lower case.
func (c *localCall) is(i int, word string) bool { return admin.IsWord(c.args[i], word) }

func (c *localCall) ok() error {
	c.w.OK()
	return nil
}
