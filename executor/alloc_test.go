package executor

import (
	"bytes"
	"log/slog"
	"runtime"
	"strings"
	"testing"
	"time"

	"redoubt/command"
	"redoubt/engine/mem"
	"redoubt/feed"
	"redoubt/internal/race"
	"redoubt/keyspace"
	"redoubt/wire"
)

// turns makes a function that does one turn of an event loop: the commands, a
// commit, and the replies sent away. Replicas are possible, and there are none.
func turns(t testing.TB, lines ...string) (turn func(), w *wire.Writer) {
	return turnsFor(t, feed.New(), lines...)
}

// turnsFor is turns with a stream for replicas, or without one.
func turnsFor(t testing.TB, stream *feed.Stream, lines ...string) (turn func(), w *wire.Writer) {
	eng := mem.New()
	if stream != nil {
		stream.Durable = eng.Durable
	}
	space, err := keyspace.Open(eng, 1)
	if err != nil {
		t.Fatal(err)
	}
	now := time.UnixMilli(testNow)
	x := New(Options{
		Engine: eng, Space: space, Logger: slog.New(slog.DiscardHandler), Seed: 1,
		Clock: func() time.Time { now = now.Add(time.Microsecond); return now }, Limits: command.Limits{MaxBulk: 1 << 20},
		Feed: stream,
	})
	b := x.NewBatch()
	w = &wire.Writer{Proto: 2}
	type parsed struct {
		cmd  *command.Command
		args [][]byte
	}
	var list []parsed
	for _, l := range lines {
		args := words(l)
		list = append(list, parsed{table().Find(args), args})
	}
	var call Call
	return func() {
		w.Buf = w.Buf[:0]
		for _, p := range list {
			b.Prefetch(p.cmd, p.args, 0)
		}
		b.Fetch()
		for _, p := range list {
			call = Call{Cmd: p.cmd, Args: p.args, Reply: w}
			if b.Run(&call) != 0 {
				t.Fatalf("%s was left to a worker", p.cmd.Name)
			}
		}
		b.Commit()
	}, w
}

// A steady load allocates nothing.
func TestAllocations(t *testing.T) {
	if race.Enabled {
		t.Skip("pools forget under the race detector")
	}
	for _, c := range []struct {
		name  string
		lines []string
		want  string
	}{
		{"GET", []string{"get key"}, "(nil)"},
		{"SET", []string{"set key some-value-of-some-length"}, "OK"},
		{"SET and GET", []string{"set key value", "get key", "get other", "set key again", "get key"}, "OK value (nil) OK again"},
		{"INCR", []string{"incr n", "get n", "decr n"}, ""},
		{"MSET and MGET", []string{"mset a 1 b 2 c 3", "mget c b a nokey"}, "OK [3 2 1 (nil)]"},
		{"EXISTS and TTL", []string{"exists a b", "ttl a"}, "0 -2"},
	} {
		turn, w := turns(t, c.lines...)
		for range 100 {
			turn()
		}
		if got := short(w.Buf); c.want != "" && got != c.want {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
		if n := testing.AllocsPerRun(500, turn); n != 0 {
			t.Errorf("%s: %v allocations in a turn", c.name, n)
		}
	}
}

func benchmark(b *testing.B, lines ...string) {
	turn, _ := turns(b, lines...)
	turn()
	b.ReportAllocs()
	for b.Loop() {
		turn()
	}
}

func BenchmarkGet(b *testing.B) { benchmark(b, "get key") }
func BenchmarkSet(b *testing.B) { benchmark(b, "set key value-of-some-length") }
func BenchmarkPipeline(b *testing.B) {
	benchmark(b, "set a 1", "get a", "set b 2", "get b", "set c 3", "get c", "set d 4", "get d")
}

// A large value is written in portions whose buffers are used again: what is allocated
// is what the engine keeps of it, and little more. The batch keeps nothing of the call.
func TestLargeValuesAllocateLittle(t *testing.T) {
	f := open(t, &journal{Engine: cheap{mem.New()}})
	f.worker(0, "set k "+strings.Repeat("v", 2<<20)) // buffers are there
	const size = 32 << 20
	args := append(words("set k"), bytes.Repeat([]byte("w"), size))
	before := allocated()
	call := &Call{Cmd: table().Find(args), Args: args, Reply: new(wire.Writer)}
	f.x.RunOnWorker(call)
	if n := allocated() - before; n > size+size/2 {
		t.Errorf("%d MB were allocated for %d", n>>20, size>>20)
	}
	f.want("reply", string(call.Reply.Buf), "+OK\r\n")
	b := f.x.idle.Get().(*Batch)
	if b.call != nil || b.ctxs[0].Args != nil {
		t.Error("the arguments are still referred to")
	}
}

// allocated is how many bytes were ever allocated.
func allocated() uint64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.TotalAlloc
}
