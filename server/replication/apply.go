package replication

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"redoubt/command"
	"redoubt/engine"
	"redoubt/executor"
	"redoubt/keyspace"
	"redoubt/number"
	"redoubt/upstream"
	"redoubt/wire"
)

// The stream of a master is applied by the handlers that clients use, as calls of the executor
// that move the position on (executor/stream.go). All that one read has brought is given to
// the executor at once, which commits many commands together.
//
// A command that is refused here although the master has executed it means that the data
// differs, or will: the link ends before it, and the next one loads all data anew.

// RefusedError is a command of a master that cannot be applied.
type RefusedError struct {
	Command string
	Offset  int64
	Err     error
}

func (e *RefusedError) Error() string {
	return fmt.Sprintf("the command %s of the master, which ends at offset %d, is refused here: %s; all data is loaded anew", e.Command, e.Offset, command.Text(e.Err))
}

func (e *RefusedError) Unwrap() error { return e.Err }

// applier applies the stream of one link.
type applier struct {
	role  *Role
	x     *executor.Executor
	table *command.Table
	link  *upstream.Link

	at    keyspace.Position // behind the last command that was looked at
	row   []byte            // the position that the store will have then
	calls []*executor.Call
	ends  []int64 // the offset at the end of each call
	pool  []executor.Call
	reply wire.Writer
	rows  []byte // memory of the rows of calls
	bytes int    // of the arguments of calls

	mu      sync.Mutex
	pending []applied // commits that may not be durable yet, in their order
	durable int64     // the offset to acknowledge
}

// applied is a place in the stream that is applied, and durable once a ticket is.
type applied struct {
	ticket engine.Ticket
	offset int64
}

// exec runs the commands of a transaction. Unlike EXEC it fails if one of them does.
var exec = &command.Command{
	Name: "exec", FullName: "exec", Flags: command.Write,
	Run: func(c *command.Ctx) error {
		for i := range c.Queue {
			q := &c.Queue[i]
			err := c.Do(q.Cmd, q.Args, c.Reply)
			if failed := c.Tx.Err(); failed != nil {
				return failed
			}
			if err != nil {
				return command.Error(q.Cmd.FullName + ": " + command.Text(err))
			}
		}
		return nil
	},
}

// applyStream applies the stream of a link behind a position, and acknowledges it.
func (r *Role) applyStream(ctx context.Context, link *upstream.Link, at keyspace.Position) error {
	a := &applier{role: r, x: r.store.Load().Executor, table: r.Table(), link: link, at: at, row: at.AppendTo(nil), durable: at.Offset}
	stream := link.Stream(at.Offset)
	if err := a.acknowledge(); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		a.acknowledgeEvery(ctx)
	}()
	defer func() { cancel(); <-ended }()
	for {
		units, err := stream.Next()
		if err != nil {
			return err
		}
		r.noteRead(units[len(units)-1].End)
		if err := a.apply(units); err != nil {
			return err
		}
	}
}

func (r *Role) noteRead(offset int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.link.read = offset
}

// apply applies units of the stream.
func (a *applier) apply(units []upstream.Unit) error {
	if cap(a.pool) < len(units) {
		a.pool = make([]executor.Call, 0, len(units))
	}
	for i := range units {
		u := &units[i]
		var err error
		if u.Atomic {
			err = a.transaction(u)
		} else {
			err = a.command(u.Commands[0], u.End)
		}
		if err != nil || a.bytes > atOnce {
			if failed := a.flush(); failed != nil {
				return failed
			}
		}
		if err != nil {
			return err
		}
	}
	return a.flush()
}

// command adds a command to the calls, or executes one that is about the stream.
func (a *applier) command(args [][]byte, end int64) error {
	switch name := strings.ToLower(string(args[0])); {
	case name == "select":
		db, err := a.database(args)
		if err != nil {
			return a.refused("select", end, err)
		}
		a.at.DB, a.at.Offset = db, end
		return nil
	case name == "replconf" && len(args) > 1 && strings.EqualFold(string(args[1]), "getack"):
		a.at.Offset = end
		if err := a.flush(); err != nil {
			return err
		}
		return a.acknowledge()
	}
	cmd, err := a.find(args)
	if err != nil {
		return a.refused(string(args[0]), end, err)
	}
	db := a.at.DB
	a.at.Offset = end
	if cmd == nil {
		return nil
	}
	c := a.call(cmd, args)
	c.DB = db
	return nil
}

// find returns the command of a call that must be applied; nil if it changes nothing.
func (a *applier) find(args [][]byte) (*command.Command, error) {
	cmd := a.table.Find(args)
	switch {
	case cmd == nil:
		return nil, errors.New("unknown command: it may be one of a module, or of a newer version")
	case !cmd.ArityOK(len(args)):
		return nil, command.ArityError(cmd.FullName)
	case cmd.Run == nil || cmd.Flags&(command.Write|command.MayReplicate|command.FromMaster) == 0:
		return nil, nil
	}
	if cmd.Flags&command.DenyOOM != 0 {
		if err := a.x.Engine().Full(); err != nil {
			return nil, err
		}
	}
	return cmd, nil
}

// refused is a *RefusedError, unless err is one of the store.
func (a *applier) refused(name string, end int64, err error) error {
	if errors.Is(err, keyspace.ErrPosition) || errors.Is(err, engine.ErrReadOnly) || errors.Is(err, engine.ErrFull) || engine.Transient(err) ||
		errors.Is(err, engine.ErrUnknownOutcome) || errors.Is(err, engine.ErrConflict) || errors.Is(err, engine.ErrSnapshotLost) {
		return err
	}
	return &RefusedError{Command: fmt.Sprintf("%.32q", name), Offset: end, Err: err}
}

