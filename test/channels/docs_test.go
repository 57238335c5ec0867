package channels

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"redoubt/gateway/rules"
	"redoubt/internal/testserver"
	"redoubt/internal/testtool"
)

// page is docs/channels.md.
func page(t *testing.T) string {
	t.Helper()
	b, err := os.ReadFile("../../docs/channels.md")
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

var fence = regexp.MustCompile("(?ms)^```([a-z]*)\n(.*?)^```$")

// examples are the blocks of the page in a language.
func examples(t *testing.T, language string) (blocks []string) {
	t.Helper()
	for _, m := range fence.FindAllStringSubmatch(page(t), -1) {
		if m[1] == language {
			blocks = append(blocks, m[2])
		}
	}
	if len(blocks) == 0 {
		t.Fatalf("docs/channels.md has no block in %s", language)
	}
	return blocks
}

// place is where a server is.
type place struct{ resp, http string }

func placeOf(p *testserver.Process) place { return place{p.Addr, p.HTTP} }

// here is an example with the addresses of a server.
func here(example string, at place) string {
	host, port, _ := strings.Cut(at.resp, ":")
	return strings.NewReplacer(
		"127.0.0.1:3099", at.http, "127.0.0.1:6379", at.resp,
		"-h 127.0.0.1 -p 6379", "-h "+host+" -p "+port, "port=6379", "port="+port,
	).Replace(example)
}

func TestEveryBlockOfThePageIsRun(t *testing.T) {
	t.Parallel()
	run := map[string]bool{"console": true, "go": true, "python": true, "javascript": true, "html": true, "yaml": true}
	for _, m := range fence.FindAllStringSubmatch(page(t), -1) {
		if !run[m[1]] {
			t.Errorf("no test runs a block in %q:\n%s", m[1], m[2])
		}
	}
}

func TestShell(t *testing.T) {
	t.Parallel()
	needs(t, true, "curl", "redis-cli")
	if wrong := shell(t, placeOf(start(t, t.TempDir()))); wrong != "" {
		t.Error(wrong)
	}
}

func TestGo(t *testing.T) {
	t.Parallel()
	if wrong := goExample(t, placeOf(start(t, t.TempDir()))); wrong != "" {
		t.Error(wrong)
	}
}

func TestPython(t *testing.T) {
	t.Parallel()
	needs(t, false, "python3")
	if wrong := python(t, placeOf(start(t, t.TempDir()))); wrong != "" {
		t.Error(wrong)
	}
}

func TestJavaScript(t *testing.T) {
	t.Parallel()
	needs(t, false, "node")
	p := start(t, t.TempDir())
	if wrong := javaScript(t, placeOf(p)); wrong != "" {
		t.Error(wrong)
	}
	c := dial(t, p)
	if v, err := c.Do("CHLIST", "chat"); err != nil || len(v.Elems) != 0 {
		t.Errorf("subscribers are left: %v %v", v, err)
	}
}

// A server that says something else than it should makes each of these tests fail.
func TestExamplesNoticeAWrongAnswer(t *testing.T) {
	t.Parallel()
	for _, e := range []struct {
		name      string
		common    bool
		needs     string
		run       func(t *testing.T, at place) string
		text, lie string
	}{
		{"shell over HTTP", true, "curl", shell, `"hello"`, `"jello"`},
		{"shell over RESP", true, "redis-cli", shell, `"from redis-cli"`, `"from redis-dli"`},
		{"Go", true, "go", goExample, `"tea"`, `"sea"`},
		{"Python", false, "python3", python, `"cat.png"`, `"rat.png"`},
		{"JavaScript", false, "node", javaScript, `"hello"`, `"jello"`},
	} {
		t.Run(e.name, func(t *testing.T) {
			t.Parallel()
			needs(t, e.common, e.needs)
			p := start(t, t.TempDir())
			at := place{testtool.Liar(t, p.Addr, e.text, e.lie), testtool.Liar(t, p.HTTP, e.text, e.lie)}
			if e.run(t, at) == "" {
				t.Errorf("%s in the place of %s is not noticed", e.lie, e.text)
			}
		})
	}
}

// shell runs the block of commands: they follow a dollar sign, what they print follows them,
// and "..." stands for anything. The result says what was wrong.
func shell(t *testing.T, at place) (wrong string) {
	t.Helper()
	dir := t.TempDir()
	const end = "-- end of a command --"
	for _, block := range examples(t, "console") {
		var script strings.Builder
		var want []string
		for line := range strings.Lines(here(block, at)) {
			if command, ok := strings.CutPrefix(line, "$ "); ok {
				want = append(want, command)
				script.WriteString(command + "echo '" + end + "'\n")
			} else {
				want[len(want)-1] += line
			}
		}
		got := strings.Split(output(t, dir, "bash", "-c", script.String()), end+"\n")
		for i, w := range want {
			command, text, _ := strings.Cut(w, "\n")
			pattern := strings.ReplaceAll(regexp.QuoteMeta(strings.TrimRight(text, "\n")), `\.\.\.`, ".+")
			if !regexp.MustCompile("^" + pattern + "$").MatchString(strings.TrimRight(got[i], "\n")) {
				wrong += fmt.Sprintf("$ %s\nprinted\n%s\nwant\n%s\n", command, got[i], text)
			}
		}
	}
	return wrong
}

func goExample(t *testing.T, at place) (wrong string) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "main.go")
	if err := os.WriteFile(file, []byte(here(examples(t, "go")[0], at)), 0o600); err != nil {
		t.Fatal(err)
	}
	return other(output(t, ".", "go", "run", file), "order-1 {\"item\":\"tea\"}\norder-2 \"end\"\n")
}

