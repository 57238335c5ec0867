package testtikv

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// background is the content of cluster.json, the file of a cluster that outlives its starter.
type background struct {
	addresses
	Pids []int `json:"pids"` // empty while it is down
}

// Up starts a cluster that outlives this process, with its data in dir, and returns the
// address of its PD. A cluster that runs already is left alone.
func Up(bin Binaries, dir string, progress io.Writer) (pd string, err error) {
	given := dir
	if dir, err = filepath.Abs(dir); err != nil {
		return "", err
	}
	b, err := read(dir)
	if errors.Is(err, fs.ErrNotExist) {
		b.addresses, err = freeAddresses()
	}
	if err != nil {
		return "", err
	}
	if running := alive(dir, b.Pids); len(running) == 2 {
		return b.PD, nil
	} else if len(running) > 0 {
		return "", fmt.Errorf("half of the cluster in %s runs, process %d, and the other half has ended: stop it by `make tikv-down TIKV_DIR=%s`, then start it again", dir, running[0], given)
	}
	fmt.Fprintf(progress, "starting PD on %s and the store on %s; their logs are in %s\n", b.addresses.PD, b.Store, dir)
	c := &cluster{addresses: b.addresses, dir: dir, bin: bin, attr: detached}
	if err := c.start(); err != nil {
		return "", errors.Join(err, c.kill())
	}
	b.Pids = []int{c.store.cmd.Process.Pid, c.pd.cmd.Process.Pid}
	if err := b.write(dir); err != nil {
		return "", errors.Join(err, c.kill())
	}
	return b.PD, nil
}

// Down stops the cluster that has its data in dir.
func Down(dir string) error {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return err
	}
	b, err := read(dir)
	if err != nil {
		return err
	}
	// The store first: it deregisters from PD.
	for _, pid := range b.Pids {
		if err := end(dir, pid); err != nil {
			return err
		}
	}
	b.Pids = nil
	return b.write(dir)
}

// end asks a process to end, and kills it if it does not.
func end(dir string, pid int) error {
	for _, s := range []os.Signal{syscall.SIGTERM, os.Kill} {
		if len(alive(dir, []int{pid})) == 0 {
			return nil
		}
		p, err := os.FindProcess(pid)
		if err == nil {
			err = p.Signal(s)
		}
		if err != nil && !errors.Is(err, os.ErrProcessDone) {
			return fmt.Errorf("stop process %d: %w", pid, err)
		}
		for limit := time.Now().Add(15 * time.Second); time.Now().Before(limit); time.Sleep(20 * time.Millisecond) {
			if len(alive(dir, []int{pid})) == 0 {
				return nil
			}
		}
	}
	return fmt.Errorf("process %d does not end", pid)
}

// alive returns the pids of the processes that still run. A pid may have been reused: the
// cluster's processes have the directory on their command lines.
func alive(dir string, pids []int) (running []int) {
	for _, pid := range pids {
		if strings.Contains(commandLine(strconv.Itoa(pid)), dir) {
			running = append(running, pid)
		}
	}
	return running
}

func file(dir string) string { return filepath.Join(dir, "cluster.json") }

func read(dir string) (b background, err error) {
	text, err := os.ReadFile(file(dir))
	if err != nil {
		return b, err
	}
	if err := json.Unmarshal(text, &b); err != nil {
		return b, fmt.Errorf("%s: %w", file(dir), err)
	}
	return b, nil
}

func (b background) write(dir string) error {
	text, err := json.MarshalIndent(b, "", "\t")
	if err != nil {
		return err
	}
	return os.WriteFile(file(dir), append(text, '\n'), 0o644)
}
