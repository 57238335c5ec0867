package pebble

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"redoubt/engine"
)

func writeFile(t *testing.T, fs vfs.FS, path, text string) {
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
	for name, c := range map[string]struct{ file, text, says string }{
		"Files":         {"notes.txt", "hello", "empty directory"},
		"RedisDump":     {"dump.rdb", "REDIS0011", "empty directory"},
		"Magic":         {formatFile, "something else\nformat 1\n", "not a Redoubt store"},
		"Empty":         {formatFile, "", "not a Redoubt store"},
		"NewerVersion":  {formatFile, "redoubt store\nformat 2\nengine pebble\n", "newer version"},
		"NoVersion":     {formatFile, "redoubt store\nengine pebble\n", "no valid format"},
		"AnotherEngine": {formatFile, "redoubt store\nformat 1\nengine local\n", "start with that engine"},
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

// Unknown lines are for later versions that this one can still read.
func TestFormatFile(t *testing.T) {
	t.Parallel()
	fs := vfs.NewMem()
	if err := mustOpen(t, Options{Dir: "/store", FS: fs}).Close(); err != nil {
		t.Fatal(err)
	}
	writeFile(t, fs, "/store/"+formatFile, "redoubt store\nformat 1\nengine pebble\nnote of the future\n")
	if err := mustOpen(t, Options{Dir: "/store", FS: fs}).Close(); err != nil {
		t.Fatal(err)
	}
}

// Whatever a crash during creation leaves is taken for a new store.
func TestCrashDuringCreation(t *testing.T) {
	t.Parallel()
	for _, left := range []string{"", "LOCK", formatFile + ".tmp", "lost+found/x"} {
		fs := vfs.NewMem()
		if err := fs.MkdirAll("/data/store", 0o755); err != nil {
			t.Fatal(err)
		}
		if left != "" {
			writeFile(t, fs, "/data/store/"+left, "half")
		}
		if err := mustOpen(t, Options{Dir: "/data/store", FS: fs}).Close(); err != nil {
			t.Errorf("%q: %v", left, err)
		}
	}
	// And after each operation of a real creation.
	for n := 0; n < 60; n++ {
		fs := vfs.NewCrashableMem()
		var copies []*vfs.MemFS
		e := mustOpen(t, Options{Dir: "/data/store", FS: snapFS(fs, n, &copies)})
		_ = e.Close()
		for _, fs := range copies {
			if err := mustOpen(t, Options{Dir: "/data/store", FS: fs}).Close(); err != nil {
				t.Error(err)
			}
		}
	}
}

func TestLocked(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "store")
	mem := vfs.NewMem()
	for _, o := range []Options{{Dir: dir}, {Dir: "/store", FS: mem}} {
		e := mustOpen(t, o)
		o.Logger = quiet
		if _, err := Open(o); !errors.Is(err, engine.ErrLocked) || !strings.Contains(err.Error(), o.Dir) {
			t.Errorf("a second Open: %v", err)
		}
		if err := e.Close(); err != nil {
			t.Fatal(err)
		}
		if err := mustOpen(t, o).Close(); err != nil { // free again
			t.Fatal(err)
		}
	}
}

// A lock held by another process: the test runs itself.
func TestLockedByAnotherProcess(t *testing.T) {
	if dir := os.Getenv("REDOUBT_LOCK_DIR"); dir != "" {
		_, err := Open(Options{Dir: dir, Logger: quiet})
		if !errors.Is(err, engine.ErrLocked) {
			t.Fatalf("Open = %v", err)
		}
		return
	}
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "store")
	e := mustOpen(t, Options{Dir: dir})
	defer e.Close()
	cmd := exec.Command(os.Args[0], "-test.run=^TestLockedByAnotherProcess$")
	cmd.Env = append(os.Environ(), "REDOUBT_LOCK_DIR="+dir)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}
