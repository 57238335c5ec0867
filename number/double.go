package number

import (
	"bytes"
	"math"
	"strconv"
)

// ParseDouble reads a double as Redis does for scores and the like: all that
// C's strtod accepts (a sign, decimal and hexadecimal notation, inf and
// infinity in any case), but no space around it, no NaN, and nothing that
// overflows or vanishes.
func ParseDouble(b []byte) (float64, bool) {
	if len(b) == 0 || bytes.IndexByte(b, '_') >= 0 { // Go would read underscores
		return 0, false
	}
	text := string(b)
	if hex := trimSign(b); len(hex) > 2 && hex[0] == '0' && hex[1]|32 == 'x' {
		// Go wants an exponent there, C does not.
		if !hasByte(hex, 'p') {
			text += "p0"
		}
	}
	f, err := strconv.ParseFloat(text, 64)
	if err != nil { // malformed, or too large
		return 0, false
	}
	if f == 0 && !isZero(b) { // it vanished
		return 0, false
	}
	return f, !math.IsNaN(f)
}

func trimSign(b []byte) []byte {
	if len(b) > 0 && (b[0] == '+' || b[0] == '-') {
		return b[1:]
	}
	return b
}

func hasByte(b []byte, lower byte) bool {
	for _, c := range b {
		if c|32 == lower {
			return true
		}
	}
	return false
}

// isZero says whether the mantissa of a well-formed number has only zeros.
func isZero(b []byte) bool {
	b = trimSign(b)
	mark := byte('e')
	if len(b) > 1 && b[0] == '0' && b[1]|32 == 'x' {
		b, mark = b[2:], 'p'
	}
	for _, c := range b {
		switch {
		case c|32 == mark:
			return true
		case c != '0' && c != '.':
			return false
		}
	}
	return true
}
