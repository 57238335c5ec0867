// Package partition is an engine on a store of partitions, each of which is changed by an
// atomic conditional change, as in wide-column stores: there are no transactions over
// several partitions, no snapshots, and no common clock. Many processes use the store at the
// same time. engine/cql is such a store; the tests have one in memory.
//
// Rows lie in partitions by the first two bytes of their keys (layout.go). Each partition has
// a version that every change replaces, on the condition that it is the expected one: so a
// change can be refused, and it can be fenced, which settles the fate of a change whose
// answer was lost (settle.go).
//
//   - A view notes the version of each partition that it reads, and what it reads. If the
//     version has moved when it reads on or commits, it reads its rows again: as long as
//     those are unchanged it goes on with the new version, else it is in conflict (view.go).
//     What a view has read in several partitions is one state if Validate finds none of them
//     changed.
//   - A commit in one partition is one conditional change. Commits of one process that
//     meet at a partition go together in one change, and pass those of the same process that
//     came before without reading again (gate.go).
//   - A commit in several partitions locks all of them, each with what it writes there, then
//     commits on one, the primary, which notes the decision, then applies the rest. Who meets
//     a lock asks the primary; a transaction that does not go on is aborted there first
//     (many.go, lock.go).
//
// Rows that are read as ranges are not compared. They belong to a value whose meta row is
// read before and written with each change (keyspace/guard.go), or each of them stands alone.
// An iterator over several partitions shows each row in its old or its new state.
package partition

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"redoubt/engine"
	"redoubt/engine/semaphore"
	"redoubt/engine/sums"
)

// Options say how to open an engine.
type Options struct {
	Store  Store
	Layout Layout
	// Timeout is how long one execution may use the store, from Begin on.
	Timeout time.Duration
	// LockTTL is how long a transaction over several partitions may hold them before others
	// abort it.
	LockTTL time.Duration
	// MaxViews is how many views may read or commit at once; others wait.
	MaxViews int
	Logger   *slog.Logger

	every time.Duration // how often time and counters are exchanged; for tests
}

// background is how many views of background work may read or commit at once.
const background = 32

// Engine is an open store. It implements engine.Shared.
type Engine struct {
	opt    Options
	log    *slog.Logger
	store  Store
	layout Layout
	owner  int32 // tells this process's changes from others'
	ctx    context.Context
	cancel context.CancelFunc
	stop   chan struct{}
	wg     sync.WaitGroup // background work, and what is behind the answers of commits
	closed atomic.Bool

	gates    []gate // by index in the layout
	limit    semaphore.Semaphore
	behind   semaphore.Semaphore
	locks    sightings
	ids      ids
	clock    clock
	counters *sums.Counters
	seq      atomic.Uint64
	figures  figures
}

var _ engine.Shared = (*Engine)(nil)

