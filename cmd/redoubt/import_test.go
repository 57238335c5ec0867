package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"redoubt/copier"
	"redoubt/exporter"
	"redoubt/internal/rdbtext"
	"redoubt/keyspace"
	"redoubt/rdb"
	"redoubt/types/channel"
)

// recordedFile is an RDB file that a Redis wrote.
const recordedFile = "../../rdb/testdata/file-7.4.1.rdb"

// keysOf is the data of an RDB file as text.
func keysOf(t testing.TB, path string) map[string]string {
	t.Helper()
	f, err := os.Open(path)
	must(t, err)
	defer f.Close()
	keys, err := rdbtext.Keys(f)
	must(t, err)
	return keys
}

// exported is the data of a store as text, by way of a file.
func exported(t testing.TB, store string, args ...string) map[string]string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "exported.rdb")
	if _, _, err := use(append([]string{"export", "--from", store, "--to", path}, args...)...); err != nil {
		t.Fatal(err)
	}
	return keysOf(t, path)
}

// From a file to a store, to a cluster, and back to a file. Not parallel: it changes openTiKV.
func TestImportAndExport(t *testing.T) {
	stores(t)
	for _, store := range []string{t.TempDir(), "tikv://pd0:2379/app:", "cql://c0:9042/ks/app"} {
		path := filepath.Join(t.TempDir(), "dump.rdb")
		out, log, err := use("import", recordedFile, "--to", store)
		if err != nil || !strings.HasPrefix(out, "imported 75 keys in ") || !strings.Contains(log, "imported: 100 %, 34.4 KiB of 34.4 KiB") {
			t.Fatalf("%v %s %s", err, out, log)
		}
		out, log, err = use("export", "--from", store, "--to", path)
		if err != nil || !strings.HasPrefix(out, "exported 75 keys, ") || !strings.Contains(out, "RDB version 12") || !strings.Contains(log, "exported: 100 %, 75 keys") {
			t.Fatalf("%v %s %s", err, out, log)
		}
		rdbtext.Same(t, keysOf(t, path), keysOf(t, recordedFile))
		if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%v %v", info.Mode(), err)
		}
		// It is not empty any more.
		_, _, err = use("import", "--to", store, recordedFile)
		if !errors.Is(err, copier.ErrNotEmpty) || !strings.Contains(err.Error(), "--replace") {
			t.Errorf("again: %v", err)
		}
		small := filepath.Join(t.TempDir(), "small.rdb")
		writeStrings(t, small, 3)
		if _, _, err := use("import", small, "--to", store, "--replace"); err != nil {
			t.Error(err)
		}
		rdbtext.Same(t, exported(t, store), keysOf(t, small))
		// The file is not replaced, unless that is said.
		if _, _, err := use("export", "--from", store, "--to", path); err == nil || !strings.Contains(err.Error(), "--overwrite") {
			t.Error(err)
		}
		if _, _, err := use("export", "--from", store, "--to", path, "--overwrite"); err != nil {
			t.Error(err)
		}
		rdbtext.Same(t, keysOf(t, path), keysOf(t, small))
		if !isRemote(store) {
			if out, _, err := use("check", "--dir", store); err != nil {
				t.Errorf("%v\n%s", err, out)
			}
		}
	}
}

// writeStrings writes an RDB file with so many strings.
func writeStrings(t testing.TB, path string, n int) {
	t.Helper()
	f, err := os.Create(path)
	must(t, err)
	w := rdb.NewWriter(f, rdb.VersionRedis70)
	value := bytes.Repeat([]byte("some text "), 10)
	for i := range n {
		w.Key(fmt.Append(nil, "key:", i), 0).String(fmt.Append(value, i))
		must(t, w.EndKey())
	}
	must(t, w.End())
	must(t, f.Close())
}

