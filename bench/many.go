//go:build linux

package main

import (
	"os"
	"time"
)

// runMany compares what many keys cost in memory, and what they cost Go's
// collector.
func runMany() error {
	gc := &collector{rest: os.Stderr}
	s, err := startPair(server{args: []string{"--appendfsync", "everysec"}, env: []string{traceCollector}, stderr: gc},
		server{args: []string{"--appendonly", "no"}})
	if err != nil {
		return err
	}
	var out document
	out.heading(s, loadText()+"all keys written before; Redis keeps nothing on disk; MIX is half GET, half SET; "+explained())
	start, err := s.fillAndSettle()
	if err != nil {
		return err
	}
	get, set := getSet()
	list := loadCases(
		loadCase{name: "GET", requests: mix{get}}, loadCase{name: "SET", requests: mix{set}},
		loadCase{name: "MIX", requests: mix{get, set}},
	)
	shares := map[string]*share{}
	err = s.compareAll(&out, list, func(c loadCase, p *process, run func() (result, error)) (result, error) {
		if p != s.ours {
			return run()
		}
		if shares[c.title()] == nil {
			shares[c.title()] = &share{}
		}
		return shares[c.title()].during(gc, p, run)
	})
	if err != nil {
		return err
	}
	out.printf("\nRedoubt's collector (gctrace: all marking, idle processors' too, without sweeping):\n")
	out.printf("\n| case | collections | CPU of the collector, s | CPU of the process, s | share |\n|---|---|---|---|---|\n")
	for _, c := range list {
		n := shares[c.title()]
		out.printf("| %s | %d | %.2f | %.2f | **%.1f %%** |\n", c.title(), n.cycles, n.gc.Seconds(), n.all.Seconds(), 100*n.gc.Seconds()/n.all.Seconds())
	}
	if err := s.standing(&out, start); err != nil {
		return err
	}
	return out.write()
}

// share is what the collector took of a process's CPU time over some runs.
type share struct {
	cycles  int
	gc, all time.Duration
}

// during adds what is taken while a run lasts.
func (n *share) during(gc *collector, p *process, run func() (result, error)) (result, error) {
	cycles, collected := gc.total()
	cpu, err := p.cpu()
	if err != nil {
		return result{}, err
	}
	r, err := run()
	if err != nil {
		return result{}, err
	}
	cyclesAfter, collectedAfter := gc.total()
	cpuAfter, err := p.cpu()
	n.cycles += cyclesAfter - cycles
	n.gc += collectedAfter - collected
	n.all += cpuAfter - cpu
	return r, err
}
