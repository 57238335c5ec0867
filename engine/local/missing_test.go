package local

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"redoubt/engine"
	"redoubt/journal"
)

// durably commits rows from..to-1, each by itself, and waits until they are durable.
func durably(t testing.TB, e *Engine, from, to int) {
	t.Helper()
	for i := from; i < to; i++ {
		commit(t, e, func(b *engine.Batch) { b.Put(rowKey(i), fmt.Appendf(nil, "%0200d", i)) })
	}
	ticket := e.Committed()
	await(t, "durability", func() bool { return e.Durable() >= ticket })
}

func missingOptions(dir string) func(*Options) {
	return func(o *Options) {
		o.Dir, o.FS, o.Fsync, o.SegmentBytes = dir, nil, journal.Always, 4<<10
	}
}

// copyStore is what kill -9 leaves of a store that does nothing at the moment.
func copyStore(t testing.TB, from, to string) {
	t.Helper()
	must(t, os.CopyFS(to, os.DirFS(from)))
}

// usedSegments are those that have records, the newest last.
func usedSegments(t testing.TB, dir string) (list []string) {
	t.Helper()
	all, err := filepath.Glob(filepath.Join(dir, journalDir, "*.jnl"))
	must(t, err)
	slices.Sort(all)
	for _, name := range all {
		b, err := os.ReadFile(name)
		must(t, err)
		if len(b) > 72 && slices.ContainsFunc(b[72:], func(c byte) bool { return c != 0 }) {
			list = append(list, name)
		}
	}
	return list
}

// A store whose journal has lost acknowledged records, whichever way, is refused
// with its place and what to do; a check says the same; a salvage makes it one
// that opens, with a beginning of the commits.
func TestMissingJournal(t *testing.T) {
	t.Parallel()
	const before, all = 25, 100
	top := t.TempDir()
	live, older, killed, closed := filepath.Join(top, "live"), filepath.Join(top, "older"), filepath.Join(top, "killed"), filepath.Join(top, "closed")
	e := opened(t, missingOptions(live))
	durably(t, e, 0, before)
	must(t, e.Round())
	durably(t, e, before, 2*before)
	copyStore(t, live, older)
	durably(t, e, 2*before, all)
	copyStore(t, live, killed)
	must(t, e.Close())
	copyStore(t, live, closed)

	truncate := func(cut func(size int64) int64) func(t *testing.T, dir string) {
		return func(t *testing.T, dir string) {
			used := usedSegments(t, dir)
			name := used[len(used)-1]
			i, err := Inspect(InspectOptions{Dir: dir})
			must(t, err)
			end := int64(0)
			_, err = i.WalkJournal(func(e journal.Entry) error {
				if e.File == filepath.Base(name) && e.Kind == journal.Data {
					end = e.Offset + (journal.HeadRoom+int64(len(e.Payload))+7)&^7
				}
				return nil
			})
			must(t, errors.Join(err, i.Close()))
			must(t, os.Truncate(name, cut(end)))
		}
	}
	replace := func(t *testing.T, dir string) {
		must(t, os.RemoveAll(filepath.Join(dir, journalDir)))
		copyStore(t, filepath.Join(older, journalDir), filepath.Join(dir, journalDir))
	}
	harms := map[string]func(t *testing.T, dir string){
		"newest segment removed": func(t *testing.T, dir string) {
			used := usedSegments(t, dir)
			must(t, os.Remove(used[len(used)-1]))
		},
		"middle segment removed": func(t *testing.T, dir string) {
			used := usedSegments(t, dir)
			must(t, os.Remove(used[len(used)/2]))
		},
		"journal removed": func(t *testing.T, dir string) { must(t, os.RemoveAll(filepath.Join(dir, journalDir))) },
		"journal emptied": func(t *testing.T, dir string) {
			must(t, os.RemoveAll(filepath.Join(dir, journalDir)))
			must(t, os.Mkdir(filepath.Join(dir, journalDir), 0o700))
		},
		"truncated to nothing":      truncate(func(int64) int64 { return 0 }),
		"truncated to its header":   truncate(func(int64) int64 { return 40 }),
		"truncated in mid-record":   truncate(func(end int64) int64 { return end - 7 - 8 }),
		"replaced by an older copy": replace,
		"replaced, with its end": func(t *testing.T, dir string) {
			e := opened(t, missingOptions(dir))
			must(t, errors.Join(e.Round(), e.Close()))
			replace(t, dir)
			must(t, os.Remove(filepath.Join(dir, endFile)))
			b, err := os.ReadFile(filepath.Join(older, endFile))
			must(t, err)
			must(t, os.WriteFile(filepath.Join(dir, endFile), b, 0o600))
		},
		"journal and its end removed": func(t *testing.T, dir string) {
			must(t, os.RemoveAll(filepath.Join(dir, journalDir)))
			must(t, os.Remove(filepath.Join(dir, endFile)))
		},
		"end emptied": func(t *testing.T, dir string) { must(t, os.Truncate(filepath.Join(dir, endFile), 0)) },
	}
	for _, from := range []string{killed, closed} {
		for name, harm := range harms {
			t.Run(filepath.Base(from)+", "+name, func(t *testing.T) {
				t.Parallel()
				dir := filepath.Join(t.TempDir(), "store")
				copyStore(t, from, dir)
				e := opened(t, missingOptions(dir))
				if n := len(rowsOf(t, e)); n != all {
					t.Fatalf("unharmed, it has %d rows", n)
				}
				must(t, e.Close())
				must(t, os.RemoveAll(dir))
				copyStore(t, from, dir)
				harm(t, dir)
				refused(t, dir)
				i, err := Inspect(InspectOptions{Dir: dir})
				must(t, err)
				j, err := i.Journal(nil)
				must(t, err)
				_, err = i.Salvage()
				must(t, errors.Join(err, i.Close()))
				e = opened(t, missingOptions(dir))
				rows := rowsOf(t, e)
				if n := len(rows); n < before || e.Committed() != engine.Ticket(j.Kept) || n != int(j.Kept) {
					t.Errorf("after a salvage: %d rows and %d commits; %d were to be kept", n, e.Committed(), j.Kept)
				}
				durably(t, e, all, all+3)
				must(t, e.Close())
				e = opened(t, missingOptions(dir))
				if n := len(rowsOf(t, e)); n != len(rows)+3 {
					t.Errorf("later it has %d rows of %d", n, len(rows)+3)
				}
				must(t, e.Close())
			})
		}
	}
}

