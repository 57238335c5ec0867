package main

import (
	"net"
	"path/filepath"
	"strings"
	"testing"
)

// The help fits a terminal of 80 columns and 32 rows, and leads to the rest.
func TestHelpFitsAScreen(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	must(t, run([]string{"--help"}, &out))
	lines := strings.Split(out.String(), "\n")
	if len(lines) > 32 {
		t.Errorf("%d lines", len(lines))
	}
	for _, l := range lines {
		if len(l) > 80 {
			t.Errorf("%d columns: %s", len(l), l)
		}
	}
	for topic, want := range map[string]string{"directives": "--http-addr ", "appendfsync": "everysec within a second", "bench": "redoubt bench [--server", "engine": `default "local"`} {
		var out strings.Builder
		must(t, run([]string{"--help", topic}, &out))
		if !strings.Contains(out.String(), want) {
			t.Errorf("%s: %s", topic, &out)
		}
	}
	if err := run([]string{"--help", "nonsense"}, &out); err == nil || !strings.Contains(err.Error(), "redoubt --help lists") {
		t.Error(err)
	}
}

// Errors at the start name the directive, and say what to do.
func TestErrorsAtTheStartNameTheDirective(t *testing.T) {
	t.Parallel()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	defer ln.Close()
	_, port, _ := net.SplitHostPort(ln.Addr().String())
	dir := t.TempDir()
	for _, c := range []struct {
		args []string
		want []string
	}{
		{[]string{"--prot", "1"}, []string{"'prot \"1\"'", "redoubt --help directives"}},
		{[]string{"--logfile", filepath.Join(dir, "none", "log")}, []string{"logfile: ", "no such file", "make its directory"}},
		{[]string{"--dir", "/dev/null/x"}, []string{"dir: ", "not a directory", "give another"}},
		{[]string{"--dir", dir, "--bind", "127.0.0.1", "--port", port, "--logfile", filepath.Join(dir, "log")}, []string{"bind, port: ", "address already in use", "stop what has it"}},
	} {
		err := withFix(run(c.args, new(strings.Builder)))
		for _, want := range c.want {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%q: %q is missing in %v", c.args, want, err)
			}
		}
	}
}
