// Package server is the front of Redoubt: listeners, event loops, sessions, and the dispatch
// of their commands. What has an edge of its own is a package below it.
//
// The package promises: the commands of a connection are run one after the other, in the order
// in which they came, and answered in that order; no reply is sent before the commits that it
// depends on are durable; no client can block the server, nor hold more memory than the
// configuration gives to clients. Shutdown finishes running commands, sends the replies, and
// closes the store.
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

	"redoubt/budget"
	"redoubt/command"
	"redoubt/config"
	"redoubt/console"
	"redoubt/engine"
	"redoubt/script"
	"redoubt/server/access"
	"redoubt/server/checkpoint"
	"redoubt/server/cluster"
	"redoubt/server/debug"
	"redoubt/server/history"
	"redoubt/server/info"
	"redoubt/server/metrics"
	"redoubt/server/migrate"
	"redoubt/server/observe"
	"redoubt/server/output"
	"redoubt/server/peers"
	"redoubt/server/pubsub"
	"redoubt/server/replication"
	"redoubt/server/tracking"
	"redoubt/server/web"
)

// Options make a Server.
type Options struct {
	Config *config.Config
	Engine engine.Engine    // the server closes it on Shutdown
	Open   OpenFunc         // instead of Engine: Start opens the store in the background
	Clock  func() time.Time // the time that commands see; nil: time.Now
	Seed   uint64           // of the random numbers that commands get
	Logger *slog.Logger
	// Budget accounts for the memory of clients and commands; nil: a new one.
	Budget *budget.Budget
	// Pipes has connections carried by goroutines although the system has
	// event loops.
	Pipes bool
	// HandshakeTime is how long a TLS handshake may take; 0 is ten seconds.
	HandshakeTime time.Duration
	// Beat is the heartbeat interval of a front end of a shared store; 0 is one second.
	Beat time.Duration
	// Patience is how long connections wait in the system's queue for a store that is
	// being opened, before they are accepted and get -LOADING; 0 is three seconds. A store
	// that is soon open sends no client away.
	Patience time.Duration
}

// Server serves one store.
type Server struct {
	cfg  *config.Config
	set  settings // copies of directives that are read often
	seed uint64   // of the random numbers that commands get
	log  *slog.Logger
	// clientLog is for lines that clients can cause at will; limited writes few of them.
	clientLog *slog.Logger
	limited   *observe.LimitedLog
	life      lifetime

	storage
	raft    raft                           // of a replicated store
	member  peers.Membership               // among the front ends of the store
	peers   atomic.Pointer[peers.Exchange] // with other front ends; nil: there are none
	cluster cluster.Cluster                // the front ends as clients see them

	table  *command.Table
	locals map[*command.Command]*local

	lns     listeners
	tls     tlsFront
	car     carriers
	clients clients
	pool    workerPool
	pause   pause
	budget  *budget.Budget // accounts for the memory of clients and commands
	evict   eviction
	outputs output.Memory

	access     access.Control
	pubsub     pubsub.Register
	tracking   tracking.Table
	scripts    *script.Engine
	obs        observe.Observer
	info       info.Reporter
	metrics    *metrics.Server
	save       checkpoint.Saver
	migrations migrate.Migrator
	role       replication.Role // in replication: a master, or a replica
	debug      debug.Debugger
	source     *replication.Source // of replicas
	web        *web.Web            // durable channels over HTTP
	webStats   *observe.LoopStats  // of the commands that web runs
	console    *console.Console    // nil: there is none
	history    *history.Recorder   // for the console; nil: there is none
}

// carriers are what carries the sessions: event loops, or pairs of goroutines.
type carriers struct {
	loops    []*loop
	nextLoop atomic.Int64
	usePipes bool     // no loops
	pipes    sync.Map // *pipe
}

