package config

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write the golden files of CONFIG REWRITE")

// Each testdata/rewrite/*.conf is loaded, changed by the CONFIG SET lines in its
// "#! " comments, rewritten and compared with the golden file beside it.
func TestRewriteGolden(t *testing.T) {
	files, err := filepath.Glob("testdata/rewrite/*.conf")
	if err != nil || len(files) == 0 {
		t.Fatal("no files", err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			old, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			path := filepath.Join(t.TempDir(), "x.conf")
			if err := os.WriteFile(path, old, 0o600); err != nil {
				t.Fatal(err)
			}
			c := NewWithMemory(0)
			if err := c.LoadFile(path); err != nil {
				t.Fatal(err)
			}
			for line := range strings.Lines(string(old)) {
				if set, ok := strings.CutPrefix(strings.TrimSpace(line), "#! "); ok {
					words, _ := splitLine(set)
					if err := c.SetAll(pairs(words)); err != nil {
						t.Fatal(err)
					}
				}
			}
			golden := strings.TrimSuffix(file, ".conf") + ".golden"
			got := rewriteOnce(t, c, path)
			if *update {
				if err := os.WriteFile(golden, got, 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(got, want) {
				t.Errorf("got\n%s\nwant\n%s", got, want)
			}
			if again := rewriteOnce(t, c, path); !bytes.Equal(again, got) {
				t.Errorf("a second rewrite changed the file to\n%s", again)
			}
			loaded := NewWithMemory(0)
			if err := loaded.LoadFile(path); err != nil {
				t.Fatal(err)
			}
			for _, d := range c.Directives() {
				if a, b := c.Get(d.Name), loaded.Get(d.Name); a != b {
					t.Errorf("%s was %q and is %q when the new file is loaded", d.Name, a, b)
				}
			}
			if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
				t.Errorf("the file's mode changed: %v %v", info.Mode(), err)
			}
		})
	}
}

// rewriteOnce rewrites and returns the content, with the directory, which is
// this machine's, taken out.
func rewriteOnce(t *testing.T, c *Config, path string) []byte {
	t.Helper()
	if err := c.Rewrite(path); err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return bytes.ReplaceAll(b, []byte(absolute(".")), []byte("WORKDIR"))
}

func TestRewriteUsers(t *testing.T) {
	c := NewWithMemory(0)
	c.UserLines = func() []string { return []string{"default on nopass", "bob off"} }
	got := string(c.rewritten([]byte("user alice on\n# end\n"), false))
	if !strings.HasPrefix(got, "user default on nopass\n# end\n\n"+marker+"\n") || !strings.HasSuffix(got, "\nuser bob off\n") {
		t.Errorf("got\n%s", got)
	}
}

func TestRewriteKeepsLinks(t *testing.T) {
	dir := t.TempDir()
	real, link := filepath.Join(dir, "real.conf"), filepath.Join(dir, "link.conf")
	if err := os.WriteFile(real, []byte("port 1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(real, link); err != nil {
		t.Skip("no symbolic links here:", err)
	}
	c := NewWithMemory(0)
	if err := c.LoadFile(link); err != nil {
		t.Fatal(err)
	}
	if err := c.Set("timeout", "3"); err != nil {
		t.Fatal(err)
	}
	if err := c.Rewrite(link); err != nil {
		t.Fatal(err)
	}
	if b, _ := os.ReadFile(real); !strings.Contains(string(b), "timeout 3\n") {
		t.Errorf("the file behind the link is\n%s", b)
	}
	if left, _ := filepath.Glob(filepath.Join(dir, "*")); len(left) != 2 {
		t.Errorf("files are left: %v", left)
	}
}

func TestRewriteFailureLeavesTheFile(t *testing.T) {
	c := NewWithMemory(0)
	if err := c.Rewrite(filepath.Join(t.TempDir(), "no", "such", "x.conf")); err == nil {
		t.Error("a directory that does not exist was written to")
	}
	dir := filepath.Join(t.TempDir(), "x.conf")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := c.Rewrite(dir); err == nil {
		t.Error("a directory was replaced by a file")
	}
}

// What is in force now is in force after a restart, also where an included file
// says otherwise. Included files, renamed commands and users stay as they are.
func TestRewriteWithIncludes(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	inner, path := filepath.Join(dir, "inner.conf"), filepath.Join(dir, "x.conf")
	const included = "timeout 7\nsave 10 10\nrequirepass secret\nhz 20\nslowlog-max-len 5\nmaxmemory 1gb\n"
	original := "# head\ntimeout 5\nsave 60 1\nrename-command KEYS \"\"\nuser bob on  >x ~*\n\tinclude " + inner +
		"\n\nrename-command   GET fetch\n# tail\n"
	for file, text := range map[string]string{inner: included, path: original} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	c := NewWithMemory(0)
	if err := c.LoadFile(path); err != nil {
		t.Fatal(err)
	}
	set := [][2]string{{"timeout", "0"}, {"save", "3600 1"}, {"requirepass", ""}, {"hz", "10"}, {"slowlog-max-len", "6"}}
	if err := c.SetAll(set); err != nil {
		t.Fatal(err)
	}
	first := rewriteOnce(t, c, path)
	if again := rewriteOnce(t, c, path); !bytes.Equal(again, first) {
		t.Errorf("a second rewrite made\n%sof\n%s", again, first)
	}
	for _, line := range []string{
		"# head", `rename-command KEYS ""`, "user bob on  >x ~*", "\tinclude " + inner, "rename-command   GET fetch", "# tail",
	} {
		if !strings.Contains("\n"+string(first), "\n"+line+"\n") {
			t.Errorf("%q is not in\n%s", line, first)
		}
	}
	loaded := NewWithMemory(0)
	if err := loaded.LoadFile(path); err != nil {
		t.Fatal(err)
	}
	for _, d := range c.Directives() {
		if a, b := c.Get(d.Name), loaded.Get(d.Name); a != b {
			t.Errorf("%s was %q and is %q after\n%s", d.Name, a, b, first)
		}
	}
	if b, err := os.ReadFile(inner); err != nil || string(b) != included {
		t.Errorf("the included file is %q, %v", b, err)
	}
}
