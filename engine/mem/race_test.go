//go:build race

package mem

// race: the race detector is on, and everything takes ten times as long.
const race = true
