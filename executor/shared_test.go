package executor

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"redoubt/command"
	"redoubt/engine"
	"redoubt/internal/sharedmem"
	"redoubt/keyspace"
	"redoubt/wire"
)

// frontEnd is an executor on a store that others of the test use, too.
type frontEnd struct {
	t   testing.TB
	x   *Executor
	eng *sharedmem.Engine
}

func openShared(t testing.TB, store *sharedmem.Store) *frontEnd {
	t.Helper()
	eng := store.Open()
	space, err := keyspace.Open(eng, testDatabases)
	if err != nil {
		t.Fatal(err)
	}
	x := New(Options{
		Engine: eng, Space: space, Seed: 1, Logger: slog.New(slog.DiscardHandler), Clock: time.Now,
		Limits: command.Limits{MaxBulk: 512 << 20},
	})
	t.Cleanup(func() {
		quiet(x) // whoever was woken last may still be looking
		if n := eng.Open(); n != 0 {
			t.Errorf("%d views are left open", n)
		}
	})
	return &frontEnd{t, x, eng}
}

// two are two processes on one store.
func two(t testing.TB) (a, b *frontEnd) {
	store := sharedmem.New()
	return openShared(t, store), openShared(t, store)
}

func (p *frontEnd) do(line string) string { return p.call(&Call{Args: words(line)}) }

func (p *frontEnd) call(c *Call) string {
	w := wire.Writer{Proto: 2}
	if c.Cmd == nil {
		c.Cmd = table().Find(c.Args)
	}
	c.Reply = &w
	p.x.RunOnWorker(c)
	return short(w.Buf)
}

func (p *frontEnd) want(line, want string) {
	p.t.Helper()
	if got := p.do(line); got != want {
		p.t.Errorf("%s: %s, want %s", line, got, want)
	}
}

func (p *frontEnd) exec(w *Watch, lines ...string) string {
	return p.call(&Call{Cmd: command.Exec, Args: words("exec"), Queue: queue(lines...), Watch: w})
}

func (p *frontEnd) watch(w *Watch, keys string) {
	p.call(&Call{Cmd: command.Watch, Args: words("watch " + keys), Watch: w})
}

// A command that met a conflict is run again, and nobody notices: one reply, and its
// effects once.
func TestConflictIsRunAgain(t *testing.T) {
	t.Parallel()
	p := openShared(t, sharedmem.New())
	var told int
	p.x.Listen(func(fx *keyspace.Effects, _ engine.Ticket) { told += len(fx.Events) })
	p.x.Listening(keyspace.StringEv)
	p.eng.Inject(sharedmem.Fault{Err: engine.ErrConflict}, sharedmem.Fault{Err: engine.ErrConflict})
	p.want("incr n", "1")
	p.want("get n", "1")
	equal(t, "events", told, 1)
	equal(t, "conflicts", p.x.Stats.Conflicts.Load(), 2)
}

// A commit that may have happened is not tried again.
func TestUnknownOutcomeIsTold(t *testing.T) {
	t.Parallel()
	for _, applied := range []bool{false, true} {
		p := openShared(t, sharedmem.New())
		p.eng.Inject(sharedmem.Fault{Err: engine.ErrUnknownOutcome, Applied: applied})
		if got := p.do("incr n"); !strings.Contains(got, "UNKNOWN the write may have been applied; read before you retry") {
			t.Errorf("told %s", got)
		}
		p.want("get n", map[bool]string{false: "(nil)", true: "1"}[applied])
	}
}

// While the store cannot be reached commands say so, and work again afterwards.
func TestUnreachableStore(t *testing.T) {
	t.Parallel()
	p := openShared(t, sharedmem.New())
	p.want("set a 1", "OK")
	p.eng.Cut(true)
	for _, line := range []string{"get a", "set a 2", "keys *", "flushall"} {
		if got := p.do(line); !strings.Contains(got, "TRYAGAIN") {
			t.Errorf("%s: %s", line, got)
		}
	}
	p.eng.Cut(false)
	p.want("get a", "1")
}

