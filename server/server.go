// Package server is the front of Redoubt: listeners, event loops, sessions, and
// the commands about connections and the server itself.
package server

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"redoubt/acl"
	"redoubt/budget"
	"redoubt/command"
	"redoubt/config"
	"redoubt/engine"
	"redoubt/executor"
	"redoubt/script"
)

// Options make a Server.
type Options struct {
	Config *config.Config
	Engine engine.Engine    // the server closes it on Shutdown
	Open   OpenFunc         // instead of Engine: Start opens the store in the background
	Clock  func() time.Time // what commands take for the time; nil: time.Now
	Seed   uint64           // of the random numbers that commands get
	Logger *slog.Logger
	// Budget accounts for what clients make the process hold; nil: a new one.
	Budget *budget.Budget
	// Pipes has connections carried by goroutines although the system has
	// event loops.
	Pipes bool
	// HandshakeTime is how long a client of TLS may take to say who it is; 0 is
	// ten seconds.
	HandshakeTime time.Duration
	// Beat is how often a front end of a shared store says that it lives; 0 is one
	// second.
	Beat time.Duration
	// Patience is how long connections wait in the system's queue for a store that is
	// being opened, before they are taken and told so; 0 is three seconds. A store that
	// is soon open needs no client that is told to come again.
	Patience time.Duration
}

// Server serves one store.
type Server struct {
	cfg   *config.Config
	eng   engine.Engine      // these two
	exec  *executor.Executor // are there once ready is set: see load.go
	ready atomic.Bool
	open  OpenFunc
	load  loading
	clock func() time.Time
	seed  uint64
	log   *slog.Logger
	// clientLog is for lines that clients can cause at will; limited writes few of them.
	clientLog *slog.Logger
	limited   *limitedLog
	// budget accounts for what clients make the process hold.
	budget        *budget.Budget
	evictRequests chan struct{} // asks watchMemory to call evictClients
	evictMu       sync.Mutex    // held by evictClients
	evictRetryAt  time.Time     // when evictClients may try again

	ownClock   bool                             // clock is not the caller's
	storeClock atomic.Pointer[func() time.Time] // that of a shared store
	beat       time.Duration
	patience   time.Duration
	member     membership

	table  *command.Table
	locals map[*command.Command]*local

	loops    []*loop
	lns      listeners
	nextLoop atomic.Int64
	usePipes bool
	pipes    sync.Map // *pipe
	tls      tlsFront

	clients clients
	bufs    buffers
	stats   stats
	errors  errorStats
	slow    slowlog
	latency latencyMonitor
	pause   pause

	acl     *acl.Registry
	aclLog  acl.Log
	logins  logins
	aclFile string // where users are saved; "": nowhere

	pubsub   pubsub
	scripts  *script.Engine
	tracking tracking
	fleet    atomic.Pointer[Fleet] // of front ends that share the store; nil: there are none

	monitorMu   sync.RWMutex
	monitorList []*session
	monitors    atomic.Int32

	// Settings that are read often; see settings.go.
	maxClients atomic.Int64
	// authTimeout is how many seconds a client may take to authenticate.
	authTimeout atomic.Int64
	queryLimit  atomic.Int64
	timeout     atomic.Int64
	keepalive   atomic.Int64
	maxBulk     atomic.Int64
	maxMemory   atomic.Int64
	// wantsReplicas: min-replicas-to-write asks for replicas, and there are none.
	wantsReplicas atomic.Bool
	outLimit      atomic.Pointer[config.BufferLimit]
	// subscribedLimit is that of clients with subscriptions.
	subscribedLimit atomic.Pointer[config.BufferLimit]
	notifying       atomic.Uint32 // notifyWays
	notifyClasses   atomic.Uint32 // of keyspace events, for clients of this server
	peerClasses     atomic.Uint32 // and for those of other front ends
	peers           atomic.Pointer[peers]
	debug           debugState
	settingsMu      sync.Mutex // held while a setting is read and applied elsewhere
	databases       int

	started         time.Time
	runID           string
	boundedByMemory bool // the engine keeps nothing on disk
	remote          bool // the engine is on other machines
	// dataBytes is set where maxmemory bounds the data itself: on an engine
	// that keeps it in memory only.
	dataBytes  func() int64
	workers    sync.WaitGroup
	crew       crew
	draining   atomic.Bool // shutting down: no session takes another command
	background sync.WaitGroup
	bgStop     context.CancelFunc
	stopOnce   sync.Once
	stopErr    error
	stopReq    chan struct{} // closed when a client asks for SHUTDOWN
	stopAsk    sync.Once
	save       saver
	migrations targets
	metrics    *metricsServer
}

