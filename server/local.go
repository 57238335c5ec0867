package server

import (
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
}

func (s *session) local(cmd *command.Command, args [][]byte, w *wire.Writer) {
	l := s.srv.locals[cmd]
	if l.worker {
		s.defer_(cmd, args, func(w *wire.Writer) {
			c := &localCall{s: s, srv: s.srv, args: s.deferred.args, w: w}
			if err := l.run(c); err != nil {
				w.Buf = w.Buf[:0]
				w.Error(command.Text(err))
			}
		})
		return
	}
	start, at := time.Now(), len(w.Buf)
	err := l.run(&localCall{s: s, srv: s.srv, args: args, w: w})
	if err != nil {
		w.Buf = w.Buf[:at]
		w.Error(command.Text(err))
	}
	s.finished(cmd, args, time.Since(start), err != nil, w)
}

// unknownCommand is the answer to a command that does not exist.
func unknownCommand(args [][]byte) error {
	var b strings.Builder
	for _, a := range args[1:] {
		if b.Len() >= 128 {
			break
		}
		fmt.Fprintf(&b, "'%.*s' ", 128-b.Len(), a)
	}
	return command.Error(fmt.Sprintf("ERR unknown command '%.128s', with args beginning with: %s", args[0], b.String()))
}

func unknownSubcommand(cmd *command.Command, sub []byte) error {
	return command.Error(fmt.Sprintf("ERR unknown subcommand '%.128s'. Try %s HELP.", sub, strings.ToUpper(cmd.Name)))
}
