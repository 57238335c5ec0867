package server

import (
	"math"
	"strings"
	"sync"
	"time"

	"redoubt/executor"
)

// setEviction takes over what maxmemory-policy and its kin say.
func (srv *Server) setEviction() {
	c := srv.cfg
	srv.set.ignoresMemory.Store(c.Bool("replica-ignore-maxmemory"))
	policy := c.Enum("maxmemory-policy")
	srv.set.nothingToEvict.Store(false)
	if policy == "noeviction" {
		srv.set.eviction.Store(nil)
		return
	}
	e := &executor.Eviction{Volatile: strings.HasPrefix(policy, "volatile-"), Samples: int(c.Int("maxmemory-samples")), Del: []byte("DEL")}
	switch {
	case strings.HasSuffix(policy, "-random"):
		e.By = executor.ByChance
	case strings.HasSuffix(policy, "-ttl"):
		e.By = executor.ByExpiry
	}
	if c.Bool("lazyfree-lazy-eviction") {
		e.Del = []byte("UNLINK")
	}
	switch tenacity := c.Int("maxmemory-eviction-tenacity"); {
	case tenacity <= 10:
		e.For = max(1, time.Duration(tenacity)*50*time.Microsecond)
	case tenacity < 100:
		e.For = time.Duration(500 * math.Pow(1.15, float64(tenacity-10)) * float64(time.Microsecond))
	}
	srv.set.eviction.Store(e)
}

// evictKeys evicts keys before a command if the data is beyond maxmemory and there is a policy. guard
// is the Guard of the session's calls.
func (srv *Server) evictKeys(b *executor.Batch, guard sync.Locker) {
	e, limit := srv.set.eviction.Load(), srv.set.maxMemory.Load()
	if e == nil || b == nil || limit <= 0 || srv.dataBytes == nil || !srv.exec.Evicts() {
		return
	}
	data, beside := srv.dataBytes()
	if data+beside <= limit || srv.pause.active.Load() || srv.role.Replica() && srv.set.ignoresMemory.Load() {
		return
	}
	// What clients leave unread of what they are told of evicted keys makes this evict no more.
	found, err := b.Evict(*e, func() bool {
		data, _ := srv.dataBytes()
		return data+beside > limit
	}, guard)
	if err != nil {
		srv.clientLog.Error("evicting keys failed", "err", err)
	}
	srv.set.nothingToEvict.Store(!found)
}
