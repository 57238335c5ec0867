package background

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"redoubt/engine"
	"redoubt/executor"
	"redoubt/internal/sharedmem"
	"redoubt/keyspace"
)

// together are processes that use one store; the test moves their clock.
type together struct {
	t         testing.TB
	store     *sharedmem.Store
	now       atomic.Int64 // Unix milliseconds
	processes []*process
}

// process is one of them.
type process struct {
	*together
	x     *executor.Executor
	w     *Worker
	eng   *sharedmem.Engine
	log   *logbook
	leads atomic.Bool
}

func newTogether(t testing.TB) *together {
	g := &together{t: t, store: sharedmem.New()}
	g.now.Store(testNow)
	g.store.SetClock(func() time.Time { return time.UnixMilli(g.now.Load()) })
	return g
}

// process adds a process; o are options of its worker besides.
func (g *together) process(o Options) *process {
	g.t.Helper()
	p := &process{together: g, eng: g.store.Open(), log: &logbook{}}
	o.Leads = p.leads.Load
	p.x, p.w = open(g.t, p.eng, p.eng.Now, slog.New(slog.NewTextHandler(p.log, nil)), o)
	g.processes = append(g.processes, p)
	g.pass(0) // the others notice
	return p
}

// pass has time pass: the processes have followed the catalog meanwhile.
func (g *together) pass(ms int64) {
	g.t.Helper()
	g.now.Add(ms)
	for _, p := range g.processes {
		if err := p.x.RefreshCatalog(context.Background()); err != nil {
			g.t.Fatal(err)
		}
	}
}

func (p *process) do(line string) string { return run(p.x, line) }

func (p *process) want(line, want string) {
	p.t.Helper()
	if got := p.do(line); got != want {
		p.t.Errorf("%.60s: %.60s, want %s", line, got, want)
	}
}

func (p *process) sweep() {
	p.t.Helper()
	if err := p.w.Sweep(context.Background()); err != nil {
		p.t.Fatal(err)
	}
}

func (p *process) clear() {
	p.t.Helper()
	if err := p.w.Clear(context.Background()); err != nil {
		p.t.Fatal(err)
	}
}

// data counts the rows that are not the system's.
func (g *together) data() (n int) {
	g.t.Helper()
	eng := g.store.Open()
	snap, err := eng.Snapshot()
	if err != nil {
		g.t.Fatal(err)
	}
	it := snap.Iter(nil, []byte{0xff}, false)
	for it.Next() {
		n++
	}
	if err := errors.Join(it.Close(), snap.Close(), eng.Close()); err != nil {
		g.t.Fatal(err)
	}
	return n
}

func TestTheLeaderSweepsForAll(t *testing.T) {
	t.Parallel()
	g := newTogether(t)
	a, b := g.process(Options{}), g.process(Options{})
	b.leads.Store(true)
	b.sweep() // now it knows that there is nothing
	for i := range 300 {
		a.want(fmt.Sprintf("set key%d v px 100", i), "OK")
	}
	a.want("set other v", "OK")
	g.pass(200)
	a.sweep()
	a.want("dbsize", "301") // it does not lead
	g.pass(expiryEvery.Milliseconds())
	b.sweep()
	a.want("dbsize", "1")
	equal(t, "rows", g.data(), 1)
	equal(t, "expired", b.x.Stats.Expired.Load(), 300)

	// Who does not lead any more stops.
	b.leads.Store(false)
	a.want("set key v px 100", "OK")
	b.want("set own v px 100", "OK")
	g.pass(2 * expiryEvery.Milliseconds())
	b.sweep()
	b.want("dbsize", "3")
	a.leads.Store(true)
	a.sweep()
	b.want("dbsize", "1")
	equal(t, "log", a.log.String()+b.log.String(), "")
}

// What the leader has stored itself it need not look for.
func TestTheLeaderKnowsItsOwnKeys(t *testing.T) {
	t.Parallel()
	g := newTogether(t)
	a := g.process(Options{})
	a.leads.Store(true)
	a.sweep()
	a.want("set key v px 10", "OK")
	g.pass(10)
	before := a.eng.Trips()
	a.sweep()
	if n := a.eng.Trips() - before; n > 10 {
		t.Errorf("%d questions to the store for one key", n)
	}
	a.want("dbsize", "0")
}

