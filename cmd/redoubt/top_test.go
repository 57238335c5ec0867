package main

import (
	"errors"
	"strings"
	"testing"

	"redoubt/internal/testserver"
)

// Without a terminal top prints a line for each look, with rates from the second on.
func TestTopLines(t *testing.T) {
	t.Parallel()
	s := testserver.Start(t, testserver.Options{})
	out, _, err := use("top", "--server", "redis://"+s.Addr, "--every", "20ms", "--count", "3")
	lines := strings.Split(strings.TrimSpace(out), "\n")
	if err != nil || len(lines) != 3 {
		t.Fatalf("%v\n%s", err, out)
	}
	for i, l := range lines {
		if strings.Contains(l, "commands: rate ") != (i > 0) || !strings.Contains(l, "clients: connected 1") || strings.Contains(l, "\x1b") {
			t.Errorf("line %d: %s", i, l)
		}
	}
	s.Kill()
	var exit exitError
	if out, _, err = use("top", "--server", "redis://"+s.Addr, "--count", "1"); !errors.As(err, &exit) || !strings.Contains(out, "no answer: ") {
		t.Errorf("%v\n%s", err, out)
	}
}
