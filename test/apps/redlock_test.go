package apps

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"redoubt/internal/testserver"
)

// Redlock: a lock that is held by whoever has it on more than half of five
// servers that know nothing of each other. It outlives the loss of two of them
// as long as a server that comes back knows what it has promised: they write to
// disk before they answer.

const (
	nodes    = 5
	majority = nodes/2 + 1
	// lockTime is how long a lock is good for, minus what acquiring it took and
	// what clocks may differ by.
	lockTime  = time.Second
	clockSkew = lockTime/100 + 2*time.Millisecond
)

// node is one of the five servers. While it is down its client is nil.
type node struct {
	client atomic.Pointer[redis.Client]
	start  func() (addr string, kill func())
	kill   func()
}

func (n *node) up() {
	addr, kill := n.start()
	n.kill = kill
	n.client.Store(redis.NewClient(&redis.Options{
		Addr: addr, MaxRetries: -1, DialerRetries: 1, DialTimeout: 200 * time.Millisecond,
		ReadTimeout: 200 * time.Millisecond, WriteTimeout: 200 * time.Millisecond, ContextTimeoutEnabled: true,
	}))
}

// down kills the server. Those who are talking to it find out.
func (n *node) down() {
	n.kill()
	n.client.Swap(nil).Close()
}

// redlock is one attempt to hold the lock.
type redlock struct {
	nodes []*node
	key   string
	token string
}

// each runs f on all servers that are up, at the same time, and counts those
// where it succeeded.
func (r redlock) each(f func(l lock) (bool, error)) int {
	var work sync.WaitGroup
	var count atomic.Int32
	for _, n := range r.nodes {
		c := n.client.Load()
		if c == nil {
			continue
		}
		work.Go(func() {
			// A server that fails counts as one that said no.
			if ok, err := f(lock{c, r.key, r.token}); ok && err == nil {
				count.Add(1)
			}
		})
	}
	work.Wait()
	return int(count.Load())
}

// acquire gives the time until which the lock is held, if it is.
func (r redlock) acquire(ctx context.Context) (until time.Time, ok bool) {
	begin := time.Now()
	n := r.each(func(l lock) (bool, error) { return l.acquire(ctx, lockTime) })
	until = begin.Add(lockTime - clockSkew)
	if n >= majority && time.Now().Before(until) {
		return until, true
	}
	r.release(ctx)
	return time.Time{}, false
}

func (r redlock) release(ctx context.Context) {
	r.each(func(l lock) (bool, error) { return l.release(ctx) })
}

// section is what the lock protects. Who is inside beyond the time of its lock
// is no holder any more.
type section struct {
	mu      sync.Mutex
	token   string
	until   time.Time
	entered int
}

func (s *section) enter(token string, until time.Time) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if now := time.Now(); s.token != "" && now.Before(s.until) && now.Before(until) {
		return fmt.Errorf("%s comes in while %s is there for another %s", token, s.token, s.until.Sub(now))
	}
	s.token, s.until = token, until
	s.entered++
	return nil
}

func (s *section) leave(token string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.token == token {
		s.token = ""
	}
}

// TestRedlock kills one or two of five Redoubts at a time and starts them
// again, while others fight for a lock: there are never two holders.
func TestRedlock(t *testing.T) {
	if testing.Short() {
		t.Skip("starts and kills processes")
	}
	program, err := testserver.Build()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(filepath.Dir(program)) })
	runRedlock(t, func(dir string) (string, func()) {
		p := testserver.StartProcess(t, program, dir, "--appendonly", "yes", "--appendfsync", "always")
		return p.Addr, p.Kill
	})
}

// TestRedlockOnRedis is the same with real ones.
func TestRedlockOnRedis(t *testing.T) {
	testserver.Oracle(t)
	runRedlock(t, func(dir string) (string, func()) {
		r := testserver.StartRedis(t, "--dir", dir, "--appendonly", "yes", "--appendfsync", "always")
		return r.Addr, func() { killRedis(t, r.Addr) }
	})
}

// killRedis kills a real Redis, and waits until it is gone.
func killRedis(t *testing.T, addr string) {
	c := connect(t, addr)
	info, err := c.Info(t.Context(), "server").Result()
	if err != nil {
		t.Fatal(err)
	}
	_, after, _ := strings.Cut(info, "process_id:")
	text, _, _ := strings.Cut(after, "\r\n")
	pid, err := strconv.Atoi(text)
	if err != nil || pid < 2 {
		t.Fatalf("process %q: %v", text, err)
	}
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	for { // its connections break when it is gone
		conn, err := net.Dial("tcp", addr)
		if err != nil {
			return
		}
		_, _ = conn.Read(make([]byte, 1))
		conn.Close()
	}
}

func runRedlock(t *testing.T, start func(dir string) (addr string, kill func())) {
	const workers, duration, wanted = 4, 4 * time.Second, 20
	first := seedOf(t)
	all := make([]*node, nodes)
	for i := range all {
		dir := t.TempDir()
		all[i] = &node{start: func() (string, func()) { return start(dir) }}
		all[i].up()
	}
	var s section
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var work sync.WaitGroup
	for w := range workers {
		rng := rand.New(rand.NewPCG(first, uint64(w)))
		work.Go(func() {
			for ctx.Err() == nil {
				r := redlock{all, "resource", fmt.Sprintf("worker %d: %s", w, newToken())}
				until, ok := r.acquire(ctx)
				if !ok {
					wait(ctx, time.Duration(rng.IntN(20))*time.Millisecond) // or nobody gets a majority
					continue
				}
				if err := s.enter(r.token, until); err != nil {
					t.Error(err)
				}
				// Some stay for as long as they may: a server that forgets the lock when it
				// is killed would give it to the next one meanwhile.
				if rng.IntN(8) == 0 {
					wait(ctx, time.Until(until))
				} else {
					wait(ctx, time.Duration(rng.IntN(5))*time.Millisecond)
				}
				s.leave(r.token)
				if rng.IntN(20) == 0 {
					continue // as if this one had died: the lock expires by itself
				}
				r.release(context.WithoutCancel(ctx))
			}
		})
	}
	rng := rand.New(rand.NewPCG(first, 99))
	kills := 0
	deadline := time.Now().Add(duration)
	for kills == 0 || s.count() < wanted || time.Now().Before(deadline) {
		if time.Now().After(deadline.Add(30 * time.Second)) {
			t.Errorf("the lock was held %d times, with %d kills", s.count(), kills)
			break
		}
		victims := rng.Perm(nodes)[:1+rng.IntN(nodes-majority)]
		for _, i := range victims {
			all[i].down()
			kills++
		}
		wait(ctx, time.Duration(rng.IntN(200))*time.Millisecond)
		for _, i := range victims {
			all[i].up()
		}
		wait(ctx, time.Duration(rng.IntN(200))*time.Millisecond)
	}
	cancel()
	work.Wait()
	for _, n := range all {
		n.client.Load().Close()
	}
	t.Logf("the lock was held %d times, %d kills", s.count(), kills)
}

func (s *section) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.entered
}

// wait lets time pass: how long anybody holds the lock, or a server is away, is
// part of what is tested.
func wait(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}
