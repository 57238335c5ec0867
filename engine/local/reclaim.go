package local

import (
	"bytes"
	"context"
	"sync"
	"time"

	lsm "github.com/cockroachdb/pebble/v2"
)

// This file reclaims the space of deleted rows. A tombstone frees nothing until a compaction
// merges it with the row, whenever Pebble chooses to. So while the disk is full the keys
// that rounds have deleted are compacted at once, by the range of one table of the last
// level after the other: a step writes only the remaining rows of a few tables.

// deleted is the range of the keys that were deleted while the disk was full.
type deleted struct {
	mu  sync.Mutex
	any bool
	lo  []byte
	hi  []byte // inclusive
}

func (d *deleted) add(lo, hi []byte) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.any || bytes.Compare(lo, d.lo) < 0 {
		d.lo = append(d.lo[:0], lo...)
	}
	if !d.any || bytes.Compare(hi, d.hi) > 0 {
		d.hi = append(d.hi[:0], hi...)
	}
	d.any = true
}

// take returns the range, and forgets it.
func (d *deleted) take() (lo, hi []byte, any bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	lo, hi, any = d.lo, d.hi, d.any
	d.lo, d.hi, d.any = nil, nil, false
	return lo, hi, any
}

// reclaimPause is the pause after a try that was not completed.
const reclaimPause = 2 * time.Second

// reclaimFrom requests that the space of keys that a round has deleted be reclaimed.
func (e *Engine) reclaimFrom(gone *deleted) {
	if lo, hi, any := gone.take(); any {
		e.deleted.add(lo, hi)
		wake(e.reclaim)
	}
}

// reclaimLoop compacts deleted keys while the disk is full.
func (e *Engine) reclaimLoop() {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go func() {
		select {
		case <-e.stop:
			cancel()
		case <-ctx.Done():
		}
	}()
	for {
		select {
		case <-e.stop:
			return
		case <-e.reclaim:
		}
		if e.full.Load() == nil {
			continue // the range is kept until the disk is full again
		}
		lo, hi, any := e.deleted.take()
		if !any {
			continue
		}
		e.disk.retryNow() // a paused compaction would block this one
		done, err := e.store.compact(ctx, lo, hi, func() bool { return e.full.Load() != nil })
		if done && err == nil {
			continue
		}
		e.deleted.add(lo, hi) // Engine.checkSpace requests a retry
		select {
		case <-e.stop:
			return
		case <-time.After(reclaimPause):
		}
	}
}

// compact merges the rows of a range with their tombstones, in steps, while goOn returns
// true. done reports whether it reached the end and anything was compacted: while Pebble
// is compacting the same tables it drops requests without an error.
func (s *store) compact(ctx context.Context, lo, hi []byte, goOn func() bool) (done bool, err error) {
	before := s.compacted()
	levels, err := s.db.SSTables()
	if err != nil {
		return false, storeError("listing the tables", err)
	}
	var last []lsm.SSTableInfo
	for _, tables := range levels {
		if len(tables) > 0 {
			last = tables
		}
	}
	for _, t := range last {
		start, end := t.Smallest.UserKey, t.Largest.UserKey
		if !goOn() {
			return false, nil
		}
		if bytes.Compare(start, hi) > 0 || bytes.Compare(end, lo) < 0 {
			continue
		}
		if bytes.Equal(start, end) {
			end = append(bytes.Clone(end), 0)
		}
		if err := s.db.Compact(ctx, start, end, false); err != nil {
			return false, storeError("compacting the store", err)
		}
	}
	return s.compacted() > before, nil
}

// compacted is how many compactions have succeeded.
func (s *store) compacted() int64 {
	m := s.db.Metrics()
	return m.Compact.Count - m.Compact.FailedCount
}
