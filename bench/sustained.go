//go:build linux

package main

import (
	"fmt"
	"time"

	"redoubt/histogram"
)

// window is the interval of percentiles in a long run.
const window = 5 * time.Second

// runSustained writes at full speed for long enough that writing back and
// compaction must run beside it, and shows what they do to latency.
func runSustained() error {
	s, err := startPair(server{args: []string{"--appendfsync", "everysec"}},
		server{args: []string{"--appendonly", "yes", "--appendfsync", "everysec"}})
	if err != nil {
		return err
	}
	var out document
	out.heading(s, loadText()+"all keys written before; random SET, first at P=16, then at P=1, one run each, the waiting server stopped (SIGSTOP)")
	start, err := s.fillAndSettle()
	if err != nil {
		return err
	}
	_, set := getSet()
	for _, pipeline := range []int{16, 1} {
		c := loadCase{name: "SET", pipeline: pipeline, requests: mix{set}}
		if !chosen(c.name, c.pipeline) {
			continue
		}
		results, outcomes := map[*process]result{}, map[*process]*outcome{}
		for _, p := range s.both() {
			err := s.alone(p, func(p *process) (err error) {
				l := p.load(c)
				l.window = window
				results[p], outcomes[p], err = p.measure(l)
				return err
			})
			if err != nil {
				return err
			}
		}
		out.windows(c, outcomes[s.ours], outcomes[s.theirs])
		out.header(true)
		out.line(c.title()+", all", results[s.ours], results[s.theirs], true)
	}
	if err := s.standing(&out, start); err != nil {
		return err
	}
	return out.write()
}

// windows writes the table of a long run.
func (d *document) windows(c loadCase, x, y *outcome) {
	d.printf("\n| %s, seconds | redoubt rps | redis rps | redoubt p50 / p99 / p99.9 / max ms | redis p50 / p99 / p99.9 / max ms |\n|---|---|---|---|---|\n", c.title())
	full := int(min(x.time, y.time) / window) // what runs past the end is in no window
	rate := func(h *histogram.Histogram) float64 { return float64(h.Count()) / window.Seconds() }
	times := func(h *histogram.Histogram) string {
		return fmt.Sprintf("%.2f / %.2f / %.2f / %.1f", h.Milliseconds(0.5), h.Milliseconds(0.99), h.Milliseconds(0.999), h.Most().Seconds()*1e3)
	}
	for i := range min(full, len(x.windows), len(y.windows)) {
		a, b := x.windows[i], y.windows[i]
		at := time.Duration(i) * window
		d.printf("| %.0f-%.0f | %.0f | %.0f | %s | %s |\n", at.Seconds(), (at + window).Seconds(), rate(a), rate(b), times(a), times(b))
	}
}
