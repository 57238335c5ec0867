package main

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"redoubt/config"
	"redoubt/engine"
	"redoubt/engine/mem"
	"redoubt/server"
	"redoubt/version"
)

// The tests send signals to their own process: they do not run side by side.

// newServer makes a server with the given way to open its store.
func newServer(t *testing.T, open server.OpenFunc) *server.Server {
	t.Helper()
	cfg := config.New()
	if err := cfg.Args([]string{"--port", "0", "--bind", "127.0.0.1", "--dir", t.TempDir()}); err != nil {
		t.Fatal(err)
	}
	srv, err := server.New(server.Options{Config: cfg, Open: open})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if err := srv.Shutdown(ctx); err != nil {
			t.Error(err)
		}
	})
	return srv
}

func TestServe(t *testing.T) {
	log, broken := slog.New(slog.DiscardHandler), errors.New("broken")
	kill := func() {
		if err := syscall.Kill(os.Getpid(), syscall.SIGTERM); err != nil {
			t.Error(err)
		}
	}
	for name, c := range map[string]struct {
		open  server.OpenFunc
		ready func()
		begun bool
		want  error
	}{
		"a signal while the store is being opened": {open: func(ctx context.Context, _ func(int64, int64)) (engine.Engine, error) {
			kill()
			<-ctx.Done()
			return nil, ctx.Err()
		}},
		"a store that cannot be opened": {open: func(context.Context, func(int64, int64)) (engine.Engine, error) {
			return nil, broken
		}, want: broken},
		"a signal later": {open: func(context.Context, func(int64, int64)) (engine.Engine, error) {
			return mem.New(), nil
		}, ready: kill, begun: true},
	} {
		begun := false
		_, err := serve(newServer(t, c.open), log, nil, func() {
			begun = true
			if c.ready != nil {
				c.ready()
			}
		})
		if !errors.Is(err, c.want) || begun != c.begun {
			t.Errorf("%s: %v, ready %v", name, err, begun)
		}
	}
}

// A store that cannot be opened is an error that names it, and nothing is left
// of the server.
func TestRunWithoutAStore(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "local"), []byte("no store"), 0o644); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	socket, logfile := filepath.Join(dir, "sock"), filepath.Join(dir, "log")
	err := run([]string{"--port", "0", "--unixsocket", socket, "--dir", dir, "--logfile", logfile, "--engine", "local"}, &out)
	if err == nil || !strings.Contains(err.Error(), filepath.Join(dir, "local")) {
		t.Errorf("run: %v", err)
	}
	if out.Len() > 0 {
		t.Errorf("it says that it serves: %s", &out)
	}
	if _, err := os.Stat(socket); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the socket: %v", err)
	}
}

func TestVersion(t *testing.T) {
	t.Parallel()
	for _, word := range []string{"version", "--version", "-v"} {
		var out strings.Builder
		if err := run([]string{word}, &out); err != nil {
			t.Fatal(err)
		}
		if got, want := out.String(), "redoubt "+version.Current().String()+"\ncommands of Redis "+version.Redis+"\n"; got != want {
			t.Errorf("%s: %q, want %q", word, got, want)
		}
	}
}
