package metrics

import (
	"net/http"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"redoubt/command"
	"redoubt/server/info"
	"redoubt/server/observe"
	"redoubt/version"
)

// Handler serves the metrics. It asks for no password.
func Handler(from *info.Reporter) http.Handler {
	reg := prometheus.NewRegistry()
	reg.MustRegister(
		collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
		&collector{from},
	)
	return promhttp.HandlerFor(reg, promhttp.HandlerOpts{})
}

// collector turns the server's figures into metrics.
type collector struct{ *info.Reporter }

// metric is one kind of metric.
type metric struct {
	desc *prometheus.Desc
	kind prometheus.ValueType
}

func counter(name, help string, labels ...string) metric {
	return metric{prometheus.NewDesc("redoubt_"+name, help, labels, nil), prometheus.CounterValue}
}

func gauge(name, help string, labels ...string) metric {
	return metric{prometheus.NewDesc("redoubt_"+name, help, labels, nil), prometheus.GaugeValue}
}

var (
	mInfo      = gauge("info", "Which server this is; the value is 1.", "version", "redis_version", "engine", "durability")
	mLoading   = gauge("loading", "1 while the store is being opened.")
	mUptime    = gauge("uptime_seconds", "Time since the start.")
	mCalls     = counter("commands_total", "Commands that were run.", "command")
	mFailed    = counter("commands_failed_total", "Commands that were run and answered with an error.", "command")
	mRejected  = counter("commands_rejected_total", "Commands that were refused before they ran.", "command")
	mDuration  = prometheus.NewDesc("redoubt_command_duration_seconds", "How long commands took.", []string{"command"}, nil)
	mErrors    = counter("errors_total", "Error replies by their code.", "code")
	mSlow      = gauge("slowlog_entries", "Entries of the slow log.")
	mClients   = gauge("connected_clients", "Open connections.")
	mLimit     = gauge("max_clients", "Connections that may be open.")
	mPaused    = gauge("blocked_clients", "Connections whose command waits.")
	mAccepted  = counter("connections_total", "Connections that were accepted.")
	mRefused   = counter("connections_rejected_total", "Connections that were refused.")
	mLimited   = counter("client_limit_disconnections_total", "Clients that were closed for a full buffer.", "buffer")
	mIn        = counter("net_input_bytes_total", "Bytes received from clients.")
	mOut       = counter("net_output_bytes_total", "Bytes sent to clients.")
	mMemory    = gauge("memory_used_bytes", "Memory in use, Go's and the engine's.")
	mMaxMemory = gauge("memory_max_bytes", "The setting maxmemory; 0 is no limit.")
	mKeys      = gauge("keys", "Keys of a database.", "db")
	mVolatile  = gauge("keys_with_expiry", "Keys of a database that have an expiry.", "db")
	mHits      = counter("keyspace_hits_total", "Reads that found their key.")
	mMisses    = counter("keyspace_misses_total", "Reads that did not find their key.")
	mExpired   = counter("expired_keys_total", "Keys that expired.")
	mChanges   = counter("changes_total", "Changes of keys since the start.")
	mSweeps    = counter("expiry_sweeps_total", "Sweeps over expired keys.")
	mSweepTime = counter("expiry_sweep_seconds_total", "Time spent on sweeps over expired keys.")
	mBehind    = counter("expiry_sweeps_behind_total", "Sweeps that took longer than the time between two.")
	mCleared   = counter("cleared_rows_total", "Rows of deleted data that were cleared in the background.")
	mSaves     = counter("checkpoints_total", "Checkpoints that were written.")
	mSaveOK    = gauge("checkpoint_last_ok", "1 unless the last checkpoint failed.")
	mSaveTime  = gauge("checkpoint_last_timestamp_seconds", "Unix time of the last good checkpoint, or of the start.")
	mOK        = gauge("engine_ok", "0 while the store refuses writes: it has failed, or its disk is full.")
	mLag       = gauge("durability_lag_commits", "Commits that are not durable yet.")
	mCommits   = counter("engine_commits_total", "Commits of the engine.")
	mSyncs     = counter("engine_syncs_total", "Syncs of the store to disk.")
	mSyncTime  = counter("engine_sync_seconds_total", "Time spent on syncs.")
	mEngMemory = gauge("engine_memory_bytes", "Memory that the engine holds for rows, caches and buffers.")
	mEngDisk   = gauge("engine_disk_bytes", "Size of the store's files.")
	mCacheHit  = counter("engine_cache_hits_total", "Reads of the engine's cache that found their block.")
	mCacheMiss = counter("engine_cache_misses_total", "Reads of the engine's cache that went to disk.")
	mCold      = counter("cold_commands_total", "Commands that were left to a worker for want of rows in memory.")
	mWarmed    = counter("warm_ups_total", "Pipelines whose rows were fetched from disk before they ran.")
	mSlowed    = counter("slowed_writes_total", "Writes that were left to a worker since the store was congested.")
	mJoined    = counter("joined_commands_total", "Commands that were one transaction with those of other clients on the same key.")
	mPeers     = gauge("peers", "Other front ends of the store.", "state")
	mFollowers = gauge("peer_followers", "Other front ends that listen to this one.")
	mPeerIO    = counter("peer_bytes_total", "Bytes that were exchanged with other front ends.", "direction")
	mPeerFrame = counter("peer_frames_total", "Frames of effects that were exchanged with other front ends.", "direction")
	mPeerLost  = counter("peer_connections_lost_total", "Connections to other front ends that broke.")
	mPeerDrop  = counter("peer_followers_dropped_total", "Other front ends that were given up since they did not read what they were told.")
	mDetail    = gauge("engine_detail", "Figures that only this engine has.", "name")
)

