package executor

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

// Background work runs as ordinary executions on a worker's batch, in steps
// small enough that a client who waits for one of their latches does not notice.

const (
	sweepStep  = 64  // keys expired per commit
	fieldStep  = 512 // fields of hashes expired per commit
	clearStep  = 256 // rows cleared per commit
	sweepEvery = 100 * time.Millisecond
	sweepAtLow = 20 * time.Millisecond // gathers keys; nobody sees an expired one meanwhile
	retryEvery = time.Second           // when the store refuses
	retryMost  = 8 * time.Second       // when it does not answer, in the end
)

type sweeper struct {
	off  atomic.Bool // DEBUG SET-ACTIVE-EXPIRE 0
	hold atomic.Bool // writes are paused
	// turn: the sweep and the clearing take turns, since both remove keys of
	// flushed databases, and the clearing takes no latches.
	turn   sync.Mutex
	clear  chan struct{}
	soon   chan struct{} // a sweep is wanted now
	Cycles atomic.Int64
	// SweepNanos is the time spent on expiry, Behind the number of sweeps that
	// took longer than the time between two, Cleared the rows that were cleared.
	SweepNanos, Behind, Cleared atomic.Int64
	// Conflicts counts steps that came to nothing since another process changed the
	// same rows.
	Conflicts atomic.Int64
	Clearing  atomic.Bool

	expiryOut, clearOut outage
	leading             leading
}

// outage is a time in which the store does not answer.
type outage struct{ failures atomic.Int64 }

// met takes the outcome of background work, and says how long to wait before it
// is tried again: no time if it went well.
func (x *Executor) met(o *outage, what string, err error) (wait time.Duration) {
	switch {
	case err == nil:
		if o.failures.Swap(0) > 0 {
			x.log.Info("background work goes on: the store answers again")
		}
		return 0
	case x.shared != nil && errors.Is(err, engine.ErrConflict):
		x.sweep.Conflicts.Add(1) // another process was faster
		return sweepEvery
	case errors.Is(err, engine.ErrReadOnly):
		level := slog.LevelDebug // the engine tells why, and goes on telling
		if o.failures.Add(1) == 1 {
			level = slog.LevelError
		}
		x.log.Log(context.Background(), level, what, "err", err)
		return retryEvery
	case errors.Is(err, engine.ErrUnavailable), errors.Is(err, engine.ErrUnknownOutcome):
		n := o.failures.Add(1)
		if n == 1 { // it is logged once, and tried again ever more rarely
			x.log.Warn(what, "err", err)
		}
		return min(retryMost, retryEvery<<min(n-1, 10))
	}
	x.log.Error(what, "err", err)
	return retryEvery
}

func (s *sweeper) init() {
	s.soon = make(chan struct{}, 1)
	s.clear = make(chan struct{}, 1)
	s.clear <- struct{}{}
}

func (s *sweeper) wakeClearing() {
	select {
	case s.clear <- struct{}{}:
	default:
	}
}

// SweepStats are the figures of the background work.
type SweepStats struct {
	Cycles, Nanos, Behind, Cleared, Conflicts int64
	Clearing                                  bool
}

// SweepStats returns the figures of the background work.
func (x *Executor) SweepStats() SweepStats {
	s := &x.sweep
	return SweepStats{s.Cycles.Load(), s.SweepNanos.Load(), s.Behind.Load(), s.Cleared.Load(), s.Conflicts.Load(), s.Clearing.Load()}
}

// HoldExpire stops the sweep while writes are paused. What has become due meanwhile
// is removed right after.
func (x *Executor) HoldExpire(on bool) {
	if was := x.sweep.hold.Swap(on); was && !on {
		select {
		case x.sweep.soon <- struct{}{}:
		default:
		}
	}
}

// rests says that nothing is to be expired for the time being, or not here.
func (x *Executor) rests() bool { return x.sweep.off.Load() || x.sweep.hold.Load() || !x.leads() }

// SetActiveExpire turns the sweep of expired keys off and on.
func (x *Executor) SetActiveExpire(on bool) { x.sweep.off.Store(!on) }

// Background expires keys and clears what was deleted until ctx ends. On a store
// that other processes use as well it also follows the catalog, and counts keys.
func (x *Executor) Background(ctx context.Context) {
	var others sync.WaitGroup
	defer others.Wait()
	others.Go(func() { x.clearLoop(ctx) })
	if x.shared != nil {
		others.Go(func() { x.follow(ctx) })
		others.Go(func() { x.recountLoop(ctx) })
	}
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		case <-x.sweep.soon:
		}
		pause := sweepEvery
		if x.shared != nil && !x.leads() {
			x.sweep.leading.yield()
		} else if !x.rests() {
			var wait time.Duration
			if x.shared != nil || x.space.NextDue() <= x.clock().UnixMilli() {
				wait, _ = x.sweepOnce(ctx)
			}
			// Come back when the next key is due, if that is sooner.
			if wait > 0 {
				pause = wait
			} else if next := x.space.NextDue() - x.clock().UnixMilli(); next < pause.Milliseconds() {
				pause = max(sweepAtLow, time.Duration(next)*time.Millisecond)
			}
		}
		timer.Reset(pause)
	}
}

// Sweep removes every key whose time has come. An error is logged; what is still
// due comes again the next time.
func (x *Executor) Sweep(ctx context.Context) error {
	_, err := x.sweepOnce(ctx)
	return err
}

