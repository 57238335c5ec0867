package script

import (
	"bytes"
	"math"
	"strconv"

	"redoubt/lua"
)

// parser converts replies to Lua values. Replies come from this server's commands, so
// they are well-formed.
type parser struct {
	st  *state
	b   []byte
	err error // set when the script holds too much memory
}

// line takes the rest of a line.
func (p *parser) line() []byte {
	i := bytes.IndexByte(p.b, '\r')
	if i < 0 {
		i = len(p.b)
	}
	l := p.b[:i]
	p.b = p.b[min(i+2, len(p.b)):]
	return l
}

func (p *parser) int() int {
	l := p.line()
	if len(l) == 1 {
		return int(l[0] - '0')
	}
	n, _ := strconv.Atoi(string(l)) // does not allocate
	return n
}

// text makes a Lua string.
func (p *parser) text(b []byte) lua.Value {
	if err := p.st.Alloc(len(b)); err != nil {
		p.err = err
		return lua.Nil
	}
	return lua.String(string(b))
}

// take takes n bytes and the end of the line behind them.
func (p *parser) take(n int) []byte {
	n = min(n, len(p.b))
	s := p.b[:n]
	p.b = p.b[min(n+2, len(p.b)):]
	return s
}

// value takes one reply.
func (p *parser) value() lua.Value {
	if len(p.b) == 0 || p.err != nil {
		return lua.Nil
	}
	kind := p.b[0]
	p.b = p.b[1:]
	switch kind {
	case '$':
		n := p.int()
		if n < 0 {
			return lua.Bool(false)
		}
		return p.text(p.take(n))
	case ':':
		l := p.line()
		n, _ := strconv.ParseInt(string(l), 10, 64)
		return lua.Number(float64(n))
	case '+':
		return p.field("ok", p.text(p.line()))
	case '-':
		t := p.st.errorTable(coded(string(p.line())))
		p.note(t.SetStr("ignore_error_stats_update", lua.Bool(true)))
		return t.Value()
	case '_':
		p.line()
		return lua.Nil
	case '#':
		return lua.Bool(string(p.line()) == "t")
	case ',':
		return p.field("double", lua.Number(parseDouble(p.line())))
	case '(':
		return p.field("big_number", p.text(p.line()))
	case '=':
		s := p.take(p.int())
		t := p.st.NewTable(0, 2)
		p.note(t.SetStr("string", p.text(s[min(4, len(s)):])))
		p.note(t.SetStr("format", p.text(s[:min(3, len(s))])))
		return p.field("verbatim_string", t.Value())
	case '%':
		n := p.int()
		t := p.st.NewTable(0, n)
		for range n {
			k, v := p.value(), p.value()
			if !k.IsNil() {
				p.note(t.Set(k, v))
			}
		}
		return p.field("map", t.Value())
	case '~':
		n := p.int()
		t := p.st.NewTable(0, n)
		for range n {
			if k := p.value(); !k.IsNil() {
				p.note(t.Set(k, lua.Bool(true)))
			}
		}
		return p.field("set", t.Value())
	case '|': // attributes are not shown
		for range 2 * p.int() {
			p.value()
		}
		return p.value()
	}
	return p.array() // also for push messages
}

func (p *parser) array() lua.Value {
	n := p.int()
	if n < 0 {
		return lua.Bool(false)
	}
	t := p.st.NewTable(n, 0)
	for i := 1; i <= n && p.err == nil; i++ {
		if v := p.value(); !v.IsNil() {
			p.note(t.SetInt(i, v))
		}
	}
	return t.Value()
}

// field makes a table of one field, the form of replies for which Lua has no type.
func (p *parser) field(name string, v lua.Value) lua.Value {
	t := p.st.NewTable(0, 1)
	p.note(t.SetStr(name, v))
	return t.Value()
}

func (p *parser) note(err error) {
	if p.err == nil {
		p.err = err
	}
}

func parseDouble(b []byte) float64 {
	switch string(b) {
	case "inf":
		return math.Inf(1)
	case "-inf":
		return math.Inf(-1)
	case "nan", "-nan":
		return math.NaN()
	}
	f, _ := strconv.ParseFloat(string(b), 64)
	return f
}
