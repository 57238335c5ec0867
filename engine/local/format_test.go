package local

import (
	"errors"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"redoubt/engine"
)

func writeFile(t testing.TB, fs vfs.FS, path, text string) {
	t.Helper()
	if err := fs.MkdirAll(fs.PathDir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	f, err := fs.Create(path, vfs.WriteCategoryUnspecified)
	if err == nil {
		_, err = f.Write([]byte(text))
		err = errors.Join(err, f.Close())
	}
	if err != nil {
		t.Fatal(err)
	}
}

func TestForeignDirectories(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ file, text, says string }{
		"files":          {"notes.txt", "hello", "empty directory"},
		"dump of Redis":  {"dump.rdb", "REDIS0011", "empty directory"},
		"magic":          {formatFile, "something else\nformat 1\n", "not a Redoubt store"},
		"empty":          {formatFile, "", "not a Redoubt store"},
		"newer version":  {formatFile, "redoubt store\nformat 2\nengine local\n", "newer version"},
		"no version":     {formatFile, "redoubt store\nengine local\n", "no valid format"},
		"another engine": {formatFile, "redoubt store\nformat 1\nengine pebble\n", "start with that engine"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			fs := vfs.NewMem()
			writeFile(t, fs, "/data/store/"+c.file, c.text)
			_, err := Open(Options{Dir: "/data/store", FS: fs, Logger: quiet})
			if !errors.Is(err, engine.ErrFormat) || !strings.Contains(err.Error(), "/data/store") || !strings.Contains(err.Error(), c.says) {
				t.Errorf("Open = %v", err)
			}
			if names, _ := fs.List("/data/store"); len(names) != 1 {
				t.Errorf("the directory was changed: %q", names)
			}
		})
	}
}

// reopened opens a store and closes it.
func reopened(t testing.TB, fs vfs.FS) {
	t.Helper()
	if err := opened(t, func(o *Options) { o.Dir, o.FS = shipDir, fs }).Close(); err != nil {
		t.Fatal(err)
	}
}

// Unknown lines are for later versions that this one can still read.
func TestFormatFile(t *testing.T) {
	t.Parallel()
	fs := vfs.NewMem()
	reopened(t, fs)
	writeFile(t, fs, shipDir+"/"+formatFile, "redoubt store\nformat 1\nengine local\nnote of the future\n")
	reopened(t, fs)
}

// Whatever a crash during creation leaves is taken for a new store.
func TestCrashDuringCreation(t *testing.T) {
	t.Parallel()
	for _, left := range []string{"", "LOCK", formatFile + ".tmp", "lost+found/x"} {
		fs := vfs.NewMem()
		if err := fs.MkdirAll(shipDir, 0o755); err != nil {
			t.Fatal(err)
		}
		if left != "" {
			writeFile(t, fs, shipDir+"/"+left, "half")
		}
		reopened(t, fs)
	}
	// And before each change of a real creation.
	fs := newStage(vfs.NewCrashableMem())
	rng := rand.New(rand.NewPCG(1, 2))
	var mu sync.Mutex
	var copies []*vfs.MemFS
	fs.on(func(change) error {
		mu.Lock()
		defer mu.Unlock()
		copies = append(copies, fs.crash(0, nil), fs.crash(50, rng))
		return nil
	})
	reopened(t, fs)
	for _, fs := range copies {
		reopened(t, fs)
	}
	if len(copies) < 40 {
		t.Errorf("only %d copies", len(copies))
	}
}

func TestLocked(t *testing.T) {
	t.Parallel()
	for _, o := range []Options{{Dir: filepath.Join(t.TempDir(), "store"), FS: vfs.Default}, {Dir: "/store", FS: vfs.NewMem()}} {
		open := func() *Engine { return opened(t, func(to *Options) { to.Dir, to.FS = o.Dir, o.FS }) }
		e := open()
		if _, err := Open(o); !errors.Is(err, engine.ErrLocked) || !strings.Contains(err.Error(), o.Dir) {
			t.Errorf("a second Open: %v", err)
		}
		if err := errors.Join(e.Close(), open().Close()); err != nil { // free again
			t.Fatal(err)
		}
	}
}

// A lock held by another process: the test runs itself.
func TestLockedByAnotherProcess(t *testing.T) {
	if dir := os.Getenv("REDOUBT_LOCK_DIR"); dir != "" {
		if _, err := Open(Options{Dir: dir, Logger: quiet}); !errors.Is(err, engine.ErrLocked) {
			t.Fatalf("Open = %v", err)
		}
		return
	}
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "store")
	e := opened(t, func(o *Options) { o.Dir, o.FS = dir, vfs.Default })
	defer e.Close()
	cmd := exec.Command(os.Args[0], "-test.run=^TestLockedByAnotherProcess$")
	cmd.Env = append(os.Environ(), "REDOUBT_LOCK_DIR="+dir)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}
