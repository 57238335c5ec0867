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
	"redoubt/executor/background"
	"redoubt/keyspace"
	"redoubt/replica/member"
	"redoubt/server/replication"
)

// Loading: a store that is slow to open is opened while the server already serves. Until
// it is open clients get -LOADING, but for the commands that Redis allows then, and INFO
// shows the progress.
//
// Server.eng and Server.exec are set once, before ready. A goroutine may use
// them when it has seen ready, or holds a batch: event loops and pipes get their batches
// when the store is open, and a session sees by a turn without a batch that it is not. So
// a command needs no check of its own.

// OpenFunc opens a store. It calls progress now and then with the bytes read so far and in
// all, and should give up when ctx ends. ctx ends when the server is shut down, whether
// the store is open by then or not.
type OpenFunc func(ctx context.Context, progress func(done, total int64)) (engine.Engine, error)

// storage is the store that a server serves, and its properties.
type storage struct {
	eng    engine.Engine      // set before ready
	exec   *executor.Executor // set before ready
	upkeep *background.Worker
	ready  atomic.Bool
	open   OpenFunc
	load   loading
	// patience is how long connections wait for the store in the system's queue.
	patience  time.Duration
	databases int

	clock      func() time.Time                 // the time that commands see
	ownClock   bool                             // Options.Clock was nil
	storeClock atomic.Pointer[func() time.Time] // the clock of a shared store

	boundedByMemory bool // the engine keeps nothing on disk
	remote          bool // the engine is on other machines
	// dataBytes is set where maxmemory bounds the data itself: on an engine that keeps it in
	// memory only. It returns what counts against maxmemory: the data, and what clients and
	// commands hold beside it.
	dataBytes func() (data, beside int64)
}

// loading is the state of the opening of the store.
type loading struct {
	active      atomic.Bool // some sessions may still answer -LOADING
	start       time.Time
	done, total atomic.Int64
	logged      atomic.Int64 // when the progress was logged, in Unix nanoseconds

	mu     sync.Mutex // held while the store is put in place
	cancel context.CancelFunc
	ended  chan struct{} // closed when the opening has ended
	err    error         // its result, valid once ended is closed
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
	if err := srv.member.Join(ctx, eng); err != nil {
		return errors.Join(err, eng.Close())
	}
	var space *keyspace.Space
	if store, ok := eng.(*member.Store); ok {
		space = srv.raft.open(srv, store)
	} else {
		space, err = srv.openSpace(eng)
	}
	l := &srv.load
	l.mu.Lock()
	defer l.mu.Unlock()
	if err = errors.Join(err, ctx.Err()); err != nil { // the server may be shutting down
		srv.member.Leave(context.WithoutCancel(ctx))
		return errors.Join(err, eng.Close())
	}
	srv.attach(eng, space)
	if err := srv.meet(ctx); err != nil {
		return err
	}
	// Apply directives that were changed while the store was being opened.
	srv.limitCommands()
	srv.applyNotify()
	srv.pause.tell()
	if srv.boundedByMemory {
		srv.limitClients() // so far descriptors were reserved for a store on disk
	}
	if err := srv.serveStore(background); err != nil {
		return err
	}
	return srv.raft.start()
}

// stopLoading cancels the opening of the store, and waits for its end until ctx ends.
// Afterwards the store is in use, or never will be.
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

// estimate returns the progress in percent, and how many seconds are left, computed as
// in Redis.
func (l *loading) estimate(now time.Time) (percent float64, eta int64) {
	done, total, left := l.done.Load(), l.total.Load(), int64(1)
	if total > 0 {
		percent, left = 100*float64(done)/float64(total), total-done
	}
	elapsed := now.Unix() - l.start.Unix()
	if elapsed == 0 {
		return percent, 1 // too early for an estimate
	}
	return percent, elapsed * left / (done + 1)
}

