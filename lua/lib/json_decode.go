package lib

import (
	"strings"
	"unicode/utf8"

	"redoubt/lua"
)

// Decoding knows tokens and three contexts: a value, an object, an array. A
// token that is none has its error in it, since what was expected in its place
// belongs into the message, too.

type tokenKind int

const (
	tokenObject tokenKind = iota
	tokenObjectEnd
	tokenArray
	tokenArrayEnd
	tokenString
	tokenNumber
	tokenBool
	tokenNull
	tokenColon
	tokenComma
	tokenEnd
	tokenError
)

// tokenNames are how errors call a token.
var tokenNames = [...]string{
	"T_OBJ_BEGIN", "T_OBJ_END", "T_ARR_BEGIN", "T_ARR_END", "T_STRING", "T_NUMBER", "T_BOOLEAN", "T_NULL",
	"T_COLON", "T_COMMA", "T_END",
}

type token struct {
	kind tokenKind
	at   int    // where it begins, from 0; where it is wrong, if it is
	text string // of an error; of a string while it is part of the input
	num  float64
	yes  bool
}

type decoder struct {
	pace
	c       *lua.Call
	s       *lua.State
	set     *settings
	data    string
	pos     int
	tmp     []byte // of a string with escapes
	escaped bool   // the last string is in tmp
	depth   int32
	slots   int // what the C code would have on its stack
	keys    [32]lua.Value
}

// decode is cjson.decode.
func (set *settings) decode(c *lua.Call) error {
	if c.Len() != 1 {
		return c.ArgError(0, "expected 1 argument")
	}
	data, err := c.CheckString(0)
	if err != nil {
		return err
	}
	if len(data) >= 2 && (data[0] == 0 || data[1] == 0) {
		return c.Errorf("JSON parser does not support UTF-16 or UTF-32")
	}
	d := &decoder{c: c, s: c.State(), set: set, data: cString(data), slots: 1}
	tok := d.next()
	v, err := d.value(tok)
	if err != nil {
		return err
	}
	c.Return(v)
	if err := d.fill(tok, v); err != nil {
		return err
	}
	if t := d.next(); t.kind != tokenEnd {
		return d.unexpected("the end", t)
	}
	return nil
}

func (d *decoder) unexpected(want string, t token) error {
	found := t.text
	if t.kind != tokenError {
		found = tokenNames[t.kind]
	}
	return d.c.Errorf("Expected %s but found %s at character %d", want, found, t.at+1)
}

// value returns the value that begins with a token. An object or an array is
// empty: whoever asked puts it in its place and then has it filled, so that the
// accounts of memory see it grow.
func (d *decoder) value(t token) (lua.Value, error) {
	if err := d.step(d.s); err != nil {
		return lua.Nil, err
	}
	switch t.kind {
	case tokenString:
		return d.text(t)
	case tokenNumber:
		return lua.Number(t.num), nil
	case tokenBool:
		return lua.Bool(t.yes), nil
	case tokenNull:
		return lua.Null, nil
	case tokenObject:
		return d.descend(3)
	case tokenArray:
		return d.descend(2)
	}
	return lua.Nil, d.unexpected("value", t)
}

// descend begins a table, for which the C code needs some slots.
func (d *decoder) descend(slots int) (lua.Value, error) {
	d.depth++
	if d.depth > d.set.decodeDepth || d.slots+slots > maxStack {
		return lua.Nil, d.c.Errorf("Found too many nested data structures (%d) at character %d", d.depth, d.pos)
	}
	t, err := newTable(d.s)
	if err != nil {
		return lua.Nil, err
	}
	return t.Value(), nil
}

// fill reads the rest of an object or an array; other values have none.
func (d *decoder) fill(t token, v lua.Value) error {
	switch t.kind {
	case tokenObject:
		d.slots += 2
		if err := d.object(v.Table()); err != nil {
			return err
		}
		d.slots -= 2
		d.depth--
	case tokenArray:
		d.slots++
		if err := d.array(v.Table()); err != nil {
			return err
		}
		d.slots--
		d.depth--
	}
	return nil
}

func (d *decoder) object(into *lua.Table) error {
	t := d.next()
	if t.kind == tokenObjectEnd {
		return nil
	}
	for {
		if t.kind != tokenString {
			return d.unexpected("object key string", t)
		}
		key, err := d.key(t)
		if err != nil {
			return err
		}
		if t = d.next(); t.kind != tokenColon {
			return d.unexpected("colon", t)
		}
		t = d.next()
		v, err := d.value(t)
		if err != nil {
			return err
		}
		if err := into.Set(key, v); err != nil {
			return err
		}
		if err := d.fill(t, v); err != nil {
			return err
		}
		if t = d.next(); t.kind == tokenObjectEnd {
			return nil
		}
		if t.kind != tokenComma {
			return d.unexpected("comma or object end", t)
		}
		t = d.next()
	}
}

func (d *decoder) array(into *lua.Table) error {
	t := d.next()
	if t.kind == tokenArrayEnd {
		return nil
	}
	for i := 1; ; i++ {
		v, err := d.value(t)
		if err != nil {
			return err
		}
		if err := into.SetInt(i, v); err != nil {
			return err
		}
		if err := d.fill(t, v); err != nil {
			return err
		}
		if t = d.next(); t.kind == tokenArrayEnd {
			return nil
		}
		if t.kind != tokenComma {
			return d.unexpected("comma or array end", t)
		}
		t = d.next()
	}
}

