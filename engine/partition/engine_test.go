package partition_test

import (
	"log/slog"
	"testing"
	"time"

	"redoubt/engine"
	"redoubt/engine/enginetest"
	"redoubt/engine/partition"
	"redoubt/internal/partmem"
)

// layout has the keys of the suite in several partitions.
func layout(t testing.TB) partition.Layout {
	l, err := partition.NewLayout(0x4000, 64, 'a'<<8, 'b'<<8, 'c'<<8, 'k'<<8, 'n'<<8, 's'<<8, 'x'<<8, 'y'<<8, 0xff00)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// open opens an engine on a store in memory.
func open(t testing.TB, s *partmem.Store) *partition.Engine {
	t.Helper()
	e, err := partition.Open(partition.Options{
		Store: s, Layout: layout(t), Timeout: 10 * time.Second, LockTTL: 50 * time.Millisecond,
		Logger: slog.New(slog.NewTextHandler(t.Output(), nil)),
	})
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// opened is an engine with the table under it.
type opened struct {
	*partition.Engine
	table *partmem.Table
}

func TestEngine(t *testing.T) {
	t.Parallel()
	again := func(t *testing.T, e engine.Engine) engine.Engine {
		table := e.(opened).table
		return opened{open(t, table.Open()), table}
	}
	enginetest.Run(t, func(t *testing.T) engine.Engine {
		table := partmem.New()
		return opened{open(t, table.Open()), table}
	}, enginetest.Longest(60<<10), enginetest.Another(again), enginetest.Reopen(func(t *testing.T, e engine.Engine) engine.Engine {
		if err := e.Close(); err != nil {
			t.Fatal(err)
		}
		return again(t, e)
	}))
}
