package main

import (
	"context"
	"errors"
	"log/slog"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"
	"unicode"

	"redoubt/budget"
	"redoubt/config"
	"redoubt/engine"
	"redoubt/engine/cql"
	"redoubt/engine/local"
	"redoubt/engine/memory"
	"redoubt/engine/tikv"
	"redoubt/journal"
	"redoubt/keyspace"
	"redoubt/server"
)

// policies are the values of appendfsync.
var policies = map[string]journal.Policy{"always": journal.Always, "everysec": journal.EverySec, "no": journal.No}

// opener returns a function that opens the store of the configuration. A node of a replicated cluster calls
// restart when it has to begin anew.
func opener(cfg *config.Config, held *budget.Budget, log *slog.Logger, restart func()) server.OpenFunc {
	switch cfg.Enum("engine") {
	case "memory":
		return memoryOpener(cfg, held, log)
	case "tikv":
		return tikvOpener(cfg, held, log)
	case "cql":
		return cqlOpener(cfg, held, log)
	}
	if cfg.Str("raft-peers") != "" {
		return replicatedOpener(cfg, held, log, restart)
	}
	open := openLocal(cfg, held, log)
	return func(ctx context.Context, progress func(done, total int64)) (engine.Engine, error) {
		eng, err := open(ctx, progress, nil)
		if err != nil {
			return nil, err
		}
		return eng, nil
	}
}

// openLocal returns a function that opens the engine which keeps its files in the data
// directory, with a log of its own or another one.
func openLocal(cfg *config.Config, held *budget.Budget, log *slog.Logger) func(context.Context, func(done, total int64), func(journal.Opening) (journal.Log, error)) (*local.Engine, error) {
	var open atomic.Pointer[local.Engine]
	apply := func() error {
		eng := open.Load()
		if eng == nil {
			return nil // it is still opening; apply is called again after that
		}
		eng.SetMemory(budgetOf(cfg))
		eng.SetDiskWarning(int(cfg.Int("disk-free-warning")))
		return eng.SetFsync(policies[cfg.Enum("appendfsync")])
	}
	cfg.OnChange("appendfsync", apply)
	cfg.OnChange("maxmemory", apply)
	cfg.OnChange("disk-free-warning", apply)
	return func(ctx context.Context, progress func(done, total int64), openLog func(journal.Opening) (journal.Log, error)) (*local.Engine, error) {
		limitHeap(cfg.Int("maxmemory"))
		eng, err := local.Open(local.Options{
			Context:  ctx,
			Dir:      storeDir(cfg),
			Memory:   budgetOf(cfg),
			Fsync:    policies[cfg.Enum("appendfsync")],
			Unit:     keyspace.Unit,
			Pinned:   keyspace.Pinned,
			Progress: progress,
			Log:      openLog,
			Logger:   log,

			DiskWarning: int(cfg.Int("disk-free-warning")),
		})
		if err != nil {
			return nil, err
		}
		open.Store(eng)
		if err := apply(); err != nil {
			return nil, errors.Join(err, eng.Close())
		}
		go keepBudget(cfg, held, eng)
		return eng, nil
	}
}

// memoryOpener opens the engine that keeps nothing on disk.
func memoryOpener(cfg *config.Config, held *budget.Budget, log *slog.Logger) server.OpenFunc {
	return func(context.Context, func(int64, int64)) (engine.Engine, error) {
		eng := memory.Open(memory.Options{Memory: cfg.Int("maxmemory"), Unit: keyspace.Unit, Kinds: keyspace.Sampled(), Logger: log})
		cfg.OnChange("maxmemory", func() error { eng.SetMemory(cfg.Int("maxmemory")); return nil })
		go keepBudget(cfg, held, eng)
		return eng, nil
	}
}

// tikvOpener opens the engine on a TiKV cluster.
func tikvOpener(cfg *config.Config, held *budget.Budget, log *slog.Logger) server.OpenFunc {
	var open atomic.Pointer[tikv.Engine]
	apply := func() error {
		if eng := open.Load(); eng != nil {
			eng.SetReplicaRead(cfg.Bool("tikv-replica-read"))
			eng.SetMaxTransactions(int(cfg.Int("tikv-max-transactions")))
		}
		return nil
	}
	cfg.OnChange("tikv-replica-read", apply)
	cfg.OnChange("tikv-max-transactions", apply)
	return func(ctx context.Context, _ func(done, total int64)) (engine.Engine, error) {
		go keepBudget(cfg, held, noRows{ctx.Done()})
		eng, err := tikv.Open(tikv.Options{
			Context:         ctx,
			PD:              addresses(cfg.Str("tikv-pd")),
			Prefix:          cfg.Str("tikv-prefix"),
			Unused:          keyspace.Unused(),
			CA:              cfg.Str("tikv-ca"),
			Cert:            cfg.Str("tikv-cert"),
			Key:             cfg.Str("tikv-key"),
			Timeout:         time.Duration(cfg.Int("tikv-timeout")) * time.Millisecond,
			MaxTransactions: int(cfg.Int("tikv-max-transactions")),
			ReplicaRead:     cfg.Bool("tikv-replica-read"),
			Logger:          log,
		})
		if err != nil {
			return nil, err
		}
		open.Store(eng)
		return eng, apply()
	}
}

// cqlOpener opens the engine on a cluster of Cassandra.
func cqlOpener(cfg *config.Config, held *budget.Budget, log *slog.Logger) server.OpenFunc {
	return func(ctx context.Context, _ func(done, total int64)) (engine.Engine, error) {
		go keepBudget(cfg, held, noRows{ctx.Done()})
		eng, err := cql.Open(cql.Options{
			Context:     ctx,
			Hosts:       addresses(cfg.Str("cql-hosts")),
			Keyspace:    cfg.Str("cql-keyspace"),
			Replication: cfg.Str("cql-replication"),
			Prefix:      cfg.Str("cql-prefix"),
			Width:       int(cfg.Int("cql-width")),
			Slots:       keyspace.Slots,
			Apart:       keyspace.Apart(),
			User:        cfg.Str("cql-user"),
			Password:    cfg.Str("cql-password"),
			CA:          cfg.Str("cql-ca"),
			Cert:        cfg.Str("cql-cert"),
			Key:         cfg.Str("cql-key"),
			Datacenter:  cfg.Str("cql-datacenter"),
			Serial:      cfg.Enum("cql-serial"),
			Commit:      cfg.Enum("cql-commit"),
			Single:      cfg.Enum("cql-read"),
			Timeout:     time.Duration(cfg.Int("cql-timeout")) * time.Millisecond,
			MaxViews:    int(cfg.Int("cql-max-transactions")),
			Logger:      log,
		})
		if err != nil {
			return nil, err // and not an interface that holds a nil engine
		}
		return eng, nil
	}
}

// onCluster reports whether the engine stores nothing on this machine.
func onCluster(cfg *config.Config) bool {
	return cfg.Enum("engine") == "tikv" || cfg.Enum("engine") == "cql"
}

// addresses splits a list at commas and spaces.
func addresses(list string) []string {
	return strings.FieldsFunc(list, func(r rune) bool { return r == ',' || unicode.IsSpace(r) })
}

// budgetOf returns the memory budget; without a limit, one that is never reached.
func budgetOf(cfg *config.Config) int64 {
	if n := cfg.Int("maxmemory"); n > 0 {
		return n
	}
	return 1 << 50
}

// storeDir returns the directory of the local engine.
func storeDir(cfg *config.Config) string { return filepath.Join(cfg.Str("dir"), "local") }
