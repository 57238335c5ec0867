package channels

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"

	"redoubt/internal/testserver"
)

var full = flag.Bool("full", false, "load of a thousand subscribers at a hundred channels")

// program builds the server, once; it is then at built.
var program = sync.OnceValues(func() (path string, err error) {
	built, err = testserver.Build()
	return built, err
})

var built string

func TestMain(m *testing.M) {
	code := m.Run()
	if built != "" {
		built = filepath.Dir(built)
	}
	for _, dir := range []string{built, environment.dir} {
		if err := os.RemoveAll(dir); err != nil { // of "" there is nothing to remove
			fmt.Fprintln(os.Stderr, err)
		}
	}
	os.Exit(code)
}

// start starts a server that serves channels over HTTP.
func start(t *testing.T, dir string, args ...string) *testserver.Process {
	t.Helper()
	path, err := program()
	if err != nil {
		t.Fatal(err)
	}
	return testserver.StartProcess(t, path, dir, append([]string{"--http-addr", "127.0.0.1:0", "--loglevel", "warning"}, args...)...)
}

// needs skips a test if a program is missing. Of those that everybody has it says so; the
// others are only looked for when they are asked for.
func needs(t *testing.T, common bool, programs ...string) {
	t.Helper()
	if !common && os.Getenv("REDOUBT_CLIENTS") == "" {
		t.Skipf("NOT RUN: needs %s: set REDOUBT_CLIENTS=1 (make test-channels)", programs)
	}
	for _, p := range programs {
		if _, err := exec.LookPath(p); err == nil {
			continue
		}
		if !common {
			t.Fatalf("%s is not installed: make tools-clients", p)
		}
		t.Skipf("NOT RUN: needs %s", p)
	}
}
