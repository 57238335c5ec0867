package executor

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"redoubt/command"
	"redoubt/engine"
	"redoubt/engine/enginetest"
	"redoubt/engine/mem"
	"redoubt/keyspace"
	"redoubt/wire"
)

// newChilly makes an executor over an engine with rows that are not in memory;
// cold says which.
func newChilly(t testing.TB, cold func(row []byte) bool) (*fixture, *enginetest.Cold) {
	c := enginetest.Chill(mem.New())
	f := open(t, &journal{Engine: c})
	c.Set(cold)
	return f, c
}

// metaRows is every row of a key itself, or those of the keys given.
func metaRows(keys ...string) func([]byte) bool {
	return func(row []byte) bool {
		return len(row) > 7 && row[0] != 0xff && row[2] == 1 && (len(keys) == 0 || slices.Contains(keys, string(row[7:])))
	}
}

// observe collects everything that the effects of commits show.
func (f *fixture) observe() func() string {
	f.x.Listening(^keyspace.Class(0))
	var events []string
	f.x.Listen(func(e *keyspace.Effects, _ engine.Ticket) {
		for _, ev := range e.Events {
			events = append(events, fmt.Sprintf("%s:%d:%s", ev.Name, ev.DB, ev.Key))
		}
	})
	return func() string {
		s := &f.x.Stats
		out := fmt.Sprintf("hits %d misses %d expired %d changes %d events %s",
			s.Hits.Load(), s.Misses.Load(), s.Expired.Load(), s.Changes.Load(), strings.Join(events, " "))
		events = nil
		return out
	}
}

func TestAColdCommandIsLeftToAWorker(t *testing.T) {
	t.Parallel()
	setup := []string{"mset a 1 b 2 c 3", "set gone x px 5"}
	for _, line := range []string{
		"get a", "set a 9", "set new 9", "get nokey", "mget b a c", "mset b 8 a 9", "incr a", "append a x", "getdel a", "del b a",
		"exists b a", "rename a z", "expire a 100", "ttl a", "type a", "object encoding a", "setrange a 5 x", "scan 0", "randomkey",
		"get gone", "set gone y", "incr gone", "exists gone",
	} {
		t.Run(line, func(t *testing.T) {
			t.Parallel()
			plain := newFixture(t)
			f, eng := newChilly(t, nil)
			for _, x := range []*fixture{plain, f} {
				for _, l := range setup {
					x.do(l)
				}
				x.now.Add(10)
			}
			seen, wanted := f.observe(), plain.observe()
			before := seen()
			eng.Set(metaRows("a", "gone", "new", "nokey"))
			c := f.client()
			c.run("get b")
			rows := fmt.Sprint(f.rows())
			equal(t, "taken", c.try(line), false)
			equal(t, "cold", c.call.Cold, true)
			c.run("get b")
			_, s := c.commit()
			f.want("replies beside it", s, "2 2")
			f.want("rows of the run that was rolled back", fmt.Sprint(f.rows()), rows)
			f.want("effects", seen(), strings.Replace(before, "hits 0", "hits 2", 1))
			equal(t, "counted", f.x.Stats.Cold.Load(), 1)
			f.free()

			f.x.Stats.Hits.Store(0)
			plain.x.Stats.Hits.Store(0)
			if got, want := f.worker(0, line), plain.worker(0, line); line != "randomkey" {
				f.want("on a worker", got, want)
			}
			f.want("effects on a worker", seen(), wanted())
			f.want("rows", fmt.Sprint(f.rows()), fmt.Sprint(plain.rows()))
			f.free()
		})
	}
}

// A worker that is told that a row is cold has a broken engine before it: the
// client gets an error, and nobody tries for ever.
func TestAWorkerIsNeverCold(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	broken := custom("broken", command.ReadOnly, func(c *command.Ctx) error { return engine.ErrCold })
	c := f.client()
	equal(t, "on a loop", c.tryCmd(broken, words("broken k")), false)
	c.commit()
	if _, c, s := f.workerCmd(broken, 0, words("broken k")); !c.Failed || !strings.Contains(s, "not in memory") {
		t.Errorf("on a worker: %s", s)
	}
	f.free()
}

