package checkpoint

import (
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"redoubt/config"
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

// fakeStore calls write for a checkpoint.
type fakeStore struct{ write func(dir string) error }

func (fakeStore) Changes() int64                { return 7 }
func (fakeStore) Keys() int64                   { return 0 }
func (f fakeStore) Checkpoint(dir string) error { return f.write(dir) }

// There is one save at a time, and the figures tell how the last one went.
func TestOneSaveAtATime(t *testing.T) {
	t.Parallel()
	cfg := config.New()
	if err := cfg.Args([]string{"--dir", t.TempDir()}); err != nil {
		t.Fatal(err)
	}
	started := time.Unix(1000, 0)
	var workers sync.WaitGroup
	var s Saver
	s.Init(Options{Config: cfg, Log: slog.New(slog.DiscardHandler), Started: started, Workers: &workers})
	if f := s.Figures(); !f.Last.Equal(started) || f.LastSeconds() != -1 || f.RunningSeconds() != -1 {
		t.Errorf("at first: %+v", f)
	}
	entered, leave := make(chan struct{}), make(chan error)
	s.Open(fakeStore{func(string) error { entered <- struct{}{}; return <-leave }}, false)
	failed := errors.New("disk full")
	for _, outcome := range []error{failed, errors.ErrUnsupported} {
		done := make(chan error)
		go func() { done <- s.SaveNext() }()
		<-entered
		if s.begin(time.Now()) {
			t.Error("two saves at a time")
		}
		if f := s.Figures(); !f.Running || f.RunningSeconds() < 0 {
			t.Errorf("while it runs: %+v", f)
		}
		leave <- outcome
		if err := <-done; errors.Is(err, failed) != (outcome == failed) {
			t.Errorf("the store says %v, the saver %v", outcome, err)
		}
		if f := s.Figures(); f.Running || f.Failed != (outcome == failed) || f.Status() != map[bool]string{true: "err", false: "ok"}[f.Failed] {
			t.Errorf("after %v: %+v", outcome, f)
		}
	}
	if f := s.Figures(); f.Saves != 1 || f.Changes != 7 || f.Dir != "" {
		t.Errorf("in the end: %+v", f)
	}
}
