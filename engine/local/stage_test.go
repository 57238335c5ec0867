package local

import (
	"errors"
	"log/slog"
	"math/rand/v2"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"redoubt/internal/race"
)

var quiet = slog.New(slog.DiscardHandler)

// stage is a file system in memory for tests. A hook is asked before every
// change: it may fail it, or take a copy as a crash at that moment would leave.
type stage struct {
	vfs.FS
	mem *vfs.MemFS
	// Held shared by changes: a copy falls between them. (A MemFS that is copied
	// in the middle of Link or Lock waits for itself.)
	between sync.RWMutex
	hook    atomic.Pointer[func(change) error]
}

// change is what the hook is told of.
type change struct {
	kind string // create, link, remove, rename, mkdir, write, sync
	path string
}

// short is an error of a write that is done in part.
type short struct{ error }

func (s short) Unwrap() error { return s.error }

func newStage(mem *vfs.MemFS) *stage { return &stage{FS: mem, mem: mem} }

func (s *stage) on(hook func(change) error) { s.hook.Store(&hook) }
func (s *stage) heal()                      { s.hook.Store(nil) }

// crash returns what a crash leaves: of what was not synced, each block and each
// name with a chance of percent. All of it, 100, is what the end of the process
// leaves.
func (s *stage) crash(percent int, rng *rand.Rand) *vfs.MemFS {
	s.between.Lock()
	defer s.between.Unlock()
	return s.mem.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: percent, RNG: rng})
}

func (s *stage) do(kind, path string, do func() error) error {
	if hook := s.hook.Load(); hook != nil {
		if err := (*hook)(change{kind, path}); err != nil {
			return err
		}
	}
	s.between.RLock()
	defer s.between.RUnlock()
	return do()
}

func (s *stage) file(kind, path string, open func() (vfs.File, error)) (f vfs.File, err error) {
	err = s.do(kind, path, func() error { f, err = open(); return err })
	if err != nil {
		return nil, err
	}
	return &stageFile{f, s, path}, nil
}

func (s *stage) Create(name string, c vfs.DiskWriteCategory) (vfs.File, error) {
	return s.file("create", name, func() (vfs.File, error) { return s.FS.Create(name, c) })
}

func (s *stage) ReuseForWrite(old, name string, c vfs.DiskWriteCategory) (vfs.File, error) {
	return s.file("create", name, func() (vfs.File, error) { return s.FS.ReuseForWrite(old, name, c) })
}

func (s *stage) OpenReadWrite(name string, c vfs.DiskWriteCategory, o ...vfs.OpenOption) (vfs.File, error) {
	f, err := s.FS.OpenReadWrite(name, c, o...)
	if err != nil {
		return nil, err
	}
	return &stageFile{f, s, name}, nil
}

func (s *stage) OpenDir(name string) (vfs.File, error) {
	f, err := s.FS.OpenDir(name)
	if err != nil {
		return nil, err
	}
	return &stageFile{f, s, name}, nil
}

func (s *stage) Link(from, to string) error {
	return s.do("link", to, func() error { return s.FS.Link(from, to) })
}
func (s *stage) Rename(from, to string) error {
	return s.do("rename", to, func() error { return s.FS.Rename(from, to) })
}
func (s *stage) Remove(name string) error {
	return s.do("remove", name, func() error { return s.FS.Remove(name) })
}
func (s *stage) RemoveAll(name string) error {
	return s.do("remove", name, func() error { return s.FS.RemoveAll(name) })
}
func (s *stage) MkdirAll(name string, perm os.FileMode) error {
	return s.do("mkdir", name, func() error { return s.FS.MkdirAll(name, perm) })
}

type stageFile struct {
	vfs.File
	s    *stage
	path string
}

func (f *stageFile) write(p []byte, write func([]byte) (int, error)) (n int, err error) {
	err = f.s.do("write", f.path, func() error { n, err = write(p); return err })
	var cut short
	if errors.As(err, &cut) {
		n, _ = write(p[:len(p)/2])
	}
	return n, err
}

func (f *stageFile) Write(p []byte) (int, error) { return f.write(p, f.File.Write) }
func (f *stageFile) WriteAt(p []byte, at int64) (int, error) {
	return f.write(p, func(p []byte) (int, error) { return f.File.WriteAt(p, at) })
}
func (f *stageFile) Sync() error     { return f.s.do("sync", f.path, f.File.Sync) }
func (f *stageFile) SyncData() error { return f.s.do("sync", f.path, f.File.SyncData) }

// await polls until ok, or fails the test after a while.
func await(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); !ok(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("waited in vain for %s", what)
		}
	}
}

// within fails the test if f takes long.
func within(t testing.TB, what string, f func()) {
	t.Helper()
	done := make(chan struct{})
	go func() { defer close(done); f() }()
	select {
	case <-done:
	case <-time.After(2 * time.Minute):
		panic(what + " hangs") // with all stacks
	}
}

// scale is how many rounds a test makes: so many by default, few with the race
// detector, or what the environment says.
func scale(t testing.TB, variable string, normal int) int {
	if s := os.Getenv(variable); s != "" {
		n, err := strconv.Atoi(s)
		if err != nil {
			t.Fatalf("%s: %v", variable, err)
		}
		return n
	}
	if race.Enabled || testing.Short() {
		return max(1, normal/8)
	}
	return normal
}
