package background

import (
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"redoubt/engine"
	localstore "redoubt/engine/local"
	"redoubt/engine/mem"
	records "redoubt/journal"
	"redoubt/keyspace"
	"redoubt/types/str"
)

// A count whose snapshot is revoked begins anew; if that happens each time, the error says
// what to do.
func TestRecountOutlivesItsSnapshot(t *testing.T) {
	t.Parallel()
	eng, err := localstore.Open(localstore.Options{
		Dir: filepath.Join(t.TempDir(), "local"), Memory: 8 << 20, Fsync: records.No, Unit: keyspace.Unit, Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := eng.Close(); err != nil {
			t.Error(err)
		}
	}()
	x, w := open(t, eng, time.Now, slog.New(slog.DiscardHandler), Options{})
	written := 0
	write := func(db, n int, prefix string) {
		t.Helper()
		for end := written + n; written < end; {
			_, err := x.Do(func(tx *keyspace.Tx) {
				tx.DB = db
				for range 100 {
					written++
					str.Set(tx, fmt.Append(nil, prefix, written), keyspace.Meta{}, nil, 0)
				}
			})
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	revoked := func() int64 {
		for _, s := range eng.Stats().Detail {
			if s.Name == "snapshots_revoked" {
				return s.Value
			}
		}
		t.Fatal("the engine does not say how many snapshots it has revoked")
		return 0
	}
	const keys = 6_000
	write(0, keys, "key")
	revokes := 2                         // as often as this
	long := strings.Repeat("long", 1000) // few of these are much to keep
	// stop is asked in the middle of a count.
	stop := func() bool {
		if revokes--; revokes >= 0 {
			for before := revoked(); revoked() == before && written < 500_000; {
				write(1, 100, long)
			}
		}
		return false
	}
	if n, err := w.Recount(0, stop); n != keys || err != nil || revoked() != 2 {
		t.Errorf("%d keys, %v; %d snapshots were revoked", n, err, revoked())
	}
	revokes = 100
	_, err = w.Recount(0, stop)
	if !errors.Is(err, engine.ErrSnapshotLost) || !strings.Contains(err.Error(), "raise 'maxmemory'") {
		t.Errorf("a count that loses each snapshot: %v", err)
	}
}

// A released hold wants a sweep at once.
func TestHold(t *testing.T) {
	t.Parallel()
	_, w := open(t, mem.New(), time.Now, slog.New(slog.DiscardHandler), Options{})
	w.Hold(false)
	equal(t, "sweeps wanted", len(w.soon), 0)
	w.Hold(true)
	w.Hold(false)
	equal(t, "sweeps wanted", len(w.soon), 1)
}