// refused fails unless a store is refused by Open and by a check, and Open
// changes nothing.
func refused(t *testing.T, dir string) {
	t.Helper()
	o := Options{Logger: quiet}
	missingOptions(dir)(&o)
	for range 2 { // the first must not mend it
		e, err := Open(o)
		if err == nil {
			n := len(rowsOf(t, e))
			t.Fatalf("the store is opened, with %d rows (%v)", n, e.Close())
		}
		if !errors.Is(err, engine.ErrCorrupt) || !strings.Contains(err.Error(), "--salvage") || !strings.Contains(err.Error(), dir) {
			t.Fatalf("the store is refused: %v", err)
		}
	}
	var reports []string
	i, err := Inspect(InspectOptions{Dir: dir})
	must(t, err)
	i.Check(Checks{Report: func(kind, place, what string) { reports = append(reports, kind+": "+place+": "+what) }, Note: func(string) {}})
	must(t, i.Close())
	if len(reports) == 0 || !strings.HasPrefix(reports[0], "journal: ") {
		t.Fatalf("the check says %q", reports)
	}
}

// A store of the version that had no end file is opened, and has one from then on.
func TestStoreWithoutEnd(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "store")
	e := opened(t, missingOptions(dir))
	durably(t, e, 0, 30)
	must(t, e.Close())
	must(t, os.Remove(filepath.Join(dir, endFile)))
	must(t, os.WriteFile(filepath.Join(dir, formatFile), []byte("redoubt store\nformat 1\nengine local\n"), 0o600))
	e = opened(t, missingOptions(dir))
	if n := len(rowsOf(t, e)); n != 30 {
		t.Errorf("%d rows", n)
	}
	must(t, e.Close())
	must(t, os.Remove(filepath.Join(dir, endFile)))
	refused(t, dir)
}

// A checkpoint has an end of its own.
func TestCheckpointHasAnEnd(t *testing.T) {
	t.Parallel()
	top := t.TempDir()
	e := opened(t, missingOptions(filepath.Join(top, "store")))
	durably(t, e, 0, 30)
	must(t, e.Checkpoint(filepath.Join(top, "empty"))) // its journal has no segments
	restless(t, e, false)
	dir := filepath.Join(top, "copy")
	durably(t, e, 30, 60)
	e.round.Lock()
	err := e.copyTo(dir, func() bool { return true }) // without a round before
	e.round.Unlock()
	must(t, errors.Join(err, e.Close()))
	for name, n := range map[string]int{"empty": 30, "copy": 60} {
		c := opened(t, missingOptions(filepath.Join(top, name)))
		if got := len(rowsOf(t, c)); got != n {
			t.Errorf("%s has %d rows", name, got)
		}
		must(t, c.Close())
	}
	must(t, os.RemoveAll(filepath.Join(dir, journalDir)))
	refused(t, dir)
}
