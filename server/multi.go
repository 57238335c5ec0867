package server

import (
	"strings"
	"time"
	"unsafe"

	"redoubt/command"
	"redoubt/executor"
	"redoubt/wire"
)

// MULTI: commands that are queued and then run as one, by EXEC.

const (
	errNestedMulti  = command.Error("ERR MULTI calls can not be nested")
	errWatchInMulti = command.Error("ERR WATCH inside MULTI is not allowed")
	errExecWithout  = command.Error("ERR EXEC without MULTI")
	errDiscard      = command.Error("ERR DISCARD without MULTI")
	errNotInMulti   = command.Error("ERR Command not allowed inside a transaction")
	errExecAbort    = command.Error("EXECABORT Transaction discarded because of previous errors.")
)

// multi is a transaction that is being queued. What it holds is used again for the
// next one of the connection.
type multi struct {
	queue []command.Queued
	args  [][]byte      // arguments of the last commands, and
	buf   []byte        // their bytes: when one is full, a new one is begun
	other int           // bytes of the ones before, and of commands with a buffer of their own
	count int           // commands queued
	bad   bool          // a command was refused: EXEC will do nothing
	flags command.Flags // those of what was queued before it was bad
}

// The room for arguments and their bytes is taken in pieces of at most so many.
const (
	queueArgs  = 1 << 10
	queueBytes = 64 << 10
)

// size is what CLIENT LIST tells: how many commands are queued, -1 outside of MULTI.
func (m *multi) size() (commands, bytes int) {
	if m == nil {
		return -1, 0
	}
	return m.count, m.memory()
}

// memory is how many bytes the transaction holds.
func (m *multi) memory() int {
	return m.other + cap(m.buf) + cap(m.args)*int(unsafe.Sizeof(m.buf)) + cap(m.queue)*int(unsafe.Sizeof(command.Queued{}))
}

// flagsOf are the command's flags, and for EXEC those of all that it will run.
func (m *multi) flagsOf(cmd *command.Command, args [][]byte) command.Flags {
	f := scriptFlags(cmd, args)
	if m != nil && cmd == command.Exec {
		f |= m.flags
		for i := range m.queue {
			f |= scriptFlags(m.queue[i].Cmd, m.queue[i].Args)
		}
	}
	return f
}

func multiCommands() []*local {
	flags := command.NoScript | command.Loading | command.Stale | command.Fast | command.AllowBusy
	return []*local{
		{Command: &command.Command{
			Name: "multi", Group: command.Transactions, Since: "1.2.0", Arity: 1, Flags: flags, Complexity: "O(1)",
			Summary: "Begins a transaction: the commands that follow are queued until EXEC.",
		}, run: func(c *localCall) error {
			if c.s.multi != nil {
				return errNestedMulti
			}
			c.s.beginMulti()
			c.w.OK()
			return nil
		}},
		{Command: &command.Command{
			Name: "discard", Group: command.Transactions, Since: "2.0.0", Arity: 1, Flags: flags,
			Complexity: "O(N) where N is the number of queued commands",
			Summary:    "Ends a transaction without running its commands.",
		}, run: func(c *localCall) error {
			if c.s.multi == nil {
				return errDiscard
			}
			c.s.endMulti()
			c.w.OK()
			return nil
		}},
		{Command: &command.Command{
			Name: "unwatch", Group: command.Transactions, Since: "2.2.0", Arity: 1, Flags: flags | command.Repeatable, Complexity: "O(1)",
			Summary: "Forgets all keys that this connection watches.",
		}, run: func(c *localCall) error {
			c.s.watch.Clear()
			c.w.OK()
			return nil
		}},
	}
}

// smallQueue is how many arguments of a transaction are room that is kept, until the
// client falls silent.
const smallQueue = 256

// beginMulti begins a transaction.
func (s *session) beginMulti() {
	if s.multi = s.lastMulti; s.multi == nil {
		s.multi = &multi{queue: make([]command.Queued, 0, 4)}
	}
	s.lastMulti = nil
}

