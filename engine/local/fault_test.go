package local

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"redoubt/engine"
	"redoubt/engine/enginetest"
	"redoubt/journal"
)

// failOn makes changes of these kinds fail on paths with part in them.
func (s *stage) failOn(err error, part string, kinds ...string) {
	s.on(func(c change) error {
		for _, kind := range kinds {
			if c.kind == kind && strings.Contains(c.path+"$", part) {
				return fmt.Errorf("injected: %w", err)
			}
		}
		return nil
	})
}

// drive commits until a commit is refused, and returns why.
func (v *voyage) drive(e *Engine, most int) (err error) {
	v.load.big = 1
	within(v.t, "a commit", func() {
		for range most {
			if err = v.ledger.commit(e, true, v.load.commit()); err != nil {
				return
			}
		}
	})
	return err
}

// What becomes of commits when something fails for good: the store reads on and
// refuses them, or it goes on by itself when the disk does.
func TestFailures(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name  string
		part  string
		err   error
		fsync journal.Policy
		kinds []string
		want  error
		heals bool
	}{
		{"journal write", ".jnl", syscall.EIO, journal.Always, []string{"write"}, engine.ErrReadOnly, false},
		{"journal write short", ".jnl", short{io.ErrShortWrite}, journal.EverySec, []string{"write"}, engine.ErrReadOnly, false},
		{"journal write full", ".jnl", syscall.ENOSPC, journal.EverySec, []string{"write"}, engine.ErrReadOnly, true},
		{"journal create", ".jnl", syscall.EIO, journal.No, []string{"create"}, engine.ErrReadOnly, false},
		{"journal create full", ".jnl", syscall.ENOSPC, journal.EverySec, []string{"create"}, engine.ErrReadOnly, true},
		{"journal sync always", ".jnl", syscall.EIO, journal.Always, []string{"sync"}, engine.ErrReadOnly, false},
		{"journal sync everysec", ".jnl", syscall.EIO, journal.EverySec, []string{"sync"}, engine.ErrReadOnly, false},
		{"journal sync no", ".jnl", syscall.EIO, journal.No, []string{"sync"}, engine.ErrReadOnly, false},
		{"journal directory", "journal$", syscall.EIO, journal.Always, []string{"sync"}, engine.ErrReadOnly, false},
		{"manifest write", "MANIFEST", syscall.EIO, journal.Always, []string{"write"}, engine.ErrReadOnly, false},
		{"manifest write full", "MANIFEST", syscall.ENOSPC, journal.Always, []string{"write"}, engine.ErrReadOnly, true},
		{"manifest write short", "MANIFEST", short{syscall.EDQUOT}, journal.EverySec, []string{"write"}, engine.ErrReadOnly, true},
		{"manifest sync", "MANIFEST", syscall.EIO, journal.EverySec, []string{"sync"}, engine.ErrReadOnly, false},
		{"store directory", "store/store$", syscall.EIO, journal.Always, []string{"sync"}, engine.ErrReadOnly, false},
		{"round create", "rounds", syscall.ENOSPC, journal.Always, []string{"create"}, engine.ErrReadOnly, true},
		{"round write", "rounds", syscall.ENOSPC, journal.EverySec, []string{"write"}, engine.ErrReadOnly, true},
		{"round write short", "rounds", short{syscall.EIO}, journal.EverySec, []string{"write"}, engine.ErrReadOnly, true},
		{"round sync", "rounds", syscall.EIO, journal.Always, []string{"sync"}, engine.ErrReadOnly, true},
		{"round link and copy", "store/store/0", syscall.EIO, journal.No, []string{"link", "create"}, engine.ErrReadOnly, true},
		{"full", "", syscall.ENOSPC, journal.EverySec, []string{"write", "create", "link", "mkdir"}, engine.ErrReadOnly, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			v := newVoyage(t, vfs.NewCrashableMem(), c.fsync, enginetest.Seed(t))
			e := v.open()
			for range 40 {
				if err := v.step(e); err != nil {
					t.Fatal(err)
				}
			}
			await(t, "durability", func() bool { return e.Durable() == e.Committed() })
			told := make(chan struct{}, 1)
			e.OnDurable(func() {
				if e.Err() != nil {
					wake(told)
				}
			})
			v.fs.failOn(c.err, c.part, c.kinds...)
			if err := v.drive(e, 3000); !errors.Is(err, c.want) || !errors.Is(err, c.err) {
				t.Errorf("refused with %v", err)
			}
			v.ledger.mustCheck(t, e, v.ledger.written) // reads go on
			if c.heals {
				v.heals(e)
			} else {
				<-told // who waits for a ticket learns of it
				v.failed(e, c.err)
			}
		})
	}
}