// transaction adds a transaction to the calls.
func (a *applier) transaction(u *upstream.Unit) error {
	db := a.at.DB
	var queue []command.Queued
	for _, args := range u.Commands {
		if is(args[0], "select") {
			to, err := a.database(args)
			if err != nil {
				return a.refused("select", u.End, err)
			}
			a.at.DB = to
			queue = append(queue, command.Queued{Cmd: a.table.Find(args), Args: args})
			continue
		}
		cmd, err := a.find(args)
		if err != nil {
			return a.refused(string(args[0]), u.End, err)
		}
		if cmd != nil {
			queue = append(queue, command.Queued{Cmd: cmd, Args: args})
		}
	}
	a.at.Offset = u.End
	if len(queue) == 0 {
		return nil
	}
	c := a.call(exec, [][]byte{[]byte("exec")})
	c.DB, c.Queue = db, queue
	for i := range queue {
		for _, arg := range queue[i].Args {
			a.bytes += len(arg)
		}
	}
	return nil
}

func is(b []byte, word string) bool { return len(b) == len(word) && strings.EqualFold(string(b), word) }

// database returns the database that SELECT names.
func (a *applier) database(args [][]byte) (int, error) {
	n, ok := int64(0), false
	if len(args) == 2 {
		n, ok = number.ParseInt(args[1])
	}
	if have := a.x.Space().Databases(); !ok || n < 0 || n >= int64(have) {
		return 0, fmt.Errorf("this server has %d databases: start it with as many as the master has (directive databases)", have)
	}
	return int(n), nil
}

// call adds a call that moves the position to a.at.
func (a *applier) call(cmd *command.Command, args [][]byte) *executor.Call {
	from := len(a.rows)
	a.rows = a.at.AppendTo(a.rows)
	after := a.rows[from:len(a.rows):len(a.rows)]
	a.pool = append(a.pool, executor.Call{
		Cmd: cmd, Args: args, Reply: &a.reply, NoTouch: true, Caller: master{a},
		Row: positionRow, Before: a.row, After: after,
	})
	a.row = after
	for _, arg := range args {
		a.bytes += len(arg)
	}
	c := &a.pool[len(a.pool)-1]
	a.calls, a.ends = append(a.calls, c), append(a.ends, a.at.Offset)
	return c
}

var positionRow = keyspace.PositionRow()

// flush gives the calls to the executor.
func (a *applier) flush() error {
	defer func() {
		a.row, a.bytes = append([]byte(nil), a.row...), 0
		clear(a.pool)
		clear(a.calls)
		a.pool, a.calls, a.ends, a.rows, a.reply.Buf = a.pool[:0], a.calls[:0], a.ends[:0], a.rows[:0], a.reply.Buf[:0]
		if cap(a.reply.Buf) > maxKept {
			a.reply.Buf = nil
		}
	}()
	t := engine.Ticket(0)
	if len(a.calls) > 0 {
		var err error
		if t, err = a.x.Apply(a.calls); err != nil {
			return err
		}
		for i, c := range a.calls {
			if c.Err != nil {
				return a.refused(c.Cmd.FullName, a.ends[i], c.Err)
			}
		}
	}
	a.mu.Lock()
	if n := len(a.pending); n > 0 && t == 0 {
		t = a.pending[n-1].ticket
	}
	a.pending = append(a.pending, applied{t, a.at.Offset})
	a.settle()
	a.mu.Unlock()
	r := a.role
	r.mu.Lock()
	if r.link.link == a.link {
		r.link.applied = a.at.Offset
	}
	r.mu.Unlock()
	return nil
}

const (
	maxKept = 1 << 20
	atOnce  = 1 << 20 // bytes of calls that the executor is given at once; on a shared store they are one transaction
)

// settle removes from pending what is durable. mu is held.
func (a *applier) settle() {
	n, durable := 0, a.x.Engine().Durable()
	for n < len(a.pending) && a.pending[n].ticket <= durable {
		a.durable = a.pending[n].offset
		n++
	}
	a.pending = append(a.pending[:0], a.pending[n:]...)
}

// acknowledge tells the master up to where the stream is applied and durable.
func (a *applier) acknowledge() error {
	a.mu.Lock()
	a.settle()
	offset := a.durable
	a.mu.Unlock()
	synced := int64(-1)
	if a.role.store.Load().Synced() {
		synced = offset
	}
	return a.link.Ack(offset, synced)
}

func (a *applier) acknowledgeEvery(ctx context.Context) {
	tick := time.NewTicker(ackEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			if a.acknowledge() != nil {
				return // the reader sees it
			}
		}
	}
}

// master is a master as the commands of its transactions and scripts see it: it may do
// everything.
type master struct{ a *applier }

func (master) Permit(*command.Command, [][]byte) error { return nil }
func (master) OutOfMemory() bool                       { return false }
func (master) Writable(command.Flags) error            { return nil }

// Local implements command.Caller: SELECT is the only such command of a transaction.
func (m master) Local(cmd *command.Command, args [][]byte, db int, w *wire.Writer, _ command.Within) (int, error) {
	if cmd == nil || cmd.FullName != "select" {
		return db, errors.New("not a command of a replication stream")
	}
	to, err := m.a.database(args)
	if err == nil {
		w.OK()
		db = to
	}
	return db, err
}
