//go:build !race

package mem

const race = false
