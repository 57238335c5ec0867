//go:build unix

package main

import "syscall"

// private has files and directories that the program makes be its user's alone, whatever
// umask it was started with: also those that Pebble makes, which asks for all bits. A
// unix socket gets what unixsocketperm says.
func private() { syscall.Umask(0o077) }
