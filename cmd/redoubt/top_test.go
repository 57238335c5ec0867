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

// The password may come from the environment. Not parallel: it changes the environment.
func TestPasswordOfTheEnvironment(t *testing.T) {
	s := testserver.Start(t, testserver.Options{Args: []string{"--requirepass", "some secret"}})
	at := "redis://" + s.Addr
	if out, _, err := use("top", "--server", at, "--count", "1"); err == nil {
		t.Errorf("without a password: %s", out)
	}
	t.Setenv(passwordVariable, "some secret")
	for _, tool := range [][]string{{"top", "--count", "1"}, {"bench", "--clients", "1", "--count", "1", "PING"}} {
		words := append([]string{tool[0], "--server", at}, tool[1:]...)
		if out, _, err := use(words...); err != nil {
			t.Errorf("%v: %v\n%s", tool, err, out)
		}
	}
}
