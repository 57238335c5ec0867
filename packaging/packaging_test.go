package packaging

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"redoubt/client"
	"redoubt/config"
	"redoubt/internal/testserver"
)

func read(t *testing.T, path string) []byte {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func glob(t *testing.T, pattern string, least int) []string {
	t.Helper()
	list, err := filepath.Glob(pattern)
	if err != nil || len(list) < least {
		t.Fatalf("%s: %v, %v", pattern, list, err)
	}
	return list
}

// documents reads the documents of a YAML file.
func documents(t *testing.T, path string) (list []map[string]any) {
	t.Helper()
	in := yaml.NewDecoder(bytes.NewReader(read(t, path)))
	for {
		var d map[string]any
		err := in.Decode(&d)
		if errors.Is(err, io.EOF) {
			return list
		}
		if err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		list = append(list, d)
	}
}

// lists visits the values of a key anywhere below v.
func lists(v any, key string, visit func(parent map[string]any, words []string)) {
	switch v := v.(type) {
	case map[string]any:
		for k, e := range v {
			if l, ok := e.([]any); ok && k == key {
				words := make([]string, 0, len(l))
				for _, w := range l {
					s, _ := w.(string)
					words = append(words, s)
				}
				visit(v, words)
			}
			lists(e, key, visit)
		}
	case []any:
		for _, e := range v {
			lists(e, key, visit)
		}
	}
}

// accepted gives the arguments of a server to the configuration, which must take them all.
func accepted(t *testing.T, where string, words []string) {
	t.Helper()
	for i, w := range words {
		words[i] = strings.NewReplacer("$(REDISCLI_AUTH)", "x", "${PASSWORD:?set PASSWORD}", "x").Replace(w)
	}
	cfg := config.New()
	if err := cfg.Args(words); err != nil {
		t.Errorf("%s: %v", where, err)
	}
	if cfg.Get("requirepass") == "" {
		t.Errorf("%s: a server that others reach has no password", where)
	}
}

// The arguments of all servers are directives that are there, with values that they take, and
// their probes are tools with flags that are there.
func TestArguments(t *testing.T) {
	t.Parallel()
	servers, probes := 0, 0
	tool := regexp.MustCompile(`^(/redoubt) (top --count 1|bench --clients 1 --count 1 PING)$`)
	for _, path := range append(glob(t, "kubernetes/*.yaml", 3), glob(t, "compose/*.yaml", 3)...) {
		for _, d := range documents(t, path) {
			lists(d, "args", func(_ map[string]any, words []string) { servers++; accepted(t, path, words) })
			lists(d, "command", func(parent map[string]any, words []string) {
				switch image, _ := parent["image"].(string); {
				case image == "redoubt":
					servers++
					accepted(t, path, words)
				case strings.HasPrefix(path, "kubernetes"):
					if probes++; !tool.MatchString(strings.Join(words, " ")) {
						t.Errorf("%s: the probe %q", path, words)
					}
				}
			})
			lists(d, "test", func(_ map[string]any, words []string) {
				if probes++; !tool.MatchString(strings.Join(words[1:], " ")) {
					t.Errorf("%s: the health check %q", path, words)
				}
			})
		}
	}
	if servers < 8 || probes < 12 {
		t.Errorf("only %d servers and %d probes were looked at", servers, probes)
	}
	cfg := config.New()
	if err := cfg.LoadFile("redoubt.conf"); err != nil {
		t.Error(err)
	}
	file := string(read(t, "Containerfile"))
	for _, want := range []string{"USER 65532", "VOLUME /data", `CMD ["--dir", "/data"]`, `CMD ["/redoubt", "top", "--count", "1"]`} {
		if !strings.Contains(file, want) {
			t.Errorf("the container file lacks %s", want)
		}
	}
	unit := string(read(t, "redoubt.service"))
	if !strings.Contains(unit, "ExecStart=/usr/bin/redoubt /etc/redoubt/redoubt.conf\n") || cfg.Str("dir") != "/var/lib/redoubt" || !strings.Contains(unit, "StateDirectory=redoubt\n") {
		t.Error("unit and configuration do not agree on paths")
	}
}

// Each manifest has what the API server wants of all, and selectors that match.
func TestManifests(t *testing.T) {
	t.Parallel()
	for _, path := range glob(t, "kubernetes/*.yaml", 3) {
		kinds := make(map[string]bool)
		for _, d := range documents(t, path) {
			kind, _ := d["kind"].(string)
			meta, _ := d["metadata"].(map[string]any)
			if d["apiVersion"] == nil || kind == "" || meta["name"] == nil || d["spec"] == nil {
				t.Errorf("%s: %v", path, d)
			}
			kinds[kind] = true
		}
		if !kinds["Service"] || !kinds["PodDisruptionBudget"] || !kinds["StatefulSet"] && !kinds["Deployment"] {
			t.Errorf("%s has %v", path, kinds)
		}
		if n := strings.Count(string(read(t, path)), "app: redoubt"); n < 5 {
			t.Errorf("%s: %d labels and selectors", path, n)
		}
	}
}

var (
	named   = regexp.MustCompile(`\b(redoubt_[a-z0-9_]+)`)
	detail  = regexp.MustCompile(`redoubt_engine_detail\{name="([a-z_]+)"`)
	defined = regexp.MustCompile(`(?:counter|gauge)\("([a-z_]+)"|NewDesc\("redoubt_([a-z_]+)"`)
)

// metrics are the names that /metrics can have, whatever the mode of the server: some are there
// with replicated nodes alone.
func metrics(t *testing.T) map[string]bool {
	t.Helper()
	names := make(map[string]bool)
	for _, path := range glob(t, "../server/metrics/*.go", 4) {
		for _, m := range defined.FindAllStringSubmatch(string(read(t, path)), -1) {
			names["redoubt_"+m[1]+m[2]] = true
		}
	}
	if len(names) < 60 {
		t.Fatalf("only %d metrics were found", len(names))
	}
	return names
}

// info is what a server with the embedded store tells about itself: INFO has the figures of the
// engine that redoubt_engine_detail has.
func info(t *testing.T) map[string]string {
	t.Helper()
	s := testserver.Start(t, testserver.Options{Engine: "local"})
	c, err := client.Dial(t.Context(), client.Server{Addr: s.Addr})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	v, err := c.Do("INFO", "all")
	if err != nil {
		t.Fatal(err)
	}
	return client.ParseInfo(v.Text)
}

// Every metric of the dashboard and of the alert rules exists.
func TestMetricsExist(t *testing.T) {
	t.Parallel()
	names := metrics(t)
	engine := info(t)
	for _, path := range []string{"monitoring/alerts.yaml", "monitoring/dashboard.json"} {
		text := strings.ReplaceAll(string(read(t, path)), `\"`, `"`)
		found := 0
		for _, m := range named.FindAllString(text, -1) {
			if found++; !names[strings.TrimSuffix(m, "_bucket")] {
				t.Errorf("%s: there is no metric %s", path, m)
			}
		}
		for _, m := range detail.FindAllStringSubmatch(text, -1) {
			if _, ok := engine["engine_"+m[1]]; !ok {
				t.Errorf("%s: the engine has no figure %s", path, m[1])
			}
		}
		if found < 15 {
			t.Errorf("%s: only %d metrics were looked at", path, found)
		}
	}
	var board struct {
		Panels []struct {
			Title   string
			Targets []struct{ Expr string }
		}
	}
	if err := json.Unmarshal(read(t, "monitoring/dashboard.json"), &board); err != nil || len(board.Panels) < 10 {
		t.Errorf("%d panels, %v", len(board.Panels), err)
	}
	seen := make(map[string]bool)
	for _, d := range documents(t, "monitoring/alerts.yaml") {
		for _, g := range d["groups"].([]any) {
			for _, r := range g.(map[string]any)["rules"].([]any) {
				rule := r.(map[string]any)
				name, _ := rule["alert"].(string)
				expr, _ := rule["expr"].(string)
				if name == "" || seen[name] || strings.Count(expr, "(") != strings.Count(expr, ")") || expr == "" || rule["annotations"] == nil || rule["labels"] == nil {
					t.Errorf("rule %v", rule)
				}
				seen[name] = true
			}
		}
	}
}

// The unit is one for systemd, where systemd is installed.
func TestUnit(t *testing.T) {
	t.Parallel()
	tool, err := exec.LookPath("systemd-analyze")
	if err != nil {
		t.Log("systemd-analyze is not here: the unit was not looked at")
		return
	}
	dir := t.TempDir()
	// Whether the program is installed is not what is asked.
	unit := strings.ReplaceAll(string(read(t, "redoubt.service")), "/usr/bin/redoubt", "/bin/true")
	path := filepath.Join(dir, "redoubt.service")
	if err := os.WriteFile(path, []byte(unit), 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command(tool, "verify", "--man=no", "--recursive-errors=no", path).CombinedOutput()
	if err != nil || bytes.Contains(out, []byte("redoubt.service")) {
		t.Errorf("%v\n%s", err, out)
	}
}

// A package can be built without root, where dpkg-deb is installed, and has what it needs.
func TestDebianPackage(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("dpkg-deb"); err != nil {
		t.Log("dpkg-deb is not here: no package was built")
		return
	}
	dir := t.TempDir()
	program := filepath.Join(dir, "redoubt")
	if err := os.WriteFile(program, []byte("#!/bin/sh\n"), 0o755); err != nil { //nolint:gosec // a program
		t.Fatal(err)
	}
	if out, err := exec.Command("sh", "deb.sh", program, "amd64", dir).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	deb := glob(t, filepath.Join(dir, "redoubt_*_amd64.deb"), 1)[0]
	out, err := exec.Command("dpkg-deb", "--contents", deb).CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, want := range []string{`-rwxr-xr-x root/root .* \./usr/bin/redoubt\n`, `-rw-r--r-- root/root .* \./etc/redoubt/redoubt\.conf\n`, `\./lib/systemd/system/redoubt\.service\n`, `\./usr/share/doc/redoubt/copyright\n`} {
		if !regexp.MustCompile(want).Match(out) {
			t.Errorf("%s is missing in\n%s", want, out)
		}
	}
	out, err = exec.Command("dpkg-deb", "--field", deb, "Version").CombinedOutput()
	if err != nil || len(bytes.TrimSpace(out)) == 0 {
		t.Errorf("the version: %v, %s", err, out)
	}
	for _, script := range []string{"deb.sh", "dist.sh"} {
		if out, err := exec.Command("sh", "-n", script).CombinedOutput(); err != nil {
			t.Errorf("%s: %v\n%s", script, err, out)
		}
	}
}
