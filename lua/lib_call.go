package lua

import (
	"strings"
	"unsafe"
)

// Functions of the base library that call, load and look at functions.

// maxResults is how many values a Go function may return.
const maxResults = 7997

// grow makes room for n results, counted.
func (c *Call) grow(n int) error {
	if cap(c.rets)-len(c.rets) >= n {
		return nil
	}
	if err := c.st.alloc(int64(n) * valueSize); err != nil {
		return err
	}
	rets := make([]Value, len(c.rets), len(c.rets)+n)
	copy(rets, c.rets)
	c.rets = rets
	return nil
}

// call1 calls a function for its first result.
func (c *Call) call1(fn Value, args ...Value) (Value, error) {
	r, err := c.st.Call(fn, args...)
	if err != nil || len(r) == 0 {
		return Nil, err
	}
	return r[0], nil
}

// basePcall is Redis's pcall: of an error that is a table with a field err, which
// redis.call raises, it returns that field.
func basePcall(c *Call) error {
	if _, err := c.CheckAny(0); err != nil {
		return err
	}
	r, err := c.st.Call(c.args[0], c.args[1:]...)
	if err == nil {
		return c.succeeded(r)
	}
	if _, ok := fatal(err); ok {
		return err
	}
	v := errorValue(err)
	if !v.isTable() {
		c.Return(Bool(false), v)
		return nil
	}
	field, err := c.th.index(v, String("err"), -1)
	if err != nil {
		return err
	}
	if concatenable(field) {
		c.Return(Bool(false), field)
	} else {
		c.Return(Bool(false), v, field) // Redis leaves it there
	}
	return nil
}

// succeeded returns what a protected call gives that raised no error: true, and the
// results of what was called.
func (c *Call) succeeded(r []Value) error {
	if err := c.grow(len(r) + 1); err != nil {
		return err
	}
	c.Return(Bool(true))
	c.Return(r...)
	return nil
}

func baseXpcall(c *Call) error {
	handler, err := c.CheckAny(1)
	if err != nil {
		return err
	}
	r, err := c.st.Call(c.args[0])
	if err == nil {
		return c.succeeded(r)
	}
	if _, ok := fatal(err); ok {
		return err
	}
	v, err := c.call1(handler, errorValue(err))
	if err != nil {
		if _, ok := fatal(err); ok {
			return err
		}
		v = String("error in error handling")
	}
	c.Return(Bool(false), v)
	return nil
}

func baseLoadstring(c *Call) error {
	src, err := c.CheckString(0)
	if err != nil {
		return err
	}
	name, err := c.optString(1, src)
	if err != nil {
		return err
	}
	return c.load(src, name)
}

func baseLoad(c *Call) error {
	name, err := c.optString(1, "=(load)")
	if err != nil {
		return err
	}
	fn, err := c.checkFunction(0)
	if err != nil {
		return err
	}
	src := buffer{c: c}
	defer src.done()
	for {
		v, err := c.call1(fn)
		if err != nil {
			if _, ok := fatal(err); ok {
				return err
			}
			c.Return(Nil, errorValue(err))
			return nil
		}
		if v.IsNil() {
			break
		}
		s, ok := v.ToString()
		if !ok {
			c.Return(Nil, errorValue(c.Errorf("reader function must return a string")))
			return nil
		}
		if s == "" {
			break
		}
		if err := src.add(s); err != nil {
			return err
		}
	}
	return c.load(string(src.b), name)
}

// load compiles a chunk of the script's own making. Its memory is counted
// before: what the compiler makes is at most some sixty times the source.
func (c *Call) load(src, name string) error {
	if err := c.st.Work(len(src)); err != nil {
		return err
	}
	if err := c.st.alloc(int64(len(src)) * 64); err != nil {
		return err
	}
	p, err := compile(src, chunkID(name, syntaxID), chunkID(name, runtimeID), c.st.depth)
	if err != nil {
		c.Return(Nil, String(err.Error()))
		return nil
	}
	p.counted = true
	fn := c.st.Load(p)
	fn.fn().env = c.th.globals()
	c.Return(fn)
	return nil
}

