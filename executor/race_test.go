//go:build race

package executor

// race: the race detector is on. It makes everything slower, and pools forget.
const race = true
