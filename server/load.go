package server

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"redoubt/engine"
	"redoubt/executor"
	"redoubt/keyspace"
)

// Loading: a store that takes its time to open is opened while the server
// already serves. Until then clients get -LOADING, but for the commands that
// Redis allows then, and INFO tells how far it is.
//
// Server.eng and Server.exec are set once, before ready. A goroutine may use
// them when it has seen ready, or holds a batch: event loops and pipes get theirs
// when the store is there, and a turn without a batch is how a session knows
// that it is not. So a command pays nothing for the question.

// OpenFunc opens a store. It calls progress now and then with how many bytes
// of how many it has read, and should give up when ctx ends: that is when the server is
// shut down, whether the store is open by then or not.
type OpenFunc func(ctx context.Context, progress func(done, total int64)) (engine.Engine, error)

// loading is the state of the opening of the store.
type loading struct {
	active      atomic.Bool // some sessions may still answer -LOADING
	start       time.Time
	done, total atomic.Int64
	logged      atomic.Int64 // when the progress was logged, in Unix nanoseconds

	mu     sync.Mutex // held while the store is put in place
	cancel context.CancelFunc
	ended  chan struct{} // closed when it is over, and then
	err    error         // how it went
}

// progressEvery is how often the progress is logged.
const progressEvery = time.Second

// Loaded is closed when the store is open and all clients are served, or when
// that has failed: see LoadError.
func (srv *Server) Loaded() <-chan struct{} { return srv.load.ended }

// LoadError says why the store could not be opened, once Loaded is closed. The
// server then serves nothing and is to be shut down.
func (srv *Server) LoadError() error { return srv.load.err }

// startLoading opens the store in the background.
func (srv *Server) startLoading(background context.Context) {
	l := &srv.load
	l.start = time.Now()
	l.logged.Store(l.start.UnixNano())
	ctx, cancel := context.WithCancel(context.Background())
	l.cancel = cancel
	srv.log.Info("opening the store")
	go func() {
		defer close(l.ended)
		l.err = srv.openStore(ctx, background)
		if l.err == nil {
			srv.log.Info("the store is open", "took", time.Since(l.start))
		}
	}()
}

func (srv *Server) openStore(ctx, background context.Context) error {
	eng, err := srv.open(ctx, srv.progress)
	if err != nil {
		return fmt.Errorf("open the store: %w", err)
	}
	if err := srv.join(ctx, eng); err != nil {
		return errors.Join(err, eng.Close())
	}
	space, err := srv.openSpace(eng)
	l := &srv.load
	l.mu.Lock()
	defer l.mu.Unlock()
	if err = errors.Join(err, ctx.Err()); err != nil { // perhaps nobody waits for it any more
		srv.depart(context.WithoutCancel(ctx))
		return errors.Join(err, eng.Close())
	}
	srv.attach(eng, space)
	if err := srv.meet(ctx); err != nil {
		return err
	}
	// What was set meanwhile, or is being set right now.
	srv.limitCommands()
	srv.applyNotify()
	srv.pause.tell()
	if srv.boundedByMemory {
		srv.limitClients() // a store on disk was reckoned with
	}
	srv.serveStore(background)
	return nil
}

// stopLoading has the opening of the store given up, and waits for that until
// ctx ends. Afterwards the store is in use, or never will be.
func (srv *Server) stopLoading(ctx context.Context) {
	l := &srv.load
	if l.cancel == nil {
		return
	}
	l.cancel()
	select {
	case <-l.ended:
	case <-ctx.Done():
		srv.log.Warn("shutting down although the store is still being opened")
	}
	l.mu.Lock()
	defer l.mu.Unlock()
}

func (srv *Server) progress(done, total int64) {
	l := &srv.load
	l.done.Store(done)
	l.total.Store(total)
	now, last := time.Now().UnixNano(), l.logged.Load()
	if now-last >= int64(progressEvery) && l.logged.CompareAndSwap(last, now) {
		percent, eta := l.estimate(time.Now())
		srv.log.Info("loading", "bytes", done, "of", total, "percent", int(percent), "eta_seconds", eta)
	}
}