// lifetime is the state of the server between start and end.
type lifetime struct {
	started    time.Time
	workers    sync.WaitGroup // commands that run on workers
	draining   atomic.Bool    // shutting down: no session takes another command
	background sync.WaitGroup
	bgStop     context.CancelFunc
	stopOnce   sync.Once
	stopErr    error
	stopReq    chan struct{} // closed when a client asks for SHUTDOWN
	stopAsk    sync.Once
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
		cfg: o.Config, seed: o.Seed, log: o.Logger, budget: o.Budget,
		life: lifetime{started: time.Now(), stopReq: make(chan struct{})},
		storage: storage{
			open: o.Open, clock: o.Clock, ownClock: ownClock, patience: cmp.Or(o.Patience, 3*time.Second),
			databases: int(o.Config.Int("databases")),
		},
		evict: eviction{requests: make(chan struct{}, 1)},
	}
	srv.car.usePipes = o.Pipes || !haveLoops
	if ownClock {
		srv.clock = srv.now
	}
	srv.limited = observe.NewLimitedLog(o.Logger)
	srv.clientLog = slog.New(srv.limited)
	srv.tls.handshake = cmp.Or(o.HandshakeTime, handshakeTime)
	srv.debug.Server, srv.debug.Config, srv.debug.Log = adminView{srv}, o.Config, o.Logger
	srv.cluster.Init(adminView{srv})
	srv.member = peers.Membership{Config: o.Config, Log: o.Logger, Beat: o.Beat, Port: func(tls bool) int {
		if tls {
			return srv.portOf(overTLS)
		}
		return srv.portOf(overTCP)
	}}
	srv.source = replication.NewSource()
	srv.role.Init(replication.Options{
		Config: o.Config, Log: o.Logger, Master: srv.source,
		Port: srv.member.Port, TLS: srv.clientTLS, Libraries: func(sources []string) error { return srv.scripts.CheckLibraries(sources) },
		Table: func() *command.Table { return srv.table }, Becomes: srv.becomes,
	})
	srv.save.Init(checkpoint.Options{Config: o.Config, Log: o.Logger, Started: srv.life.started, Workers: &srv.life.workers})
	srv.migrations.Log = o.Logger
	srv.initOutputs()
	srv.newScripts()
	srv.initTracking()
	srv.load.active.Store(true)
	srv.load.ended = make(chan struct{})
	srv.pause.changed = func(active bool) {
		if srv.ready.Load() {
			srv.upkeep.Hold(active)
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
	srv.access.Init(access.Options{Config: o.Config, Log: o.Logger, Table: srv.table, Now: srv.clock, Close: srv.closeThose})
	srv.obs.Init(srv.table)
	srv.clients.init()
	srv.info.Init(infoView{srv})
	srv.pool.init()
	if err := srv.watchSettings(); err != nil {
		return nil, err
	}
	if err := srv.access.Load(); err != nil {
		return nil, err
	}
	srv.webStats = srv.obs.Stats.SharedLoop()
	srv.openConsole()
	if err := srv.openWeb(); err != nil {
		return nil, err
	}
	if err := srv.listen(); err != nil {
		srv.lns.closeAll()
		srv.web.Stop(context.Background())
		return nil, err
	}
	return srv, nil
}

// now returns the time of the shared store's clock, if it has one, else the machine's.
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
	for _, l := range slices.Concat(localCommands(), administrative(srv.adminCommands())) {
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
	srv.life.bgStop = cancel
	srv.life.background.Go(func() { srv.tickPipes(ctx) })
	if !srv.car.usePipes {
		if err := srv.startLoops(srv.loopCount()); err != nil {
			return err
		}
	}
	var err error
	srv.web.Start()
	if srv.metrics, err = metrics.Start(&srv.info, srv.log); err != nil {
		return err
	}
	srv.life.background.Go(func() { srv.obs.Sample(ctx, srv.samples()) })
	srv.life.background.Go(func() { srv.watchMemory(ctx) })
	srv.life.background.Go(func() { srv.limited.Run(ctx) })
	srv.startConsole(ctx)
	if srv.ready.Load() {
		if err := srv.serveStore(ctx); err != nil {
			return err
		}
		close(srv.load.ended)
		srv.lns.start(srv.accept)
		return nil
	}
	srv.startLoading(ctx)
	srv.life.background.Go(func() {
		select {
		case <-srv.load.ended:
		case <-time.After(srv.patience):
		case <-ctx.Done():
		}
		srv.lns.start(srv.accept)
	})
	return nil
}

// loopCount returns how many event loops to run: half of the processors, 16 at most,
// unless io-threads is set. The other half is for the kernel, the engine and the
// collector; docs/bench has the figures.
func (srv *Server) loopCount() int {
	if n := srv.cfg.Int("io-threads"); n > 0 {
		return int(n)
	}
	return max(1, min(16, runtime.GOMAXPROCS(0)/2))
}

// Stopping is closed when a client has asked the server to shut down.
func (srv *Server) Stopping() <-chan struct{} { return srv.life.stopReq }

// Shutdown stops serving: no new commands are taken, running commands are finished,
// replies are sent, the store is made durable and closed. The context bounds
// the time given to running commands.
func (srv *Server) Shutdown(ctx context.Context) error {
	srv.life.stopOnce.Do(func() { srv.life.stopErr = srv.shutdown(ctx) })
	return srv.life.stopErr
}

func (srv *Server) shutdown(ctx context.Context) error {
	srv.stopConsole()
	srv.stopWeb(ctx)
	srv.life.draining.Store(true)
	srv.pause.end()
	srv.lns.closeAll()
	srv.tls.stop()
	srv.drainLoops()
	srv.eachPipe(func(*pipe) {}) // taking each mu: every pipe has seen draining
	srv.stopLoading(ctx)
	finished := make(chan struct{})
	go func() { srv.life.workers.Wait(); close(finished) }()
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
	srv.stopSource(ctx)
	srv.stopLoops(deadline)
	srv.stopPipes(deadline)
	srv.StopPeers()
	srv.metrics.Stop()
	srv.migrations.Close()
	if srv.life.bgStop != nil {
		srv.life.bgStop()
		srv.life.background.Wait()
	}
	srv.limited.Flush(time.Now(), true)
	if !srv.ready.Load() {
		return nil
	}
	srv.member.Leave(ctx)
	if err := srv.eng.Close(); err != nil {
		return fmt.Errorf("close the store: %w", err)
	}
	return nil
}
