package main

import (
	"bytes"
	"errors"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"redoubt/engine"
	"redoubt/engine/local"
	"redoubt/internal/typestest"
	"redoubt/journal"
	"redoubt/keyspace"
	"redoubt/types/str"
)

const someTime = typestest.SomeTime

// filler writes to a store as commands do, but nothing happens behind its back.
type filler struct {
	*typestest.Store
	t   *testing.T
	eng *local.Engine
}

// newStore makes a store below a server's directory.
func newStore(t *testing.T, dir string) *filler {
	t.Helper()
	eng, err := local.Open(local.Options{
		Dir: filepath.Join(dir, "local"), Memory: 16 << 20, SegmentBytes: 256 << 10,
		Fsync: journal.No, Unit: keyspace.Unit, Logger: slog.New(slog.DiscardHandler),
	})
	must(t, err)
	return &filler{typestest.On(t, eng, 4), t, eng}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func (f *filler) set(db int, key, value string, expire int64) {
	f.t.Helper()
	f.DoIn(db, func(tx *keyspace.Tx) { str.Set(tx, []byte(key), tx.Find([]byte(key)), []byte(value), expire) })
}

// raw commits rows as they are.
func (f *filler) raw(note func(b *engine.Batch)) {
	f.t.Helper()
	view, err := f.eng.Begin(engine.ViewOptions{})
	must(f.t, err)
	defer view.Close()
	var b engine.Batch
	note(&b)
	_, err = view.Commit(&b)
	must(f.t, err)
}

// populate has something of everything: strings of all forms, expiries, several
// databases, one that was flushed and is not cleared, some rows in tables and
// some only in the journal.
func (f *filler) populate() {
	f.t.Helper()
	big := strings.Repeat("0123456789", 10_000)
	f.set(0, "foo", "bar", 0)
	f.set(0, "n", "42", someTime+1000)
	f.set(0, "big", big, someTime+2000)
	f.set(1, "foo", "other", 0)
	f.set(2, "flushed", "x", someTime+1)
	f.set(2, "flushed big", big, 0)
	for i := range 300 {
		f.set(3, "key"+strings.Repeat("x", i), strings.Repeat("y", 7*i), int64(i%3)*someTime)
	}
	must(f.t, f.eng.Round())
	f.DoIn(2, func(tx *keyspace.Tx) { tx.Flush(2) })
	f.DoIn(0, func(tx *keyspace.Tx) {
		m := tx.Find([]byte("big"))
		tx.Detach([]byte("big"), m)
		tx.Store([]byte("{foo}big"), keyspace.Meta{}, m)
	})
	f.DoIn(0, func(tx *keyspace.Tx) { tx.Swap(0, 1) })
	f.set(3, "gone", big, 0)
	f.DoIn(3, func(tx *keyspace.Tx) { tx.Remove([]byte("gone"), tx.Find([]byte("gone"))) })
	for i := range 100 {
		f.set(3, "late"+strings.Repeat("x", i), "z", 0)
	}
}

func (f *filler) close() {
	f.t.Helper()
	must(f.t, f.eng.Close())
}

// populated makes a server's directory with a store in it that is closed.
func populated(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	f := newStore(t, dir)
	f.populate()
	f.close()
	return dir
}

// rows are all rows and counters of a store.
func rows(t *testing.T, dir string) map[string]string {
	t.Helper()
	i, err := inspect(dir)
	must(t, err)
	s, err := i.State(nil)
	must(t, err)
	m := map[string]string{}
	it := s.Iter(nil, nil, false)
	for it.Next() {
		m[string(it.Key())] = string(it.Value())
	}
	must(t, it.Close())
	for name, n := range s.Counters {
		m["counter "+name] = time.Duration(n).String()
	}
	must(t, s.Close())
	must(t, i.Close())
	return m
}

func sameRows(t *testing.T, got, want string) {
	t.Helper()
	a, b := rows(t, got), rows(t, want)
	if !maps.Equal(a, b) || len(b) < 400 {
		t.Errorf("%s has %d rows, %s has %d, and they differ", got, len(a), want, len(b))
	}
}

// use runs a tool and returns what it printed.
func use(args ...string) (out, log string, err error) {
	var o, l bytes.Buffer
	if ran, e := runTool(args, &o, &l); ran {
		err = e
	} else {
		err = errors.New("there is no such tool")
	}
	return o.String(), l.String(), err
}

// flip changes a bit of a file.
func flip(t *testing.T, path string, at int64) {
	t.Helper()
	b, err := os.ReadFile(path)
	must(t, err)
	if at < 0 {
		at += int64(len(b))
	}
	b[at] ^= 4
	must(t, os.Remove(path)) // it may have other names
	must(t, os.WriteFile(path, b, 0o644))
}

func only(t *testing.T, pattern ...string) string {
	t.Helper()
	list, err := filepath.Glob(filepath.Join(pattern...))
	must(t, err)
	if len(list) == 0 {
		t.Fatalf("no file is like %s", filepath.Join(pattern...))
	}
	return list[0]
}

func TestToolsWantAStoreAtRest(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	f := newStore(t, dir)
	for _, args := range [][]string{
		{"check", "--dir", dir},
		{"journal", "--dir", dir},
		{"journal", "--salvage", "--yes", "--dir", dir},
		{"backup", "--dir", dir, "--to", filepath.Join(dir, "copy")},
		{"restore", "--from", filepath.Join(dir, "local"), "--dir", filepath.Join(dir, "new")},
	} {
		if _, _, err := use(args...); !errors.Is(err, engine.ErrLocked) || !strings.Contains(err.Error(), "BGSAVE") {
			t.Errorf("%q: %v", args, err)
		}
	}
	if exists(dir, "copy") || exists(dir, "new") {
		t.Error("something was left")
	}
	f.close()
}

func TestToolFlags(t *testing.T) {
	t.Parallel()
	empty := t.TempDir()
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"check"}, "--dir is needed"},
		{[]string{"check", "--dir", empty}, "there is no store in"},
		{[]string{"check", "--dir", empty, "more"}, `what is "more"?`},
		{[]string{"check", "--nonsense"}, "not defined"},
		{[]string{"journal"}, "--dir is needed"},
		{[]string{"journal", "--dir", filepath.Join(empty, "none")}, "there is no store in"},
		{[]string{"backup", "--dir", empty}, "--to is needed"},
		{[]string{"backup", "--dir", empty, "--to", filepath.Join(empty, "x")}, "there is no store in"},
		{[]string{"restore", "--dir", empty}, "--from is needed"},
		{[]string{"restore", "--from", filepath.Join(empty, "none"), "--dir", empty}, "no such file"},
	} {
		if _, _, err := use(c.args...); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q: %v", c.args, err)
		}
	}
	if _, log, err := use("backup", "--help"); err != nil || !strings.Contains(log, "-to directory") {
		t.Errorf("help: %v, %s", err, log)
	}
	var out bytes.Buffer
	if err := run([]string{"check"}, &out); err == nil || !strings.Contains(err.Error(), "--dir is needed") {
		t.Errorf("the program does not know its tools: %v", err)
	}
	must(t, usage(&out))
	for _, tool := range tools() {
		if !strings.Contains(out.String(), "\n  "+tool.name+" ") {
			t.Errorf("--help does not speak of %s", tool.name)
		}
	}
	if list, err := os.ReadDir(empty); err != nil || len(list) > 0 {
		t.Errorf("something was left: %v %v", list, err)
	}
}

func TestProgress(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	now := time.Unix(0, 0)
	p := newProgress(&out, 10*time.Second)
	p.now = func() time.Time { return now }
	for i := range int64(5) {
		p.bytes("copied", i<<20, 4<<20)
		now = now.Add(4 * time.Second)
	}
	p.begin("rows")
	p.show("7")
	p.end()
	want := "copied:  75 %, 3.0 MiB of 4.0 MiB, 256.0 KiB/s\n" +
		"copied: 100 %, 4.0 MiB of 4.0 MiB, 256.0 KiB/s\n" +
		"rows: 7\n"
	if out.String() != want {
		t.Errorf("got\n%swant\n%s", &out, want)
	}
}
