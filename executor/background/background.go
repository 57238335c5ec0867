// Package background expires keys and fields, and deletes the rows of flushed databases and
// of deleted values. It also corrects the counts of keys.
//
// All of it runs as ordinary transactions, in steps so small that a client hardly waits for
// their latches. The executor does not import this package: a Worker uses it through the
// interface Executor.
//
// On a store that several processes share one process, the leader, does the work: see
// leader.go.
package background

import (
	"context"
	"errors"
	"log/slog"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"redoubt/command"
	"redoubt/engine"
	"redoubt/keyspace"
)

// Executor runs the transactions of a Worker.
type Executor interface {
	// DoLatching runs f as one transaction of background priority and commits it. latch takes
	// the latch of a key, or reports false if the latch is taken; it does not wait.
	DoLatching(f func(tx *keyspace.Tx, latch func(key []byte) bool)) (engine.Ticket, error)
	// Exclusively runs f while no transaction is under way.
	Exclusively(f func())
	// OnDeferred sets a function that is called after each commit that stored rows for
	// background work, or whose outcome is unknown; with latches held: it must not wait.
	OnDeferred(func(fx *keyspace.Effects, unknown bool))
}

// Options make a Worker.
type Options struct {
	Executor Executor
	Engine   engine.Engine
	Space    *keyspace.Space
	Clock    func() time.Time
	Logger   *slog.Logger

	// The fields below are for a store that several processes share.

	// Leads reports whether this process is the leader. If nil, it is.
	Leads func() bool
	// News returns a number that changes after other processes may have stored rows for
	// background work. If nil, they may do so at any time.
	News func() uint64
	// RecountDue reports whether the counts of keys may be wrong, because a process was
	// killed before it had stored its own, say. The leader then counts all databases, once
	// an hour at most.
	RecountDue func() bool
}

const (
	fieldStep  = 512 // fields of hashes expired per commit
	clearStep  = 256 // rows cleared per commit
	sweepEvery = 100 * time.Millisecond
	sweepAtLow = 20 * time.Millisecond // the shortest pause; expired keys are invisible anyway
	retryEvery = time.Second           // the first retry delay
	retryMost  = 8 * time.Second       // the longest one
)

// Worker does the background work of one executor.
type Worker struct {
	Options
	store storeWorker

	off  atomic.Bool   // see SetActive
	hold atomic.Bool   // see Hold
	led  atomic.Bool   // see Follow
	idle atomic.Bool   // see Rest
	soon chan struct{} // a sweep is wanted now
	// turn is held by a step of the sweep or of the clearing: both remove keys of flushed
	// databases, and the clearing takes no latches.
	turn sync.Mutex

	cycles, sweepNanos, behind, cleared, conflicts atomic.Int64
	clearing                                       atomic.Bool
	expiryRetry, clearRetry, countRetry            retry
}

// storeWorker is the part of a Worker that depends on whether other processes use the store.
type storeWorker interface {
	// leads reports whether this process does the background work.
	leads() bool
	// sweepDue reports whether this process may have something to expire. It is called
	// periodically, whether or not the sweep rests.
	sweepDue() bool
	// beginSweep prepares a sweep. ok is false if this process must not sweep; else end must
	// be called when the sweep is over.
	beginSweep() (end func(), ok bool)
	// sweep removes expired keys of all groups of slots. left: there may be more.
	sweep(ctx context.Context) (left bool, err error)
	// clear removes flushed databases and the rows of deleted values.
	clear(ctx context.Context) error
	// clearWhen returns when to clear: when wake has a token, and after each period unless
	// that is zero.
	clearWhen() (wake <-chan struct{}, every time.Duration)
	// deferred is the function for Executor.OnDeferred.
	deferred(fx *keyspace.Effects, unknown bool)
	// catalogHolds reads the numbers of the databases anew and calls f by
	// Executor.Exclusively. It reports false if the numbers were about to change then.
	catalogHolds(f func()) (bool, error)
}

