package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"

	"redoubt/copier"
	"redoubt/engine"
	"redoubt/engine/cql"
	"redoubt/internal/partmem"
	"redoubt/internal/sharedmem"
	"redoubt/internal/testserver"
	"redoubt/keyspace"
	"redoubt/types"
	"redoubt/types/zset"
)

// stores puts stores in memory in the place of clusters, by the prefix.
func stores(t *testing.T) map[string]*sharedmem.Store {
	t.Helper()
	m, was := make(map[string]*sharedmem.Store), openTiKV
	openTiKV = func(_ context.Context, at remote) (engine.Engine, error) {
		if m[at.prefix] == nil {
			m[at.prefix] = sharedmem.New()
		}
		return m[at.prefix].Open(), nil
	}
	tables, wasCQL := make(map[string]*partmem.Table), openCQL
	openCQL = func(o cql.Options) (engine.Engine, error) {
		at := o.Keyspace + "/" + o.Prefix
		if tables[at] == nil && o.Existing {
			return nil, errors.New("there is no such store")
		} else if tables[at] == nil {
			tables[at] = partmem.New()
		}
		return testserver.Partitioned(tables[at].Open(), slog.New(slog.NewTextHandler(t.Output(), nil)))
	}
	t.Cleanup(func() { openTiKV, openCQL = was, wasCQL })
	return m
}

// From a directory to a cluster and back: not parallel, since it changes openTiKV.
func TestCopyToAClusterAndBack(t *testing.T) {
	stores(t)
	dir, back := t.TempDir(), filepath.Join(t.TempDir(), "new", "dir")
	f := newStore(t, dir)
	f.populate()
	limits := types.DefaultLimits
	f.DoIn(0, func(tx *keyspace.Tx) {
		z := zset.Create(tx, []byte("board"), &limits)
		for i := range 2000 {
			z.Add(fmt.Appendf(nil, "player %d", i), float64(i))
		}
		z.Save()
	})
	f.close()
	before, err := os.ReadDir(filepath.Join(dir, "local"))
	must(t, err)

	out, _, err := use("copy", "--from", dir, "--dry-run")
	if err != nil || !regexp.MustCompile(`to be copied: 407 keys, \d{4} rows, `).MatchString(out) {
		t.Errorf("%v\n%s", err, out)
	}
	out, log, err := use("copy", "--from", dir, "--to", "tikv://pd0:2379,pd1:2379/app%3A")
	if err != nil || !regexp.MustCompile(`\ncopied 407 keys, \d{4} rows, .* verified\n$`).MatchString(out) || !strings.Contains(out, "  score       2000 rows ") {
		t.Errorf("%v\n%s", err, out)
	}
	if !strings.Contains(log, "copied: 100 %, ") || !strings.Contains(log, "verified: 100 %, ") {
		t.Errorf("progress: %s", log)
	}
	if _, _, err := use("copy", "--from", dir, "--to", "tikv://pd0:2379/app:"); !errors.Is(err, copier.ErrNotEmpty) {
		t.Errorf("again: %v", err)
	}
	if _, _, err := use("copy", "--from", "tikv://pd0:2379/app:", "--to", back, "--verify=false"); err != nil {
		t.Error(err)
	}
	sameData(t, back, dir)
	if out, _, err := use("check", "--dir", back); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	if after, err := os.ReadDir(filepath.Join(dir, "local")); err != nil || len(after) != len(before) {
		t.Errorf("the source was changed: %v, %v, %v", before, after, err)
	}
}

// sameData compares all but the marks of ids.
func sameData(t *testing.T, got, want string) {
	t.Helper()
	a, b := rows(t, got), rows(t, want)
	for _, m := range []map[string]string{a, b} {
		for key, value := range m {
			if !keyspace.Copied([]byte(key)) || strings.HasPrefix(key, "counter ") && value == "0s" {
				delete(m, key)
			}
		}
	}
	for key, value := range b {
		if a[key] != value {
			t.Fatalf("%q is %q, want %q", key, a[key], value)
		}
	}
	if len(a) != len(b) || len(b) < 400 {
		t.Errorf("%s has %d rows, %s has %d", got, len(a), want, len(b))
	}
}