// How long the name of a chunk may be, in errors of the compiler and of the VM.
const (
	syntaxID  = 80
	runtimeID = 60
)

// chunkID makes of a chunk's name what error texts begin with.
func chunkID(name string, size int) string {
	name = cutNUL(name)
	switch {
	case strings.HasPrefix(name, "="):
		return name[1:min(len(name), size)]
	case strings.HasPrefix(name, "@"):
		name = name[1:]
		if room := size - 8; len(name) > room {
			return "..." + name[len(name)-room:]
		}
		return name
	}
	room := size - len(` [string "..."] `) - 1
	line := name
	if i := strings.IndexAny(name, "\n\r"); i >= 0 {
		line = name[:i]
	}
	if len(line) > room {
		return `[string "` + line[:room] + `..."]`
	}
	if len(line) < len(name) {
		return `[string "` + line + `..."]`
	}
	return `[string "` + line + `"]`
}

// functionArg finds the function that getfenv and setfenv mean; nil is the
// thread itself.
func (c *Call) functionArg(optional bool) (*function, error) {
	if v := c.Arg(0); v.isFunction() {
		return v.fn(), nil
	}
	level, err := 1, error(nil)
	if !optional || !c.Arg(0).IsNil() {
		level, err = c.check32(0)
	}
	if err != nil {
		return nil, err
	}
	if level < 0 {
		return nil, c.ArgError(0, "level must be non-negative")
	}
	fr, lost := c.th.level(level)
	if lost {
		return nil, c.Errorf("no function environment for tail call at level %d", level)
	}
	if fr == nil {
		return nil, c.ArgError(0, "invalid level")
	}
	return fr.fn, nil
}

func baseGetfenv(c *Call) error {
	fn, err := c.functionArg(true)
	if err != nil {
		return err
	}
	if fn.proto == nil {
		c.Return(c.th.globals().Value())
	} else {
		c.Return(fn.env.Value())
	}
	return nil
}

func baseSetfenv(c *Call) error {
	t, err := c.CheckTable(1)
	if err != nil {
		return err
	}
	fn, err := c.functionArg(false)
	if err != nil {
		return err
	}
	if f, ok := c.Arg(0).ToNumber(); ok && f == 0 {
		c.th.env = t
		return nil
	}
	if fn.proto == nil {
		return c.Errorf("'setfenv' cannot change environment of given object")
	}
	fn.env = t
	if v := c.Arg(0); v.isFunction() {
		c.Return(v)
	} else {
		c.Return(functionValue(fn))
	}
	return nil
}

var collectOptions = []string{"stop", "restart", "collect", "count", "step", "setpause", "setstepmul"}

// baseCollect does nothing: Go collects.
func baseCollect(c *Call) error {
	opt, err := c.optString(0, "collect")
	if err != nil {
		return err
	}
	if _, err := c.opt32(1, 0); err != nil {
		return err
	}
	for _, o := range collectOptions {
		if o != opt {
			continue
		}
		switch opt {
		case "count":
			c.Return(Number(float64(c.st.used) / 1024))
		case "step":
			c.Return(Bool(true))
		case "setpause", "setstepmul":
			c.Return(Number(200))
		default:
			c.Return(Number(0))
		}
		return nil
	}
	return c.ArgError(0, "invalid option '"+cutNUL(opt)+"'")
}

func baseGCInfo(c *Call) error {
	c.Return(Number(float64(c.st.used / 1024)))
	return nil
}

// baseNewproxy makes a userdata: without a metatable, with a new one, or with
// that of another proxy.
func baseNewproxy(c *Call) error {
	s := c.st
	if err := s.alloc(32); err != nil {
		return err
	}
	s.ids++
	u := &userdata{id: s.ids}
	switch v := c.Arg(0); {
	case !v.Truth():
	case v.Kind() == KindBool:
		t, err := s.newTable(0, 0)
		if err != nil {
			return err
		}
		u.meta = t
	case v.Kind() == KindUserdata && v.p != nil && v.userdata().meta != nil:
		u.meta = v.userdata().meta
	default:
		return c.ArgError(0, "boolean or proxy expected")
	}
	c.Return(Value{unsafe.Pointer(u), uint64(KindUserdata)})
	return nil
}
