package testtikv

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
)

const (
	sigPause  = syscall.SIGSTOP
	sigResume = syscall.SIGCONT
)

// dependent is for a program that ends with the process that starts it, however
// that ends.
func dependent() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

// detached is for a program that goes on by itself.
func detached() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setsid: true} }

// commandLine is that of a process, or nothing if there is none.
func commandLine(pid string) string {
	text, err := os.ReadFile("/proc/" + pid + "/cmdline")
	if err != nil {
		return ""
	}
	return string(text)
}

// stands says whether a process that was told to pause does: each thread stops when it
// next looks.
func stands(pid int) error {
	threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", pid))
	if err != nil {
		return err
	}
	for _, name := range threads {
		text, err := os.ReadFile(name)
		if err != nil {
			continue // it has ended
		}
		if i := bytes.LastIndexByte(text, ')'); !bytes.HasPrefix(text[i+1:], []byte(" T")) {
			return fmt.Errorf("a thread goes on: %s", text)
		}
	}
	return nil
}
