package differential

import "strings"

// when turns a time argument into an absolute time in milliseconds. Only the
// EXPIRE family takes times that are not positive.
func (m *model) when(arg string, seconds, relative, positive bool, cmd string) (int64, string) {
	n, ok := integer(arg)
	if !ok {
		return 0, fail(notInt)
	}
	bad := fail(badExpire, cmd)
	if positive && n <= 0 {
		return 0, bad
	}
	if seconds {
		if n > maxInt64/1000 || n < minInt64/1000 {
			return 0, bad
		}
		n *= 1000
	}
	if relative {
		if n > maxInt64-m.now() {
			return 0, bad
		}
		n += m.now()
	}
	return n, ""
}

func (m *model) expire(name string, a []string) string {
	var nx, xx, gt, lt bool
	for _, o := range a[2:] {
		switch strings.ToLower(o) {
		case "nx":
			nx = true
		case "xx":
			xx = true
		case "gt":
			gt = true
		case "lt":
			lt = true
		default:
			o, _, _ = strings.Cut(o, "\x00") // where C's text ends
			return fail("ERR Unsupported option %s", o)
		}
	}
	switch {
	case nx && (xx || gt || lt):
		return fail("ERR NX and XX, GT or LT options at the same time are not compatible")
	case gt && lt:
		return fail("ERR GT and LT options at the same time are not compatible")
	}
	at, err := m.when(a[1], name[0] == 'e', !strings.HasSuffix(name, "at"), false, name)
	if err != "" {
		return err
	}
	e, ok := m.get(a[0])
	if !ok || nx && e.exp != 0 || xx && e.exp == 0 || gt && (e.exp == 0 || at <= e.exp) || lt && e.exp != 0 && at >= e.exp {
		return num(0)
	}
	if at <= m.now() {
		m.del(a[0])
	} else {
		e.exp = at
		m.put(a[0], e)
	}
	return num(1)
}

func (m *model) ttl(name string, a []string) string {
	e, ok := m.get(a[0])
	switch {
	case !ok:
		return num(-2)
	case e.exp == 0:
		return num(-1)
	}
	left := e.exp - m.now()
	switch name {
	case "ttl":
		return num((left + 500) / 1000)
	case "pttl":
		return num(left)
	case "expiretime":
		return num(int64((uint64(e.exp) + 500) / 1000)) // Redis does not overflow here
	}
	return num(e.exp)
}

func (m *model) persist(_ string, a []string) string {
	e, ok := m.get(a[0])
	if !ok || e.exp == 0 {
		return num(0)
	}
	e.exp = 0
	m.put(a[0], e)
	return num(1)
}

// timeOptions are the options of SET and GETEX.
type timeOptions struct {
	nx, xx, get, keep, persist bool
	unit, arg                  string // ex, px, exat or pxat and its argument
	cmp, with                  string // ifeq or ifne and its argument
}

// parseOptions reads them; false means a syntax error.
func parseOptions(opts []string, set bool) (o timeOptions, ok bool) {
	for i := 0; i < len(opts); i++ {
		switch name := strings.ToLower(opts[i]); {
		case name == "nx" && set && !o.xx && o.cmp == "":
			o.nx = true
		case name == "xx" && set && !o.nx && o.cmp == "":
			o.xx = true
		case (name == "ifeq" || name == "ifne") && set && !o.nx && !o.xx && (o.cmp == "" || o.cmp == name) && i+1 < len(opts):
			i++
			o.cmp, o.with = name, opts[i]
		case name == "get" && set:
			o.get = true
		case name == "keepttl" && set && o.unit == "":
			o.keep = true
		case name == "persist" && !set && o.unit == "":
			o.persist = true
		case (name == "ex" || name == "px" || name == "exat" || name == "pxat") &&
			!o.keep && !o.persist && (o.unit == "" || o.unit == name) && i+1 < len(opts):
			i++
			o.unit, o.arg = name, opts[i]
		default:
			return o, false
		}
	}
	return o, true
}

func (m *model) optionTime(o timeOptions, cmd string) (int64, string) {
	if o.unit == "" {
		return 0, ""
	}
	return m.when(o.arg, o.unit[0] == 'e', !strings.HasSuffix(o.unit, "at"), true, cmd)
}
