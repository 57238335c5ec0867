package local

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"path"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"redoubt/engine"
	"redoubt/engine/enginetest"
	"redoubt/journal"
)

// voyage is a store under load on a stage: commits, rounds, evictions, fillings,
// checkpoints and restarts, with segments, tables and a budget so small that
// everything happens often.
type voyage struct {
	t      testing.TB
	fs     *stage
	fsync  journal.Policy
	change func(*Options) // or nil
	load   load
	ledger *ledger
	engine atomic.Pointer[Engine]

	mu     sync.Mutex
	copies map[string]engine.Ticket // checkpoints that are whole, and what they must have
}

const shipDir, copyDir = "/data/store", "/data/copies"

func newVoyage(t testing.TB, mem *vfs.MemFS, fsync journal.Policy, seed uint64) *voyage {
	return &voyage{
		t: t, fs: newStage(mem), fsync: fsync, ledger: newLedger(), copies: map[string]engine.Ticket{},
		load: load{rng: rand.New(rand.NewPCG(seed, 1)), big: 8},
	}
}

func (v *voyage) options(o *Options) {
	o.Dir, o.FS, o.Fsync = shipDir, v.fs, v.fsync
	o.Memory, o.SegmentBytes, o.JournalBytes = tight, 4<<10, 16<<10
	o.Unit = func([]byte) int { return 4 }
	o.tableBytes = 2 << 10
	if v.change != nil {
		v.change(o)
	}
}

func (v *voyage) open() *Engine {
	e := opened(v.t, v.options)
	v.engine.Store(e)
	return e
}

// sail does so many steps, with a restart in the middle.
func (v *voyage) sail(steps int) {
	e := v.open()
	for i := range steps {
		if i == steps/2 {
			v.close(e)
			e = v.open()
		}
		if err := v.step(e); err != nil {
			v.t.Errorf("step %d: %v", i, err)
			break
		}
	}
	v.close(e)
}

func (v *voyage) close(e *Engine) {
	if err := e.Close(); err != nil {
		v.t.Error(err)
	}
}

func (v *voyage) step(e *Engine) error {
	rng := v.load.rng
	if err := v.ledger.commit(e, rng.IntN(3) > 0, v.load.commit()); err != nil {
		return err
	}
	switch rng.IntN(14) {
	case 0:
		return e.unlessStuck(func(func() bool) error { return e.Round() })
	case 1:
		e.set().Evict(1 << 40)
	case 2:
		e.fillNext(1)
	case 3:
		if ticket := e.Committed(); rng.IntN(2) == 0 {
			await(v.t, "durability", func() bool { return e.Durable() >= ticket || e.Err() != nil })
		}
	case 4:
		if rng.IntN(4) == 0 {
			return v.checkpoint(e)
		}
	}
	return nil
}

