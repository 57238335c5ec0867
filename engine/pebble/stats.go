package pebble

import (
	"fmt"
	"sync"
	"time"

	lsm "github.com/cockroachdb/pebble/v2"

	"redoubt/engine"
)

// statsCache keeps Pebble's metrics for a second: collecting them takes its
// mutex and walks its levels.
type statsCache struct {
	mu sync.Mutex
	at time.Time
	m  *lsm.Metrics
}

// metrics returns Pebble's own metrics, at most a second old. They must not be
// changed.
func (e *Engine) metrics() *lsm.Metrics {
	c := &e.stats
	c.mu.Lock()
	defer c.mu.Unlock()
	if (c.m == nil || time.Since(c.at) > time.Second) && !e.closed.Load() {
		c.m, c.at = e.db.Metrics(), time.Now()
	}
	if c.m == nil {
		c.m = new(lsm.Metrics)
	}
	return c.m
}

// Stats implements engine.Engine.
func (e *Engine) Stats() engine.Stats {
	m := e.metrics()
	s := engine.Stats{
		MemoryBytes:   m.BlockCache.Size + int64(m.MemTable.Size+m.MemTable.ZombieSize),
		DiskBytes:     int64(m.DiskSpaceUsage()),
		CacheHits:     m.BlockCache.Hits,
		CacheMisses:   m.BlockCache.Misses,
		Commits:       e.commits.Load(),
		Syncs:         e.disk.syncs.Load(),
		SyncNanos:     e.disk.syncNanos.Load(),
		PendingTicket: int64(e.Committed() - e.Durable()),
	}
	add := func(name string, value int64) { s.Detail = append(s.Detail, engine.Stat{Name: name, Value: value}) }
	for i := range m.Levels {
		add(fmt.Sprintf("l%d_files", i), m.Levels[i].TablesCount)
		add(fmt.Sprintf("l%d_bytes", i), m.Levels[i].TablesSize)
	}
	add("l0_sublevels", int64(m.Levels[0].Sublevels))
	add("read_amp", int64(m.ReadAmp()))
	add("flushes", m.Flush.Count)
	add("compactions", m.Compact.Count)
	add("compactions_running", m.Compact.NumInProgress)
	add("compactions_failed", m.Compact.FailedCount)
	add("compaction_debt_bytes", int64(m.Compact.EstimatedDebt))
	add("wal_files", m.WAL.Files)
	add("wal_bytes", int64(m.WAL.Size))
	add("wal_bytes_written", int64(m.WAL.BytesWritten))
	add("memtables", m.MemTable.Count)
	add("memtable_bytes", int64(m.MemTable.Size))
	add("block_cache_bytes", m.BlockCache.Size)
	add("bloom_hits", m.Filter.Hits)
	add("bloom_misses", m.Filter.Misses)
	add("tombstones", int64(m.Keys.TombstoneCount))
	add("open_snapshots", int64(m.Snapshots.Count))
	add("write_stalls", e.stalls.Load())
	add("write_stall_nanos", e.stallNanos.Load())
	add("commits_refused", e.refusals.Load())
	add("background_errors", e.backgroundErrors.Load())
	add("corruptions", e.corruptions.Load())
	return s
}
