package server

import (
	"strings"
	"time"

	"redoubt/command"
	"redoubt/types"
)

// watchSettings copies the directives that are read for every command or
// connection into fields, now and whenever they change.
func (srv *Server) watchSettings() error {
	c := srv.cfg
	apply := func(f func(), names ...string) {
		f()
		c.OnChangeOfAny(func() error { f(); return nil }, names...)
	}
	apply(srv.limitClients, "maxclients")
	apply(srv.limitClientMemory, "maxmemory-clients", "maxmemory")
	apply(func() { srv.authTimeout.Store(c.Int("auth-timeout")) }, "auth-timeout")
	apply(func() { srv.queryLimit.Store(c.Int("client-query-buffer-limit")) }, "client-query-buffer-limit")
	apply(func() { srv.timeout.Store(c.Int("timeout")) }, "timeout")
	apply(func() { srv.keepalive.Store(c.Int("tcp-keepalive")) }, "tcp-keepalive")
	apply(func() { srv.maxMemory.Store(c.Int("maxmemory")) }, "maxmemory")
	apply(func() {
		srv.wantsReplicas.Store(c.Int("min-replicas-to-write") > 0 && c.Int("min-replicas-max-lag") > 0)
	}, "min-replicas-to-write", "min-replicas-max-lag")
	apply(func() { srv.acl.SetPassword(c.Str("requirepass")) }, "requirepass")
	apply(func() { srv.acl.SetAllChannels(c.Enum("acl-pubsub-default") == "allchannels") }, "acl-pubsub-default")
	apply(func() { srv.aclLog.SetMax(c.Int("acllog-max-len")) }, "acllog-max-len")
	apply(func() {
		normal, _, subscribed := c.BufferLimits()
		srv.outLimit.Store(&normal)
		srv.subscribedLimit.Store(&subscribed)
	}, "client-output-buffer-limit")
	apply(srv.applyNotify, "notify-keyspace-events")
	apply(func() { srv.tracking.limit(c.Int("tracking-table-max-keys")) }, "tracking-table-max-keys")
	apply(func() { srv.maxBulk.Store(c.Int("proto-max-bulk-len")) }, "proto-max-bulk-len")
	apply(srv.limitCommands, "proto-max-bulk-len", "maxmemory-policy", "hash-max-listpack-entries", "hash-max-listpack-value",
		"set-max-intset-entries", "set-max-listpack-entries", "set-max-listpack-value", "zset-max-listpack-entries",
		"zset-max-listpack-value", "list-max-listpack-size", "hll-sparse-max-bytes", "stream-node-max-entries", "stream-node-max-bytes")
	apply(func() { srv.slow.set(c.Int("slowlog-log-slower-than"), int(c.Int("slowlog-max-len"))) },
		"slowlog-log-slower-than", "slowlog-max-len")
	apply(func() { srv.latency.set(time.Duration(c.Int("latency-monitor-threshold")) * time.Millisecond) },
		"latency-monitor-threshold")
	apply(func() { srv.stats.tracking.Store(c.Bool("latency-tracking")) }, "latency-tracking")
	c.OnChange("port", func() error { return srv.rebind("Unable to listen on this port. Check server logs.", overTCP) })
	c.OnChange("bind", func() error { return srv.rebind("Failed to bind to specified addresses.", overTCP, overTLS) })
	if err := srv.watchTLS(); err != nil {
		return err
	}
	c.OnChangeOfAny(srv.relocate, "cluster-announce-ip", "cluster-announce-hostname", "cluster-announce-port",
		"cluster-announce-tls-port", "cluster-announce-bus-port", "port", "tls-port", "bind") // behind those that move the ports
	return nil
}

// limitCommands tells the handlers their settings.
func (srv *Server) limitCommands() {
	srv.settingsMu.Lock()
	defer srv.settingsMu.Unlock()
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
			MaxBulk: c.Int("proto-max-bulk-len"),
			LFU:     strings.Contains(c.Enum("maxmemory-policy"), "lfu"),

			SkipChecksum: srv.debug.skipChecksum.Load(),
		})
	}
}

// outOfMemory says whether commands that need memory are refused: where maxmemory
// bounds the data itself, which is on an engine without a disk, and where it leaves
// no room for any row.
func (srv *Server) outOfMemory() bool {
	limit := srv.maxMemory.Load()
	if limit > 0 && srv.dataBytes != nil {
		return srv.dataBytes() > limit
	}
	return limit > 0 && limit < leastMemory
}

// writable says why a command with these flags may not write now, or nothing. When the
// disk is full those are refused that may need memory (denyoom): the same which may need
// space. The others delete, or change little, and are what frees space.
func (srv *Server) writable(flags command.Flags) error {
	if flags&command.Write != 0 && srv.wantsReplicas.Load() {
		return command.ErrNoReplicas
	}
	if flags&command.DenyOOM != 0 && srv.ready.Load() {
		return srv.eng.Full()
	}
	return nil
}

// leastMemory is below what no engine can hold the rows of a command.
const leastMemory = 1 << 20
