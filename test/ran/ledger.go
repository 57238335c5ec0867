package main

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"strings"
)

// A line of a ledger is a mark and the name of a test with its package.
const (
	ranMark   = "pass "
	skipMark  = "skip "
	neverMark = "never " // cannot run here
)

// enter adds what this run knows to a ledger.
func (r *report) enter(path string) error {
	f, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	w := bufio.NewWriter(f)
	for _, line := range r.ledger {
		fmt.Fprintln(w, line) // the error stays until Flush
	}
	if err := w.Flush(); err != nil {
		f.Close()
		return err
	}
	return f.Close()
}

// settled fails if a test that was skipped in one run passed in none.
func settled(path string, out io.Writer) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	passed, excused := make(map[string]bool), make(map[string]bool)
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSpace(line)
		if name, ok := strings.CutPrefix(line, ranMark); ok {
			passed[name] = true
		}
		if name, ok := strings.CutPrefix(line, neverMark); ok {
			excused[name] = true
		}
	}
	if len(passed) == 0 {
		return fmt.Errorf("%s names no test that passed", path)
	}
	settled, never, missing := 0, 0, 0
	seen := make(map[string]bool)
	for line := range strings.Lines(string(text)) {
		name, ok := strings.CutPrefix(strings.TrimSpace(line), skipMark)
		if !ok || seen[name] {
			continue
		}
		seen[name] = true
		switch {
		case passed[name]:
			settled++
		case excused[name]:
			never++
			fmt.Fprintf(out, "not run: %s\n", name)
		default:
			missing++
			fmt.Fprintf(out, "FAIL %s was skipped, and passed in no run\n", name)
		}
	}
	fmt.Fprintf(out, "%d tests that were skipped in one run passed in another, %d cannot run here, %d passed in none\n", settled, never, missing)
	if missing > 0 {
		return errWrong
	}
	return nil
}
