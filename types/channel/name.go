package channel

// MaxName is the longest name of a channel, a subscriber or a message, in bytes.
const MaxName = 63

// ValidName reports whether name may be the name of a channel, a subscriber or a
// message: ^[0-9a-z][0-9a-z_-]{0,62}$.
func ValidName(name []byte) bool {
	if len(name) == 0 || len(name) > MaxName || name[0] == '_' || name[0] == '-' {
		return false
	}
	for _, b := range name {
		if !inName[b] {
			return false
		}
	}
	return true
}

var inName = func() (t [256]bool) {
	for _, b := range []byte("0123456789abcdefghijklmnopqrstuvwxyz_-") {
		t[b] = true
	}
	return t
}()
