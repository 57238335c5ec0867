//go:build !linux

package testtikv

import (
	"os/exec"
	"syscall"
)

// Elsewhere a test that is killed leaves its cluster behind.

const (
	sigPause  = syscall.Signal(0x11) // as on BSD and macOS
	sigResume = syscall.Signal(0x13)
)

func dependent() *syscall.SysProcAttr { return nil }

func detached() *syscall.SysProcAttr { return nil }

// commandLine is that of a process, or nothing if there is none.
func commandLine(pid string) string {
	text, err := exec.Command("ps", "-o", "command=", "-p", pid).Output()
	if err != nil {
		return ""
	}
	return string(text)
}

// stands says whether a process that was told to pause does.
func stands(int) error { return nil }
