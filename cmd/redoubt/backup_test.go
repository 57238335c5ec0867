package main

import (
	"errors"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"redoubt/engine"
	"redoubt/engine/local"
	"redoubt/keyspace"
)

func TestBackupAndRestore(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	f := newStore(t, dir)
	f.populate()
	checkpoint := filepath.Join(dir, "checkpoint-1")
	must(t, f.eng.Checkpoint(checkpoint))
	backup := func(from, to string) {
		t.Helper()
		out, log, err := use("backup", "--dir", from, "--to", to)
		if err != nil || !strings.Contains(out, to+": ") || !strings.Contains(log, "copied: 100 %") {
			t.Fatalf("backup to %s: %v\n%s%s", to, err, out, log)
		}
	}
	restore := func(from, to string) {
		t.Helper()
		out, log, err := use("restore", "--from", from, "--dir", to)
		if err != nil || !strings.Contains(out, filepath.Join(to, "local")+": ") || !strings.Contains(log, "copied: 100 %") || !strings.Contains(log, "rows: 100 %") {
			t.Fatalf("restore from %s: %v\n%s%s", from, err, out, log)
		}
		sameRows(t, to, dir)
	}
	copied := filepath.Join(dir, "copied")
	backup(checkpoint, copied) // of a server that runs
	f.close()
	sameRows(t, copied, dir)
	archive, plain := filepath.Join(dir, "b.tar"), filepath.Join(dir, "deep", "plain")
	backup(dir, archive)
	backup(dir, plain)
	sameRows(t, plain, dir)
	for i, from := range []string{checkpoint, copied, archive, plain} {
		to := filepath.Join(dir, "new", string(rune('a'+i)))
		restore(from, to)
		g := newStore(t, to) // a server can start from it
		g.set(0, "and", "on", 0)
		g.close()
		if out, _, err := use("check", "--dir", to); err != nil {
			t.Errorf("%s: %v\n%s", to, err, out)
		}
	}
	if list, err := os.ReadDir(copied); err != nil || len(list) != 4 {
		t.Errorf("the copy: %v %v", list, err)
	}
}

func TestBackupRefusals(t *testing.T) {
	t.Parallel()
	dir := populated(t)
	for _, to := range []string{filepath.Join(dir, "b"), filepath.Join(dir, "b.tar")} {
		_, _, err := use("backup", "--dir", dir, "--to", to)
		must(t, err)
		if _, _, err := use("backup", "--dir", dir, "--to", to); err == nil || !strings.Contains(err.Error(), "exists") {
			t.Errorf("again to %s: %v", to, err)
		}
		if _, _, err := use("restore", "--from", to, "--dir", dir); err == nil || !strings.Contains(err.Error(), "is not empty") {
			t.Errorf("restoring %s over a store: %v", to, err)
		}
	}
	if _, _, err := use("restore", "--from", filepath.Join(dir, "b"), "--dir", filepath.Join(dir, "local")); err == nil || !strings.Contains(err.Error(), "is a store itself") {
		t.Errorf("into a store: %v", err)
	}
	sameRows(t, filepath.Join(dir, "b"), dir)
}

// Of a store that is damaged no backup is made: it would take the place of a good
// one.
func TestBackupOfADamagedStore(t *testing.T) {
	t.Parallel()
	for file, want := range map[string]string{"store/*.sst": "the table store/", "journal/*.jnl": "the journal is corrupt"} {
		dir := populated(t)
		flip(t, only(t, dir, "local", file), 200)
		for _, name := range []string{"b", "b.tar", "deep/b"} {
			to := filepath.Join(dir, name)
			if _, _, err := use("backup", "--dir", dir, "--to", to); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %v", file, err)
			}
			if exists(to) || exists(to+unfinished) || exists(dir, "deep") {
				t.Errorf("%s: something is left of %s", file, to)
			}
		}
	}
}

// At whatever file a copy is interrupted, what there is of it is no store.
func TestInterruptedCopyIsNoStore(t *testing.T) {
	t.Parallel()
	dir := populated(t)
	i, err := inspect(dir)
	must(t, err)
	files, err := i.Files()
	must(t, err)
	for n := range files {
		to := filepath.Join(t.TempDir(), "b")
		target, err := newDirSink(to)
		must(t, err)
		if _, err := copyStore(i, &interrupted{sink: target, after: n}, newProgress(io.Discard, time.Hour), true); !errors.Is(err, errInterrupted) {
			t.Fatal(err)
		}
		_, err = local.Open(local.Options{Dir: to, Unit: keyspace.Unit, Logger: slog.New(slog.DiscardHandler)})
		if !errors.Is(err, engine.ErrFormat) {
			t.Errorf("after %d files: %v", n, err)
		}
		if _, _, err := use("check", "--dir", to); err == nil {
			t.Errorf("after %d files the check is content", n)
		}
	}
	must(t, i.Close())
}

// interrupted is a copy that ends before a file is whole.
type interrupted struct {
	sink
	after int
}

var errInterrupted = errors.New("interrupted")

func (s *interrupted) add(name string, size int64, r io.Reader) error {
	if s.after--; s.after >= 0 {
		return s.sink.add(name, size, r)
	}
	return errors.Join(s.sink.add(name, size/2, io.LimitReader(r, size/2)), errInterrupted)
}

// A backup that was cut short, or has more in it than a store, is not restored.
func TestRestoreOfABrokenArchive(t *testing.T) {
	t.Parallel()
	dir := populated(t)
	archive := filepath.Join(dir, "b.tar")
	_, _, err := use("backup", "--dir", dir, "--to", archive)
	must(t, err)
	whole, err := os.ReadFile(archive)
	must(t, err)
	restore := func(b []byte, want string) (to string) {
		t.Helper()
		bad := filepath.Join(t.TempDir(), "bad.tar")
		must(t, os.WriteFile(bad, b, 0o644))
		to = filepath.Join(t.TempDir(), "new")
		if out, _, err := use("restore", "--from", bad, "--dir", to); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s\n%s", err, want, out)
		}
		if exists(to, "local", formatFile) {
			t.Error("a store was made")
		}
		return to
	}
	// The archive ends with REDOUBT (a header and a block) and two empty blocks.
	for _, n := range []int{0, 100, 5000, len(whole) / 2, len(whole) - 4*512} {
		if to := restore(whole[:n], "it is not a whole backup"); exists(to) {
			t.Errorf("cut at %d: something is left", n)
		}
	}
	restore([]byte(strings.Replace(string(whole), "store/", "../../", 1)), "") // its header has a checksum
	table := strings.Index(string(whole), ".sst")
	flipped := []byte(string(whole))
	flipped[table+512+700] ^= 1
	to := restore(flipped, "the backup is damaged")
	if !exists(to, "local", "store") {
		t.Error("what could be copied was not kept")
	}
}

// The rows of a store may be inconsistent, and are restored as they are: it is
// all that the user has.
func TestRestoreOfInconsistentRows(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	f := newStore(t, dir)
	f.populate()
	f.raw(func(b *engine.Batch) { b.Add([]byte{0xff, 2, 0, 0, 0, 1}, 1) })
	f.close()
	to := filepath.Join(dir, "b")
	_, _, err := use("backup", "--dir", dir, "--to", to)
	must(t, err)
	out, _, err := use("restore", "--from", to, "--dir", filepath.Join(dir, "new"))
	if err == nil || !strings.Contains(err.Error(), "with 1 inconsistency") || !strings.Contains(out, "counter: ") {
		t.Errorf("%v\n%s", err, out)
	}
	sameRows(t, filepath.Join(dir, "new"), dir)
}
