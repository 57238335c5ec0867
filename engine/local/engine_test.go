package local

import (
	"log/slog"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"redoubt/engine"
	"redoubt/engine/enginetest"
	"redoubt/internal/race"
	"redoubt/journal"
)

// tight is a budget so small that rows are evicted and read back all the time.
const tight = 128 << 10

// opened opens a store for a test.
func opened(t testing.TB, change func(*Options)) *Engine {
	t.Helper()
	o := Options{Dir: "store", FS: vfs.NewMem(), Memory: 16 << 20, SegmentBytes: 1 << 20, Logger: slog.New(slog.DiscardHandler)}
	if change != nil {
		change(&o)
	}
	e, err := Open(o)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func TestEngine(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name     string
		restless bool
		change   func(*Options)
	}{
		{"resident", false, func(*Options) {}},
		{"tight", false, func(o *Options) { o.Memory, o.JournalBytes = tight, 32<<10 }},
		{"restless", true, func(o *Options) { o.Memory = tight }},
		{"restless units", true, func(o *Options) { o.Unit = func([]byte) int { return 4 } }},
		{"restless kept", true, func(o *Options) { o.Unit, o.Pinned = func([]byte) int { return 4 }, keepSome }},
		{"restless always", true, func(o *Options) { o.Fsync, o.SegmentBytes = journal.Always, 16<<10 }},
		{"no", false, func(o *Options) { o.Fsync = journal.No }},
	} {
		t.Run(c.name, func(t *testing.T) {
			if race.Enabled && c.name != "resident" && c.name != "restless kept" {
				t.Skip("slow with the race detector; the others cover it")
			}
			t.Parallel()
			open := func(t *testing.T) engine.Engine { return restless(t, opened(t, c.change), c.restless) }
			options := []enginetest.Option{enginetest.Reopen(func(t *testing.T, e engine.Engine) engine.Engine {
				fs := e.(*Engine).fs
				if err := e.Close(); err != nil {
					t.Fatal(err)
				}
				return restless(t, opened(t, func(o *Options) { c.change(o); o.FS = fs }), c.restless)
			})}
			if !c.restless && c.name != "tight" {
				options = append(options, enginetest.Counts())
			}
			enginetest.Run(t, open, options...)
		})
	}
}

// restless has a store write back, evict, fill and clear without pause, if on.
func restless(t testing.TB, e *Engine, on bool) *Engine {
	if !on {
		return e
	}
	e.tasks.Add(1)
	go func() {
		defer e.tasks.Done()
		pace := time.NewTicker(time.Millisecond)
		defer pace.Stop()
		for i := 0; !e.closed.Load(); i++ {
			<-pace.C
			if err := e.Round(); err != nil && !e.closed.Load() {
				t.Errorf("round: %v", err)
				return
			}
			e.set().Evict(1 << 40)
			if i%8 == 0 {
				if err := e.buildFilter(); err != nil && !e.closed.Load() {
					t.Errorf("names: %v", err)
					return
				}
				e.set().FreeFilters()
				e.set().Compact(1 << 20)
			}
			if i%4 == 0 {
				for next := 1; next != 0 && !e.closed.Load(); {
					next = e.fillNext(next)
				}
			}
		}
	}()
	return e
}
