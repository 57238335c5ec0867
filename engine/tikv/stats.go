package tikv

import (
	"maps"
	"slices"
	"strings"
	"sync/atomic"

	"redoubt/engine"
)

// figures are the engine's own counts, for Stats.
type figures struct {
	commits     atomic.Int64
	conflicts   atomic.Int64
	unknown     atomic.Int64 // commits with an unknown outcome
	unavailable atomic.Int64 // commits that failed with a transient error
	waits       atomic.Int64 // views that had to wait for the viewLimit
	locks       atomic.Int64 // prewrites that met locks
	safePoint   atomic.Int64
}

// Stats implements engine.Engine.
func (e *Engine) Stats() engine.Stats {
	f := &e.figures
	s := engine.Stats{
		Commits: f.commits.Load(),
		Detail: []engine.Stat{
			{Name: "tikv_transactions", Value: int64(e.viewLimit.Taken())},
			{Name: "tikv_conflicts", Value: f.conflicts.Load()},
			{Name: "tikv_unknown_outcomes", Value: f.unknown.Load()},
			{Name: "tikv_unavailable", Value: f.unavailable.Load()},
			{Name: "tikv_waits_for_a_place", Value: f.waits.Load()},
			{Name: "tikv_locks_met", Value: f.locks.Load()},
			{Name: "tikv_safe_point", Value: f.safePoint.Load()},
		},
	}
	sent := e.RPCs()
	for _, kind := range slices.Sorted(maps.Keys(sent)) {
		s.Detail = append(s.Detail, engine.Stat{Name: "tikv_rpc_" + strings.ToLower(kind), Value: sent[kind]})
	}
	return s
}
