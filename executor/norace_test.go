//go:build !race

package executor

const race = false
