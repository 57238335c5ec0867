package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"redoubt/engine"
	"redoubt/journal"
	"redoubt/keyspace"
)

var rewrite = flag.Bool("rewrite", false, "rewrite the golden files")

// goldenStore is a store whose journal has an entry of every kind.
func goldenStore(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	f := newStore(t, dir)
	f.set(0, "foo", "bar", 0)
	f.set(1, "{foo}n", "42", someTime+1000)
	f.set(0, "big", strings.Repeat("x", 70_000), 0)
	f.set(0, "big", "small", 0)
	f.DoIn(1, func(tx *keyspace.Tx) { tx.Flush(1) })
	f.DoIn(0, func(tx *keyspace.Tx) { tx.Remove([]byte("foo"), tx.Find([]byte("foo"))) })
	f.raw(func(b *engine.Batch) {
		b.DeleteRange([]byte{0x10}, []byte{0x20})
		b.Put([]byte{0xff, 0x77, 1}, []byte("?"))
		b.Put([]byte{0x2f, 0x96, 0x77}, nil)
		b.Put(append([]byte{0x2f, 0x96, 1, 0, 0, 0, 1}, "bad"...), []byte{0})
		b.Add([]byte("what"), -7)
	})
	f.close()
	return dir
}

// replicate goes on with a journal as a Raft log, in which the commit of a leader is
// void: another one has a second entry of that index.
func replicate(t *testing.T, dir string) {
	t.Helper()
	var commit []byte // the first of the store's
	last := uint64(0)
	_, err := journal.Walk(journal.OS, dir, 0, func(e journal.Entry) error {
		if e.Kind == journal.Data && commit == nil {
			commit = append(make([]byte, journal.RaftRoom), e.Payload...)
		}
		last = e.Seq
		return nil
	})
	must(t, err)
	r, err := journal.OpenRaft(journal.Options{Dir: dir, Policy: journal.No}, journal.Applied{}, func(journal.RaftHead, []byte) error { return nil }, nil)
	must(t, err)
	add := func(term, commit uint64, kind journal.EntryType, rec []byte) {
		_, err := r.Append(journal.RaftHead{Index: r.Last() + 1, Term: term, Commit: commit, Time: someTime, Type: kind}, rec)
		must(t, err)
	}
	add(2, last, journal.EntryEmpty, make([]byte, journal.RaftRoom))
	add(2, last+1, journal.EntryRows, commit)
	_, err = r.Cut(last + 1)
	must(t, err)
	add(3, last+1, journal.EntryConf, append(make([]byte, journal.RaftRoom), "members"...))
	r.Commit(last + 2)
	must(t, r.Sync(r.Position()))
	must(t, r.Close())
}

func TestJournalGolden(t *testing.T) {
	t.Parallel()
	dir := goldenStore(t)
	var b strings.Builder
	show := func(name string, args ...string) {
		out, _, err := use(append([]string{"journal", "--dir", dir}, args...)...)
		if err != nil {
			out += "error: " + strings.ReplaceAll(err.Error(), dir, "D") + "\n"
		}
		fmt.Fprintf(&b, "# %s\n%s\n", name, out)
	}
	show("redoubt journal --dir D")
	show("redoubt journal --dir D --from 2 --limit 2 --values", "--from", "2", "--limit", "2", "--values")
	seg := only(t, dir, "local", "journal", "*.jnl")
	whole, err := os.ReadFile(seg)
	must(t, err)
	must(t, os.WriteFile(seg, append(whole[:len(whole):len(whole)], "torn"...), 0o644))
	show("the same with a torn tail, --from 7", "--from", "7")
	must(t, os.WriteFile(seg, whole[:len(whole)-60], 0o644))
	show("the same cut short, --from 7", "--from", "7")
	must(t, os.WriteFile(seg, whole, 0o644))
	flip(t, seg, 300)
	show("the same with a flipped bit, --limit 3", "--limit", "3")
	must(t, os.WriteFile(seg, whole, 0o644))
	replicate(t, filepath.Dir(seg))
	show("the same gone on with as that of a replicated store, --from 8", "--from", "8")
	if out, _, err := use("check", "--dir", dir); err == nil || !strings.Contains(out, "the journal is that of a replicated store") {
		t.Errorf("check of a replicated store: %v\n%s", err, out)
	}
	path := filepath.Join("testdata", "journal.txt")
	if *rewrite {
		must(t, os.MkdirAll("testdata", 0o755))
		must(t, os.WriteFile(path, []byte(b.String()), 0o644))
	}
	want, err := os.ReadFile(path)
	must(t, err)
	if b.String() != string(want) {
		t.Errorf("got\n%s\nwant what is in %s (or -rewrite)", b.String(), path)
	}
}

// Salvaging asks first, and then does what it said.
func TestSalvage(t *testing.T) {
	t.Parallel()
	dir := goldenStore(t)
	out, _, err := use("journal", "--salvage", "--yes", "--dir", dir)
	if err != nil || !strings.Contains(out, "nothing to salvage") {
		t.Errorf("a journal that is well: %v\n%s", err, out)
	}
	seg := only(t, dir, "local", "journal", "*.jnl")
	flip(t, seg, 250) // record 3, of which the store has nothing yet
	before, err := os.ReadFile(seg)
	must(t, err)
	out, _, err = use("journal", "--salvage", "--dir", dir)
	if err == nil || !strings.Contains(err.Error(), "nothing was changed") || !strings.Contains(err.Error(), "--yes") {
		t.Errorf("without --yes: %v", err)
	}
	for _, want := range []string{"corrupt: segment 00000001.jnl, offset ", "Up to record 2 everything can be kept.", "records 3 to 8 and what followed them, of which 5 can still be read", "acknowledged"} {
		if !strings.Contains(out, want) {
			t.Errorf("%s\nlacks %s", out, want)
		}
	}
	after, err := os.ReadFile(seg)
	if list, _ := os.ReadDir(filepath.Dir(seg)); err != nil || string(after) != string(before) || len(list) != 1 {
		t.Error("it was changed without --yes")
	}
	if out, _, err = use("journal", "--salvage", "--yes", "--dir", filepath.Dir(seg)); err != nil || !strings.Contains(out, "put aside: 00000001.jnl.damaged\n") {
		t.Errorf("with --yes: %v\n%s", err, out)
	}
	if out, _, err = use("check", "--dir", dir); err != nil {
		t.Errorf("check: %v\n%s", err, out)
	}
	f := newStore(t, dir)
	f.DoIn(0, func(tx *keyspace.Tx) {
		if got := string(tx.Find([]byte("foo")).Body); got != "bar" {
			t.Errorf("foo is %q", got)
		}
	})
	f.close()
}

// Where the tables are gone, salvaging the journal would give a store that is
// wrong.
func TestSalvageWithoutTables(t *testing.T) {
	t.Parallel()
	dir := populated(t)
	must(t, os.Remove(only(t, dir, "local", "store", "MANIFEST-*")))
	_, _, err := use("journal", "--salvage", "--yes", "--dir", dir)
	if err == nil || !strings.Contains(err.Error(), "restore a backup") {
		t.Error(err)
	}
	out, log, err := use("journal", "--dir", dir, "--limit", "1")
	if !strings.Contains(out, "record ") || !strings.Contains(log, "the tables cannot be read") || errors.Is(err, engine.ErrCorrupt) {
		t.Errorf("printing it: %v\n%s\n%s", err, out, log)
	}
}
