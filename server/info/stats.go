package info

import (
	"strconv"
	"strings"
	"time"

	"redoubt/command"
	"redoubt/server/admin"
	"redoubt/server/observe"
	"redoubt/version"
)

// The sections of INFO with counters, and the section redoubt.

func writeStats(t *text) {
	r, e, f := t.r, &t.store, t.r.Features()
	st := &r.Observer().Stats
	calls, nanos := st.Calls()
	in, out := r.Net()
	errors, _ := r.Observer().Errors.Counts()
	t.nums("total_connections_received", st.Connections.Load(), "total_commands_processed", calls,
		"instantaneous_ops_per_sec", st.Rates.Commands.Load(),
		"total_net_input_bytes", in, "total_net_output_bytes", out)
	t.zeros("total_net_repl_input_bytes", "total_net_repl_output_bytes")
	t.line("instantaneous_input_kbps:%.2f", float64(st.Rates.In.Load())/1024)
	t.line("instantaneous_output_kbps:%.2f", float64(st.Rates.Out.Load())/1024)
	t.nums("instantaneous_input_repl_kbps", "0.00", "instantaneous_output_repl_kbps", "0.00",
		"rejected_connections", st.Rejected.Load(), "sync_full", f.FullSyncs, "sync_partial_ok", f.PartialSyncs, "sync_partial_err", f.RefusedSyncs,
		"expired_keys", e.Expired, "expired_stale_perc", "0.00",
		"expired_time_cap_reached_count", e.SweepsBehind, "expire_cycle_cpu_milliseconds", e.SweepNanos/1e6)
	t.nums("evicted_keys", t.store.Evicted, "evicted_clients", st.Evicted.Load())
	t.zeros("total_eviction_exceeded_time", "current_eviction_exceeded_time")
	t.nums("keyspace_hits", e.Hits, "keyspace_misses", e.Misses)
	t.nums("pubsub_channels", f.Channels, "pubsub_patterns", f.Patterns, "pubsubshard_channels", f.ShardChannels)
	t.zeros("latest_fork_usec", "total_forks")
	t.num("migrate_cached_sockets", int64(f.MigrateConnections))
	t.zeros("slave_expires_tracked_keys", "active_defrag_hits", "active_defrag_misses",
		"active_defrag_key_hits", "active_defrag_key_misses", "total_active_defrag_time", "current_active_defrag_time")
	t.nums("tracking_total_keys", f.TrackedKeys, "tracking_total_items", f.TrackedItems, "tracking_total_prefixes", f.TrackedPrefixes)
	t.zeros("unexpected_error_replies")
	t.nums("total_error_replies", errors, "dump_payload_sanitizations", 0)
	t.num("eventloop_duration_cmd_sum", nanos/1000)
	t.nums("client_query_buffer_limit_disconnections", st.QueryLimit.Load(),
		"client_output_buffer_limit_disconnections", st.OutputLimit.Load())
	t.nums("acl_access_denied_auth", f.DeniedAuth, "acl_access_denied_cmd", f.DeniedCommand,
		"acl_access_denied_key", f.DeniedKey, "acl_access_denied_channel", f.DeniedChannel)
}

func writeCommandStats(t *text) {
	t.r.Observer().Stats.Each(func(cmd *command.Command, s *observe.CommandStats) {
		micros, each := s.Nanos/1000, 0.0
		if s.Calls > 0 {
			each = float64(s.Nanos) / 1000 / float64(s.Calls)
		}
		t.line("cmdstat_%s:calls=%d,usec=%d,usec_per_call=%.2f,rejected_calls=%d,failed_calls=%d",
			safe(cmd.FullName), s.Calls, micros, each, s.Rejected, s.Failed)
	})
}

func writeLatencyStats(t *text) {
	if !t.r.Observer().Stats.Timed.Load() {
		return
	}
	list := percentiles(t.r.Config().Str("latency-tracking-info-percentiles"))
	t.r.Observer().Stats.Each(func(cmd *command.Command, s *observe.CommandStats) {
		if s.Timed == 0 {
			return
		}
		parts := make([]string, len(list))
		for i, p := range list {
			micros := float64(s.Percentile(p)) / float64(time.Microsecond)
			parts[i] = "p" + strconv.FormatFloat(p, 'f', -1, 64) + "=" + strconv.FormatFloat(micros, 'f', 3, 64)
		}
		t.line("latency_percentiles_usec_%s:%s", safe(cmd.FullName), strings.Join(parts, ","))
	})
}

// percentiles parses latency-tracking-info-percentiles, whose form config has checked.
func percentiles(text string) (list []float64) {
	for w := range strings.FieldsSeq(text) {
		if p, err := strconv.ParseFloat(w, 64); err == nil {
			list = append(list, p)
		}
	}
	return list
}

// writeRedoubt writes the figures that Redis does not have.
func writeRedoubt(t *text) {
	r, e, srv, c, save := t.r, t.store, t.r.Server(), t.r.Clients(), t.r.Saves()
	dir := ""
	if e.OnDisk {
		dir = r.Config().Str("dir")
	}
	t.nums("redoubt_version", version.Redoubt, "engine", srv.Engine, "durability", srv.Durability, "store_dir", dir,
		"store_error", safe(errorText(e.Err)), "event_loops", srv.Loops,
		"committed_ticket", uint64(e.Committed), "durable_ticket", uint64(e.Durable), "pending_commits", e.Pending(),
		"commits", e.Commits, "memory_bytes", e.MemoryBytes, "disk_bytes", e.DiskBytes,
		"syncs", e.Syncs, "sync_usec", e.SyncNanos/1000, "cache_hits", e.CacheHits, "cache_misses", e.CacheMisses,
		"checkpoint_dir", save.Dir, "checkpoints_supported", admin.BoolInt(e.OnDisk),
		"sweep_cycles", e.Sweeps, "sweep_usec", e.SweepNanos/1000, "sweep_behind", e.SweepsBehind,
		"cleared_rows", e.Cleared, "clearing", admin.BoolInt(e.Clearing), "sweep_conflicts", e.SweepConflicts,
		"cold_commands", e.Cold, "warm_ups", e.WarmUps, "slowed_writes", e.Slowed,
		"joined_commands", e.Together, "clients_memory", c.Charged, "clients_memory_limit", c.ChargeLimit,
		"unauthenticated_clients", c.Unauthenticated, "unauthenticated_closed", r.Observer().Stats.GuestsClosed.Load())
	for _, d := range e.Detail {
		t.num("engine_"+d.Name, d.Value)
	}
	p, ok := r.Peers()
	if !ok {
		return
	}
	t.nums("cluster_peers", p.Known, "cluster_peers_connected", p.Connected, "cluster_followers", p.Followers,
		"bus_frames_in", p.FramesIn, "bus_bytes_in", p.BytesIn, "bus_frames_out", p.FramesOut, "bus_bytes_out", p.BytesOut,
		"bus_bytes_queued", p.Queued, "bus_connections_lost", p.Lost, "bus_connections_refused", p.Refused,
		"bus_followers_dropped", p.Dropped, "bus_wanted", p.Wanted, "bus_wanted_by_others", p.WantedByOthers)
}

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}
