package testtikv

import (
	"os"
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
