// Package number reads and prints numbers as Redis does.
package number

import (
	"math"
	"strconv"
)

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

// AppendDouble formats f as Redis prints scores: the shortest text that reads
// back as f, integers without a point, inf, -inf and nan in words.
func AppendDouble(b []byte, f float64) []byte {
	switch {
	case math.IsInf(f, 1):
		return append(b, "inf"...)
	case math.IsInf(f, -1):
		return append(b, "-inf"...)
	case math.IsNaN(f):
		return append(b, "nan"...)
	case f == 0 && math.Signbit(f):
		return append(b, "-0"...)
	case f == math.Trunc(f) && math.Abs(f) < 1<<62:
		return strconv.AppendInt(b, int64(f), 10)
	}
	// Redis prints with %.17g and shortens; its exponents have at least two
	// digits, as Go's have.
	mant := strconv.AppendFloat(b, f, 'g', -1, 64)
	if exp := math.Floor(math.Log10(math.Abs(f))); exp >= -5 && exp < 21 {
		return strconv.AppendFloat(b, f, 'f', -1, 64)
	}
	return mant
}
