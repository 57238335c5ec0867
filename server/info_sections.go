package server

import (
	"maps"
	"net"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// The sections of INFO that tell what the server is and does.

func infoServer(t *infoText) {
	srv := t.srv
	up := time.Since(srv.started)
	now := time.Now()
	t.nums("redis_version", RedisVersion, "redoubt_version", Version,
		"redis_git_sha1", "00000000", "redis_git_dirty", 0, "redis_build_id", buildID(),
		"redis_mode", srv.mode(), "os", systemName(), "arch_bits", strconv.IntSize,
		"monotonic_clock", "Go runtime", "multiplexing_api", srv.multiplexing(), "atomicvar_api", "go-builtin",
		"gcc_version", "0.0.0", "go_version", runtime.Version(), "process_id", os.Getpid(), "process_supervised", "no",
		"run_id", srv.runID, "tcp_port", srv.tcpPort(), "server_time_usec", now.UnixMicro(),
		"uptime_in_seconds", int64(up.Seconds()), "uptime_in_days", int64(up.Hours()/24),
		"hz", srv.cfg.Int("hz"), "configured_hz", srv.cfg.Int("hz"), "lru_clock", now.Unix()&(1<<24-1),
		"executable", executable(), "config_file", srv.cfg.File(), "io_threads_active", boolInt(len(srv.loops) > 1))
	srv.infoListeners(t)
}

// infoListeners writes a line for each kind of listener, numbered as in Redis.
func (srv *Server) infoListeners(t *infoText) {
	for i, k := range []kind{overTCP, overUnix, overTLS} {
		binds, port := "", ""
		for _, l := range srv.lns.all() {
			if l.kind == k {
				binds += ",bind=" + l.bind
				if a, ok := l.Addr().(*net.TCPAddr); ok {
					port = ",port=" + strconv.Itoa(a.Port)
				}
			}
		}
		if binds != "" {
			t.line("listener%d:name=%s%s%s", i, k, binds, port)
		}
	}
}

var executable = sync.OnceValue(func() string {
	path, err := os.Executable()
	if err != nil {
		return ""
	}
	return path
})

func (srv *Server) multiplexing() string {
	if srv.usePipes {
		return "goroutines"
	}
	return "epoll"
}

func (srv *Server) tcpPort() int {
	for _, l := range srv.lns.all() {
		if a, ok := l.Addr().(*net.TCPAddr); ok && (l.kind == overTCP || srv.cfg.Int("port") == 0) {
			return a.Port
		}
	}
	return 0
}

func boolInt(b bool) int {
	if b {
		return 1
	}
	return 0
}

// clientFigures are what INFO tells of all sessions together.
type clientFigures struct {
	in, out, memory int64
}

func (srv *Server) clientFigures() (f clientFigures) {
	for _, s := range srv.clients.list() {
		s.mu.Lock()
		f.in = max(f.in, int64(s.bufPeak))
		f.out = max(f.out, int64(s.pending()))
		f.memory += int64(s.held()) + s.pushes.charged.Load()
		s.mu.Unlock()
	}
	return f
}

func infoClients(t *infoText) {
	srv, f := t.srv, t.srv.clientFigures()
	t.nums("connected_clients", srv.clients.count.Load(), "cluster_connections", len(srv.PeerLinks()), "maxclients", srv.maxClients.Load(),
		"client_recent_max_input_buffer", f.in, "client_recent_max_output_buffer", f.out,
		"blocked_clients", srv.blockedClients())
	keys, gone := 0, 0
	if srv.ready.Load() {
		_, keys = srv.exec.Waiting()
		gone = srv.exec.WaitingGone()
	}
	t.nums("tracking_clients", srv.tracking.clients.Load(), "pubsub_clients", srv.pubsub.clients.Load(), "clients_in_timeout_table", 0, "total_blocking_keys", keys, "total_blocking_keys_on_nokey", gone)
}

// blockedClients is how many clients have a command that waits for something
// to happen.
func (srv *Server) blockedClients() int {
	n := srv.pause.waiting()
	if srv.ready.Load() {
		clients, _ := srv.exec.Waiting()
		n += clients
	}
	return n
}

func infoMemory(t *infoText) {
	srv, m := t.srv, t.srv.memory(t.eng.Stats)
	limit, total, clients := srv.maxMemory.Load(), systemMemory(), srv.clientFigures().memory
	peak, start := srv.stats.peakMemory.Load(), srv.stats.startMemory
	data := min(t.eng.MemoryBytes, m.used)
	ratio := func(a, b int64) float64 {
		if b <= 0 {
			return 0
		}
		return float64(a) / float64(b)
	}
	amount := func(name string, n int64) { t.nums(name, n, name+"_human", human(n)) }
	amount("used_memory", m.used)
	amount("used_memory_rss", m.rss)
	amount("used_memory_peak", peak)
	t.line("used_memory_peak_perc:%.2f%%", 100*ratio(m.used, peak))
	t.nums("used_memory_overhead", m.used-data, "used_memory_startup", start, "used_memory_dataset", data)
	t.line("used_memory_dataset_perc:%.2f%%", 100*ratio(data, m.used))
	t.nums("allocator_allocated", m.used, "allocator_active", m.used+m.resting, "allocator_resident", m.rss)
	amount("total_system_memory", total)
	infoScripts(t)
	amount("maxmemory", limit)
	t.nums("maxmemory_policy", srv.cfg.Enum("maxmemory-policy"))
	t.line("allocator_frag_ratio:%.2f", ratio(m.used+m.resting, m.used))
	t.num("allocator_frag_bytes", m.resting)
	t.line("allocator_rss_ratio:%.2f", ratio(m.rss, m.used+m.resting))
	t.num("allocator_rss_bytes", m.rss-m.used-m.resting)
	t.nums("rss_overhead_ratio", "1.00", "rss_overhead_bytes", 0)
	t.line("mem_fragmentation_ratio:%.2f", ratio(m.rss, m.used))
	t.num("mem_fragmentation_bytes", m.rss-m.used)
	t.zeros("mem_not_counted_for_evict", "mem_replication_backlog", "mem_total_replication_buffers", "mem_clients_slaves")
	t.num("mem_clients_normal", clients)
	work := srv.budget.Work.Figures()
	t.nums("mem_working", work.Used, "mem_working_limit", work.Limit, "mem_working_peak", work.Most,
		"mem_working_waiting", work.Waiting, "mem_working_refused", work.Refused)
	t.zeros("mem_cluster_links", "mem_aof_buffer")
	t.nums("mem_allocator", "go", "active_defrag_running", 0)
	t.num("lazyfree_pending_objects", int64(boolInt(t.eng.sweep.Clearing)))
	t.num("lazyfreed_objects", t.eng.dropped)
}

func infoPersistence(t *infoText) {
	srv := t.srv
	s := srv.save.figures()
	write := "ok"
	if t.eng.err != nil {
		write = "err"
	}
	loading := srv.load.active.Load()
	t.num("loading", int64(boolInt(loading)))
	t.zeros("async_loading", "current_cow_peak", "current_cow_size", "current_cow_size_age")
	t.nums("current_fork_perc", "0.00", "current_save_keys_processed", 0, "current_save_keys_total", 0,
		"rdb_changes_since_last_save", t.eng.changes-s.changes,
		"rdb_bgsave_in_progress", boolInt(s.running), "rdb_last_save_time", s.last.Unix(),
		"rdb_last_bgsave_status", s.status(), "rdb_last_bgsave_time_sec", s.lastSeconds(), "rdb_current_bgsave_time_sec", s.runningSeconds(),
		"rdb_saves", s.saves, "rdb_last_cow_size", 0, "rdb_last_load_keys_expired", 0, "rdb_last_load_keys_loaded", 0,
		"aof_enabled", boolInt(!srv.inMemory()), "aof_rewrite_in_progress", 0, "aof_rewrite_scheduled", 0,
		"aof_last_rewrite_time_sec", -1, "aof_current_rewrite_time_sec", -1, "aof_last_bgrewrite_status", "ok",
		"aof_rewrites", 0, "aof_rewrites_consecutive_failures", 0, "aof_last_write_status", write,
		"aof_last_cow_size", 0, "module_fork_in_progress", 0, "module_fork_last_cow_size", 0)
	if !srv.inMemory() {
		t.nums("aof_current_size", t.eng.DiskBytes, "aof_base_size", t.eng.DiskBytes, "aof_pending_rewrite", 0,
			"aof_buffer_length", 0, "aof_pending_bio_fsync", t.eng.PendingTicket, "aof_delayed_fsync", 0)
	}
	if loading {
		infoLoading(t)
	}
}

func infoReplication(t *infoText) {
	t.nums("role", "master", "connected_slaves", 0, "master_failover_state", "no-failover",
		"master_replid", *t.srv.stats.replID.Load(), "master_replid2", strings.Repeat("0", 40), "master_repl_offset", 0,
		"second_repl_offset", -1, "repl_backlog_active", 0, "repl_backlog_size", t.srv.cfg.Int("repl-backlog-size"),
		"repl_backlog_first_byte_offset", 0, "repl_backlog_histlen", 0)
}

func infoCPU(t *infoText) {
	sys, user := cpuTime()
	t.line("used_cpu_sys:%.6f", sys.Seconds())
	t.line("used_cpu_user:%.6f", user.Seconds())
	t.line("used_cpu_sys_children:%.6f", 0.0)
	t.line("used_cpu_user_children:%.6f", 0.0)
}

func infoErrorStats(t *infoText) {
	_, codes := t.srv.errors.counts()
	for _, code := range slices.Sorted(maps.Keys(codes)) {
		t.line("errorstat_%s:count=%d", infoSafe(code), codes[code])
	}
}

// infoSafe replaces what would break a line of INFO.
func infoSafe(s string) string {
	return strings.Map(func(r rune) rune {
		if strings.ContainsRune("#:\n\r", r) {
			return '_'
		}
		return r
	}, s)
}

func infoKeyspace(t *infoText) {
	if !t.srv.ready.Load() {
		return
	}
	space := t.srv.exec.Space()
	for db := range space.Databases() {
		keys, volatile, err := space.Count(db)
		if err != nil {
			t.srv.clientLog.Error("counting keys for INFO failed", "err", err)
			return
		}
		if keys > 0 {
			t.line("db%d:keys=%d,expires=%d,avg_ttl=0", db, keys, volatile)
		}
	}
}
