package history

import (
	"math"
	"time"

	"redoubt/server/info"
)

// reading are the figures of one moment.
type reading struct {
	at       time.Time
	store    info.Store
	detail   map[string]int64
	clients  info.Clients
	memory   info.Memory
	limit    int64 // maxmemory
	working  int64
	in, out  int64
	commands int64
	failed   int64
	refused  int64
}

func read(from *info.Reporter, now time.Time) reading {
	stats := &from.Observer().Stats
	r := reading{
		at: now, store: from.Store(), clients: from.Clients(), memory: from.Memory(), limit: from.Config().Int("maxmemory"),
		working: from.Working().Used, refused: stats.Rejected.Load(),
	}
	r.detail = make(map[string]int64, len(r.store.Detail))
	for _, d := range r.store.Detail {
		r.detail[d.Name] = d.Value
	}
	r.in, r.out = from.Net()
	r.commands, _ = stats.Calls()
	r.failed, _ = from.Observer().Errors.Counts()
	return r
}

// figure is a column of the history.
type figure struct {
	name string
	rate bool // of is a count; the column has how much it grew in a second
	of   func(*reading) float64
}

// The percentiles of all commands are made from their histograms.
const (
	figureP50 = iota
	figureP99
	figureP999
)

func none(*reading) float64 { return math.NaN() }

// detail is a figure that only some engines have.
func detail(name string) func(*reading) float64 {
	return func(r *reading) float64 {
		v, ok := r.detail[name]
		if !ok {
			return math.NaN()
		}
		return float64(v)
	}
}

// lag is how many commits are not on disk yet.
func lag(r *reading) float64 {
	if n, ok := r.detail["journal_lag_commits"]; ok {
		return float64(n)
	}
	return float64(r.store.Pending())
}

// figures are the columns of the server.
var figures = []figure{
	figureP50:  {"p50", false, none},
	figureP99:  {"p99", false, none},
	figureP999: {"p999", false, none},
	{"commands", true, func(r *reading) float64 { return float64(r.commands) }},
	{"errors", true, func(r *reading) float64 { return float64(r.failed) }},
	{"hits", true, func(r *reading) float64 { return float64(r.store.Hits) }},
	{"misses", true, func(r *reading) float64 { return float64(r.store.Misses) }},
	{"cold_commands", true, func(r *reading) float64 { return float64(r.store.Cold) }},
	{"cold_reads", true, detail("cold_reads")},
	{"expired", true, func(r *reading) float64 { return float64(r.store.Expired) }},
	{"changes", true, func(r *reading) float64 { return float64(r.store.Changes) }},
	{"slowed", true, func(r *reading) float64 { return float64(r.store.Slowed) }},
	{"net_in", true, func(r *reading) float64 { return float64(r.in) }},
	{"net_out", true, func(r *reading) float64 { return float64(r.out) }},
	{"clients", false, func(r *reading) float64 { return float64(r.clients.Connected) }},
	{"clients_blocked", false, func(r *reading) float64 { return float64(r.clients.Blocked) }},
	{"clients_refused", true, func(r *reading) float64 { return float64(r.refused) }},
	{"clients_memory", false, func(r *reading) float64 { return float64(r.clients.Charged) }},
	{"memory_limit", false, func(r *reading) float64 { return float64(r.limit) }},
	{"memory_used", false, func(r *reading) float64 { return float64(r.memory.Used) }},
	{"memory_rss", false, func(r *reading) float64 { return float64(r.memory.RSS) }},
	{"memory_heap", false, func(r *reading) float64 { return float64(r.memory.Heap) }},
	{"memory_working", false, func(r *reading) float64 { return float64(r.working) }},
	{"memory_engine", false, func(r *reading) float64 { return float64(r.store.MemoryBytes) }},
	{"resident", false, detail("resident_mapped_bytes")},
	{"resident_limit", false, detail("resident_limit_bytes")},
	{"dirty", false, detail("dirty_bytes")},
	{"dirty_limit", false, detail("dirty_limit_bytes")},
	{"block_cache", false, detail("block_cache_bytes")},
	{"evicted", true, detail("rows_evicted")},
	{"disk", false, func(r *reading) float64 { return float64(r.store.DiskBytes) }},
	{"disk_free", false, detail("disk_free_bytes")},
	{"commits", true, func(r *reading) float64 { return float64(r.store.Commits) }},
	{"lag_commits", false, lag},
	{"lag_bytes", false, detail("journal_unsynced_bytes")},
	{"journal", false, detail("journal_since_checkpoint_bytes")},
	{"syncs", true, func(r *reading) float64 { return float64(r.store.Syncs) }},
	{"sync_nanos", true, func(r *reading) float64 { return float64(r.store.SyncNanos) }},
	{"commit_waits", true, detail("commits_waited")},
	{"writeback_bytes", true, detail("writeback_bytes")},
	{"writeback_rounds", true, detail("writeback_rounds")},
	{"compactions", true, detail("compactions")},
	{"compactions_running", false, detail("compactions_running")},
	{"compaction_debt", false, detail("compaction_debt_bytes")},
}
