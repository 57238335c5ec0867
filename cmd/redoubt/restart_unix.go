//go:build unix

package main

import (
	"fmt"
	"os"
	"syscall"
)

// restart replaces this process by a new one of the same program, with the same arguments.
func restart() error {
	path, err := os.Executable()
	if err != nil {
		return fmt.Errorf("starting again: %w: start this process again", err)
	}
	return fmt.Errorf("starting again: %w: start this process again", syscall.Exec(path, os.Args, os.Environ()))
}
