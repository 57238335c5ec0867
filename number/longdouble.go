package number

import (
	"bytes"
	"math/big"
)

// INCRBYFLOAT and HINCRBYFLOAT compute with C's long double, which on x86-64 is
// the 80-bit format: 64 bits of mantissa, exponents up to 2^16384, rounding to
// nearest even. A big.Float of precision 64 computes the same, once its
// exponent is held to the same range. Printing is %.17Lf without the zeros at
// the end.
//
// Numbers below the normal range are kept with more bits than the format has;
// no digit that is printed can tell the difference.

const (
	longDoubleBits = 64
	// A long double is below 2^longDoubleMaxExp, and what is not above
	// 2^longDoubleTiny rounds to zero.
	longDoubleMaxExp = 16384
	longDoubleTiny   = -16446
	// longDoubleText is the length from which on Redis takes no text.
	longDoubleText = 5 * 1024
	// No decimal number outside of 10^±decimalRange is representable.
	decimalRange = 5000
)

// ParseLongDouble reads a long double as Redis does: all that C's strtold
// accepts (a sign, decimal and hexadecimal notation, inf and infinity in any
// case), but no space around it, no NaN, and nothing that overflows or vanishes.
func ParseLongDouble(b []byte) (*big.Float, bool) {
	if len(b) == 0 || len(b) >= longDoubleText {
		return nil, false
	}
	if n, ok := ParseInt(b); ok {
		return new(big.Float).SetPrec(longDoubleBits).SetInt64(n), true
	}
	s, neg := b, false
	if s[0] == '+' || s[0] == '-' {
		s, neg = s[1:], s[0] == '-'
	}
	f, ok := parseUnsigned(s)
	if !ok {
		return nil, false
	}
	if neg {
		f.Neg(f)
	}
	return f, true
}

func parseUnsigned(s []byte) (*big.Float, bool) {
	if bytes.EqualFold(s, []byte("inf")) || bytes.EqualFold(s, []byte("infinity")) {
		return new(big.Float).SetPrec(longDoubleBits).SetInf(false), true
	}
	base, mark := 10, byte('e')
	if len(s) > 2 && s[0] == '0' && s[1]|32 == 'x' {
		s, base, mark = s[2:], 16, 'p'
	}
	// The digits without their point, and how many stood behind it.
	digits := make([]byte, 0, len(s))
	fraction, point, i := 0, false, 0
	for ; i < len(s); i++ {
		c := s[i]
		if c == '.' && !point {
			point = true
			continue
		}
		if !isDigit(c, base) {
			break
		}
		digits = append(digits, c)
		if point {
			fraction++
		}
	}
	if len(digits) == 0 {
		return nil, false
	}
	exp := 0
	if i < len(s) {
		if s[i]|32 != mark {
			return nil, false
		}
		var ok bool
		if exp, ok = parseExponent(s[i+1:]); !ok {
			return nil, false
		}
	}
	digits = bytes.TrimLeft(digits, "0")
	if len(digits) == 0 {
		return new(big.Float).SetPrec(longDoubleBits), true
	}
	m, ok := new(big.Int).SetString(string(digits), base)
	if !ok {
		return nil, false
	}
	if base == 16 {
		f := new(big.Float).SetPrec(longDoubleBits).SetInt(m)
		f.SetMantExp(f, exp-4*fraction)
		return f, inRange(f)
	}
	return decimal(m, len(digits), exp-fraction)
}

// decimal returns m * 10^exp, correctly rounded: both operands of the division
// are exact.
func decimal(m *big.Int, digits, exp int) (*big.Float, bool) {
	if digits+exp > decimalRange || digits+exp < -decimalRange {
		return nil, false
	}
	f := new(big.Float).SetPrec(longDoubleBits)
	if exp >= 0 {
		f.SetInt(m.Mul(m, power(10, exp)))
	} else {
		f.Quo(new(big.Float).SetInt(m), new(big.Float).SetInt(power(5, -exp)))
		f.SetMantExp(f, exp)
	}
	return f, inRange(f)
}

func power(base int64, n int) *big.Int {
	return new(big.Int).Exp(big.NewInt(base), big.NewInt(int64(n)), nil)
}

// parseExponent reads the decimal exponent of either notation. One that is
// beyond any use is cut short, so that it cannot overflow.
func parseExponent(s []byte) (exp int, ok bool) {
	neg := false
	if len(s) > 0 && (s[0] == '+' || s[0] == '-') {
		s, neg = s[1:], s[0] == '-'
	}
	if len(s) == 0 {
		return 0, false
	}
	for _, c := range s {
		if c-'0' > 9 {
			return 0, false
		}
		if exp < 10_000_000 {
			exp = exp*10 + int(c-'0')
		}
	}
	if neg {
		exp = -exp
	}
	return exp, true
}

func isDigit(c byte, base int) bool {
	return c-'0' < 10 || (base == 16 && (c|32)-'a' < 6)
}

// inRange says whether a finite non-zero number is one that the format holds.
// MantExp gives the exponent for a mantissa in [0.5, 1).
func inRange(f *big.Float) bool {
	var mant big.Float
	exp := f.MantExp(&mant)
	if exp == longDoubleTiny+1 { // in [2^tiny, 2^(tiny+1)): exactly 2^tiny is a tie and goes to zero
		return mant.Cmp(big.NewFloat(0.5)) > 0
	}
	return exp > longDoubleTiny && exp <= longDoubleMaxExp
}

// AddLongDouble returns x + y. It is not ok when the result is infinite or not
// a number.
func AddLongDouble(x, y *big.Float) (sum *big.Float, ok bool) {
	if x.IsInf() || y.IsInf() {
		return nil, false
	}
	sum = new(big.Float).SetPrec(longDoubleBits).Add(x, y)
	return sum, sum.MantExp(nil) <= longDoubleMaxExp
}

// AppendLongDouble prints a finite long double as Redis does for people: up to
// 17 digits behind the point, none of them a zero at the end.
func AppendLongDouble(b []byte, f *big.Float) []byte {
	start := len(b)
	b = f.Append(b, 'f', 17)
	text := b[start:]
	if bytes.IndexByte(text, '.') >= 0 {
		text = bytes.TrimRight(text, "0")
		text = bytes.TrimSuffix(text, []byte("."))
	}
	if len(text) == 2 && text[0] == '-' && text[1] == '0' {
		text[0], text = '0', text[:1]
	}
	return b[:start+len(text)]
}
