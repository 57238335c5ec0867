package server_test

import (
	"context"
	"os"
	"strings"
	"testing"
	"time"

	"redoubt/config"
	"redoubt/engine/mem"
	"redoubt/internal/respclient"
	"redoubt/server"
)

// What CONFIG REWRITE writes starts a server that is the same.
func TestConfigRewriteAndRestart(t *testing.T) {
	t.Parallel()
	for _, rewrite := range [][]string{{"CONFIG", "REWRITE"}, {"DEBUG", "CONFIG-REWRITE-FORCE-ALL"}} {
		path := configFile(t, "# mine", "rename-command flushdb badger", "enable-debug-command yes", "port 0", "dir "+t.TempDir(),
			"bind 127.0.0.1", "user worker on >secret ~jobs:* +@read", "hash-max-listpack-entries 20", "hash-max-ziplist-entries 21")
		boot := func() (*respclient.Client, func()) {
			t.Helper()
			cfg := config.New()
			if err := cfg.Args([]string{path}); err != nil {
				t.Fatal(err)
			}
			srv, err := server.New(server.Options{Config: cfg, Engine: mem.New()})
			if err != nil {
				t.Fatal(err)
			}
			if err := srv.Start(); err != nil {
				t.Fatal(err)
			}
			c, err := respclient.Dial(srv.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			return c, func() {
				c.Close()
				ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
				defer cancel()
				if err := srv.Shutdown(ctx); err != nil {
					t.Error(err)
				}
			}
		}
		do := func(c *respclient.Client, args ...string) string {
			t.Helper()
			v, err := c.Do(args...)
			if err != nil {
				t.Fatal(err)
			}
			return v.String()
		}
		c, stop := boot()
		do(c, "CONFIG", "SET", "maxclients", "77", "save", "", "shutdown-on-sigterm", "nosave now", "hash-max-listpack-entries", "100")
		want := do(c, "CONFIG", "GET", "*")
		if got := do(c, rewrite...); got != "OK" {
			t.Errorf("%v: %s", rewrite, got)
		}
		stop()
		c, stop = boot()
		if got := do(c, "CONFIG", "GET", "*"); got != want {
			t.Errorf("%v: it was\n%s\nand is\n%s", rewrite, want, got)
		}
		if got := do(c, "FLUSHDB"); !strings.Contains(got, "unknown command") {
			t.Errorf("%v: %s", rewrite, got)
		}
		if got := do(c, "ACL", "LIST"); !strings.Contains(got, "user worker on") {
			t.Errorf("%v: %s", rewrite, got)
		}
		stop()
		if text, err := os.ReadFile(path); err != nil || !strings.HasPrefix(string(text), "# mine\nrename-command flushdb badger\n") {
			t.Errorf("%v: %v:\n%s", rewrite, err, text)
		}
	}
}
