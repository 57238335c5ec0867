package lib

import (
	"fmt"
	"math"
	"strconv"

	"redoubt/lua"
)

// spareSize is how large a buffer is kept for the next call of encode.
const spareSize = 64 << 10

// escapes has what a byte is printed as, where it is not printed as it is.
// The text need not be UTF-8.
var escapes = func() (all [256]string) {
	for c := range 32 {
		all[c] = fmt.Sprintf(`\u%04x`, c)
	}
	all[127] = `\u007f`
	for c, e := range map[byte]string{
		'\b': `\b`, '\t': `\t`, '\n': `\n`, '\f': `\f`, '\r': `\r`, '"': `\"`, '/': `\/`, '\\': `\\`,
	} {
		all[c] = e
	}
	return all
}()

// encode is cjson.encode.
func (set *settings) encode(c *lua.Call) error {
	if c.Len() != 1 {
		return c.ArgError(0, "expected 1 argument")
	}
	e := encoder{buffer: buffer{s: c.State(), b: set.spare[:0]}, c: c, set: set}
	if err := e.value(c.Arg(0), 0, 1); err != nil {
		return err
	}
	if cap(e.b) <= spareSize {
		set.spare = e.b
	}
	return e.result(c)
}

type encoder struct {
	buffer
	pace
	c   *lua.Call
	set *settings
}

// value appends a value at the given depth; slots is what the C code would
// have on its stack by now.
func (e *encoder) value(v lua.Value, depth int32, slots int) error {
	switch v.Kind() {
	case lua.KindString:
		return e.str(v.Str())
	case lua.KindNumber:
		return e.number(v.Num())
	case lua.KindBool:
		if v.Truth() {
			return e.text("true")
		}
		return e.text("false")
	case lua.KindNil:
		return e.text("null")
	case lua.KindTable:
		return e.table(v, depth+1, slots)
	case lua.KindUserdata:
		if lua.RawEqual(v, lua.Null) {
			return e.text("null")
		}
	}
	return e.refuse(v, "type not supported")
}

func (e *encoder) refuse(v lua.Value, why string) error {
	return e.c.Errorf("Cannot serialise %s: %s", v.TypeName(), why)
}

func (e *encoder) text(s string) error {
	if err := e.room(len(s)); err != nil {
		return err
	}
	e.b = append(e.b, s...)
	return nil
}

func (e *encoder) table(v lua.Value, depth int32, slots int) error {
	if depth > e.set.encodeDepth || slots+3 > maxStack {
		return e.c.Errorf("Cannot serialise, excessive nesting (%d)", depth)
	}
	n, err := e.arrayLength(v)
	if err != nil {
		return err
	}
	if n > 0 {
		return e.array(v.Table(), int(n), depth, slots)
	}
	return e.object(v.Table(), depth, slots)
}

// arrayLength returns the highest index of a table that has only positive
// integers for keys, and something that is not positive for any other table:
// that is an object. An empty table is one, too.
//
// The numbers are C ints: an index that does not fit turns negative, and the
// product wraps.
func (e *encoder) arrayLength(v lua.Value) (int32, error) {
	var highest, items int32
	t := v.Table()
	for k := lua.Nil; ; {
		if err := e.step(e.s); err != nil {
			return 0, err
		}
		key, _, ok, err := t.Next(k)
		if err != nil {
			return 0, err
		}
		if !ok {
			break
		}
		f := key.Num()
		if key.Kind() != lua.KindNumber || f < 1 || math.Floor(f) != f {
			return -1, nil
		}
		if f > float64(highest) {
			highest = truncate32(f)
		}
		items++
		k = key
	}
	if e.set.sparseRatio > 0 && highest > items*e.set.sparseRatio && highest > e.set.sparseSafe {
		if !e.set.sparseConvert {
			return 0, e.refuse(v, "excessively sparse array")
		}
		return -1, nil
	}
	return highest, nil
}

func (e *encoder) array(t *lua.Table, n int, depth int32, slots int) error {
	for i := 1; i <= n; i++ {
		if err := e.step(e.s); err != nil {
			return err
		}
		if err := e.room(1); err != nil {
			return err
		}
		if i == 1 {
			e.b = append(e.b, '[')
		} else {
			e.b = append(e.b, ',')
		}
		if err := e.value(t.GetInt(i), depth, slots+1); err != nil {
			return err
		}
	}
	return e.text("]")
}

func (e *encoder) object(t *lua.Table, depth int32, slots int) error {
	if err := e.text("{"); err != nil {
		return err
	}
	for k, n := lua.Nil, 0; ; n++ {
		if err := e.step(e.s); err != nil {
			return err
		}
		key, val, ok, err := t.Next(k)
		if err != nil {
			return err
		}
		if !ok {
			break
		}
		if err := e.room(3); err != nil {
			return err
		}
		if n > 0 {
			e.b = append(e.b, ',')
		}
		switch key.Kind() {
		case lua.KindNumber:
			e.b = append(e.b, '"')
			if err := e.number(key.Num()); err != nil {
				return err
			}
			if err := e.text(`":`); err != nil {
				return err
			}
		case lua.KindString:
			if err := e.str(key.Str()); err != nil {
				return err
			}
			if err := e.text(":"); err != nil {
				return err
			}
		default:
			return e.refuse(key, "table key must be a number or string")
		}
		if err := e.value(val, depth, slots+2); err != nil {
			return err
		}
		k = key
	}
	return e.text("}")
}

func (e *encoder) number(f float64) error {
	if err := e.room(32); err != nil {
		return err
	}
	if math.IsInf(f, 0) || math.IsNaN(f) {
		switch {
		case e.set.encodeNonFinite == nonFiniteError:
			return e.refuse(lua.Number(f), "must not be NaN or Inf")
		case e.set.encodeNonFinite == nonFiniteNull:
			return e.text("null")
		case math.IsNaN(f):
			return e.text("nan")
		case f < 0:
			return e.text("-inf")
		}
		return e.text("inf")
	}
	if n := int64(f); float64(n) == f && n != 0 && n > -1e14 && n < 1e14 && e.set.precision == 14 {
		e.b = strconv.AppendInt(e.b, n, 10)
		return nil
	}
	e.b = strconv.AppendFloat(e.b, f, 'g', int(e.set.precision), 64)
	return nil
}

func (e *encoder) str(s string) error {
	n := len(s) + 2
	for i := range len(s) {
		if esc := escapes[s[i]]; esc != "" {
			n += len(esc) - 1
		}
	}
	if err := e.room(n); err != nil {
		return err
	}
	b := append(e.b, '"')
	if n == len(s)+2 {
		b = append(b, s...)
	} else {
		begin := 0
		for i := range len(s) {
			if esc := escapes[s[i]]; esc != "" {
				b = append(b, s[begin:i]...)
				b = append(b, esc...)
				begin = i + 1
			}
		}
		b = append(b, s[begin:]...)
	}
	e.b = append(b, '"')
	return nil
}
