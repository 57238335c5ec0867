package lua

import (
	"math"
	"strconv"
	"strings"
)

// formatSpec is a format item: %[flags][width][.precision]verb.
type formatSpec struct {
	left, plus, space, alt, zero bool
	width, prec                  int // prec -1: none given
	verb                         byte
}

// parseSpec reads a format item after its %, and gives what follows.
func (c *Call) parseSpec(s string) (spec formatSpec, rest string, err error) {
	i := 0
	for ; i < len(s) && s[i] != 0 && strings.IndexByte("-+ #0", s[i]) >= 0; i++ {
		switch s[i] {
		case '-':
			spec.left = true
		case '+':
			spec.plus = true
		case ' ':
			spec.space = true
		case '#':
			spec.alt = true
		case '0':
			spec.zero = true
		}
	}
	if i >= 6 {
		return spec, "", c.Errorf("invalid format (repeated flags)")
	}
	digits := func() int {
		n := 0
		for k := 0; k < 2 && i < len(s) && isDigit(s[i]); k++ {
			n = n*10 + int(s[i]-'0')
			i++
		}
		return n
	}
	spec.width = digits()
	spec.prec = -1
	if i < len(s) && s[i] == '.' {
		i++
		spec.prec = digits()
	}
	if i < len(s) && isDigit(s[i]) {
		return spec, "", c.Errorf("invalid format (width or precision too long)")
	}
	if i < len(s) {
		spec.verb = s[i]
		i++
	}
	return spec, s[i:], nil
}

func stringFormat(c *Call) error {
	s, err := c.CheckString(0)
	if err != nil {
		return err
	}
	out := buffer{c: c}
	defer out.done()
	for arg := 1; s != ""; {
		i := strings.IndexByte(s, '%')
		if i < 0 {
			i = len(s)
		}
		if err := out.add(s[:i]); err != nil {
			return err
		}
		if i == len(s) {
			break
		}
		if s = s[i+1:]; strings.HasPrefix(s, "%") {
			if err := out.addByte('%'); err != nil {
				return err
			}
			s = s[1:]
			continue
		}
		if arg >= len(c.args) {
			return c.ArgError(arg, "no value")
		}
		spec, rest, err := c.parseSpec(s)
		if err != nil {
			return err
		}
		if err := c.formatItem(&out, &spec, arg); err != nil {
			return err
		}
		s = rest
		arg++
	}
	c.Return(out.value())
	return nil
}

func (c *Call) formatItem(out *buffer, f *formatSpec, arg int) error {
	switch f.verb {
	case 'q', 's':
		s, err := c.CheckString(arg)
		if err != nil {
			return err
		}
		if f.verb == 'q' {
			return quote(out, s)
		}
		if f.prec < 0 && len(s) >= 100 {
			return out.add(s)
		}
		if s = cutNUL(s); f.prec >= 0 && len(s) > f.prec {
			s = s[:f.prec]
		}
		return f.pad(out, "", s, false)
	case 'c', 'd', 'i', 'o', 'u', 'x', 'X', 'e', 'E', 'f', 'g', 'G':
	default:
		verb := ""
		if f.verb != 0 {
			verb = string([]byte{f.verb})
		}
		return c.Errorf("invalid option '%%%s' to 'format'", verb)
	}
	n, err := c.CheckNumber(arg)
	if err != nil {
		return err
	}
	switch f.verb {
	case 'c':
		start := len(out.b)
		if err := f.pad(out, "", string([]byte{byte(toInt(n))}), false); err != nil {
			return err
		}
		if i := strings.IndexByte(string(out.b[start:]), 0); i >= 0 {
			out.b = out.b[:start+i] // as C reads its buffer
		}
		return nil
	case 'd', 'i':
		i := toInt(n)
		u := uint64(i)
		if i < 0 {
			u = -u
		}
		return f.integer(out, f.sign(i < 0), strconv.FormatUint(u, 10), u == 0)
	case 'o', 'u', 'x', 'X':
		return f.unsigned(out, toUint(n))
	}
	return f.float(out, n)
}

