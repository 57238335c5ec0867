package pebble

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"redoubt/engine"
	"redoubt/engine/enginetest"
)

// faulty is a file system whose operations can be made to fail.
type faulty struct {
	*errorfs.FS
	mem   *vfs.MemFS
	fault atomic.Pointer[func(errorfs.Op) error]
}

func newFaulty() *faulty {
	f := &faulty{mem: vfs.NewCrashableMem()}
	f.FS = errorfs.Wrap(f.mem, errorfs.InjectorFunc(func(op errorfs.Op) error {
		if fault := f.fault.Load(); fault != nil {
			return (*fault)(op)
		}
		return nil
	}))
	return f
}

// failOn makes operations of these kinds on paths that contain part fail.
func (f *faulty) failOn(err error, part string, kinds ...errorfs.OpKind) {
	fault := func(op errorfs.Op) error {
		for _, kind := range kinds {
			if op.Kind == kind && strings.Contains(op.Path+"$", part) {
				return fmt.Errorf("injected: %w", err)
			}
		}
		return nil
	}
	f.fault.Store(&fault)
}

func (f *faulty) heal() { f.fault.Store(nil) }

// drive commits until a commit is refused, filling memtables on the way.
func drive(t *testing.T, l *ledger, e *Engine) error {
	t.Helper()
	for i := range 3000 {
		if err := l.commit(e, i%writers, 8000); err != nil {
			return err
		}
		if i%40 == 20 {
			if _, err := e.db.AsyncFlush(); err != nil {
				t.Fatal(err)
			}
		}
	}
	t.Fatal("no commit was refused")
	return nil
}

// After a failure of the WAL or the MANIFEST the store reads on, refuses
// commits, and a restart finds everything acknowledged.
func TestFailureFreezes(t *testing.T) {
	sync := []errorfs.OpKind{errorfs.OpFileSync, errorfs.OpFileSyncData, errorfs.OpFileSyncTo}
	for _, c := range []struct {
		name  string
		part  string
		err   error
		fsync FsyncPolicy
		kinds []errorfs.OpKind
	}{
		{"WALWrite", ".log", syscall.EIO, Always, []errorfs.OpKind{errorfs.OpFileWrite}},
		{"WALWriteFull", ".log", syscall.ENOSPC, EverySec, []errorfs.OpKind{errorfs.OpFileWrite}},
		{"WALSync", ".log", syscall.EIO, Always, sync},
		{"WALSyncEverySec", ".log", syscall.EIO, EverySec, sync},
		{"WALSyncNo", ".log", syscall.EIO, No, sync}, // met when the WAL is full and closed
		{"WALCreate", ".log", syscall.ENOSPC, Always, []errorfs.OpKind{errorfs.OpCreate, errorfs.OpReuseForWrite}},
		{"ManifestWrite", "MANIFEST", syscall.ENOSPC, Always, []errorfs.OpKind{errorfs.OpFileWrite}},
		{"ManifestSync", "MANIFEST", syscall.EIO, EverySec, sync},
		{"DirSync", "store$", syscall.EIO, Always, sync},
		{"AllWrites", "", syscall.ENOSPC, Always, []errorfs.OpKind{errorfs.OpFileWrite, errorfs.OpCreate}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			fs, l := newFaulty(), &ledger{}
			e := mustOpen(t, Options{Dir: "/data/store", FS: fs, Memory: minMemory, Fsync: c.fsync})
			for i := range 60 {
				if err := l.commit(e, i%writers, 1000); err != nil {
					t.Fatal(err)
				}
			}
			if err := e.db.Flush(); err != nil {
				t.Fatal(err)
			}
			woken := make(chan struct{}, 1)
			e.OnDurable(func() {
				if e.Err() != nil {
					select {
					case woken <- struct{}{}:
					default:
					}
				}
			})
			fs.failOn(c.err, c.part, c.kinds...)
			err := drive(t, l, e)
			<-woken // waiters learn of it
			if !errors.Is(err, engine.ErrReadOnly) && !errors.Is(err, engine.ErrFull) {
				t.Errorf("a commit was refused with %v", err)
			}
			if err := e.Err(); !errors.Is(err, engine.ErrReadOnly) || !errors.Is(err, c.err) {
				t.Errorf("Err = %v", err)
			}
			if err := l.commit(e, 0, 10); !errors.Is(err, engine.ErrReadOnly) {
				t.Errorf("a later commit: %v", err)
			}
			durable := e.Durable()
			acked := l.acknowledged(e)
			l.check(t, e, l.next) // reads go on, and show all that was visible

			// A disk that works again proves nothing: nothing becomes durable.
			fs.heal()
			if err := l.commit(e, 0, 10); !errors.Is(err, engine.ErrReadOnly) {
				t.Errorf("a commit after the disk works again: %v", err)
			}
			l.check(t, e, l.next)
			crashed := fs.mem.CrashClone(vfs.CrashCloneCfg{})
			if err := e.Close(); !errors.Is(err, engine.ErrReadOnly) {
				t.Errorf("Close = %v", err)
			}
			if d := e.Durable(); d != durable {
				t.Errorf("Durable went from %d to %d after the failure", durable, d)
			}
			disks := []vfs.FS{fs.mem}
			if c.fsync == Always {
				disks = append(disks, crashed)
			}
			for _, disk := range disks {
				again := mustOpen(t, Options{Dir: "/data/store", FS: disk, Memory: minMemory, Fsync: c.fsync})
				at := l.check(t, again, acked)
				next := &ledger{}
				next.restart(at)
				if err := next.commit(again, 0, 10); err != nil {
					t.Errorf("a commit after the restart: %v", err)
				}
				if err := again.Close(); err != nil {
					t.Error(err)
				}
			}
		})
	}
}

