package observe

import (
	"context"
	"sync/atomic"
	"time"
)

// Rates are averages over the last 16 samples, for INFO.
type Rates struct {
	Commands atomic.Int64 // per second
	In, Out  atomic.Int64 // bytes per second
}

// rate averages the growth of a sum, over as many samples as Redis does.
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
	// slowEvery is the number of quick samples per slow one. A slow one takes the locks
	// of all sessions and reads the engine's figures.
	slowEvery = 10
)

// Work is a count of operations and the sum of their durations.
type Work struct{ Count, Nanos int64 }

// mean returns the mean duration of the operations since before, if there were any.
func (w Work) mean(before Work) (took time.Duration, some bool) {
	n := w.Count - before.Count
	if n <= 0 {
		return 0, false
	}
	return time.Duration(w.Nanos-before.Nanos) / time.Duration(n), true
}

// Samples are the sources that the sampler reads besides the observer's own counters.
type Samples struct {
	Paused func() bool              // measuring is paused
	Net    func() (in, out int64)   // bytes that came in and went out
	Sweeps func() (w Work, ok bool) // cycles of expiry that commands wait for; not ok: there are none
	Syncs  func() Work              // syncs of the store
	Memory func()                   // notes the peak of the memory in use
}

// sampler measures the rates of INFO and the events of LATENCY that no command records.
type sampler struct {
	Samples
	o                 *Observer
	commands, in, out rate
	at, slowAt        time.Time
	sweeps, syncs     Work
}

// Sample measures rates and latency events until ctx ends.
func (o *Observer) Sample(ctx context.Context, from Samples) {
	tick := time.NewTicker(sampleEvery)
	defer tick.Stop()
	now := time.Now()
	m := &sampler{Samples: from, o: o, at: now, slowAt: now}
	for i := 1; ; i++ {
		select {
		case <-ctx.Done():
			return
		case now = <-tick.C:
		}
		if m.Paused() {
			continue
		}
		m.quick(now)
		if i%slowEvery == 0 {
			m.slow(now)
		}
	}
}

func (m *sampler) quick(now time.Time) {
	n, _ := m.o.Stats.Calls()
	m.o.Stats.Rates.Commands.Store(m.commands.add(n, max(time.Millisecond, now.Sub(m.at))))
	m.at = now
	sweeps, ok := m.Sweeps()
	if took, some := sweeps.mean(m.sweeps); ok && some {
		m.event("expire-cycle", took, now)
	}
	m.sweeps = sweeps
}

func (m *sampler) slow(now time.Time) {
	in, out := m.Net()
	since := max(time.Millisecond, now.Sub(m.slowAt))
	m.o.Stats.Rates.In.Store(m.in.add(in, since))
	m.o.Stats.Rates.Out.Store(m.out.add(out, since))
	m.slowAt = now
	m.Memory()
	syncs := m.Syncs()
	if took, some := syncs.mean(m.syncs); some {
		m.event("store-sync", took, now)
	}
	m.syncs = syncs
}

// event notes a mean that is over latency-monitor-threshold.
func (m *sampler) event(name string, took time.Duration, now time.Time) {
	if limit := m.o.Latency.Threshold(); limit > 0 && took >= limit {
		m.o.Latency.Note(name, took, now)
	}
}
