package command

import (
	"strings"
	"testing"
)

// TestRedisRestoresOurs has a real Redis restore what is dumped here, from both forms
// of each type, and compares it with what was restored from its own payload. It is
// switched on as TestStringsLikeRedis is.
func TestRedisRestoresOurs(t *testing.T) {
	needsRedis(t)
	redis := startRedis(t)
	version := ""
	for line := range strings.Lines(string(redis.call(t, "INFO", "server"))) {
		if v, ok := strings.CutPrefix(strings.TrimSpace(line), "redis_version:"); ok {
			version = v
		}
	}
	n := 0
	for _, packed := range []bool{true, false} {
		b := newDumpBench(t, packed)
		for name, payload := range payloads(t) {
			redis.call(t, "FLUSHALL")
			if r := redis.call(t, "RESTORE", "k", "0", payload); string(r) != "+OK\r\n" {
				if strings.HasPrefix(name, "redis-"+version) {
					t.Errorf("%s: its own payload: %s", name, r)
				}
				continue // it is newer
			}
			b.runIn("RESTORE", "k", "0", payload, "REPLACE")
			reply, _ := b.runIn("DUMP", "k")
			if r := redis.call(t, "RESTORE", "j", "0", bulk(t, reply)); string(r) != "+OK\r\n" {
				t.Errorf("%s, packed %v: %s", name, packed, r)
				continue
			}
			both := strings.Split(string(redis.call(t, "DEBUG", "DIGEST-VALUE", "k", "j")), "\r\n")
			if len(both) != 4 || both[1] != both[2] {
				t.Errorf("%s, packed %v: %q", name, packed, both)
			}
			n++
		}
	}
	t.Logf("%d values restored by Redis %s", n, version)
}
