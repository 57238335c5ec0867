package server

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"redoubt/command"
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

// latencyEvent is the kind of event that a slow command is.
func latencyEvent(cmd *command.Command) string {
	if cmd.Flags&command.Fast != 0 {
		return "fast-command"
	}
	return "command"
}

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

// series returns a copy of an event's samples.
func (m *latencyMonitor) series(event string) (latencySeries, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	s := m.events[event]
	if s == nil {
		return latencySeries{}, false
	}
	return latencySeries{slices.Clone(s.samples), s.max}, true
}

// names are the events that were seen, in order.
func (m *latencyMonitor) names() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Sorted(maps.Keys(m.events))
}

// reset forgets some events, or all, and says how many there were.
func (m *latencyMonitor) reset(events ...string) (n int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(events) == 0 {
		n = len(m.events)
		m.events = nil
		return n
	}
	for _, e := range events {
		if m.events[e] != nil {
			delete(m.events, e)
			n++
		}
	}
	return n
}

func (s *latencySeries) low() int64 {
	low := s.samples[0].ms
	for _, x := range s.samples {
		low = min(low, x.ms)
	}
	return low
}

func (s *latencySeries) high() int64 {
	high := s.samples[0].ms
	for _, x := range s.samples {
		high = max(high, x.ms)
	}
	return high
}

const (
	graphColumns = 80
	graphRows    = 4
)

// graph draws the samples as columns, the newest to the right, each with its
// age below, written downwards.
func (s *latencySeries) graph(event string, now time.Time) string {
	var b strings.Builder
	low, high := s.low(), s.high()
	fmt.Fprintf(&b, "%s - high %d ms, low %d ms (all time high %d ms)\n", event, high, low, s.max)
	b.WriteString(strings.Repeat("-", graphColumns) + "\n")
	for at := 0; at < len(s.samples); at += graphColumns {
		if at > 0 {
			b.WriteByte('\n')
		}
		drawSamples(&b, s.samples[at:min(len(s.samples), at+graphColumns)], low, high, now)
	}
	return b.String()
}

// A column's top is one of three characters by how far it fills its row.
const columnTops = "_o#"

func drawSamples(b *strings.Builder, samples []latencySample, low, high int64, now time.Time) {
	steps := int64(graphRows * len(columnTops))
	span := max(1, high-low)
	for row := graphRows - 1; row >= 0; row-- {
		for _, x := range samples {
			top := min(steps-1, (x.ms-low)*steps/span) - int64(row*len(columnTops))
			switch {
			case top >= int64(len(columnTops)):
				b.WriteByte('|')
			case top >= 0:
				b.WriteByte(columnTops[top])
			default:
				b.WriteByte(' ')
			}
		}
		b.WriteByte('\n')
	}
	labels, height := make([]string, len(samples)), 0
	for i, x := range samples {
		labels[i] = age(now.Unix() - x.at)
		height = max(height, len(labels[i]))
	}
	b.WriteString(strings.Repeat(" ", len(samples)) + "\n")
	for row := range height {
		for _, l := range labels {
			if row < len(l) {
				b.WriteByte(l[row])
			} else {
				b.WriteByte(' ')
			}
		}
		b.WriteByte('\n')
	}
}

// age prints seconds in one unit.
func age(seconds int64) string {
	switch {
	case seconds < 60:
		return fmt.Sprintf("%ds", seconds)
	case seconds < 3600:
		return fmt.Sprintf("%dm", seconds/60)
	case seconds < 86400:
		return fmt.Sprintf("%dh", seconds/3600)
	}
	return fmt.Sprintf("%dd", seconds/86400)
}

// doctor says in words what the samples say.
func (m *latencyMonitor) doctor(now time.Time) string {
	if m.threshold() == 0 {
		return "Latency is not being watched: latency-monitor-threshold is 0. Set it to the milliseconds from which on " +
			"an event is worth noting, for example CONFIG SET latency-monitor-threshold 100, and ask again later.\n"
	}
	names := m.names()
	if len(names) == 0 {
		return fmt.Sprintf("No event took %d milliseconds or longer since the figures were last reset.\n",
			m.threshold().Milliseconds())
	}
	var b strings.Builder
	fmt.Fprintf(&b, "Events that took %d milliseconds or longer:\n\n", m.threshold().Milliseconds())
	for _, name := range names {
		s, ok := m.series(name)
		if !ok {
			continue // reset meanwhile
		}
		sum := int64(0)
		for _, x := range s.samples {
			sum += x.ms
		}
		n := int64(len(s.samples))
		fmt.Fprintf(&b, "- %s: %d seconds with spikes, the last one %s ago; mean %d ms, worst %d ms (of all time %d ms).\n",
			name, n, age(now.Unix()-s.samples[n-1].at), sum/n, s.high(), s.max)
		if hint := latencyHints[name]; hint != "" {
			fmt.Fprintf(&b, "  %s\n", hint)
		}
	}
	return b.String()
}

// latencyHints are what to look at, by event.
var latencyHints = map[string]string{
	"command": "SLOWLOG GET shows which commands these were. Commands on large values run on workers and keep " +
		"only their own client waiting.",
	"fast-command": "Commands that do little work took long: look for a machine that is short of processor time, and at disk reads " +
		"(cache_misses in INFO redoubt).",
	"expire-cycle": "Many keys expired at once. Spreading their times of expiry helps.",
	"store-sync":   "The disk was slow to make writes durable; with appendfsync always every write waits for it.",
}
