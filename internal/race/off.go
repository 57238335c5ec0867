//go:build !race

// Package race tells tests whether the race detector is on: it makes them slow,
// and pools forget.
package race

// Enabled says whether the race detector is on.
const Enabled = false
