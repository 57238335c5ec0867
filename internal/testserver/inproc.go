package testserver

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"redoubt/config"
	"redoubt/engine"
	"redoubt/engine/enginetest"
	"redoubt/engine/local"
	"redoubt/engine/mem"
	"redoubt/engine/memory"
	"redoubt/engine/partition"
	"redoubt/internal/partmem"
	"redoubt/internal/sharedmem"
	"redoubt/journal"
	"redoubt/keyspace"
	"redoubt/server"
)

// Clock is a clock that stands still unless a test moves it.
type Clock struct{ nanos atomic.Int64 }

// NewClock makes a clock that shows t.
func NewClock(t time.Time) *Clock {
	c := new(Clock)
	c.Set(t)
	return c
}

// Now returns the time that the clock shows.
func (c *Clock) Now() time.Time { return time.Unix(0, c.nanos.Load()) }

// Set makes the clock show t.
func (c *Clock) Set(t time.Time) { c.nanos.Store(t.UnixNano()) }

// Advance moves the clock.
func (c *Clock) Advance(d time.Duration) { c.nanos.Add(int64(d)) }

// Options of a server inside the test's process.
type Options struct {
	// Engine is mem; local on a file system in memory; tight, which is local with
	// little memory; cold: mem where a third of all reads find their row cold; shared: an
	// engine of sharedmem; or contended: shared where a third of all commits find a conflict.
	Engine string
	// Open, if set, opens an engine of another kind.
	Open func(testing.TB, *slog.Logger) (engine.Engine, error)
	// Store, if set, is a store that the server shares with others.
	Store *sharedmem.Store
	// Clock of the server; nil means the real one.
	Clock *Clock
	// Pipes makes a goroutine carry each connection.
	Pipes bool
	// Args are further directives, as on the command line.
	Args []string
	// Beat is the interval of a front end's heartbeats on a shared store; 0 is the server's
	// default.
	Beat time.Duration
	Seed uint64
	// Log gets the server's log as well.
	Log io.Writer
}

// Server is a Redoubt inside the test's process.
type Server struct {
	*server.Server
	Addr   string
	Clock  *Clock
	Engine engine.Engine

	killed atomic.Bool
}

