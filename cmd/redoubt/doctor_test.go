package main

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"redoubt/doctor"
	"redoubt/internal/testserver"
)

// The doctor of this machine, with a server and without one. What the machine is like is not
// known here, so only what must be found in any case is looked for.
func TestDoctor(t *testing.T) {
	t.Parallel()
	s := testserver.Start(t, testserver.Options{})
	dir := t.TempDir()
	must(t, os.Chmod(dir, 0o700))
	f := newStore(t, dir)
	f.populate()
	f.close()
	out, _, err := use("doctor", "--server", "redis://"+s.Addr, "--dir", dir, "--port", "0")
	if err != nil && !errors.Is(err, errUnwell) {
		t.Fatal(err)
	}
	for _, want := range []string{"ok       config ", "fsync takes p50 ", "ok       store    the store is at rest and its journal whole: ", "ok       server   Redoubt "} {
		if !strings.Contains(out, want) {
			t.Errorf("%q is missing in\n%s", want, out)
		}
	}
	if left, err := filepath.Glob(filepath.Join(dir, ".redoubt-doctor*")); err != nil || len(left) > 0 {
		t.Errorf("%v are left, %v", left, err)
	}
	out, _, err = use("doctor", "--dir", dir, "--port", "none")
	if !errors.Is(err, errUnwell) || !strings.Contains(out, "fault    config   Reading the command line\n                  >>> 'port \"none\"'\n") || !strings.Contains(out, "                  do:  correct that line") {
		t.Errorf("%v\n%s", err, out)
	}
	var exit exitError
	if _, _, err = use("doctor", "--server", "http://x"); !errors.As(err, &exit) || exit.code != 2 {
		t.Error(err)
	}
}

// A store that is damaged, or open, is told apart from one that is well.
func TestStoreAtRest(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	f := newStore(t, dir)
	f.populate()
	if _, locked, err := storeAtRest(dir); !locked {
		t.Errorf("the store is open: %v", err)
	}
	f.close()
	if about, locked, err := storeAtRest(dir); locked || err != nil {
		t.Errorf("%s, %v", about, err)
	}
	segments, err := filepath.Glob(filepath.Join(dir, "local", "journal", "*.jnl"))
	must(t, err)
	flip(t, segments[0], 900)
	if about, locked, err := storeAtRest(dir); locked || err == nil {
		t.Errorf("a damaged journal: %q", about)
	}
}

func TestGrades(t *testing.T) {
	t.Parallel()
	if wellGrade >= doctor.Warning || doctor.Unknown > wellGrade {
		t.Error("a warning must not end with 0, and what is unknown not with 1")
	}
}
