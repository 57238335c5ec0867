package server

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"redoubt/config"
	"redoubt/engine"
	store "redoubt/engine/local"
	"redoubt/keyspace"
	"redoubt/types/str"
)

func names(t *testing.T, dir string) (out []string) {
	t.Helper()
	list, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range list {
		out = append(out, e.Name())
	}
	return out
}

// A checkpoint replaces the one before it only when it is whole.
func TestWriteCheckpoint(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	content := "one"
	write := func(d string) error {
		if err := os.Mkdir(d, 0o755); err != nil {
			return err
		}
		return os.WriteFile(filepath.Join(d, "f"), []byte(content), 0o644)
	}
	for _, other := range []string{"local", "checkpoint-x", "checkpoint-7.tmp"} {
		if err := os.Mkdir(filepath.Join(dir, other), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if path, _ := lastCheckpoint(dir); path != "" {
		t.Errorf("an unfinished checkpoint counts: %s", path)
	}
	path, err := writeCheckpoint(dir, write)
	if err != nil || path != filepath.Join(dir, "checkpoint-8") {
		t.Fatalf("the first: %s, %v", path, err)
	}
	content = "two"
	failed := errors.New("disk full")
	if _, err := writeCheckpoint(dir, func(d string) error { return errors.Join(write(d), failed) }); !errors.Is(err, failed) {
		t.Errorf("a failed one: %v", err)
	}
	if last, _ := lastCheckpoint(dir); last != path {
		t.Errorf("after a failure the last one is %q, want %q", last, path)
	}
	if b, err := os.ReadFile(filepath.Join(path, "f")); string(b) != "one" {
		t.Errorf("after a failure the last one has %q, %v", b, err)
	}
	if path, err = writeCheckpoint(dir, write); err != nil {
		t.Fatal(err)
	}
	if b, err := os.ReadFile(filepath.Join(path, "f")); string(b) != "two" {
		t.Errorf("the second has %q, %v", b, err)
	}
	if got := names(t, dir); len(got) != 3 || got[0] != "checkpoint-9" || got[1] != "checkpoint-x" || got[2] != "local" {
		t.Errorf("in the directory: %v", got)
	}
}

// What SAVE writes is a store that can be opened.
func TestCheckpointOpens(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	cfg := config.New()
	if err := cfg.Args([]string{"--port", "0", "--dir", dir}); err != nil {
		t.Fatal(err)
	}
	eng, err := store.Open(store.Options{Dir: filepath.Join(dir, "local"), Memory: 8 << 20})
	if err != nil {
		t.Fatal(err)
	}
	srv, err := New(Options{Config: cfg, Engine: eng})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := srv.Shutdown(context.Background()); err != nil {
			t.Error(err)
		}
	}()
	set := func(value string) {
		_, err := srv.exec.Do(nil, func(tx *keyspace.Tx) {
			str.Set(tx, []byte("k"), tx.Find([]byte("k")), []byte(value), 0)
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	set("saved")
	changes := srv.exec.Stats.Changes.Load()
	if !srv.save.begin(srv.started) {
		t.Fatal("somebody else saves")
	}
	if srv.save.begin(srv.started) {
		t.Error("two saves at a time")
	}
	if err := srv.checkpoint(); err != nil {
		t.Fatal(err)
	}
	set("later")
	f := srv.save.figures()
	if f.running || f.failed || f.saves != 1 || f.changes != changes || f.status() != "ok" {
		t.Errorf("figures: %+v", f)
	}

	copied, err := store.Open(store.Options{Dir: f.dir, Memory: 8 << 20})
	if err != nil {
		t.Fatal(err)
	}
	defer copied.Close()
	space, err := keyspace.Open(copied, 16)
	if err != nil {
		t.Fatal(err)
	}
	if keys, _, err := space.Count(0); keys != 1 || err != nil {
		t.Errorf("the checkpoint has %d keys, %v", keys, err)
	}
	view, err := copied.Begin(true)
	if err != nil {
		t.Fatal(err)
	}
	defer view.Close()
	var fx keyspace.Effects
	tx := keyspace.Tx{Space: space, FX: &fx}
	tx.Rows.View, tx.Rows.Batch = view, new(engine.Batch)
	if v := string(tx.Find([]byte("k")).Body); v != "saved" {
		t.Errorf("the checkpoint has %q", v)
	}
}
