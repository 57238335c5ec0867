package replicated

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"redoubt/config"
	"redoubt/engine"
	"redoubt/engine/local"
	"redoubt/internal/respclient"
	"redoubt/journal"
	"redoubt/keyspace"
	"redoubt/replica/member"
	"redoubt/replica/state"
	"redoubt/server"
)

// cluster has whole servers in this process: engine/local on file systems in memory that can
// crash, listeners on the loopback interface, and connections that the test can cut.
type cluster struct {
	t      testing.TB
	policy journal.Policy
	retain int64 // of the log
	rate   int64 // of snapshots
	log    *slog.Logger
	nodes  []*node
	peers  []string

	mu    sync.Mutex
	rng   *rand.Rand
	cut   map[[2]int]bool // from, to: no connection
	links map[net.Conn][2]int
}

const (
	tick     = 30 * time.Millisecond
	election = 8
)

type node struct {
	c        *cluster
	no       int
	mem      *vfs.MemFS
	ln       net.Listener // for the other nodes; made anew at each start
	boot     byte         // of the machine
	restarts sync.WaitGroup

	mu     sync.Mutex
	addr   string // for clients; empty: it is down
	conns  map[net.Conn]bool
	srv    *server.Server
	member *member.Member
}

func newCluster(t testing.TB, n int, policy journal.Policy, rng *rand.Rand) *cluster {
	t.Helper()
	c := &cluster{t: t, policy: policy, rng: rng, cut: make(map[[2]int]bool), links: make(map[net.Conn][2]int), log: slog.New(slog.DiscardHandler)}
	if testing.Verbose() {
		c.log = slog.New(slog.NewTextHandler(testLog{t}, &slog.HandlerOptions{Level: slog.LevelError}))
	}
	for no := range n {
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		must(t, err)
		c.peers = append(c.peers, ln.Addr().String())
		mem := vfs.NewCrashableMem()
		must(t, local.JournalFiles(mem).MkdirAll("/data"))
		must(t, local.JournalFiles(mem).SyncDir("/"))
		c.nodes = append(c.nodes, &node{c: c, no: no, mem: mem, ln: ln, conns: make(map[net.Conn]bool)})
	}
	var all sync.WaitGroup
	for _, x := range c.nodes {
		all.Go(x.start)
	}
	all.Wait()
	t.Cleanup(func() {
		for _, x := range c.nodes {
			x.restarts.Wait()
			x.stop()
		}
	})
	return c
}

type testLog struct{ t testing.TB }

func (l testLog) Write(p []byte) (int, error) {
	l.t.Log(strings.TrimRight(string(p), "\n"))
	return len(p), nil
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// start starts the node on what its file system has.
func (x *node) start() {
	if err := x.startWithin(context.Background()); err != nil {
		x.c.t.Errorf("node %d: %v", x.no, err)
	}
}

// startWithin ends the node again if ctx ends before it is open.
func (x *node) startWithin(ctx context.Context) error {
	c := x.c
	ln := x.ln
	for end := time.Now().Add(20 * time.Second); ln == nil; {
		var err error
		if ln, err = net.Listen("tcp", c.peers[x.no]); err != nil && time.Now().After(end) {
			return err
		}
	}
	x.ln = nil
	mem := x.mem
	cfg := config.New()
	if err := cfg.Args([]string{"--port", "0", "--bind", "127.0.0.1", "--dir", c.t.TempDir(), "--io-threads", "1"}); err != nil {
		return err
	}
	var srv *server.Server
	var m *member.Member
	open := func(ctx context.Context, progress func(done, total int64)) (engine.Engine, error) {
		var err error
		m, err = member.New(member.Options{
			FS: local.JournalFiles(mem), Dir: "/data/raft", Peers: c.peers, Listener: ln, Secret: [32]byte{1}, Boot: state.ID{1, x.boot},
			StoreDir: "/data/local", Retain: c.retain, Rate: c.rate, Restart: func() { x.restarts.Go(func() { x.stop(); x.start() }) },
			Contact: func() member.Contact {
				if at, ok := srv.Addr().(*net.TCPAddr); ok { // else it is shutting down
					return member.Contact{Host: "127.0.0.1", Port: at.Port}
				}
				return member.Contact{}
			},
			Empty: func() (bool, error) {
				_, err := mem.Stat("/data/local")
				if errors.Is(err, os.ErrNotExist) {
					return true, nil
				}
				return false, err
			},
			Logger: c.log, Tick: tick, Election: election, Ask: 100 * time.Millisecond, Dial: func(ctx context.Context, addr string) (net.Conn, error) { return c.dial(ctx, x.no, addr) },
		})
		if err != nil {
			return nil, err
		}
		fail := func(err error) (engine.Engine, error) { return nil, errors.Join(err, m.Close()) }
		if err := m.Found(ctx); err != nil {
			return fail(err)
		}
		store, err := m.Open(ctx, progress, func() (member.Rows, error) {
			rows, err := local.Open(local.Options{
				Dir: "/data/local", FS: mem, Memory: 32 << 20, SegmentBytes: 64 << 10, JournalBytes: 64 << 10,
				Unit: keyspace.Unit, Pinned: keyspace.Pinned, Fsync: c.policy, Logger: c.log, Log: m.OpenLog,
			})
			if err != nil {
				return nil, err
			}
			return rows, nil
		})
		if err != nil {
			return fail(err)
		}
		return store, nil
	}
	srv, err := server.New(server.Options{Config: cfg, Open: open, Seed: 1, Logger: c.log, Patience: time.Millisecond})
	if err == nil {
		err = srv.Start()
	}
	if err != nil {
		return err
	}
	ended := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(ended)
		_ = srv.Shutdown(context.Background()) // what it has on disk is all that counts
	})
	<-srv.Loaded()
	if !stop() {
		<-ended
		return ctx.Err()
	}
	if err := srv.LoadError(); err != nil {
		return errors.Join(err, srv.Shutdown(context.Background()))
	}
	x.mu.Lock()
	x.srv, x.member, x.addr = srv, m, srv.Addr().String()
	x.mu.Unlock()
	return nil
}

