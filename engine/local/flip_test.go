package local

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"path"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"redoubt/engine"
	"redoubt/engine/enginetest"
	"redoubt/journal"
)

// files lists the files of a directory with a suffix, and their sizes.
func files(t testing.TB, fs vfs.FS, dir, suffix string) map[string]int64 {
	t.Helper()
	names, err := fs.List(dir)
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]int64{}
	for _, name := range names {
		if info, err := fs.Stat(path.Join(dir, name)); err == nil && strings.Contains(name, suffix) && info.Size() > 0 {
			found[path.Join(dir, name)] = info.Size()
		}
	}
	return found
}

// flip changes one bit of a file.
func flip(t testing.TB, fs vfs.FS, name string, at int64, bit byte) {
	t.Helper()
	f, err := fs.OpenReadWrite(name, vfs.WriteCategoryUnspecified)
	if err != nil {
		t.Fatal(err)
	}
	b := make([]byte, 1)
	_, err = f.ReadAt(b, at)
	b[0] ^= 1 << bit
	if err == nil {
		_, err = f.WriteAt(b, at)
	}
	if err = errors.Join(err, f.Close()); err != nil {
		t.Fatal(err)
	}
}

// flips flips bits all over the files of a store, each time on a copy, and says
// what came of it: refused or read with errors, or no difference at all.
func flips(t *testing.T, v *voyage, rng *rand.Rand, sub, suffix string, points int, names bool) {
	all := files(t, v.fs, path.Join(shipDir, sub), suffix)
	total := int64(0)
	for _, size := range all {
		total += size
	}
	refused, broken, harmless := 0, 0, 0
	for name, size := range all {
		for range max(1, int64(points)*size/total) {
			at, bit := rng.Int64N(size), byte(rng.IntN(8))
			d := newVoyage(t, v.fs.crash(100, rng), v.fsync, 0)
			flip(t, d.fs, name, at, bit)
			where := fmt.Sprintf("bit %d at %d of %s (%d bytes)", bit, at, name, size)
			o := Options{Logger: quiet}
			d.options(&o)
			var e *Engine
			var err error
			within(t, where, func() { e, err = Open(o) })
			if err != nil {
				if refused++; !errors.Is(err, engine.ErrCorrupt) || names && !strings.Contains(err.Error(), path.Base(name)) {
					t.Errorf("%s: refused with %v", where, err)
				}
				continue
			}
			within(t, where, func() { err = v.read(e) })
			switch {
			case err == nil:
				harmless++
			case errors.Is(err, engine.ErrCorrupt):
				broken++
			default:
				t.Errorf("%s: %v", where, err)
			}
			within(t, where, func() { _ = e.Close() })
		}
	}
	t.Logf("%d files of %d bytes: refused %d, read with errors %d, no difference %d", len(all), total, refused, broken, harmless)
	if refused+broken == 0 {
		t.Error("no flip was found: either none is looked for, or too few bits were flipped for that")
	}
}

// read reads everything in every way. What it returns is nil, or that something
// could not be read, or that it was wrong.
func (v *voyage) read(e *Engine) (corrupt error) {
	if e.Committed() != v.ledger.written {
		return fmt.Errorf("%d commits are left of %d", e.Committed(), v.ledger.written)
	}
	want, _ := v.ledger.at(v.ledger.written)
	view, err := e.Begin(engine.ViewOptions{})
	if err != nil {
		return err
	}
	defer view.Close()
	errs := 0
	for key, value := range want.rows {
		got, found, err := view.Get([]byte(key), nil)
		switch {
		case errors.Is(err, engine.ErrCorrupt):
			if corrupt, errs = err, errs+1; errs > 5 {
				return corrupt // Pebble takes its time to make such an error
			}
		case err != nil || !found || string(got) != value:
			return fmt.Errorf("row %q is %.40q, found %v, %w, should be %.40q", key, got, found, err, value)
		}
	}
	if err := want.check(e); err != nil && !errors.Is(err, engine.ErrCorrupt) {
		return err
	} else if err != nil {
		corrupt = err
	}
	return corrupt
}

// A bit that flips in what was synced is found when the journal is read, or does
// not matter; in a table it is found when the block is read. The rows are never
// other than they were. REDOUBT_FLIPS says how many bits.
func TestBitFlips(t *testing.T) {
	t.Parallel()
	seed := enginetest.Seed(t)
	rng := rand.New(rand.NewPCG(seed, 5))
	points := scale(t, "REDOUBT_FLIPS", 48)
	small := newVoyage(t, vfs.NewCrashableMem(), journal.Always, seed)
	small.sail(100)
	last := newVoyage(t, vfs.NewCrashableMem(), journal.Always, seed)
	last.change = func(o *Options) { o.Memory, o.JournalBytes = 16<<20, 1<<20 }
	e := last.open()
	for range 60 { // without a round: all of them are needed
		if err := last.ledger.commit(e, true, last.load.commit()); err != nil {
			t.Fatal(err)
		}
	}
	last.close(e)
	large := newVoyage(t, vfs.NewCrashableMem(), journal.Always, seed)
	large.load.big = 1
	large.change = func(o *Options) { o.tableBytes = 64 << 10 }
	large.sail(300)
	t.Run("journal", func(t *testing.T) { flips(t, last, rng, journalDir, ".jnl", points, true) })
	t.Run("tables", func(t *testing.T) { flips(t, large, rng, storeDir, ".sst", points, false) })
	t.Run("small tables", func(t *testing.T) { flips(t, small, rng, storeDir, ".sst", points/2, false) })
	t.Run("manifest", func(t *testing.T) { flips(t, small, rng, storeDir, "MANIFEST", max(24, points/2), false) })
}