// From a directory to CQL, to TiKV and back: not parallel, since it changes openCQL.
func TestCopyToCQLAndBack(t *testing.T) {
	stores(t)
	dir, back := populated(t), t.TempDir()
	const at = "cql://user:secret@c0:9042/ks/app"
	if _, _, err := use("copy", "--from", at, "--to", back); err == nil || !strings.Contains(err.Error(), "no such store") {
		t.Errorf("nothing to copy: %v", err)
	}
	for _, step := range [][2]string{{dir, at}, {at, "tikv://pd:1/app:"}, {"tikv://pd:1/app:", "cql://c0/ks/two?width=4"}, {"cql://c0/ks/two", back}} {
		out, _, err := use("copy", "--from", step[0], "--to", step[1])
		if err != nil || !strings.Contains(out, " verified\n") {
			t.Fatalf("%s: %v\n%s", step, err, out)
		}
	}
	sameData(t, back, dir)
	if out, _, err := use("check", "--dir", back); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	if _, _, err := use("copy", "--from", dir, "--to", at); !errors.Is(err, copier.ErrNotEmpty) || strings.Contains(err.Error(), "secret") {
		t.Errorf("again: %v", err)
	}
}

func TestStoresOnCQL(t *testing.T) {
	t.Parallel()
	o, err := parseCQL("cql://us%3Aer:p%40ss@a:1,b/ks/pre%2Ffix?replication=dc1:3,dc2:2&width=4&ca=/x/ca.pem")
	if err != nil || o.User != "us:er" || o.Password != "p@ss" || strings.Join(o.Hosts, " ") != "a:1 b" || o.Keyspace != "ks" ||
		o.Prefix != "pre/fix" || o.Replication != "dc1:3,dc2:2" || o.Width != 4 || o.CA != "/x/ca.pem" {
		t.Errorf("%+v, %v", o, err)
	}
	if o, err := parseCQL("cql://a"); err != nil || o.Keyspace != "redoubt" || o.Prefix != "" {
		t.Errorf("%+v, %v", o, err)
	}
	for name, want := range map[string]string{
		"cql://": "names no host", "cql://u:secret@": "names no host", "cql://u:secret@a/%zz": "invalid URL escape",
		"cql://u:secret@a?x=1": "no directive cql-x", "cql://a?width=x": "must be a number",
	} {
		if _, err := parseCQL(name); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v, want %s", name, err, want)
		}
	}
}

func TestCopyIsInterruptedAndGoesOn(t *testing.T) {
	t.Parallel()
	dir, to := populated(t), t.TempDir()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var out, log bytes.Buffer
	err := copyData(ctx, []string{"--from", dir, "--to", to}, &out, &log)
	if err == nil || !strings.Contains(err.Error(), "interrupted") && !strings.Contains(err.Error(), "canceled") {
		t.Errorf("interrupted: %v", err)
	}
	if _, _, err := use("copy", "--from", dir, "--to", to); err != nil {
		t.Error(err)
	}
	sameData(t, to, dir)
}

