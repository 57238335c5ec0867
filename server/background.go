package server

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"hash/fnv"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"redoubt/executor"
)

// rates are averages over the last moments, for INFO.
type rates struct {
	commands atomic.Int64 // per second
	in, out  atomic.Int64 // bytes per second
}

// rate averages a sum that grows, over as many samples as Redis does.
type rate struct {
	ring [16]float64
	n    int
	last int64
}

func (r *rate) add(sum int64, since time.Duration) int64 {
	r.ring[r.n%len(r.ring)] = float64(max(0, sum-r.last)) / since.Seconds()
	r.last = sum
	r.n++
	total := 0.0
	for _, v := range r.ring[:min(r.n, len(r.ring))] {
		total += v
	}
	return int64(total / float64(min(r.n, len(r.ring))))
}

const (
	sampleEvery = 100 * time.Millisecond
	// slowEvery: adding up the bytes of all sessions takes their locks, and the
	// engine's figures cost something, so those come more rarely.
	slowEvery = 10
)

// sampler measures what INFO and LATENCY tell and nobody counts.
type sampler struct {
	srv               *Server
	commands, in, out rate
	at, slowAt        time.Time
	sweep             executor.SweepStats
	syncs, syncNanos  int64
}

// sample measures until ctx ends.
func (srv *Server) sample(ctx context.Context) {
	tick := time.NewTicker(sampleEvery)
	defer tick.Stop()
	now := time.Now()
	m := &sampler{srv: srv, at: now, slowAt: now}
	for i := 1; ; i++ {
		select {
		case <-ctx.Done():
			return
		case now = <-tick.C:
		}
		if srv.debug.pauseCron.Load() {
			continue
		}
		m.quick(now)
		if i%slowEvery == 0 {
			m.slow(now)
		}
	}
}

func (m *sampler) quick(now time.Time) {
	srv := m.srv
	n, _ := srv.stats.calls()
	srv.stats.rates.commands.Store(m.commands.add(n, max(time.Millisecond, now.Sub(m.at))))
	m.at = now
	if !srv.ready.Load() {
		return
	}
	sweep := srv.exec.SweepStats()
	// On a store elsewhere a cycle waits for round trips, and nobody waits for it.
	if cycles := sweep.Cycles - m.sweep.Cycles; cycles > 0 && !srv.remote {
		m.event("expire-cycle", time.Duration(sweep.Nanos-m.sweep.Nanos)/time.Duration(cycles), now)
	}
	m.sweep = sweep
}

func (m *sampler) slow(now time.Time) {
	srv := m.srv
	in, out := srv.net()
	since := max(time.Millisecond, now.Sub(m.slowAt))
	srv.stats.rates.in.Store(m.in.add(in, since))
	srv.stats.rates.out.Store(m.out.add(out, since))
	m.slowAt = now
	e := srv.figures().Stats
	srv.memory(e) // it notes the peak
	if syncs := e.Syncs - m.syncs; syncs > 0 {
		m.event("store-sync", time.Duration(e.SyncNanos-m.syncNanos)/time.Duration(syncs), now)
	}
	m.syncs, m.syncNanos = e.Syncs, e.SyncNanos
}

// event notes a mean that is over latency-monitor-threshold.
func (m *sampler) event(name string, took time.Duration, now time.Time) {
	if limit := m.srv.latency.threshold(); limit > 0 && took >= limit {
		m.srv.latency.note(name, took, now)
	}
}

// randomID is a run id: 40 hexadecimal digits.
func randomID() string {
	b := make([]byte, 20)
	rand.Read(b) // never fails
	return hex.EncodeToString(b)
}

// initFigures notes how things were at the start.
func (srv *Server) initFigures() {
	srv.stats.startMemory = srv.memory(srv.figures().Stats).used
	srv.save.last = srv.started
}

// buildID tells builds apart: 16 hexadecimal digits.
var buildID = sync.OnceValue(func() string {
	h := fnv.New64a()
	if info, ok := debug.ReadBuildInfo(); ok {
		h.Write([]byte(info.String()))
	}
	return fmt.Sprintf("%016x", h.Sum64())
})