// estimate says how far it is, and how many seconds are left, reckoned as in
// Redis.
func (l *loading) estimate(now time.Time) (percent float64, eta int64) {
	done, total, left := l.done.Load(), l.total.Load(), int64(1)
	if total > 0 {
		percent, left = 100*float64(done)/float64(total), total-done
	}
	elapsed := now.Unix() - l.start.Unix()
	if elapsed == 0 {
		return percent, 1 // nothing can be known yet
	}
	return percent, elapsed * left / (done + 1)
}

// infoLoading tells the progress, as Redis does while it loads.
func infoLoading(t *infoText) {
	l := &t.srv.load
	percent, eta := l.estimate(time.Now())
	t.nums("loading_start_time", l.start.Unix(), "loading_total_bytes", l.total.Load(), "loading_rdb_used_mem", 0,
		"loading_loaded_bytes", l.done.Load())
	t.line("loading_loaded_perc:%.2f", percent)
	t.num("loading_eta_seconds", eta)
}

// attach puts the store in its place.
func (srv *Server) attach(eng engine.Engine, space *keyspace.Space) {
	srv.eng = eng
	srv.remote = eng.Capabilities().Remote
	srv.boundedByMemory = !eng.Capabilities().Durable
	if m, ok := eng.(interface{ Memory() int64 }); ok {
		srv.dataBytes = m.Memory
	}
	if srv.remote && srv.ownClock {
		if shared, ok := eng.(engine.Shared); ok {
			now := shared.Now // which all front ends have in common
			srv.storeClock.Store(&now)
		}
	}
	srv.exec = executor.New(executor.Options{
		Work:   &srv.budget.Work,
		Engine: eng, Space: space, Clock: srv.clock, Seed: srv.seed, Logger: srv.log,
		Receivers: srv.receivers, RetryFor: time.Duration(srv.cfg.Int("tikv-timeout")) * time.Millisecond,
	})
	srv.exec.Listen(srv.heard)
	srv.tracking.attach(space)
	if !srv.boundedByMemory {
		srv.save.found(srv.cfg.Str("dir"))
	}
	srv.ready.Store(true)
}

// serveStore lets commands be run on the store, and begins its background work.
func (srv *Server) serveStore(ctx context.Context) {
	srv.eng.OnDurable(func() {
		srv.notifyLoops()
		srv.pipes.Range(func(v, _ any) bool {
			if p := v.(*pipe); p.holding.Load() {
				p.notify()
			}
			return true
		})
	})
	srv.beSolo()
	srv.equipLoops()
	srv.eachPipe((*pipe).equip)
	srv.load.active.Store(false)
	srv.background.Go(func() { srv.exec.Background(ctx) })
}

// inMemory says that the engine keeps nothing on disk.
func (srv *Server) inMemory() bool { return srv.ready.Load() && srv.boundedByMemory }

// durable is up to where commits are durable.
func (srv *Server) durable() engine.Ticket {
	if !srv.ready.Load() {
		return 0
	}
	return srv.eng.Durable()
}

// storeFigures are the figures of the store and of what was run on it. All are
// zero while it is being opened.
type storeFigures struct {
	engine.Stats
	err                                     error
	committed, durable                      engine.Ticket
	sweep                                   executor.SweepStats
	hits, misses, expired, changes, dropped int64
	coldCommands, warmUps, slowed, joined   int64
}

func (srv *Server) figures() (f storeFigures) {
	if !srv.ready.Load() {
		return f
	}
	x := &srv.exec.Stats
	f.Stats, f.err, f.sweep = srv.eng.Stats(), srv.eng.Err(), srv.exec.SweepStats()
	if f.err == nil {
		f.err = srv.eng.Full()
	}
	f.durable = srv.eng.Durable() // first, so that it is not above the other
	f.committed = srv.eng.Committed()
	f.hits, f.misses, f.expired, f.changes = x.Hits.Load(), x.Misses.Load(), x.Expired.Load(), x.Changes.Load()
	f.dropped = x.Dropped.Load()
	f.coldCommands, f.warmUps, f.slowed, f.joined = x.Cold.Load(), x.Warmed.Load(), x.Slowed.Load(), x.Joined.Load()
	return f
}

// lag is how many commits are not durable yet.
func (f *storeFigures) lag() int64 { return int64(f.committed - f.durable) }
