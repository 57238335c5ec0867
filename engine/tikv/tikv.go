// Package tikv is the engine that keeps its rows in a TiKV cluster, which many
// processes use at the same time.
//
// A view is one optimistic transaction of TiKV: its first read asks PD for a
// timestamp and reads the state of that moment; a commit writes everything at once, in
// one phase where its rows lie in one region, and finds conflicts. Rows that a batch
// checks but does not write are locked by the commit, so they conflict as well. A view
// that reads a single row needs no timestamp (engine.ViewOptions.PointRead).
//
// Rows are stored below a prefix, so that several stores share a cluster. A value is
// followed by the 8-byte timestamp at which its transaction began: TiKV cannot store
// empty values, and the number is the row's version. Keys from ff ff ff ff on, below
// the prefix, are the engine's own: counters (see counter.go). Rows whose keys are
// longer than TiKV's may be are stored in another way (see long.go).
//
// Files: tikv.go opens and closes, view.go and commit.go are the transaction, scan.go and
// iterator.go the iterators, rpc.go counts every request, errors.go maps the client's
// errors and outcome.go tells whether a commit may have happened in spite of one, clock.go is
// the store's time, gc.go advances the safe point, register.go keeps prefixes apart.
package tikv

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tikv/client-go/v2/config"
	"github.com/tikv/client-go/v2/tikv"

	"redoubt/engine"
	"redoubt/engine/semaphore"
	"redoubt/engine/sums"
)

// Options say how to open a store. PD and Prefix are required.
type Options struct {
	// Context ends the attempt to open the store.
	Context context.Context
	// PD are the addresses of placement drivers, host:port each.
	PD []string
	// Prefix comes before the keys of all rows. No other store of the cluster may have a
	// prefix that begins with this one, or is the beginning of it: see register.go.
	Prefix string
	// Unused are ranges of keys in which the store never has rows. Rows there belong to a
	// store whose prefix begins with this one.
	Unused [][2][]byte
	// Reader opens a store whose rows are only read or removed: its prefix is not
	// registered, and may begin with another store's.
	Reader bool
	// CA, Cert and Key are files; TLS is used if there is a CA.
	CA, Cert, Key string
	// Timeout is how long one execution may use the store, from Begin on.
	Timeout time.Duration
	// OpenTimeout is how long Open tries to reach the cluster.
	OpenTimeout time.Duration
	// MaxTransactions is how many views may read or commit at once; others wait.
	MaxTransactions int
	// ReplicaRead lets reads go to any replica, not to leaders alone. Such reads are not
	// stale.
	ReplicaRead bool
	// Logger gets the messages of this package and of the client.
	Logger *slog.Logger

	every time.Duration             // how often time and counters are read; for tests
	late  func(n int) time.Duration // when Open logs that it waits; for tests
}

