package race

// Or is how much of something a test does: the first number if the race detector is
// on, else the second.
func Or(raced, normal int) int {
	if Enabled {
		return raced
	}
	return normal
}
