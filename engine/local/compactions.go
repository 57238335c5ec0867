package local

import (
	"runtime"
	"sync"
	"time"

	lsm "github.com/cockroachdb/pebble/v2"
)

// compactions is the lsm.CompactionScheduler of a store: it allows as many
// compactions at a time as Pebble asks for, up to concurrentCompactions, but none
// before release is called. Pebble's own scheduler starts one while the database is
// opened, and opening then waits for its end: after a kill under load this was most
// of the time until the first reply (docs/bench/2026-11-16-recovery.md).
//
// Pebble calls TrySchedule and UpdateGetAllowedWithoutPermission with its mutex
// held, and takes its mutex in GetWaitingCompaction and Schedule: mu must not be
// held when those are called.
type compactions struct {
	db lsm.DBForCompaction // set before anything else is called

	mu       sync.Mutex
	granted  sync.Cond // on mu; signalled when granting becomes false
	released bool
	closed   bool
	granting bool // a goroutine is in grant
	running  int

	wake, stop chan struct{}
	asking     sync.WaitGroup
}

// askAgain is how often Pebble is asked whether a compaction waits: the number that it
// allows may grow without a call.
const askAgain = 100 * time.Millisecond

var _ lsm.CompactionScheduler = (*compactions)(nil)

func newCompactions() *compactions {
	c := &compactions{wake: make(chan struct{}, 1), stop: make(chan struct{})}
	c.granted.L = &c.mu
	return c
}

// Register implements lsm.CompactionScheduler.
func (c *compactions) Register(_ int, db lsm.DBForCompaction) { c.db = db }

// release lets compactions begin. It is called once, after the database was opened.
func (c *compactions) release() {
	c.mu.Lock()
	c.released = true
	c.mu.Unlock()
	c.asking.Go(func() {
		tick := time.NewTicker(askAgain)
		defer tick.Stop()
		for {
			c.grant()
			select {
			case <-tick.C:
			case <-c.wake:
			case <-c.stop:
				return
			}
		}
	})
}

// Unregister implements lsm.CompactionScheduler. After it db is not called any more.
func (c *compactions) Unregister() {
	c.mu.Lock()
	c.closed = true
	for c.granting {
		c.granted.Wait()
	}
	c.mu.Unlock()
	close(c.stop)
	c.asking.Wait()
}

// TrySchedule implements lsm.CompactionScheduler.
func (c *compactions) TrySchedule() (bool, lsm.CompactionGrantHandle) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.released || c.closed || c.running >= c.allowed() {
		return false, nil
	}
	c.running++
	return true, c
}

// concurrentCompactions is how many compactions that need permission may run at a time.
var concurrentCompactions = max(1, runtime.GOMAXPROCS(0)/2)

// concurrency is Pebble's range of concurrent compactions; its maximum is one more than may
// run. Pebble asks no permission for compactions that only drop whole tables, which cost
// nothing, but starts none when the number of all is at the maximum. Under constant
// compactions the list of tables to be dropped would then pile up in memory.
func concurrency() (int, int) { return 1, concurrentCompactions + 1 }

// allowed is how many compactions may run now.
func (c *compactions) allowed() int {
	return min(c.db.GetAllowedWithoutPermission(), concurrentCompactions)
}

// UpdateGetAllowedWithoutPermission implements lsm.CompactionScheduler.
func (c *compactions) UpdateGetAllowedWithoutPermission() { wake(c.wake) }

// grant starts waiting compactions, as many as are allowed.
func (c *compactions) grant() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for c.granting && !c.closed {
		c.granted.Wait()
	}
	for c.released && !c.closed && c.running < c.allowed() {
		c.granting = true
		c.running++
		c.mu.Unlock()
		waiting, _ := c.db.GetWaitingCompaction()
		began := waiting && c.db.Schedule(c)
		c.mu.Lock()
		c.granting = false
		c.granted.Broadcast()
		if !began {
			c.running--
			return
		}
	}
}

// Done implements lsm.CompactionGrantHandle.
func (c *compactions) Done() {
	c.mu.Lock()
	c.running--
	c.mu.Unlock()
	c.grant()
}

// Started, MeasureCPU and CumulativeStats implement lsm.CompactionGrantHandle.
func (*compactions) Started()                                       {}
func (*compactions) MeasureCPU(lsm.CompactionGoroutineKind)         {}
func (*compactions) CumulativeStats(lsm.CompactionGrantHandleStats) {}
