package lua

import (
	"fmt"
	"strings"
)

// pairs returns its own copy of next, as Lua does.
var (
	nextFunction = NewFunc("next", baseNext)
	pairsStep    = NewFunc("next", baseNext)
)

func baseNext(c *Call) error {
	t, err := c.CheckTable(0)
	if err != nil {
		return err
	}
	k, v, ok, err := t.Next(c.Arg(1))
	switch {
	case err != nil:
		return err
	case !ok:
		c.Return(Nil)
	default:
		c.Return(k, v)
	}
	return nil
}

var ipairsStep = NewFunc("ipairs_aux", func(c *Call) error {
	i, err := c.check32(1)
	if err != nil {
		return err
	}
	t, err := c.CheckTable(0)
	if err != nil {
		return err
	}
	if v := t.GetInt(i + 1); !v.IsNil() {
		c.Return(Number(float64(i+1)), v)
	}
	return nil
})

var baseFunctions []goFunction

func init() {
	baseFunctions = functions(
		"assert", baseAssert,
		"collectgarbage", baseCollect,
		"error", baseError,
		"gcinfo", baseGCInfo,
		"getfenv", baseGetfenv,
		"getmetatable", baseGetmetatable,
		"ipairs", baseIpairs,
		"load", baseLoad,
		"loadstring", baseLoadstring,
		"newproxy", baseNewproxy,
		"pairs", basePairs,
		"pcall", basePcall,
		"rawequal", baseRawequal,
		"rawget", baseRawget,
		"rawset", baseRawset,
		"select", baseSelect,
		"setfenv", baseSetfenv,
		"setmetatable", baseSetmetatable,
		"tonumber", baseTonumber,
		"tostring", baseTostring,
		"type", baseType,
		"unpack", baseUnpack,
		"xpcall", baseXpcall,
	)
}

func baseAssert(c *Call) error {
	v, err := c.CheckAny(0)
	if err != nil {
		return err
	}
	if !v.Truth() {
		msg, err := c.optString(1, "assertion failed!")
		if err != nil {
			return err
		}
		return c.th.errorAt(1, msg)
	}
	c.Return(c.args...)
	return nil
}

func baseError(c *Call) error {
	level, err := c.opt32(1, 1)
	if err != nil {
		return err
	}
	v := c.Arg(0)
	e := c.th.errorAt(1, "")
	if v.isNumber() {
		// A number becomes a string when a place is put before it.
		if s, _ := v.ToString(); level > 0 {
			v = String(s)
		}
	}
	if v.isString() && level > 0 {
		if chunk, line := c.Where(level); chunk != "" || line > 0 {
			c.st.used += int64(textLen(v)) // the next allocation notices
			v = String(place(chunk, line) + v.str())
		}
	}
	e.Value = v
	return e
}

func basePairs(c *Call) error {
	if _, err := c.CheckTable(0); err != nil {
		return err
	}
	c.Return(pairsStep, c.args[0], Nil)
	return nil
}

func baseIpairs(c *Call) error {
	if _, err := c.CheckTable(0); err != nil {
		return err
	}
	c.Return(ipairsStep, c.args[0], Number(0))
	return nil
}

func baseGetmetatable(c *Call) error {
	v, err := c.CheckAny(0)
	if err != nil {
		return err
	}
	m := c.st.metatable(v)
	if m == nil {
		c.Return(Nil)
		return nil
	}
	if f := m.GetStr("__metatable"); !f.IsNil() {
		c.Return(f)
	} else {
		c.Return(m.Value())
	}
	return nil
}

func baseSetmetatable(c *Call) error {
	t, err := c.CheckTable(0)
	if err != nil {
		return err
	}
	v := c.Arg(1)
	if len(c.args) < 2 || (!v.IsNil() && !v.isTable()) {
		return c.ArgError(1, "nil or table expected")
	}
	if t.meta != nil && !t.meta.GetStr("__metatable").IsNil() {
		return c.Errorf("cannot change a protected metatable")
	}
	if t.ro {
		return errReadonly
	}
	t.meta = v.Table()
	c.Return(c.args[0])
	return nil
}

func baseRawequal(c *Call) error {
	for i := range 2 {
		if _, err := c.CheckAny(i); err != nil {
			return err
		}
	}
	c.Return(Bool(RawEqual(c.args[0], c.args[1])))
	return nil
}

func baseRawget(c *Call) error {
	t, err := c.CheckTable(0)
	if err != nil {
		return err
	}
	k, err := c.CheckAny(1)
	if err != nil {
		return err
	}
	c.Return(t.Get(k))
	return nil
}