// Compactions that fail slow nobody down for long, and are made up for.
func TestCompactionFails(t *testing.T) {
	t.Parallel()
	v := newVoyage(t, vfs.NewCrashableMem(), journal.No, enginetest.Seed(t))
	e := v.open()
	v.fs.failOn(syscall.EIO, "store/store/0", "create")
	if err := v.drive(e, 300); err != nil {
		t.Fatalf("refused with %v", err)
	}
	if e.store.backgroundErrors.Load() == 0 {
		t.Error("no compaction has failed")
	}
	v.fs.heal()
	v.heals(e)
}

// A checkpoint that would wait for space says so, also if it has begun, and leaves
// nothing behind.
func TestCheckpointOnFullDisk(t *testing.T) {
	t.Parallel()
	v := newVoyage(t, vfs.NewCrashableMem(), journal.No, enginetest.Seed(t))
	e := v.open()
	if err := v.drive(e, 30); err != nil {
		t.Fatal(err)
	}
	v.fs.failOn(syscall.ENOSPC, "MANIFEST", "write")
	for _, dir := range []string{"first", "second"} { // the round of the first waits
		within(t, "Checkpoint", func() {
			if err := e.Checkpoint(path.Join(copyDir, dir)); !errors.Is(err, engine.ErrReadOnly) || !errors.Is(err, syscall.ENOSPC) {
				t.Errorf("Checkpoint = %v", err)
			}
		})
	}
	v.heals(e)
	names, err := v.fs.mem.List(copyDir)                                                                                      // the load may be making others
	if err != nil && !errors.Is(err, os.ErrNotExist) || slices.Contains(names, "first") || slices.Contains(names, "second") { // the disk may have been full before the folder was made
		t.Errorf("left behind: %q, %v", names, err)
	}
}

// heals has the disk work again: so must the store, by itself.
func (v *voyage) heals(e *Engine) {
	t := v.t
	t.Helper()
	if err := e.Err(); err != nil {
		t.Errorf("Err = %v, but this can heal", err)
	}
	v.fs.heal()
	await(t, "commits to go on", func() bool { return v.ledger.commit(e, true, v.load.commit()) == nil })
	v.ledger.mustCheck(t, e, v.ledger.written)
	await(t, "durability", func() bool { return e.Durable() == e.Committed() })
	if err := e.Round(); err != nil {
		t.Error(err)
	}
	v.close(e)
	v.mustLook()
}

// failed is for a store that has failed for good: a disk that works again proves
// nothing, so nothing becomes durable any more.
func (v *voyage) failed(e *Engine, cause error) {
	t := v.t
	t.Helper()
	refused := func(when string) {
		if err := v.ledger.commit(e, true, v.load.commit()); !errors.Is(err, engine.ErrReadOnly) {
			t.Errorf("a commit %s: %v", when, err)
		}
	}
	if err := e.Err(); !errors.Is(err, engine.ErrReadOnly) || !errors.Is(err, cause) {
		t.Errorf("Err = %v", err)
	}
	refused("after the failure")
	durable := e.Durable()
	v.fs.heal()
	refused("after the disk works again")
	if err := e.Round(); !errors.Is(err, engine.ErrReadOnly) {
		t.Errorf("a round: %v", err)
	}
	v.ledger.mustCheck(t, e, v.ledger.written)
	cut := v.fs.crash(0, nil)
	within(t, "Close", func() {
		if err := e.Close(); !errors.Is(err, engine.ErrReadOnly) {
			t.Errorf("Close = %v", err)
		}
	})
	if d := e.Durable(); d != durable && e.journal.Err() != nil {
		t.Errorf("durable went from %d to %d after the failure", durable, d)
	}
	v.mustLook()
	if v.fsync == journal.Always {
		p := newVoyage(t, cut, v.fsync, 0)
		if _, err := p.look(v.ledger, durable); err != nil {
			t.Errorf("after a power cut: %v", err)
		}
	}
}