// Who takes the lead reads everything at once, also if it has led before.
func TestTakingTheLead(t *testing.T) {
	t.Parallel()
	g := newTogether(t)
	a, b := g.process(Options{}), g.process(Options{})
	for _, p := range []*process{b, a} {
		p.leads.Store(true)
		p.sweep()
		p.clear()
		p.leads.Store(false)
		p.sweep()
		p.clear()
	}
	a.want("set key v px 10", "OK")
	a.want("set large "+strings.Repeat("x", 100_000), "OK")
	a.want("del large", "1")
	g.pass(20) // much less than it takes to read all groups again
	b.leads.Store(true)
	b.sweep()
	b.clear()
	equal(t, "rows", g.data(), 0)
}

// Groups are read again a few at a time, and all within the period.
func TestGroupsAreReadInTurn(t *testing.T) {
	t.Parallel()
	g := newTogether(t)
	a := g.process(Options{})
	a.leads.Store(true)
	a.sweep()
	all, turns := int64(0), 0
	for range 20 {
		g.pass(expiryEvery.Milliseconds() / 20)
		before := a.eng.Trips()
		a.sweep()
		if n := a.eng.Trips() - before; n > 0 {
			all += n - 1 // the moment is one question, each group another
			turns++
		}
	}
	if all < keyspace.Groups-keyspace.Groups/shares || all > keyspace.Groups || turns < shares/2 || turns > shares {
		t.Errorf("%d groups were read in %d turns", all, turns)
	}
	before := a.eng.Trips()
	a.sweep()
	equal(t, "without time", a.eng.Trips()-before, 0)

	var r schedule
	seen := map[int]int{}
	equal(t, "at first", len(r.due(1000, time.Second)), keyspace.Groups)
	for now := int64(1007); now <= 2000; now += 7 {
		for _, group := range r.due(now, time.Second) {
			seen[group]++
		}
	}
	if len(seen) < keyspace.Groups-keyspace.Groups/shares {
		t.Errorf("%d groups had a turn", len(seen))
	}
	equal(t, "late", len(r.due(10_000, time.Second)), keyspace.Groups)
	equal(t, "the clock went back", len(r.due(9000, time.Second)), keyspace.Groups)
}

// Keys that others write at the same time are left alone, the others go.
func TestASweepThatConflicts(t *testing.T) {
	t.Parallel()
	g := newTogether(t)
	a, b := g.process(Options{}), g.process(Options{})
	for i := range 100 {
		a.want(fmt.Sprintf("set key%d v px 100", i), "OK")
	}
	g.pass(99)
	b.leads.Store(true)
	var once sync.Once
	b.eng.Intercept(func(*engine.Batch) sharedmem.Fault {
		once.Do(func() {
			for _, i := range []int{3, 50, 98} {
				a.want(fmt.Sprintf("set key%d new", i), "OK")
			}
		})
		return sharedmem.Fault{}
	})
	g.pass(1)
	b.sweep()
	b.eng.Intercept(nil)
	a.want("dbsize", "3")
	a.want("mget key3 key50 key98 key99", "[new new new (nil)]")
	equal(t, "expired", b.x.Stats.Expired.Load(), 97)
	if n := b.w.Stats().Conflicts; n == 0 {
		t.Error("no conflict was counted")
	}
	equal(t, "log", b.log.String(), "")

	// One that never ends leaves the key for another time.
	a.want("set key v px 10", "OK")
	g.pass(2 * expiryEvery.Milliseconds())
	b.eng.Intercept(func(*engine.Batch) sharedmem.Fault { return sharedmem.Fault{Err: engine.ErrConflict} })
	b.sweep()
	b.eng.Intercept(nil)
	a.want("dbsize", "4")
	b.sweep()
	a.want("dbsize", "3")
	equal(t, "log", b.log.String(), "")
}

// A store that does not answer is logged once, and asked ever more rarely.
func TestAStoreThatDoesNotAnswer(t *testing.T) {
	t.Parallel()
	g := newTogether(t)
	a := g.process(Options{})
	a.leads.Store(true)
	a.want("set key v px 10", "OK")
	g.pass(10)
	a.eng.Cut(true)
	var waits []time.Duration
	for range 6 {
		wait, err := a.w.sweepOnce(t.Context())
		if !errors.Is(err, engine.ErrUnavailable) {
			t.Errorf("error %v", err)
		}
		waits = append(waits, wait/time.Second)
	}
	equal(t, "waits", fmt.Sprint(waits), fmt.Sprint([]time.Duration{1, 2, 4, 8, 8, 8}))
	equal(t, "logged", strings.Count(a.log.String(), "\n"), 1)
	a.eng.Cut(false)
	a.eng.Inject(sharedmem.Fault{Err: engine.ErrUnavailable}) // now it is a commit that fails
	if wait, err := a.w.sweepOnce(t.Context()); wait != retryMost || err == nil {
		t.Errorf("%v, %v", wait, err)
	}
	equal(t, "logged", strings.Count(a.log.String(), "\n"), 1)
	if wait, err := a.w.sweepOnce(t.Context()); wait != 0 || err != nil {
		t.Errorf("%v, %v", wait, err)
	}
	equal(t, "rows", g.data(), 0)
	equal(t, "logged", strings.Count(a.log.String(), "\n"), 2)
	equal(t, "open", a.eng.Open(), 0)
}