// tornFS writes half of what a WAL is given, and says so or not.
type tornFS struct {
	vfs.FS
	on  atomic.Bool
	err error
}

type tornFile struct {
	vfs.File
	fs *tornFS
}

func (f *tornFS) Create(name string, category vfs.DiskWriteCategory) (vfs.File, error) {
	file, err := f.FS.Create(name, category)
	if err == nil && strings.HasSuffix(name, ".log") {
		file = &tornFile{file, f}
	}
	return file, err
}

func (f *tornFile) Write(p []byte) (int, error) {
	if !f.fs.on.Load() {
		return f.File.Write(p)
	}
	n, err := f.File.Write(p[:len(p)/2])
	return n, errors.Join(err, f.fs.err)
}

func TestShortWrite(t *testing.T) {
	for name, reported := range map[string]error{"Silent": nil, "Full": syscall.ENOSPC} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			mem, l := vfs.NewMem(), &ledger{}
			fs := &tornFS{FS: mem, err: reported}
			e := mustOpen(t, Options{Dir: "/data/store", FS: fs, Memory: minMemory, Fsync: EverySec})
			for i := range 30 {
				if err := l.commit(e, i%writers, 100); err != nil {
					t.Fatal(err)
				}
			}
			await(t, "durability", func() bool { return e.Durable() == e.Committed() })
			fs.on.Store(true)
			err := drive(t, l, e)
			if !errors.Is(err, engine.ErrReadOnly) || reported == nil && !errors.Is(err, io.ErrShortWrite) {
				t.Errorf("refused with %v", err)
			}
			acked := l.acknowledged(e)
			fs.on.Store(false)
			if err := e.Close(); !errors.Is(err, engine.ErrReadOnly) {
				t.Errorf("Close = %v", err)
			}
			again := mustOpen(t, Options{Dir: "/data/store", FS: mem, Memory: minMemory})
			defer again.Close()
			l.check(t, again, acked)
		})
	}
}

// A disk too full for tables refuses commits and recovers by itself.
func TestTableFailureRecovers(t *testing.T) {
	for _, c := range []struct {
		name  string
		err   error
		want  error
		kinds []errorfs.OpKind
	}{
		{"CreateFull", syscall.ENOSPC, engine.ErrFull, []errorfs.OpKind{errorfs.OpCreate}},
		{"WriteFull", syscall.ENOSPC, engine.ErrFull, []errorfs.OpKind{errorfs.OpFileWrite}},
		{"Sync", syscall.EIO, engine.ErrReadOnly, []errorfs.OpKind{errorfs.OpFileSync, errorfs.OpFileSyncData}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			fs, l := newFaulty(), &ledger{}
			e := mustOpen(t, Options{Dir: "/data/store", FS: fs, Memory: minMemory, Fsync: Always})
			fs.failOn(c.err, ".sst", c.kinds...)
			if err := drive(t, l, e); !errors.Is(err, c.want) {
				t.Errorf("refused with %v", err)
			}
			if err := e.Err(); err != nil {
				t.Errorf("Err = %v, but the failure can heal", err)
			}
			l.check(t, e, l.next)
			await(t, "durability", func() bool { return e.Durable() == e.Committed() })
			fs.heal()
			await(t, "commits to go on", func() bool { return l.commit(e, 0, 10) == nil })
			if err := e.db.Flush(); err != nil {
				t.Error(err)
			}
			l.check(t, e, l.next)
			if err := e.Close(); err != nil {
				t.Error(err)
			}
			again := mustOpen(t, Options{Dir: "/data/store", FS: fs, Memory: minMemory})
			defer again.Close()
			l.check(t, again, l.next)
		})
	}
}

