// Package server is the front of Redoubt: listeners, event loops, sessions, and
// the commands about connections and the server itself.
package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"redoubt/command"
	"redoubt/config"
	"redoubt/engine"
	"redoubt/executor"
	"redoubt/keyspace"
)

// Options make a Server.
type Options struct {
	Config *config.Config
	Engine engine.Engine    // the server closes it on Shutdown
	Clock  func() time.Time // what commands take for the time; nil: time.Now
	Seed   uint64           // of the random numbers that commands get
	Logger *slog.Logger
	// Pipes has connections carried by goroutines although the system has
	// event loops.
	Pipes bool
}

// Server serves one store.
type Server struct {
	cfg   *config.Config
	eng   engine.Engine
	exec  *executor.Executor
	clock func() time.Time
	log   *slog.Logger

	table  *command.Table
	locals map[*command.Command]*local

	loops     []*loop
	listeners map[int32]*listener // by descriptor, for the loops
	lns       []*listener
	nextLoop  atomic.Int64
	usePipes  bool
	pipes     sync.Map // *pipe

	clients clients
	bufs    buffers
	stats   stats
	errors  errorStats
	slow    slowlog
	latency latencyMonitor
	pause   pause

	monitorMu   sync.Mutex
	monitorList []*session
	monitors    atomic.Int32

	// Settings that are read often; see settings.go.
	maxClients atomic.Int64
	queryLimit atomic.Int64
	timeout    atomic.Int64
	keepalive  atomic.Int64
	maxBulk    atomic.Int64
	maxMemory  atomic.Int64
	password   atomic.Pointer[string]
	outLimit   atomic.Pointer[config.BufferLimit]
	debug      debugState

	started         time.Time
	runID           string
	boundedByMemory bool // the engine keeps nothing on disk
	// dataBytes is set where maxmemory bounds the data itself: on an engine
	// that keeps it in memory only.
	dataBytes func() int64
	workers   sync.WaitGroup
	draining  atomic.Bool // shutting down: no session takes another command
	bgStop    context.CancelFunc
	bgDone    chan struct{}
	stopOnce  sync.Once
	stopErr   error
	stopReq   chan struct{} // closed when a client asks for SHUTDOWN
	stopAsk   sync.Once
	save      saver
	metrics   *metricsServer
}

// listener is a listening socket.
type listener struct {
	addr net.Addr
	unix bool
	ln   net.Listener // for pipes only
}

