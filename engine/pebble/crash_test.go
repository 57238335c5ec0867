package pebble

import (
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"redoubt/engine/enginetest"
)

// crash is a copy of a file system as a crash would leave it, and what had been
// acknowledged before.
type crash struct {
	fs    *vfs.MemFS
	acked [writers]int
}

// runUntilCrashes runs writers and takes crashes at random moments. unsynced
// says how much of the data that was not synced each of them keeps, in percent.
func runUntilCrashes(t *testing.T, rng *rand.Rand, fs *vfs.MemFS, l *ledger, e *Engine, unsynced func() int) []crash {
	const commits = 80
	var mu sync.Mutex
	var crashes []crash
	take := func() {
		mu.Lock()
		defer mu.Unlock()
		acked := l.acknowledged(e)
		crashes = append(crashes, crash{fs.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: unsynced(), RNG: rng}), acked})
	}
	var wg sync.WaitGroup
	seed := rng.Uint64()
	for w := range writers {
		own := rand.New(rand.NewPCG(seed, uint64(w)))
		at := own.IntN(commits)
		wg.Go(func() {
			for i := range commits {
				ballast := own.IntN(100)
				if own.IntN(4) == 0 {
					ballast = own.IntN(20_000) // enough to fill memtables now and then
				}
				if err := l.commit(e, w, ballast); err != nil {
					t.Error(err)
					return
				}
				if own.IntN(60) == 0 {
					if _, err := e.db.AsyncFlush(); err != nil {
						t.Error(err)
					}
				}
				if i == at {
					take()
				}
			}
		})
	}
	wg.Wait()
	take()
	return crashes
}

// reopenAfter opens the store of a crash, checks it, and crashes it again at
// some of the writes that opening and closing make: recovery itself must be
// safe to interrupt. The copies are taken between operations, by the injector
// of a file system that injects no errors.
func reopenAfter(t *testing.T, rng *rand.Rand, l *ledger, c crash, fsync FsyncPolicy, unsynced func() int) (at [writers]int) {
	t.Helper()
	var mu sync.Mutex
	var again []*vfs.MemFS
	hooked := errorfs.Wrap(c.fs, errorfs.InjectorFunc(func(op errorfs.Op) error {
		mu.Lock()
		defer mu.Unlock()
		if op.Kind.ReadOrWrite() == errorfs.OpIsWrite && op.Kind != errorfs.OpLock && len(again) < 3 && rng.IntN(25) == 0 {
			again = append(again, c.fs.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: unsynced(), RNG: rng}))
		}
		return nil
	}))
	e := mustOpen(t, Options{Dir: "/data/store", FS: hooked, Memory: minMemory, Fsync: fsync})
	at = l.check(t, e, c.acked)
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	for _, fs := range again {
		e := mustOpen(t, Options{Dir: "/data/store", FS: fs, Memory: minMemory, Fsync: fsync})
		l.check(t, e, c.acked)
		if err := e.Close(); err != nil {
			t.Fatal(err)
		}
	}
	return at
}

func testCrashes(t *testing.T, fsync FsyncPolicy, keepsAcked bool, unsynced func(*rand.Rand) int) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(enginetest.Seed(t), 2))
	percent := func() int { return unsynced(rng) }
	fs := vfs.NewCrashableMem()
	l := &ledger{}
	for range 2 {
		e := mustOpen(t, Options{Dir: "/data/store", FS: fs, Memory: minMemory, Fsync: fsync})
		crashes := runUntilCrashes(t, rng, fs, l, e, percent)
		if err := e.Close(); err != nil {
			t.Fatal(err)
		}
		var at [writers]int
		for _, c := range crashes {
			if !keepsAcked {
				c.acked = [writers]int{}
			}
			at = reopenAfter(t, rng, l, c, fsync, percent)
			fs = c.fs
		}
		l.restart(at) // life goes on from the last crash
		if t.Failed() {
			return
		}
	}
}

