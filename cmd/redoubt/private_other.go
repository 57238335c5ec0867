//go:build !unix

package main

// private does nothing: there is no umask.
func private() {}