func TestTheLeaderClearsForAll(t *testing.T) {
	t.Parallel()
	g := newTogether(t)
	a, b := g.process(Options{}), g.process(Options{})
	b.leads.Store(true)
	b.clear()
	big := strings.Repeat("x", 100_000)
	for i := range 30 {
		a.want(fmt.Sprintf("set key%d %s", i, big), "OK")
	}
	a.want("set stays v", "OK")
	for i := range 30 {
		a.want(fmt.Sprintf("del key%d", i), "1")
	}
	g.pass(garbageEvery.Milliseconds())
	a.clear()
	if n := g.data(); n < 30 {
		t.Errorf("%d rows: who does not lead has cleared", n)
	}
	b.clear()
	equal(t, "rows", g.data(), 1)
	if n := b.w.Stats().Cleared; n < 30*10 {
		t.Errorf("%d rows were cleared", n)
	}

	for i := range 500 {
		a.want(fmt.Sprintf("set key%d v", i), "OK")
	}
	a.want("set large "+big, "OK")
	a.want("flushall", "OK")
	g.pass(garbageEvery.Milliseconds())
	b.clear()
	equal(t, "rows", g.data(), 0)
	equal(t, "log", a.log.String()+b.log.String(), "")
	equal(t, "open", a.eng.Open()+b.eng.Open(), 0)
}

// Two that believe to lead get in each other's way, and no more.
func TestTwoLeaders(t *testing.T) {
	t.Parallel()
	g := newTogether(t)
	a, b := g.process(Options{}), g.process(Options{})
	a.leads.Store(true)
	b.leads.Store(true)
	big := strings.Repeat("x", 50_000)
	for i := range 200 {
		a.want(fmt.Sprintf("set key%d %s px 10", i, big[:1+i*200]), "OK")
	}
	g.pass(10)
	for g.data() > 0 {
		g.pass(garbageEvery.Milliseconds())
		var wait sync.WaitGroup
		for _, p := range []*process{a, b} {
			wait.Go(func() {
				for _, f := range []func(context.Context) error{p.w.Sweep, p.w.Clear} {
					if err := f(context.Background()); err != nil && !errors.Is(err, engine.ErrConflict) {
						t.Error(err)
					}
				}
			})
		}
		wait.Wait()
		if t.Failed() {
			return
		}
	}
	equal(t, "expired", a.x.Stats.Expired.Load()+b.x.Stats.Expired.Load(), 200)
	a.want("dbsize", "0")
	equal(t, "log", a.log.String()+b.log.String(), "")
}

