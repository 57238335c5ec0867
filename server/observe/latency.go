package observe

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

// Latency keeps, per kind of event, the newest spikes above
// latency-monitor-threshold.
type Latency struct {
	limit  atomic.Int64 // nanoseconds; 0: off
	mu     sync.Mutex
	events map[string]*series
}

type series struct {
	samples []sample // one a second at most, oldest first
	max     int64    // milliseconds, of all time
}

type sample struct {
	at int64 // Unix seconds
	ms int64
}

const maxSamples = 160

// Set applies latency-monitor-threshold; 0 is off.
func (m *Latency) Set(d time.Duration) { m.limit.Store(int64(d)) }

// Threshold returns the least duration of an event; 0: there are no events.
func (m *Latency) Threshold() time.Duration { return time.Duration(m.limit.Load()) }

// EventOf returns the kind of event of a slow command.
func EventOf(cmd *command.Command) string {
	if cmd.Flags&command.Fast != 0 {
		return "fast-command"
	}
	return "command"
}

// Note records a spike; within one second the largest counts.
func (m *Latency) Note(event string, took time.Duration, now time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.events == nil {
		m.events = make(map[string]*series)
	}
	s := m.events[event]
	if s == nil {
		s = &series{}
		m.events[event] = s
	}
	ms, at := took.Milliseconds(), now.Unix()
	s.max = max(s.max, ms)
	if n := len(s.samples); n > 0 && s.samples[n-1].at == at {
		s.samples[n-1].ms = max(s.samples[n-1].ms, ms)
		return
	}
	s.samples = append(s.samples, sample{at, ms})
	if over := len(s.samples) - maxSamples; over > 0 {
		s.samples = s.samples[over:]
	}
}

// find returns a copy of an event's samples.
func (m *Latency) find(event string) (series, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	s := m.events[event]
	if s == nil {
		return series{}, false
	}
	return series{slices.Clone(s.samples), s.max}, true
}

// names returns the events that were seen, sorted.
func (m *Latency) names() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Sorted(maps.Keys(m.events))
}

// reset removes some events, or all, and returns how many it removed.
func (m *Latency) reset(events ...string) (n int) {
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

func (s *series) low() int64 {
	low := s.samples[0].ms
	for _, x := range s.samples {
		low = min(low, x.ms)
	}
	return low
}

func (s *series) high() int64 {
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
func (s *series) graph(event string, now time.Time) string {
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

func drawSamples(b *strings.Builder, samples []sample, low, high int64, now time.Time) {
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

// doctor returns a report on the samples in words.
func (m *Latency) doctor(now time.Time) string {
	if m.Threshold() == 0 {
		return "Latency is not being watched: latency-monitor-threshold is 0. Set it to the milliseconds from which on " +
			"an event is worth noting, for example CONFIG SET latency-monitor-threshold 100, and ask again later.\n"
	}
	names := m.names()
	if len(names) == 0 {
		return fmt.Sprintf("No event took %d milliseconds or longer since the figures were last reset.\n",
			m.Threshold().Milliseconds())
	}
	var b strings.Builder
	fmt.Fprintf(&b, "Events that took %d milliseconds or longer:\n\n", m.Threshold().Milliseconds())
	for _, name := range names {
		s, ok := m.find(name)
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

// latencyHints are the hints of doctor, by event.
var latencyHints = map[string]string{
	"command": "SLOWLOG GET shows which commands these were. Commands on large values run on workers and keep " +
		"only their own client waiting.",
	"fast-command": "Commands that do little work took long: look for a machine that is short of processor time, and at disk reads " +
		"(cache_misses in INFO redoubt).",
	"expire-cycle": "Many keys expired at once. Spreading their times of expiry helps.",
	"store-sync":   "The disk was slow to make writes durable; with appendfsync always every write waits for it.",
}
