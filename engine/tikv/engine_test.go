package tikv

import (
	"fmt"
	"log/slog"
	"testing"
	"time"

	"redoubt/engine"
	"redoubt/engine/enginetest"
	"redoubt/internal/testtikv"
)

func TestMain(m *testing.M) { testtikv.Main(m) }

// options are those of a store of its own on the cluster of the tests.
func options(t testing.TB) Options {
	return Options{
		PD: []string{testtikv.Shared(t)}, Prefix: testtikv.Prefix(t),
		Timeout: 20 * time.Second, Logger: slog.New(slog.DiscardHandler),
	}
}

func mustOpen(t testing.TB, o Options) *Engine {
	t.Helper()
	e, err := Open(o)
	if err != nil {
		t.Fatalf("Open: %v", err)
	}
	return e
}

func TestEngine(t *testing.T) {
	t.Parallel()
	testtikv.Shared(t)
	enginetest.Run(t,
		func(t *testing.T) engine.Engine { return mustOpen(t, options(t)) },
		enginetest.Reopen(func(t *testing.T, e engine.Engine) engine.Engine {
			if err := e.Close(); err != nil {
				t.Fatalf("Close: %v", err)
			}
			return mustOpen(t, e.(*Engine).opt)
		}),
		enginetest.Another(func(t *testing.T, e engine.Engine) engine.Engine {
			return mustOpen(t, e.(*Engine).opt)
		}))
}

// Reads from any replica show the same: here there is one only.
func TestReplicaRead(t *testing.T) {
	t.Parallel()
	o := options(t)
	o.ReplicaRead = true
	e := mustOpen(t, o)
	defer e.Close()
	for i := range 20 {
		if i == 10 {
			e.SetReplicaRead(false)
		}
		must(t, e, put("a", fmt.Sprint(i), "b", fmt.Sprint(i)))
		for _, point := range []bool{false, true} {
			if err := withOptions(e, engine.ViewOptions{PointRead: point}, func(v engine.SharedView) error {
				if got := read(t, v, "a"); got != fmt.Sprint(i) {
					t.Errorf("a = %s after commit %d", got, i)
				}
				return nil
			}); err != nil {
				t.Error(err)
			}
		}
		if row, n, _, err := edge(e, "b", "c", true); err != nil || string(row[n:]) != fmt.Sprint(i) {
			t.Errorf("b = %s after commit %d", row, i)
		}
	}
}
