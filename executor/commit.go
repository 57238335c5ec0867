package executor

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"redoubt/command"
	"redoubt/engine"
	"redoubt/keyspace"
	"redoubt/wire"
)

// The end of a batch: its rows are committed, its effects told, its replies given or
// turned into an error.

// replies are some that one connection got in this batch, one behind the other:
// where they are in its buffer. Between them may be replies that were not given
// by the batch.
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

// Tell commits what the batch holds if somebody may hear of it, so that its client
// does before its next command is run. guard is what the caller holds.
func (b *Batch) Tell(guard sync.Locker) {
	if b.open && b.x.listener != nil && b.fx.Told(b.x.space) {
		b.guard = guard
		b.commit()
	}
}

// TellOf is Tell if the batch has changed one of the keys that a command names.
func (b *Batch) TellOf(cmd *command.Command, args [][]byte, guard sync.Locker) {
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
		b.Tell(guard)
	}
}

func (b *Batch) commit() {
	var t engine.Ticket
	var err error
	if b.x.shared != nil {
		err = b.holds()
	}
	if err == nil && !b.rows.Empty() {
		t, err = b.tx.Rows.View.Commit(&b.rows)
	}
	if err == nil && b.x.shared != nil {
		b.await()
	}
	b.tx.Settle(err == nil)
	switch {
	case b.conflicts(err):
		b.undoServed()
	case err != nil:
		if errors.Is(err, engine.ErrUnknownOutcome) {
			b.x.sweep.leading.defers(&b.fx, true)
		}
		b.spoil(fmt.Errorf("commit: %w", err))
		b.doubt(err)
	default:
		b.x.space.Publish(&b.fx)
		b.x.sweep.leading.defers(&b.fx, false)
		for _, w := range b.served {
			w.leaves()
			if w.Serving != nil {
				w.Serving()
			}
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
	if b.mode == Exclusive && t != 0 {
		b.x.wholeLast.Store(uint64(t))
	}
	b.unlatch(t)
	b.tx.Rows.View.Close()
	if b.mode != Snapshot {
		b.unlock()
	}
	b.open = false
	if len(b.served)+len(b.later) > 0 {
		b.tellServed(b.ticket)
	}
	b.rows.Reset()
	b.lease.Release()
	b.fx.Reset()
	b.told, b.tx.By = 0, 0
	clear(b.replies)
	b.replies = b.replies[:0]
	b.args, b.call = nil, nil // they may point into a large buffer
	for i := range b.ctxs {
		ctx := &b.ctxs[i]
		ctx.Args, ctx.Queue, ctx.Caller, ctx.Reply, ctx.Sink = nil, nil, nil, nil, nil
	}
	b.err = err
	b.giveWay()
}

// commitAside commits a part of a value that is being made, before the batch that
// makes it.
func (x *Executor) commitAside(rows *engine.Batch) error {
	view, err := x.eng.Begin(true)
	if err == nil {
		_, err = view.Commit(rows)
		view.Close()
	}
	if err != nil && x.mayComplain() {
		x.log.Error("writing a large value failed", "err", err)
	}
	return err
}

// spoil turns every reply of the batch into an error.
func (b *Batch) spoil(err error) {
	text := command.Text(err)
	for _, r := range slices.Backward(b.replies) { // so that offsets stay right
		if r.mu != nil && r.mu != b.guard {
			r.mu.Lock()
			r.spoil(text)
			r.mu.Unlock()
		} else {
			r.spoil(text)
		}
	}
	if len(b.replies)+len(b.served) > 0 { // else whoever has work done in the background says so
		level := slog.LevelError
		if errors.Is(err, engine.ErrUnavailable) || errors.Is(err, engine.ErrReadOnly) || !b.x.mayComplain() {
			level = slog.LevelDebug // there would be one for each command; see follow, and the engine tells
		}
		b.x.log.Log(context.Background(), level, "commit failed", "err", err)
	}
}

// mayComplain says yes once in a second.
func (x *Executor) mayComplain() bool {
	now, last := time.Now().Unix(), x.complained.Load()
	return now != last && x.complained.CompareAndSwap(last, now)
}

func (r *replies) spoil(text string) {
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

// effects tells the world what the batch did.
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
	if f.Garbage != 0 {
		b.x.sweep.wakeClearing()
	}
	if len(f.Touched) > 0 {
		b.x.watching.touched(b, f.Touched)
	}
	if b.x.listener != nil && f.Told(b.x.space) {
		b.x.listener(f, max(t, b.told))
	}
}
