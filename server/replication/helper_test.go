package replication

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"redoubt/command"
	"redoubt/config"
	"redoubt/engine"
	"redoubt/engine/local"
	"redoubt/engine/mem"
	"redoubt/executor"
	"redoubt/executor/background"
	"redoubt/internal/sharedmem"
	"redoubt/internal/testmaster"
	"redoubt/journal"
	"redoubt/keyspace"
	"redoubt/script"
	"redoubt/server/admin"
	"redoubt/wire"
)

// site is a Role on a store, without a server around it.
type site struct {
	t      *testing.T
	Role   Role
	x      *executor.Executor
	bg     *background.Worker
	table  *command.Table
	cfg    *config.Config
	log    logbook
	cancel context.CancelFunc
	ended  chan struct{}
}

type logbook struct {
	mu sync.Mutex
	b  strings.Builder
}

func (l *logbook) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(b)
}

func (l *logbook) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// local store, which outlives a site.
func openLocal(t *testing.T, dir string) engine.Engine {
	t.Helper()
	eng, err := local.Open(local.Options{
		Dir: filepath.Join(dir, "local"), Memory: 16 << 20, SegmentBytes: 256 << 10, Fsync: journal.No, Unit: keyspace.Unit,
		Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	return eng
}

// engines are new stores of each kind.
func engines(t *testing.T) map[string]engine.Engine {
	return map[string]engine.Engine{"mem": mem.New(), "local": openLocal(t, t.TempDir()), "shared": sharedmem.New().Open()}
}

// newSite opens a Role that retries at once.
func newSite(t *testing.T, eng engine.Engine, directives ...string) *site {
	t.Helper()
	s := &site{t: t, cfg: config.New(), ended: make(chan struct{})}
	if err := s.cfg.Args(append([]string{"--dir", t.TempDir()}, directives...)); err != nil {
		t.Fatal(err)
	}
	log := slog.New(slog.NewTextHandler(&s.log, nil))
	space, err := keyspace.Open(eng, 4)
	if err != nil {
		t.Fatal(err)
	}
	scripts := script.New(script.Options{
		Version: "7.4.1", Memory: func() int64 { return 64 << 20 }, Logger: log, Threshold: func() time.Duration { return time.Second },
	})
	s.table = command.NewTable(append(command.All(), scripts.Commands(), []*command.Command{{Name: "select", Arity: 2}, {Name: "ping", Arity: -1}})...)
	scripts.SetTable(s.table)
	s.x = executor.New(executor.Options{
		Engine: eng, Space: space, Seed: 1, Logger: log, Clock: time.Now, Limits: command.Limits{MaxBulk: 512 << 20, ReadOnlyReplica: true},
		Receivers: func([]byte, bool) (int, bool) { return 0, false },
	})
	s.bg = background.New(background.Options{Executor: s.x, Engine: eng, Space: space, Clock: time.Now, Logger: log})
	s.Role.Init(Options{
		Config: s.cfg, Log: log, Master: NewSource(), Port: func(bool) int { return 7777 },
		Libraries: scripts.CheckLibraries, Becomes: s.bg.Follow, Table: func() *command.Table { return s.table },
	})
	s.Role.retry = time.Millisecond
	err = s.Role.Open(Store{
		Executor: s.x, Leads: func() bool { return true }, Durable: func(engine.Ticket) error { return nil }, Synced: func() bool { return false },
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	s.cancel = cancel
	var work sync.WaitGroup
	work.Go(func() { s.Role.Run(ctx) })
	work.Go(func() { s.bg.Run(ctx) })
	work.Go(func() { s.x.FollowCatalog(ctx) })
	go func() { work.Wait(); close(s.ended) }()
	t.Cleanup(s.stop)
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(s.log.String())
		}
	})
	return s
}

func (s *site) stop() {
	s.cancel()
	<-s.ended
}

// do runs a command of a client in database 0.
func (s *site) do(line string) string { return s.in(0, strings.Fields(line)...) }

func (s *site) in(db int, words ...string) string {
	args := make([][]byte, len(words))
	for i, w := range words {
		args[i] = []byte(w)
	}
	w := wire.Writer{Proto: 2}
	s.x.RunOnWorker(&executor.Call{Cmd: s.table.Find(args), Args: args, DB: db, Reply: &w})
	return string(w.Buf)
}

// bulk is the reply of a string.
func bulk(v string) string { return fmt.Sprintf("$%d\r\n%s\r\n", len(v), v) }

func (s *site) want(line, reply string) {
	s.t.Helper()
	if got := s.do(line); got != reply {
		s.t.Errorf("%s: %q, want %q", line, got, reply)
	}
}

// admin runs ROLE or REPLICAOF.
func (s *site) admin(words ...string) string {
	args := make([][]byte, len(words))
	for i, w := range words {
		args[i] = []byte(w)
	}
	w := wire.Writer{Proto: 2}
	for _, c := range s.Role.Commands() {
		if c.Name == words[0] {
			if err := c.Run(&admin.Call{Args: args, Reply: &w, Client: client{s: s, w: &w}}); err != nil {
				w.Error(command.Text(err))
			}
		}
	}
	return string(w.Buf)
}

// client is the client of an administrative command.
type client struct {
	admin.Client
	s *site
	w *wire.Writer
}

func (c client) Execute(cmd *command.Command, args [][]byte) error {
	c.s.x.RunOnWorker(&executor.Call{Cmd: cmd, Args: args, Reply: c.w})
	return nil
}

func (s *site) follow(m *testmaster.Master) {
	s.t.Helper()
	if got := s.admin("replicaof", m.Host(), m.Port()); got != "+OK\r\n" {
		s.t.Fatalf("REPLICAOF: %s", got)
	}
}

// info is a line of INFO.
func (s *site) info(name string) (value string) {
	s.Role.Figures(func(n string, v any) {
		if n == name {
			value = fmt.Sprint(v)
		}
	})
	return value
}

// synced waits until the site has applied all of the master's stream.
func (s *site) synced(m *testmaster.Master) {
	s.t.Helper()
	testmaster.Wait(s.t, "the replica is in sync: "+s.log.String(), func() bool {
		return s.info("master_link_status") == "up" && s.info("slave_repl_offset") == strconv.FormatInt(m.Offset(), 10)
	})
}

// seeded returns random numbers whose seed is printed; REPLICA_SEED repeats them.
func seeded(t *testing.T) *rand.Rand {
	seed := uint64(time.Now().UnixNano())
	if s := os.Getenv("REPLICA_SEED"); s != "" {
		seed, _ = strconv.ParseUint(s, 10, 64)
	}
	t.Logf("REPLICA_SEED=%d", seed)
	return rand.New(rand.NewPCG(seed, 1))
}