// Open opens a store; the engine closes it.
func Open(o Options) (*Engine, error) {
	if o.Timeout <= 0 {
		o.Timeout = 5 * time.Second
	}
	if o.LockTTL <= 0 {
		o.LockTTL = 1500 * time.Millisecond
	}
	if o.MaxViews <= 0 {
		o.MaxViews = 1024
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.every <= 0 {
		o.every = time.Second
	}
	e := &Engine{opt: o, log: o.Logger, store: o.Store, layout: o.Layout, owner: 1 + rand.Int32N(1<<31-1), stop: make(chan struct{})}
	e.gates = make([]gate, e.layout.Parts())
	for i := range e.gates {
		e.gates[i].part = int(e.layout.starts[i])
	}
	e.limit.Resize(o.MaxViews)
	e.behind.Resize(background)
	e.ctx, e.cancel = context.WithCancel(context.Background())
	e.clock.start()
	if err := e.start(); err != nil {
		e.cancel()
		return nil, errors.Join(err, e.store.Close())
	}
	return e, nil
}

func (e *Engine) start() error {
	id, err := e.NextID()
	if err != nil {
		return err
	}
	if e.counters, err = sums.Open(e.ctx, e, id); err != nil {
		return err
	}
	if err := e.adjustClock(e.ctx); err != nil {
		return err
	}
	e.wg.Go(e.keepClock)
	e.wg.Go(func() { e.periodically(e.opt.every, "counters were not exchanged", e.counters.Exchange) })
	return nil
}

// Close stores the counters and closes the store.
func (e *Engine) Close() error {
	if e.closed.Swap(true) {
		return engine.ErrClosed
	}
	close(e.stop)
	e.wg.Wait()
	err := e.counters.Leave(e.ctx)
	if err != nil {
		err = fmt.Errorf("counters were not stored: %w", err)
	}
	e.cancel()
	return errors.Join(err, e.store.Close())
}

// SetMaxViews changes how many views may read or commit at once.
func (e *Engine) SetMaxViews(n int) { e.limit.Resize(n) }

// Begin implements engine.Engine. It sends no request.
func (e *Engine) Begin(o engine.ViewOptions) (engine.View, error) {
	if e.closed.Load() {
		return nil, engine.ErrClosed
	}
	return e.view(o), nil
}

func (e *Engine) view(o engine.ViewOptions) *view {
	return &view{e: e, o: o, deadline: time.Now().Add(e.opt.Timeout)}
}

// Snapshot implements engine.Engine. There are no snapshots: it returns a reader of what is
// there, each row as it is when it is read. Capabilities say so.
func (e *Engine) Snapshot() (engine.Snapshot, error) {
	if e.closed.Load() {
		return nil, engine.ErrClosed
	}
	return &present{e: e}, nil
}

// Counter implements engine.Engine: what this process has added, and what the others had
// stored about a second ago.
func (e *Engine) Counter(key []byte) (int64, error) { return e.counters.Sum(key), nil }

// Committed and Durable are the same: what a reader sees is durable.
func (e *Engine) Committed() engine.Ticket { return engine.Ticket(e.seq.Load()) }
func (e *Engine) Durable() engine.Ticket   { return engine.Ticket(e.seq.Load()) }

// OnDurable never calls its function: a commit is durable when Commit returns.
func (e *Engine) OnDurable(func()) {}

// Err is always nil: a store that cannot be reached may come back.
func (e *Engine) Err() error { return nil }

// Congested is always false: views wait for a place before they read or commit.
func (e *Engine) Congested() bool { return false }

// Full is always nil: a full disk is an error of a commit.
func (e *Engine) Full() error { return nil }

// Checkpoint is not supported: such stores have backup tools of their own.
func (e *Engine) Checkpoint(string) error { return errors.ErrUnsupported }

// Address returns host:port of a node of the store, if it has any.
func (e *Engine) Address() string { return e.store.Address() }

// Timeout implements engine.Shared.
func (e *Engine) Timeout() time.Duration { return e.opt.Timeout }

// Capabilities implements engine.Engine.
func (e *Engine) Capabilities() engine.Capabilities {
	return engine.Capabilities{CheapRangeDelete: true, Remote: true, Durable: true, Shared: true, NoMoments: true}
}

// figures are counted for INFO.
type figures struct {
	commits, conflicts, unknown, unavailable, changes, together, many, resolved, aborted, waits, passed atomic.Int64
}

// Stats implements engine.Engine.
func (e *Engine) Stats() engine.Stats {
	f := &e.figures
	s := engine.Stats{Commits: f.commits.Load()}
	for _, d := range []struct {
		name string
		n    *atomic.Int64
	}{
		{"store_conflicts", &f.conflicts}, {"store_unknown_outcomes", &f.unknown}, {"store_unavailable", &f.unavailable},
		{"store_changes", &f.changes}, {"store_commits_together", &f.together}, {"store_commits_of_many_partitions", &f.many},
		{"store_locks_resolved", &f.resolved}, {"store_transactions_aborted", &f.aborted}, {"store_view_waits", &f.waits}, {"store_reads_over_deleted_rows", &f.passed},
	} {
		s.Detail = append(s.Detail, engine.Stat{Name: d.name, Value: d.n.Load()})
	}
	return s
}

// periodically calls f until the engine is closed, and logs when it begins to fail.
func (e *Engine) periodically(every time.Duration, what string, f func(context.Context) error) {
	tick := time.NewTicker(every)
	defer tick.Stop()
	failing := false
	for {
		select {
		case <-e.stop:
			return
		case <-tick.C:
		}
		ctx, cancel := context.WithTimeout(e.ctx, e.opt.Timeout)
		err := f(ctx)
		cancel()
		if err != nil && !failing {
			e.log.Warn(what, "err", err)
		}
		failing = err != nil
	}
}