// stop ends the node cleanly.
func (x *node) stop() {
	x.mu.Lock()
	srv := x.srv
	x.srv, x.addr = nil, ""
	x.mu.Unlock()
	if srv == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	if err := srv.Shutdown(ctx); err != nil && x.member.Node().Err() == nil {
		x.c.t.Errorf("stopping node %d: %v", x.no, err)
	}
}

// kill ends the node as kill -9 or a power cut does: what it does from here on nobody hears, and
// the file system is what it was then.
func (x *node) kill(power bool) {
	c := x.c
	x.mu.Lock()
	srv := x.srv
	x.srv, x.addr = nil, ""
	if srv == nil {
		x.mu.Unlock()
		return
	}
	for conn := range x.conns {
		conn.Close()
	}
	clear(x.conns)
	x.mu.Unlock()
	before := c.isolate(x.no)
	percent := 100
	if power {
		percent = []int{0, 30, 70}[c.rng.IntN(3)]
	}
	x.mem = x.mem.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: percent, RNG: rand.New(rand.NewPCG(c.rng.Uint64(), 0))})
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	_ = srv.Shutdown(ctx) // its files are nobody's any more
	c.setCuts(before)
}

// isolate cuts a node off, in both directions, and returns the cuts of before.
func (c *cluster) isolate(no int) map[[2]int]bool {
	c.mu.Lock()
	before := make(map[[2]int]bool)
	all := make(map[[2]int]bool)
	for k, v := range c.cut {
		before[k], all[k] = v, v
	}
	c.mu.Unlock()
	for other := range c.nodes {
		all[[2]int{no, other}], all[[2]int{other, no}] = true, true
	}
	c.setCuts(all)
	return before
}

// setCuts says between which nodes there is no connection, in one direction each.
func (c *cluster) setCuts(cuts map[[2]int]bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.cut = cuts
	for conn, way := range c.links {
		if cuts[way] {
			conn.Close()
			delete(c.links, conn)
		}
	}
}

// dial is how nodes connect with each other.
func (c *cluster) dial(ctx context.Context, from int, addr string) (net.Conn, error) {
	to := -1
	for no, p := range c.peers {
		if p == addr {
			to = no
		}
	}
	way := [2]int{from, to}
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.cut[way] {
		conn.Close()
		return nil, errors.New("cut off")
	}
	c.links[conn] = way
	return conn, nil
}

// client connects to the node, nil if it is down.
func (x *node) client() *respclient.Client {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.addr == "" {
		return nil
	}
	cl, err := respclient.Dial(x.addr)
	if err != nil {
		return nil
	}
	cl.Timeout = 3 * time.Second
	x.conns[cl.Conn()] = true
	return cl
}

// leader returns the node that serves; it waits for one.
func (c *cluster) leader() *node {
	for end := time.Now().Add(15 * time.Second); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		for _, x := range c.nodes {
			if cl := x.client(); cl != nil {
				v, err := cl.Do("GET", "nothing")
				cl.Close()
				if err == nil && !v.IsError() {
					return x
				}
			}
		}
	}
	c.t.Fatal("no node leads")
	return nil
}

func seeded(t *testing.T) *rand.Rand {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	return rand.New(rand.NewPCG(seed, 0))
}

func key(i int) string { return fmt.Sprint("key:", i) }