// New makes a server and binds its listeners. Start begins to serve. If it
// fails, the engine it was given is still the caller's.
func New(o Options) (*Server, error) {
	ownClock := o.Clock == nil
	if ownClock {
		o.Clock = time.Now
	}
	if o.Engine != nil && o.Engine.Capabilities().Shared { // others must know where this server is
		eng := o.Engine
		o.Engine, o.Open = nil, func(context.Context, func(int64, int64)) (engine.Engine, error) { return eng, nil }
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Budget == nil {
		o.Budget = new(budget.Budget)
	}
	srv := &Server{
		budget: o.Budget, cfg: o.Config, open: o.Open, clock: o.Clock, seed: o.Seed, log: o.Logger,
		usePipes: o.Pipes || !haveLoops, databases: int(o.Config.Int("databases")),
		started: time.Now(), runID: randomID(), stopReq: make(chan struct{}), ownClock: ownClock, beat: o.Beat,
		patience: cmp.Or(o.Patience, 3*time.Second), evictRequests: make(chan struct{}, 1),
	}
	if ownClock {
		srv.clock = srv.now
	}
	srv.limited = newLimitedLog(o.Logger)
	srv.clientLog = slog.New(srv.limited)
	srv.tls.handshake = cmp.Or(o.HandshakeTime, handshakeTime)
	srv.pubsub.init()
	srv.newScripts()
	srv.tracking.init(srv)
	srv.load.active.Store(true)
	srv.load.ended = make(chan struct{})
	srv.pause.changed = func(active bool) {
		if srv.ready.Load() {
			srv.exec.HoldExpire(active)
		}
	}
	if o.Engine != nil {
		space, err := srv.openSpace(o.Engine)
		if err != nil {
			return nil, err
		}
		srv.attach(o.Engine, space)
	}
	srv.buildTable()
	for _, r := range o.Config.Renames() {
		if err := srv.table.Rename(r[0], r[1]); err != nil {
			return nil, fmt.Errorf("rename-command %s %s: %w", r[0], r[1], err)
		}
	}
	srv.acl = acl.New(srv.table)
	srv.stats.init(srv.table)
	srv.initFigures()
	srv.clients.init()
	srv.crew.init()
	if err := srv.watchSettings(); err != nil {
		return nil, err
	}
	if err := srv.loadUsers(); err != nil {
		return nil, err
	}
	if err := srv.listen(); err != nil {
		srv.lns.closeAll()
		return nil, err
	}
	return srv, nil
}

// now is the store's time, if it has one, else the machine's.
func (srv *Server) now() time.Time {
	if f := srv.storeClock.Load(); f != nil {
		return (*f)()
	}
	return time.Now()
}

// buildTable joins the handlers' commands and the server's own.
func (srv *Server) buildTable() {
	srv.locals = make(map[*command.Command]*local)
	var own []*command.Command
	if srv.scripts == nil {
		srv.newScripts()
	}
	for _, l := range slices.Concat(localCommands(), srv.scriptCommands(), srv.clusterCommands()) {
		own = append(own, srv.addLocal(l))
	}
	srv.table = command.NewTable(append(command.All(), srv.scripts.Commands(), own)...)
	srv.scripts.SetTable(srv.table)
}

func (srv *Server) addLocal(l *local) *command.Command {
	if l.run != nil {
		srv.locals[l.Command] = l
	}
	for _, sub := range l.subs {
		l.Subs = append(l.Subs, srv.addLocal(sub))
	}
	return l.Command
}

// Start begins to serve, in the background. A store that is still to be opened
// is opened in the background, too: Loaded tells when that is done. Whether
// Start fails or not, Shutdown ends the server.
func (srv *Server) Start() error {
	ctx, cancel := context.WithCancel(context.Background())
	srv.bgStop = cancel
	srv.background.Go(func() { srv.tickPipes(ctx) })
	if !srv.usePipes {
		if err := srv.startLoops(srv.loopCount()); err != nil {
			return err
		}
	}
	if err := srv.startMetrics(); err != nil {
		return err
	}
	srv.background.Go(func() { srv.sample(ctx) })
	srv.background.Go(func() { srv.watchMemory(ctx) })
	srv.background.Go(func() { srv.limited.run(ctx) })
	if srv.ready.Load() {
		srv.serveStore(ctx)
		close(srv.load.ended)
		srv.lns.start(srv.accept)
		return nil
	}
	srv.startLoading(ctx)
	srv.background.Go(func() {
		select {
		case <-srv.load.ended:
		case <-time.After(srv.patience):
		case <-ctx.Done():
		}
		srv.lns.start(srv.accept)
	})
	return nil
}

// loopCount is how many event loops to run: half of the processors unless
// io-threads says otherwise. The other half is for the kernel's part of the
// work, the engine and the collector; docs/bench has the figures.
func (srv *Server) loopCount() int {
	if n := srv.cfg.Int("io-threads"); n > 0 {
		return int(n)
	}
	return max(1, min(16, runtime.GOMAXPROCS(0)/2))
}

// Stopping is closed when a client has asked the server to shut down.
func (srv *Server) Stopping() <-chan struct{} { return srv.stopReq }

// Shutdown stops serving: no new commands are taken, what runs is finished,
// replies are sent, the store is made durable and closed. The context bounds
// the time given to what runs.
func (srv *Server) Shutdown(ctx context.Context) error {
	srv.stopOnce.Do(func() { srv.stopErr = srv.shutdown(ctx) })
	return srv.stopErr
}

func (srv *Server) shutdown(ctx context.Context) error {
	srv.draining.Store(true)
	srv.pause.end()
	srv.lns.closeAll()
	srv.tls.stop()
	srv.drainLoops()
	srv.eachPipe(func(*pipe) {}) // each has now seen that it must drain
	srv.stopLoading(ctx)
	finished := make(chan struct{})
	go func() { srv.workers.Wait(); close(finished) }()
	select {
	case <-finished:
	case <-ctx.Done():
		srv.log.Warn("shutting down although commands are still running")
		srv.scripts.KillAll()
	}
	deadline, ok := ctx.Deadline()
	if !ok {
		deadline = time.Now().Add(5 * time.Second)
	}
	srv.stopLoops(deadline)
	srv.stopPipes(deadline)
	srv.StopPeers()
	srv.stopMetrics()
	srv.migrations.close()
	if srv.bgStop != nil {
		srv.bgStop()
		srv.background.Wait()
	}
	srv.limited.flush(time.Now(), true)
	if !srv.ready.Load() {
		return nil
	}
	srv.depart(ctx)
	if err := srv.eng.Close(); err != nil {
		return fmt.Errorf("close the store: %w", err)
	}
	return nil
}
