// Package rss reads the resident memory of a process from the operating system, and has the
// bound that the server promises, so that all tests check the same one.
package rss

import (
	"fmt"
	"os"
	"strconv"
	"strings"
)

// Of returns the resident memory of a process in bytes, now and at its peak. It needs /proc.
func Of(pid int) (now, peak int64, err error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, 0, fmt.Errorf("read the memory of process %d: %w", pid, err)
	}
	for line := range strings.Lines(string(text)) {
		name, rest, _ := strings.Cut(line, ":")
		kb, _ := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(rest), " kB"), 10, 64)
		switch name {
		case "VmRSS":
			now = kb << 10
		case "VmHWM":
			peak = kb << 10
		}
	}
	if now == 0 || peak == 0 {
		return 0, 0, fmt.Errorf("read the memory of process %d: it has none, it is ending", pid)
	}
	return now, peak, nil
}

// Bound returns what a process with a maxmemory may take: the promise of README.md, which
// soak and hostile tests check. Below small there is an allowance for the program itself and
// Go's runtime, which a small budget does not cover.
func Bound(maxmemory int64) int64 {
	bound := maxmemory + maxmemory/4
	if maxmemory < small {
		bound += allowance
	}
	return bound
}

const (
	small     = 256 << 20
	allowance = 40 << 20
)
