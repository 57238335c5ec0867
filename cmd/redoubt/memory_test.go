package main

import (
	"log/slog"
	"math"
	"runtime/debug"
	"strings"
	"testing"
	"time"

	"redoubt/budget"
	"redoubt/config"
	"redoubt/engine/local"
	"redoubt/internal/race"
	"redoubt/internal/rss"
)

// usual is a process with a budget at work: the rows have their share.
func usual(budget, share int64) footprint {
	return footprint{budget: budget, rows: share + share/20, share: share, live: 24 << 20, runtime: 6 << 20, besides: programSize}
}

var budgets = map[int64]footprint{
	64 << 20:   usual(64<<20, 27<<20),
	128 << 20:  usual(128<<20, 78<<20),
	256 << 20:  usual(256<<20, 180<<20),
	1024 << 20: usual(1024<<20, 752<<20),
}

// What rows and heap may take together is below the bound, whatever the budget, and
// without clients that hold anything the rows have most of their share.
func TestLimitsAddUp(t *testing.T) {
	t.Parallel()
	for budget, u := range budgets {
		if n := u.reserve(); n > u.share/2 {
			t.Errorf("budget %d: the rows leave %d of %d for nobody", budget, n, u.share)
		}
		if sum, bound := u.rows+u.heap()+u.besides, rss.Bound(budget); sum > bound || sum < budget {
			t.Errorf("budget %d: limits add up to %d, the bound is %d", budget, sum, bound)
		}
	}
}

// Rows give way to what clients and commands hold, at once.
func TestRowsGiveWayToClients(t *testing.T) {
	t.Parallel()
	for budget, u := range budgets {
		before := u.reserve()
		u.held = budget / 8
		if n := u.reserve(); n < u.held || n < before {
			t.Errorf("budget %d, %d held: the rows leave %d, %d before", budget, u.held, n, before)
		}
	}
}

// Rows give way to a heap that is larger than what is accounted for, and the heap gets
// what they have left: the sum stays where it was.
func TestRowsGiveWayToHeap(t *testing.T) {
	t.Parallel()
	for budget, u := range budgets {
		u.live += budget / 3
		n := u.reserve()
		if n == 0 || n > u.live+u.live/4 {
			t.Errorf("budget %d, %d live: the rows leave %d", budget, u.live, n)
		}
		u.share -= n
		u.rows = u.share + u.share/16
		if u.need() > u.heap() {
			t.Errorf("budget %d, %d live: the rows left %d, and the heap may take %d", budget, u.live, n, u.heap())
		}
		if sum, bound := u.rows+u.heap()+u.besides, rss.Bound(budget); sum > bound {
			t.Errorf("budget %d, %d live: limits add up to %d, the bound is %d", budget, u.live, sum, bound)
		}
	}
}

// The heap's limit never lies below what is live: the collector would run without end.
func TestHeapHasRoom(t *testing.T) {
	t.Parallel()
	u := usual(64<<20, 27<<20)
	u.live = 200 << 20
	if n := u.heap(); n <= u.live {
		t.Errorf("limit %d with %d live", n, u.live)
	}
}

func TestReadHeap(t *testing.T) {
	t.Parallel()
	var u footprint
	resident := u.readHeap()
	if u.live <= 0 || u.runtime <= 0 || resident <= u.runtime {
		t.Errorf("%d resident, %+v", resident, u)
	}
	if n := besides(resident, 0); n <= 0 {
		t.Errorf("%d besides", n)
	}
}

// The rows' limit follows what clients hold, down and up again, while the server runs.
func TestBudgetIsKept(t *testing.T) {
	if race.Enabled {
		t.Skip("the memory of the race detector itself would count, and rows give way to it")
	}
	const maxmemory = 256 << 20
	cfg := config.NewWithMemory(1 << 30)
	if err := cfg.Load("x.conf", strings.NewReader("maxmemory 256mb\ndir "+t.TempDir())); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { debug.SetMemoryLimit(math.MaxInt64) })
	held := new(budget.Budget)
	store, err := opener(cfg, held, slog.New(slog.DiscardHandler), nil)(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	}()
	if n := debug.SetMemoryLimit(-1); n > rss.Bound(maxmemory) {
		t.Errorf("the heap may take %d", n)
	}
	limit := func() int64 {
		for _, s := range store.Stats().Detail {
			if s.Name == "resident_limit_bytes" {
				return s.Value
			}
		}
		t.Fatal("no limit of the rows")
		return 0
	}
	await := func(want int64) {
		t.Helper()
		for end := time.Now().Add(20 * time.Second); limit() != want; time.Sleep(time.Millisecond) {
			if time.Now().After(end) {
				t.Fatalf("the rows' limit stays at %d, want %d", limit(), want)
			}
		}
	}
	share := local.RowShare(maxmemory)
	await(share)
	held.Clients.Add(30 << 20)
	work := held.Work.Lease()
	work.Force(10 << 20)
	await(share - 40<<20)
	held.Clients.Add(-30 << 20)
	await(share - 10<<20)
	work.Release()
	await(share)
}

// A front end of TiKV has no rows to give way: its heap alone keeps to the budget, and
// follows it. That does not wait for the cluster.
func TestHeapIsLimitedOnTiKV(t *testing.T) {
	if race.Enabled {
		t.Skip("the memory of the race detector itself would count")
	}
	cfg := config.NewWithMemory(1 << 30)
	if err := cfg.Load("x.conf", strings.NewReader("engine tikv\nmaxmemory 256mb")); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { debug.SetMemoryLimit(math.MaxInt64) })
	if _, err := opener(cfg, new(budget.Budget), slog.New(slog.DiscardHandler), nil)(t.Context(), nil); err == nil {
		t.Fatal("a cluster was found")
	}
	await := func(what string, ok func(limit int64) bool) {
		t.Helper()
		for end := time.Now().Add(20 * time.Second); !ok(debug.SetMemoryLimit(-1)); time.Sleep(time.Millisecond) {
			if time.Now().After(end) {
				t.Fatalf("%s: the heap may take %d", what, debug.SetMemoryLimit(-1))
			}
		}
	}
	within := func(maxmemory int64) func(int64) bool {
		return func(n int64) bool { return n > maxmemory/2 && n < rss.Bound(maxmemory) }
	}
	await("256mb", within(256<<20))
	set := func(value string) {
		t.Helper()
		if err := cfg.Set("maxmemory", value); err != nil {
			t.Fatal(err)
		}
	}
	set("1gb")
	await("1gb", within(1<<30))
	set("0")
	await("no limit", func(n int64) bool { return n == math.MaxInt64 })
}