// Kill ends a server of a shared store in the way that is nearest to kill -9: the store
// becomes unreachable, so that the server cannot change it any more, and its connections end.
func (s *Server) Kill() {
	s.killed.Store(true)
	if e, ok := s.Engine.(*sharedmem.Engine); ok {
		e.Cut(true)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	_ = s.Shutdown(ctx) // it cannot remove its member row
}

// Start starts Redoubt on a free port and stops it at the end of the test.
func Start(t testing.TB, o Options) *Server {
	t.Helper()
	s, err := start(t, o)
	if err != nil {
		t.Fatalf("start Redoubt: %v", err)
	}
	return s
}

// Fails starts a Redoubt that must fail to open its store, and returns the error.
func Fails(t testing.TB, o Options) error {
	t.Helper()
	s, err := start(t, o)
	if err != nil {
		t.Fatalf("start Redoubt: %v", err)
	}
	s.killed.Store(true) // there is nothing to check
	if s.LoadError() == nil {
		t.Error("it has started")
	}
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	_ = s.Shutdown(ctx) // the store is closed already
	return s.LoadError()
}

func start(t testing.TB, o Options) (*Server, error) {
	cfg := config.New()
	args := []string{"--port", "0", "--bind", "127.0.0.1", "--dir", t.TempDir()}
	if err := cfg.Args(append(args, o.Args...)); err != nil {
		return nil, err
	}
	out := io.Writer(testLog{t})
	if o.Log != nil {
		out = io.MultiWriter(out, o.Log)
	}
	log := slog.New(slog.NewTextHandler(out, &slog.HandlerOptions{Level: slog.LevelWarn}))
	eng, err := openEngine(t, o, log)
	if err != nil {
		return nil, err
	}
	so := server.Options{Config: cfg, Engine: eng, Seed: o.Seed, Logger: log, Pipes: o.Pipes, Beat: o.Beat}
	if o.Clock != nil {
		so.Clock = o.Clock.Now
	}
	srv, err := server.New(so)
	if err != nil {
		return nil, err
	}
	if err := srv.Start(); err != nil {
		return nil, err
	}
	<-srv.Loaded()
	s := &Server{Server: srv, Addr: srv.Addr().String(), Clock: o.Clock, Engine: eng}
	t.Cleanup(func() {
		if s.killed.Load() {
			return
		}
		checkRows(t, eng)
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		defer cancel()
		if err := srv.Shutdown(ctx); err != nil {
			t.Errorf("stop Redoubt: %v", err)
		}
	})
	return s, nil
}

// Partitioned opens the engine of a partitioned store in memory.
func Partitioned(s *partmem.Store, log *slog.Logger) (engine.Engine, error) {
	layout, err := partition.NewLayout(keyspace.Slots, 64, keyspace.Apart()...)
	if err != nil {
		return nil, err
	}
	e, err := partition.Open(partition.Options{Store: s, Layout: layout, Timeout: 20 * time.Second, LockTTL: 100 * time.Millisecond, Logger: log})
	if err != nil {
		return nil, err // and not an interface that holds a nil engine
	}
	return e, nil
}

func openEngine(t testing.TB, o Options, log *slog.Logger) (engine.Engine, error) {
	if o.Store != nil {
		return o.Store.Open(), nil
	}
	if o.Open != nil {
		return o.Open(t, log)
	}
	switch o.Engine {
	case "shared", "contended":
		store := sharedmem.New()
		if o.Clock != nil {
			store.SetClock(o.Clock.Now)
		}
		eng := store.Open()
		if o.Engine == "contended" {
			eng.Intercept(contend())
		}
		return eng, nil
	case "partitioned":
		return Partitioned(partmem.New().Open(), log)
	case "", "mem":
		return mem.New(), nil
	case "memory":
		return memory.Open(memory.Options{Unit: keyspace.Unit, Kinds: keyspace.Sampled(), Logger: log}), nil
	case "cold":
		return newCold(), nil
	case "local":
		return local.Open(local.Options{Dir: "store", FS: vfs.NewMem(), Memory: 32 << 20, Unit: keyspace.Unit, Fsync: journal.EverySec, Logger: log})
	case "tight": // so little memory that rows are written back, evicted and read again all the time
		return local.Open(local.Options{
			Dir: "store", FS: vfs.NewMem(), Memory: 256 << 10, SegmentBytes: 64 << 10, JournalBytes: 16 << 10,
			Unit: keyspace.Unit, Fsync: journal.EverySec, Logger: log,
		})
	}
	return nil, fmt.Errorf("no engine %q", o.Engine)
}

// newCold makes an engine that evicts rows at once, and is congested at times.
func newCold() engine.Engine {
	e := enginetest.Chill(mem.New())
	e.Forgetful.Store(true)
	var n atomic.Uint64
	e.Set(func(row []byte) bool {
		r := n.Add(0x9e3779b97f4a7c15) // a sequence that looks random
		e.Jammed.Store(r>>32&15 == 0)
		return r>>56 < 85
	})
	return e
}

// testLog writes the server's log to the test's.
type testLog struct{ t testing.TB }

func (l testLog) Write(p []byte) (int, error) {
	l.t.Log(strings.TrimRight(string(p), "\n"))
	return len(p), nil
}

// contend returns an interceptor that makes a third of all commits find a conflict.
func contend() func(*engine.Batch) sharedmem.Fault {
	var n atomic.Int64
	return func(*engine.Batch) sharedmem.Fault {
		if n.Add(1)%3 == 0 {
			return sharedmem.Fault{Err: engine.ErrConflict}
		}
		return sharedmem.Fault{}
	}
}
