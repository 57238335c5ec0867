package local

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
		c.m, c.at = e.store.db.Metrics(), time.Now()
	}
	if c.m == nil {
		c.m = new(lsm.Metrics)
	}
	return c.m
}

// Stats implements engine.Engine.
func (e *Engine) Stats() engine.Stats {
	m := e.metrics()
	j := e.journal.Stats()
	g := e.pin()
	defer g.unpin()
	f := g.set.Figures()
	s := engine.Stats{
		MemoryBytes:   f.Mapped + m.BlockCache.Size,
		OffHeapBytes:  e.OffHeap(),
		DiskBytes:     int64(m.DiskSpaceUsage()) + j.Bytes,
		CacheHits:     e.hits.Load(),
		CacheMisses:   e.coldReads.Load(),
		Commits:       e.commits.Load(),
		Syncs:         j.Syncs,
		SyncNanos:     j.SyncNanos,
		PendingTicket: max(0, int64(e.Committed()-e.Durable())), // a follower may have to catch up
	}
	add := func(name string, value int64) { s.Detail = append(s.Detail, engine.Stat{Name: name, Value: value}) }
	add("resident_rows", f.Rows)
	add("resident_bytes", f.Bytes)
	add("resident_mapped_bytes", f.Mapped)
	add("resident_limit_bytes", e.rowLimit.Load())
	add("resident_tombstones", f.Dead)
	add("resident_range_deletes", f.PendingRanges)
	add("resident_kept_bytes", g.set.PinnedBytes())
	add("complete_slots", f.Complete)
	add("incomplete_slots", f.Incomplete)
	names, nameBytes, ready := g.set.FilterFigures()
	add("filter_keys", names)
	add("filter_bytes", nameBytes)
	add("filter_ready", ready)
	add("cold_reads", e.coldReads.Load())
	add("cold_reads_quick", e.noWaitReads.Load())
	add("rows_evicted", f.Evicted)
	add("evict_nanos", e.evictNanos.Load())
	add("snapshot_undo_bytes", g.set.UndoBytes())
	add("snapshots_revoked", e.revoked.Load())
	add("rows_moved", e.rowsMoved.Load())
	add("rows_filled", e.filled.Load())
	add("fill_nanos", e.fillNanos.Load())
	add("dirty_rows", f.DirtyRows)
	add("dirty_bytes", f.DirtyBytes)
	add("dirty_limit_bytes", e.dirtyLimit.Load())
	add("commits_waited", e.waits.Load())
	add("commit_wait_nanos", e.waitNanos.Load())
	add("commits_refused", e.refusals.Load())
	add("journal_segments", int64(j.Segments))
	add("journal_bytes", j.Bytes)
	add("journal_since_checkpoint_bytes", e.journalSince())
	add("journal_unsynced_bytes", j.UnsyncedBytes)
	add("journal_lag_commits", j.Unsynced)
	add("fsync_max_nanos", j.SyncMax.Nanoseconds())
	add("checkpoint_commit", int64(e.checkpoint.Load()))
	add("checkpoint_age_seconds", (time.Now().UnixNano()-e.checkpointAt.Load())/int64(time.Second))
	add("writeback_rounds", e.rounds.Load())
	add("writeback_rows", e.roundRows.Load())
	add("writeback_bytes", e.roundBytes.Load())
	add("writeback_nanos", e.roundNanos.Load())
	add("writeback_errors", e.roundErrors.Load())
	add("disk_full", toInt(e.full.Load() != nil))
	for i, v := range e.volumes {
		prefix := [...]string{"disk_", "journal_disk_"}[i]
		add(prefix+"free_bytes", v.free.Load())
		add(prefix+"total_bytes", v.total.Load())
		add(prefix+"low", toInt(v.low.Load()))
		add(prefix+"needed_bytes", v.least())
		add(prefix+"reserve_bytes", v.reserve.bytes()-v.reserve.missing())
	}
	add("replayed_commits", e.replayed)
	add("replayed_bytes", e.replayedBytes)
	add("replay_nanos", e.replayNanos)
	add("followed_commits", e.followed.Load())
	add("rewinds", e.rewinds.Load())
	add("rewind_nanos", e.rewindNanos.Load())
	for i := range m.Levels {
		add(fmt.Sprintf("l%d_files", i), m.Levels[i].TablesCount)
		add(fmt.Sprintf("l%d_bytes", i), m.Levels[i].TablesSize)
	}
	add("l0_sublevels", int64(m.Levels[0].Sublevels))
	add("read_amp", int64(m.ReadAmp()))
	add("compactions", m.Compact.Count)
	add("compactions_running", m.Compact.NumInProgress)
	add("compactions_failed", m.Compact.FailedCount)
	add("compaction_debt_bytes", int64(m.Compact.EstimatedDebt))
	add("block_cache_bytes", m.BlockCache.Size)
	add("block_cache_hits", m.BlockCache.Hits)
	add("block_cache_misses", m.BlockCache.Misses)
	add("bloom_hits", m.Filter.Hits)
	add("bloom_misses", m.Filter.Misses)
	add("tombstones", int64(m.Keys.TombstoneCount))
	add("open_snapshots", f.Open)
	add("background_errors", e.store.backgroundErrors.Load())
	add("corruptions", e.store.corruptions.Load())
	return s
}

func toInt(b bool) int64 {
	if b {
		return 1
	}
	return 0
}
