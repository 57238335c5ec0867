package local

import (
	"runtime"
	"testing"

	lsm "github.com/cockroachdb/pebble/v2"
)

// backlog is a database of which compactions wait without end.
type backlog struct {
	allows int
	began  []lsm.CompactionGrantHandle
}

func (b *backlog) GetAllowedWithoutPermission() int { return b.allows }
func (b *backlog) GetWaitingCompaction() (bool, lsm.WaitingCompaction) {
	return true, lsm.WaitingCompaction{}
}

func (b *backlog) Schedule(h lsm.CompactionGrantHandle) bool {
	b.began = append(b.began, h)
	return true
}

// However many compactions wait, half of the processors work on them at most, and no more
// than Pebble allows. Pebble is told that one more may run: see concurrency.
func TestCompactionsAtOnce(t *testing.T) {
	t.Parallel()
	most := max(1, runtime.GOMAXPROCS(0)/2)
	if low, high := concurrency(); low != 1 || high != most+1 {
		t.Errorf("Pebble is told %d to %d, and %d may run", low, high, most)
	}
	for allows, want := range map[int]int{0: 0, 1: 1, most: most, most + 1: most, 100: most} {
		db := &backlog{allows: allows}
		c := newCompactions()
		c.Register(1, db)
		if ok, _ := c.TrySchedule(); ok {
			t.Error("a compaction began before the database was open")
		}
		c.released = true // and nobody asks but this test
		c.grant()
		if len(db.began) != want {
			t.Errorf("%d allowed: %d began, want %d", allows, len(db.began), want)
		}
		if ok, _ := c.TrySchedule(); ok {
			t.Errorf("%d allowed: one more began", allows)
		}
		if want > 0 { // one ends, and the next begins
			db.began[0].Done()
			if len(db.began) != want+1 || c.running != want {
				t.Errorf("%d allowed: %d have begun and %d run after one ended", allows, len(db.began), c.running)
			}
		}
		c.Unregister()
	}
}
