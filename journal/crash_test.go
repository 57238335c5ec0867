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

// A life is a journal under a random but repeatable load, with the records that it must have: the
// model of tests with crashes, with faults, and without either.
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
	o, tick := randomOptions(fs, rng)
	return &life{t: t, fs: fs, tick: tick, o: o}
}

// randomOptions returns options with a random size of segments and a random policy, and their
// Tick.
func randomOptions(fs *hookFS, rng *rand.Rand) (Options, chan time.Time) {
	tick := make(chan time.Time)
	size := []int64{200, 1000, 5000, 20_000}[rng.IntN(4)]
	return Options{
		FS: fs, Dir: dir, Tick: tick, LogID: 77,
		SegmentBytes: size, fillStep: size/3 + 1,
		Policy: policies[rng.IntN(3)],
	}, tick
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
		seq, err := l.j.Append(0, record(l.history[len(l.history)-1]))
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

// crash is a moment at which the machine stops.
type crash struct {
	mu sync.Mutex
	fs *vfs.MemFS // what the crash leaves; nil before it
	at op
}

// crashAt makes a file system stop before its nth change. At that moment crashAt calls note;
// killed says that everything which was written survives, as after kill -9.
func crashAt(fs *hookFS, n int, mem *vfs.MemFS, rng *rand.Rand, note func(killed bool)) *crash {
	c := &crash{}
	fs.set(func(o op) error {
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
		c.at = o
		note(percent == 100)
		c.fs = mem.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: percent, RNG: rng})
		return errStopped
	})
	return c
}

// came reports whether the crash came. Without it err, of what was run, must be nil.
func (c *crash) came(t testing.TB, err error) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.fs == nil && err != nil {
		t.Fatalf("without a crash: %v", err)
	}
	return c.fs != nil
}

// promised is what must survive a crash: up to written if nothing that was written is lost.
func promised(killed bool, synced, written *atomic.Uint64) uint64 {
	if killed {
		return written.Load()
	}
	return synced.Load()
}

// crashSweep calls once, for random seeds, with a crash at one change of the file system after
// the other, until once reports that it did not come that far.
func crashSweep(t *testing.T, once func(t *testing.T, seed uint64, n int) bool) {
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
				for n := 1; once(t, seed, n); n++ {
					points.Add(1)
				}
			})
		}
	})
	t.Logf("%d points", points.Load())
}

// live runs steps until they are done, or the file system stops. It reports whether it has
// stopped.
func (l *life) live(rng *rand.Rand, c *crash, steps int) bool {
	err := l.open(max(l.synced.Load(), l.from.Load()))
	for i := 0; i < steps && err == nil; i++ {
		err = l.step(rng)
	}
	if l.j != nil {
		err = errors.Join(err, l.j.Close())
	}
	return c.came(l.t, err)
}

// TestCrashSweep stops the machine before every change of the file system in
// turn, opens what is left, and does so again with that.
func TestCrashSweep(t *testing.T) {
	t.Parallel()
	crashSweep(t, sweepOnce)
}

// sweepOnce runs the script of a seed with a crash at the nth change, and reports whether it came
// that far.
func sweepOnce(t *testing.T, seed uint64, n int) bool {
	mem, fs := newFS(t)
	script := rand.New(rand.NewPCG(seed, 0))
	chance := rand.New(rand.NewPCG(seed, uint64(n)))
	l := newLife(t, fs, script)
	for generation := range 3 {
		var survives, from uint64
		c := crashAt(l.fs, n, mem, chance, func(killed bool) {
			survives, from = promised(killed, &l.synced, &l.written), l.from.Load()
		})
		if !l.live(script, c, 40) {
			return generation > 0
		}
		if testing.Verbose() && t.Failed() {
			t.Logf("crash %d at %v", n, c.at)
		}
		// The next life is on what the crash left.
		mem, fs = c.fs, &hookFS{FS: pebbleFS{c.fs}}
		next := newLife(t, fs, chance)
		next.history = l.history
		next.from.Store(from)
		next.synced.Store(survives)
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