// Describe describes nothing: the registry then takes what Collect sends.
func (*collector) Describe(chan<- *prometheus.Desc) {}

// Collect implements prometheus.Collector.
func (c *collector) Collect(out chan<- prometheus.Metric) {
	send := func(m metric, v float64, labels ...string) {
		out <- prometheus.MustNewConstMetric(m.desc, m.kind, v, labels...)
	}
	store := c.Store()
	_, loading := c.Loading()
	c.server(send)
	c.commands(send, out)
	send(mLoading, number(loading))
	if store.Ready {
		c.data(send, &store)
		c.engine(send, &store)
	}
	c.peers(send)
	c.raft(send)
	c.channels(send, out, c.Channels())
}

func number(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

type sender func(m metric, v float64, labels ...string)

func (c *collector) server(send sender) {
	srv, clients, obs := c.Server(), c.Clients(), c.Observer()
	st := &obs.Stats
	send(mInfo, 1, version.Redoubt, version.Redis, srv.Engine, srv.Durability)
	send(mUptime, time.Since(srv.Started).Seconds())
	_, codes := obs.Errors.Counts()
	for code, n := range codes {
		send(mErrors, float64(n), code)
	}
	send(mSlow, float64(obs.Slow.Len()))
	send(mClients, float64(clients.Connected))
	send(mLimit, float64(clients.Max))
	send(mPaused, float64(clients.Blocked))
	send(mAccepted, float64(st.Connections.Load()))
	send(mRefused, float64(st.Rejected.Load()))
	send(mLimited, float64(st.QueryLimit.Load()), "query")
	send(mLimited, float64(st.OutputLimit.Load()), "output")
	in, outBytes := c.Net()
	send(mIn, float64(in))
	send(mOut, float64(outBytes))
	send(mMemory, float64(c.Memory().Used))
	send(mMaxMemory, float64(srv.MaxMemory))
}

// The buckets of the histograms are powers of two, from 4 microseconds to 4
// seconds.
const (
	firstMetricBucket = 12
	lastMetricBucket  = 32
)

func (c *collector) commands(send sender, out chan<- prometheus.Metric) {
	c.Observer().Stats.Each(func(cmd *command.Command, s *observe.CommandStats) {
		name := cmd.FullName
		if s.Calls > 0 {
			send(mCalls, float64(s.Calls), name)
		}
		if s.Failed > 0 {
			send(mFailed, float64(s.Failed), name)
		}
		if s.Rejected > 0 {
			send(mRejected, float64(s.Rejected), name)
		}
		if s.Timed == 0 {
			return
		}
		buckets := make(map[float64]uint64, lastMetricBucket-firstMetricBucket+1)
		for exp := firstMetricBucket; exp <= lastMetricBucket; exp++ {
			buckets[float64(uint64(1)<<exp)/1e9] = s.UpTo(exp)
		}
		sum := float64(s.Nanos) / 1e9
		if s.Calls > 0 && uint64(s.Calls) != s.Timed { // latency-tracking was off for a while
			sum *= float64(s.Timed) / float64(s.Calls)
		}
		out <- prometheus.MustNewConstHistogram(mDuration, s.Timed, sum, buckets, name)
	})
}

func (c *collector) data(send sender, s *info.Store) {
	err := c.Databases(func(db int, keys, volatile int64) bool {
		if keys > 0 || db == 0 {
			send(mKeys, float64(keys), strconv.Itoa(db))
			send(mVolatile, float64(volatile), strconv.Itoa(db))
		}
		return true
	})
	if err != nil {
		c.ClientLog().Error("counting keys for the metrics failed", "err", err)
	}
	saves := c.Saves()
	send(mHits, float64(s.Hits))
	send(mMisses, float64(s.Misses))
	send(mExpired, float64(s.Expired))
	send(mChanges, float64(s.Changes))
	send(mCold, float64(s.Cold))
	send(mWarmed, float64(s.WarmUps))
	send(mSlowed, float64(s.Slowed))
	send(mJoined, float64(s.Together))
	send(mSweeps, float64(s.Sweeps))
	send(mSweepTime, float64(s.SweepNanos)/1e9)
	send(mBehind, float64(s.SweepsBehind))
	send(mCleared, float64(s.Cleared))
	send(mSaves, float64(saves.Saves))
	send(mSaveOK, number(!saves.Failed))
	send(mSaveTime, float64(saves.Last.Unix()))
}

func (c *collector) engine(send sender, e *info.Store) {
	send(mOK, number(e.Err == nil))
	send(mLag, float64(e.Pending()))
	send(mCommits, float64(e.Commits))
	send(mSyncs, float64(e.Syncs))
	send(mSyncTime, float64(e.SyncNanos)/1e9)
	send(mEngMemory, float64(e.MemoryBytes))
	send(mEngDisk, float64(e.DiskBytes))
	send(mCacheHit, float64(e.CacheHits))
	send(mCacheMiss, float64(e.CacheMisses))
	for _, d := range e.Detail {
		send(mDetail, float64(d.Value), d.Name)
	}
}

func (c *collector) peers(send sender) {
	p, ok := c.Peers()
	if !ok {
		return
	}
	send(mPeers, float64(p.Connected), "connected")
	send(mPeers, float64(p.Known-p.Connected), "unreachable")
	send(mFollowers, float64(p.Followers))
	send(mPeerIO, float64(p.BytesIn), "in")
	send(mPeerIO, float64(p.BytesOut), "out")
	send(mPeerFrame, float64(p.FramesIn), "in")
	send(mPeerFrame, float64(p.FramesOut), "out")
	send(mPeerLost, float64(p.Lost))
	send(mPeerDrop, float64(p.Dropped))
}
