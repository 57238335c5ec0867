//go:build unix

package main

import (
	"os"

	"golang.org/x/sys/unix"
)

// windowSize returns the size of a terminal; ok is false if the file is none.
func windowSize(f *os.File) (width, height int, ok bool) {
	if f == nil {
		return 0, 0, false
	}
	w, err := unix.IoctlGetWinsize(int(f.Fd()), unix.TIOCGWINSZ)
	if err != nil {
		return 0, 0, false
	}
	if w.Col == 0 || w.Row == 0 {
		return 80, 24, true // a terminal that does not know
	}
	return int(w.Col), int(w.Row), true
}
