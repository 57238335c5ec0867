package lua

import "strings"

var stringFunctions []goFunction

func init() {
	stringFunctions = functions(
		"byte", stringByte,
		"char", stringChar,
		"dump", stringDump,
		"find", func(c *Call) error { return c.findMatch(true) },
		"format", stringFormat,
		"gfind", stringGmatch, // its name in Lua 5.0
		"gmatch", stringGmatch,
		"gsub", stringGsub,
		"len", stringLength,
		"lower", func(c *Call) error { return c.mapBytes('A', 'Z') },
		"match", func(c *Call) error { return c.findMatch(false) },
		"rep", stringRep,
		"reverse", stringReverse,
		"sub", stringSub,
		"upper", func(c *Call) error { return c.mapBytes('a', 'z') },
	)
}

// relative returns a position that may count from the end.
func relative(pos, n int) int {
	if pos < 0 {
		pos += n + 1
	}
	return max(pos, 0)
}

func stringLength(c *Call) error {
	s, err := c.CheckString(0)
	if err != nil {
		return err
	}
	c.Return(Number(float64(len(s))))
	return nil
}

func stringSub(c *Call) error {
	s, err := c.CheckString(0)
	if err != nil {
		return err
	}
	from, err := c.CheckInt(1)
	if err != nil {
		return err
	}
	to, err := c.OptInt(2, -1)
	if err != nil {
		return err
	}
	from, to = max(relative(from, len(s)), 1), min(relative(to, len(s)), len(s))
	if from > to {
		c.Return(String(""))
		return nil
	}
	if to-from+1 == len(s) {
		c.Return(String(s))
		return nil
	}
	v, err := c.st.newString(s[from-1 : to])
	c.Return(v)
	return err
}

func stringReverse(c *Call) error {
	s, err := c.CheckString(0)
	if err != nil {
		return err
	}
	out, err := c.newBytes(len(s))
	if err != nil {
		return err
	}
	for i := range len(s) {
		out[len(s)-1-i] = s[i]
	}
	c.Return(bytesValue(out))
	return nil
}

// newBytes counts and makes n bytes, and the work to fill them.
func (c *Call) newBytes(n int) ([]byte, error) {
	if err := c.st.Work(n >> 3); err != nil {
		return nil, err
	}
	if err := c.st.allocString(n); err != nil {
		return nil, err
	}
	return make([]byte, n), nil
}

// mapBytes changes the case of the letters from lo to hi.
func (c *Call) mapBytes(lo, hi byte) error {
	s, err := c.CheckString(0)
	if err != nil {
		return err
	}
	out, err := c.newBytes(len(s))
	if err != nil {
		return err
	}
	for i := range len(s) {
		b := s[i]
		if b >= lo && b <= hi {
			b ^= 0x20
		}
		out[i] = b
	}
	c.Return(bytesValue(out))
	return nil
}

func stringRep(c *Call) error {
	s, err := c.CheckString(0)
	if err != nil {
		return err
	}
	n, err := c.check32(1)
	if err != nil {
		return err
	}
	if n <= 0 || s == "" {
		c.Return(String(""))
		return c.st.Work(max(n, 0) >> 6)
	}
	size := n * len(s)
	if size > maxString {
		return c.Errorf("resulting string too large")
	}
	if err := c.st.Work(size >> 3); err != nil {
		return err
	}
	if err := c.st.allocString(size); err != nil {
		return err
	}
	c.Return(String(strings.Repeat(s, n)))
	return nil
}

// maxString keeps lengths within what a Value can say, limit or not.
const maxString = 1 << 40

func stringByte(c *Call) error {
	s, err := c.CheckString(0)
	if err != nil {
		return err
	}
	from, err := c.OptInt(1, 1)
	if err != nil {
		return err
	}
	from = relative(from, len(s))
	to, err := c.OptInt(2, from)
	if err != nil {
		return err
	}
	from, to = max(from, 1), min(relative(to, len(s)), len(s))
	if from > to {
		return nil
	}
	n := to - from + 1
	if n > maxResults {
		return c.Errorf("stack overflow (string slice too long)")
	}
	if err := c.st.Work(n); err != nil {
		return err
	}
	if err := c.grow(n); err != nil {
		return err
	}
	for _, b := range []byte(s[from-1 : to]) {
		c.rets = append(c.rets, Number(float64(b)))
	}
	return nil
}

func stringChar(c *Call) error {
	out, err := c.newBytes(len(c.args))
	if err != nil {
		return err
	}
	for i := range c.args {
		n, err := c.check32(i)
		if err != nil {
			return err
		}
		if n < 0 || n > 255 {
			return c.ArgError(i, "invalid value")
		}
		out[i] = byte(n)
	}
	c.Return(bytesValue(out))
	return nil
}

// stringDump returns the beginning of what Lua would give. Nothing can be done with
// it: as in Redis, load takes no binary code.
func stringDump(c *Call) error {
	fn, err := c.checkFunction(0)
	if err != nil {
		return err
	}
	if fn.fn().proto == nil {
		return c.Errorf("unable to dump given function")
	}
	c.Return(String("\x1bLuaQ"))
	return nil
}
