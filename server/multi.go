package server

import (
	"slices"
	"strings"
	"time"
	"unsafe"

	"redoubt/command"
	"redoubt/executor"
	"redoubt/server/output"
	"redoubt/wire"
)

// MULTI: commands that are queued and then run by EXEC as one transaction.

const (
	errNestedMulti  = command.Error("ERR MULTI calls can not be nested")
	errWatchInMulti = command.Error("ERR WATCH inside MULTI is not allowed")
	errExecWithout  = command.Error("ERR EXEC without MULTI")
	errDiscard      = command.Error("ERR DISCARD without MULTI")
	errNotInMulti   = command.Error("ERR Command not allowed inside a transaction")
	errExecAbort    = command.Error("EXECABORT Transaction discarded because of previous errors.")
)

// multi is a transaction that is being queued. Its memory is reused for the connection's
// next transaction.
type multi struct {
	queue []command.Queued
	args  [][]byte      // arguments of the last commands; replaced when full
	buf   []byte        // bytes of these arguments; replaced when full
	other int           // bytes of replaced args and bufs, and of commands that own their buffer
	count int           // commands queued
	bad   bool          // a command was refused: EXEC will do nothing
	flags command.Flags // of the commands queued before the transaction was bad
}

// The largest pieces in which room for arguments and their bytes is allocated.
const (
	queueArgs  = 1 << 10
	queueBytes = 64 << 10
)

// size returns the figures of CLIENT LIST: how many commands are queued, -1 outside of
// MULTI, and the bytes that they hold.
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

// flagsOf returns the command's flags, and for EXEC those of all that it will run.
func (m *multi) flagsOf(cmd *command.Command, args [][]byte) command.Flags {
	f := scriptFlags(cmd, args)
	if m != nil && isExec(cmd) {
		f |= m.queuedFlags()
	}
	return f
}

// queuedFlags returns the flags of all commands that were queued.
func (m *multi) queuedFlags() command.Flags {
	f := m.flags
	for i := range m.queue {
		f |= scriptFlags(m.queue[i].Cmd, m.queue[i].Args)
	}
	return f
}

// needsFreshData reports whether a command was queued that a replica without its master may
// refuse.
func (m *multi) needsFreshData() bool {
	return m != nil && slices.ContainsFunc(m.queue, func(q command.Queued) bool { return q.Cmd.Flags&command.Stale == 0 })
}

// isExec reports whether a command of the table, or nil, is EXEC.
func isExec(cmd *command.Command) bool { return cmd != nil && cmd.Declared == command.Exec }

func multiCommands() []*local {
	flags := command.NoScript | command.Loading | command.Stale | command.Fast | command.AllowBusy
	return []*local{
		{Command: &command.Command{
			Name: "multi", Group: command.Transactions, Since: "1.2.0", Arity: 1, Flags: flags | command.NoQueue, Complexity: "O(1)",
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
			Name: "discard", Group: command.Transactions, Since: "2.0.0", Arity: 1, Flags: flags | command.NoQueue,
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

// smallQueue is the size of args and queue up to which endMulti keeps them for the next
// transaction, until the client is idle.
const smallQueue = 256

// beginMulti begins a transaction.
func (s *session) beginMulti() {
	if s.multi = s.lastMulti; s.multi == nil {
		s.multi = &multi{queue: make([]command.Queued, 0, 4)}
	}
	s.lastMulti = nil
}

// endMulti leaves the transaction, and forgets the watched keys. Its queue must be unused.
func (s *session) endMulti() {
	if m := s.multi; m != nil && m.other <= output.SmallBuffer && cap(m.buf) <= output.SmallBuffer && cap(m.args) <= smallQueue && cap(m.queue) <= smallQueue {
		clear(m.queue)
		clear(m.args)
		*m = multi{queue: m.queue[:0], args: m.args[:0], buf: m.buf[:0]}
		s.lastMulti = m
	}
	s.multi = nil
	s.watch.Clear()
}

// enqueue queues a command of a transaction, unless the transaction is bad.
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
	// The queue is dropped. Its flags are kept: how EXEC is refused depends on them.
	*s.multi = multi{bad: true, count: s.multi.count, flags: s.multi.queuedFlags()}
	if !isExec(cmd) {
		return refused
	}
	s.endMulti()
	if refused == command.ErrCrossSlot {
		return refused // as Redis
	}
	return command.Error("EXECABORT Transaction discarded because of: " + strings.TrimPrefix(command.Text(refused), "ERR "))
}

// prepare completes the call of WATCH or EXEC, or returns the error to answer instead.
func (s *session) prepare(c *executor.Call) error {
	switch c.Cmd.Declared {
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

// watching returns the keys that the client watches, nil if no other front end may change
// them.
func (s *session) watching() *executor.Watch {
	if s.srv.peers.Load() == nil || s.watch.Len() == 0 {
		return nil
	}
	return &s.watch
}

// executed records the commands run by an EXEC that began at the given time, and leaves
// the transaction.
func (s *session) executed(c *executor.Call, at time.Time) {
	for i := range c.Queue {
		q := &c.Queue[i]
		if !q.Ran {
			continue
		}
		at = at.Add(q.Took)
		s.ran(q.Cmd, q.Args, q.Took, q.Err != nil, at)
		if q.Err != nil {
			s.srv.obs.Errors.Count(q.Err)
		}
	}
	if !c.Failed {
		s.db = c.Selected
	}
	s.work.advanceTo(at)
	s.endMulti()
}
