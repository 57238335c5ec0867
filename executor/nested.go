package executor

import (
	"time"

	"redoubt/command"
	"redoubt/keyspace"
	"redoubt/wire"
)

// Commands that run others: EXEC and scripts.
//
// EXEC and scripts are calls like all others. A nested command goes through do, inside
// the execution under way: it sees what came before it, is undone by itself when it
// fails, and is committed, or rolled back on a detour, together with the rest. The
// keys of EXEC's commands are latched before the first one is run. A script latches
// the keys that it declares; for another key it tries the latch, and if the latch is
// taken the script is rolled back and run again with the keyspace latch. No latch is
// released before the commit, so what such a call read stays true until then.

// maxNested is the largest depth: EXEC runs EVAL, which runs a command.
const maxNested = 3

// latchQueue adds the stripes of all keys of a transaction to b.keys.
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
	if cmd.Flags&command.Exclusive != 0 && b.mode != Exclusive {
		t.Fail(keyspace.NeedsOneState)
		return t.Err()
	}
	if b.x.oneSlot && !cmd.SameSlot(&b.slot, args) {
		return command.ErrScriptCrossSlot
	}
	if b.refuses(cmd, b.call) {
		return command.ErrReadOnlyReplica
	}
	if cmd.Flags&command.OneState != 0 && t.WantsOneState() {
		return t.Err()
	}
	if b.mode == Loop && (cmd.Flags&command.OnWorker != 0 || len(args) > heavyArgs) {
		t.Fail(keyspace.TakesLong)
		return t.Err()
	}
	keys, ok := b.latchNested(cmd, args)
	if !ok {
		t.Fail(keyspace.NeedsOneState)
		return t.Err()
	}
	if b.call.Reads != nil && cmd.Flags&command.ReadOnly != 0 {
		if already, late := b.store.readsAnnounced(); !already {
			b.call.Reads(cmd, args, late)
		}
	}
	write, start, mark, held, taken := writes(cmd, args), len(w.Buf), t.Mark(), t.Held(), t.Taken()
	db, writable, latched, worker := t.DB, t.Writable, t.Latched, t.Worker
	t.Writable, t.Latched, t.Worker = write && (keys || b.mode == Exclusive), true, b.mode != Loop
	changes, own := b.fx.Changes, b.fx.Feed.Own
	b.nested++
	ctx := b.context(b.nested, cmd, args, w)
	ctx.NoBlock, ctx.Sink = true, nil
	ctx.Script = b.ctxs[b.nested-1].Cmd.Group == command.Scripting
	err = cmd.Run(ctx)
	b.nested--
	if err == nil {
		b.propagate(cmd, args, changes, own)
	}
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
		return t.Err() // the replies of a transaction are buffered until its end
	}
	return err
}

// queued returns the entry of EXEC's queue that is run, nil inside a script. EXEC runs
// the entries in their order, and may skip some.
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

// doLocal runs a command of the server or the connection. Its effects cannot be rolled
// back: unless it is repeatable, the whole keyspace is latched first, so that it is not
// run twice.
func (b *Batch) doLocal(cmd *command.Command, args [][]byte, w *wire.Writer) error {
	if cmd.Flags&command.Repeatable == 0 && b.tx.WantsOneState() {
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

// latchNested latches the keys of a nested command. some reports whether it has keys; ok is
// false if a latch is taken, and the store does not allow to go without.
func (b *Batch) latchNested(cmd *command.Command, args [][]byte) (some, ok bool) {
	if b.mode >= Snapshot {
		return true, true
	}
	b.tx.Quiet = b.call.NoTouch || cmd.Flags&command.NoTouch != 0
	b.inner = b.inner[:0]
	if i, one := cmd.OneKeyAt(); one {
		if i < len(args) {
			if b.nested == 0 && b.call.Queue != nil {
				return true, true // EXEC holds the latch already
			}
			b.inner = append(b.inner, b.x.latches.Stripe(args[i]))
		}
	} else if b.args = args; !cmd.EachKey(args, b.eachInner) {
		b.inner = b.inner[:0] // wrong arguments: the handler returns the error
	}
	if !b.latch.Try(b.inner) && !b.store.nestedWithoutLatch() {
		return true, false
	}
	for _, i := range b.inner {
		if !b.call.NoTouch && cmd.Flags&command.NoTouch == 0 {
			b.x.latches.SetUsed(i, b.seconds)
		}
		b.reads = max(b.reads, b.x.latches.Last(i))
	}
	return len(b.inner) > 0, true
}
