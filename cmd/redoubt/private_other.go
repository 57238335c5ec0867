//go:build !unix

package main

// private does nothing: this system has no umask.
func private() {}
