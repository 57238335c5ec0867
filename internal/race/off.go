//go:build !race

// Package race tells tests whether the race detector is on. The detector makes tests several
// times as slow, and sync.Pool drops items at random, so some tests do less then.
package race

// Enabled reports whether the race detector is on.
const Enabled = false