// inMemory is an engine that keeps its data in memory only.
type inMemory interface {
	Memory() int64   // what the data takes
	Reserved() int64 // what the data must leave of maxmemory for the rest of the process
}

// attach makes the open store the server's: it creates the executor and sets ready.
func (srv *Server) attach(eng engine.Engine, space *keyspace.Space) {
	srv.eng = eng
	srv.remote = eng.Capabilities().Remote
	srv.boundedByMemory = !eng.Capabilities().Durable
	switch m := eng.(type) {
	case inMemory:
		srv.dataBytes = func() (int64, int64) { return m.Memory(), max(srv.budget.Used(), m.Reserved()) }
	case interface{ Memory() int64 }: // the model of tests
		srv.dataBytes = func() (int64, int64) { return m.Memory(), 0 }
	}
	if srv.remote && srv.ownClock {
		if shared, ok := eng.(engine.Shared); ok {
			now := shared.Now // the clock that all front ends share
			srv.storeClock.Store(&now)
		}
	}
	stream, replicas := srv.feed()
	srv.exec = executor.New(executor.Options{
		Work: &srv.budget.Work, Clients: &srv.budget.Clients,
		Engine: eng, Space: space, Clock: srv.clock, Seed: srv.seed, Logger: srv.log,
		Receivers: srv.receivers, Leadership: srv.raft.leadership(), Feed: stream, Replicas: replicas,
		OneSlot: !srv.cfg.Bool("cql-cross-slot") && eng.Capabilities().NoMoments,
	})
	srv.exec.Listen(srv.publishEffects)
	srv.upkeep = background.New(srv.member.Background(background.Options{
		Executor: srv.exec, Engine: eng, Space: space, Clock: srv.clock, Logger: srv.log,
	}))
	srv.upkeep.Rest(srv.raft.store != nil)
	srv.tracking.Attach(space, srv.remote)
	srv.save.Open(adminView{srv}, !srv.boundedByMemory)
	srv.ready.Store(true)
}

// serveStore lets commands be run on the store, and begins its background work.
func (srv *Server) serveStore(ctx context.Context) error {
	err := srv.role.Open(replication.Store{
		Executor: srv.exec, Leads: srv.member.Leads, Durable: srv.waitDurable,
		Synced: func() bool { return srv.remote || !srv.boundedByMemory && srv.cfg.Enum("appendfsync") == "always" },
	})
	if err != nil {
		return err
	}
	srv.eng.OnDurable(func() {
		srv.notifyLoops()
		srv.source.Stream.Release()
		srv.web.Durable()
		srv.car.pipes.Range(func(v, _ any) bool {
			if p := v.(*pipe); p.holding.Load() {
				p.notify()
			}
			return true
		})
	})
	srv.becomeSolo()
	srv.equipLoops()
	srv.eachPipe((*pipe).equip)
	srv.load.active.Store(false)
	srv.web.Attach()
	srv.life.background.Go(func() { srv.exec.FollowCatalog(ctx) })
	srv.life.background.Go(func() { srv.upkeep.Run(ctx) })
	srv.life.background.Go(func() { srv.source.Run(ctx) })
	srv.life.background.Go(func() { srv.role.Run(ctx) })
	return nil
}

// inMemory reports whether the store is open and its engine keeps nothing on disk.
func (srv *Server) inMemory() bool { return srv.ready.Load() && srv.boundedByMemory }

// durable returns the ticket up to which commits are durable.
func (srv *Server) durable() engine.Ticket {
	if !srv.ready.Load() {
		return 0
	}
	return srv.eng.Durable()
}

// waitDurable waits until a commit is durable, or the store fails.
func (srv *Server) waitDurable(t engine.Ticket) error {
	for srv.eng.Durable() < t {
		if err := srv.eng.Err(); err != nil {
			return err
		}
		time.Sleep(time.Millisecond)
	}
	if srv.raft.void(t) {
		return errVoid
	}
	return nil
}