func (v *voyage) checkpoint(e *Engine) error {
	v.mu.Lock()
	name := fmt.Sprint(e.Committed())
	v.mu.Unlock()
	atLeast := e.Committed()
	if err := e.Checkpoint(path.Join(copyDir, name)); err != nil {
		return err
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	v.copies[name] = atLeast
	return nil
}

// wreck is what a crash left, and what must be in it.
type wreck struct {
	fs      *vfs.MemFS
	at      change
	no      int
	percent int
	atLeast engine.Ticket
	copies  map[string]engine.Ticket
}

// wreckNow takes a copy of the file system.
func (v *voyage) wreckNow(at change, no, percent int, rng *rand.Rand) wreck {
	w := wreck{at: at, no: no, percent: percent, copies: map[string]engine.Ticket{}}
	v.ledger.mu.Lock()
	written := v.ledger.written
	v.ledger.mu.Unlock()
	e := v.engine.Load()
	switch {
	case percent == 100:
		w.atLeast = written
	case e == nil:
	case v.fsync == journal.Always:
		w.atLeast = e.Durable()
	default:
		w.atLeast = engine.Ticket(e.journal.(*journal.Journal).Synced())
	}
	v.mu.Lock()
	for name, n := range v.copies {
		w.copies[name] = n
	}
	v.mu.Unlock()
	w.fs = v.fs.crash(percent, rng)
	return w
}

// chances of what was not synced to survive. Everything does when only the
// process ends.
var chances = []int{0, 100, 30, 100, 70, 95}

// sweep crashes a voyage at points that lie evenly, and looks at each wreck.
func sweep(t *testing.T, fsync journal.Policy, points int) {
	const steps = 160
	seed := enginetest.Seed(t)
	var total atomic.Int64
	dry := newVoyage(t, vfs.NewCrashableMem(), fsync, seed)
	dry.fs.on(func(change) error { total.Add(1); return nil })
	dry.sail(steps)
	stride := max(1, int(total.Load())/max(1, points))

	v := newVoyage(t, vfs.NewCrashableMem(), fsync, seed)
	wrecks := make(chan wreck, 2)
	var divers sync.WaitGroup
	for range 2 {
		divers.Go(func() {
			for w := range wrecks {
				if err := v.dive(w); err != nil {
					t.Errorf("crash before change %d (%s %s), of what was not synced %d%% is left: %v", w.no, w.at.kind, w.at.path, w.percent, err)
				}
			}
		})
	}
	var mu sync.Mutex
	rng := rand.New(rand.NewPCG(seed, 2))
	n, taken := 0, 0
	v.fs.on(func(c change) error {
		mu.Lock()
		defer mu.Unlock()
		if n++; n%stride == 0 && !t.Failed() {
			wrecks <- v.wreckNow(c, n, chances[taken%len(chances)], rng)
			taken++
		}
		return nil
	})
	v.sail(steps)
	v.fs.heal()
	close(wrecks)
	divers.Wait()
	t.Logf("%v: crashed at %d of %d changes", fsync, taken, n)
}

// dive opens a wreck: what was promised is there, the state is that after some
// number of commits, and the store goes on from there.
func (v *voyage) dive(w wreck) error {
	rng := rand.New(rand.NewPCG(uint64(w.no), 3))
	d := newVoyage(v.t, w.fs, v.fsync, uint64(w.no))
	// Opening is crashed as well, now and then.
	var again atomic.Pointer[wreck]
	left := rng.IntN(60)
	var mu sync.Mutex
	d.fs.on(func(c change) error {
		mu.Lock()
		defer mu.Unlock()
		if left--; left == 0 {
			a := w
			a.at, a.fs, a.copies = c, d.fs.crash(w.percent, rng), nil
			again.Store(&a)
		}
		return nil
	})
	n, err := d.look(v.ledger, w.atLeast)
	d.fs.heal()
	if a := again.Load(); err == nil && a != nil {
		d.fs = newStage(a.fs)
		if _, err := d.look(v.ledger, w.atLeast); err != nil {
			return fmt.Errorf("crash while opening (%s %s): %w", a.at.kind, a.at.path, err)
		}
	}
	if err != nil {
		return err
	}
	if err := v.lookAtCopies(w); err != nil {
		return err
	}
	d.fs = newStage(w.fs)
	d.ledger = v.ledger.fork(n)
	if err := d.goOn(); err != nil {
		return fmt.Errorf("later: %w", err)
	}
	return nil
}

// look opens the store and compares it with the ledger.
func (v *voyage) look(l *ledger, atLeast engine.Ticket) (engine.Ticket, error) {
	o := Options{Logger: quiet}
	v.options(&o)
	e, err := Open(o)
	if err != nil {
		return 0, err
	}
	n, err := l.check(e, atLeast)
	return n, errors.Join(err, e.Close())
}

// goOn commits some more, and opens again.
func (v *voyage) goOn() error {
	e := v.open()
	for range 4 {
		if err := v.step(e); err != nil {
			return errors.Join(err, e.Close())
		}
	}
	if err := e.Close(); err != nil {
		return err
	}
	_, err := v.look(v.ledger, v.ledger.written)
	return err
}

// lookAtCopies opens the checkpoints: those that were done, and those that were
// under way but look done.
func (v *voyage) lookAtCopies(w wreck) error {
	names, _ := w.fs.List(copyDir) // none yet
	seen := 0
	for i, name := range names {
		dir := path.Join(copyDir, name)
		if is, err := checkFormat(w.fs, dir); !is {
			if _, done := w.copies[name]; done {
				return fmt.Errorf("checkpoint %s is not whole: %w", name, err)
			}
			continue
		}
		if _, done := w.copies[name]; done {
			seen++
		}
		if (w.no+i)%8 != 0 {
			continue // opening takes its time
		}
		e, err := Open(Options{Dir: dir, FS: w.fs, Logger: quiet})
		if err != nil {
			return fmt.Errorf("checkpoint %s: %w", name, err)
		}
		if _, err := v.ledger.check(e, w.copies[name]); err != nil {
			return errors.Join(fmt.Errorf("checkpoint %s: %w", name, err), e.Close())
		}
		if err := e.Close(); err != nil {
			return err
		}
	}
	if seen != len(w.copies) {
		return fmt.Errorf("%d checkpoints are left of %d", seen, len(w.copies))
	}
	return nil
}

// A crash at any change of the disk: at Always nothing durable is lost, whatever
// the crash; else nothing that was committed when the process ends, and a tail
// of the commits when power does. REDOUBT_CRASH_POINTS says how many points.
func TestCrashSweep(t *testing.T) {
	t.Parallel()
	for name, fsync := range map[string]journal.Policy{"always": journal.Always, "everysec": journal.EverySec, "no": journal.No} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			sweep(t, fsync, scale(t, "REDOUBT_CRASH_POINTS", 32))
		})
	}
}
