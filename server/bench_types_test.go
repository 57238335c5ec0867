//go:build linux

package server

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"redoubt/config"
	store "redoubt/engine/local"
	"redoubt/journal"
	"redoubt/keyspace"
)

// threadTime is what a thread has had of the processor: on a machine that has other
// things to do it says more than the clock.
func threadTime() time.Duration {
	var u unix.Rusage
	if unix.Getrusage(unix.RUSAGE_THREAD, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// BenchmarkTypes is BenchmarkCommand for the collections, on the store that
// users have: what bench's suite types sends, without sockets and Redis.
func BenchmarkTypes(b *testing.B) {
	const conns, pipeline, keys = 50, 16, 200_000
	value := strings.Repeat("x", 128)
	for _, c := range []struct{ name, fill, cmd string }{
		{"LPUSH", "", "LPUSH list V"},
		{"RPUSH", "", "RPUSH list V"},
		{"LPOP", "RPUSH list V", "LPOP list"},
		{"LRANGE_100", "RPUSH list V", "LRANGE list 0 99"},
		{"SADD", "SADD set element:R", "SADD set element:R"},
		{"SPOP", "SADD set element:R", "SPOP set"},
		{"HSET", "HSET hash field:R V", "HSET hash field:R V"},
		{"HGET", "HSET hash field:R V", "HGET hash field:R"},
		{"ZADD", "ZADD board R member:R", "ZADD board R member:R"},
		{"ZADD new", "ZADD board R member:R", "ZADD board R new:M"},
		{"ZPOPMIN", "ZADD board R member:R", "ZPOPMIN board"},
		{"ZRANK", "ZADD board R member:R", "ZRANK board member:R"},
		{"XADD", "", "XADD stream * field V"},
		{"CHPUBLISH", "", "CHPUBLISH channel m-R V"},
		{"CHPUBLISH many", "", "CHPUBLISH channel-K m-R V"},
		{"HSET small", "HSET user:R name V visits 1 seen 2", "HSET user:R seen R"},
		{"HGET small", "HSET user:R name V visits 1 seen 2", "HGET user:R seen"},
		{"SADD small", "SADD tags:R R", "SADD tags:R R"},
		{"LPUSH small", "LPUSH queue:R R", "LPUSH queue:R R"},
		{"ZADD small", "ZADD top:R R R", "ZADD top:R R R"},
	} {
		b.Run(strings.ReplaceAll(c.name, " ", "_"), func(b *testing.B) {
			cfg := config.New()
			if err := cfg.Set("port", "0"); err != nil {
				b.Fatal(err)
			}
			eng, err := store.Open(store.Options{Dir: b.TempDir(), Memory: 1 << 50, Fsync: journal.EverySec, Unit: keyspace.Unit})
			if err != nil {
				b.Fatal(err)
			}
			srv, err := New(Options{Config: cfg, Engine: eng})
			if err != nil {
				b.Fatal(err)
			}
			b.Cleanup(func() {
				if err := srv.Shutdown(b.Context()); err != nil {
					b.Log(err)
				}
			})
			turn := &turn{batch: srv.exec.NewBatch(), stats: srv.obs.Stats.NewLoop()}
			sessions := make([]*session, conns)
			for i := range sessions {
				sessions[i] = &session{}
				srv.initSession(sessions[i], still{}, turn, "127.0.0.1:1", "127.0.0.1:2", false)
				sessions[i].in.MaxBulk = 1 << 20
			}
			number := 0
			pipe := func(text string, n int) (in []byte) {
				for range n {
					words := strings.Fields(text)
					for i, w := range words[1:] {
						if w == "V" {
							w = value
						}
						number++
						w = strings.ReplaceAll(w, "M", fmt.Sprintf("%012d", number))
						w = strings.ReplaceAll(w, "K", fmt.Sprint(rand.IntN(1000)))
						words[i+1] = strings.ReplaceAll(w, "R", fmt.Sprintf("%012d", rand.IntN(keys)))
					}
					in = append(in, request(words...)...)
				}
				return in
			}
			round := func(inputs [][]byte) {
				for k := range conns {
					if s := sessions[k]; s.process(inputs[k]) != len(inputs[k]) {
						b.Fatal("not all was taken")
					}
				}
				ticket := turn.batch.Commit()
				for _, s := range sessions {
					s.settle(ticket, srv.eng.Durable())
					s.out.Advance(s.out.Pending())
					s.out.Emptied()
					s.out.Open(s.out.LastSize())
				}
			}
			inputs := make([][]byte, 256*conns)
			if c.fill != "" {
				for n := 0; n < 2*keys; n += pipeline * len(inputs) {
					for i := range inputs {
						inputs[i] = pipe(c.fill, pipeline)
					}
					for i := 0; i < len(inputs); i += conns {
						round(inputs[i : i+conns])
					}
				}
			}
			for i := range inputs {
				inputs[i] = pipe(c.cmd, pipeline)
			}
			b.ReportAllocs()
			runtime.LockOSThread() // the processor's time is the thread's
			defer runtime.UnlockOSThread()
			begin := threadTime()
			b.ResetTimer()
			for i := 0; i < b.N; {
				for at := 0; at < len(inputs) && i < b.N; at += conns {
					round(inputs[at : at+conns])
					i += conns * pipeline
				}
			}
			b.ReportMetric(float64(threadTime()-begin)/float64(b.N), "cpu-ns/op")
		})
	}
}
