//go:build unix

package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"redoubt/internal/rdbtext"
	"redoubt/keyspace"
)

// A file that cannot be written as a whole is not there at all, and one that was there stays.
func TestExportOfWhatFails(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, "dump.rdb")
	must(t, os.WriteFile(path, []byte("before"), 0o600))
	full := &fs.PathError{Op: "write", Path: path, Err: syscall.ENOSPC}
	err := writeWhole(path, func(w io.Writer) error {
		_, err := w.Write([]byte("half"))
		must(t, err)
		return full
	})
	if !errors.Is(err, syscall.ENOSPC) {
		t.Error(err)
	}
	if b, err := os.ReadFile(path); err != nil || string(b) != "before" {
		t.Errorf("%s %v", b, err)
	}
	if list, err := os.ReadDir(dir); err != nil || len(list) != 1 {
		t.Errorf("%v %v", list, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var out, log bytes.Buffer
	err = exportData(ctx, []string{"--from", populated(t), "--to", path, "--overwrite"}, &out, &log)
	if err == nil || !strings.Contains(err.Error(), "interrupted") || !strings.Contains(err.Error(), "is as it was before") {
		t.Error(err)
	}
	if list, err := os.ReadDir(dir); err != nil || len(list) != 1 {
		t.Errorf("%v %v", list, err)
	}
	// A disk that is full, where one can be had.
	small := t.TempDir()
	if err := exec.Command("mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", small).Run(); err != nil {
		t.Log("no small disk to fill: ", err)
		return
	}
	defer func() { must(t, exec.Command("umount", small).Run()) }()
	big := t.TempDir()
	rdbFile := filepath.Join(t.TempDir(), "big.rdb")
	writeStrings(t, rdbFile, 5000)
	if _, _, err := use("import", rdbFile, "--to", big); err != nil {
		t.Fatal(err)
	}
	_, _, err = use("export", "--from", big, "--to", filepath.Join(small, "dump.rdb"))
	if !errors.Is(err, syscall.ENOSPC) || !strings.Contains(err.Error(), "Nothing was exported") {
		t.Error(err)
	}
	if list, err := os.ReadDir(small); err != nil || len(list) != 0 {
		t.Errorf("%v %v", list, err)
	}
}

// kill -9 at any moment: the store has the old data or the new, and nothing in between, and
// the next import is not in the way of what is left.
func TestImportIsKilled(t *testing.T) {
	t.Parallel()
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	file := filepath.Join(t.TempDir(), "dump.rdb")
	writeStrings(t, file, 25_000)
	before, after := keysOf(t, recordedFile), keysOf(t, file)
	dir := t.TempDir()
	if _, _, err := use("import", recordedFile, "--to", dir); err != nil {
		t.Fatal(err)
	}
	const rounds = 5
	killed, whole := 0, time.Duration(0)
	for round := range rounds + 1 {
		cmd := exec.Command(os.Args[0], "import", file, "--to", dir, "--replace")
		cmd.Env = append(os.Environ(), beProgram+"=1")
		begun := time.Now()
		must(t, cmd.Start())
		if round > 0 { // the first one tells how long it takes
			time.AfterFunc(time.Duration(rng.Int64N(int64(whole))), func() { _ = cmd.Process.Kill() })
		}
		err := cmd.Wait()
		if round == 0 {
			must(t, err)
			whole = time.Since(begun)
		}
		if err != nil {
			killed++
		}
		if out, _, err := use("check", "--dir", dir); err != nil {
			t.Fatalf("round %d: %v\n%s", round, err, out)
		}
		want := after
		got := exported(t, dir)
		if _, old := got["0 string-1"]; old {
			want = before
		}
		if err == nil && len(got) != len(after) {
			t.Errorf("round %d: it ended well, and there are %d keys", round, len(got))
		}
		rdbtext.Same(t, got, want)
		if len(want) == len(after) { // the old data again
			if _, _, err := use("import", recordedFile, "--to", dir, "--replace"); err != nil {
				t.Fatal(err)
			}
		}
	}
	if killed == 0 {
		t.Error("it was never killed")
	}
	// A server that opens it clears what is left by itself.
	f := newStore(t, dir)
	f.DoIn(0, func(tx *keyspace.Tx) {
		var c keyspace.Clearing
		for n := 0; n < 1000 && tx.ClearDead(&c, 100); n++ {
		}
	})
	f.close()
	rdbtext.Same(t, exported(t, dir), before)
}
