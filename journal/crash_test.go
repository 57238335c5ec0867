package journal

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"redoubt/internal/race"
)

// A life is a journal under a random but repeatable load, and what is promised
// of it: model for crashes, faults and plain use alike.
type life struct {
	t    testing.TB
	fs   *hookFS
	o    Options
	tick chan time.Time
	j    *Journal

	history []string      // payloads of all records; the newest may be under way
	written atomic.Uint64 // Append has returned
	synced  atomic.Uint64 // promised to survive a loss of power
	from    atomic.Uint64 // what a store behind the journal has
}

var policies = []Policy{Always, EverySec, No}

func newLife(t testing.TB, fs *hookFS, rng *rand.Rand) *life {
	tick := make(chan time.Time)
	size := []int64{200, 1000, 5000, 20_000}[rng.IntN(4)]
	return &life{t: t, fs: fs, tick: tick, o: Options{
		FS: fs, Dir: dir, Tick: tick, LogID: 77,
		SegmentBytes: size, fillStep: size/3 + 1,
		Policy: policies[rng.IntN(3)],
	}}
}

// open opens the journal and compares what it replays with the history.
// atLeast is what must be there.
func (l *life) open(atLeast uint64) error {
	from := l.from.Load()
	j, got, err := open(l.o, from)
	if err != nil {
		return err
	}
	last := from + uint64(len(got))
	if last < atLeast || last > max(from, uint64(len(l.history))) {
		l.t.Fatalf("%d records were replayed after %d; at least %d were promised, %d written", len(got), from, atLeast, len(l.history))
	}
	wantRecords(l.t, got, from+1, l.history[from:last]...)
	l.j, l.history = j, l.history[:last]
	l.noteWritten()
	return nil
}

func (l *life) noteWritten() {
	l.written.Store(l.j.Last())
	l.synced.Store(l.j.Synced())
}

// step does one thing at random.
func (l *life) step(rng *rand.Rand) (err error) {
	defer l.noteWritten()
	switch rng.IntN(14) {
	case 0:
		return l.j.Sync(rng.Uint64N(l.j.Last() + 2))
	case 1:
		return l.j.Rotate()
	case 2:
		ticks(l.t, l.j, l.tick, 1+rng.IntN(3))
	case 3:
		l.o.Policy = policies[rng.IntN(3)]
		return l.j.SetPolicy(l.o.Policy)
	case 4:
		if upTo := l.from.Load() + (l.j.Synced()-l.from.Load())/2; upTo > 0 {
			l.from.Store(upTo)
			return l.j.Remove(upTo)
		}
	case 5:
		if rng.IntN(3) == 0 {
			if err := l.j.Close(); err != nil {
				return err
			}
			return l.open(uint64(len(l.history)))
		}
	default:
		size := []int{0, 20, 50, 300, 6000}[rng.IntN(5)]
		l.history = append(l.history, payloadOf(rng.Uint64(), l.j.Last(), size))
		seq, err := l.j.Append(record(l.history[len(l.history)-1]))
		if err != nil {
			return err
		}
		if seq != uint64(len(l.history)) {
			l.t.Fatalf("record %d got number %d", len(l.history), seq)
		}
		if d := l.j.Durable(); l.o.Policy != Always && d != seq {
			l.t.Fatalf("record %d is written, but durable is %d", seq, d)
		}
		if l.o.Policy == Always && rng.IntN(2) == 0 {
			return l.j.Sync(seq)
		}
	}
	return nil
}

var errStopped = errors.New("the machine has stopped")

// crashAt has the file system stop before its nth change, and returns where
// the copy will be that a crash at this moment leaves.
func (l *life) crashAt(n int, mem *vfs.MemFS, rng *rand.Rand) *crash {
	c := &crash{}
	l.fs.set(func(o op) error {
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.fs != nil {
			return errStopped
		}
		if !o.changes() {
			return nil
		}
		if n--; n > 0 {
			return nil
		}
		percent := []int{0, 20, 50, 80, 100}[rng.IntN(5)]
		c.promised, c.from, c.at = l.synced.Load(), l.from.Load(), o
		if percent == 100 { // as kill -9 does
			c.promised = l.written.Load()
		}
		c.fs = mem.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: percent, RNG: rng})
		return errStopped
	})
	return c
}

type crash struct {
	mu             sync.Mutex
	fs             *vfs.MemFS
	at             op
	promised, from uint64
}

// live runs steps until they are done, or the file system stops. It says
// whether it has stopped.
func (l *life) live(rng *rand.Rand, c *crash, steps int) bool {
	err := l.open(max(l.synced.Load(), l.from.Load()))
	for i := 0; i < steps && err == nil; i++ {
		err = l.step(rng)
	}
	if l.j != nil {
		err = errors.Join(err, l.j.Close())
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.fs == nil && err != nil {
		l.t.Fatalf("without a crash: %v", err)
	}
	return c.fs != nil
}

// TestCrashSweep stops the machine before every change of the file system in
// turn, opens what is left, and does so again with that.
func TestCrashSweep(t *testing.T) {
	t.Parallel()
	top := newRand(t)
	scripts := 16
	if race.Enabled || testing.Short() {
		scripts = 3
	}
	var points atomic.Int64
	t.Run("scripts", func(t *testing.T) {
		for range scripts {
			seed := top.Uint64()
			t.Run(fmt.Sprint(seed), func(t *testing.T) {
				t.Parallel()
				for n := 1; sweepOnce(t, seed, n); n++ {
					points.Add(1)
				}
			})
		}
	})
	t.Logf("%d points", points.Load())
}

// sweepOnce runs the script of a seed with a crash at the nth change, and says
// whether it came that far.
func sweepOnce(t *testing.T, seed uint64, n int) bool {
	mem, fs := newFS(t)
	script := rand.New(rand.NewPCG(seed, 0))
	chance := rand.New(rand.NewPCG(seed, uint64(n)))
	l := newLife(t, fs, script)
	for generation := range 3 {
		c := l.crashAt(n, mem, chance)
		stopped := l.live(script, c, 40)
		if !stopped {
			return generation > 0
		}
		if testing.Verbose() && t.Failed() {
			t.Logf("crash %d at %v", n, c.at)
		}
		// The next life is on what the crash left.
		mem, fs = c.fs, &hookFS{FS: pebbleFS{c.fs}}
		next := newLife(t, fs, chance)
		next.history = l.history
		next.from.Store(c.from)
		next.synced.Store(c.promised)
		l, n = next, 1+chance.IntN(60)
	}
	l.fs.set(nil)
	ok(t, l.open(l.synced.Load()))
	mustClose(t, l.j)
	return true
}

// TestLives is the same load without crashes, on the real file system as well.
func TestLives(t *testing.T) {
	t.Parallel()
	rng := newRand(t)
	for i := range 30 {
		_, fs := newFS(t)
		l := newLife(t, fs, rng)
		if i%10 == 0 {
			l.o.FS, l.o.Dir = OS, t.TempDir()
		}
		l.live(rng, &crash{}, 150)
		ok(t, l.open(uint64(len(l.history))))
		mustClose(t, l.j)
		if n := fs.opened.Load(); n != 0 {
			t.Fatalf("%d files are still open", n)
		}
	}
}
