package cql_test

import (
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"redoubt/engine"
	"redoubt/engine/partition"
	"redoubt/internal/partmem"
	"redoubt/internal/respclient"
	"redoubt/internal/testserver"
)

// TestQueues pops queues of all kinds: what a pop reads does not grow with what was popped
// before.
func TestQueues(t *testing.T) {
	t.Parallel()
	const size, pops = 3000, 1200
	for _, queue := range []struct{ name, push, pop string }{
		{"list", "RPUSH q # ", "LPOP q"},
		{"least of a sorted set", "ZADD q # m#", "ZPOPMIN q"},
		{"greatest of a sorted set", "ZADD q # m#", "ZPOPMAX q"},
		{"stream that is trimmed", "XADD q #-1 f v", "XADD q MAXLEN 1000 * f v"},
		{"stream that is read", "XADD q #-1 f v", "XTRIM q MAXLEN 500"},
		{"set", "SADD q m#", "SPOP q"},
	} {
		t.Run(queue.name, func(t *testing.T) {
			t.Parallel()
			store := partmem.New().Open()
			s := testserver.Start(t, testserver.Options{Open: func(_ testing.TB, log *slog.Logger) (engine.Engine, error) {
				return testserver.Partitioned(store, log)
			}})
			c, err := respclient.Dial(s.Addr)
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			var push []string
			for i := range size {
				push = append(push, strings.ReplaceAll(queue.push, "#", fmt.Sprint(i+1)))
			}
			send(t, c, push...)
			before := store.Passed()
			for range pops {
				send(t, c, queue.pop)
			}
			if strings.HasPrefix(queue.push, "XADD") {
				send(t, c, "XRANGE q - + COUNT 1", "XREVRANGE q + - COUNT 1", "XREAD COUNT 1 STREAMS q 0")
			}
			if n := store.Passed() - before; n > 80*pops {
				t.Errorf("%d pops have passed over %d deleted rows", pops, n)
			} else {
				t.Logf("%d a pop, %d reads over many", n/pops, over(s.Engine.(*partition.Engine)))
			}
		})
	}
}

// over returns how many reads have passed over many deleted rows.
func over(e *partition.Engine) int64 {
	for _, s := range e.Stats().Detail {
		if s.Name == "store_reads_over_deleted_rows" {
			return s.Value
		}
	}
	return -1
}

// send sends commands at once and reads the replies, none of which may be an error.
func send(t *testing.T, c *respclient.Client, commands ...string) (replies []respclient.Value) {
	t.Helper()
	var out []byte
	for _, line := range commands {
		out = respclient.AppendCommand(out, strings.Fields(line)...)
	}
	if err := c.Write(out); err != nil {
		t.Fatal(err)
	}
	for _, line := range commands {
		v, err := c.Read()
		if err != nil || v.IsError() {
			t.Fatalf("%.80s: %v, %v", line, v, err)
		}
		replies = append(replies, v)
	}
	return replies
}
