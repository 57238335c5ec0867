package crash

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"redoubt/internal/respclient"
	"redoubt/internal/testserver"
)

// newestSegment is the newest segment with a record, and where its records end.
func newestSegment(t *testing.T, dir string) (name string, end int64) {
	t.Helper()
	list, err := filepath.Glob(filepath.Join(dir, "local", "journal", "*.jnl"))
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(list)
	for _, at := range list {
		b, err := os.ReadFile(at)
		if err != nil {
			t.Fatal(err)
		}
		if n := len(strings.TrimRight(string(b), "\x00")); n > 40+64 { // more than a header and a mark
			name, end = at, int64(n)
		}
	}
	if name == "" {
		t.Fatal("no segment has records")
	}
	return name, end
}

// A server whose journal has lost acknowledged writes does not start, and says
// what is missing and what to do; redoubt check says the same; after redoubt
// journal --salvage it starts with what is left.
func TestMissingJournal(t *testing.T) {
	t.Parallel()
	for name, harm := range map[string]func(t *testing.T, dir string) error{
		"newest segment removed": func(t *testing.T, dir string) error {
			at, _ := newestSegment(t, dir)
			return os.Remove(at)
		},
		"journal removed": func(t *testing.T, dir string) error { return os.RemoveAll(filepath.Join(dir, "local", "journal")) },
		"truncated": func(t *testing.T, dir string) error {
			at, end := newestSegment(t, dir)
			return os.Truncate(at, end/2)
		},
	} {
		for _, fsync := range []string{"always", "everysec"} {
			t.Run(name+", "+fsync, func(t *testing.T) {
				t.Parallel()
				dir := t.TempDir()
				p := testserver.StartProcess(t, program, dir, "--appendfsync", fsync, "--maxmemory", "64mb")
				conn, err := respclient.Dial(p.Addr)
				if err != nil {
					t.Fatal(err)
				}
				do := asker(t, conn)
				for i := range 100 {
					if _, err := do("SET", fmt.Sprint("key", i), strings.Repeat("v", 100)); err != nil {
						t.Fatal(err)
					}
				}
				if fsync == "everysec" { // this fsyncs what was not yet
					if _, err := do("CONFIG", "SET", "appendfsync", "always"); err != nil {
						t.Fatal(err)
					}
				}
				conn.Close()
				kill(t, p)
				if err := harm(t, dir); err != nil {
					t.Fatal(err)
				}
				second := testserver.Launch(t, program, dir, "--appendfsync", fsync, "--maxmemory", "64mb")
				if code, err := second.Wait(60 * time.Second); err != nil || code == 0 {
					t.Errorf("the server: exit code %d, %v", code, err)
				}
				for _, want := range []string{"journal is corrupt", "had been synced", "--salvage"} {
					if !strings.Contains(second.Log(), want) {
						t.Errorf("the server does not say %q: %s", want, second.Log())
					}
				}
				run := func(args ...string) (string, error) {
					out, err := exec.Command(program, append(args, "--dir", dir)...).CombinedOutput()
					return string(out), err
				}
				if out, err := run("check"); err == nil || !strings.Contains(out, "had been synced") {
					t.Errorf("redoubt check: %v\n%s", err, out)
				}
				if out, err := run("journal", "--salvage", "--yes"); err != nil || !strings.Contains(out, "Lost is what comes behind: records ") {
					t.Errorf("redoubt journal --salvage: %v\n%s", err, out)
				}
				if out, err := run("check"); err != nil {
					t.Errorf("redoubt check after the salvage: %v\n%s", err, out)
				}
				p = testserver.StartProcess(t, program, dir, "--appendfsync", fsync, "--maxmemory", "64mb")
				conn, err = respclient.Dial(p.Addr)
				if err != nil {
					t.Fatal(err)
				}
				defer conn.Close()
				if v, err := asker(t, conn)("SET", "on", "it goes"); err != nil || v.Str != "OK" {
					t.Errorf("%s %v", v, err)
				}
			})
		}
	}
}
