// Package testtool runs the tools of other languages for tests: what installs packages is
// tried again a bounded number of times, since a registry may fail for a moment.
package testtool

import (
	"context"
	"fmt"
	"os/exec"
	"strings"
	"testing"
	"time"
)

const (
	attempts = 3
	patience = 10 * time.Minute // for each attempt
	pause    = 5 * time.Second  // behind the first attempt; longer behind the next
)

// Install runs a command that downloads packages, in a directory, and ends the test if it
// fails in every attempt.
func Install(t testing.TB, dir string, args ...string) {
	t.Helper()
	for n := 1; ; n++ {
		out, err := Run(t, dir, patience, args...)
		if err == nil {
			return
		}
		if n == attempts {
			t.Fatalf("%s failed %d times, at last with %v:\n%s", strings.Join(args, " "), n, err, out)
		}
		t.Logf("%s: %v; it is tried again\n%s", strings.Join(args, " "), err, out)
		select {
		case <-t.Context().Done():
		case <-time.After(time.Duration(n) * pause):
		}
	}
}

// Run runs a program in a directory, and returns what it printed. If it does not end in time
// that is an error.
func Run(t testing.TB, dir string, patience time.Duration, args ...string) (out string, err error) {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	cmd.Dir = dir
	cmd.WaitDelay = 10 * time.Second // its children may hold the pipe
	b, err := cmd.CombinedOutput()
	if ctx.Err() != nil {
		err = fmt.Errorf("it did not end within %s", patience)
	}
	return string(b), err
}
