package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// stream makes lines of go test -json: action, test, output.
func stream(events ...[3]string) string {
	var b strings.Builder
	for _, e := range events {
		fmt.Fprintf(&b, `{"Action":%q,"Package":"p","Test":%q,"Output":%q}`+"\n", e[0], e[1], e[2])
	}
	return b.String()
}

func TestVerdict(t *testing.T) {
	t.Parallel()
	passed := stream([3]string{"run", "TestA", ""}, [3]string{"pass", "TestA", ""})
	for _, c := range []struct {
		name, events string
		out, wrong   string // parts of what is printed; with the second the run fails
	}{
		{"all pass", passed + stream([3]string{"pass", "", ""}), "1 passed, 0 failed, 0 skipped\n", ""},
		{"nothing runs", stream([3]string{"output", "", "?\n"}), "", "FAIL no test ran\n"},
		{"an allowed skip", passed + stream([3]string{"output", "TestB", "    b_test.go:3: needs a moon\n"}, [3]string{"skip", "TestB", ""}, [3]string{"pass", "", ""}), "1 skipped: needs a moon", ""},
		{"what never runs", passed + stream([3]string{"output", "TestB", "    b_test.go:3: needs a comet\n"}, [3]string{"skip", "TestB", ""}, [3]string{"pass", "", ""}), "1 skipped: needs a comet", ""},
		{"another skip", passed + stream([3]string{"output", "TestB", "    b_test.go:3: needs a sun\n"}, [3]string{"skip", "TestB", ""}, [3]string{"pass", "", ""}), "1 skipped: needs a sun", "skipped: p.TestB: needs a sun"},
		{"a silent skip", passed + stream([3]string{"skip", "TestB", ""}, [3]string{"pass", "", ""}), "no reason", "skipped: p.TestB: no reason"},
		{"nothing chosen", passed + stream([3]string{"output", "", "testing: warning: no tests to run\n"}, [3]string{"pass", "", ""}), "", "p: no test was chosen"},
		{"no test files", passed + stream([3]string{"pass", "", ""}, [3]string{"output", "", "? p [no test files]\n"}, [3]string{"skip", "", ""}), "1 passed, 0 failed, 0 skipped\n", ""},
		{"a package that ends early", stream([3]string{"output", "", "exit status 2\n"}, [3]string{"fail", "", ""}), "exit status 2\nFAIL p", "0 passed, 1 failed, 0 skipped\n"},
		{"a failure", stream([3]string{"output", "TestA", "noise\n"}, [3]string{"pass", "TestA", ""}, [3]string{"output", "TestB", "b_test.go:9: wrong\n"}, [3]string{"fail", "TestB", ""},
			[3]string{"output", "TestC", "=== RUN noise\n"}, [3]string{"output", "TestC", "panic: x\n"}, [3]string{"fail", "", ""}), "b_test.go:9: wrong\npanic: x\nFAIL p", "1 passed, 1 failed, 0 skipped\n"},
		{"what is no event", "go: no such package\n" + passed + stream([3]string{"pass", "", ""}), "go: no such package", ""},
	} {
		var out strings.Builder
		r := newReport(&out, regexp.MustCompile(`^p\.TestB: needs a moon$`), regexp.MustCompile(`needs a comet`))
		if err := r.read(strings.NewReader(c.events)); err != nil {
			t.Fatal(err)
		}
		err := r.verdict()
		if !strings.Contains(out.String(), c.out) || strings.Contains(out.String(), "noise") {
			t.Errorf("%s: printed\n%s", c.name, out.String())
		}
		if (err != nil) != (c.wrong != "") || !strings.Contains(out.String(), c.wrong) {
			t.Errorf("%s: %v, want %q in\n%s", c.name, err, c.wrong, out.String())
		}
		if lines := strings.Split(strings.TrimSpace(out.String()), "\n"); !regexp.MustCompile(`^\d+ passed, \d+ failed, \d+ skipped$`).MatchString(lines[len(lines)-1]) {
			t.Errorf("%s: the last line is %q", c.name, lines[len(lines)-1])
		}
	}
}

func TestLedger(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "ledger")
	skip := [][3]string{{"output", "TestB", "    b_test.go:3: needs a moon\n"}, {"skip", "TestB", ""}, {"output", "TestC", "    c_test.go:3: needs a comet\n"}, {"skip", "TestC", ""}}
	enter := func(events ...[3]string) {
		t.Helper()
		r := newReport(io.Discard, regexp.MustCompile(`moon`), regexp.MustCompile(`comet`))
		if err := r.read(strings.NewReader(stream(events...))); err != nil {
			t.Fatal(err)
		}
		if err := r.enter(path); err != nil {
			t.Fatal(err)
		}
	}
	var out strings.Builder
	if err := settled(path, &out); err == nil {
		t.Error("a ledger that is not there is settled")
	}
	enter(skip...)
	if err := settled(path, &out); err == nil {
		t.Error("a ledger without a test that passed is settled")
	}
	enter([3]string{"pass", "TestA", ""})
	if err := settled(path, &out); !errors.Is(err, errWrong) || !strings.Contains(out.String(), "FAIL p.TestB was skipped") || strings.Contains(out.String(), "TestC") {
		t.Errorf("%v\n%s", err, out.String())
	}
	enter([3]string{"output", "TestB", "    b_test.go:3: needs a comet\n"}, [3]string{"skip", "TestB", ""})
	if err := settled(path, &out); err != nil || !strings.Contains(out.String(), "not run: p.TestB") {
		t.Errorf("%v\n%s", err, out.String())
	}
	out.Reset()
	enter([3]string{"pass", "TestB", ""})
	if err := settled(path, &out); err != nil || out.String() != "1 tests that were skipped in one run passed in another, 0 cannot run here, 0 passed in none\n" {
		t.Errorf("%v\n%s", err, out.String())
	}
}

// With a directory, the module there is tested.
func TestDir(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for name, text := range map[string]string{
		"go.mod":    "module beside\n\ngo 1.24\n",
		"b_test.go": "package beside\n\nimport \"testing\"\n\nfunc TestB(*testing.T) {}\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	ledger, out := filepath.Join(dir, "ledger"), new(strings.Builder)
	if err := run(options{here: "^$", never: "^$", dir: dir, ledger: ledger}, []string{"./..."}, out); err != nil {
		t.Fatalf("%v:\n%s", err, out)
	}
	if text, err := os.ReadFile(ledger); err != nil || string(text) != "pass beside.TestB\n" {
		t.Errorf("the ledger has %q, %v", text, err)
	}
}
