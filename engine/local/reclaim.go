package local

import (
	"bytes"
	"context"
	"sync"

	lsm "github.com/cockroachdb/pebble/v2"
)

// Space for deleted rows. A tombstone frees nothing until it is merged with the row, and
// Pebble does that when it sees fit: after a compaction that found no space it leaves
// the keys alone for half a minute, and then waits for more tables. So while the disk is
// full the keys that rounds have deleted are compacted at once, the range of one table
// of the last level after the other: what a step writes is what is left of a few tables.

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
		d.lo = append([]byte(nil), lo...)
	}
	if !d.any || bytes.Compare(hi, d.hi) > 0 {
		d.hi = append([]byte(nil), hi...)
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

// reclaimFrom has the space of keys reclaimed that a round has deleted.
func (e *Engine) reclaimFrom(gone *deleted) {
	if lo, hi, any := gone.take(); any {
		e.deleted.add(lo, hi)
		e.disk.retryNow()
		kick(e.reclaim)
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
		lo, hi, any := e.deleted.take()
		if !any || e.full.Load() == nil {
			continue
		}
		if err := e.store.compact(ctx, lo, hi, func() bool { return e.full.Load() != nil }); err != nil {
			e.deleted.add(lo, hi) // look tries again; the disk's pauses space the tries
		}
	}
}

// compact merges the rows of a range with their tombstones, in steps, while goOn.
func (s *store) compact(ctx context.Context, lo, hi []byte, goOn func() bool) error {
	levels, err := s.db.SSTables()
	if err != nil {
		return storeError("listing the tables", err)
	}
	var last []lsm.SSTableInfo
	for _, tables := range levels {
		if len(tables) > 0 {
			last = tables
		}
	}
	for _, t := range last {
		start, end := t.Smallest.UserKey, t.Largest.UserKey
		if bytes.Compare(start, hi) > 0 || bytes.Compare(end, lo) < 0 || !goOn() {
			continue
		}
		if bytes.Equal(start, end) {
			end = append(bytes.Clone(end), 0)
		}
		if err := s.db.Compact(ctx, start, end, false); err != nil {
			return storeError("compacting the store", err)
		}
	}
	return nil
}
