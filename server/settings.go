package server

import (
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"redoubt/command"
	"redoubt/config"
	"redoubt/executor"
	"redoubt/types"
	"redoubt/types/channel"
)

// settings are copies of directives that are read for every command or connection.
type settings struct {
	maxClients  atomic.Int64
	maxHTTP     atomic.Int64 // connections of http-addr
	authTimeout atomic.Int64 // how many seconds a client may take to authenticate
	queryLimit  atomic.Int64
	timeout     atomic.Int64
	keepalive   atomic.Int64
	maxBulk     atomic.Int64
	maxMemory   atomic.Int64
	// eviction is what maxmemory-policy says, nil for noeviction. nothingToEvict: the last try
	// found no key.
	eviction       atomic.Pointer[executor.Eviction]
	nothingToEvict atomic.Bool
	ignoresMemory  atomic.Bool // replica-ignore-maxmemory
	// wantsReplicas: min-replicas-to-write asks for replicas.
	wantsReplicas   atomic.Bool
	outLimit        atomic.Pointer[config.BufferLimit]
	subscribedLimit atomic.Pointer[config.BufferLimit] // of clients with subscriptions

	consoleReadOnly atomic.Bool

	mu           sync.Mutex    // held while a setting is read and applied elsewhere
	channelRules channel.Rules // guarded by mu
}

// watchSettings copies the directives that are read for every command or
// connection into fields, now and whenever they change.
func (srv *Server) watchSettings() error {
	c := srv.cfg
	apply := func(f func(), names ...string) {
		f()
		c.OnChangeOfAny(func() error { f(); return nil }, names...)
	}
	apply(srv.limitClients, "maxclients", "http-max-connections")
	apply(srv.limitClientMemory, "maxmemory-clients", "maxmemory")
	apply(func() { srv.set.authTimeout.Store(c.Int("auth-timeout")) }, "auth-timeout")
	apply(func() { srv.set.queryLimit.Store(c.Int("client-query-buffer-limit")) }, "client-query-buffer-limit")
	apply(func() { srv.set.timeout.Store(c.Int("timeout")) }, "timeout")
	apply(func() { srv.set.keepalive.Store(c.Int("tcp-keepalive")) }, "tcp-keepalive")
	apply(func() { srv.set.maxMemory.Store(c.Int("maxmemory")) }, "maxmemory")
	apply(func() {
		srv.set.wantsReplicas.Store(c.Int("min-replicas-to-write") > 0 && c.Int("min-replicas-max-lag") > 0)
	}, "min-replicas-to-write", "min-replicas-max-lag")
	apply(func() { srv.access.Users.SetPassword(c.Str("requirepass")) }, "requirepass")
	apply(func() { srv.access.Users.SetAllChannels(c.Enum("acl-pubsub-default") == "allchannels") }, "acl-pubsub-default")
	apply(func() { srv.access.Denied.SetMax(c.Int("acllog-max-len")) }, "acllog-max-len")
	apply(func() {
		normal, _, subscribed := c.BufferLimits()
		srv.set.outLimit.Store(&normal)
		srv.set.subscribedLimit.Store(&subscribed)
	}, "client-output-buffer-limit")
	apply(srv.applyNotify, "notify-keyspace-events")
	apply(func() { srv.tracking.Limit(c.Int("tracking-table-max-keys")) }, "tracking-table-max-keys")
	apply(func() { srv.set.consoleReadOnly.Store(c.Bool("console-read-only")) }, "console-read-only")
	apply(func() { srv.set.maxBulk.Store(c.Int("proto-max-bulk-len")) }, "proto-max-bulk-len")
	apply(srv.setEviction, "maxmemory-policy", "maxmemory-samples", "maxmemory-eviction-tenacity", "lazyfree-lazy-eviction", "replica-ignore-maxmemory")
	apply(srv.limitCommands, "proto-max-bulk-len", "replica-read-only", "maxmemory-policy", "lfu-log-factor", "lfu-decay-time", "hash-max-listpack-entries", "hash-max-listpack-value",
		"set-max-intset-entries", "set-max-listpack-entries", "set-max-listpack-value", "zset-max-listpack-entries",
		"zset-max-listpack-value", "list-max-listpack-size", "hll-sparse-max-bytes", "stream-node-max-entries", "stream-node-max-bytes")
	apply(func() { srv.obs.Slow.Set(c.Int("slowlog-log-slower-than"), int(c.Int("slowlog-max-len"))) },
		"slowlog-log-slower-than", "slowlog-max-len")
	apply(func() { srv.obs.Latency.Set(time.Duration(c.Int("latency-monitor-threshold")) * time.Millisecond) },
		"latency-monitor-threshold")
	apply(func() { srv.obs.Stats.Timed.Store(c.Bool("latency-tracking")) }, "latency-tracking")
	c.OnChange("port", func() error { return srv.rebind("Unable to listen on this port. Check server logs.", overTCP) })
	c.OnChange("bind", func() error { return srv.rebind("Failed to bind to specified addresses.", overTCP, overTLS) })
	if err := srv.watchTLS(); err != nil {
		return err
	}
	c.OnChangeOfAny(srv.relocate, "cluster-announce-ip", "cluster-announce-hostname", "cluster-announce-port",
		"cluster-announce-tls-port", "cluster-announce-bus-port", "port", "tls-port", "bind") // behind those that move the ports
	return nil
}

