//go:build !linux

package server

import (
	"runtime"
	"time"
)

// systemName is the operating system.
func systemName() string { return runtime.GOOS + " " + runtime.GOARCH }

// cpuTime is not known here.
func cpuTime() (sys, user time.Duration) { return 0, 0 }

// systemMemory is not known here.
func systemMemory() int64 { return 0 }