func TestWrongImports(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := func(name, content string) string {
		path := filepath.Join(dir, name)
		must(t, os.MkdirAll(filepath.Dir(path), 0o700))
		must(t, os.WriteFile(path, []byte(content), 0o600))
		return path
	}
	whole, err := os.ReadFile(recordedFile)
	must(t, err)
	damaged := bytes.Clone(whole)
	damaged[len(damaged)/2] ^= 1
	busy := t.TempDir()
	held := newStore(t, busy)
	defer held.close()
	for name, c := range map[string]struct {
		args []string
		want string
	}{
		"no file":            {[]string{"--to", "x"}, "which file?"},
		"no store":           {[]string{recordedFile}, "--to is needed"},
		"two files":          {[]string{recordedFile, recordedFile, "--to", "x"}, "what is "},
		"a file that is not": {[]string{filepath.Join(dir, "none"), "--to", "x"}, "no such file"},
		"no Redis file":      {[]string{file("text", "hello"), "--to", "S"}, "it begins neither as an RDB file (REDIS) nor as an append-only file"},
		"an empty file":      {[]string{file("empty", ""), "--to", "S"}, "it begins neither"},
		"damage":             {[]string{file("damaged", string(damaged)), "--to", "S"}, "at byte "},
		"a cut file":         {[]string{file("cut", string(whole[:1000])), "--to", "S"}, "at byte 1000, in key "},
		"two in one":         {[]string{file("two", string(whole)+string(whole)), "--to", "S"}, "behind its end there is more"},
		"a newer version":    {[]string{file("new", "REDIS0099\xff"), "--to", "S"}, "unknown version of the RDB format: it has version 99"},
		"no manifest":        {[]string{dir, "--to", "S"}, "has no manifest"},
		"a file that is gone": {[]string{filepath.Dir(file("gone/a.manifest", "file a.1.base.rdb seq 1 type b")), "--to", "S"},
			"the manifest names a file that cannot be read"},
		"an empty base": {[]string{filepath.Dir(file("void/a.base.rdb", "") + file("void/a.manifest", "file a.base.rdb seq 1 type b")[:0]), "--to", "S"}, "it is empty"},
		"a bad line":    {[]string{filepath.Dir(file("bad/a.manifest", "file a.1.base.rdb seq 1 type z")), "--to", "S"}, `unknown type "z"`},
		"a base that is damaged": {[]string{filepath.Dir(file("base/a.base.rdb", string(damaged)) +
			file("base/a.manifest", "file a.base.rdb seq 1 type b\nfile a.incr.aof seq 1 type i") + file("base/a.incr.aof", ""))[:len(dir)+5], "--to", "S"}, "a.base.rdb: at byte "},
		"a store in use": {[]string{recordedFile, "--to", busy}, "stop the server first"},
	} {
		t.Run(name, func(t *testing.T) {
			store := t.TempDir()
			args := []string{"import"}
			for _, a := range c.args {
				if a == "S" {
					a = store
				}
				args = append(args, a)
			}
			_, _, err := use(args...)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v, want %s", err, c.want)
			}
			if c.args[len(c.args)-1] != "S" {
				return
			}
			if exists(store, "local") { // it was opened: nothing is in it
				if !strings.Contains(err.Error(), "Nothing was imported: the store is as it was before") {
					t.Error(err)
				}
				if got := exported(t, store); len(got) > 0 {
					t.Errorf("%d keys are there", len(got))
				}
			}
		})
	}
}

// channelStore is a store with a channel and a string.
func channelStore(t *testing.T) string {
	dir := t.TempDir()
	f := newStore(t, dir)
	f.Now = time.Now().UnixMilli() // messages die
	f.set(0, "k", "v", 0)
	f.DoIn(0, func(tx *keyspace.Tx) {
		c, err := channel.Open(tx, []byte("news"), nil)
		must(t, err)
		c.Publish([]byte("id"), []byte("text"), 1e9, 1)
		c.Save()
	})
	f.close()
	return dir
}

func TestExportOfChannels(t *testing.T) {
	t.Parallel()
	dir := channelStore(t)
	path := filepath.Join(t.TempDir(), "dump.rdb")
	_, _, err := use("export", "--from", dir, "--to", path)
	if !errors.Is(err, exporter.ErrChannels) || !strings.Contains(err.Error(), `"news" of database 0`) || exists(path) {
		t.Error(err)
	}
	out, _, err := use("export", "--from", dir, "--to", path, "--channels", "leave")
	if err != nil || !strings.Contains(out, "exported 1 key, 1 channel left out") || len(keysOf(t, path)) != 1 {
		t.Errorf("%v %s", err, out)
	}
	if _, _, err := use("export", "--from", dir, "--to", path, "--channels", "keep", "--overwrite"); err != nil {
		t.Error(err)
	}
	to := t.TempDir()
	if _, _, err := use("import", path, "--to", to); err != nil {
		t.Error(err)
	}
	if got := exported(t, to, "--channels", "keep"); !strings.Contains(got["0 news"], "redoubtch") || len(got) != 2 {
		t.Errorf("%q", got)
	}
	if out, _, err := use("check", "--dir", to); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

func TestWrongExports(t *testing.T) {
	t.Parallel()
	dir, timed, busy := populated(t), t.TempDir(), t.TempDir()
	if _, _, err := use("import", recordedFile, "--to", timed); err != nil {
		t.Fatal(err)
	}
	held := newStore(t, busy)
	defer held.close()
	at := t.TempDir()
	path := filepath.Join(at, "dump.rdb")
	for name, c := range map[string]struct {
		args []string
		want string
	}{
		"no store":            {[]string{"--to", path}, "--from is needed"},
		"a store that is not": {[]string{"--from", at, "--to", path}, "there is no store"},
		"a store in use":      {[]string{"--from", busy, "--to", path}, "BGSAVE"},
		"no such version":     {[]string{"--from", dir, "--to", path, "--rdb-version", "9"}, "10, 11 or 12"},
		"too low a version":   {[]string{"--from", timed, "--to", path, "--rdb-version", "11"}, "has version 12 (fields of a hash that expire)"},
		"no such choice":      {[]string{"--from", dir, "--to", path, "--channels", "all"}, "refuse, leave or keep"},
		"no directory":        {[]string{"--from", dir, "--to", filepath.Join(at, "none", "x")}, "no such file or directory"},
	} {
		if _, _, err := use(append([]string{"export"}, c.args...)...); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %s", name, err, c.want)
		}
	}
	if list, err := os.ReadDir(at); err != nil || len(list) > 0 {
		t.Errorf("%v %v", list, err)
	}
}
