package server

// Version is Redoubt's own version; RedisVersion is the one whose commands it
// speaks and that it tells to clients who ask.
const (
	Version      = "0.1.0"
	RedisVersion = "7.4.1"
)
