package executor

import (
	"time"

	"redoubt/command"
	"redoubt/engine"
	"redoubt/keyspace"
	"redoubt/wire"
)

// Commands that run others: EXEC and scripts.
//
// They are calls like all others. What they run goes through do, inside the
// execution under way: it sees what came before it, is undone alone when it
// fails, and is committed, or rolled back and run again in another way, together
// with the rest. The keys of EXEC's commands are latched before the first one is
// run. A script latches the keys that it declares; for another key it tries the
// latch, and if somebody has it the script is rolled back and run again with the
// whole keyspace latched. No latch is given back before the commit, so what such
// a call read stays true until then.

// maxNested: EXEC runs EVAL, which runs a command.
const maxNested = 3

// latchQueue notes the stripes of all keys of a transaction.
func (b *Batch) latchQueue(c *Call) {
	for i := range c.Queue {
		q := &c.Queue[i]
		n := len(b.keys)
		b.args = q.Args
		if !q.Cmd.EachKey(q.Args, b.eachLatch) {
			b.keys = b.keys[:n]
		}
	}
	if c.Watch != nil {
		b.keys = c.Watch.stripes(b, b.keys)
	}
}

// do runs a command inside the execution under way. See command.Ctx.Do.
func (b *Batch) do(cmd *command.Command, args [][]byte, w *wire.Writer) (err error) {
	t := &b.tx
	if t.Err() != nil {
		return t.Err()
	}
	if q := b.queued(args); q != nil {
		q.Ran = true
		defer func(start time.Time) { q.Took = time.Since(start) }(time.Now())
	}
	if cmd.Run == nil {
		return b.doLocal(cmd, args, w)
	}
	return b.nest(cmd, args, w)
}

// nest is do for a command with a handler.
func (b *Batch) nest(cmd *command.Command, args [][]byte, w *wire.Writer) (err error) {
	t := &b.tx
	if cmd.Flags&command.Alone != 0 && b.mode != Exclusive {
		t.Fail(keyspace.NeedsOneState)
		return t.Err()
	}
	if cmd.Flags&command.OneState != 0 && t.Whole() {
		return t.Err()
	}
	if b.mode == Loop && (cmd.Flags&command.Slow != 0 || len(args) > heavyArgs) {
		t.Fail(keyspace.TakesLong)
		return t.Err()
	}
	keys, ok := b.reach(cmd, args)
	if !ok {
		t.Fail(keyspace.NeedsOneState)
		return t.Err()
	}
	if b.call.Reads != nil && cmd.Flags&command.ReadOnly != 0 && !(b.shared.announced && b.nested == 0 && b.call.Queue != nil) {
		// A view whose moment is fixed may be older than what was told since.
		b.call.Reads(cmd, args, b.mode == Snapshot || b.shared.read || b.x.shared != nil && t.Reads() > 0)
	}
	write, start, mark, held, taken := writes(cmd, args), len(w.Buf), t.Mark(), t.Held(), t.Taken()
	db, writable, latched, worker := t.DB, t.Writable, t.Latched, t.Worker
	t.Writable, t.Latched, t.Worker = write && (keys || b.mode == Exclusive), true, b.mode != Loop
	b.nested++
	ctx := b.context(b.nested, cmd, args, w)
	ctx.NoBlock, ctx.Sink = true, nil
	ctx.Script = b.ctxs[b.nested-1].Cmd.Group == command.Scripting
	err = cmd.Run(ctx)
	b.nested--
	t.DB, t.Writable, t.Latched, t.Worker = db, writable, latched, worker
	if t.Err() != nil {
		return t.Err()
	}
	t.Release(held)
	t.Give(taken)
	t.Worked()
	if err != nil {
		t.Undo(mark)
		w.Buf = w.Buf[:start]
	} else if b.nested == 0 && b.call.Queue != nil && !t.Take(int64(len(w.Buf)-start)) {
		return t.Err() // the replies of a transaction are held until its end
	}
	return err
}

// queued is the entry of EXEC's queue that is run, nil inside a script. EXEC runs
// them in their order, and may leave out some.
func (b *Batch) queued(args [][]byte) *command.Queued {
	if b.nested > 0 {
		return nil
	}
	for b.next < len(b.call.Queue) {
		q := &b.call.Queue[b.next]
		b.next++
		if &q.Args[0] == &args[0] {
			return q
		}
	}
	return nil
}

// doLocal runs a command of the server or the connection. What it does is not
// rolled back: unless that does no harm, everything is latched first, so that it
// will not be run again.
func (b *Batch) doLocal(cmd *command.Command, args [][]byte, w *wire.Writer) error {
	if cmd.Flags&command.Repeatable == 0 && b.tx.Whole() {
		return b.tx.Err()
	}
	start := len(w.Buf)
	db, err := b.call.Caller.Local(cmd, args, b.tx.DB, w, b.nest)
	if err != nil {
		w.Buf = w.Buf[:start]
		return err
	}
	b.tx.DB = db
	return nil
}

// reach latches the keys of a nested command, and says whether it has any. It is
// not ok when one of them cannot be had without waiting.
func (b *Batch) reach(cmd *command.Command, args [][]byte) (some, ok bool) {
	if b.mode >= Snapshot {
		return true, true
	}
	b.inner = b.inner[:0]
	if i, one := cmd.OneKeyAt(); one {
		if i < len(args) {
			if b.nested == 0 && b.call.Queue != nil {
				return true, true // EXEC has it already
			}
			b.inner = append(b.inner, b.x.latches.of(args[i]))
		}
	} else if b.args = args; !cmd.EachKey(args, b.eachInner) {
		b.inner = b.inner[:0] // the arguments do not fit, as the handler will say
	}
	if !b.tryLatch(b.inner) && b.x.shared == nil { // else it may conflict
		return true, false
	}
	for _, i := range b.inner {
		s := &b.x.latches.tab[i]
		if !b.call.NoTouch && cmd.Flags&command.Peek == 0 && s.used.Load() != b.seconds {
			s.used.Store(b.seconds)
		}
		b.reads = max(b.reads, engine.Ticket(s.last.Load()))
	}
	return len(b.inner) > 0, true
}