// Whatever is cold, and whenever, replies and rows are the same.
func TestColdRowsChangeNothing(t *testing.T) {
	t.Parallel()
	r := seeded(t)
	var mu sync.Mutex
	chance := 0
	f, eng := newChilly(t, nil)
	eng.Forgetful.Store(true)
	eng.Set(func(row []byte) bool {
		mu.Lock()
		defer mu.Unlock()
		return row[0] != 0xff && r.IntN(100) < chance
	})
	plain := newFixture(t)
	seen, wanted := f.observe(), plain.observe()
	a, b := f.client(), plain.client()
	for i := range rounds(4000) {
		mu.Lock()
		chance = []int{0, 5, 30, 100}[i/16%4]
		mu.Unlock()
		for range 1 + r.IntN(4) {
			line := randomCommand(r)
			var want string
			if b.run(line); true {
				_, want = b.commit()
			}
			if got := a.do(line); got != want {
				t.Fatalf("%s: %s, want %s", line, got, want)
			}
		}
		if r.IntN(10) == 0 {
			step := r.Int64N(50)
			f.now.Add(step)
			plain.now.Add(step)
		}
		if r.IntN(100) == 0 {
			for _, x := range []*fixture{f, plain} {
				if err := x.bg.Sweep(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
		}
		if got, want := seen(), wanted(); got != want {
			t.Fatalf("effects: %s, want %s", got, want)
		}
	}
	f.want("rows", fmt.Sprint(f.rows()), fmt.Sprint(plain.rows()))
	if f.x.Stats.Cold.Load() == 0 {
		t.Error("nothing was ever cold")
	}
	f.free()
}

func randomCommand(r *rand.Rand) string {
	key := func() string { return fmt.Sprintf("k%d", r.IntN(12)) }
	switch r.IntN(14) {
	case 0:
		return "get " + key()
	case 1:
		return fmt.Sprintf("set %s %d", key(), r.IntN(100))
	case 2:
		return fmt.Sprintf("set %s %d px %d", key(), r.IntN(100), 1+r.IntN(100))
	case 3:
		return "mget " + key() + " " + key() + " " + key()
	case 4:
		return fmt.Sprintf("mset %s 1 %s 2", key(), key())
	case 5:
		return "incr " + key()
	case 6:
		return "del " + key() + " " + key()
	case 7:
		return fmt.Sprintf("pexpire %s %d", key(), r.IntN(60)-5)
	case 8:
		return "rename " + key() + " " + key()
	case 9:
		return "exists " + key() + " " + key()
	case 10:
		return fmt.Sprintf("setbit %s %d 1", key(), r.IntN(1<<20)) // large enough for rows of its own
	case 11:
		return "bitcount " + key()
	case 12:
		return "scan 0 count 3"
	}
	return "pttl " + key()
}

func TestCongestion(t *testing.T) {
	t.Parallel()
	f, eng := newChilly(t, nil)
	f.do("set k 1")
	eng.Waiting.Store(0)
	eng.NoWait.Store(0)
	eng.Jammed.Store(true)
	c := f.client()
	for _, line := range []string{"set k 2", "del k", "incr k", "mset a 1 b 2", "getex k persist"} {
		equal(t, line, c.try(line), false)
		equal(t, "cold", c.call.Cold, false)
	}
	c.run("get k")
	c.run("mget k nokey")
	c.run("dbsize")
	_, s := c.commit()
	f.want("reads go on", s, "1 [1 (nil)] 1")
	equal(t, "slowed", f.x.Stats.Slowed.Load(), 5)
	f.want("on a worker", f.do("incr k"), "2")
	equal(t, "commits that wait", eng.Waiting.Load(), 1)
	equal(t, "commits that do not", eng.NoWait.Load(), 0)
	c.b = f.x.NewWaitingBatch()
	c.run("incr k") // a connection with a goroutine of its own may wait
	_, s = c.commit()
	f.want("waiting batch", s, "3")
	eng.Jammed.Store(false)
	f.client().run("incr other")
}

func TestWarm(t *testing.T) {
	t.Parallel()
	f, eng := newChilly(t, metaRows())
	prefetch := func(b *Batch, lines ...string) int {
		for _, l := range lines {
			b.Prefetch(table().Find(words(l)), words(l), 0)
		}
		return b.Fetch()
	}
	lines := []string{"set a 1", "get b", "mget c d"}
	b := f.x.NewBatch()
	equal(t, "cold", prefetch(b, lines...), 4)
	rows := b.Fetched()
	prefetch(b, "get other", "get another", "get third", "get fourth", "get fifth") // the rows are a copy
	var kept, want []string
	rows.Each(func(row []byte) { kept = append(kept, fmt.Sprintf("% x", row)) })
	for _, key := range []string{"a", "b", "c", "d"} {
		want = append(want, fmt.Sprintf("% x", f.x.space.AppendRowKey(nil, 0, []byte(key))))
	}
	equal(t, "rows", strings.Join(kept, "\n"), strings.Join(want, "\n"))
	b.Commit()
	f.x.Warm(rows)
	equal(t, "warmed", f.x.Stats.Warmed.Load(), 1)
	equal(t, "cold now", prefetch(b, lines...), 0)
	equal(t, "one more", prefetch(b, append(lines, "get e")...), 1)
	b.Commit()
	c := f.client()
	for _, l := range lines {
		c.run(l)
	}
	_, s := c.commit()
	f.want("on the loop", s, "OK (nil) [(nil) (nil)]")

	// A batch that may wait has loaded what was cold.
	b = f.x.NewWaitingBatch()
	equal(t, "a waiting batch", prefetch(b, "get x", "get y"), 0)
	equal(t, "loaded", eng.Is(f.x.space.AppendRowKey(nil, 0, []byte("x"))), false)
	b.Commit()
	f.eng.broken.Store(true)
	f.x.Warm(rows) // a store that fails says so to whoever reads
	f.eng.broken.Store(false)
	f.free()
}

// Only so many workers read from disk at a time, and they wait for nobody.
func TestReadersOfTheDiskAreBounded(t *testing.T) {
	t.Parallel()
	f, eng := newChilly(t, metaRows())
	eng.Forgetful.Store(true)
	var now, most atomic.Int64
	gate := make(chan struct{})
	eng.OnRead(func() {
		n := now.Add(1)
		for old := most.Load(); n > old && !most.CompareAndSwap(old, n); old = most.Load() {
		}
		<-gate
		now.Add(-1)
	})
	var all sync.WaitGroup
	cold := func(line string) {
		all.Go(func() {
			args := words(line)
			w := wire.Writer{Proto: 2}
			f.x.RunOnWorker(&Call{Cmd: table().Find(args), Args: args, Reply: &w, Cold: true})
			if short(w.Buf) == "" || w.Buf[0] == '-' {
				t.Errorf("%s: %s", line, w.Buf)
			}
		})
	}
	for i := range 2 * maxReading {
		cold(fmt.Sprintf("set k%d v", i))
		cold("incr hot") // they wait for one latch, and not with a place
		cold(fmt.Sprintf("mget hot k%d", i))
		all.Go(func() {
			var rows engine.Wanted
			for _, key := range []string{"w1", "w2"} {
				rows.Add(f.x.space.AppendRowKey(nil, 0, []byte(key)))
			}
			f.x.Warm(&rows)
		})
	}
	for now.Load() < maxReading {
		runtime.Gosched()
	}
	// Others are not kept waiting by them.
	f.want("without the disk", f.worker(0, "dbsize"), "0")
	close(gate)
	all.Wait()
	equal(t, "at a time", most.Load(), maxReading)
	eng.Set(nil)
	f.want("nothing was lost", f.do("get hot"), fmt.Sprint(2*maxReading))
	f.free()
}
