//go:build unix

package server

import (
	"math"
	"syscall"
)

// descriptorLimit returns how many files and sockets the process may have open. The Go
// runtime has raised the soft limit to the hard one.
func descriptorLimit() int64 {
	var r syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &r); err != nil || r.Cur > math.MaxInt64 {
		return math.MaxInt64
	}
	return int64(r.Cur)
}
