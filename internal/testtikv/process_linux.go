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

// dependent returns attributes of a program that is killed when its parent ends in any way.
func dependent() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

// detached returns attributes of a program that outlives its parent.
func detached() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setsid: true} }

// commandLine returns the command line of a process, "" if there is none.
func commandLine(pid string) string {
	text, err := os.ReadFile("/proc/" + pid + "/cmdline")
	if err != nil {
		return ""
	}
	return string(text)
}

// stands returns nil if all threads of a process have stopped: each stops at a time of its
// own after the signal.
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
