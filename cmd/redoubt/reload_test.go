package main

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"redoubt/config"
	"redoubt/engine"
	"redoubt/engine/mem"
	"redoubt/server"
)

// lines is a log that can be read while it is written.
type lines struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *lines) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(b)
}

func (l *lines) has(s string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Contains(l.text.String(), s)
}

// SIGHUP has the channels file be read again. A wrong one changes nothing, and does not end
// the server.
func TestHangUpReloads(t *testing.T) {
	file := filepath.Join(t.TempDir(), "channels.yaml")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("channels:\n  - regex: a\n")
	cfg := config.New()
	if err := cfg.Args([]string{"--port", "0", "--bind", "127.0.0.1", "--dir", t.TempDir(), "--engine", "memory", "--channels-file", file}); err != nil {
		t.Fatal(err)
	}
	out := new(lines)
	log := slog.New(slog.NewTextHandler(out, nil))
	srv, err := server.New(server.Options{Config: cfg, Logger: log, Open: func(context.Context, func(int64, int64)) (engine.Engine, error) { return mem.New(), nil }})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := srv.Shutdown(context.Background()); err != nil {
			t.Error(err)
		}
	})
	send := func(s syscall.Signal) {
		if err := syscall.Kill(os.Getpid(), s); err != nil {
			t.Error(err)
		}
	}
	ready := make(chan struct{})
	go func() {
		defer send(syscall.SIGTERM)
		<-ready
		for _, step := range [][2]string{
			{"channels:\n  - regex: a\n  - regex: b\n", "rules=2"},
			{"channels:\n  - regex: '['\n", "SIGHUP: the configuration of channels stays as it was"},
			{"channels:\n  - regex: a\n  - regex: b\n  - regex: c\n", "rules=3"},
		} {
			write(step[0])
			send(syscall.SIGHUP)
			for begin := time.Now(); !out.has(step[1]); time.Sleep(5 * time.Millisecond) {
				if time.Since(begin) > 10*time.Second {
					t.Errorf("the log has no %q", step[1])
					return
				}
			}
		}
	}()
	if _, err := serve(srv, log, nil, func() { close(ready) }); err != nil {
		t.Error(err)
	}
}