// New makes a Worker; Run starts it.
func New(o Options) *Worker {
	w := &Worker{Options: o, soon: make(chan struct{}, 1)}
	if o.Engine.Capabilities().Shared {
		w.store = newLeader(w)
	} else {
		w.store = newLocal(w)
	}
	o.Executor.OnDeferred(w.store.deferred)
	return w
}

// Stats are the statistics of the background work since the start.
type Stats struct {
	// Cycles counts sweeps, Nanos is the time that they took, Behind counts sweeps that took
	// longer than sweepEvery.
	Cycles, Nanos, Behind int64
	// Cleared counts rows that were cleared, Conflicts steps that had no effect because
	// another process changed the same rows.
	Cleared, Conflicts int64
	Clearing           bool
}

// Stats returns the statistics of the work.
func (w *Worker) Stats() Stats {
	return Stats{w.cycles.Load(), w.sweepNanos.Load(), w.behind.Load(), w.cleared.Load(), w.conflicts.Load(), w.clearing.Load()}
}

// Hold stops the sweep while writes are paused. When the pause ends, keys that have expired
// meanwhile are removed at once.
func (w *Worker) Hold(on bool) {
	if was := w.hold.Swap(on); was && !on {
		select {
		case w.soon <- struct{}{}:
		default:
		}
	}
}

// Follow stops the sweep while the store is a replica: a master decides when keys die.
func (w *Worker) Follow(on bool) { w.led.Store(on) }

// Rest stops all work while another process does it, and begins anew with all of it.
func (w *Worker) Rest(on bool) {
	if was := w.idle.Swap(on); was && !on {
		w.store.deferred(&keyspace.Effects{Garbage: 1}, false) // what the other one has left
	}
}

// SetActive turns the sweep of expired keys off and on.
func (w *Worker) SetActive(on bool) { w.off.Store(!on) }

// rests reports whether this process must not expire keys at present.
func (w *Worker) rests() bool {
	return w.off.Load() || w.hold.Load() || w.led.Load() || w.idle.Load() || !w.store.leads()
}

// Run does the work until ctx ends.
func (w *Worker) Run(ctx context.Context) {
	var others sync.WaitGroup
	defer others.Wait()
	others.Go(func() { w.clearLoop(ctx) })
	if w.RecountDue != nil {
		others.Go(func() { w.recountLoop(ctx) })
	}
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		case <-w.soon:
		}
		pause := sweepEvery
		if due := w.store.sweepDue(); !w.rests() {
			var wait time.Duration
			if due {
				wait, _ = w.sweepOnce(ctx)
			}
			// Come back when the next key is due, if that is sooner.
			if wait > 0 {
				pause = wait
			} else if next := w.Space.NextDue() - w.Clock().UnixMilli(); next < pause.Milliseconds() {
				pause = max(sweepAtLow, time.Duration(next)*time.Millisecond)
			}
		}
		timer.Reset(pause)
	}
}

// Sweep removes every expired key. An error is logged; keys that are still due are left for
// the next sweep.
func (w *Worker) Sweep(ctx context.Context) error {
	_, err := w.sweepOnce(ctx)
	return err
}

// sweepOnce is Sweep. wait is the retry delay if it failed.
func (w *Worker) sweepOnce(ctx context.Context) (wait time.Duration, err error) {
	if w.hold.Load() || w.led.Load() || w.idle.Load() {
		return 0, nil
	}
	end, ok := w.store.beginSweep()
	if !ok {
		return 0, nil
	}
	defer end()
	start := time.Now()
	w.cycles.Add(1)
	for more := true; more && err == nil && ctx.Err() == nil; {
		more, err = w.store.sweep(ctx)
	}
	wait = w.outcome(&w.expiryRetry, "expiring keys failed", err)
	took := time.Since(start)
	w.sweepNanos.Add(took.Nanoseconds())
	if took > sweepEvery {
		w.behind.Add(1)
	}
	return wait, err
}

