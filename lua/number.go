package lua

import (
	"math"
	"strconv"
	"strings"
)

// formatNumber prints as C's "%.14g", which is Lua's own form of a number.
func formatNumber(f float64) string {
	if f == math.Trunc(f) && math.Abs(f) < 1e14 {
		if f == 0 && math.Signbit(f) {
			return "-0"
		}
		return strconv.FormatInt(int64(f), 10)
	}
	var buf [32]byte
	return string(appendG(buf[:0], f, 14, false, false))
}

// appendG appends f as "%.<prec>g" does; alt is the flag '#', upper is %G.
func appendG(dst []byte, f float64, prec int, alt, upper bool) []byte {
	if math.IsInf(f, 0) || math.IsNaN(f) {
		return appendNonFinite(dst, f, upper)
	}
	if prec == 0 {
		prec = 1
	}
	start := len(dst)
	dst = strconv.AppendFloat(dst, f, 'e', prec-1, 64)
	digits := dst[start:]
	e := strings.LastIndexByte(string(digits), 'e')
	exp, _ := strconv.Atoi(string(digits[e+1:])) // strconv wrote it
	if exp < -4 || exp >= prec {
		return appendExp(dst[:start], f, prec-1, !alt, alt, upper)
	}
	dst = strconv.AppendFloat(dst[:start], f, 'f', prec-1-exp, 64)
	if !alt {
		return trimZeros(dst, start)
	}
	if prec-1-exp == 0 {
		dst = append(dst, '.')
	}
	return dst
}

// appendExp appends f as "%e" does: strconv and C agree on two digits of
// exponent at least. trim takes zeros off the fraction, as %g wants it.
func appendExp(dst []byte, f float64, prec int, trim, alt, upper bool) []byte {
	start := len(dst)
	dst = strconv.AppendFloat(dst, f, 'e', prec, 64)
	e := start + strings.LastIndexByte(string(dst[start:]), 'e')
	tail := string(dst[e:])
	dst = dst[:e]
	if trim {
		dst = trimZeros(dst, start)
	}
	if alt && prec == 0 {
		dst = append(dst, '.')
	}
	if upper {
		tail = "E" + tail[1:]
	}
	return append(dst, tail...)
}

func appendNonFinite(dst []byte, f float64, upper bool) []byte {
	s := "inf"
	if math.IsNaN(f) {
		s = "nan"
	}
	if math.Signbit(f) {
		s = "-" + s
	}
	if upper {
		s = strings.ToUpper(s)
	}
	return append(dst, s...)
}

// trimZeros removes the zeros that end the fraction of dst[start:].
func trimZeros(dst []byte, start int) []byte {
	if strings.IndexByte(string(dst[start:]), '.') < 0 {
		return dst
	}
	end := len(dst)
	for dst[end-1] == '0' {
		end--
	}
	if dst[end-1] == '.' {
		end--
	}
	return dst[:end]
}

func isSpace(c byte) bool { return c == ' ' || c-'\t' < 5 }
func isDigit(c byte) bool { return c-'0' < 10 }

// parseNumber reads a whole string as C's strtod reads a number, or as a
// hexadecimal integer, with spaces around. A zero byte ends the text.
func parseNumber(s string) (float64, bool) {
	if i := strings.IndexByte(s, 0); i >= 0 {
		s = s[:i]
	}
	for len(s) > 0 && isSpace(s[0]) {
		s = s[1:]
	}
	for len(s) > 0 && isSpace(s[len(s)-1]) {
		s = s[:len(s)-1]
	}
	if s == "" {
		return 0, false
	}
	// Small integers are the common case.
	if len(s) < 16 && isDigit(s[0]) {
		n := int64(0)
		for i := 0; ; i++ {
			if i == len(s) {
				return float64(n), true
			}
			if !isDigit(s[i]) {
				break
			}
			n = n*10 + int64(s[i]-'0')
		}
	}
	body, neg := s, false
	if body[0] == '+' || body[0] == '-' {
		neg = body[0] == '-'
		body = body[1:]
	}
	var f float64
	switch {
	case body == "":
		return 0, false
	case len(body) > 1 && body[0] == '0' && body[1]|0x20 == 'x':
		var ok bool
		if f, ok = parseHex(body[2:]); !ok {
			return 0, false
		}
	case isDigit(body[0]) || body[0] == '.':
		for i := range len(body) {
			if c := body[i]; !isDigit(c) && c != '.' && c|0x20 != 'e' && c != '+' && c != '-' {
				return 0, false
			}
		}
		var err error
		if f, err = strconv.ParseFloat(body, 64); err != nil && !isRange(err) {
			return 0, false
		}
	default:
		switch lower := strings.ToLower(body); {
		case lower == "inf", lower == "infinity":
			f = math.Inf(1)
		case lower == "nan", strings.HasPrefix(lower, "nan(") && strings.HasSuffix(lower, ")"):
			f = math.NaN()
		default:
			return 0, false
		}
	}
	if neg {
		f = -f
	}
	return f, true
}

func isRange(err error) bool {
	e, ok := err.(*strconv.NumError)
	return ok && e.Err == strconv.ErrRange
}

// parseHex reads what follows "0x": digits, and as strtod allows it a point
// and a binary exponent.
func parseHex(s string) (float64, bool) {
	point, exp, digits := false, false, false
	for i := range len(s) {
		c := s[i]
		switch {
		case exp:
			if !isDigit(c) && !((c == '+' || c == '-') && s[i-1]|0x20 == 'p') {
				return 0, false
			}
		case c == '.' && !point:
			point = true
		case c|0x20 == 'p' && digits:
			exp = true
		case isDigit(c) || c|0x20-'a' < 6:
			digits = true
		default:
			return 0, false
		}
	}
	if !digits {
		return 0, false
	}
	if !exp {
		s += "p0"
	}
	f, err := strconv.ParseFloat("0x"+s, 64)
	if err != nil && !isRange(err) {
		return 0, false
	}
	return f, true
}

// appendNumber appends what formatNumber gives.
func appendNumber(dst []byte, f float64) []byte {
	if f == math.Trunc(f) && math.Abs(f) < 1e14 {
		if f == 0 && math.Signbit(f) {
			return append(dst, "-0"...)
		}
		return strconv.AppendInt(dst, int64(f), 10)
	}
	return appendG(dst, f, 14, false, false)
}
