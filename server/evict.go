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
	e := srv.set.eviction.Load()
	if e == nil || b == nil || srv.dataBytes == nil || !srv.exec.Evicts() || !srv.beyondMemory() {
		return
	}
	if srv.pause.active.Load() || srv.role.Replica() && srv.set.ignoresMemory.Load() {
		return
	}
	found, err := b.Evict(*e, srv.beyondMemory, guard)
	if err != nil {
		srv.log.Error("evicting keys failed", "err", err)
	}
	srv.set.nothingToEvict.Store(!found)
}

// beyondMemory reports whether the data is beyond maxmemory.
func (srv *Server) beyondMemory() bool {
	limit := srv.set.maxMemory.Load()
	return limit > 0 && srv.dataBytes() > limit
}
