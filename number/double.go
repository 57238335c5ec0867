package number

import (
	"bytes"
	"math"
	"strconv"
)

// AppendDouble formats f as Redis prints doubles: the fewest digits that read
// back as f, or nearly so (see grisu.go), whole numbers without a point, inf,
// -inf and nan in words.
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
	case f == math.Trunc(f) && math.Abs(f) <= 1<<62:
		return strconv.AppendInt(b, int64(f), 10)
	}
	limit := 18 // digits in scientific notation
	if f < 0 {
		b, limit, f = append(b, '-'), 17, -f
	}
	var buf [20]byte
	digits, exp := shortest(buf[:0], f)
	n := len(digits)
	lead := exp + n - 1 // the exponent of the first digit
	switch {
	case exp >= 0 && max(lead, -lead) < n+7:
		return appendRepeat(append(b, digits...), '0', exp)
	case exp < 0 && (exp > -7 || max(lead, -lead) < 4):
		if point := n + exp; point > 0 {
			return append(append(append(b, digits[:point]...), '.'), digits[point:]...)
		}
		return append(appendRepeat(append(b, "0."...), '0', -exp-n), digits...)
	}
	digits = digits[:min(n, limit)]
	b = append(b, digits[0])
	if len(digits) > 1 {
		b = append(append(b, '.'), digits[1:]...)
	}
	if b = append(b, 'e'); lead >= 0 {
		b = append(b, '+')
	}
	return strconv.AppendInt(b, int64(lead), 10)
}

func appendRepeat(b []byte, c byte, n int) []byte {
	for range n {
		b = append(b, c)
	}
	return b
}

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
