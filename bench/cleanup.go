//go:build linux

package main

import (
	"slices"
	"sync"
)

// What must not outlive the program: servers, and gigabytes of their data. It
// goes in the reverse of the order in which it came, at the end or when the
// program is interrupted.
var cleaning struct {
	sync.Mutex
	todo []func()
}

func atEnd(f func()) {
	cleaning.Lock()
	defer cleaning.Unlock()
	cleaning.todo = append(cleaning.todo, f)
}

func cleanUp() {
	cleaning.Lock()
	defer cleaning.Unlock()
	for _, f := range slices.Backward(cleaning.todo) {
		f()
	}
	cleaning.todo = nil
}
