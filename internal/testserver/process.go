package testserver

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// Build builds cmd/redoubt as `go run` does, hence with C where there is a compiler, which makes it
// larger than `make build`; and returns the path of the program. The caller removes the program's
// directory at the end.
func Build(flags ...string) (path string, err error) {
	dir, err := os.MkdirTemp("", "redoubt-test-")
	if err != nil {
		return "", fmt.Errorf("make a directory for the program: %w", err)
	}
	path = filepath.Join(dir, "redoubt")
	args := append([]string{"build", "-o", path}, flags...)
	cmd := exec.Command("go", append(args, "redoubt/cmd/redoubt")...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		return "", errors.Join(fmt.Errorf("build redoubt: %w: %s", err, out), os.RemoveAll(dir))
	}
	return path, nil
}

// Process is a Redoubt in a process of its own.
type Process struct {
	Addr string
	// HTTP is where channels are served over HTTP, if they are.
	HTTP string

	cmd     *exec.Cmd
	address chan [2]string // gets Addr and HTTP once they are known
	exited  chan struct{}
	err     error // how it ended, once exited is closed
	log     syncBuffer
}

// StartProcess starts the program on a free port with its data in dir and
// waits until it serves. At the end of the test the process is killed if it still runs, and
// its log is shown if the test failed.
func StartProcess(t testing.TB, program, dir string, args ...string) *Process {
	t.Helper()
	p := Launch(t, program, dir, args...)
	select {
	case <-p.exited:
		t.Fatalf("redoubt exited at once: %v\n%s", p.err, p.log.String())
	case <-time.After(60 * time.Second):
		t.Fatalf("redoubt does not say its address\n%s", p.log.String())
	case known := <-p.address:
		p.Addr, p.HTTP = known[0], known[1]
	}
	return p
}

// Launch starts the program and does not wait until it serves.
func Launch(t testing.TB, program, dir string, args ...string) *Process {
	t.Helper()
	p := &Process{address: make(chan [2]string, 1), exited: make(chan struct{})}
	p.cmd = exec.Command(program, append([]string{"--port", "0", "--bind", "127.0.0.1", "--dir", dir}, args...)...)
	p.cmd.Stderr = &p.log
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		t.Fatalf("start redoubt: %v", err)
	}
	if err := p.cmd.Start(); err != nil {
		t.Fatalf("start redoubt: %v", err)
	}
	go func() {
		p.follow(out)
		p.err = p.cmd.Wait()
		close(p.exited)
	}()
	t.Cleanup(func() {
		p.Kill()
		if t.Failed() {
			t.Logf("log of redoubt, process %d:\n%s", p.Pid(), p.log.String())
		}
	})
	return p
}

// Pid is the process's number.
func (p *Process) Pid() int { return p.cmd.Process.Pid }

// Kill ends the process as kill -9 does, and waits until it is gone.
func (p *Process) Kill() {
	_ = p.cmd.Process.Kill() // fails only if it has exited
	<-p.exited
}

// Terminate asks the process to end and returns its exit code.
func (p *Process) Terminate(patience time.Duration) (int, error) {
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		return 0, fmt.Errorf("send SIGTERM: %w", err)
	}
	return p.Wait(patience)
}

// Wait waits until the process ends and returns its exit code.
func (p *Process) Wait(patience time.Duration) (int, error) {
	select {
	case <-p.exited:
		return p.cmd.ProcessState.ExitCode(), nil
	case <-time.After(patience):
		return 0, fmt.Errorf("still running after %s", patience)
	}
}

// Log is what the process has written.
func (p *Process) Log() string { return p.log.String() }

// syncBuffer keeps what a process writes.
type syncBuffer struct {
	mu   sync.Mutex
	text strings.Builder
}

func (b *syncBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

func (b *syncBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}

// follow copies the standard output to the log and picks the address out of
// the banner.
func (p *Process) follow(out io.Reader) {
	lines := bufio.NewScanner(out)
	var known [2]string
	for lines.Scan() {
		fmt.Fprintln(&p.log, lines.Text())
		switch words := strings.Fields(lines.Text()); {
		case len(words) == 2 && words[0] == "listening":
			known[0] = words[1]
		case len(words) == 4 && words[0] == "channels":
			known[1] = words[1]
		case len(words) > 1 && words[0] == "data" && known[0] != "": // behind the addresses
			p.address <- known
			known[0] = ""
		}
	}
}
