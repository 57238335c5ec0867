package server

import (
	"bytes"
	"fmt"
	"strings"
	"time"

	"redoubt/command"
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
	// within, if it is in a transaction or script, runs commands as a part of that.
	within command.Within
	// after, if a worker's run sets it, is called on the carrier with the
	// session's mu held, behind the reply.
	after func()
	// delay is for how long the reply is held back, if it is.
	delay time.Duration
}

func (s *session) local(cmd *command.Command, args [][]byte, w *wire.Writer) {
	l := s.srv.locals[cmd]
	if l.worker {
		s.defer_(cmd, args, func(w *wire.Writer) {
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
	s.finished(cmd, args, s.work.lap(s.srv.started), err != nil, w)
	if delay > 0 {
		s.holdBack(w, at, delay)
	}
}

// unknownCommand is the answer to a command that does not exist.
func unknownCommand(args [][]byte) error {
	var b strings.Builder
	for _, a := range args[1:] {
		if b.Len() >= 128 {
			break
		}
		b.WriteString("'" + cString(a, 128-b.Len()) + "' ")
	}
	return command.Error("ERR unknown command '" + cString(args[0], 128) + "', with args beginning with: " + b.String())
}

// unknownSubcommand is the answer to a subcommand that does not exist. The command
// is called as the client called it, for it may have been renamed.
func unknownSubcommand(args [][]byte) error {
	sub := args[min(1, len(args)-1)]
	return command.Error(fmt.Sprintf("ERR unknown subcommand '%s'. Try %s HELP.", cString(sub, 128), strings.ToUpper(cString(args[0], 128))))
}

// cString is as much of b as C prints of a string: up to a zero byte, and at
// most n bytes.
func cString(b []byte, n int) string {
	if i := bytes.IndexByte(b, 0); i >= 0 {
		b = b[:i]
	}
	return string(b[:min(n, len(b))])
}
