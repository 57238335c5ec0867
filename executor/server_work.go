package executor

import (
	"cmp"
	"errors"

	"redoubt/engine"
	"redoubt/keyspace"
)

// Transactions of the server's own, for which no client waits: background work
// (executor/background) above all.

// Do runs f as one transaction of background priority and commits it.
func (x *Executor) Do(f func(*keyspace.Tx)) (engine.Ticket, error) {
	return x.do(func(b *Batch) { f(&b.tx) })
}

// DoLatching is Do for a transaction that changes keys. latch takes the latch of a key, or
// reports false if the latch is taken; it does not wait.
func (x *Executor) DoLatching(f func(tx *keyspace.Tx, latch func(key []byte) bool)) (engine.Ticket, error) {
	return x.do(func(b *Batch) {
		f(&b.tx, func(key []byte) bool {
			b.keys = append(b.keys[:0], x.latches.Stripe(key))
			return b.latch.Try(b.keys)
		})
	})
}

// DoExclusively is Do with the whole keyspace latched. f is called again after a conflict with
// another process.
func (x *Executor) DoExclusively(f func(*keyspace.Tx)) (t engine.Ticket, err error) {
	b := x.idle.Get().(*Batch)
	defer x.idle.Put(b)
	b.mode = Exclusive
	defer func() { b.mode = Worker }()
	again := b.store.retry(nil, func() error {
		if t, err = b.transact(func(b *Batch) { f(&b.tx) }); errors.Is(err, engine.ErrConflict) || errors.Is(err, keyspace.Stale) {
			return nil // retry sees it
		}
		return err
	})
	return t, cmp.Or(again, err)
}

func (x *Executor) do(f func(*Batch)) (engine.Ticket, error) {
	b := x.idle.Get().(*Batch)
	defer x.idle.Put(b)
	b.background = true
	defer func() { b.background = false }()
	return b.transact(f)
}

// transact runs f as one transaction of the server's own.
func (b *Batch) transact(f func(*Batch)) (engine.Ticket, error) {
	if _, err := b.begin(); err != nil {
		return 0, err
	}
	mark, checks := b.tx.Start(), b.rows.CheckMark()
	b.fx.Feed.EndUnit()
	b.tx.DB, b.tx.Writable, b.tx.Latched, b.tx.Unrefused = 0, true, true, true
	b.tx.Undying, b.tx.Quiet = false, true
	f(b)
	b.tx.Unrefused = false
	failed := b.tx.Err()
	b.store.executed(nil, mark, checks, failed)
	if b.detour(failed) == keyspace.Stale {
		b.store.stale()
	}
	if failed != nil {
		b.tx.Rollback(mark)
	} else if len(b.fx.Ready) > 0 {
		b.wake()
	}
	t := b.Commit()
	return t, errors.Join(failed, b.err)
}

// Exclusively runs f while the keyspace latch is held exclusively, so while no batch is open.
func (x *Executor) Exclusively(f func()) {
	x.latches.LockKeyspace()
	defer x.latches.UnlockKeyspace(0)
	f()
}

// OnDeferred sets f, which is called after each commit that stored rows for background work,
// or whose outcome is unknown. OnDeferred must be called before the first batch. f is called
// with latches held, and must not wait.
func (x *Executor) OnDeferred(f func(fx *keyspace.Effects, unknown bool)) { x.onDeferred = f }

// callDeferred calls onDeferred for a batch that was committed, or whose outcome is unknown.
func (b *Batch) callDeferred(unknown bool) {
	if b.x.onDeferred != nil && b.fx.Deferred() {
		b.x.onDeferred(&b.fx, unknown)
	}
}
