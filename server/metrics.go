package server

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/pprof"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"redoubt/command"
)

// Metrics are served over HTTP where metrics-addr says, at /metrics; with metrics-pprof
// profiles, too. metrics-password is for both. Nothing is
// counted for them: a collector reads the server's own figures when somebody
// asks. CONFIG RESETSTAT sets counters back, which to Prometheus looks like a
// restart.

// metricsServer is the HTTP server of the metrics.
type metricsServer struct {
	http *http.Server
	addr net.Addr
	done chan struct{}
}

func (srv *Server) startMetrics() error {
	addr := srv.cfg.Str("metrics-addr")
	if addr == "" {
		return nil
	}
	ln, err := net.Listen("tcp", addr)
	if err != nil {
		return fmt.Errorf("listen for metrics: %w", err)
	}
	password, profiles := srv.cfg.Str("metrics-password"), srv.cfg.Bool("metrics-pprof")
	if password == "" && !loopback(ln.Addr().String()) {
		if profiles {
			return errors.Join(errors.New("metrics-pprof: profiles show what is in memory and cost time, and metrics-addr is open to other machines: "+
				"set metrics-password, or bind metrics-addr to 127.0.0.1"), ln.Close())
		}
		srv.log.Warn("everybody who reaches metrics-addr can read the metrics: set metrics-password, or bind it to 127.0.0.1", "addr", ln.Addr())
	}
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", srv.metricsHandler())
	if profiles {
		mux.HandleFunc("GET /debug/pprof/", pprof.Index)
		mux.HandleFunc("GET /debug/pprof/profile", pprof.Profile)
		mux.HandleFunc("GET /debug/pprof/trace", pprof.Trace)
	}
	m := &metricsServer{
		http: &http.Server{Handler: withPassword(mux, password), ReadHeaderTimeout: 10 * time.Second},
		addr: ln.Addr(), done: make(chan struct{}),
	}
	srv.metrics = m
	go func() {
		defer close(m.done)
		if err := m.http.Serve(ln); !errors.Is(err, http.ErrServerClosed) {
			srv.log.Error("serving metrics failed", "err", err)
		}
	}()
	return nil
}

// withPassword has requests be refused that do not bring the password, by basic
// authentication with any user or as a bearer token. Without a password all are served.
func withPassword(h http.Handler, password string) http.Handler {
	if password == "" {
		return h
	}
	want := sha256.Sum256([]byte(password))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, given, ok := r.BasicAuth()
		if !ok {
			given, _ = strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
		}
		// The hashes have one length, and the time to compare them tells nothing.
		if got := sha256.Sum256([]byte(given)); subtle.ConstantTimeCompare(got[:], want[:]) != 1 {
			w.Header().Set("WWW-Authenticate", `Basic realm="redoubt metrics"`)
			http.Error(w, "wrong or no password: see metrics-password", http.StatusUnauthorized)
			return
		}
		h.ServeHTTP(w, r)
	})
}

func (srv *Server) stopMetrics() {
	if srv.metrics == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	if err := srv.metrics.http.Shutdown(ctx); err != nil {
		srv.log.Warn("stopping the metrics server failed", "err", err)
	}
	<-srv.metrics.done
}

// MetricsAddr is where metrics are served, or nil.
func (srv *Server) MetricsAddr() net.Addr {
	if srv.metrics == nil {
		return nil
	}
	return srv.metrics.addr
}

func (srv *Server) metricsHandler() http.Handler {
	reg := prometheus.NewRegistry()
	reg.MustRegister(
		collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
		&collector{srv: srv},
	)
	return promhttp.HandlerFor(reg, promhttp.HandlerOpts{})
}

// collector turns the server's figures into metrics.
type collector struct{ srv *Server }

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
	c.server(send)
	c.commands(send, out)
	send(mLoading, float64(boolInt(c.srv.load.active.Load())))
	if f := c.srv.figures(); c.srv.ready.Load() {
		c.data(send, &f)
		c.engine(send, &f)
	}
	c.peers(send)
}

