package executor

import (
	"context"

	"redoubt/engine"
	"redoubt/keyspace"
	"redoubt/wire"
)

// What differs between a store of this process alone (local.go) and one that other
// processes use too (shared.go). All of it is behind these two interfaces, so that the rest
// of the package is the same for every kind of store, and another kind is another type.

// store is the part of an Executor that depends on the kind of store.
type store interface {
	// newBatch makes the part of a new batch.
	newBatch(b *Batch) batchStore
	// runOnWorker is Executor.RunOnWorker.
	runOnWorker(c *Call) engine.Ticket
	// apply is Executor.Apply.
	apply(calls []*Call) (engine.Ticket, error)
	// snapshots reports whether the engine has snapshots. If not, the mode Snapshot is a view like
	// any other: what was read is checked at the end, and no part of a reply is sent before.
	snapshots() bool
	// refreshCatalog is Executor.RefreshCatalog.
	refreshCatalog(ctx context.Context) error
	// followCatalog is Executor.FollowCatalog.
	followCatalog(ctx context.Context)
}

// batchStore is the part of a Batch that depends on the kind of store. Its methods are called
// once per batch or call, never per row.
type batchStore interface {
	// begin opens the view of a batch. The keyspace latch is held; without a view begin
	// releases it. The view is nil without an error if the batch would have to wait, and may not.
	begin(o engine.ViewOptions) (engine.View, error)
	// needsLatches reports whether a call must hold the latches of b.keys. If not, it may
	// still hold some.
	needsLatches(c *Call, write bool) bool
	// prepare sets Tx.Latched and Tx.OneState by what the latches and the view guarantee.
	prepare(c *Call, write bool)
	// secondRow is called when a call that was prepared for one row needs another one. It
	// reports whether the call can be run again in this batch.
	secondRow(c *Call) bool
	// nestedWithoutLatch reports whether a nested command may touch a key whose latch
	// another batch holds.
	nestedWithoutLatch() bool
	// readsAnnounced returns how to call Call.Reads for a nested command. already: Reads was called
	// before the execution began. late: the view may be older than this call of Reads.
	readsAnnounced() (already, late bool)
	// executed is called when the handler of a call has returned; c is nil for a transaction
	// of the server's own.
	executed(c *Call, m keyspace.TxMark, checks int, err error)
	// stale notes that what the batch has read is outdated: its commit must fail.
	stale()
	// isStale reports whether stale was called.
	isStale() bool
	// snapshotTaken is called when a snapshot was taken for the batch, and returns an error
	// if the snapshot cannot be used.
	snapshotTaken() error

	// mayCommit returns an error if the batch must be neither committed nor answered.
	mayCommit() error
	// committed is called when the rows are committed, before the listener gets the effects.
	committed()
	// conflicted takes the outcome of a commit, and reports whether the batch has had no
	// effect and retry runs it again.
	conflicted(err error) bool
	// retry calls f, which runs and commits something, until f meets no conflict. Between two
	// attempts retry truncates w to its length at the start, and waits for a retry delay.
	retry(w *wire.Writer, f func() error) error

	// version returns the version of a key's meta row and adds the row to the read set of the
	// commit; 0 on a store of this process alone.
	version(p dbKey) uint64

	// park makes a call that found nothing wait.
	park(w *Waiter)
	// claim locks the mutex of a waiter that is to be served. If ok is false the waiter cannot
	// be served now, and what is the outcome.
	claim(w *Waiter) (what serveResult, ok bool)
	// served is called when the batch has an answer for a waiter.
	served(w *Waiter)
	// woke is called when the waiters of the keys in b.fx.Ready were served.
	woke()
}

// newStore makes the store of an executor.
func newStore(x *Executor, o Options) store {
	if shared, ok := o.Engine.(engine.Shared); ok && o.Engine.Capabilities().Shared {
		return newSharedStore(x, shared, o.RetryFor)
	}
	if o.Leadership != nil {
		return replicatedStore{localStore{x}, o.Leadership}
	}
	return localStore{x}
}

// RunOnWorker runs one command on the caller's goroutine, where the command may wait for
// latches and take long, and commits it. The reply waits for the ticket.
func (x *Executor) RunOnWorker(c *Call) engine.Ticket { return x.store.runOnWorker(c) }

// FollowCatalog renews the lease of the catalog, and adopts the changes that other processes
// make, until ctx ends. It returns at once if the store is not a shared one.
func (x *Executor) FollowCatalog(ctx context.Context) { x.store.followCatalog(ctx) }

// RefreshCatalog reads the catalog, which other processes may change, waits until a change
// of it is in effect, and adopts the change.
func (x *Executor) RefreshCatalog(ctx context.Context) error { return x.store.refreshCatalog(ctx) }