// A writer that Pebble holds for want of a flush is let go in the end.
func TestStallOnFullDiskEnds(t *testing.T) {
	t.Parallel()
	fs, l := newFaulty(), &ledger{}
	e := mustOpen(t, Options{Dir: "/data/store", FS: fs, Memory: minMemory, Fsync: Always})
	e.patience.Store(1)
	if err := l.commit(e, 0, 1000); err != nil {
		t.Fatal(err)
	}
	await(t, "durability", func() bool { return e.Durable() == e.Committed() })
	fs.failOn(syscall.ENOSPC, ".sst", errorfs.OpCreate)
	for i := 0; e.Err() == nil; i++ { // each makes a memtable to flush; one of them stalls
		if _, err := e.db.AsyncFlush(); err != nil {
			t.Fatal(err)
		}
		if i > 1000 {
			t.Fatal("no stall")
		}
	}
	if e.stalls.Load() == 0 || !errors.Is(e.Err(), engine.ErrReadOnly) {
		t.Errorf("%d stalls, Err %v", e.stalls.Load(), e.Err())
	}
	l.check(t, e, l.next)
	if err := e.Close(); !errors.Is(err, engine.ErrReadOnly) {
		t.Errorf("Close = %v", err)
	}
	again := mustOpen(t, Options{Dir: "/data/store", FS: fs.mem, Memory: minMemory})
	defer again.Close()
	l.check(t, again, l.acked)
}

// A store whose disk takes no writes opens for reading.
func TestOpenOnBrokenDisk(t *testing.T) {
	t.Parallel()
	fs, l := newFaulty(), &ledger{}
	e := mustOpen(t, Options{Dir: "/data/store", FS: fs, Memory: minMemory, Fsync: Always})
	for i := range 60 {
		if err := l.commit(e, i%writers, 1000); err != nil {
			t.Fatal(err)
		}
	}
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	for _, part := range []string{".sst", "MANIFEST", ".log", "store$"} {
		fs.failOn(syscall.ENOSPC, part, errorfs.OpCreate, errorfs.OpFileWrite, errorfs.OpFileSync)
		for i := range 2 { // the second finds what the first left
			e, err := Open(Options{Dir: "/data/store", FS: fs, Memory: minMemory, Logger: quiet})
			if err != nil {
				t.Logf("%s: %v", part, err) // an error is fine, a hang or a loss is not
				continue
			}
			l.check(t, e, l.next)
			if i == 0 {
				if err := l.commit(e, 0, 10); err == nil && part != ".sst" {
					t.Errorf("%s: a commit on a full disk", part)
				}
			}
			_ = e.Close()
		}
		fs.heal()
		e = mustOpen(t, Options{Dir: "/data/store", FS: fs, Memory: minMemory, Fsync: Always})
		l.check(t, e, l.acked)
		l.restart(l.check(t, e, l.acked))
		if err := e.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// The Nth write of any kind fails, for many N: whatever it is, nothing
// acknowledged is lost and nothing panics. With once, only that one fails.
func TestAnyFailure(t *testing.T) {
	t.Parallel()
	seed := enginetest.Seed(t)
	rng := rand.New(rand.NewPCG(seed, 3))
	hits := map[bool]int{}
	for n := int64(0); n < 240; n += 1 + rng.Int64N(24) {
		fs, l := newFaulty(), &ledger{}
		once := rng.IntN(2) == 0
		fsync := []FsyncPolicy{Always, EverySec}[rng.IntN(2)]
		var count atomic.Int64
		var what atomic.Pointer[errorfs.Op]
		fault := func(op errorfs.Op) error {
			if op.Kind.ReadOrWrite() != errorfs.OpIsWrite {
				return nil
			}
			if i := count.Add(1) - 1; i == n || i > n && !once {
				what.CompareAndSwap(nil, &op)
				return fmt.Errorf("injected: %w", syscall.ENOSPC)
			}
			return nil
		}
		fs.fault.Store(&fault)
		var acked [writers]int
		for range 2 { // two lives under the fault
			e, err := Open(Options{Dir: "/data/store", FS: fs, Memory: minMemory, Fsync: fsync, Logger: quiet})
			if err != nil {
				continue
			}
			for i := range 90 {
				if err := l.commit(e, i%writers, rng.IntN(6000)); err != nil {
					break
				}
				if i%30 == 10 {
					_, _ = e.db.AsyncFlush()
				}
			}
			if e.Err() == nil {
				await(t, "durability or failure", func() bool { return e.Durable() == e.Committed() || e.Err() != nil })
			}
			acked = l.acknowledged(e)
			_ = e.Close()
			l.sent = [writers][]promise{}
			l.next = acked
			if e.Err() != nil {
				break
			}
		}
		fs.heal()
		hits[what.Load() != nil]++
		e, err := Open(Options{Dir: "/data/store", FS: fs.mem, Memory: minMemory, Logger: quiet})
		if err != nil {
			t.Fatalf("n=%d once=%v %v: %v", n, once, what.Load(), err)
		}
		l.check(t, e, acked)
		if err := e.Close(); err != nil {
			t.Error(err)
		}
		if t.Failed() {
			t.Fatalf("n=%d once=%v fsync=%v op=%+v", n, once, fsync, what.Load())
		}
	}
	t.Logf("%d runs met their failure, %d did not", hits[true], hits[false])
}
