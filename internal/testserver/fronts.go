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
// memory, or processes on a TiKV cluster. Its methods are not for several goroutines
// at once, but Addr is.
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

// MemFronts starts front ends in this process. They take each other for dead soon.
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
	args = append([]string{"--engine", "tikv", "--tikv-pd", pd, "--tikv-prefix", prefix}, args...)
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

// Len is how many there are, with those that were killed.
func (f *Fronts) Len() int { return len(f.list) }

// Addr is where clients find one. Numbers begin again behind the last one.
func (f *Fronts) Addr(i int) string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.addrs[i%len(f.addrs)]
}

// Dial connects to one; the connection ends with the test.
func (f *Fronts) Dial(i int) *respclient.Client {
	f.t.Helper()
	c, err := respclient.Dial(f.Addr(i))
	if err != nil {
		f.t.Fatal(err)
	}
	f.t.Cleanup(func() { c.Close() })
	return c
}

// Kill ends one as kill -9 does, or nearly.
func (f *Fronts) Kill(i int) { f.list[i].kill() }

// Restart starts another one in the place of one that was killed. It has another
// address.
func (f *Fronts) Restart(i int) {
	f.t.Helper()
	s := f.start()
	f.list[i] = s
	f.mu.Lock()
	defer f.mu.Unlock()
	f.addrs[i] = s.addr()
}

// Engine is what one has of a store in memory, or nil.
func (f *Fronts) Engine(i int) *sharedmem.Engine {
	if s, ok := f.list[i].(inside); ok {
		return s.Engine.(*sharedmem.Engine)
	}
	return nil
}

// Process is one on a cluster, or nil.
func (f *Fronts) Process(i int) *Process {
	p, _ := f.list[i].(outside)
	return p.Process
}

// Faults are what commits of a store in memory meet: conflicts, delays, and answers that
// are lost, of commits that happened and of others that did not.
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

// Server is one in this process, or nil.
func (f *Fronts) Server(i int) *Server {
	s, _ := f.list[i].(inside)
	return s.Server
}

// Store is what front ends in this process share, or nil.
func (f *Fronts) Store() *sharedmem.Store { return f.store }
