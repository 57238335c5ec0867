package lua

import "strings"

func stringGmatch(c *Call) error {
	s, err := c.CheckString(0)
	if err != nil {
		return err
	}
	pat, err := c.CheckString(1)
	if err != nil {
		return err
	}
	if err := c.st.alloc(256); err != nil {
		return err
	}
	at := 0
	c.st.ids++
	c.Return(functionValue(&function{id: c.st.ids, name: "gmatch", held: String(s), goFn: func(c *Call) error {
		m := c.newMatcher(s, pat)
		for ; at <= len(s); at++ {
			end := m.run(at, 0)
			if m.err != nil {
				return m.err
			}
			if end < 0 {
				continue
			}
			start := at
			if at = end; end == start {
				at++
			}
			c.rets, err = m.values(c.rets, start, end, true)
			return err
		}
		return nil
	}}))
	return nil
}

func stringGsub(c *Call) error {
	src, err := c.CheckString(0)
	if err != nil {
		return err
	}
	pat, err := c.CheckString(1)
	if err != nil {
		return err
	}
	most, err := c.opt32(3, len(src)+1)
	if err != nil {
		return err
	}
	switch c.Arg(2).Kind() {
	case KindNumber, KindString, KindFunction, KindTable:
	default:
		return c.ArgError(2, "string/function/table expected")
	}
	m := c.newMatcher(src, pat)
	p := 0
	if strings.HasPrefix(m.pat, "^") {
		p = 1
	}
	out := buffer{c: c}
	defer out.done()
	at, n := 0, 0
	for n < most {
		end := m.run(at, p)
		if m.err != nil {
			return m.err
		}
		if end >= 0 {
			n++
			if err := m.replace(&out, at, end); err != nil {
				return err
			}
		}
		if end > at {
			at = end
		} else if at < len(src) {
			if err := out.addByte(src[at]); err != nil {
				return err
			}
			at++
		} else {
			break
		}
		if p == 1 {
			break
		}
	}
	if n == 0 {
		c.Return(String(src), Number(0))
		return nil
	}
	if err := out.add(src[at:]); err != nil {
		return err
	}
	c.Return(out.value(), Number(float64(n)))
	return nil
}

// replace adds what stands for a match.
func (m *matcher) replace(out *buffer, s, e int) error {
	c := m.c
	var v Value
	switch by := c.Arg(2); by.Kind() {
	case KindFunction:
		var args [maxCaptures]Value
		list, err := m.values(args[:0], s, e, true)
		if err != nil {
			return err
		}
		if v, err = c.call1(by, list...); err != nil {
			return err
		}
	case KindTable:
		k, err := m.capture(0, s, e)
		if err != nil {
			return err
		}
		if v, err = c.th.index(by, k, -1); err != nil {
			return err
		}
	default:
		text, _ := by.ToString()
		return m.expand(out, text, s, e)
	}
	if !v.Truth() {
		return out.add(m.src[s:e])
	}
	text, ok := v.ToString()
	if !ok {
		return c.Errorf("invalid replacement value (a %s)", v.TypeName())
	}
	return out.add(text)
}

// expand adds a replacement text, with %0 to %9 in it.
func (m *matcher) expand(out *buffer, text string, s, e int) error {
	for text != "" {
		i := strings.IndexByte(text, '%')
		if i < 0 {
			return out.add(text)
		}
		if err := out.add(text[:i]); err != nil {
			return err
		}
		if i+1 == len(text) {
			return out.addByte(0) // C reads the end of the string
		}
		d := text[i+1]
		text = text[i+2:]
		var err error
		switch {
		case !isDigit(d):
			err = out.addByte(d)
		case d == '0':
			err = out.add(m.src[s:e])
		default:
			var v Value
			if v, err = m.capture(int(d-'1'), s, e); err == nil {
				part, _ := v.ToString()
				err = out.add(part)
			}
		}
		if err != nil {
			return err
		}
	}
	return nil
}
