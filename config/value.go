package config

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"redoubt/number"
)

// value is what a directive is set to: the text that CONFIG GET shows, and the
// number of a numeric one (1 or 0 of a Bool, the bits of an EnumMulti, the
// index of an Enum, minus the percentage of a MemoryOrPercent).
type value struct {
	text string
	n    int64
}

// read parses the words of a value. The texts of its errors are Redis's. It stores
// no value, so that a CONFIG SET that fails has changed nothing.
func (d *Directive) read(c *Config, words []string, loading bool) (value, error) {
	if d.parse != nil {
		s, err := d.parse(c, words, loading)
		return value{text: s}, err
	}
	if d.Kind != EnumMulti && d.Kind != Enum && len(words) != 1 {
		return value{}, errWords
	}
	v, err := d.readKind(words)
	if err == nil && d.check != nil {
		err = d.check(v, loading)
	}
	return v, err
}

func (d *Directive) readKind(words []string) (value, error) {
	switch d.Kind {
	case Bool:
		switch {
		case strings.EqualFold(words[0], "yes"):
			return value{"yes", 1}, nil
		case strings.EqualFold(words[0], "no"):
			return value{"no", 0}, nil
		}
		return value{}, errors.New("argument must be 'yes' or 'no'")
	case Enum, EnumMulti:
		return d.readEnum(words)
	case String:
		return value{text: words[0]}, nil
	}
	n, err := d.readNumber(words[0])
	if err != nil {
		return value{}, err
	}
	if err := d.inBounds(n); err != nil {
		return value{}, err
	}
	if d.cap != nil {
		n = d.cap(n)
	}
	return value{d.format(n), n}, nil
}

// readEnum finds the words of an enumeration. In a list of values "a=b" means
// that a is another word for b. The first word of an EnumMulti is the empty
// set, the others are bits.
func (d *Directive) readEnum(words []string) (value, error) {
	if len(words) == 0 || (d.Kind == Enum && len(words) != 1) {
		return value{}, d.enumError()
	}
	var bits int64
	for _, w := range words {
		at := d.enumIndex(w)
		if at < 0 {
			return value{}, d.enumError()
		}
		if d.Kind == Enum {
			name, canonical, synonym := strings.Cut(d.values[at], "=")
			if synonym {
				return value{canonical, int64(d.enumIndex(canonical))}, nil
			}
			return value{name, int64(at)}, nil
		}
		if at > 0 {
			bits |= 1 << (at - 1)
		}
	}
	var names []string
	for i, name := range d.values[1:] {
		if bits&(1<<i) != 0 {
			names = append(names, name)
		}
	}
	if names == nil {
		names = d.values[:1]
	}
	return value{strings.Join(names, " "), bits}, nil
}

func (d *Directive) enumIndex(word string) int {
	for i, v := range d.values {
		name, _, _ := strings.Cut(v, "=")
		if strings.EqualFold(name, word) {
			return i
		}
	}
	return -1
}

func (d *Directive) enumError() error {
	names := make([]string, len(d.values))
	for i, v := range d.values {
		names[i], _, _ = strings.Cut(v, "=")
	}
	return errors.New("argument(s) must be one of the following: " + strings.Join(names, ", "))
}

func (d *Directive) readNumber(s string) (int64, error) {
	switch d.Kind {
	case Memory:
		if n, ok := parseMemory(s); ok {
			return int64(n), nil
		}
		return 0, errors.New("argument must be a memory value")
	case MemoryOrPercent:
		if n, ok := parseMemory(s); ok {
			return int64(n), nil
		}
		if rest, ok := strings.CutSuffix(s, "%"); ok {
			if n, ok := number.ParseInt([]byte(rest)); ok && n >= 0 {
				return -n, nil
			}
		}
		return 0, errors.New("argument must be a memory or percent value")
	case Octal:
		if n, err := strconv.ParseInt(s, 8, 64); err == nil {
			return n, nil
		}
		return 0, errors.New("argument couldn't be parsed as an octal number")
	}
	if n, ok := number.ParseInt([]byte(s)); ok {
		return n, nil
	}
	return 0, errors.New("argument couldn't be parsed into an integer")
}

func (d *Directive) inBounds(n int64) error {
	switch {
	case d.Kind == MemoryOrPercent && n < 0:
		if n < d.low {
			return fmt.Errorf("percentage argument must be less or equal to %d", -d.low)
		}
		return nil
	case d.Kind == Memory:
		if uint64(n) >= uint64(d.low) && uint64(n) <= d.high {
			return nil
		}
	case n >= d.low && (n < 0 || uint64(n) <= d.high):
		return nil
	}
	if d.Kind == Octal {
		return fmt.Errorf("argument must be between %o and %o inclusive", d.low, d.high)
	}
	return fmt.Errorf("argument must be between %d and %d inclusive", d.low, d.high)
}

// format prints a number as CONFIG GET does.
func (d *Directive) format(n int64) string {
	switch {
	case d.Kind == MemoryOrPercent && n < 0:
		return strconv.FormatInt(-n, 10) + "%"
	case d.Kind == Memory || d.Kind == MemoryOrPercent:
		return strconv.FormatUint(uint64(n), 10)
	case d.Kind == Octal:
		return strconv.FormatInt(n, 8)
	}
	return strconv.FormatInt(n, 10)
}

// parseMemory reads a number of bytes: digits and one of the units b, k, kb, m,
// mb, g, gb, where k is 1000 and kb is 1024. Like Redis it takes no digits as
// zero and lets a number that is too large wrap around.
func parseMemory(s string) (uint64, bool) {
	digits := 0
	for digits < len(s) && s[digits]-'0' < 10 {
		digits++
	}
	var unit uint64
	switch strings.ToLower(s[digits:]) {
	case "", "b":
		unit = 1
	case "k":
		unit = 1000
	case "kb":
		unit = 1 << 10
	case "m":
		unit = 1000 * 1000
	case "mb":
		unit = 1 << 20
	case "g":
		unit = 1000 * 1000 * 1000
	case "gb":
		unit = 1 << 30
	default:
		return 0, false
	}
	if digits >= 128 {
		return 0, false
	}
	if digits == 0 {
		return 0, true
	}
	n, err := strconv.ParseUint(s[:digits], 10, 64)
	if err != nil {
		n = maxUint64
	}
	return n * unit, true
}

// parseC reads an integer as C's strtoll does: leading space and a sign are
// allowed, no digits are zero, too large numbers are clamped. ok reports whether
// nothing follows.
func parseC(s string) (n int64, ok bool) {
	s = strings.TrimLeft(s, " \t\n\v\f\r")
	end := 0
	if end < len(s) && (s[end] == '-' || s[end] == '+') {
		end++
	}
	sign := end
	for end < len(s) && s[end]-'0' < 10 {
		end++
	}
	if end == sign {
		return 0, s == ""
	}
	n, err := strconv.ParseInt(s[:end], 10, 64)
	_ = err // ParseInt returns the nearest value when out of range, as strtoll does.
	return n, end == len(s)
}