// What one process reads conflicts with what another writes meanwhile, also when
// that is a row of a large value and not the key's own.
func TestReadsConflict(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ prepare, other, run, want string }{
		"the same key":               {"set a 1", "set a 5", "incr a", "6"},
		"a key that is only read":    {"sadd a 1", "sadd a 2", "sunionstore c a b", "2"},
		"a key that is not there":    {"sadd b 1", "sadd a 2", "sunionstore c a b", "2"},
		"a row of a large hash":      {"", "hset h f1 5", "hincrby h f1 1", "6"},
		"another row of it":          {"", "hset h f2 5", "hincrby h f1 1", "2"},
		"a large value that is gone": {"", "del h", "hincrby h f1 1", "1"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p, q := two(t)
			large(p, "h", "1")
			if c.prepare != "" {
				p.do(c.prepare)
			}
			var once sync.Once
			p.eng.Intercept(func(*engine.Batch) sharedmem.Fault {
				once.Do(func() { q.do(c.other) })
				return sharedmem.Fault{}
			})
			p.want(c.run, c.want)
			if p.x.Stats.Conflicts.Load() == 0 {
				t.Error("it met no conflict")
			}
		})
	}
}

// large makes a hash whose fields are rows.
func large(p *frontEnd, key, value string) {
	line := "hset " + key
	for i := range 600 {
		line += fmt.Sprintf(" f%d %s", i, value)
	}
	p.do(line)
}

// A read of one key is one trip to the store, and several are not many.
func TestTrips(t *testing.T) {
	t.Parallel()
	p := openShared(t, sharedmem.New())
	p.do("mset a 1 b 2 c 3 d 4")
	for line, most := range map[string]int64{"get a": 1, "mget a b c d": 2, "exists a": 1, "ttl a": 1} {
		before := p.eng.Trips()
		p.do(line)
		if n := p.eng.Trips() - before; n > most {
			t.Errorf("%s: %d trips, at most %d are needed", line, n, most)
		}
	}
}

// Commands of a pipeline that go together are one transaction, whose replies come in
// order and once.
func TestTogether(t *testing.T) {
	t.Parallel()
	p, q := two(t)
	var once sync.Once
	p.eng.Intercept(func(*engine.Batch) sharedmem.Fault {
		once.Do(func() { q.do("set a 10") })
		return sharedmem.Fault{}
	})
	w := wire.Writer{Proto: 2}
	var calls []Call
	for _, line := range []string{"incr a", "incr b", "get a", "lpush b x", "incr a"} {
		args := words(line)
		calls = append(calls, Call{Cmd: table().Find(args), Args: args, Reply: &w})
	}
	done, _ := p.x.RunTogether(calls)
	equal(t, "done", done, len(calls))
	got := ""
	for _, c := range calls {
		one, _ := shortOne(w.Buf[c.Start:])
		got += one + " "
	}
	if !strings.HasPrefix(got, "11 1 11 ") || !strings.Contains(got, "WRONGTYPE") || !strings.HasSuffix(got, " 12 ") {
		t.Errorf("the replies are %s", got)
	}
	q.want("get a", "12")
}

// WATCH sees what another process does, and only that.
func TestWatchAcrossProcesses(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		other string
		fails bool
	}{
		"nothing":            {"get k", false},
		"another key":        {"set other 1", false},
		"a write":            {"set k 2", true},
		"the same value":     {"set k 1", true},
		"a delete":           {"del k", true},
		"an expiry":          {"pexpire k 100000", true},
		"a field":            {"hset h f7 2", true},
		"a key that was not": {"set none 1", true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p, q := two(t)
			p.do("set k 1")
			large(p, "h", "1")
			var w Watch
			defer w.End()
			p.watch(&w, "k h none")
			q.do(c.other)
			if got := p.exec(&w, "set done 1"); (got == "[]") != c.fails {
				t.Errorf("EXEC: %s", got)
			}
		})
	}
}

// A change between EXEC's reads and its commit is seen as well.
func TestWatchConflictsAtCommit(t *testing.T) {
	t.Parallel()
	p, q := two(t)
	p.do("set k 1")
	var w Watch
	defer w.End()
	p.watch(&w, "k")
	var once sync.Once
	p.eng.Intercept(func(*engine.Batch) sharedmem.Fault {
		once.Do(func() { q.do("set k 2") })
		return sharedmem.Fault{}
	})
	equal(t, "EXEC", p.exec(&w, "set done 1"), "[]")
	q.want("exists done", "0")
}

// Transfers by several processes keep the sum, whatever they conflict in.
func TestTransfersOfProcesses(t *testing.T) {
	t.Parallel()
	store := sharedmem.New()
	list := []*frontEnd{openShared(t, store), openShared(t, store), openShared(t, store)}
	const accounts, each = 4, 40
	for i := range accounts {
		list[0].do(fmt.Sprintf("set acc%d 100", i))
	}
	var wg sync.WaitGroup
	for _, p := range list {
		for g := range 2 {
			wg.Go(func() {
				for i := range each {
					from, to := (i+g)%accounts, (i+g+1+i%3)%accounts
					if from != to {
						p.exec(nil, fmt.Sprintf("decrby acc%d 1", from), fmt.Sprintf("incrby acc%d 1", to))
					}
				}
			})
		}
	}
	wg.Wait()
	sum := 0
	for i := range accounts {
		var n int
		fmt.Sscan(list[1].do(fmt.Sprintf("get acc%d", i)), &n)
		sum += n
	}
	equal(t, "sum", sum, 100*accounts)
}