// key returns the string of a token that names a field. Objects of one document
// tend to have the same ones, so the last ones are kept.
func (d *decoder) key(t token) (lua.Value, error) {
	n := len(t.text)
	if d.escaped || n == 0 || n > 40 {
		return d.text(t)
	}
	known := &d.keys[(n*7+int(t.text[0])+int(t.text[n-1])*3)%len(d.keys)]
	if known.Str() == t.text {
		return *known, nil
	}
	v, err := d.text(t)
	*known = v
	return v, err
}

// text returns the string of a token, which must be the last one read.
func (d *decoder) text(t token) (lua.Value, error) {
	if d.escaped {
		if err := d.s.Alloc(len(d.tmp)); err != nil {
			return lua.Nil, err
		}
		return lua.String(string(d.tmp)), nil
	}
	if err := d.s.Alloc(len(t.text)); err != nil {
		return lua.Nil, err
	}
	return lua.String(strings.Clone(t.text)), nil // the part alone would keep all of the input
}

// peek returns a byte ahead, 0 beyond the end.
func (d *decoder) peek(n int) byte {
	if d.pos+n < len(d.data) {
		return d.data[d.pos+n]
	}
	return 0
}

func (d *decoder) next() token {
	for d.pos < len(d.data) && (d.data[d.pos] == ' ' || d.data[d.pos] == '\t' || d.data[d.pos] == '\n' || d.data[d.pos] == '\r') {
		d.pos++
	}
	t := token{at: d.pos}
	if d.pos == len(d.data) {
		t.kind = tokenEnd
		return t
	}
	rest := d.data[d.pos:]
	n := 1
	switch c := rest[0]; {
	case c == '{':
		t.kind = tokenObject
	case c == '}':
		t.kind = tokenObjectEnd
	case c == '[':
		t.kind = tokenArray
	case c == ']':
		t.kind = tokenArrayEnd
	case c == ',':
		t.kind = tokenComma
	case c == ':':
		t.kind = tokenColon
	case c == '"':
		return d.str()
	case c == '-' || isDigit(c):
		if !d.set.decodeLoose && looseNumber(rest) {
			return d.wrong("invalid number")
		}
		return d.number()
	case strings.HasPrefix(rest, "true"):
		t.kind, t.yes, n = tokenBool, true, 4
	case strings.HasPrefix(rest, "false"):
		t.kind, n = tokenBool, 5
	case strings.HasPrefix(rest, "null"):
		t.kind, n = tokenNull, 4
	case d.set.decodeLoose && looseNumber(rest):
		return d.number()
	default:
		return d.wrong("invalid token")
	}
	d.pos += n
	return t
}

func (d *decoder) wrong(how string) token { return token{kind: tokenError, at: d.pos, text: how} }

func (d *decoder) number() token {
	f, n := readNumber(d.data[d.pos:])
	if n == 0 {
		return d.wrong("invalid number")
	}
	t := token{kind: tokenNumber, at: d.pos, num: f}
	d.pos += n
	return t
}

// str reads a string. One without escapes stays where it is until its token is used.
func (d *decoder) str() token {
	t := token{kind: tokenString, at: d.pos}
	d.pos++
	d.escaped = false
	rest := d.data[d.pos:]
	plain := strings.IndexByte(rest, '"')
	if plain >= 0 && strings.IndexByte(rest[:plain], '\\') < 0 {
		t.text = rest[:plain]
		d.pos += plain + 1
		return t
	}
	d.escaped = true
	d.tmp = d.tmp[:0]
	for {
		c := d.peek(0)
		switch c {
		case '"':
			d.pos++
			return t
		case 0:
			return d.wrong("unexpected end of string")
		case '\\':
			e := d.peek(1)
			if e == 'u' {
				if !d.unicode() {
					return d.wrong("invalid unicode escape code")
				}
				continue
			}
			i := strings.IndexByte(`"\/btnfr`, e)
			if e == 0 || i < 0 {
				return d.wrong("invalid escape code")
			}
			c = "\"\\/\b\t\n\f\r"[i]
			d.pos++
		}
		d.tmp = append(d.tmp, c)
		d.pos++
	}
}

// unicode reads \uXXXX, or a pair of them that is one character beyond the
// first 65,536. Half a pair is an error.
func (d *decoder) unicode() bool {
	r, ok := d.hex(2)
	if !ok {
		return false
	}
	n := 6
	if r&0xf800 == 0xd800 {
		if r&0x400 != 0 || d.peek(6) != '\\' || d.peek(7) != 'u' {
			return false
		}
		low, ok := d.hex(8)
		if !ok || low&0xfc00 != 0xdc00 {
			return false
		}
		r = (r&0x3ff)<<10 + low&0x3ff + 0x10000
		n = 12
	}
	d.tmp = utf8.AppendRune(d.tmp, r)
	d.pos += n
	return true
}

func (d *decoder) hex(at int) (r rune, ok bool) {
	for i := range 4 {
		c := d.peek(at + i)
		switch {
		case isDigit(c):
			r = r<<4 | rune(c-'0')
		case isHex(c):
			r = r<<4 | rune(c|0x20-'a'+10)
		default:
			return 0, false
		}
	}
	return r, true
}
