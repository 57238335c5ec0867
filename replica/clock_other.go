//go:build !linux

package replica

import "time"

var started = time.Now()

// Clock returns the time since the process was started. On this system it may stand still
// while the machine sleeps: leases are not safe then.
func Clock() time.Duration { return time.Since(started) }