// waits has a client wait for an element.
func (p *frontEnd) waits(line string) (got <-chan string, w *Waiter) {
	p.t.Helper()
	replies := make(chan string, 1)
	c := &Call{Args: words(line)}
	c.OnBlock = func(block *command.Block) *Waiter {
		w = p.x.NewWaiter(*c, block, 2, func(w *Waiter) { replies <- short(w.Reply()) })
		return w
	}
	if p.call(c); !c.Blocked {
		p.t.Fatal("it does not wait")
	}
	quiet(p.x)
	return replies, w
}

// quiet waits until nobody looks at keys any more for those who wait there.
func quiet(x *Executor) {
	for quiet := false; !quiet; time.Sleep(time.Millisecond) {
		x.waker.mu.Lock()
		quiet = len(x.waker.places) == 0
		x.waker.mu.Unlock()
	}
}

// Clients are served in the order in which they came, also if one of them is being
// looked at.
func TestServedInOrder(t *testing.T) {
	t.Parallel()
	p := openShared(t, sharedmem.New())
	first, w := p.waits("blpop l 0")
	second, _ := p.waits("blpop l 0")
	w.mu.Lock()
	p.do("rpush l a")
	w.mu.Unlock()
	equal(t, "the first", <-first, "[l a]")
	p.do("rpush l b")
	equal(t, "the second", <-second, "[l b]")
}

// A client that a batch has served waits on when the batch conflicts, in its old
// place; and one that is ended meanwhile is ended then.
func TestServedAgainAfterConflict(t *testing.T) {
	t.Parallel()
	for _, end := range []bool{false, true} {
		p := openShared(t, sharedmem.New())
		got, waiter := p.waits("blpop l 0")
		tries := 0
		p.eng.Intercept(func(*engine.Batch) sharedmem.Fault {
			if tries++; tries > 1 {
				return sharedmem.Fault{}
			}
			if end {
				waiter.End(errors.New("ended"))
			}
			return sharedmem.Fault{Err: engine.ErrConflict}
		})
		p.do("rpush l x")
		want := "x"
		if end {
			want = "ERR ended"
		}
		if s := <-got; !strings.Contains(s, want) {
			t.Errorf("the client got %s, want %s", s, want)
		}
		if !end {
			p.want("exists l", "0")
		}
	}
}

// A flush by one process is in effect everywhere when it is answered, and nothing that
// is written afterwards is lost.
func TestFlushAcrossProcesses(t *testing.T) {
	t.Parallel()
	p, q := two(t)
	for i, x := range []*frontEnd{p, q} { // so that they know of each other
		var b engine.Batch
		b.Put(keyspace.MemberRow([keyspace.MemberIDSize]byte{byte(i)}), []byte("{}"))
		v, err := x.eng.Begin(engine.ViewOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := v.Commit(&b); err != nil {
			t.Fatal(err)
		}
		v.Close()
	}
	ctx, cancel := context.WithCancel(context.Background())
	var following sync.WaitGroup
	following.Go(func() { p.x.FollowCatalog(ctx) })
	following.Go(func() { q.x.FollowCatalog(ctx) })
	defer following.Wait()
	defer cancel()
	q.want("set old 1", "OK")
	p.want("flushdb", "OK")
	q.want("get old", "(nil)")
	q.want("set new 1", "OK")
	p.want("get new", "1")
	p.want("get old", "(nil)")
}

// A walk over all keys, which is on a snapshot, does not go by databases that another
// process has replaced before the snapshot was taken.
func TestSnapshotsGoByTheCatalog(t *testing.T) {
	t.Parallel()
	store := sharedmem.New()
	var ahead atomic.Int64
	store.SetClock(func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) })
	p, q := openShared(t, store), openShared(t, store)
	ctx, cancel := context.WithCancel(context.Background())
	var following sync.WaitGroup
	following.Go(func() { p.x.FollowCatalog(ctx) })
	defer following.Wait()
	defer cancel()
	q.want("set old 1", "OK") // q has a lease now, and does not look at the catalog
	p.want("flushdb", "OK")   // which is in effect at once: there are no members
	ahead.Store(int64(time.Hour))
	following.Go(func() { q.x.FollowCatalog(ctx) })
	q.want("keys *", "[]")
}