// expire removes expired keys, and expired fields of hashes, in one commit. Keys whose latch
// is taken are left for the next sweep, and counted in busy: to wait for a latch would
// keep the others latched. more: fields are left, beyond fieldStep.
func (w *Worker) expire(list []keyspace.Due) (busy int, more bool, err error) {
	if len(list) == 0 {
		return 0, false, nil
	}
	w.turn.Lock()
	defer w.turn.Unlock()
	_, err = w.Executor.DoLatching(func(tx *keyspace.Tx, latch func([]byte) bool) {
		if w.Engine.Capabilities().Remote {
			fetchDue(tx, list)
		}
		for fields := fieldStep; len(list) > 0 && !more; list = list[1:] {
			d := list[0]
			if !latch(d.Key) {
				busy++
			} else if tx.Expire(d) {
				fields -= command.ExpireParts(tx, d.Key, fields)
				more = fields <= 0
			}
		}
	})
	return busy, more, err
}

// fetchDue fetches the meta rows of expired keys at once.
func fetchDue(tx *keyspace.Tx, list []keyspace.Due) {
	var rows engine.Wanted
	for _, d := range list {
		rows.Add(d.Row(nil))
	}
	if rows.Len() > 1 {
		rows.Fetch(tx.Rows.View)
	}
}

// clearLoop clears at the start, and whenever its store says so.
func (w *Worker) clearLoop(ctx context.Context) {
	wake, every := w.store.clearWhen()
	again := time.NewTimer(every)
	defer again.Stop()
	if every == 0 {
		again.Stop()
	}
	for {
		select {
		case <-ctx.Done():
			return
		case <-wake:
		case <-again.C:
		}
		pause := every
		err := w.Clear(ctx)
		if wait := w.outcome(&w.clearRetry, "clearing deleted data failed", err); wait > 0 {
			pause = wait
		}
		if pause > 0 {
			again.Reset(pause)
		}
	}
}

// Clear deletes the rows of flushed databases and of deleted values, in the groups of slots
// whose turn it is.
func (w *Worker) Clear(ctx context.Context) error {
	defer w.clearing.Store(false)
	return w.store.clear(ctx)
}

// clearStepwise runs step, which clears some rows and reports whether there are more, in
// one transaction per step, as long as ok reports true.
func (w *Worker) clearStepwise(c *keyspace.Clearing, ok func() bool, step func(tx *keyspace.Tx) (more bool)) error {
	for more, before := true, int64(0); more && ok(); before = c.Cleared {
		w.clearing.Store(true)
		w.turn.Lock()
		_, err := w.Executor.DoLatching(func(tx *keyspace.Tx, _ func([]byte) bool) { more = step(tx) })
		w.turn.Unlock()
		if err != nil {
			return err
		}
		w.cleared.Add(c.Cleared - before)
		runtime.Gosched()
	}
	return nil
}

// retry is how often some work has failed in a row.
type retry struct{ failures atomic.Int64 }

// outcome logs the outcome of some work, and returns the retry delay, 0 if the work
// succeeded.
func (w *Worker) outcome(r *retry, what string, err error) (wait time.Duration) {
	switch {
	case err == nil:
		if r.failures.Swap(0) > 0 {
			w.Logger.Info("background work goes on: the store answers again")
		}
		return 0
	case errors.Is(err, engine.ErrConflict):
		w.conflicts.Add(1) // another process was faster
		return sweepEvery
	case errors.Is(err, engine.ErrReadOnly):
		level := slog.LevelDebug // the engine logs the reason, repeatedly
		if r.failures.Add(1) == 1 {
			level = slog.LevelError
		}
		w.Logger.Log(context.Background(), level, what, "err", err)
		return retryEvery
	case engine.Transient(err), errors.Is(err, engine.ErrUnknownOutcome):
		n := r.failures.Add(1)
		if n == 1 { // logged once; the retry delay grows
			w.Logger.Warn(what, "err", err)
		}
		return min(retryMost, retryEvery<<min(n-1, 10))
	}
	w.Logger.Error(what, "err", err)
	return retryEvery
}
