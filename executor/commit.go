package executor

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"redoubt/command"
	"redoubt/engine"
	"redoubt/keyspace"
	"redoubt/wire"
)

// The end of a batch: its rows are committed, its effects passed to the listener, its replies
// released or replaced by an error.

// replies is a run of adjacent replies that one connection got from this batch: their place
// in its buffer. Between two runs may be replies that are not of the batch.
type replies struct {
	to         *wire.Writer
	mu         sync.Locker
	start, end int
	n          int
}

// note remembers that the call's reply, from an offset on, belongs to this batch.
func (b *Batch) note(c *Call, start int) {
	end := len(c.Reply.Buf)
	if n := len(b.replies); n > 0 && b.replies[n-1].to == c.Reply && b.replies[n-1].end == start {
		b.replies[n-1].end = end
		b.replies[n-1].n++
		return
	}
	b.replies = append(b.replies, replies{c.Reply, c.Guard, start, end, 1})
}

// Commit commits what the batch holds and closes it. It returns the ticket of
// the newest commit since the last call, zero if there was none. When a commit
// fails, all replies of the batch have become errors.
func (b *Batch) Commit() engine.Ticket {
	b.guard = nil
	if b.open {
		b.commit()
	}
	t := b.ticket
	b.ticket = 0
	return t
}

// CommitIfObserved commits the batch if clients may get messages about its effects, so that they
// are delivered before the next command is run. guard is the Call.Guard that the caller holds.
func (b *Batch) CommitIfObserved(guard sync.Locker) {
	if b.open && b.x.listener != nil && b.fx.Observed(b.x.space) {
		b.guard = guard
		b.commit()
	}
}

// CommitIfChanged is CommitIfObserved if the batch has changed one of the keys that a command names.
func (b *Batch) CommitIfChanged(cmd *command.Command, args [][]byte, guard sync.Locker) {
	if !b.open || len(b.fx.Touched) == 0 {
		return
	}
	changed := false
	cmd.EachKey(args, func(i int, _ *command.KeySpec) {
		changed = changed || slices.ContainsFunc(b.fx.Touched, func(t keyspace.Touch) bool {
			return t.Key == nil || bytes.Equal(t.Key, args[i])
		})
	})
	if changed {
		b.CommitIfObserved(guard)
	}
}

func (b *Batch) commit() {
	var t engine.Ticket
	err := b.store.mayCommit()
	if err == nil && !b.rows.Empty() {
		t, err = b.tx.Rows.View.Commit(&b.rows)
	}
	if err == nil {
		b.store.committed()
	}
	b.tx.Settle(err == nil)
	switch {
	case b.store.conflicted(err):
		b.undoServed()
	case err != nil:
		if errors.Is(err, engine.ErrUnknownOutcome) {
			b.callDeferred(true)
		}
		b.failReplies(fmt.Errorf("commit: %w", err))
		b.commitUnknown(err)
	default:
		for _, m := range b.marked {
			b.x.evicting.sampler.SetRowMark(m.row, m.mark)
		}
		b.x.space.Publish(&b.fx)
		b.callDeferred(false)
		for _, w := range b.served {
			w.leave()
			if w.Serving != nil {
				w.Serving()
			}
		}
		if !b.fx.Feed.Empty() {
			b.x.feed.Append(&b.fx.Feed, max(t, b.messageTicket))
		}
		b.effects(t)
	}
	if t != 0 {
		b.x.Stats.Commits.Add(1)
		b.ticket = t
		if t <= b.x.eng.Durable() {
			t = 0
		}
	}
	b.latch.Release(t)
	b.tx.Rows.View.Close()
	if b.mode != Snapshot || !b.x.store.snapshots() {
		b.unlock(t)
	}
	b.open = false
	if len(b.served)+len(b.postponed) > 0 {
		b.answerServed(b.ticket)
	}
	b.marked = b.marked[:0]
	b.rows.Reset()
	b.lease.Release()
	b.fx.Reset()
	b.messageTicket, b.tx.By = 0, 0
	clear(b.replies)
	b.replies = b.replies[:0]
	b.args, b.call = nil, nil // they may point into a large buffer
	for i := range b.ctxs {
		ctx := &b.ctxs[i]
		ctx.Args, ctx.Queue, ctx.Caller, ctx.Reply, ctx.Sink = nil, nil, nil, nil, nil
	}
	b.err = err
	b.latch.Yield()
}

