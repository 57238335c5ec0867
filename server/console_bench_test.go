package server_test

import (
	"testing"
	"time"

	"redoubt/engine/mem"
)

// BenchmarkConsoleSecond is what a second of the console's history costs.
func BenchmarkConsoleSecond(b *testing.B) {
	w := startWeb(b, mem.New())
	c := w.dial()
	for _, command := range [][]string{{"SET", "k", "v"}, {"GET", "k"}, {"HSET", "h", "f", "v"}, {"HGETALL", "h"}, {"LPUSH", "l", "x"}, {"LRANGE", "l", "0", "-1"}, {"ZADD", "z", "1", "m"}, {"INFO"}, {"PING"}, {"SCAN", "0"}} {
		c.do(command...)
	}
	now := time.Now().Add(time.Hour)
	b.ReportAllocs()
	for b.Loop() {
		now = now.Add(time.Second)
		w.RecordSecond(now)
	}
}
