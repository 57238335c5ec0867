package pebble

import (
	"io"
	"log/slog"
	"path/filepath"
	"sync"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"redoubt/engine"
	"redoubt/engine/enginetest"
)

var quiet = slog.New(slog.NewTextHandler(io.Discard, nil))

func mustOpen(t *testing.T, o Options) *Engine {
	t.Helper()
	o.Logger = quiet
	e, err := Open(o)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// conform runs the suite on stores with these options, each in its own place.
func conform(t *testing.T, place func(t *testing.T) Options) {
	var options sync.Map // engine -> Options
	enginetest.Run(t,
		func(t *testing.T) engine.Engine {
			o := place(t)
			e := mustOpen(t, o)
			options.Store(e, o)
			return e
		},
		enginetest.Reopen(func(t *testing.T, old engine.Engine) engine.Engine {
			o, _ := options.Load(old)
			if err := old.Close(); err != nil {
				t.Fatal(err)
			}
			e := mustOpen(t, o.(Options))
			options.Store(e, o)
			return e
		}))
}

func TestConformanceMemory(t *testing.T) {
	conform(t, func(t *testing.T) Options { return Options{Dir: "/store", FS: vfs.NewMem(), Fsync: Always} })
}

func TestConformanceDisk(t *testing.T) {
	conform(t, func(t *testing.T) Options {
		return Options{Dir: filepath.Join(t.TempDir(), "store"), Fsync: EverySec}
	})
}
