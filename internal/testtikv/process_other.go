//go:build !linux

package testtikv

import (
	"os/exec"
	"syscall"
)

// Not on Linux, a test that is killed leaves its cluster behind.

const (
	sigPause  = syscall.Signal(0x11) // as on BSD and macOS
	sigResume = syscall.Signal(0x13)
)

func dependent() *syscall.SysProcAttr { return nil }

func detached() *syscall.SysProcAttr { return nil }

// commandLine returns the command line of a process, "" if there is none.
func commandLine(pid string) string {
	text, err := exec.Command("ps", "-o", "command=", "-p", pid).Output()
	if err != nil {
		return ""
	}
	return string(text)
}

// stands assumes that a process which was told to pause has stopped.
func stands(int) error { return nil }
