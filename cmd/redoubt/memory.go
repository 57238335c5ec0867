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

// The process keeps to its budget by two limits, which are adjusted as its memory
// changes (docs/adr/0024). First, the rows of the local store, which are outside of the Go
// heap, give way to the memory of clients and commands and to live objects on the heap.
// Second, the heap is limited to what rows and program leave of the most that the process
// may take; the collector enforces this limit. A front end of TiKV has no rows, so the heap
// gets all of that. On engine memory the rows may take all of the budget, so the process may take
// dataExtra more.

const (
	// budgetEvery is how often the process reads its memory figures, usageEvery how often it
	// reads those that only the operating system has.
	budgetEvery = 25 * time.Millisecond
	usageEvery  = time.Second
	// budgetStep is the least change for which a limit is set again: setting the collector's
	// limit stops the program for a moment.
	budgetStep = 1 << 20

	programSize = 48 << 20 // about the size of mapped code and constants, all of which is resident soon
	leastHeap   = 24 << 20 // the least limit of the Go heap

	smallBudget = 256 << 20 // below this budget the process may take smallExtra more
	smallExtra  = 40 << 20
	dataExtra   = 40 << 20 // on an engine whose rows may take the whole budget
)

// footprint is the memory of the process by its use.
type footprint struct {
	budget  int64 // maxmemory
	rows    int64 // mapped by the store for rows
	share   int64 // the most that rows may take while nothing else needs memory
	live    int64 // objects on the Go heap that survived the last collection
	runtime int64 // the Go runtime besides objects: stacks, tables
	besides int64 // neither rows nor Go's memory
	held    int64 // held by clients and commands
}

// most returns what the process should take at its peak: somewhat below 1.25 times the
// budget, since limits are not exact, plus smallExtra for a small budget.
func (u footprint) most() int64 {
	most := u.budget + u.budget/4 - max(u.budget/8, 20<<20, min(u.budget/4, 60<<20))
	if u.budget < smallBudget {
		most += smallExtra
	}
	if u.share >= u.budget {
		most += dataExtra
	}
	return most
}

// need returns the heap limit that keeps the collector from running all the time.
func (u footprint) need() int64 { return u.live + u.live/4 + u.runtime }

// reserve returns what the rows must leave of their share: the memory of clients and
// commands, or, if that is more, what the heap needs beyond the room beside the rows.
func (u footprint) reserve() int64 {
	beside := u.most() - u.besides - u.share - u.share/16 // rows may have mapped that much more
	return max(u.held, u.need()-beside, 0)
}

// heap returns the limit of the Go heap.
func (u footprint) heap() int64 {
	return max(u.most()-u.besides-u.rows, u.live+u.live/8+u.runtime, leastHeap)
}

// limitHeap sets the limit of the heap while the store is opened: what rows leave that take
// all of their share.
func limitHeap(budget int64) {
	if budget > 0 {
		share := local.RowShare(budget)
		debug.SetMemoryLimit(footprint{budget: budget, rows: share + share/16, besides: programSize}.heap())
	}
}

// rowStore is an engine that may have rows outside of the Go heap.
type rowStore interface {
	OffHeap() int64           // the bytes that rows take
	Share(budget int64) int64 // the most that rows may take of a budget
	Reserve(bytes int64)      // makes rows leave so much of their share
	Closed() <-chan struct{}
}

// noRows is the rowStore of an engine whose rows are on other machines.
type noRows struct{ closed <-chan struct{} }

func (noRows) OffHeap() int64            { return 0 }
func (noRows) Share(budget int64) int64  { return local.RowShare(budget) }
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
		u.rows, u.share, u.held = eng.OffHeap(), eng.Share(u.budget), held.Used()
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

// changed reports whether a limit differs from the one in force by budgetStep or more.
func changed(now, set int64) bool { return now-set >= budgetStep || set-now >= budgetStep }

// readHeap reads the figures of the Go runtime, and returns how much memory it has from the
// operating system.
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

// besides returns the memory of the process besides the Go heap and the rows: the program
// itself, and C's allocations in a build with cgo.
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
