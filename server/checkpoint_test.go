package server

import (
	"context"
	"path/filepath"
	"testing"

	"redoubt/config"
	"redoubt/engine"
	store "redoubt/engine/local"
	"redoubt/keyspace"
	"redoubt/types/str"
)

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
		_, err := srv.exec.Do(func(tx *keyspace.Tx) {
			str.Set(tx, []byte("k"), tx.Find([]byte("k")), []byte(value), 0)
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	set("saved")
	changes := srv.exec.Stats.Changes.Load()
	if err := srv.save.SaveNext(); err != nil {
		t.Fatal(err)
	}
	set("later")
	f := srv.save.Figures()
	if f.Running || f.Failed || f.Saves != 1 || f.Changes != changes || f.Status() != "ok" {
		t.Errorf("figures: %+v", f)
	}

	copied, err := store.Open(store.Options{Dir: f.Dir, Memory: 8 << 20})
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
	view, err := copied.Begin(engine.ViewOptions{})
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