// endMulti leaves the transaction, and forgets the watched keys. Nobody uses its
// queue any more.
func (s *session) endMulti() {
	if m := s.multi; m != nil && m.other <= smallBuffer && cap(m.buf) <= smallBuffer && cap(m.args) <= smallQueue && cap(m.queue) <= smallQueue {
		clear(m.queue)
		clear(m.args)
		*m = multi{queue: m.queue[:0], args: m.args[:0], buf: m.buf[:0]}
		s.lastMulti = m
	}
	s.multi = nil
	s.watch.Clear()
}

// atOnce says whether a command is run although others are queued.
func atOnce(cmd *command.Command) bool {
	if cmd == command.Exec || cmd == command.Watch {
		return true
	}
	switch cmd.FullName {
	case "multi", "discard", "quit", "reset":
		return true
	}
	return false
}

// enqueue queues a command of a transaction, unless that is to fail anyway.
func (s *session) enqueue(cmd *command.Command, args [][]byte, w *wire.Writer) {
	w.Status("QUEUED")
	m := s.multi
	if m.bad {
		return
	}
	m.count++
	n := 0
	for _, a := range args {
		n += len(a)
	}
	if n >= largeArgs {
		kept, size := s.retain(args)
		m.other += size
		m.queue = append(m.queue, command.Queued{Cmd: cmd, Args: kept})
		return
	}
	if n > cap(m.buf)-len(m.buf) {
		m.other += cap(m.buf)
		m.buf = make([]byte, 0, max(n, min(2*cap(m.buf), queueBytes), 256))
	}
	if len(args) > cap(m.args)-len(m.args) {
		m.other += cap(m.args) * int(unsafe.Sizeof(m.buf))
		m.args = make([][]byte, 0, max(len(args), min(2*cap(m.args), queueArgs), 8))
	}
	from := len(m.args)
	for _, a := range args {
		at := len(m.buf)
		m.buf = append(m.buf, a...)
		m.args = append(m.args, m.buf[at:len(m.buf):len(m.buf)])
	}
	m.queue = append(m.queue, command.Queued{Cmd: cmd, Args: m.args[from:len(m.args):len(m.args)]})
}

// spoilMulti notes that a command was refused. A refused EXEC ends the transaction.
func (s *session) spoilMulti(cmd *command.Command, refused error) error {
	if s.multi == nil {
		return refused
	}
	// What was queued is of no use any more. How EXEC is refused still depends on it.
	*s.multi = multi{bad: true, count: s.multi.count, flags: s.multi.flagsOf(command.Exec, nil)}
	if cmd != command.Exec {
		return refused
	}
	s.endMulti()
	return command.Error("EXECABORT Transaction discarded because of: " + strings.TrimPrefix(command.Text(refused), "ERR "))
}

// prepare completes the call of WATCH or EXEC, or says why there is nothing to run.
func (s *session) prepare(c *executor.Call) error {
	switch c.Cmd {
	case command.Watch:
		if s.multi != nil {
			return errWatchInMulti
		}
		c.Watch = &s.watch
	case command.Exec:
		if s.multi == nil {
			return errExecWithout
		}
		if s.multi.bad {
			s.endMulti()
			return errExecAbort
		}
		c.Queue = s.multi.queue
		if s.watch.Len() > 0 {
			c.Watch = &s.watch
		}
	}
	return nil
}

// watching are the keys that the client watches, if another front end may change them.
func (s *session) watching() *executor.Watch {
	if s.srv.peers.Load() == nil || s.watch.Len() == 0 {
		return nil
	}
	return &s.watch
}

// executed records what EXEC, which began at the given time, has run, and leaves the
// transaction.
func (s *session) executed(c *executor.Call, at time.Time) {
	for i := range c.Queue {
		q := &c.Queue[i]
		if !q.Ran {
			continue
		}
		at = at.Add(q.Took)
		s.ran(q.Cmd, q.Args, q.Took, q.Err != nil, at)
		if q.Err != nil {
			s.srv.errors.count(q.Err)
		}
	}
	if !c.Failed {
		s.db = c.Selected
	}
	s.work.reach(at)
	s.endMulti()
}
