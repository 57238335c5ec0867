package lib

import (
	"math"
	"strconv"
	"strings"
)

// looseNumber reports whether a text begins like a number that C reads, but that
// is none of JSON's: with a plus, a zero in front, hexadecimal, inf, nan.
func looseNumber(s string) bool {
	if s[0] == '+' {
		return true
	}
	s = strings.TrimPrefix(s, "-")
	if s == "" {
		return false
	}
	if s[0] == '0' {
		return len(s) > 1 && (s[1]|0x20 == 'x' || isDigit(s[1]))
	}
	return hasFold(s, "inf") || hasFold(s, "nan")
}

// readNumber reads the number that a text begins with, as C's strtod does, and
// how long it is: 0 if there is none.
func readNumber(s string) (f float64, n int) {
	if n < len(s) && (s[n] == '+' || s[n] == '-') {
		n++
	}
	negative := s[0] == '-'
	body := s[n:]
	switch {
	case hasFold(body, "infinity"):
		return signed(math.Inf(1), negative), n + 8
	case hasFold(body, "inf"):
		return signed(math.Inf(1), negative), n + 3
	case hasFold(body, "nan"):
		return signed(math.Float64frombits(0x7ff8<<48), negative), n + 3 + nanPayload(body[3:])
	case hasFold(body, "0x"):
		if digits := scan(body[2:], isHex, 'p'); digits > 0 {
			text := body[:2+digits]
			if strings.IndexByte(text, 'p') < 0 && strings.IndexByte(text, 'P') < 0 {
				text += "p0"
			}
			return signed(parse(text), negative), n + 2 + digits
		}
	}
	digits := scan(body, isDigit, 'e')
	if digits == 0 {
		return 0, 0
	}
	return signed(parse(body[:digits]), negative), n + digits
}

// scan returns the length of digits with perhaps a point and an exponent, 0 if
// there is no digit.
func scan(s string, digit func(byte) bool, exponent byte) int {
	n, digits, point := 0, 0, false
	for ; n < len(s); n++ {
		if s[n] == '.' && !point {
			point = true
		} else if digit(s[n]) {
			digits++
		} else {
			break
		}
	}
	if digits == 0 {
		return 0
	}
	if n < len(s) && s[n]|0x20 == exponent {
		e := n + 1
		if e < len(s) && (s[e] == '+' || s[e] == '-') {
			e++
		}
		if e < len(s) && isDigit(s[e]) {
			for n = e; n < len(s) && isDigit(s[n]); n++ {
			}
		}
	}
	return n
}

// parse reads what scan has found to be a number. What is too large for one is
// infinite, what is too small 0.
func parse(s string) float64 {
	f, _ := strconv.ParseFloat(s, 64)
	return f
}

// nanPayload returns the length of what may follow "nan" in parentheses.
func nanPayload(s string) int {
	if s == "" || s[0] != '(' {
		return 0
	}
	for i := 1; i < len(s); i++ {
		if s[i] == ')' {
			return i + 1
		}
		if !isAlnum(s[i]) && s[i] != '_' {
			break
		}
	}
	return 0
}

func signed(f float64, negative bool) float64 {
	if negative {
		return -f
	}
	return f
}

// hasFold is strings.HasPrefix for a prefix in lower case and a text in any.
func hasFold(s, prefix string) bool {
	if len(s) < len(prefix) {
		return false
	}
	for i := range len(prefix) {
		c := s[i]
		if c >= 'A' && c <= 'Z' {
			c |= 0x20
		}
		if c != prefix[i] {
			return false
		}
	}
	return true
}

func isHex(c byte) bool { return isDigit(c) || c|0x20 >= 'a' && c|0x20 <= 'f' }
