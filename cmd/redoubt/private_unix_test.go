//go:build unix

package main

import (
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"redoubt/internal/respclient"
	"redoubt/internal/testserver"
)

// beProgram in the environment makes the test binary the program itself.
const beProgram = "REDOUBT_TEST_BE_PROGRAM"

func TestMain(m *testing.M) {
	if os.Getenv(beProgram) != "" {
		main()
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// Whatever the server and the tools make is their user's alone, also if the umask
// would let everybody in.
func TestFilesArePrivate(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	open := filepath.Join(root, "open")
	script := fmt.Sprintf("#!/bin/sh\numask 000\n%s=1 exec %s \"$@\"\n", beProgram, os.Args[0])
	if err := os.WriteFile(open, []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	at := func(name string) string { return filepath.Join(root, "made", name) }
	if err := os.Mkdir(filepath.Join(root, "made"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(at("acl"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	p := testserver.StartProcess(t, open, at("data"), "--logfile", at("log"), "--aclfile", at("acl"), "--appendfsync", "always")
	c, err := respclient.Dial(p.Addr)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	for _, args := range [][]string{{"SET", "k", "v"}, {"SAVE"}, {"ACL", "SAVE"}, {"SET", "k", "w"}} {
		if v, err := c.Do(args...); err != nil || v.IsError() {
			t.Fatal(args, v, err)
		}
	}
	if code, err := p.Terminate(20 * time.Second); code != 0 || err != nil {
		t.Fatal(code, err)
	}
	for _, args := range [][]string{
		{"check", "--dir", at("data")},
		{"backup", "--dir", at("data"), "--to", at("copy")},
		{"backup", "--dir", at("data"), "--to", at("copy.tar")},
		{"restore", "--from", at("copy.tar"), "--dir", at("restored")},
	} {
		if out, err := exec.Command(open, args...).CombinedOutput(); err != nil {
			t.Fatalf("%v: %v\n%s", args, err, out)
		}
	}
	files := 0
	if err := filepath.WalkDir(filepath.Join(root, "made"), func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		files++
		if mode := info.Mode().Perm(); mode&0o077 != 0 {
			t.Errorf("%s has mode %o", path, mode)
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if files < 10 {
		t.Errorf("only %d files were looked at", files)
	}
}
