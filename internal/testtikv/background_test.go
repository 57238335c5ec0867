package testtikv

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// When half of a cluster runs it is said how to stop it.
func TestHalfOfACluster(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "half")
	half := exec.Command("sh", "-c", "read line", dir)
	in, err := half.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := half.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		in.Close()
		_ = half.Wait() // it found no line
	}()
	// The command line of a new process may be empty for a moment.
	for end := time.Now().Add(5 * time.Second); len(alive(dir, []int{half.Process.Pid})) != 1; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Skip("command lines of processes cannot be read here")
		}
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := (background{Pids: []int{half.Process.Pid, 1}}).write(dir); err != nil {
		t.Fatal(err)
	}
	_, err = Up(Binaries{}, dir, new(bytes.Buffer))
	for _, want := range []string{"make tikv-down TIKV_DIR=" + dir, fmt.Sprint(half.Process.Pid)} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %q in it", err, want)
		}
	}
}

// Packages are counted, and all else is shown.
func TestBuildLog(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	b := newBuildLog(&out, "pd")
	fmt.Fprint(b, "internal/goarch\ngo: downloading example.com v1\nexample.com/a/b")
	fmt.Fprint(b, "\n# example.com/c\nc.go:1:2: no\nexample.com/d\n")
	b.end()
	want := "go: downloading example.com v1\n# example.com/c\nc.go:1:2: no\ndone with pd: 3 packages compiled, 0s\n"
	if out.String() != want {
		t.Errorf("%q", out.String())
	}
}