func baseRawset(c *Call) error {
	t, err := c.CheckTable(0)
	if err != nil {
		return err
	}
	for i := 1; i < 3; i++ {
		if _, err := c.CheckAny(i); err != nil {
			return err
		}
	}
	c.Return(c.args[0])
	return t.Set(c.args[1], c.args[2])
}

func baseSelect(c *Call) error {
	n := len(c.args)
	if v := c.Arg(0); v.isString() && strings.HasPrefix(v.str(), "#") {
		c.Return(Number(float64(n - 1)))
		return nil
	}
	i, err := c.check32(0)
	if err != nil {
		return err
	}
	if i < 0 {
		i += n
	} else if i > n {
		i = n
	}
	if i < 1 {
		return c.ArgError(0, "index out of range")
	}
	c.Return(c.args[i:]...)
	return nil
}

func baseTonumber(c *Call) error {
	base, err := c.opt32(1, 10)
	if err != nil {
		return err
	}
	if base == 10 {
		v, err := c.CheckAny(0)
		if err != nil {
			return err
		}
		c.st.left -= textLen(v)
		if f, ok := v.ToNumber(); ok {
			c.Return(Number(f))
			return nil
		}
		c.Return(Nil)
		return nil
	}
	s, err := c.CheckString(0)
	if err != nil {
		return err
	}
	if base < 2 || base > 36 {
		return c.ArgError(1, "base out of range")
	}
	c.st.left -= len(s)
	if f, ok := parseBase(s, base); ok {
		c.Return(Number(f))
	} else {
		c.Return(Nil)
	}
	return nil
}

// parseBase reads an integer as C's strtoul does.
func parseBase(s string, base int) (float64, bool) {
	s = strings.Trim(cutNUL(s), " \t\n\v\f\r")
	neg := strings.HasPrefix(s, "-")
	if neg || strings.HasPrefix(s, "+") {
		s = s[1:]
	}
	if base == 16 && len(s) > 2 && s[0] == '0' && s[1]|0x20 == 'x' {
		s = s[2:]
	}
	if s == "" {
		return 0, false
	}
	n, over := uint64(0), false
	for i := range len(s) {
		d := 99
		switch b := s[i]; {
		case isDigit(b):
			d = int(b - '0')
		case b|0x20 >= 'a' && b|0x20 <= 'z':
			d = int(b|0x20-'a') + 10
		}
		if d >= base {
			return 0, false
		}
		if n > (1<<64-1-uint64(d))/uint64(base) {
			over = true
		}
		n = n*uint64(base) + uint64(d)
	}
	if over {
		n = 1<<64 - 1
	} else if neg {
		n = -n
	}
	return float64(n), true
}

func baseTostring(c *Call) error {
	v, err := c.CheckAny(0)
	if err != nil {
		return err
	}
	if m := c.st.metatable(v); m != nil {
		if tm := m.GetStr("__tostring"); !tm.IsNil() {
			v, err := c.call1(tm, v)
			if err != nil {
				return err
			}
			c.Return(v)
			return nil
		}
	}
	if v.isNumber() {
		if err := c.st.allocString(24); err != nil {
			return err
		}
	}
	c.Return(String(v.describe()))
	return nil
}

// describe returns what tostring does without metamethods.
func (v Value) describe() string {
	if s, ok := v.ToString(); ok {
		return s
	}
	id := uint32(0)
	switch v.Kind() {
	case KindNil:
		return "nil"
	case KindBool:
		if v.Truth() {
			return "true"
		}
		return "false"
	case KindTable:
		id = v.table().id
	case KindFunction:
		id = v.fn().id
	case KindThread:
		id = v.thread().id
	case KindUserdata:
		if v.p == nil {
			return "userdata: (nil)"
		}
		id = v.userdata().id
	}
	return fmt.Sprintf("%s: 0x7f%010x", v.TypeName(), address(id))
}

func baseType(c *Call) error {
	v, err := c.CheckAny(0)
	if err != nil {
		return err
	}
	c.Return(String(v.TypeName()))
	return nil
}

func baseUnpack(c *Call) error {
	t, err := c.CheckTable(0)
	if err != nil {
		return err
	}
	from, err := c.opt32(1, 1)
	if err != nil {
		return err
	}
	to, err := c.opt32(2, t.Len())
	if err != nil {
		return err
	}
	if from > to {
		return nil
	}
	n := to - from + 1
	if n > maxResults+3-len(c.args) { // arguments take their place, too
		return c.Errorf("too many results to unpack")
	}
	if err := c.st.Work(n); err != nil {
		return err
	}
	if err := c.grow(n); err != nil {
		return err
	}
	for i := from; i <= to; i++ {
		c.rets = append(c.rets, t.GetInt(i))
	}
	return nil
}
