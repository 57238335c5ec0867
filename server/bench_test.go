package server

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"testing"

	"redoubt/config"
	"redoubt/engine/mem"
	"redoubt/wire"
)

// still is a carrier that carries nothing: a benchmark presents the bytes and
// throws the replies away.
type still struct{}

func (still) post(func()) {}
func (still) interest()   {}
func (still) evict(*turn) {}
func (still) shut()       {}

func quietServer(tb testing.TB, args ...string) (*Server, *turn) {
	tb.Helper()
	cfg := config.New()
	if err := cfg.Args(append([]string{"--port", "0", "--bind", "127.0.0.1"}, args...)); err != nil {
		tb.Fatal(err)
	}
	srv, err := New(Options{Config: cfg, Engine: mem.New()})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := srv.Shutdown(tb.Context()); err != nil {
			tb.Log(err)
		}
	})
	return srv, &turn{batch: srv.exec.NewBatch(), stats: srv.obs.Stats.NewLoop()}
}

func request(args ...string) []byte {
	w := wire.Writer{Proto: 2}
	w.Array(len(args))
	for _, a := range args {
		w.BulkString(a)
	}
	return w.Buf
}

// BenchmarkCommand measures a command from the bytes of its request to the
// bytes of its reply, without sockets: 50 connections with pipelines of 16 in
// one turn, as a loaded event loop sees them.
func BenchmarkCommand(b *testing.B) {
	const conns, pipeline = 50, 16
	value := strings.Repeat("x", 128)
	keys := 1_000_000
	if s := os.Getenv("REDOUBT_BENCH_KEYS"); s != "" {
		keys, _ = strconv.Atoi(s)
	}
	for _, c := range []struct {
		name string
		args func() []string
	}{
		{"SET", func() []string { return []string{"SET", fmt.Sprintf("key:%012d", rand.IntN(keys)), value} }},
		{"GET", func() []string { return []string{"GET", fmt.Sprintf("key:%012d", rand.IntN(keys))} }},
		{"INCR", func() []string { return []string{"INCR", fmt.Sprintf("counter:%012d", rand.IntN(keys))} }},
		{"PING", func() []string { return []string{"PING"} }},
	} {
		b.Run(c.name, func(b *testing.B) {
			srv, turn := quietServer(b)
			sessions := make([]*session, conns)
			for i := range sessions {
				sessions[i] = &session{}
				srv.initSession(sessions[i], still{}, turn, "127.0.0.1:1", "127.0.0.1:2", false)
			}
			serve := func(s *session, in []byte) {
				s.in.MaxBulk = 1 << 20
				if s.process(in) != len(in) {
					b.Fatal("not all was taken")
				}
			}
			end := func() {
				ticket := turn.batch.Commit()
				for _, s := range sessions {
					s.settle(ticket, srv.eng.Durable())
					s.out.Advance(s.out.Pending())
					s.out.Emptied()
					s.out.Open(s.out.LastSize())
				}
			}
			for i := range keys { // the whole keyspace is there
				what := []string{"SET", fmt.Sprintf("key:%012d", i), value}
				if c.name == "INCR" {
					what = []string{"SET", fmt.Sprintf("counter:%012d", i), "1"}
				}
				serve(sessions[0], request(what...))
				if i%100 == 0 {
					end()
				}
			}
			end()
			var inputs [][]byte
			for range 20 * conns {
				var in []byte
				for range pipeline {
					in = append(in, request(c.args()...)...)
				}
				inputs = append(inputs, in)
			}
			b.ReportAllocs()
			b.ResetTimer()
			for i := 0; i < b.N; {
				for k := range conns {
					serve(sessions[k], inputs[rand.IntN(len(inputs))])
					i += pipeline
				}
				end()
			}
		})
	}
}
