package testserver

import (
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"redoubt/engine"
	"redoubt/internal/respclient"
	"redoubt/internal/sharedmem"
)

// Fronts are front ends of one store: servers in the test's process on a store in
// memory, or processes on a cluster. Of its methods, only Addr is safe for concurrent
// use.
type Fronts struct {
	t     testing.TB
	start func() front
	list  []front
	store *sharedmem.Store // nil on a cluster

	mu    sync.Mutex
	addrs []string
}

type front interface {
	addr() string
	kill()
}

// MemFronts starts front ends in this process, by default with a short beat, so that they
// soon take a killed one for dead.
func MemFronts(t testing.TB, n int, o Options) *Fronts {
	t.Helper()
	if o.Store == nil {
		o.Store = sharedmem.New()
	}
	if o.Beat == 0 {
		o.Beat = 100 * time.Millisecond
	}
	f := &Fronts{t: t, store: o.Store, start: func() front {
		t.Helper()
		return inside{Start(t, o)}
	}}
	f.fill(n)
	return f
}

// TiKVFronts starts processes on a cluster.
func TiKVFronts(t testing.TB, n int, program, pd, prefix string, args ...string) *Fronts {
	t.Helper()
	return processes(t, n, program, append([]string{"--engine", "tikv", "--tikv-pd", pd, "--tikv-prefix", prefix}, args...))
}

// CQLFronts starts processes on a Cassandra node.
func CQLFronts(t testing.TB, n int, program, host, keyspace, prefix string, args ...string) *Fronts {
	t.Helper()
	return processes(t, n, program, append([]string{"--engine", "cql", "--cql-hosts", host, "--cql-keyspace", keyspace, "--cql-prefix", prefix}, args...))
}

func processes(t testing.TB, n int, program string, args []string) *Fronts {
	t.Helper()
	f := &Fronts{t: t, start: func() front {
		t.Helper()
		return outside{StartProcess(t, program, t.TempDir(), args...)}
	}}
	f.fill(n)
	return f
}

func (f *Fronts) fill(n int) {
	f.t.Helper()
	for range n {
		s := f.start()
		f.list = append(f.list, s)
		f.addrs = append(f.addrs, s.addr())
	}
}

// Len returns the number of front ends, including killed ones.
func (f *Fronts) Len() int { return len(f.list) }

// Addr returns the address of front end i modulo Len.
func (f *Fronts) Addr(i int) string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.addrs[i%len(f.addrs)]
}

// Dial connects to front end i; the connection ends with the test.
func (f *Fronts) Dial(i int) *respclient.Client {
	f.t.Helper()
	c, err := respclient.Dial(f.Addr(i))
	if err != nil {
		f.t.Fatal(err)
	}
	f.t.Cleanup(func() { c.Close() })
	return c
}

// Kill ends front end i as kill -9 does, or nearly.
func (f *Fronts) Kill(i int) { f.list[i].kill() }

// Restart starts another front end, with another address, in the place of a killed one.
func (f *Fronts) Restart(i int) {
	f.t.Helper()
	s := f.start()
	f.list[i] = s
	f.mu.Lock()
	defer f.mu.Unlock()
	f.addrs[i] = s.addr()
}

// Engine returns the engine of front end i on a store in memory, else nil.
func (f *Fronts) Engine(i int) *sharedmem.Engine {
	if s, ok := f.list[i].(inside); ok {
		return s.Engine.(*sharedmem.Engine)
	}
	return nil
}

// Process returns front end i on a cluster, else nil.
func (f *Fronts) Process(i int) *Process {
	p, _ := f.list[i].(outside)
	return p.Process
}

// Faults returns a random source of faults for commits: conflicts, delays, and lost answers,
// of commits that were applied and of others that were not.
func Faults(seed uint64) func(*engine.Batch) sharedmem.Fault {
	var mu sync.Mutex
	rng := rand.New(rand.NewPCG(seed, 1))
	return func(*engine.Batch) (f sharedmem.Fault) {
		mu.Lock()
		defer mu.Unlock()
		if rng.IntN(4) == 0 {
			f.Delay = time.Duration(rng.IntN(1500)) * time.Microsecond
		}
		switch n := rng.IntN(100); {
		case n < 10:
			f.Err = engine.ErrConflict
		case n < 12:
			f.Err = engine.ErrUnknownOutcome
		case n < 14:
			f.Err, f.Applied = engine.ErrUnknownOutcome, true
		}
		return f
	}
}

type inside struct{ *Server }

func (s inside) addr() string { return s.Addr }
func (s inside) kill()        { s.Kill() }

type outside struct{ *Process }

func (p outside) addr() string { return p.Addr }
func (p outside) kill()        { p.Kill() }

// Server returns front end i in this process, else nil.
func (f *Fronts) Server(i int) *Server {
	s, _ := f.list[i].(inside)
	return s.Server
}

// Store returns the store that front ends in this process share, else nil.
func (f *Fronts) Store() *sharedmem.Store { return f.store }
