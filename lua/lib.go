package lua

// openLibraries fills the globals. As in Redis these are missing: io, os except
// os.clock, package, debug, print, dofile, loadfile.
func (s *State) openLibraries() {
	g := s.globals
	s.field(g, "_G", g.Value())
	s.field(g, "_VERSION", String("Lua 5.1"))
	s.register(g, baseFunctions)
	s.field(g, "next", nextFunction)
	s.library("table", tableFunctions)
	str := s.library("string", stringFunctions)
	s.strings = s.NewTable(0, 1)
	s.field(s.strings, "__index", str.Value())
	m := s.library("math", mathFunctions)
	for name, f := range mathConstants {
		s.field(m, name, Number(f))
	}
	s.library("coroutine", coroutineFunctions)
	s.library("os", osFunctions)
	s.random.seed(0)
}

// goFunction is an entry of a library. The functions are made once and shared
// by all states.
type goFunction struct {
	name string
	fn   Value
}

func functions(list ...any) []goFunction {
	out := make([]goFunction, 0, len(list)/2)
	for i := 0; i < len(list); i += 2 {
		name := list[i].(string)
		out = append(out, goFunction{name, NewFunc(name, list[i+1].(func(*Call) error))})
	}
	return out
}

func (s *State) register(t *Table, fns []goFunction) {
	for _, f := range fns {
		s.field(t, f.name, f.fn)
	}
}

func (s *State) library(name string, fns []goFunction) *Table {
	t := s.NewTable(0, len(fns)+2)
	s.register(t, fns)
	s.field(s.globals, name, t.Value())
	return t
}

// field sets a field while no limit holds yet, so that it cannot fail.
func (s *State) field(t *Table, name string, v Value) { _ = t.set(String(name), v) }

// check32 is CheckInt for what is an int in C: the upper half is lost.
func (c *Call) check32(i int) (int, error) {
	n, err := c.CheckInt(i)
	return int(int32(n)), err
}

func (c *Call) opt32(i, def int) (int, error) {
	if c.Arg(i).IsNil() {
		return int(int32(def)), nil
	}
	return c.check32(i)
}

func (c *Call) optString(i int, def string) (string, error) {
	if c.Arg(i).IsNil() {
		return def, nil
	}
	return c.CheckString(i)
}

func (c *Call) checkFunction(i int) (Value, error) {
	if v := c.Arg(i); v.isFunction() {
		return v, nil
	}
	return Nil, c.TypeError(i, "function")
}

// buffer is a string that a library function builds. Its memory is counted
// before it is taken, and as held while the function runs.
type buffer struct {
	c *Call
	b []byte
}

// room makes sure of n more bytes.
func (b *buffer) room(n int) error {
	need := len(b.b) + n
	if need <= cap(b.b) {
		return nil
	}
	// In proportion to what there is: by fixed steps a large string would be copied
	// once per step. A quarter, since what is spare counts as held.
	size := max(need, min(2*cap(b.b), cap(b.b)+max(1<<20, cap(b.b)/4)), 64)
	if err := b.c.st.alloc(int64(size - cap(b.b))); err != nil {
		return err
	}
	b.c.held += int64(size - cap(b.b))
	grown := make([]byte, len(b.b), size)
	copy(grown, b.b)
	b.b = grown
	return b.c.st.Work((n + len(b.b)) >> 3)
}

func (b *buffer) add(s string) error {
	if err := b.room(len(s)); err != nil {
		return err
	}
	b.b = append(b.b, s...)
	return nil
}

func (b *buffer) addByte(c byte) error {
	if len(b.b) == cap(b.b) {
		if err := b.room(1); err != nil {
			return err
		}
	}
	b.b = append(b.b, c)
	return nil
}

// value returns the string. Much spare room is given back.
func (b *buffer) value() Value {
	if cap(b.b) > 64 && cap(b.b) > 2*len(b.b) {
		return String(string(b.b))
	}
	return bytesValue(b.b)
}

// newString counts and copies a part of another string: it must not keep the
// whole alive.
func (s *State) newString(part string) (Value, error) {
	s.left -= len(part) >> 6
	if err := s.allocString(len(part)); err != nil {
		return Nil, err
	}
	return bytesValue([]byte(part)), nil
}

// done says that the function does not hold the bytes any longer.
func (b *buffer) done() { b.c.held = 0 }
