package config

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestLoadFile(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	inner := write("inner.conf", "timeout 99\nsave 60 5\n")
	if err := os.Mkdir(filepath.Join(dir, "conf.d"), 0o700); err != nil {
		t.Fatal(err)
	}
	main := write("main.conf", strings.Join([]string{
		"# a comment", "", "  PORT 7001  \r", "requirepass \"a \\x41 b\"", "databases 4",
		"save 900 1", "save 300 10 60 100", "include " + inner, "include " + dir + "/conf.d/*.conf",
		"bind 127.0.0.1 ::1", "rename-command CONFIG \"\"", "rename-command flushall secret",
		"user alice on >pw ~* +@all", "list-max-ziplist-entries 4", "hash-max-ziplist-entries 17",
		"client-output-buffer-limit normal 1 2 3", "client-output-buffer-limit pubsub 4 5 6", "logfile ''",
		"latency-tracking-info-percentiles \"50 99.5\"",
	}, "\n"))
	c := NewWithMemory(0)
	if err := c.LoadFile(main); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		"port": "7001", "requirepass": "a A b", "databases": "4", "save": "900 1 300 10 60 100 60 5", "timeout": "99",
		"bind": "127.0.0.1 ::1", "hash-max-listpack-entries": "17", "logfile": "",
		"client-output-buffer-limit":        "normal 1 2 3 slave 268435456 67108864 60 pubsub 4 5 6",
		"latency-tracking-info-percentiles": "50 99.5",
	} {
		if got := c.Get(name); got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
	if c.File() != main {
		t.Errorf("the file is %s", c.File())
	}
	if want := [][2]string{{"CONFIG", ""}, {"flushall", "secret"}}; !slices.Equal(c.Renames(), want) {
		t.Errorf("renames are %v", c.Renames())
	}
	if len(c.Users()) != 1 || strings.Join(c.Users()[0], " ") != "alice on >pw ~* +@all" {
		t.Errorf("users are %v", c.Users())
	}
}

