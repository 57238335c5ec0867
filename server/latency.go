package server

import (
	"sync"
	"sync/atomic"
	"time"
)

// latencyMonitor keeps, per kind of event, the newest spikes above
// latency-monitor-threshold.
type latencyMonitor struct {
	limit  atomic.Int64 // nanoseconds; 0: off
	mu     sync.Mutex
	events map[string]*latencySeries
}

type latencySeries struct {
	samples []latencySample // one a second at most, oldest first
	max     int64           // milliseconds, of all time
}

type latencySample struct {
	at int64 // Unix seconds
	ms int64
}

const latencySamples = 160

func (m *latencyMonitor) set(d time.Duration)      { m.limit.Store(int64(d)) }
func (m *latencyMonitor) threshold() time.Duration { return time.Duration(m.limit.Load()) }

// note records a spike; within one second the largest counts.
func (m *latencyMonitor) note(event string, took time.Duration, now time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.events == nil {
		m.events = make(map[string]*latencySeries)
	}
	s := m.events[event]
	if s == nil {
		s = &latencySeries{}
		m.events[event] = s
	}
	ms, at := took.Milliseconds(), now.Unix()
	s.max = max(s.max, ms)
	if n := len(s.samples); n > 0 && s.samples[n-1].at == at {
		s.samples[n-1].ms = max(s.samples[n-1].ms, ms)
		return
	}
	s.samples = append(s.samples, latencySample{at, ms})
	if over := len(s.samples) - latencySamples; over > 0 {
		s.samples = s.samples[over:]
	}
}
