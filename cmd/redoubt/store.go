package main

import (
	"context"
	"errors"
	"log/slog"
	"path/filepath"
	"runtime/debug"
	"sync/atomic"
	"time"

	"redoubt/config"
	"redoubt/engine"
	"redoubt/engine/local"
	"redoubt/engine/mem"
	"redoubt/journal"
	"redoubt/keyspace"
	"redoubt/server"
)

// policies are the values of appendfsync.
var policies = map[string]journal.Policy{"always": journal.Always, "everysec": journal.EverySec, "no": journal.No}

// opener returns what opens the store that the configuration names.
func opener(cfg *config.Config, log *slog.Logger) server.OpenFunc {
	if cfg.Enum("engine") == "mem" {
		return func(context.Context, func(int64, int64)) (engine.Engine, error) { return mem.New(), nil }
	}
	var open atomic.Pointer[local.Engine]
	apply := func() error {
		eng := open.Load()
		if eng == nil {
			return nil // it is still opening, and will be told
		}
		eng.SetMemory(memory(cfg))
		return eng.SetFsync(policies[cfg.Enum("appendfsync")])
	}
	cfg.OnChange("appendfsync", apply)
	cfg.OnChange("maxmemory", apply)
	return func(ctx context.Context, progress func(done, total int64)) (engine.Engine, error) {
		eng, err := local.Open(local.Options{
			Context:  ctx,
			Dir:      storeDir(cfg),
			Memory:   memory(cfg),
			Fsync:    policies[cfg.Enum("appendfsync")],
			Unit:     keyspace.Unit,
			Progress: progress,
			Logger:   log,
		})
		if err != nil {
			return nil, err
		}
		open.Store(eng)
		if err := apply(); err != nil {
			return nil, errors.Join(err, eng.Close())
		}
		go keepBudget(cfg, eng)
		return eng, nil
	}
}

// memory is the budget; no limit is one that is never reached.
func memory(cfg *config.Config) int64 {
	if n := cfg.Int("maxmemory"); n > 0 {
		return n
	}
	return 1 << 50
}

// storeDir is where the local engine keeps its files.
func storeDir(cfg *config.Config) string { return filepath.Join(cfg.Str("dir"), "local") }

// keepBudget gives the collector what the budget leaves beside the rows, which
// are not on the Go heap: it then works harder instead of taking more memory.
func keepBudget(cfg *config.Config, eng *local.Engine) {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		if budget := cfg.Int("maxmemory"); budget > 0 {
			debug.SetMemoryLimit(max(budget+budget*2/9-programSize-eng.OffHeap(), leastHeap))
		}
		select {
		case <-tick.C:
		case <-eng.Closed():
			return
		}
	}
}

const (
	programSize = 24 << 20 // code and constants, as they are mapped
	leastHeap   = 48 << 20 // what the Go heap may take in any case
)
