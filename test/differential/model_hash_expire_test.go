package differential

import (
	"strings"
)

// Hash fields that expire.

const (
	noFields      = "ERR Mandatory argument FIELDS is missing or not at the right position"
	fieldsMatch   = "ERR The `numfields` parameter must match the number of arguments"
	maxFieldTime  = 1<<46 - 1
	numFields     = "ERR Number of fields must be a positive integer"
	numFieldsElse = "ERR Parameter `numFields` should be greater than 0"
)

// fieldTime reads a time; an error is the reply.
func (m *model) fieldTime(name, arg string, seconds, relative bool) (int64, string) {
	n, ok := integer(arg)
	unit, base := int64(1), int64(0)
	if seconds {
		unit = 1000
	}
	if relative {
		base = m.now()
	}
	switch {
	case !ok:
		return 0, fail(notInt)
	case n < 0:
		return 0, fail("ERR invalid expire time, must be >= 0")
	case n > maxFieldTime/unit || n*unit > maxFieldTime-base:
		return 0, fail(badExpire, name)
	}
	return n*unit + base, ""
}

// fieldNames reads FIELDS numfields field...
func fieldNames(a []string, bad string) ([]string, string) {
	if !strings.EqualFold(a[0], "fields") {
		return nil, fail(noFields)
	}
	n, ok := integer(a[1])
	switch {
	case !ok || n < 1:
		return nil, fail("%s", bad)
	case n != int64(len(a)-2):
		return nil, fail(fieldsMatch)
	}
	return a[2:], ""
}

func (m *model) hexpire(name string, a []string) string {
	key := a[0]
	h, err := m.hash(key)
	if err != "" {
		return err
	}
	at, err := m.fieldTime(name, a[1], name[1] == 'e', !strings.HasSuffix(name, "at"))
	if err != "" {
		return err
	}
	cond := strings.ToLower(a[2])
	switch cond {
	case "nx", "xx", "gt", "lt":
		a = a[3:]
	default:
		cond, a = "", a[2:]
	}
	names, err := fieldNames(a, numFieldsElse)
	if err != "" {
		return err
	}
	var out []string
	for _, field := range names {
		f, ok := h.find(field)
		switch {
		case !ok:
			out = append(out, num(-2))
		case cond == "nx" && f.at != 0, cond == "xx" && f.at == 0, cond == "gt" && (f.at == 0 || at <= f.at), cond == "lt" && f.at != 0 && at >= f.at:
			out = append(out, num(0))
		case at <= m.now():
			h.without(field)
			out = append(out, num(2))
		default:
			f.at = at
			h.with(f)
			out = append(out, num(1))
		}
	}
	m.putHash(key, h)
	return array(out...)
}

func (m *model) httl(name string, a []string) string {
	h, err := m.hash(a[0])
	if err != "" {
		return err
	}
	names, err := fieldNames(a[1:], numFields)
	if err != "" {
		return err
	}
	base := m.now()
	if strings.HasSuffix(name, "time") {
		base = 0
	}
	var out []string
	for _, field := range names {
		f, ok := h.find(field)
		switch {
		case !ok:
			out = append(out, num(-2))
		case f.at == 0:
			out = append(out, num(-1))
		case name[1] == 'p':
			out = append(out, num(f.at-base))
		default:
			out = append(out, num((f.at-base+999)/1000))
		}
	}
	return array(out...)
}

func (m *model) hpersist(_ string, a []string) string {
	h, err := m.hash(a[0])
	if err != "" {
		return err
	}
	names, err := fieldNames(a[1:], numFields)
	if err != "" {
		return err
	}
	var out []string
	for _, field := range names {
		f, ok := h.find(field)
		switch {
		case !ok:
			out = append(out, num(-2))
		case f.at == 0:
			out = append(out, num(-1))
		default:
			f.at = 0
			h.with(f)
			out = append(out, num(1))
		}
	}
	m.putHash(a[0], h)
	return array(out...)
}

func (m *model) hgetdel(_ string, a []string) string {
	h, err := m.hash(a[0])
	if err != "" {
		return err
	}
	names, err := fieldNames(a[1:], numFields)
	if err != "" {
		return err
	}
	var out []string
	for _, field := range names {
		out = append(out, m.fieldValue(h.find(field)))
		h.without(field)
	}
	m.putHash(a[0], h)
	return array(out...)
}

func (m *model) hgetex(name string, a []string) string {
	key := a[0]
	h, err := m.hash(key)
	if err != "" {
		return err
	}
	opt, at := strings.ToLower(a[1]), int64(0)
	switch opt {
	case "ex", "px", "exat", "pxat":
		if at, err = m.fieldTime(name, a[2], opt[0] == 'e', len(opt) == 2); err != "" {
			return err
		}
		a = a[3:]
	case "persist":
		a = a[2:]
	default:
		opt, a = "", a[1:]
	}
	if len(a) < 2 {
		return arity(name)
	}
	names, err := fieldNames(a, numFields)
	if err != "" {
		return err
	}
	var out []string
	for _, field := range names {
		f, ok := h.find(field)
		out = append(out, m.fieldValue(f, ok))
		switch {
		case !ok || opt == "":
		case opt != "persist" && at <= m.now():
			h.without(field)
		default:
			f.at = at
			h.with(f)
		}
	}
	m.putHash(key, h)
	return array(out...)
}

func (m *model) hsetex(name string, a []string) string {
	opt, cond, at, err := "", "", int64(0), ""
	i := 1
	for ; i < len(a) && !strings.EqualFold(a[i], "fields"); i++ {
		switch o := strings.ToLower(a[i]); o {
		case "ex", "px", "exat", "pxat", "keepttl":
			if opt != "" {
				return fail("ERR Only one of EX, PX, EXAT, PXAT or KEEPTTL arguments can be specified")
			}
			if opt = o; o == "keepttl" {
				continue
			}
			if i++; i == len(a) {
				return fail("ERR missing expire time")
			}
			if at, err = m.fieldTime(name, a[i], o[0] == 'e', len(o) == 2); err != "" {
				return err
			}
		case "fnx", "fxx":
			if cond != "" {
				return fail("ERR Only one of FXX or FNX arguments can be specified")
			}
			cond = o
		default:
			text, _, _ := strings.Cut(a[i], "\x00")
			return fail("ERR unknown argument: %s", text)
		}
	}
	if len(a)-i < 4 {
		return arity(name)
	}
	n, ok := integer(a[i+1])
	pairs := a[i+2:]
	switch {
	case !ok || n < 1 || n > 1<<31-1:
		return fail("ERR invalid number of fields")
	case len(pairs)%2 != 0 || n != int64(len(pairs)/2):
		return arity(name)
	}
	h, err := m.hash(a[0])
	if err != "" {
		return err
	}
	for j := 0; j < len(pairs); j += 2 {
		if _, ok := h.find(pairs[j]); cond == "fnx" && ok || cond == "fxx" && !ok {
			return num(0)
		}
	}
	h.expect(pairs...)
	for j := 0; j < len(pairs); j += 2 {
		f, _ := h.find(pairs[j])
		switch {
		case opt != "" && opt != "keepttl" && at <= m.now():
			h.without(pairs[j])
			continue
		case opt != "keepttl":
			f.at = at
		}
		h.with(hashField{pairs[j], pairs[j+1], f.at})
	}
	m.putHash(a[0], h)
	return num(1)
}