func python(t *testing.T, at place) (wrong string) {
	t.Helper()
	return other(output(t, t.TempDir(), interpreter(t), "-c", here(examples(t, "python")[0], at)), "1 job-1 {\"resize\": \"cat.png\"}\n")
}

func javaScript(t *testing.T, at place) (wrong string) {
	t.Helper()
	return other(output(t, t.TempDir(), "node", "--input-type=module", "-e", here(examples(t, "javascript")[0], at)), "hello\n")
}

// other says that something else was printed than it should.
func other(got, want string) (wrong string) {
	if got == want {
		return ""
	}
	return fmt.Sprintf("it printed %q, want %q", got, want)
}

// environment is the directory of a Python that has the library; made once, under mu.
var environment struct {
	mu  sync.Mutex
	dir string
}

// interpreter returns the Python of the environment.
func interpreter(t *testing.T) string {
	t.Helper()
	environment.mu.Lock()
	defer environment.mu.Unlock()
	if environment.dir == "" {
		dir, err := os.MkdirTemp("", "redoubt-python-")
		if err != nil {
			t.Fatal(err)
		}
		requirements, err := filepath.Abs("../clients/python/requirements.txt")
		if err != nil {
			t.Fatal(err)
		}
		output(t, dir, "python3", "-m", "venv", "env")
		testtool.Install(t, dir, "env/bin/python", "-m", "pip", "install", "-q", "--disable-pip-version-check", "-r", requirements)
		environment.dir = dir
	}
	return filepath.Join(environment.dir, "env/bin/python")
}

func TestChannelsFile(t *testing.T) {
	t.Parallel()
	for _, text := range examples(t, "yaml") {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, "secret"), []byte(strings.Repeat("secret", 8)), 0o600); err != nil {
			t.Fatal(err)
		}
		set, err := rules.Parse(filepath.Join(dir, "channels.yaml"), []byte(text), nil)
		if err != nil {
			t.Fatal(err)
		}
		if len(set.Warnings) > 0 {
			t.Errorf("warnings: %q", set.Warnings)
		}
		if !set.Guarded("chat-room-7") || set.Guarded("public-x") || set.Allowed("chat-room-x") {
			t.Error("the rules are not those that the page tells of")
		}
		hooks, err := set.Hooks("chat-room-7")
		if err != nil || len(hooks) != 1 || hooks[0].URL != "https://example.com/rooms/7" {
			t.Errorf("webhooks %+v %v", hooks, err)
		}
	}
}

// output runs a program in a directory and returns what it prints. It must succeed.
func output(t *testing.T, dir, name string, args ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = dir
	var errors strings.Builder
	cmd.Stderr = &errors
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s: %v\n%s%s", name, err, out, errors.String())
	}
	return string(out)
}
