package server

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"redoubt/acl"
	"redoubt/command"
)

// The sections of INFO that count.

func infoStats(t *infoText) {
	srv := t.srv
	st := &srv.stats
	calls, nanos := st.calls()
	in, out := srv.net()
	errors, _ := srv.errors.counts()
	sweep := t.eng.sweep
	t.nums("total_connections_received", st.connections.Load(), "total_commands_processed", calls,
		"instantaneous_ops_per_sec", st.rates.commands.Load(),
		"total_net_input_bytes", in, "total_net_output_bytes", out)
	t.zeros("total_net_repl_input_bytes", "total_net_repl_output_bytes")
	t.line("instantaneous_input_kbps:%.2f", float64(st.rates.in.Load())/1024)
	t.line("instantaneous_output_kbps:%.2f", float64(st.rates.out.Load())/1024)
	t.nums("instantaneous_input_repl_kbps", "0.00", "instantaneous_output_repl_kbps", "0.00",
		"rejected_connections", st.rejected.Load(), "sync_full", 0, "sync_partial_ok", 0, "sync_partial_err", 0,
		"expired_keys", t.eng.expired, "expired_stale_perc", "0.00",
		"expired_time_cap_reached_count", sweep.Behind, "expire_cycle_cpu_milliseconds", sweep.Nanos/1e6)
	t.nums("evicted_keys", 0, "evicted_clients", st.evicted.Load())
	t.zeros("total_eviction_exceeded_time", "current_eviction_exceeded_time")
	t.nums("keyspace_hits", t.eng.hits, "keyspace_misses", t.eng.misses)
	t.nums("pubsub_channels", srv.pubsub.channels.count.Load(), "pubsub_patterns", srv.pubsub.patterns.count.Load(),
		"pubsubshard_channels", srv.pubsub.shards.count.Load())
	t.zeros("latest_fork_usec", "total_forks")
	t.num("migrate_cached_sockets", int64(srv.migrations.count()))
	t.zeros("slave_expires_tracked_keys", "active_defrag_hits", "active_defrag_misses",
		"active_defrag_key_hits", "active_defrag_key_misses", "total_active_defrag_time", "current_active_defrag_time")
	track := srv.tracking.figures()
	t.nums("tracking_total_keys", track.keys, "tracking_total_items", track.items, "tracking_total_prefixes", track.prefixes)
	t.zeros("unexpected_error_replies")
	t.nums("total_error_replies", errors, "dump_payload_sanitizations", 0)
	t.num("eventloop_duration_cmd_sum", nanos/1000)
	t.nums("client_query_buffer_limit_disconnections", st.queryLimit.Load(),
		"client_output_buffer_limit_disconnections", st.outputLimit.Load())
	log := &srv.aclLog
	t.nums("acl_access_denied_auth", log.Denied(acl.ByAuth), "acl_access_denied_cmd", log.Denied(acl.ByCommand),
		"acl_access_denied_key", log.Denied(acl.ByKey), "acl_access_denied_channel", log.Denied(acl.ByChannel))
}

func infoDebug(t *infoText) {}

func infoCommandStats(t *infoText) {
	t.srv.stats.each(func(cmd *command.Command, s *commandStats) {
		micros, each := s.nanos/1000, 0.0
		if s.calls > 0 {
			each = float64(s.nanos) / 1000 / float64(s.calls)
		}
		t.line("cmdstat_%s:calls=%d,usec=%d,usec_per_call=%.2f,rejected_calls=%d,failed_calls=%d",
			infoSafe(cmd.FullName), s.calls, micros, each, s.rejected, s.failed)
	})
}

func infoLatencyStats(t *infoText) {
	if !t.srv.stats.tracking.Load() {
		return
	}
	list := percentiles(t.srv.cfg.Str("latency-tracking-info-percentiles"))
	t.srv.stats.each(func(cmd *command.Command, s *commandStats) {
		if s.timed == 0 {
			return
		}
		parts := make([]string, len(list))
		for i, p := range list {
			micros := float64(s.percentile(p)) / float64(time.Microsecond)
			parts[i] = "p" + strconv.FormatFloat(p, 'f', -1, 64) + "=" + strconv.FormatFloat(micros, 'f', 3, 64)
		}
		t.line("latency_percentiles_usec_%s:%s", infoSafe(cmd.FullName), strings.Join(parts, ","))
	})
}

// percentiles reads latency-tracking-info-percentiles, whose form config saw to.
func percentiles(text string) (list []float64) {
	for w := range strings.FieldsSeq(text) {
		if p, err := strconv.ParseFloat(w, 64); err == nil {
			list = append(list, p)
		}
	}
	return list
}

// infoRedoubt tells what Redis has no words for.
func infoRedoubt(t *infoText) {
	srv, e := t.srv, t.eng
	dir := srv.cfg.Str("dir")
	if srv.inMemory() {
		dir = ""
	}
	sweep, save := e.sweep, srv.save.figures()
	t.nums("redoubt_version", Version, "engine", srv.engineName(), "durability", srv.durability(), "store_dir", dir,
		"store_error", infoSafe(errorText(e.err)), "event_loops", len(srv.loops),
		"committed_ticket", uint64(e.committed), "durable_ticket", uint64(e.durable), "pending_commits", e.lag(),
		"commits", e.Commits, "memory_bytes", e.MemoryBytes, "disk_bytes", e.DiskBytes,
		"syncs", e.Syncs, "sync_usec", e.SyncNanos/1000, "cache_hits", e.CacheHits, "cache_misses", e.CacheMisses,
		"checkpoint_dir", save.dir, "checkpoints_supported", boolInt(!srv.inMemory()),
		"sweep_cycles", sweep.Cycles, "sweep_usec", sweep.Nanos/1000, "sweep_behind", sweep.Behind,
		"cleared_rows", sweep.Cleared, "clearing", boolInt(sweep.Clearing), "sweep_conflicts", sweep.Conflicts,
		"cold_commands", e.coldCommands, "warm_ups", e.warmUps, "slowed_writes", e.slowed,
		"joined_commands", e.joined, "clients_memory", srv.budget.Clients.Used(), "clients_memory_limit", srv.budget.Clients.Limit(),
		"unauthenticated_clients", srv.clients.unauthenticated(), "unauthenticated_closed", srv.stats.guestsClosed.Load())
	for _, d := range e.Detail {
		t.num("engine_"+d.Name, d.Value)
	}
	infoPeers(t)
}

// engineName is the engine that is in use, which a program may have chosen
// without the configuration: the name of its package.
func (srv *Server) engineName() string {
	if !srv.ready.Load() {
		return srv.cfg.Enum("engine")
	}
	name, _, _ := strings.Cut(strings.TrimPrefix(fmt.Sprintf("%T", srv.eng), "*"), ".")
	return name
}

// durability is when a write is safe, in the words of appendfsync.
func (srv *Server) durability() string {
	if srv.inMemory() {
		return "none"
	}
	if srv.ready.Load() && srv.remote {
		return "replicated"
	}
	return srv.cfg.Enum("appendfsync")
}

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}