func TestLoadErrors(t *testing.T) {
	loop := filepath.Join(t.TempDir(), "loop.conf")
	if err := os.WriteFile(loop, []byte("include "+loop), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct{ text, want string }{
		{"port abc", "argument couldn't be parsed into an integer"},
		{"nosuch 1", "Bad directive or wrong number of arguments"},
		{"port", "wrong number of arguments"},
		{"port 1 2", "wrong number of arguments"},
		{"requirepass \"x", "Unbalanced quotes in configuration line"},
		{"rename-command x", "Bad directive or wrong number of arguments"},
		{"save 1", "Invalid save parameters"},
		{"oom-score-adj-values 1 2", "wrong number of arguments"},
		{"maxmemory 1x", "argument must be a memory value"},
		{"unixsocketperm 778", "argument couldn't be parsed as an octal number"},
		{"unixsocketperm 1000", "argument must be between 0 and 777 inclusive"},
		{"loadmodule /x.so", "Redoubt loads no modules"},
		{"appendfilename a/b", "appendfilename can't be a path, just a filename"},
		{"replicaof 1.2.3.4 99999", "Invalid master port"},
		{"engine disk", "argument(s) must be one of the following: local, memory, tikv, cql"},
		{"include " + loop, "include directives are nested too deeply"},
	} {
		err := NewWithMemory(0).Load("x.conf", strings.NewReader("# one\n\n"+test.text+"\n"))
		var e *FileError
		if !errors.As(err, &e) || e.Err.Error() != test.want {
			t.Errorf("%s: %v, want %s", test.text, err, test.want)
			continue
		}
		if e.Name == "x.conf" && (e.Line != 3 || e.Text != test.text) {
			t.Errorf("%s is reported at line %d as %s", test.text, e.Line, e.Text)
		}
	}
}

func TestArgs(t *testing.T) {
	file := filepath.Join(t.TempDir(), "a.conf")
	if err := os.WriteFile(file, []byte("port 1\ntimeout 1\nhz 11\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		name  string
		args  []string
		stdin string
		want  map[string]string
		err   string
	}{
		{"none", nil, "", map[string]string{"port": "6379"}, ""},
		{"options", []string{"--port", "7000", "--save", "", "--appendfsync", "always"}, "",
			map[string]string{"port": "7000", "save": "", "appendfsync": "always"}, ""},
		{"equals", []string{"--port=7000", "--requirepass=a=b", "--save=", "--bind=::1 127.0.0.1"}, "",
			map[string]string{"port": "7000", "requirepass": "a=b", "save": "", "bind": "::1 127.0.0.1"}, ""},
		{"file first, options win", []string{file, "--port", "2"}, "", map[string]string{"port": "2", "timeout": "1"}, ""},
		{"standard input between them", []string{file, "--port", "2", "-"}, "port 3\ntimeout 3",
			map[string]string{"port": "2", "timeout": "3", "hz": "11"}, ""},
		{"standard input first", []string{"-", "--hz", "12"}, "port 3", map[string]string{"port": "3", "hz": "12"}, ""},
		{"name and value in one", []string{"--port 7000", "--save 1 2 3 4"}, "",
			map[string]string{"port": "7000", "save": "1 2 3 4"}, ""},
		{"many values", []string{"--save", "1", "2", "--bind", "127.0.0.1", "::1"}, "",
			map[string]string{"save": "1 2", "bind": "127.0.0.1 ::1"}, ""},
		{"values in one word", []string{"--save", "1 2", "--save", "3 4"}, "", map[string]string{"save": "1 2 3 4"}, ""},
		{"save without a value", []string{"--save", "--port", "5"}, "", map[string]string{"save": "", "port": "5"}, ""},
		{"save without a value at the end", []string{"--save"}, "", map[string]string{"save": ""}, ""},
		{"a value that looks like an option", []string{"--requirepass", "--x", "--port", "5"}, "",
			map[string]string{"requirepass": "--x", "port": "5"}, ""},
		{"empty string", []string{"--logfile", ""}, "", map[string]string{"logfile": ""}, ""},
		{"unknown", []string{"--nosuch", "1"}, "", nil, "Bad directive or wrong number of arguments"},
		{"no value", []string{"--port"}, "", nil, "wrong number of arguments"},
		{"bad value", []string{"--port", "x"}, "", nil, "argument couldn't be parsed into an integer"},
		{"short option", []string{"-x"}, "", nil, "Bad directive or wrong number of arguments"},
		{"no dashes", []string{file, "hz", "14", "--maxmemory '7mb'"}, "", map[string]string{"hz": "14", "maxmemory": "7340032"}, ""},
		{"empty list", []string{"--shutdown-on-sigint"}, "", nil,
			"argument(s) must be one of the following: default, save, nosave, now, force"},
		{"one value that looks like an option", []string{"--replicaof", "--127.0.0.1", "--abc"}, "", nil, "wrong number of arguments"},
		{"list in one word", []string{"--shutdown-on-sigint", "nosave", "force", "now", "--shutdown-on-sigterm", "nosave force"}, "",
			map[string]string{"shutdown-on-sigint": "nosave now force", "shutdown-on-sigterm": "nosave force"}, ""},
	} {
		c := NewWithMemory(0)
		err := c.args(test.args, strings.NewReader(test.stdin))
		var e *FileError
		switch {
		case test.err == "" && err != nil, test.err != "" && (!errors.As(err, &e) || e.Err.Error() != test.err):
			t.Errorf("%s: error %v, want %q", test.name, err, test.err)
		}
		for k, want := range test.want {
			if got := c.Get(k); got != want {
				t.Errorf("%s: %s is %q, want %q", test.name, k, got, want)
			}
		}
	}
	err := NewWithMemory(0).Args([]string{"--port", "--loglevel", "verbose"})
	if err == nil || !strings.Contains(err.Error(), `'port "--loglevel" "verbose"'`) {
		t.Errorf("the line is not shown as it was understood: %v", err)
	}
	if err := NewWithMemory(0).Args([]string{file + ".none"}); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a missing file gives %v", err)
	}
}

// Whatever the file says, loading it must end with a value or an error, and
// what was accepted must survive being written and read again.
func FuzzLoad(f *testing.F) {
	f.Add("port 1\nsave 1 2\nrequirepass \"\\x00\"\n")
	f.Add("bind a b\nclient-output-buffer-limit normal 1 2 3\nlogfile ''\nuser a\n")
	f.Add("notify-keyspace-events KEA\nlatency-tracking-info-percentiles \"\"\nmaxmemory-clients 5%\n")
	f.Add("proc-title-template \"{title} x\"\nshutdown-on-sigint save now\nreplicaof no one\nunixsocketperm 0700")
	f.Fuzz(func(t *testing.T, text string) {
		if strings.Contains(strings.ToLower(text), "include") {
			t.Skip("would read files")
		}
		c := NewWithMemory(0)
		if c.Load("fuzz", strings.NewReader(text)) != nil {
			return
		}
		for _, all := range []bool{false, true} {
			again := NewWithMemory(0)
			out := c.rewritten(nil, all)
			if err := again.Load("rewritten", strings.NewReader(string(out))); err != nil {
				t.Fatalf("what was written cannot be read: %v\n%s", err, out)
			}
			for _, d := range c.Directives() {
				if a, b := c.Get(d.Name), again.Get(d.Name); a != b {
					t.Errorf("%s was %q and is %q after rewriting\n%s", d.Name, a, b, out)
				}
			}
		}
	})
}
