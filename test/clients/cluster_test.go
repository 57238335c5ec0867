package clients

import (
	"bufio"
	"context"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"redoubt/internal/testserver"
	"redoubt/internal/testtikv"
)

func TestMain(m *testing.M) {
	code := testtikv.Run(m)
	if server != "" {
		os.RemoveAll(filepath.Dir(server))
	}
	os.Exit(code)
}

// redoubt builds the server, once; it is then at server.
var redoubt = sync.OnceValues(func() (path string, err error) {
	server, err = testserver.Build()
	return server, err
})

var server string

// The libraries in cluster mode, with three front ends of one store. In the middle a
// program says that it is at work; then one of the three is killed, the program is told
// so, and has to go on. With REDOUBT_TIKV=1 they are processes on a TiKV cluster, too,
// and it is kill -9.
func TestClientsInClusters(t *testing.T) {
	skipUnlessAsked(t)
	stores := map[string]func(*testing.T) *testserver.Fronts{
		"memory": func(t *testing.T) *testserver.Fronts {
			return testserver.MemFronts(t, 3, testserver.Options{Args: []string{"--cluster-enabled", "yes"}})
		},
		"tikv": func(t *testing.T) *testserver.Fronts {
			pd := testtikv.Shared(t)
			path, err := redoubt()
			if err != nil {
				t.Fatal(err)
			}
			return testserver.TiKVFronts(t, 3, path, pd, testtikv.Prefix(t), "--cluster-enabled", "yes")
		},
	}
	for _, p := range programs() {
		if p.cluster == nil {
			continue
		}
		for name, fronts := range stores {
			t.Run(p.name+"/"+name, func(t *testing.T) {
				p.prepare(t)
				inCluster(t, p, fronts(t))
			})
		}
	}
}

// inCluster runs a program and kills a front end when it says so.
func inCluster(t *testing.T, p program, fronts *testserver.Fronts) {
	args := p.cluster[:len(p.cluster):len(p.cluster)]
	for i := range fronts.Len() {
		c := fronts.Dial(i)
		for end := time.Now().Add(30 * time.Second); ; time.Sleep(5 * time.Millisecond) {
			if v, err := c.Do("CLUSTER", "SLOTS"); err == nil && len(v.Elems) == fronts.Len() {
				break
			}
			if time.Now().After(end) {
				t.Fatalf("front end %d does not know the others", i)
			}
		}
		args = append(args, fronts.Addr(i))
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stderr = cmd.Stdout
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var said []string
	killed := false
	for lines := bufio.NewScanner(out); lines.Scan(); {
		said = append(said, lines.Text())
		if lines.Text() == "at work" && !killed {
			killed = true
			for i := range fronts.Len() {
				stats, err := fronts.Dial(i).Do("INFO", "commandstats")
				if err != nil || !strings.Contains(stats.Str, "cmdstat_set:calls=") {
					t.Errorf("front end %d was not used (%v)", i, err)
				}
			}
			fronts.Kill(1)
			if _, err := io.WriteString(in, "killed\n"); err != nil {
				t.Error(err)
			}
		}
	}
	if err := cmd.Wait(); err != nil || !killed {
		t.Errorf("%s: %v\n%s", p.name, err, strings.Join(said, "\n"))
		return
	}
	t.Logf("%s\n%s", p.name, strings.Join(said, "\n"))
}
