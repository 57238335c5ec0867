package replica

import (
	"time"

	"golang.org/x/sys/unix"
)

// Clock returns the time since the machine was booted. It goes on while the process or the
// machine is stopped, and is never set: leases need both.
func Clock() time.Duration {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &t); err != nil {
		panic("replica: the system has no clock that goes on while the machine sleeps: " + err.Error()) // Linux has it since 2.6.39
	}
	return time.Duration(t.Nano())
}
