package cql_test

import (
	"log/slog"
	"testing"
	"time"

	"redoubt/engine"
	"redoubt/engine/cql"
	"redoubt/engine/enginetest"
	"redoubt/engine/partition"
	"redoubt/internal/testcql"
)

// open opens a store with keys of the suite in several partitions.
func open(t testing.TB, prefix string) *partition.Engine {
	t.Helper()
	e, err := cql.Open(cql.Options{
		Hosts: []string{testcql.Host(t)}, Keyspace: testcql.Keyspace, Prefix: prefix, Timeout: 20 * time.Second, Width: 64, Slots: 0x100,
		Apart:  []uint16{'a' << 8, 'b' << 8, 'k' << 8, 'n' << 8, 's' << 8, 'x' << 8, 0xff00},
		Logger: slog.New(slog.NewTextHandler(t.Output(), nil)),
	})
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// opened is an engine with the prefix of its store.
type opened struct {
	*partition.Engine
	prefix string
}

func TestEngine(t *testing.T) {
	t.Parallel()
	again := func(t *testing.T, e engine.Engine) engine.Engine {
		prefix := e.(opened).prefix
		return opened{open(t, prefix), prefix}
	}
	enginetest.Run(t, func(t *testing.T) engine.Engine {
		prefix := testcql.Prefix(t)
		return opened{open(t, prefix), prefix}
	}, enginetest.Longest(60<<10), enginetest.Another(again), enginetest.Reopen(func(t *testing.T, e engine.Engine) engine.Engine {
		if err := e.Close(); err != nil {
			t.Fatal(err)
		}
		return again(t, e)
	}))
}
