package executor

import (
	"sync"

	"redoubt/command"
	"redoubt/engine"
	"redoubt/keyspace"
	"redoubt/wire"
)

// Call is one command to be run.
type Call struct {
	Cmd     *command.Command
	Args    [][]byte
	DB      int
	Reply   *wire.Writer
	NoTouch bool // the client does not want keys to count as used
	// Guard, if set, is held during Run and guards Reply: a commit that fails
	// rewrites the replies of other calls of the batch too.
	Guard sync.Locker
	// OnBlock, if set, makes the waiter of a command that is going to wait. Without
	// it such a command must answer at once.
	OnBlock func(*command.Block) *Waiter
	// Caller is who runs the command, for one that runs others.
	Caller command.Caller
	// Queue are the commands that EXEC runs, Watch the keys that the client watches
	// or, for WATCH, is going to.
	Queue []command.Queued
	Watch *Watch
	// Watching are, for any other command, the keys that its client watches if another
	// process may change them.
	Watching *Watch
	// By is the number of the client, for those who want to know who changed a key.
	By int64
	// Reads, if set, is told of a command that EXEC or a script is about to run and
	// that only reads. late: the state that it reads is an older one.
	Reads func(cmd *command.Command, args [][]byte, late bool)
	// Sink, if set, takes parts of a reply that is too large to be held: see
	// command.Ctx.Spill. They may be sent once Wait is durable.
	Sink func(*wire.Writer) error

	// Begin, if set, is called before each try: a call may be tried several times.
	Begin func()

	// Set by RunTogether: where the reply begins.
	Start int

	// Set by Run. The reply may be sent once Wait is durable and, if Own, once
	// the ticket that Commit returns is.
	Wait   engine.Ticket
	Own    bool
	Failed bool // the reply is an error
	// Detour is how the call must be run instead, if Run returned one. RunAlone begins
	// with that.
	Detour keyspace.Detour
	// Cold: it met rows that are not in memory. RunAlone takes its turn among those that
	// read from disk.
	Cold bool
	// Selected is the database that EXEC's commands left selected.
	Selected int
	// Streamed: a part of the reply went to Sink. If it then failed, the rest
	// will never come.
	Streamed bool
	// Blocked: there is no reply; the waiter that OnBlock made will have it.
	Blocked bool
}

// Mode is where and on what a call is run. From Snapshot on it sees one state of all keys
// without latches of its own.
type Mode uint8

const (
	// Loop: on an event loop. It never waits, for latches or for a disk.
	Loop Mode = iota
	// Worker: on a goroutine of its own, where it may wait and take long.
	Worker
	// Snapshot: on a worker, which reads a snapshot and holds no latch.
	Snapshot
	// Exclusive: on a worker, which holds the latch of the whole keyspace.
	Exclusive
)

// mode is how a worker is to run the call: by what its command needs, and by its detour.
func (c *Call) mode() Mode {
	flags, d := c.flags(), c.Detour
	switch {
	case flags&command.Alone != 0:
		return Exclusive
	case c.Cmd.Flags&command.OneState != 0:
		return Snapshot
	case (d == keyspace.TakesLong || d == keyspace.NeedsOneState || d == keyspace.NeedsLatch) && !c.writes():
		return Snapshot
	case d == keyspace.NeedsOneState:
		return Exclusive
	}
	return Worker
}

// apart are the flags of commands that are never run together with others.
const apart = command.Blocking | command.Alone | command.OneState | command.Slow

// flags are those of the command, and of the commands in its queue that say how it
// must be run.
func (c *Call) flags() command.Flags {
	f := c.Cmd.Flags
	for i := range c.Queue {
		f |= c.Queue[i].Cmd.Flags & (command.Write | command.MayReplicate | command.Slow | command.Alone)
		if cmd := c.Queue[i].Cmd; cmd.Flags&command.OneState != 0 || cmd.Run == nil && cmd.Flags&command.Repeatable == 0 {
			f |= command.Alone
		}
	}
	return f
}

// weight is about how much work it is to look at the call's arguments.
func (c *Call) weight() int {
	n := len(c.Args)
	for i := range c.Queue {
		n += len(c.Queue[i].Args)
	}
	return n
}

// writes says whether the call may change keys.
func (c *Call) writes() bool {
	if c.Queue != nil { // who watches keys must hold their latches
		return c.Watch != nil || c.flags()&(command.Write|command.MayReplicate) != 0
	}
	return writes(c.Cmd, c.Args)
}

// writes says whether a command with these arguments may change keys.
func writes(cmd *command.Command, args [][]byte) bool {
	return cmd.Flags&(command.Write|command.MayReplicate) != 0 && (cmd.ReadsOnly == nil || !cmd.ReadsOnly(args))
}

// fail answers the call with an error.
func (c *Call) fail(err error) {
	c.Failed = true
	c.Reply.Error(command.Text(err))
}

// ready is the ticket that must be durable before the reply is sent.
func (c *Call) ready(own engine.Ticket) engine.Ticket {
	if c.Own {
		return max(c.Wait, own)
	}
	return c.Wait
}