// Under Always what was acknowledged outlives a power cut.
func TestPowerCutAlways(t *testing.T) {
	testCrashes(t, Always, true, func(rng *rand.Rand) int { return []int{0, 30, 70, 100}[rng.IntN(4)] })
}

// Under EverySec and No what was acknowledged outlives the process: the clone
// keeps everything that was written to the operating system.
func TestKillEverySec(t *testing.T) {
	testCrashes(t, EverySec, true, func(*rand.Rand) int { return 100 })
}

func TestKillNo(t *testing.T) {
	testCrashes(t, No, true, func(*rand.Rand) int { return 100 })
}

// A power cut under EverySec may lose the newest commits, but the store opens,
// whole and with exact counters.
func TestPowerCutEverySec(t *testing.T) {
	testCrashes(t, EverySec, false, func(rng *rand.Rand) int { return []int{0, 20, 50, 80, 95}[rng.IntN(5)] })
}

// The sync of each second: what is a second old outlives a power cut.
func TestEverySecSyncs(t *testing.T) {
	t.Parallel()
	fs, l := vfs.NewCrashableMem(), &ledger{}
	e := mustOpen(t, Options{Dir: "/data/store", FS: fs, Memory: minMemory, Fsync: EverySec})
	defer e.Close()
	for w := range writers {
		if err := l.commit(e, w, 10); err != nil {
			t.Fatal(err)
		}
	}
	syncs := e.disk.syncs.Load()
	await(t, "the sync of the second", func() bool { return e.disk.syncs.Load() > syncs })
	c := mustOpen(t, Options{Dir: "/data/store", FS: fs.CrashClone(vfs.CrashCloneCfg{}), Memory: minMemory})
	defer c.Close()
	l.check(t, c, [writers]int{1, 1, 1})
}

// The policy can change at any time; from then on the new one holds.
func TestSetFsync(t *testing.T) {
	t.Parallel()
	fs, l := vfs.NewCrashableMem(), &ledger{}
	e := mustOpen(t, Options{Dir: "/data/store", FS: fs, Memory: minMemory, Fsync: No})
	defer e.Close()
	survives := func(what string, acked [writers]int) {
		t.Helper()
		c := mustOpen(t, Options{Dir: "/data/store", FS: fs.CrashClone(vfs.CrashCloneCfg{}), Memory: minMemory})
		defer c.Close()
		if got := l.check(t, c, acked); got != acked {
			t.Errorf("%s: %v survive a power cut, want %v", what, got, acked)
		}
	}
	step := func() [writers]int {
		t.Helper()
		for w := range writers {
			if err := l.commit(e, w, 10); err != nil {
				t.Fatal(err)
			}
		}
		await(t, "durability", func() bool { return e.Durable() == e.Committed() })
		return l.acknowledged(e)
	}
	first := step()
	survives("no", [writers]int{})
	if err := e.SetFsync(Always); err != nil {
		t.Fatal(err)
	}
	survives("after the change", first) // what the old policy left is synced too
	second := step()
	survives("always", second)
	if err := e.SetFsync(No); err != nil {
		t.Fatal(err)
	}
	step()
	survives("no again", second)
}

// snapFS returns a file system that adds a copy of mem, as a power cut would
// leave it, before the nth writing operation.
func snapFS(mem *vfs.MemFS, n int, copies *[]*vfs.MemFS) vfs.FS {
	var mu sync.Mutex
	return errorfs.Wrap(mem, errorfs.InjectorFunc(func(op errorfs.Op) error {
		mu.Lock()
		defer mu.Unlock()
		if op.Kind.ReadOrWrite() == errorfs.OpIsWrite {
			if n--; n == -1 {
				rng := rand.New(rand.NewPCG(1, 2))
				*copies = append(*copies, mem.CrashClone(vfs.CrashCloneCfg{}),
					mem.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: 50, RNG: rng}))
			}
		}
		return nil
	}))
}
