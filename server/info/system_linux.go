package info

import (
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// systemName returns the operating system as uname has it.
var systemName = sync.OnceValue(func() string {
	var u unix.Utsname
	if err := unix.Uname(&u); err != nil {
		return "Linux"
	}
	return strings.Join([]string{
		unix.ByteSliceToString(u.Sysname[:]), unix.ByteSliceToString(u.Release[:]), unix.ByteSliceToString(u.Machine[:]),
	}, " ")
})

// cpuTime returns the processor time of this process, in the kernel and in user mode.
func cpuTime() (sys, user time.Duration) {
	var ru unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &ru); err != nil {
		return 0, 0
	}
	return time.Duration(ru.Stime.Nano()), time.Duration(ru.Utime.Nano())
}

// systemMemory returns the machine's memory in bytes.
func systemMemory() int64 {
	var si unix.Sysinfo_t
	if err := unix.Sysinfo(&si); err != nil {
		return 0
	}
	return int64(si.Totalram) * int64(si.Unit)
}