func TestRecount(t *testing.T) {
	t.Parallel()
	g := newTogether(t)
	a, b := g.process(Options{}), g.process(Options{})
	for i := range 100 {
		a.want(fmt.Sprintf("set key%d v", i), "OK")
	}
	recount := func(p *process) int64 {
		n, err := p.w.Recount(0, func() bool { return false })
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	equal(t, "keys", recount(b), 100)
	equal(t, "log", b.log.String(), "")
	if _, err := a.x.Do(func(tx *keyspace.Tx) { tx.Rows.Batch.Add([]byte{0xff, 2, 0, 0, 0, 1}, 7) }); err != nil {
		t.Fatal(err)
	}
	a.want("dbsize", "107")
	b.eng.Inject(sharedmem.Fault{Err: engine.ErrConflict})
	equal(t, "keys", recount(b), 100)
	a.want("dbsize", "100")
	if s := b.log.String(); !strings.Contains(s, "corrected") || !strings.Contains(s, "by=-7") {
		t.Errorf("log: %s", s)
	}
	// What one has deleted may be told before what another has made: never less than none.
	if _, err := a.x.Do(func(tx *keyspace.Tx) { tx.Rows.Batch.Add([]byte{0xff, 2, 0, 0, 0, 1}, -200) }); err != nil {
		t.Fatal(err)
	}
	a.want("dbsize", "0")
	if keys, _, err := a.w.Space.Count(0); keys != 0 || err != nil {
		t.Errorf("%d keys, %v", keys, err)
	}
	equal(t, "keys", recount(b), 100)
	a.want("dbsize", "100")
	if _, err := b.w.Recount(0, func() bool { return true }); !errors.Is(err, errGivenUp) {
		t.Errorf("error %v", err)
	}
	equal(t, "open", a.eng.Open()+b.eng.Open(), 0)
}

// The loops do all that, and at most once an hour they count.
func TestBackgroundTogether(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := &together{t: t, store: sharedmem.New()}
		var asked atomic.Int64
		a := g.process(Options{RecountDue: func() bool { asked.Add(1); return true }})
		b := g.process(Options{})
		a.leads.Store(true)
		ctx, cancel := context.WithCancel(context.Background())
		var wait sync.WaitGroup
		for _, p := range []*process{a, b} {
			wait.Go(func() { p.x.FollowCatalog(ctx) })
			wait.Go(func() { p.w.Run(ctx) })
		}
		for _, leader := range []*process{a, b} {
			b.want("set key v px 10", "OK")
			b.want("set large "+strings.Repeat("x", 100_000), "OK")
			b.want("del large", "1")
			claims := a.eng.Claims() + b.eng.Claims()
			time.Sleep(garbageEvery + 2*time.Second)
			equal(t, "places of clients taken", a.eng.Claims()+b.eng.Claims()-claims, 0)
			equal(t, "rows", g.data(), 0)
			equal(t, "expired", leader.x.Stats.Expired.Load(), 1)
			a.leads.Store(false)
			b.leads.Store(true)
		}
		equal(t, "counts", asked.Load(), 1)
		cancel()
		wait.Wait()
		equal(t, "log", a.log.String()+b.log.String(), "")
	})
}

// While nobody stores anything that dies, the leader asks for little; what others store
// after such a time is removed as soon as they have told that they have.
func TestIdleLeader(t *testing.T) {
	t.Parallel()
	g := newTogether(t)
	var told atomic.Uint64 // what b has heard of a
	a, b := g.process(Options{}), g.process(Options{News: told.Load})
	b.leads.Store(true)
	hear := func() { told.Store(a.w.Deferred()) }
	ticks := func(n int) (trips int64) {
		for range n {
			g.pass(clearEvery.Milliseconds())
			before := b.eng.Trips()
			b.sweep()
			b.clear()
			trips += b.eng.Trips() - before
		}
		return trips
	}
	const minute = 600
	busy := ticks(minute)
	idle := ticks(5 * minute)
	// Each minute it reads 256 groups for expire rows and a fifth of them for garbage, each
	// share at a moment of its own, and once in a second what was flushed.
	if most := int64(5*(256+9) + 256 + 9 + 2*5*60); idle > most || idle < most/2 {
		t.Errorf("%d requests in five idle minutes, want up to %d; %d in the busy one", idle, most, busy)
	}
	a.want("set soon v px 50", "OK")
	a.want("set later v px 5000", "OK")
	a.want("set stays v", "OK")
	g.pass(100)
	hear()
	ticks(1)
	if n := g.data(); n != 3 {
		t.Errorf("%d rows after the leader has heard of it", n)
	}
	ticks(47) // b knows when the other one dies
	if n := g.data(); n != 3 {
		t.Errorf("%d rows, too early", n)
	}
	ticks(2)
	if n := g.data(); n != 1 {
		t.Errorf("%d rows after the second key has died", n)
	}
	// Garbage, of others and its own, within its usual time.
	for _, p := range []*process{a, b} {
		if n := ticks(5 * minute); n > 3*256*5 {
			t.Errorf("%d requests", n)
		}
		p.want("rpush big "+strings.Repeat("0123456789 ", 2000)+"end", "2001")
		p.want("del big", "1")
		hear()
		ticks(int(garbageEvery/clearEvery) + 40)
		if n := g.data(); n != 1 {
			t.Errorf("%d rows after a large value was deleted", n)
		}
	}
	// A commit of which nobody knows whether it happened.
	ticks(5 * minute)
	b.eng.Inject(sharedmem.Fault{Err: engine.ErrUnknownOutcome, Applied: true})
	if got := b.do("set doubt v px 50"); !strings.Contains(got, "UNKNOWN") {
		t.Errorf("set: %s", got)
	}
	ticks(1)
	if n := g.data(); n != 1 {
		t.Errorf("%d rows after the doubtful key has died", n)
	}
	// News at every turn do not keep the groups from having theirs.
	a.want("set last v px 50", "OK")
	for range expiryEvery/clearEvery + 1 {
		told.Add(1)
		ticks(1)
	}
	if n := g.data(); n != 1 {
		t.Errorf("%d rows while there are news all the time", n)
	}
}
