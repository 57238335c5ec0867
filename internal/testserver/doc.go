// Package testserver starts servers for tests: Redoubt inside the test's
// process with a clock that the test moves, Redoubt as a process of its own
// that the test may kill, and a real Redis to compare with.
package testserver
