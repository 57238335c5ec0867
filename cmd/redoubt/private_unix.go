//go:build unix

package main

import "syscall"

// private makes new files and directories accessible to the program's user alone, whatever
// umask it was started with: also those of Pebble, which asks for all bits. A unix socket
// gets the permissions of unixsocketperm.
func private() { syscall.Umask(0o077) }
