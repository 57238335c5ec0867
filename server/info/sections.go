package info

import (
	"fmt"
	"hash/fnv"
	"maps"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"redoubt/server/admin"
	"redoubt/version"
)

// The sections of INFO about the server and its state.

func writeServer(t *text) {
	cfg, srv := t.r.Config(), t.r.Server()
	now := time.Now()
	up := now.Sub(srv.Started)
	build := version.Current()
	t.nums("redis_version", version.Redis, "redoubt_version", version.Redoubt, "redoubt_commit", build.Commit, "redoubt_built", build.Time,
		"redis_git_sha1", build.Short(), "redis_git_dirty", admin.BoolInt(build.Dirty), "redis_build_id", buildID(),
		"redis_mode", srv.Mode, "os", systemName(), "arch_bits", strconv.IntSize,
		"monotonic_clock", "Go runtime", "multiplexing_api", srv.Multiplexing, "atomicvar_api", "go-builtin",
		"gcc_version", "0.0.0", "go_version", runtime.Version(), "process_id", os.Getpid(), "process_supervised", "no",
		"run_id", t.r.runID, "tcp_port", srv.Port, "server_time_usec", now.UnixMicro(),
		"uptime_in_seconds", int64(up.Seconds()), "uptime_in_days", int64(up.Hours()/24),
		"hz", cfg.Int("hz"), "configured_hz", cfg.Int("hz"), "lru_clock", now.Unix()&(1<<24-1),
		"executable", executable(), "config_file", cfg.File(), "io_threads_active", admin.BoolInt(srv.Loops > 1))
	for _, l := range srv.Listeners {
		line := fmt.Sprintf("listener%d:name=%s", l.Number, l.Kind)
		for _, b := range l.Binds {
			line += ",bind=" + b
		}
		if l.Port > 0 {
			line += ",port=" + strconv.Itoa(l.Port)
		}
		t.line("%s", line)
	}
}

// buildID returns an id of this build: 16 hexadecimal digits.
var buildID = sync.OnceValue(func() string {
	h := fnv.New64a()
	if info, ok := debug.ReadBuildInfo(); ok {
		h.Write([]byte(info.String()))
	}
	return fmt.Sprintf("%016x", h.Sum64())
})

var executable = sync.OnceValue(func() string {
	path, err := os.Executable()
	if err != nil {
		return ""
	}
	return path
})

func writeClients(t *text) {
	c := t.r.Clients()
	t.nums("connected_clients", c.Connected, "cluster_connections", c.Links, "maxclients", c.Max,
		"client_recent_max_input_buffer", c.Input, "client_recent_max_output_buffer", c.Output,
		"blocked_clients", c.Blocked, "tracking_clients", c.Tracking, "pubsub_clients", c.PubSub,
		"clients_in_timeout_table", 0, "total_blocking_keys", c.Keys, "total_blocking_keys_on_nokey", c.KeysGone)
}

func writeMemory(t *text) {
	r, m := t.r, t.r.memory(&t.store)
	limit, total, clients := r.Server().MaxMemory, systemMemory(), r.Clients().Memory
	peak, start := r.peakMemory.Load(), r.startMemory
	data := min(t.store.MemoryBytes, m.Used)
	ratio := func(a, b int64) float64 {
		if b <= 0 {
			return 0
		}
		return float64(a) / float64(b)
	}
	amount := func(name string, n int64) { t.nums(name, n, name+"_human", human(n)) }
	amount("used_memory", m.Used)
	amount("used_memory_rss", m.RSS)
	amount("used_memory_peak", peak)
	t.line("used_memory_peak_perc:%.2f%%", 100*ratio(m.Used, peak))
	t.nums("used_memory_overhead", m.Used-data, "used_memory_startup", start, "used_memory_dataset", data)
	t.line("used_memory_dataset_perc:%.2f%%", 100*ratio(data, m.Used))
	t.nums("allocator_allocated", m.Used, "allocator_active", m.Used+m.resting, "allocator_resident", m.RSS)
	amount("total_system_memory", total)
	writeScripts(t)
	amount("maxmemory", limit)
	t.nums("maxmemory_policy", r.Config().Enum("maxmemory-policy"))
	t.line("allocator_frag_ratio:%.2f", ratio(m.Used+m.resting, m.Used))
	t.num("allocator_frag_bytes", m.resting)
	t.line("allocator_rss_ratio:%.2f", ratio(m.RSS, m.Used+m.resting))
	t.num("allocator_rss_bytes", m.RSS-m.Used-m.resting)
	t.nums("rss_overhead_ratio", "1.00", "rss_overhead_bytes", 0)
	t.line("mem_fragmentation_ratio:%.2f", ratio(m.RSS, m.Used))
	t.num("mem_fragmentation_bytes", m.RSS-m.Used)
	f := t.r.Features()
	t.zeros("mem_not_counted_for_evict")
	t.nums("mem_replication_backlog", f.Backlog, "mem_total_replication_buffers", f.Stream, "mem_clients_slaves", f.Stream-f.Backlog)
	t.num("mem_clients_normal", clients)
	work := r.Working()
	t.nums("mem_working", work.Used, "mem_working_limit", work.Limit, "mem_working_peak", work.Most,
		"mem_working_waiting", work.Waiting, "mem_working_refused", work.Refused)
	t.zeros("mem_cluster_links", "mem_aof_buffer")
	t.nums("mem_allocator", "go", "active_defrag_running", 0)
	t.num("lazyfree_pending_objects", admin.BoolInt(t.store.Clearing))
	t.num("lazyfreed_objects", t.store.Dropped)
}

