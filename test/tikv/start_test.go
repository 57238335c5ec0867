package tikv_test

import (
	"context"
	"io"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"redoubt/config"
	"redoubt/engine"
	"redoubt/engine/tikv"
	"redoubt/internal/respclient"
	"redoubt/internal/testtikv"
	"redoubt/server"
)

// TestStartBeforeTheCluster starts a server whose cluster is out of reach: clients are
// told that it loads, the log says what is missing, and it serves as soon as it can.
func TestStartBeforeTheCluster(t *testing.T) {
	t.Parallel()
	for name, link := range map[string]func(*testtikv.Cluster) *testtikv.Link{"PD": (*testtikv.Cluster).PDLink, "store": (*testtikv.Cluster).StoreLink} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := testtikv.Start(t, testtikv.Linked())
			link(c).Cut()
			log := new(text)
			srv := starting(t, c.PD(), testtikv.Prefix(t), log)
			client, err := respclient.Dial(srv.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			defer client.Close()
			if v, err := client.Do("GET", "a"); err != nil || !strings.HasPrefix(v.Str, "LOADING") {
				t.Errorf("GET: %v, %v", v, err)
			}
			await(t, func() bool { return strings.Contains(log.String(), "TiKV does not answer") })
			link(c).Mend()
			await(t, func() bool {
				v, err := client.Do("SET", "a", "1")
				return err == nil && v.Str == "OK"
			})
		})
	}
}

// TestStartWithoutCluster has a server give up after a while.
func TestStartWithoutCluster(t *testing.T) {
	t.Parallel()
	testtikv.Shared(t) // or skip
	srv := starting(t, "127.0.0.1:1", "p", io.Discard)
	select {
	case <-srv.Loaded():
	case <-time.After(time.Minute):
		t.Fatal("it does not give up")
	}
	if err := srv.LoadError(); err == nil || !strings.Contains(err.Error(), "TiKV at 127.0.0.1:1") {
		t.Errorf("error %v", err)
	}
}

// starting starts a server that opens its store in the background.
func starting(t *testing.T, pd, prefix string, log io.Writer) *server.Server {
	t.Helper()
	cfg := config.New()
	if err := cfg.Args([]string{"--port", "0", "--bind", "127.0.0.1", "--dir", t.TempDir()}); err != nil {
		t.Fatal(err)
	}
	srv, err := server.New(server.Options{Config: cfg, Open: func(ctx context.Context, _ func(int64, int64)) (engine.Engine, error) {
		o := tikv.Options{Context: ctx, PD: []string{pd}, Prefix: prefix, Timeout: 5 * time.Second, Logger: slog.New(slog.NewTextHandler(log, nil))}
		if pd == "127.0.0.1:1" {
			o.OpenTimeout = 2 * time.Second
		}
		return tikv.Open(o)
	}})
	if err != nil {
		t.Fatal(err)
	}
	if err := srv.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		defer cancel()
		if err := srv.Shutdown(ctx); err != nil {
			t.Errorf("Shutdown: %v", err)
		}
	})
	return srv
}

// text is what was written so far.
type text struct {
	mu sync.Mutex
	b  strings.Builder
}

func (t *text) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.b.Write(p)
}

func (t *text) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.b.String()
}
