package channels

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"redoubt/gateway/rules"
	"redoubt/internal/testserver"
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

// here is an example with the addresses of a server.
func here(example string, p *testserver.Process) string {
	host, port, _ := strings.Cut(p.Addr, ":")
	return strings.NewReplacer(
		"127.0.0.1:3099", p.HTTP, "127.0.0.1:6379", p.Addr,
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

// Commands follow a dollar sign, what they print follows them; "..." stands for anything.
func TestShell(t *testing.T) {
	t.Parallel()
	needs(t, true, "curl", "redis-cli")
	p, dir := start(t, t.TempDir()), t.TempDir()
	const end = "-- end of a command --"
	for _, block := range examples(t, "console") {
		var script strings.Builder
		var want []string
		for line := range strings.Lines(here(block, p)) {
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
				t.Errorf("$ %s\nprinted\n%s\nwant\n%s", command, got[i], text)
			}
		}
	}
}

func TestGo(t *testing.T) {
	t.Parallel()
	p := start(t, t.TempDir())
	file := filepath.Join(t.TempDir(), "main.go")
	if err := os.WriteFile(file, []byte(here(examples(t, "go")[0], p)), 0o600); err != nil {
		t.Fatal(err)
	}
	want := "order-1 {\"item\":\"tea\"}\norder-2 \"end\"\n"
	if got := output(t, ".", "go", "run", file); got != want {
		t.Errorf("it printed %q, want %q", got, want)
	}
}

func TestPython(t *testing.T) {
	t.Parallel()
	needs(t, false, "python3")
	p, dir := start(t, t.TempDir()), t.TempDir()
	output(t, dir, "python3", "-m", "venv", "env")
	requirements, err := filepath.Abs("../clients/python/requirements.txt")
	if err != nil {
		t.Fatal(err)
	}
	output(t, dir, "env/bin/python", "-m", "pip", "install", "-q", "--disable-pip-version-check", "-r", requirements)
	want := "1 job-1 {\"resize\": \"cat.png\"}\n"
	if got := output(t, dir, "env/bin/python", "-c", here(examples(t, "python")[0], p)); got != want {
		t.Errorf("it printed %q, want %q", got, want)
	}
}

func TestJavaScript(t *testing.T) {
	t.Parallel()
	needs(t, false, "node")
	p := start(t, t.TempDir())
	got := output(t, t.TempDir(), "node", "--input-type=module", "-e", here(examples(t, "javascript")[0], p))
	if got != "hello\n" {
		t.Errorf("it printed %q", got)
	}
	c := dial(t, p)
	if v, err := c.Do("CHLIST", "chat"); err != nil || len(v.Elems) != 0 {
		t.Errorf("subscribers are left: %v %v", v, err)
	}
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
