//go:build !linux

package info

import (
	"runtime"
	"time"
)

// systemName returns the operating system and the architecture.
func systemName() string { return runtime.GOOS + " " + runtime.GOARCH }

// cpuTime returns zeros: it is not known here.
func cpuTime() (sys, user time.Duration) { return 0, 0 }

// systemMemory returns 0: it is not known here.
func systemMemory() int64 { return 0 }
