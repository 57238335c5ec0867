package main

import (
	"fmt"
	"math"
	"os"
	"runtime/debug"
	"runtime/metrics"
	"time"

	"redoubt/budget"
	"redoubt/config"
	"redoubt/engine/local"
)

// The process keeps to its budget by two limits, which are set anew as its memory
// changes (docs/adr/0024): the rows of the local store, which are outside of the Go
// heap, give way to what clients and commands hold and to what is live on the heap;
// the heap gets what the rows and the program leave of the most that the process may
// take, and the collector keeps it below. A front end of TiKV has no rows, and leaves all
// of that to the heap. Engine mem has its rows on the heap, and no limit: with maxmemory
// full of rows the collector would run most of the time (docs/adr/0024).

const (
	// budgetEvery is the time between two looks at the memory, usageEvery that between
	// two looks at what only the system knows.
	budgetEvery = 25 * time.Millisecond
	usageEvery  = time.Second
	// budgetStep is the change from which on limits are set anew: to set the
	// collector's stops the program for a moment.
	budgetStep = 1 << 20

	programSize = 32 << 20 // code and constants, as they are mapped, about
	leastHeap   = 32 << 20 // what the Go heap may take in any case

	smallBudget = 256 << 20 // below, the process may take smallExtra more
	smallExtra  = 40 << 20
)

// footprint is where the memory of the process is.
type footprint struct {
	budget  int64 // maxmemory
	rows    int64 // what the store has mapped for rows
	share   int64 // the most that rows may take while nobody else needs memory
	live    int64 // objects on the Go heap that the last collection left
	runtime int64 // of the Go runtime besides objects: stacks, tables
	besides int64 // neither rows nor Go's
	held    int64 // by clients and commands
}

// most is what the process should take at its peak: somewhat below 1.25 times the
// budget, and 40 MB for a small one, since limits are not exact.
func (u footprint) most() int64 {
	most := u.budget + u.budget/4 - max(u.budget/8, 20<<20, min(u.budget/4, 60<<20))
	if u.budget < smallBudget {
		most += smallExtra
	}
	return most
}

// need is what the Go heap needs for the collector not to run all the time.
func (u footprint) need() int64 { return u.live + u.live/4 + u.runtime }

// reserve is what the rows have to leave of their share: what clients and commands
// hold, or, if that is more, what is live on the heap and finds no room beside them.
func (u footprint) reserve() int64 {
	beside := u.most() - u.besides - u.share - u.share/16 // rows may have mapped that much more
	return max(u.held, u.need()-beside, 0)
}

// heap is the limit of the Go heap.
func (u footprint) heap() int64 {
	return max(u.most()-u.besides-u.rows, u.live+u.live/8+u.runtime, leastHeap)
}

// limitHeap sets the limit of the heap for the time in which the store is opened: as
// much as rows that take all of their share leave.
func limitHeap(budget int64) {
	if budget > 0 {
		share := local.RowShare(budget)
		debug.SetMemoryLimit(footprint{budget: budget, rows: share + share/16, besides: programSize}.heap())
	}
}

// rowStore is an engine that may have rows outside of the Go heap.
type rowStore interface {
	OffHeap() int64      // what they take
	Reserve(bytes int64) // has them leave so much of their share
	Closed() <-chan struct{}
}

// noRows stands for an engine without: its rows are on other machines.
type noRows struct{ closed <-chan struct{} }

func (noRows) OffHeap() int64            { return 0 }
func (noRows) Reserve(int64)             {}
func (n noRows) Closed() <-chan struct{} { return n.closed }

// keepBudget sets both limits until the engine is closed.
func keepBudget(cfg *config.Config, held *budget.Budget, eng rowStore) {
	tick := time.NewTicker(budgetEvery)
	defer tick.Stop()
	var u footprint
	var looked time.Time
	reserved, limit := int64(0), int64(-1)
	for {
		u.budget = cfg.Int("maxmemory")
		u.rows, u.share, u.held = eng.OffHeap(), local.RowShare(u.budget), held.Used()
		resident := u.readHeap()
		if time.Since(looked) >= usageEvery {
			u.besides, looked = besides(resident, u.rows), time.Now()
		}
		reserve, heap := u.reserve(), u.heap()
		if u.budget <= 0 {
			reserve, heap = 0, math.MaxInt64
		}
		if changed(reserve, reserved) {
			eng.Reserve(reserve)
			reserved = reserve
		}
		if changed(heap, limit) {
			debug.SetMemoryLimit(heap)
			limit = heap
		}
		select {
		case <-tick.C:
		case <-eng.Closed():
			return
		}
	}
}

// changed says whether a limit differs from what was set so much that it is set anew.
func changed(now, set int64) bool { return now-set >= budgetStep || set-now >= budgetStep }

// readHeap reads what the Go runtime knows, and returns how much memory it has from
// the system.
func (u *footprint) readHeap() (resident int64) {
	samples := [...]metrics.Sample{
		{Name: "/gc/heap/live:bytes"}, {Name: "/memory/classes/total:bytes"}, {Name: "/memory/classes/heap/released:bytes"},
		{Name: "/memory/classes/heap/free:bytes"}, {Name: "/memory/classes/heap/objects:bytes"}, {Name: "/memory/classes/heap/unused:bytes"},
	}
	metrics.Read(samples[:])
	v := func(i int) int64 { return int64(samples[i].Value.Uint64()) }
	u.live, resident = v(0), v(1)-v(2)
	u.runtime = resident - v(3) - v(4) - v(5)
	return resident
}

// besides is what the process has in memory besides the Go heap and the rows: the
// program itself, and what a build with cgo has C allocate.
func besides(heap, rows int64) int64 {
	text, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		return programSize
	}
	var size, resident, shared int64 // in pages
	if _, err := fmt.Sscan(string(text), &size, &resident, &shared); err != nil {
		return programSize
	}
	page := int64(os.Getpagesize())
	return max(shared*page, resident*page-heap-rows)
}