// toUint converts as a C compiler does for this machine.
func toUint(f float64) uint64 {
	if f >= 1<<63 {
		return uint64(toInt(f-1<<63)) ^ 1<<63
	}
	return uint64(toInt(f))
}

func (f *formatSpec) sign(negative bool) string {
	switch {
	case negative:
		return "-"
	case f.plus:
		return "+"
	case f.space:
		return " "
	}
	return ""
}

func (f *formatSpec) unsigned(out *buffer, u uint64) error {
	prefix, base := "", 10
	switch f.verb {
	case 'o':
		base = 8
	case 'x', 'X':
		base = 16
		if f.alt && u != 0 {
			prefix = "0" + string(rune(f.verb))
		}
	}
	digits := strconv.FormatUint(u, base)
	if f.verb == 'X' {
		digits = strings.ToUpper(digits)
	}
	if f.verb == 'o' && f.alt && u != 0 && len(digits) >= f.prec {
		digits = "0" + digits
	}
	return f.integer(out, prefix, digits, u == 0 && !(f.verb == 'o' && f.alt))
}

// integer adds digits, at least as many as the precision says.
func (f *formatSpec) integer(out *buffer, prefix, digits string, isZero bool) error {
	if f.prec == 0 && isZero {
		digits = ""
	}
	if len(digits) < f.prec {
		digits = strings.Repeat("0", f.prec-len(digits)) + digits
	}
	return f.pad(out, prefix, digits, f.prec < 0)
}

func (f *formatSpec) float(out *buffer, n float64) error {
	prefix := f.sign(math.Signbit(n))
	n = math.Abs(n)
	prec := f.prec
	if prec < 0 {
		prec = 6
	}
	var buf [512]byte
	b := buf[:0]
	upper := f.verb < 'a'
	switch {
	case math.IsInf(n, 0) || math.IsNaN(n):
		return f.pad(out, prefix, string(appendNonFinite(b, n, upper)), false)
	case f.verb == 'f':
		b = strconv.AppendFloat(b, n, 'f', prec, 64)
		if f.alt && prec == 0 {
			b = append(b, '.')
		}
	case f.verb|0x20 == 'e':
		b = appendExp(b, n, prec, false, f.alt, upper)
	default:
		b = appendG(b, n, prec, f.alt, upper)
	}
	return f.pad(out, prefix, string(b), true)
}

// pad adds prefix and text with the width; zeros only where they make sense.
func (f *formatSpec) pad(out *buffer, prefix, text string, zeros bool) error {
	fill := max(f.width-len(prefix)-len(text), 0)
	if err := out.room(len(prefix) + len(text) + fill); err != nil {
		return err
	}
	switch {
	case f.left:
		out.b = append(append(out.b, prefix...), text...)
		out.b = append(out.b, strings.Repeat(" ", fill)...)
	case f.zero && zeros:
		out.b = append(append(out.b, prefix...), strings.Repeat("0", fill)...)
		out.b = append(out.b, text...)
	default:
		out.b = append(out.b, strings.Repeat(" ", fill)...)
		out.b = append(append(out.b, prefix...), text...)
	}
	return nil
}

// quote adds a string as Lua source.
func quote(out *buffer, s string) error {
	if err := out.room(len(s) + 2); err != nil {
		return err
	}
	out.b = append(out.b, '"')
	for i := range len(s) {
		var err error
		switch b := s[i]; b {
		case '"', '\\', '\n':
			err = out.add("\\" + string([]byte{b}))
		case '\r':
			err = out.add("\\r")
		case 0:
			err = out.add("\\000")
		default:
			err = out.addByte(b)
		}
		if err != nil {
			return err
		}
	}
	return out.addByte('"')
}
