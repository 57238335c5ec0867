package server_test

import (
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"

	"redoubt/engine"
	"redoubt/engine/mem"
	"redoubt/internal/respclient"
	"redoubt/internal/testserver"
)

// fullEngine is a store whose disk may be full.
type fullEngine struct {
	engine.Engine
	full atomic.Bool
}

func (e *fullEngine) Full() error {
	if e.full.Load() {
		return fmt.Errorf("%w: the disk is full", engine.ErrReadOnly)
	}
	return nil
}

// While the disk is full, commands that may need memory are refused, alone, in
// transactions and in scripts. All others work, and INFO and the metrics tell.
func TestFullDisk(t *testing.T) {
	t.Parallel()
	eng := &fullEngine{Engine: mem.New()}
	s := testserver.Start(t, testserver.Options{
		Args: []string{"--metrics-addr", "127.0.0.1:0"},
		Open: func(testing.TB, *slog.Logger) (engine.Engine, error) { return eng, nil },
	})
	c, err := respclient.Dial(s.Addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	want := func(want string, args ...string) {
		t.Helper()
		v, err := c.Do(args...)
		if got := v.String(); err != nil || got != want {
			t.Errorf("%q: %s, %v; want %s", args, got, err, want)
		}
	}
	told := func(full bool, metric string) {
		t.Helper()
		v, err := c.Do("INFO", "everything")
		if err != nil {
			t.Fatal(err)
		}
		if got := strings.Contains(v.Str, "\r\nstore_error:store refuses writes") && strings.Contains(v.Str, "\r\naof_last_write_status:err\r\n"); got != full {
			t.Errorf("INFO tells of it: %v", got)
		}
		if !strings.Contains(v.Str, "\r\nrdb_last_bgsave_status:ok\r\n") {
			t.Error("INFO says that a save has failed")
		}
		if text := scrape(t, s); !strings.Contains(text, metric) {
			t.Errorf("the metrics have no %q", metric)
		}
	}
	for _, key := range []string{"a", "b", "c", "d", "e", "f", "g"} {
		want("OK", "SET", key, "1")
	}
	want("(integer) 2", "RPUSH", "l", "x", "y")
	told(false, "\nredoubt_engine_ok 1\n")
	eng.full.Store(true)
	const refused = "(error) MISCONF store refuses writes: the disk is full"
	want(refused, "SET", "a", "2")
	want(refused, "LPUSH", "l", "z")
	want(refused, "INCR", "a")
	want(`"1"`, "GET", "a")
	want("(integer) 1", "DEL", "a")
	want("(integer) 1", "UNLINK", "b")
	want(`"1"`, "GETDEL", "c")
	want("(integer) 1", "EXPIRE", "d", "100")
	want(`"x"`, "LPOP", "l")
	want("(integer) 1", "EVAL", "return redis.call('DEL', KEYS[1])", "1", "d")
	if v, err := c.Do("EVAL", "return redis.call('SET', KEYS[1], 1)", "1", "d"); err != nil || !strings.HasPrefix(v.String(), refused) {
		t.Errorf("a script that writes: %s, %v", v, err)
	}
	want("OK", "MULTI")
	want("QUEUED", "DEL", "e")
	want("1) (integer) 1", "EXEC")
	want("OK", "MULTI")
	want(refused, "SET", "f", "2")
	want("(error) EXECABORT Transaction discarded because of previous errors.", "EXEC")
	eng.full.Store(false)
	want("OK", "MULTI")
	want("QUEUED", "SET", "f", "2")
	eng.full.Store(true)
	want("(error) EXECABORT Transaction discarded because of: "+strings.TrimPrefix(refused, "(error) "), "EXEC")
	told(true, "\nredoubt_engine_ok 0\n")
	want("OK", "FLUSHDB")
	want("OK", "FLUSHALL")
	eng.full.Store(false)
	want("OK", "SET", "a", "3")
	told(false, "\nredoubt_engine_ok 1\n")
}
