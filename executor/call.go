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
	// Guard, if set, is held during Run and guards Reply: a failing commit
	// rewrites the replies of all calls of the batch.
	Guard sync.Locker
	// OnBlock, if set, makes the waiter of a command that is going to wait. If nil,
	// such a command answers at once.
	OnBlock func(*command.Block) *Waiter
	// Caller is the session, for commands that run others.
	Caller command.Caller
	// Queue are the commands that EXEC runs. Watch are the keys that the client watches
	// or, for WATCH, is going to watch.
	Queue []command.Queued
	Watch *Watch
	// Watching are, for any other command, the keys that its client watches, if other
	// processes may change them.
	Watching *Watch
	// By is the number of the client. Touch.By has it for each key that the call changes.
	By int64
	// Reads, if set, is called before EXEC or a script runs a command that only reads.
	// late: the command reads a state that may be older than this call.
	Reads func(cmd *command.Command, args [][]byte, late bool)
	// Sink, if set, takes the parts of a reply that is too large for memory: see
	// command.Ctx.Spill. A part may be sent once Wait is durable.
	Sink func(*wire.Writer) error

	// Row, if set, is a row of the store that has the value Before, and with the call's
	// commit gets the value After: if it has another value the call fails with ErrMoved. The
	// call is one of a master's stream, of which the row tells how much is applied: it may
	// write to a replica, it gets what memory it needs, and no key is past its time for it.
	Row, Before, After []byte

	// Begin, if set, is called before each attempt to run the call.
	Begin func()

	// Start is set by RunTogether: the offset in Reply at which the reply begins.
	Start int

	// Wait and Own, like all fields below, are set by Run. The reply may be sent once Wait
	// is durable and, if Own, the ticket that Commit returns is durable too.
	Wait   engine.Ticket
	Own    bool
	Failed bool // the reply is an error
	Err    error
	// Detour is what Run returned; RunOnWorker chooses the mode by it.
	Detour keyspace.Detour
	// Cold: the call needs rows that are not in memory. A worker takes one of the places
	// for reading from disk (disk_reads.go).
	Cold bool
	// Selected is the database that EXEC's commands left selected.
	Selected int
	// Streamed: a part of the reply went to Sink. If Failed is set too, the reply stays
	// incomplete.
	Streamed bool
	// Blocked: there is no reply yet; the waiter that OnBlock made gets it.
	Blocked bool
}

// Mode is where and on what a call is run. In Snapshot and Exclusive the call sees one
// state of all keys and takes no latches of keys.
type Mode uint8

const (
	// Loop: on an event loop, which waits neither for a worker's latches nor for a disk.
	Loop Mode = iota
	// Worker: on a goroutine of its own, where the call may wait and take long.
	Worker
	// Snapshot: on a worker, which reads a snapshot and holds no latch.
	Snapshot
	// Exclusive: on a worker, which holds the keyspace latch exclusively.
	Exclusive
)

// mode returns the mode in which a worker runs the call, by its command and its detour.
func (c *Call) mode() Mode {
	flags, d := c.flags(), c.Detour
	switch {
	case flags&command.Exclusive != 0:
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

// flags returns the flags of the command, and those of its queued commands that decide in
// which mode the call is run.
func (c *Call) flags() command.Flags {
	f := c.Cmd.Flags
	for i := range c.Queue {
		f |= c.Queue[i].Cmd.Flags & (command.Write | command.MayReplicate | command.OnWorker | command.Exclusive)
		if cmd := c.Queue[i].Cmd; cmd.Flags&command.OneState != 0 || cmd.Run == nil && cmd.Flags&command.Repeatable == 0 {
			f |= command.Exclusive
		}
	}
	return f
}

// weight returns the number of arguments, those of queued commands included.
func (c *Call) weight() int {
	n := len(c.Args)
	for i := range c.Queue {
		n += len(c.Queue[i].Args)
	}
	return n
}

// writes reports whether the call may change keys.
func (c *Call) writes() bool {
	if c.Queue != nil { // a client that watches keys must hold their latches
		return c.Watch != nil || c.flags()&(command.Write|command.MayReplicate) != 0
	}
	return writes(c.Cmd, c.Args)
}

// writes reports whether a command with these arguments may change keys.
func writes(cmd *command.Command, args [][]byte) bool {
	return cmd.Flags&(command.Write|command.MayReplicate) != 0 && (cmd.ReadsOnly == nil || !cmd.ReadsOnly(args))
}

// fail answers the call with an error.
func (c *Call) fail(err error) {
	c.Failed, c.Err = true, err
	c.Reply.Error(command.Text(err))
}

// ready returns the ticket that must be durable before the reply is sent.
func (c *Call) ready(own engine.Ticket) engine.Ticket {
	if c.Own {
		return max(c.Wait, own)
	}
	return c.Wait
}