// SetChannelRules sets the rules of channels by their names, now and for every command
// that begins from now on. It may be called at any time, also before Start.
func (srv *Server) SetChannelRules(r channel.Rules) {
	srv.set.mu.Lock()
	srv.set.channelRules = r
	srv.set.mu.Unlock()
	srv.limitCommands()
}

// limitCommands passes the settings of handlers to the executor.
func (srv *Server) limitCommands() {
	srv.set.mu.Lock()
	defer srv.set.mu.Unlock()
	if srv.ready.Load() {
		c := srv.cfg
		srv.exec.SetLimits(command.Limits{
			Limits: types.Limits{
				HashEntries: c.Int("hash-max-listpack-entries"), HashValue: c.Int("hash-max-listpack-value"),
				SetIntegers: c.Int("set-max-intset-entries"),
				SetEntries:  c.Int("set-max-listpack-entries"), SetValue: c.Int("set-max-listpack-value"),
				ZSetEntries: c.Int("zset-max-listpack-entries"), ZSetValue: c.Int("zset-max-listpack-value"),
				ListSize:          c.Int("list-max-listpack-size"),
				HyperLogLog:       c.Int("hll-sparse-max-bytes"),
				StreamNodeEntries: c.Int("stream-node-max-entries"), StreamNodeBytes: c.Int("stream-node-max-bytes"),
			},
			MaxBulk:         c.Int("proto-max-bulk-len"),
			ReadOnlyReplica: c.Bool("replica-read-only"),

			LFU:          strings.Contains(c.Enum("maxmemory-policy"), "lfu"),
			LFULogFactor: c.Int("lfu-log-factor"), LFUDecay: c.Int("lfu-decay-time"),

			SkipChecksum: srv.debug.SkipChecksum.Load(),
			Channels:     srv.set.channelRules,
		})
	}
}

// outOfMemory reports whether commands that need memory are refused: if the data of an
// engine without a disk is above maxmemory, or if maxmemory leaves no room for any row.
func (srv *Server) outOfMemory() bool {
	limit := srv.set.maxMemory.Load()
	if limit > 0 && srv.dataBytes != nil {
		data, beside := srv.dataBytes()
		return data+beside > limit && (srv.set.eviction.Load() == nil || !srv.exec.Evicts() || srv.set.nothingToEvict.Load())
	}
	return limit > 0 && limit < leastMemory
}

// writable returns the error of a command with these flags that may not write now, or nil.
// When the disk is full, commands that may need memory (denyoom) are refused, since the same
// commands may need space. The others delete or change little, and can free space.
func (srv *Server) writable(flags command.Flags) error {
	if flags&command.Write != 0 && srv.set.wantsReplicas.Load() && !srv.role.Replica() && !srv.source.Enough() {
		return command.ErrNoReplicas
	}
	if err := srv.role.Refuse(flags); err != nil {
		return err
	}
	if flags&command.DenyOOM != 0 && srv.ready.Load() {
		return srv.eng.Full()
	}
	return nil
}

// leastMemory is the smallest maxmemory in which an engine can hold a command's rows.
const leastMemory = 1 << 20