// sweepOnce is Sweep. It says how long to wait before the next one if it failed.
func (x *Executor) sweepOnce(ctx context.Context) (wait time.Duration, err error) {
	if x.sweep.hold.Load() {
		return 0, nil
	}
	pass := x.sweepAll
	if x.shared != nil {
		if !x.beginSweep() {
			return 0, nil
		}
		defer x.sweep.leading.sweeping.Unlock()
		pass = x.sweepShared
	}
	start := time.Now()
	x.sweep.Cycles.Add(1)
	for more := true; more && err == nil && ctx.Err() == nil; {
		more, err = pass(ctx)
	}
	wait = x.met(&x.sweep.expiryOut, "expiring keys failed", err)
	took := time.Since(start)
	x.sweep.SweepNanos.Add(took.Nanoseconds())
	if took > sweepEvery {
		x.sweep.Behind.Add(1)
	}
	return wait, err
}

// sweepAll gathers keys over the groups and removes them in steps. It says true
// when there are fields of large hashes left that are past their time.
func (x *Executor) sweepAll(ctx context.Context) (left bool, err error) {
	var list []keyspace.Due
	for group := 0; group < keyspace.Groups; {
		due, err := x.dueIn(group, sweepStep-len(list))
		if err != nil {
			return false, err
		}
		if list = append(list, due...); len(list) < sweepStep {
			group++ // it has no more
			continue
		}
		busy, more, err := x.expire(list)
		if err != nil {
			return false, err
		}
		if busy > 0 {
			group++ // else those keys would be listed again at once
		}
		left = left || more
		list = list[:0]
		if ctx.Err() != nil || x.rests() {
			return false, nil
		}
		runtime.Gosched()
	}
	_, more, err := x.expire(list)
	return left || more, err
}

func (x *Executor) dueIn(group, limit int) ([]keyspace.Due, error) {
	view, err := x.eng.Begin(true)
	if err != nil {
		return nil, err
	}
	defer view.Close()
	return x.space.Due(view, group, x.clock().UnixMilli(), limit)
}

// expire removes keys whose time has come, and fields of hashes, as one commit.
// Keys whose latch is taken are left for the next sweep, and counted: waiting for
// one would keep the others latched. It says more when it came to the end of a
// step with fields left.
func (x *Executor) expire(list []keyspace.Due) (busy int, more bool, err error) {
	if len(list) == 0 {
		return 0, false, nil
	}
	x.sweep.turn.Lock()
	defer x.sweep.turn.Unlock()
	_, err = x.do(func(b *Batch) {
		if x.remote {
			b.fetchDue(list)
		}
		for fields := fieldStep; len(list) > 0 && !more; list = list[1:] {
			d := list[0]
			if b.keys = append(b.keys[:0], x.latches.of(d.Key)); !b.tryLatch(b.keys) {
				busy++
			} else if b.tx.Expire(d) {
				fields -= command.ExpireFields(&b.tx, d.Key, fields)
				more = fields <= 0
			}
		}
	})
	return busy, more, err
}

// Do runs f as one write execution of the server's own, with the latches of
// the given stripes, and commits it.
func (x *Executor) Do(stripes []uint32, f func(*keyspace.Tx)) (engine.Ticket, error) {
	return x.do(func(b *Batch) {
		b.latch(stripes)
		f(&b.tx)
	})
}

func (x *Executor) do(f func(*Batch)) (engine.Ticket, error) {
	b := x.idle.Get().(*Batch)
	defer x.idle.Put(b)
	if _, err := b.begin(); err != nil {
		return 0, err
	}
	if x.shared != nil {
		b.shared.view.Behind()
	}
	mark, checks := b.tx.Start(), b.rows.CheckMark()
	b.tx.DB, b.tx.Writable, b.tx.Latched, b.tx.Unrefused = 0, true, true, true
	f(b)
	b.tx.Unrefused = false
	failed := b.tx.Err()
	if x.shared != nil {
		b.guarded(mark, checks, failed)
		b.shared.outdated = b.shared.outdated || b.detour(failed) == keyspace.Stale
	}
	if failed != nil {
		b.tx.Rollback(mark)
	} else if len(b.fx.Ready) > 0 {
		b.wake()
	}
	t := b.Commit()
	return t, errors.Join(failed, b.err)
}

// clearLoop clears flushed databases and deleted values: once at the start and
// whenever there is something new, or, where others make garbage too, all the time.
func (x *Executor) clearLoop(ctx context.Context) {
	again := time.NewTimer(clearEvery)
	defer again.Stop()
	if x.shared == nil {
		again.Stop()
	}
	for {
		wake := x.sweep.clear
		if x.shared != nil {
			wake = nil // it looks soon enough, and each deleted value would wake it
		}
		select {
		case <-ctx.Done():
			return
		case <-wake:
		case <-again.C:
		}
		clear, pause := x.clearAll, time.Duration(0)
		if x.shared != nil {
			clear, pause = x.clearShared, clearEvery
		}
		x.sweep.Clearing.Store(x.shared == nil)
		err := clear(ctx)
		x.sweep.Clearing.Store(false)
		if wait := x.met(&x.sweep.clearOut, "clearing deleted data failed", err); wait > 0 {
			pause = wait
		}
		if pause > 0 {
			again.Reset(pause)
		}
	}
}

func (x *Executor) clearAll(ctx context.Context) error {
	var c keyspace.Clearing
	var before int64
	for more := true; more && ctx.Err() == nil; {
		x.sweep.turn.Lock()
		_, err := x.Do(nil, func(tx *keyspace.Tx) { more = tx.Clear(&c, clearStep) })
		x.sweep.turn.Unlock()
		if err != nil {
			return err
		}
		x.sweep.Cleared.Add(c.Cleared - before)
		before = c.Cleared
		runtime.Gosched()
	}
	return nil
}

var _ command.Usage = (*Batch)(nil)
