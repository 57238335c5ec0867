package race

// Or returns the first number if the race detector is on, else the second: the amount of
// work of a test, say.
func Or(raced, normal int) int {
	if Enabled {
		return raced
	}
	return normal
}
