// Package number reads and prints numbers as Redis does: integers, doubles and long
// doubles. What it prints is the same to the last digit, and it refuses what Redis
// refuses. It knows no reply and no error text.
package number

// ParseInt parses a decimal 64-bit integer as Redis's protocol and commands
// demand: no plus sign, no leading zeros, no spaces, no "-0".
func ParseInt(b []byte) (int64, bool) {
	if len(b) == 0 || len(b) > 20 {
		return 0, false
	}
	digits, neg := b, false
	if b[0] == '-' {
		digits, neg = b[1:], true
	}
	if len(digits) == 0 || (digits[0] == '0' && len(b) > 1) {
		return 0, false
	}
	var n uint64
	for _, c := range digits {
		d := uint64(c - '0')
		if d > 9 || n > (1<<64-1-9)/10 { // the second: far above int64
			return 0, false
		}
		n = n*10 + d
	}
	if neg {
		if n > 1<<63 {
			return 0, false
		}
		return -int64(n), true
	}
	if n > 1<<63-1 {
		return 0, false
	}
	return int64(n), true
}