// New makes a server and binds its listeners. Start begins to serve.
func New(o Options) (*Server, error) {
	if o.Clock == nil {
		o.Clock = time.Now
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	srv := &Server{
		cfg: o.Config, eng: o.Engine, clock: o.Clock, log: o.Logger,
		listeners: make(map[int32]*listener), usePipes: o.Pipes || !haveLoops,
		boundedByMemory: !o.Engine.Capabilities().Durable, started: time.Now(), runID: randomID(), stopReq: make(chan struct{}),
	}
	if m, ok := o.Engine.(interface{ Memory() int64 }); ok {
		srv.dataBytes = m.Memory
	}
	space, err := keyspace.Open(o.Engine, int(o.Config.Int("databases")))
	if err != nil {
		return nil, err
	}
	srv.exec = executor.New(executor.Options{
		Engine: o.Engine, Space: space, Clock: o.Clock, Seed: o.Seed, Logger: o.Logger,
	})
	srv.buildTable()
	srv.stats.init(srv.table)
	srv.initFigures()
	srv.clients.init()
	if err := srv.watchSettings(); err != nil {
		return nil, err
	}
	if err := srv.listen(); err != nil {
		return nil, err
	}
	return srv, nil
}

// buildTable joins the handlers' commands and the server's own.
func (srv *Server) buildTable() {
	srv.locals = make(map[*command.Command]*local)
	var own []*command.Command
	for _, l := range localCommands() {
		own = append(own, srv.addLocal(l))
	}
	srv.table = command.NewTable(append(command.All(), own)...)
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

// listen binds TCP and unix sockets.
func (srv *Server) listen() error {
	// Port 0 means no TCP, as in Redis; without a unix socket there would be
	// nothing to listen on, where Redis gives up: then it means any free port.
	path := srv.cfg.Str("unixsocket")
	if port := srv.cfg.Int("port"); port > 0 || path == "" {
		for _, host := range strings.Fields(srv.cfg.Str("bind")) {
			optional := strings.HasPrefix(host, "-")
			host = strings.TrimPrefix(host, "-")
			// Each address gets a socket for its own family, or the one for
			// all of IPv6 would take the port of all of IPv4.
			network := "tcp"
			switch ip := net.ParseIP(host); {
			case host == "*":
				host, network = "0.0.0.0", "tcp4"
			case host == "::*":
				host, network = "::", "tcp6"
			case ip != nil && ip.To4() == nil:
				network = "tcp6"
			}
			ln, err := net.Listen(network, net.JoinHostPort(host, strconv.FormatInt(port, 10)))
			if err != nil {
				if optional {
					srv.log.Debug("skipping an optional address", "addr", host, "err", err)
					continue
				}
				return fmt.Errorf("listen: %w", err)
			}
			if err := srv.addListener(ln, false); err != nil {
				return err
			}
		}
	}
	if path == "" {
		return nil
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("remove the old unix socket: %w", err)
	}
	ln, err := net.Listen("unix", path)
	if err != nil {
		return fmt.Errorf("listen: %w", err)
	}
	if perm := srv.cfg.Int("unixsocketperm"); perm != 0 {
		if err := os.Chmod(path, os.FileMode(perm)); err != nil {
			return fmt.Errorf("unix socket: %w", err)
		}
	}
	ln.(*net.UnixListener).SetUnlinkOnClose(false)
	return srv.addListener(ln, true)
}

func (srv *Server) addListener(ln net.Listener, unix bool) error {
	l := &listener{addr: ln.Addr(), unix: unix, ln: ln}
	srv.lns = append(srv.lns, l)
	if srv.usePipes {
		return nil
	}
	f, err := ln.(interface{ File() (*os.File, error) }).File()
	if err != nil {
		return fmt.Errorf("listen: %w", err)
	}
	fd, err := takeFD(f)
	if err != nil {
		return err
	}
	srv.listeners[fd] = l
	return ln.Close() // the descriptor is ours now
}

// Addr is the address of the first TCP listener, or of the first one at all.
func (srv *Server) Addr() net.Addr {
	if len(srv.lns) == 0 {
		return nil
	}
	return srv.lns[0].addr
}

// Start begins to serve, in the background.
func (srv *Server) Start() error {
	ctx, cancel := context.WithCancel(context.Background())
	srv.bgStop, srv.bgDone = cancel, make(chan struct{})
	go func() {
		defer close(srv.bgDone)
		srv.exec.Background(ctx)
	}()
	go srv.sample(ctx)
	if srv.usePipes {
		go srv.tickPipes(ctx)
		for _, l := range srv.lns {
			go srv.acceptPipes(l)
		}
		srv.eng.OnDurable(func() {
			srv.pipes.Range(func(p, _ any) bool { p.(*pipe).notify(); return true })
		})
	} else if err := srv.startLoops(srv.loopCount()); err != nil {
		return err
	}
	return srv.startMetrics()
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

func (srv *Server) acceptPipes(l *listener) {
	for {
		conn, err := l.ln.Accept()
		if err != nil {
			if errors.Is(err, net.ErrClosed) {
				return
			}
			srv.log.Error("accepting a connection failed", "err", err)
			time.Sleep(tickEvery) // most likely there are no descriptors left
			continue
		}
		if text := srv.admit(conn.RemoteAddr().String(), l.unix); text != "" {
			fmt.Fprintf(conn, "-%s\r\n", text)
			conn.Close()
			continue
		}
		go srv.newPipe(conn, l).serve()
	}
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
	if srv.usePipes {
		for _, l := range srv.lns {
			l.ln.Close()
		}
	}
	srv.drainLoops()
	srv.eachPipe(func(*pipe) {}) // each has now seen that it must drain
	finished := make(chan struct{})
	go func() { srv.workers.Wait(); close(finished) }()
	select {
	case <-finished:
	case <-ctx.Done():
		srv.log.Warn("shutting down although commands are still running")
	}
	deadline, ok := ctx.Deadline()
	if !ok {
		deadline = time.Now().Add(5 * time.Second)
	}
	srv.stopLoops(deadline)
	srv.stopPipes(deadline)
	if srv.bgStop != nil {
		srv.bgStop()
		<-srv.bgDone
	}
	srv.stopMetrics()
	for _, l := range srv.lns {
		if l.unix {
			os.Remove(l.addr.String())
		}
	}
	if err := srv.eng.Close(); err != nil {
		return fmt.Errorf("close the store: %w", err)
	}
	return nil
}