func writePersistence(t *text) {
	s := t.r.Saves()
	onDisk := t.store.OnDisk
	write := "ok"
	if t.store.Err != nil {
		write = "err"
	}
	progress, loading := t.r.Loading()
	t.num("loading", admin.BoolInt(loading))
	begun, done, total, transfer := t.r.Transfer()
	t.num("async_loading", admin.BoolInt(transfer))
	t.zeros("current_cow_peak", "current_cow_size", "current_cow_size_age")
	t.nums("current_fork_perc", "0.00", "current_save_keys_processed", 0, "current_save_keys_total", 0,
		"rdb_changes_since_last_save", t.store.Changes-s.Changes,
		"rdb_bgsave_in_progress", admin.BoolInt(s.Running), "rdb_last_save_time", s.Last.Unix(),
		"rdb_last_bgsave_status", s.Status(), "rdb_last_bgsave_time_sec", s.LastSeconds(), "rdb_current_bgsave_time_sec", s.RunningSeconds(),
		"rdb_saves", s.Saves, "rdb_last_cow_size", 0, "rdb_last_load_keys_expired", 0, "rdb_last_load_keys_loaded", 0,
		"aof_enabled", admin.BoolInt(onDisk), "aof_rewrite_in_progress", 0, "aof_rewrite_scheduled", 0,
		"aof_last_rewrite_time_sec", -1, "aof_current_rewrite_time_sec", -1, "aof_last_bgrewrite_status", "ok",
		"aof_rewrites", 0, "aof_rewrites_consecutive_failures", 0, "aof_last_write_status", write,
		"aof_last_cow_size", 0, "module_fork_in_progress", 0, "module_fork_last_cow_size", 0)
	if onDisk {
		t.nums("aof_current_size", t.store.DiskBytes, "aof_base_size", t.store.DiskBytes, "aof_pending_rewrite", 0,
			"aof_buffer_length", 0, "aof_pending_bio_fsync", t.store.PendingTicket, "aof_delayed_fsync", 0)
	}
	switch {
	case loading:
		writeLoading(t, progress)
	case transfer && total > 0:
		seconds := time.Since(begun).Seconds()
		writeLoading(t, Loading{
			Start: begun, Done: done, Total: total, Percent: 100 * float64(done) / float64(total),
			Seconds: int64(seconds * float64(total-done) / float64(max(1, done))),
		})
	}
}

func writeReplication(t *text) {
	t.r.Replication(func(name string, value any) { t.nums(name, value) })
}

func writeCPU(t *text) {
	sys, user := cpuTime()
	t.line("used_cpu_sys:%.6f", sys.Seconds())
	t.line("used_cpu_user:%.6f", user.Seconds())
	t.line("used_cpu_sys_children:%.6f", 0.0)
	t.line("used_cpu_user_children:%.6f", 0.0)
}

func writeErrorStats(t *text) {
	_, codes := t.r.Observer().Errors.Counts()
	for _, code := range slices.Sorted(maps.Keys(codes)) {
		t.line("errorstat_%s:count=%d", safe(code), codes[code])
	}
}

// safe replaces characters that would break a line of INFO.
func safe(s string) string {
	return strings.Map(func(r rune) rune {
		if strings.ContainsRune("#:\n\r", r) {
			return '_'
		}
		return r
	}, s)
}

func writeKeyspace(t *text) {
	err := t.r.Databases(func(db int, keys, volatile int64) bool {
		if keys > 0 {
			t.line("db%d:keys=%d,expires=%d,avg_ttl=0", db, keys, volatile)
		}
		return true
	})
	if err != nil {
		t.r.ClientLog().Error("counting keys for INFO failed", "err", err)
	}
}

// writeLoading writes the progress, as Redis does while it loads.
func writeLoading(t *text, l Loading) {
	t.nums("loading_start_time", l.Start.Unix(), "loading_total_bytes", l.Total, "loading_rdb_used_mem", 0,
		"loading_loaded_bytes", l.Done)
	t.line("loading_loaded_perc:%.2f", l.Percent)
	t.num("loading_eta_seconds", l.Seconds)
}

// writeScripts writes the lines about scripts.
func writeScripts(t *text) {
	f := t.r.Scripts()
	amount := func(name string, n int64) { t.nums(name, n, name+"_human", human(n)) }
	t.nums("used_memory_lua", f.EvalVMBytes, "used_memory_vm_eval", f.EvalVMBytes, "used_memory_lua_human", human(f.EvalVMBytes),
		"used_memory_scripts_eval", f.ScriptBytes, "number_of_cached_scripts", f.Scripts,
		"number_of_functions", f.Functions, "number_of_libraries", f.Libraries, "used_memory_vm_functions", f.FunctionVMBytes)
	amount("used_memory_vm_total", f.EvalVMBytes+f.FunctionVMBytes)
	t.num("used_memory_functions", f.FunctionBytes)
	amount("used_memory_scripts", f.ScriptBytes+f.FunctionBytes)
	t.nums("running_scripts", f.Running, "longest_running_script_ms", f.Longest.Milliseconds())
}
