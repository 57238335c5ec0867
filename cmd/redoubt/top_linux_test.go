package main

import (
	"fmt"
	"io"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"redoubt/internal/testserver"
)

// terminal opens a pseudo-terminal of 70 columns and 12 rows.
func terminal(t *testing.T) (master, slave *os.File) {
	t.Helper()
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	must(t, err)
	t.Cleanup(func() { master.Close() })
	n, err := unix.IoctlGetInt(int(master.Fd()), unix.TIOCGPTN)
	must(t, err)
	must(t, unix.IoctlSetPointerInt(int(master.Fd()), unix.TIOCSPTLCK, 0))
	slave, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0)
	must(t, err)
	must(t, unix.IoctlSetWinsize(int(slave.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Col: 70, Row: 12}))
	return master, slave
}

// On a terminal top draws frames of its size on the other screen, and leaves it as it was.
func TestTopOnATerminal(t *testing.T) {
	t.Parallel()
	s := testserver.Start(t, testserver.Options{})
	master, slave := terminal(t)
	drawn := make(chan string)
	go func() {
		all, _ := io.ReadAll(master) // the error is that the other side was closed
		drawn <- string(all)
	}()
	err := topServer(t.Context(), []string{"--server", "redis://" + s.Addr, "--every", "20ms", "--count", "3"}, slave, io.Discard)
	must(t, err)
	must(t, slave.Close())
	text := <-drawn
	inner, ok := strings.CutPrefix(text, enterScreen)
	inner, ok2 := strings.CutSuffix(inner, leaveScreen)
	frames := strings.Split(inner, cursorHome)[1:]
	if !ok || !ok2 || len(frames) != 3 {
		t.Fatalf("%d frames in %q", len(frames), text)
	}
	for i, f := range frames {
		lines := strings.Split(strings.TrimSuffix(f, clearBelow), "\n")
		if len(lines) > 12 || !strings.Contains(lines[0], "redoubt top  "+s.Addr) || strings.Contains(f, "commands    rate") != (i > 0) {
			t.Errorf("frame %d: %q", i, f)
		}
		for _, l := range lines {
			l = strings.NewReplacer(clearLine, "", "\r", "", "\x1b[1m", "", "\x1b[0m", "").Replace(l)
			if len([]rune(l)) > 70 || strings.Contains(l, "\x1b") {
				t.Errorf("frame %d: %q", i, l)
			}
		}
	}
}