// mustLook opens the store on a disk that works and expects all commits, and it
// to go on.
func (v *voyage) mustLook() {
	v.t.Helper()
	v.fs = newStage(v.fs.mem)
	n, err := v.look(v.ledger, v.ledger.written)
	if err != nil {
		v.t.Fatalf("opened again: %v", err)
	}
	v.ledger = v.ledger.fork(n)
	if err := v.goOn(); err != nil {
		v.t.Fatalf("going on: %v", err)
	}
}

// fault is one that comes at some change, once or from there on.
type fault struct {
	at    int
	once  bool
	err   error
	fsync journal.Policy

	mu   sync.Mutex
	seen int
	met  change
}

func (f *fault) hook(c change) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.seen++
	if f.seen < f.at || f.once && f.met.kind != "" {
		return nil
	}
	if errors.Is(f.err, syscall.ENOSPC) && (c.kind == "remove" || c.kind == "sync" || c.kind == "rename") {
		return nil // these need no room
	}
	if f.met.kind == "" {
		f.met = c
	}
	return fmt.Errorf("injected: %w", f.err)
}

func (f *fault) String() string {
	return fmt.Sprintf("fault at change %d (%s %s), once %v, %v, fsync %d", f.at, f.met.kind, f.met.path, f.once, f.err, f.fsync)
}

// Any change of the disk fails, once or for good: nothing panics, nothing hangs,
// commits are refused by the errors promised, what was committed is read on and
// is there after a restart. REDOUBT_FAULT_POINTS says how often.
func TestFaultSweep(t *testing.T) {
	t.Parallel()
	seed := enginetest.Seed(t)
	rng := rand.New(rand.NewPCG(seed, 4))
	built := newVoyage(t, vfs.NewCrashableMem(), journal.EverySec, seed)
	built.sail(40)
	errs := []error{syscall.EIO, syscall.ENOSPC, short{syscall.ENOSPC}, short{syscall.EIO}, short{io.ErrShortWrite}}
	points := scale(t, "REDOUBT_FAULT_POINTS", 48)
	met := 0
	for i := range points {
		f := &fault{at: 1 + (i*200)/points + rng.IntN(1+200/points), once: rng.IntN(2) == 0, err: errs[rng.IntN(len(errs))], fsync: journal.Policy(1 + rng.IntN(3))}
		v := newVoyage(t, built.fs.crash(100, rng), f.fsync, rng.Uint64())
		v.ledger = built.ledger.fork(built.ledger.written)
		v.fs.on(f.hook)
		within(t, f.String(), func() { v.suffer(f) })
		if t.Failed() {
			t.Fatal(f)
		}
		if f.met.kind != "" {
			met++
		}
	}
	t.Logf("%d of %d faults were met", met, points)
}

// suffer lives with a fault for a while.
func (v *voyage) suffer(f *fault) {
	o := Options{Logger: quiet}
	v.options(&o)
	e, err := Open(o)
	if err != nil {
		v.mustLook()
		return
	}
	v.engine.Store(e)
	for range 30 {
		err := v.step(e)
		if err != nil && f.met.kind == "" {
			v.t.Errorf("an error without a fault: %v", err)
		}
	}
	v.ledger.mustCheck(v.t, e, v.ledger.written)
	if e.Err() == nil {
		v.fs.heal()
		_ = e.Round() // at once, not when it is tried again
		_ = e.journal.Sync(uint64(e.Committed()))
		await(v.t, "what failed to be told", func() bool { return e.journal.Err() == nil || e.Err() != nil })
	}
	if e.Err() != nil {
		ghost := strings.Contains(e.Err().Error(), "may appear after a restart")
		if n := v.ledger.written; !ghost {
			v.ledger = v.ledger.fork(n)
		}
		v.failed(e, f.err)
		return
	}
	v.heals(e)
}
