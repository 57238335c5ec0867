package apps

import (
	"context"
	"flag"
	"os"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"redoubt/internal/testserver"
)

var seed = flag.Uint64("seed", 0, "seed of the random choices; 0 takes one from the clock")

// seedOf gives the seed of a test and says it, so that it can be run again.
func seedOf(t *testing.T) uint64 {
	s := *seed
	if s == 0 {
		s = uint64(time.Now().UnixNano())
	}
	t.Logf("seed %d", s)
	return s
}

// servers runs a test on Redoubt with each engine and carrier, and on a real
// Redis if there is to be one.
func servers(t *testing.T, f func(t *testing.T, c *redis.Client)) {
	for name, o := range map[string]testserver.Options{
		"mem":   {Engine: "mem"},
		"pipes": {Engine: "mem", Pipes: true},
		"local": {Engine: "local"},
		"tight": {Engine: "tight"},
		"cold":  {Engine: "cold"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f(t, connect(t, testserver.Start(t, o).Addr))
		})
	}
	t.Run("redis", func(t *testing.T) {
		testserver.Oracle(t)
		t.Parallel()
		f(t, connect(t, testserver.StartRedis(t).Addr))
	})
}

func connect(t *testing.T, addr string) *redis.Client {
	t.Helper()
	c := redis.NewClient(&redis.Options{Addr: addr, MaxRetries: -1, PoolSize: 32, ReadTimeout: 20 * time.Second})
	t.Cleanup(func() { c.Close() })
	return c
}

// quiet is where go-redis tells of connections that fail, which is what some
// tests are about.
type quiet struct{}

func (quiet) Printf(context.Context, string, ...any) {}

func TestMain(m *testing.M) {
	redis.SetLogger(quiet{})
	os.Exit(m.Run())
}
