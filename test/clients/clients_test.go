// Package clients runs small programs with the client libraries that people use:
// each does what applications do with its library, and checks the results.
// docs/clients.md tells which versions were run.
//
// The one with go-redis is run by every test. The others need toolchains and
// what package registries have, so they are run by `make clients` only, and by CI.
package clients

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"redoubt/internal/testserver"
	"redoubt/internal/testtool"
)

// program is a client program.
type program struct {
	name  string
	tools []string // that must be there
	build [][]string
	run   []string // the address follows, and that of HTTP if there are channels
	// cluster is run with the addresses of several front ends, if there is such a
	// program: see cluster_test.go.
	cluster []string
}

// build is where programs are built, beside the server's own.
var build = sync.OnceValue(func() string {
	path, err := filepath.Abs("../../bin/clients")
	if err != nil {
		return "bin/clients"
	}
	return path
})

func programs() []program {
	python := build() + "/python/bin/python"
	// Not "ci": it wants the packages of all systems in the lock file, optional ones too.
	npm := [][]string{{"npm", "--prefix", "node", "install", "--no-save", "--ignore-scripts", "--no-audit", "--no-fund"}}
	maven := [][]string{{"mvn", "-q", "-B", "-f", "java/pom.xml", "package"}}
	java := func(class string) []string {
		return []string{"java", "-cp", "java/target/classes" + string(os.PathListSeparator) + "java/target/dependency/*", class}
	}
	return []program{
		{"go-redis", []string{"go"}, nil, []string{"go", "run", "./go"}, nil}, // test/client has tests in cluster mode
		{"redis-py", []string{"python3"}, [][]string{
			{"python3", "-m", "venv", build() + "/python"},
			{python, "-m", "pip", "install", "-q", "--disable-pip-version-check", "-r", "python/requirements.txt"},
		}, []string{python, "python/main.py"}, []string{python, "python/cluster.py"}},
		{"ioredis", []string{"node", "npm"}, npm, []string{"node", "node/ioredis.js"}, []string{"node", "node/ioredis-cluster.js"}},
		{"node-redis", []string{"node", "npm"}, npm, []string{"node", "node/node-redis.js"}, []string{"node", "node/node-redis-cluster.js"}},
		{"BullMQ", []string{"node", "npm"}, npm, []string{"node", "node/bullmq.js"}, nil},
		{"Jedis", []string{"java", "mvn"}, maven, java("JedisClient"), java("JedisInCluster")},
		{"Lettuce", []string{"java", "mvn"}, maven, java("LettuceClient"), java("LettuceInCluster")},
		{"redis-rs", []string{"cargo"}, [][]string{
			{"cargo", "build", "-q", "--manifest-path", "rust/Cargo.toml", "--target-dir", build() + "/rust"},
		}, []string{build() + "/rust/debug/redoubt-clients"}, nil},
	}
}

func TestGoRedis(t *testing.T) {
	t.Parallel()
	s := testserver.Start(t, testserver.Options{Args: []string{"--http-addr", "127.0.0.1:0"}})
	start(t, programs()[0], s.Addr, s.HTTPAddr().String())
}

// With REDOUBT_CLIENTS=1 all programs are run, against a server of our own or the
// one that REDOUBT_CLIENTS_ADDR names; it has channels if REDOUBT_CLIENTS_HTTP says
// where they are served over HTTP.
func TestClients(t *testing.T) {
	skipUnlessAsked(t)
	addrs := []string{os.Getenv("REDOUBT_CLIENTS_ADDR")}
	if http := os.Getenv("REDOUBT_CLIENTS_HTTP"); http != "" {
		addrs = append(addrs, http)
	}
	if addrs[0] == "" {
		path, err := redoubt()
		if err != nil {
			t.Fatal(err)
		}
		s := testserver.StartProcess(t, path, t.TempDir(), "--http-addr", "127.0.0.1:0")
		addrs = []string{s.Addr, s.HTTP}
	}
	for _, p := range programs() {
		t.Run(p.name, func(t *testing.T) {
			p.prepare(t)
			start(t, p, addrs...)
		})
	}
}

// A program fails when a subscriber of a channel is told something else over HTTP than what
// was published.
func TestClientsNoticeAWrongAnswer(t *testing.T) {
	skipUnlessAsked(t)
	path, err := redoubt()
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range programs() {
		if p.name == "BullMQ" {
			continue // it knows no channels
		}
		t.Run(p.name, func(t *testing.T) {
			p.prepare(t)
			t.Parallel()
			s := testserver.StartProcess(t, path, t.TempDir(), "--http-addr", "127.0.0.1:0")
			liar := testtool.Liar(t, s.HTTP, `"messageID":"m1","content":{"n":1}`, `"messageID":"m9","content":{"n":9}`)
			if out, err := p.start(t, s.Addr, liar); err == nil || !strings.Contains(out, "FAILED") {
				t.Errorf("it did not notice: %v\n%s", err, out)
			}
		})
	}
}

func skipUnlessAsked(t *testing.T) {
	t.Helper()
	if os.Getenv("REDOUBT_CLIENTS") == "" {
		t.Skip("needs other toolchains: set REDOUBT_CLIENTS=1 (make clients)")
	}
}

// built are the commands that were run to build programs.
var built = make(map[string]bool)

// prepare builds a program, or skips the test.
func (p *program) prepare(t *testing.T) {
	t.Helper()
	for _, tool := range p.tools {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("NOT RUN: %s is not installed (make tools-clients)", tool)
		}
	}
	for _, args := range p.build {
		if line := strings.Join(args, " "); !built[line] {
			testtool.Install(t, ".", args...)
			built[line] = true
		}
	}
}

// start runs a program to its end.
func start(t *testing.T, p program, addrs ...string) {
	t.Helper()
	out, err := p.start(t, addrs...)
	if err != nil {
		t.Errorf("%s: %v\n%s", p.name, err, out)
		return
	}
	t.Logf("%s\n%s", p.name, out)
}

func (p *program) start(t *testing.T, addrs ...string) (out string, err error) {
	return testtool.Run(t, ".", 5*time.Minute, append(p.run[:len(p.run):len(p.run)], addrs...)...)
}