// commitAside commits a part of a large value, before the batch that makes the value.
func (x *Executor) commitAside(rows *engine.Batch) error {
	view, err := x.eng.Begin(engine.ViewOptions{})
	if err == nil {
		_, err = view.Commit(rows)
		view.Close()
	}
	if err != nil && x.mayComplain() {
		x.log.Error("writing a large value failed", "err", err)
	}
	return err
}

// failReplies turns every reply of the batch into an error.
func (b *Batch) failReplies(err error) {
	text := command.Text(err)
	for _, r := range slices.Backward(b.replies) { // so that offsets stay right
		if r.mu != nil && r.mu != b.guard {
			r.mu.Lock()
			r.failReplies(text)
			r.mu.Unlock()
		} else {
			r.failReplies(text)
		}
	}
	if len(b.replies)+len(b.served) > 0 { // else the background work logs it
		level := slog.LevelError
		if engine.Transient(err) || errors.Is(err, engine.ErrReadOnly) || !b.x.mayComplain() {
			level = slog.LevelDebug // once per command is too often; followCatalog and the engine log it
		}
		b.x.log.Log(context.Background(), level, "commit failed", "err", err)
	}
}

// internalError logs a bug under a random number, and returns an error for the client that
// has this number.
func (x *Executor) internalError(what string, about ...any) error {
	id := fmt.Sprintf("%08x", rand.Uint32())
	x.log.Error(what, append([]any{"id", id}, about...)...)
	return fmt.Errorf("internal error %s, see the server's log for this number", id)
}

// mayComplain reports true at most once in a second.
func (x *Executor) mayComplain() bool {
	now, last := time.Now().Unix(), x.complained.Load()
	return now != last && x.complained.CompareAndSwap(last, now)
}

func (r *replies) failReplies(text string) {
	if len(r.to.Buf) < r.end {
		return // the connection was closed since
	}
	behind := slices.Clone(r.to.Buf[r.end:])
	r.to.Buf = r.to.Buf[:r.start]
	for range r.n {
		r.to.Error(text)
	}
	r.to.Buf = append(r.to.Buf, behind...)
}

// commitUnknown ends a batch whose commit has failed. If the outcome is unknown, clients that
// watch, cache or wait for its keys are told as after a success; messages and events are
// dropped.
func (b *Batch) commitUnknown(err error) {
	for _, w := range b.served {
		w.leave() // they have got the error
	}
	if !errors.Is(err, engine.ErrUnknownOutcome) {
		return
	}
	f := &b.fx
	f.Events, f.Messages = f.Events[:0], f.Messages[:0]
	if len(f.Touched) > 0 {
		b.x.watching.touched(b, f.Touched)
	}
	if b.x.listener != nil && f.Observed(b.x.space) {
		b.x.listener(f, 0)
	}
}

// effects counts what the batch did, and tells watching clients and the listener.
func (b *Batch) effects(t engine.Ticket) {
	f := &b.fx
	if f.Hits != 0 {
		b.x.Stats.Hits.Add(int64(f.Hits))
	}
	if f.Misses != 0 {
		b.x.Stats.Misses.Add(int64(f.Misses))
	}
	if f.Dropped != 0 {
		b.x.Stats.Dropped.Add(int64(f.Dropped))
	}
	if f.Expired != 0 {
		b.x.Stats.Expired.Add(int64(f.Expired))
	}
	if f.Changes != 0 {
		b.x.Stats.Changes.Add(int64(f.Changes))
	}
	if len(f.Touched) > 0 {
		b.x.watching.touched(b, f.Touched)
	}
	if b.x.listener != nil && f.Observed(b.x.space) {
		b.x.listener(f, max(t, b.messageTicket))
	}
}