type sender func(m metric, v float64, labels ...string)

func (c *collector) server(send sender) {
	srv := c.srv
	st := &srv.stats
	send(mInfo, 1, Version, RedisVersion, srv.engineName(), srv.durability())
	send(mUptime, time.Since(srv.started).Seconds())
	_, codes := srv.errors.counts()
	for code, n := range codes {
		send(mErrors, float64(n), code)
	}
	send(mSlow, float64(srv.slow.len()))
	send(mClients, float64(srv.clients.count.Load()))
	send(mLimit, float64(srv.maxClients.Load()))
	send(mPaused, float64(srv.blockedClients()))
	send(mAccepted, float64(st.connections.Load()))
	send(mRefused, float64(st.rejected.Load()))
	send(mLimited, float64(st.queryLimit.Load()), "query")
	send(mLimited, float64(st.outputLimit.Load()), "output")
	in, outBytes := srv.net()
	send(mIn, float64(in))
	send(mOut, float64(outBytes))
	send(mMemory, float64(srv.memory(srv.figures().Stats).used))
	send(mMaxMemory, float64(srv.maxMemory.Load()))
}

// The buckets of the histograms are powers of two, from 4 microseconds to 4
// seconds.
const (
	firstMetricBucket = 12
	lastMetricBucket  = 32
)

func (c *collector) commands(send sender, out chan<- prometheus.Metric) {
	c.srv.stats.each(func(cmd *command.Command, s *commandStats) {
		name := cmd.FullName
		if s.calls > 0 {
			send(mCalls, float64(s.calls), name)
		}
		if s.failed > 0 {
			send(mFailed, float64(s.failed), name)
		}
		if s.rejected > 0 {
			send(mRejected, float64(s.rejected), name)
		}
		if s.timed == 0 {
			return
		}
		buckets := make(map[float64]uint64, lastMetricBucket-firstMetricBucket+1)
		for exp := firstMetricBucket; exp <= lastMetricBucket; exp++ {
			buckets[float64(uint64(1)<<exp)/1e9] = s.upTo(exp)
		}
		sum := float64(s.nanos) / 1e9
		if s.calls > 0 && uint64(s.calls) != s.timed { // latency-tracking was off for a while
			sum *= float64(s.timed) / float64(s.calls)
		}
		out <- prometheus.MustNewConstHistogram(mDuration, s.timed, sum, buckets, name)
	})
}

func (c *collector) data(send sender, f *storeFigures) {
	srv := c.srv
	space := srv.exec.Space()
	for db := range space.Databases() {
		keys, volatile, err := space.Count(db)
		if err != nil {
			srv.clientLog.Error("counting keys for the metrics failed", "err", err)
			break
		}
		if keys > 0 || db == 0 {
			send(mKeys, float64(keys), strconv.Itoa(db))
			send(mVolatile, float64(volatile), strconv.Itoa(db))
		}
	}
	sweep, save := f.sweep, srv.save.figures()
	send(mHits, float64(f.hits))
	send(mMisses, float64(f.misses))
	send(mExpired, float64(f.expired))
	send(mChanges, float64(f.changes))
	send(mCold, float64(f.coldCommands))
	send(mWarmed, float64(f.warmUps))
	send(mSlowed, float64(f.slowed))
	send(mJoined, float64(f.joined))
	send(mSweeps, float64(sweep.Cycles))
	send(mSweepTime, float64(sweep.Nanos)/1e9)
	send(mBehind, float64(sweep.Behind))
	send(mCleared, float64(sweep.Cleared))
	send(mSaves, float64(save.saves))
	send(mSaveOK, float64(boolInt(!save.failed)))
	send(mSaveTime, float64(save.last.Unix()))
}

func (c *collector) engine(send sender, e *storeFigures) {
	send(mOK, float64(boolInt(e.err == nil)))
	send(mLag, float64(e.lag()))
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