func TestCopyWantsStoresAtRest(t *testing.T) {
	t.Parallel()
	dir, busy, done := populated(t), t.TempDir(), t.TempDir()
	f := newStore(t, busy)
	defer f.close()
	for _, c := range []struct {
		want string
		args []string
	}{
		{"BGSAVE", []string{"--from", busy, "--to", done}},
		{"stop the server", []string{"--from", dir, "--to", busy}},
		{"--from is needed", []string{"--to", done}},
		{"--to is needed", []string{"--from", dir}},
		{"there is no store", []string{"--from", done, "--to", done}},
		{"is a store itself", []string{"--from", dir, "--to", filepath.Join(dir, "local")}},
		{"is not host:port", []string{"--from", dir, "--to", "tikv://host/x"}},
		{"invalid URL escape", []string{"--from", dir, "--to", "tikv://host:1/%zz"}},
	} {
		if _, _, err := use(append([]string{"copy"}, c.args...)...); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q: %v", c.args, err)
		}
	}
	if list, err := os.ReadDir(done); err != nil || len(list) > 0 {
		t.Errorf("something was left: %v %v", list, err)
	}
}

// A copy that was cut short says where it goes on. Not parallel, since it changes openTiKV.
func TestCopyResumes(t *testing.T) {
	stores(t)
	open, commits := openTiKV, 0
	openTiKV = func(ctx context.Context, at remote) (engine.Engine, error) {
		eng, err := open(ctx, at)
		var mu sync.Mutex
		eng.(*sharedmem.Engine).Intercept(func(*engine.Batch) (f sharedmem.Fault) {
			mu.Lock()
			defer mu.Unlock()
			if commits++; commits == 5 {
				f.Err = errors.New("no more")
			}
			return f
		})
		return eng, err
	}
	dir := t.TempDir()
	f := newStore(t, dir)
	f.populate()
	f.DoIn(0, func(tx *keyspace.Tx) {
		z := zset.Create(tx, []byte("board"), &types.DefaultLimits)
		for i := range 2000 {
			z.Add(fmt.Appendf(nil, "player %d", i), float64(i))
		}
		z.Save()
	})
	f.close()
	_, log, err := use("copy", "--from", dir, "--to", "tikv://pd:1/app:")
	if err == nil || !strings.Contains(err.Error(), "The copy is not finished") || strings.Contains(log, "unfinished copy") {
		t.Fatalf("%v\n%s", err, log)
	}
	out, log, err := use("copy", "--from", dir, "--to", "tikv://pd:1/app:")
	if err != nil || !regexp.MustCompile(`(?m)^the destination has an unfinished copy of this source: \d+ rows?, .*, about \d+ %, are there already`).MatchString(log) {
		t.Errorf("%v\n%s", err, log)
	}
	if !regexp.MustCompile(`\ncopied 407 keys, \d{4} rows \(\d+ rows? of them before\), .* verified\n$`).MatchString(out) {
		t.Error(out)
	}
}

// dropped is a store that can be removed.
type dropped struct {
	*sharedmem.Engine
	calls *int
}

func (d dropped) Drop(_ context.Context, progress func(int64)) error {
	*d.calls++
	progress(3)
	return nil
}

// Not parallel, since it changes openTiKV.
func TestDrop(t *testing.T) {
	was, calls, store := openTiKV, 0, sharedmem.New()
	t.Cleanup(func() { openTiKV = was })
	openTiKV = func(_ context.Context, at remote) (engine.Engine, error) {
		if at.prefix != "app:" || !at.reader {
			t.Errorf("%+v", at)
		}
		return dropped{store.Open(), &calls}, nil
	}
	for args, want := range map[string]string{"": "--store is needed", "--store ./dir": "no store of a cluster", "--store tikv://pd:1": "names no prefix"} {
		if _, _, err := use(append([]string{"drop"}, strings.Fields(args)...)...); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("drop %s: %v", args, err)
		}
	}
	if out, _, err := use("drop", "--store", "tikv://pd:1/app:"); err != nil || calls != 0 || !strings.Contains(out, `"app:" has 0 rows; --yes removes`) {
		t.Errorf("%q, %v, %d calls", out, err, calls)
	}
	if out, _, err := use("drop", "--store", "tikv://pd:1/app:", "--yes"); err != nil || calls != 1 || !strings.Contains(out, "removed the store") {
		t.Errorf("%q, %v, %d calls", out, err, calls)
	}
}
