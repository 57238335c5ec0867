//go:build !unix

package main

import "os"

func windowSize(*os.File) (width, height int, ok bool) { return 0, 0, false }
