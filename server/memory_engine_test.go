package server_test

import (
	"fmt"
	"strings"
	"testing"

	"redoubt/internal/testserver"
)

// On the engine that keeps its data in memory only, maxmemory bounds the data: writes that may
// need memory are refused, with what Redis says, until something is deleted.
func TestMaxmemoryBoundsDataInMemory(t *testing.T) {
	t.Parallel()
	c := dial(t, testserver.Start(t, testserver.Options{Engine: "memory", Args: []string{"--maxmemory", "2mb"}}).Addr)
	send := func(args ...string) string {
		t.Helper()
		if _, err := c.Do(args...); err != nil {
			t.Fatal(err)
		}
		return string(c.Raw())
	}
	full := "-OOM command not allowed when used memory > 'maxmemory'.\r\n"
	value := strings.Repeat("x", 10_000)
	n := 0
	for ; ; n++ {
		if n > 400 {
			t.Fatal("2mb hold 4 MB")
		}
		if reply := send("SET", fmt.Sprint("key", n), value); reply == full {
			break
		} else if reply != "+OK\r\n" {
			t.Fatal(reply)
		}
	}
	if n < 150 {
		t.Errorf("2mb hold %d values of 10 kB", n)
	}
	for _, refused := range [][]string{{"LPUSH", "l", "v"}, {"EVAL", "return redis.call('set', 'k', 'v')", "0"}} {
		if reply := send(refused...); !strings.HasPrefix(reply, "-OOM ") {
			t.Errorf("%v: %q", refused, reply)
		}
	}
	if reply := send("GET", "key1"); !strings.Contains(reply, value) {
		t.Errorf("%.40q", reply)
	}
	if reply := send("DEL", "key1", "key2"); reply != ":2\r\n" {
		t.Errorf("%q", reply)
	}
	if reply := send("SET", "again", "v"); reply != "+OK\r\n" {
		t.Errorf("%q", reply)
	}
}