func (o *Options) fill() error {
	if o.Context == nil {
		o.Context = context.Background()
	}
	if o.Timeout <= 0 {
		o.Timeout = 5 * time.Second
	}
	if o.OpenTimeout <= 0 {
		o.OpenTimeout = 30 * time.Second
	}
	if o.every <= 0 {
		o.every = refreshEvery
	}
	if o.late == nil {
		o.late = waitNotice
	}
	if o.MaxTransactions <= 0 {
		o.MaxTransactions = 1024
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if len(o.PD) == 0 {
		return errors.New("no address of a placement driver is given (tikv-pd)")
	}
	for _, addr := range o.PD {
		if strings.TrimSpace(addr) == "" {
			return fmt.Errorf("an address of a placement driver is empty in %q (tikv-pd)", o.PD)
		}
	}
	if err := checkPrefix(o.Prefix); err != nil {
		return err
	}
	if o.CA == "" && (o.Cert != "" || o.Key != "") {
		return errors.New("a certificate or key for TiKV is given, but no authority's certificate (tikv-ca)")
	}
	if (o.Cert == "") != (o.Key == "") {
		return errors.New("a certificate for TiKV needs its key, and a key its certificate (tikv-cert, tikv-key)")
	}
	for _, name := range []string{o.CA, o.Cert, o.Key} {
		if name == "" {
			continue
		}
		if _, err := os.Stat(name); err != nil {
			return fmt.Errorf("TLS for TiKV: %w", err)
		}
	}
	return nil
}

// maxBehind is how many background views may read or commit at once. There are fewer kinds
// of background work, so that none waits for another.
const maxBehind = 32

// maxPrefix keeps the prefix small beside the keys.
const maxPrefix = 64

// Engine is an open store in a TiKV cluster. It implements engine.Shared.
type Engine struct {
	opt    Options
	log    *slog.Logger
	store  *tikv.KVStore
	space  space
	ctx    context.Context // ends when the engine is closed
	cancel context.CancelFunc
	drop   context.CancelFunc // ends the client's own background work
	stop   chan struct{}      // closed when the engine's background work is to end
	wg     sync.WaitGroup     // of background work
	closed atomic.Bool
	onePC  bool // one-phase and asynchronous commits; false for the client's mock, which has none

	viewLimit  semaphore.Semaphore // for views that clients wait for
	background semaphore.Semaphore // for background views
	replicas   atomic.Bool         // reads go to any replica
	seq        atomic.Uint64       // tickets
	clock      clock
	reading    readers
	counters   *sums.Counters
	rpcs       rpcs
	figures    figures
}

var _ engine.Shared = (*Engine)(nil)

// Address is the address of a placement driver: it tells which network the cluster is on.
func (e *Engine) Address() string { return e.opt.PD[0] }

// Open opens the store.
func Open(o Options) (*Engine, error) {
	if err := o.fill(); err != nil {
		return nil, err
	}
	setGlobals(o.Logger)
	sec := config.NewSecurity(o.CA, o.Cert, o.Key, nil)
	tls, err := sec.ToTLSConfig()
	if err != nil {
		return nil, fmt.Errorf("TLS for TiKV: %w", err)
	}
	begun := time.Now()
	ctx, cancel := context.WithCancel(context.Background())
	giveUp := context.AfterFunc(o.Context, cancel)
	timer := time.AfterFunc(o.OpenTimeout, cancel)
	waiting, opened := context.WithCancel(ctx)
	defer opened()
	go logWaiting(waiting, o, tls)
	e, err := open(ctx, o, sec)
	if giveUp() && timer.Stop() && err == nil {
		e.drop = cancel
		return e, nil
	}
	if cancel(); err == nil {
		err = errors.Join(ctx.Err(), e.Close())
	}
	if errors.Is(err, ErrNested) {
		return nil, fmt.Errorf("TiKV at %s: %w", strings.Join(o.PD, ","), err)
	}
	return nil, fmt.Errorf("TiKV at %s: %w: %s%s. Tried for %s; is the cluster up, and are these its placement drivers (tikv-pd)?",
		strings.Join(o.PD, ","), engine.ErrUnavailable, brief(err), probe(o.Context, o.PD, tls), time.Since(begun).Round(100*time.Millisecond))
}

func open(ctx context.Context, o Options, sec config.Security) (*Engine, error) {
	store, err := connect(ctx, o, sec)
	if err != nil {
		return nil, err
	}
	return newEngine(ctx, o, store, true)
}

// newEngine makes an engine on the client's store, which the engine then owns.
func newEngine(ctx context.Context, o Options, store *tikv.KVStore, onePC bool) (*Engine, error) {
	e := &Engine{
		opt: o, log: o.Logger, store: store, space: newSpace(o.Prefix), onePC: onePC, stop: make(chan struct{}),
	}
	e.SetMaxTransactions(o.MaxTransactions)
	e.background.Resize(maxBehind)
	e.SetReplicaRead(o.ReplicaRead)
	e.ctx, e.cancel = context.WithCancel(ctx)
	e.drop = func() {}
	e.rpcs.watch(e)
	if err := e.start(); err != nil {
		e.cancel()
		return nil, errors.Join(err, store.Close())
	}
	return e, nil
}

// start reads the time, registers the prefix, reads the counters, and starts the background
// work that keeps time and counters fresh.
func (e *Engine) start() error {
	ctx, cancel := context.WithTimeout(background(e.ctx), e.opt.OpenTimeout)
	defer cancel()
	id, err := e.timestamp(ctx)
	if err != nil {
		return err
	}
	if err := e.register(ctx); err != nil {
		return err
	}
	if e.counters, err = sums.Open(ctx, e, id); err != nil {
		return err
	}
	e.wg.Go(e.keepClock)
	e.wg.Go(func() { e.periodically("counters were not exchanged", e.counters.Exchange) })
	return nil
}

// Close stores the counters and leaves the cluster.
func (e *Engine) Close() error {
	if e.closed.Swap(true) {
		return engine.ErrClosed
	}
	close(e.stop)
	e.wg.Wait() // a commit that is cut off would leave locks
	ctx, cancel := context.WithTimeout(background(context.Background()), e.opt.Timeout)
	defer cancel()
	err := e.counters.Leave(ctx)
	if err != nil {
		err = fmt.Errorf("counters were not stored: %w", err)
	}
	e.cancel()
	defer e.drop()
	return errors.Join(err, e.store.Close())
}

// SetMaxTransactions changes how many views may read or commit at once.
func (e *Engine) SetMaxTransactions(n int) { e.viewLimit.Resize(n) }

// SetReplicaRead changes whether reads go to any replica.
func (e *Engine) SetReplicaRead(any bool) { e.replicas.Store(any) }

// timestamp requests a timestamp from PD.
func (e *Engine) timestamp(ctx context.Context) (uint64, error) {
	ts, err := e.store.GetTimestampWithRetry(tikv.NewBackofferWithVars(ctx, maxBackoff, vars), globalScope)
	if err != nil {
		return 0, e.readError(ctx, "timestamp", err)
	}
	return ts, nil
}

// Timeout implements engine.Shared.
func (e *Engine) Timeout() time.Duration { return e.opt.Timeout }

// Begin implements engine.Engine. It sends no request.
func (e *Engine) Begin(o engine.ViewOptions) (engine.View, error) {
	if e.closed.Load() {
		return nil, engine.ErrClosed
	}
	return &view{e: e, o: o, deadline: time.Now().Add(e.opt.Timeout)}, nil
}

// Snapshot implements engine.Engine.
func (e *Engine) Snapshot() (engine.Snapshot, error) {
	if e.closed.Load() {
		return nil, engine.ErrClosed
	}
	ctx, cancel := context.WithTimeout(e.ctx, e.opt.Timeout)
	defer cancel()
	token := e.reading.expect(e.clock.newest())
	ts, err := e.timestamp(ctx)
	if err != nil {
		e.reading.leave(token)
		return nil, err
	}
	e.reading.fix(token, ts)
	return &snapshot{e: e, ts: ts, token: token}, nil
}

// Counter implements engine.Engine. It returns what this process has added and what the
// other processes had stored about a second ago.
func (e *Engine) Counter(key []byte) (int64, error) { return e.counters.Sum(key), nil }

// Committed and Durable are the same: what a reader sees in TiKV is durable.
func (e *Engine) Committed() engine.Ticket { return engine.Ticket(e.seq.Load()) }
func (e *Engine) Durable() engine.Ticket   { return engine.Ticket(e.seq.Load()) }

// OnDurable never calls its function: a commit is durable when Commit returns.
func (e *Engine) OnDurable(func()) {}

// Err is always nil: a cluster that cannot be reached may come back.
func (e *Engine) Err() error { return nil }

// Congested is always false: views wait in the viewLimit before they read or commit.
func (e *Engine) Congested() bool { return false }

// Full is always nil: TiKV reports a full disk as an error of a commit.
func (e *Engine) Full() error { return nil }

// Checkpoint is not supported: TiKV has backup tools of its own.
func (e *Engine) Checkpoint(string) error { return errors.ErrUnsupported }

// Capabilities implements engine.Engine.
func (e *Engine) Capabilities() engine.Capabilities {
	return engine.Capabilities{Remote: true, Durable: true, Shared: true}
}
