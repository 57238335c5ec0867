package lua

import "fmt"

// Func is a Go function that Lua code can call. It must not keep c.
type Func func(c *Call) error

// Call is one call of a Go function: its arguments and its results.
type Call struct {
	st   *State
	th   *thread
	fn   *function
	args []Value
	rets []Value
	held int64 // bytes that the function itself holds, see buffer
}

// State returns the interpreter.
func (c *Call) State() *State { return c.st }

// Len returns the number of arguments.
func (c *Call) Len() int { return len(c.args) }

// Arg returns an argument, counted from 0, or nil beyond the last.
func (c *Call) Arg(i int) Value {
	if uint(i) < uint(len(c.args)) {
		return c.args[i]
	}
	return Nil
}

// Return sets the results. A second call adds to them.
func (c *Call) Return(v ...Value) { c.rets = append(c.rets, v...) }

// SetReturn replaces result i, counted from 0.
func (c *Call) SetReturn(i int, v Value) { c.rets[i] = v }

func (c *Call) clear() {
	c.fn, c.args = nil, nil
	if cap(c.rets) > keepRets {
		c.rets = nil
		return
	}
	clear(c.rets[:cap(c.rets)])
	c.rets = c.rets[:0]
}

// keepRets is for how many results a call keeps the room.
const keepRets = 32

// Where returns the chunk and line that function number level of the callers is
// at: 1 is the function that called this one. The chunk is "" when it is no
// Lua function.
func (c *Call) Where(level int) (chunk string, line int) {
	return c.th.where(level)
}

// Errorf returns an error that begins with the place of the caller, as most
// errors of Lua's libraries do.
func (c *Call) Errorf(format string, a ...any) error {
	return c.th.errorAt(1, fmt.Sprintf(format, a...))
}

// ArgError says what is wrong with argument i, counted from 0.
func (c *Call) ArgError(i int, msg string) error {
	name, method := c.th.calledAs()
	i++
	if method {
		if i--; i == 0 {
			return c.Errorf("calling '%s' on bad self (%s)", name, msg)
		}
	}
	if name == "" {
		name = "?"
	}
	return c.Errorf("bad argument #%d to '%s' (%s)", i, name, msg)
}

// TypeError says that argument i is not what was expected.
func (c *Call) TypeError(i int, expected string) error {
	got := "no value"
	if i < len(c.args) {
		got = c.args[i].TypeName()
	}
	return c.ArgError(i, expected+" expected, got "+got)
}

// CheckString returns a string argument; numbers are converted.
func (c *Call) CheckString(i int) (string, error) {
	if s, ok := c.Arg(i).ToString(); ok {
		return s, nil
	}
	return "", c.TypeError(i, "string")
}

// CheckNumber returns a number argument; strings are converted.
func (c *Call) CheckNumber(i int) (float64, error) {
	v := c.Arg(i)
	c.st.left -= textLen(v)
	if f, ok := v.ToNumber(); ok {
		return f, nil
	}
	return 0, c.TypeError(i, "number")
}

// CheckInt returns a number argument as an integer, the fraction cut off.
func (c *Call) CheckInt(i int) (int, error) {
	f, err := c.CheckNumber(i)
	if err != nil {
		return 0, err
	}
	return toInt(f), nil
}

// OptInt is CheckInt with a value for an argument that is absent or nil.
func (c *Call) OptInt(i, def int) (int, error) {
	if c.Arg(i).IsNil() {
		return def, nil
	}
	return c.CheckInt(i)
}

// CheckTable returns a table argument.
func (c *Call) CheckTable(i int) (*Table, error) {
	if v := c.Arg(i); v.isTable() {
		return v.table(), nil
	}
	return nil, c.TypeError(i, "table")
}

// CheckAny wants an argument, be it nil.
func (c *Call) CheckAny(i int) (Value, error) {
	if i >= len(c.args) {
		return Nil, c.ArgError(i, "value expected")
	}
	return c.args[i], nil
}

// toInt converts as a C compiler does for this machine: what does not fit
// becomes the smallest integer.
func toInt(f float64) int {
	if f >= -9223372036854775808 && f < 9223372036854775808 {
		return int(f)
	}
	return -1 << 63
}
