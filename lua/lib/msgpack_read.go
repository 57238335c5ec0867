package lib

import (
	"errors"
	"math"
	"strings"

	"redoubt/lua"
)

func msgpackUnpack(c *lua.Call) error { return unpack(c, 0, 0, c.Len()) }

func msgpackUnpackOne(c *lua.Call) error {
	offset, err := c.OptInt(1, 0)
	if err != nil {
		return err
	}
	return unpack(c, 1, offset, 1)
}

func msgpackUnpackLimit(c *lua.Call) error {
	limit, err := c.CheckInt(1)
	if err != nil {
		return err
	}
	offset, err := c.OptInt(2, 0)
	if err != nil {
		return err
	}
	return unpack(c, limit, offset, 1)
}

// How reading may fail besides what a table or the memory says.
var (
	errShort  = errors.New("Missing bytes in input.")
	errFormat = errors.New("Bad data format in input.")
)

// unpack returns up to limit values from offset on, after the offset of what
// follows, or -1 if nothing does. When both are 0 it returns all values and no
// offset, also if somebody asked for 0 values.
func unpack(c *lua.Call, limit, offset, slots int) error {
	data, err := c.CheckString(0)
	if err != nil {
		return err
	}
	switch {
	case offset < 0 || limit < 0: // the text speaks of a limit, the number is the length
		return c.Errorf("Invalid request to unpack with offset of %d and limit of %d.", int32(offset), int32(len(data)))
	case offset > len(data):
		return c.Errorf("Start offset %d greater than input length %d.", int32(offset), int32(len(data)))
	}
	all := limit == 0 && offset == 0
	if all {
		limit = math.MaxInt32
	} else {
		c.Return(lua.Nil) // the offset will be here
	}
	u := &unpacker{c: c, s: c.State(), data: data, pos: offset}
	n := 0
	for ; u.pos < len(data) && n < limit; n++ {
		// A table is returned while it is empty, so that the accounts of memory
		// see it grow.
		v, fill, err := u.begin(slots + n)
		if err == nil {
			c.Return(v)
			err = fill.run(u, v, slots+n)
		}
		if err == errShort || err == errFormat {
			return c.Errorf("%s", err.Error())
		}
		if err != nil {
			return err
		}
	}
	if all {
		return nil
	}
	if slots+n+1 > maxStack {
		return c.Errorf("stack overflow (in function mp_unpack_full)")
	}
	next := u.pos
	if next == len(data) {
		next = -1
	}
	c.SetReturn(0, lua.Number(float64(next)))
	return nil
}

type unpacker struct {
	pace
	c    *lua.Call
	s    *lua.State
	data string
	pos  int
}

// contents is what a table still waits for: n values, or pairs of them.
type contents struct {
	n    int
	pair bool
}

func (f contents) run(u *unpacker, v lua.Value, slots int) error {
	switch {
	case v.Kind() != lua.KindTable:
		return nil
	case f.pair:
		return u.hash(v.Table(), f.n, slots)
	}
	return u.array(v.Table(), f.n, slots)
}

// take returns the next n bytes.
func (u *unpacker) take(n int) (string, error) {
	if len(u.data)-u.pos < n {
		return "", errShort
	}
	u.pos += n
	return u.data[u.pos-n : u.pos], nil
}

// uint reads an unsigned number of n bytes, of most weight first.
func (u *unpacker) uint(n int) (uint64, error) {
	b, err := u.take(n)
	if err != nil {
		return 0, err
	}
	return readUint(b, true), nil
}

// begin reads a value, of a table only its size. slots is what the C code
// would have on its stack so far.
func (u *unpacker) begin(slots int) (v lua.Value, f contents, err error) {
	head, err := u.take(1)
	if err != nil {
		return v, f, err
	}
	if slots+1 > maxStack {
		return v, f, u.c.Errorf("stack overflow (too many return values at once; use unpack_one or unpack_limit instead.)")
	}
	if err := u.step(u.s); err != nil {
		return v, f, err
	}
	switch b := head[0]; {
	case b < 0x80:
		return lua.Number(float64(b)), f, nil
	case b >= 0xe0:
		return lua.Number(float64(int8(b))), f, nil
	case b < 0x90:
		return u.table(slots, int(b&0xf), true)
	case b < 0xa0:
		return u.table(slots, int(b&0xf), false)
	case b < 0xc0:
		v, err = u.str(int(b & 0x1f))
		return v, f, err
	case b == 0xc0:
		return lua.Nil, f, nil
	case b == 0xc2 || b == 0xc3:
		return lua.Bool(b == 0xc3), f, nil
	case b >= 0xca && b <= 0xd3:
		v, err = u.number(b)
		return v, f, err
	case b >= 0xd9 && b <= 0xdb:
		n, err := u.uint(1 << (b - 0xd9))
		if err != nil {
			return v, f, err
		}
		v, err = u.str(int(n))
		return v, f, err
	case b >= 0xdc && b <= 0xdf:
		n, err := u.uint(2 << (b & 1))
		if err != nil {
			return v, f, err
		}
		return u.table(slots, int(n), b >= 0xde)
	}
	return v, f, errFormat
}

// number reads a number of a fixed size. Integers of 64 bits are signed, also
// those that are marked unsigned.
func (u *unpacker) number(kind byte) (lua.Value, error) {
	size := 4 // 0xca, a float
	switch {
	case kind == 0xcb:
		size = 8
	case kind >= 0xcc:
		size = 1 << (kind & 3)
	}
	n, err := u.uint(size)
	if err != nil {
		return lua.Nil, err
	}
	switch kind {
	case 0xca:
		return lua.Number(float64(math.Float32frombits(uint32(n)))), nil
	case 0xcb:
		return lua.Number(math.Float64frombits(n)), nil
	case 0xcf, 0xd3:
		return lua.Number(float64(int64(n))), nil
	case 0xd0:
		return lua.Number(float64(int8(n))), nil
	case 0xd1:
		return lua.Number(float64(int16(n))), nil
	case 0xd2:
		return lua.Number(float64(int32(n))), nil
	}
	return lua.Number(float64(n)), nil
}

func (u *unpacker) str(n int) (lua.Value, error) {
	part, err := u.take(n)
	if err != nil {
		return lua.Nil, err
	}
	if err := u.s.Alloc(n); err != nil {
		return lua.Nil, err
	}
	return lua.String(strings.Clone(part)), nil // the part alone would keep all of the input
}

func (u *unpacker) table(slots, n int, pair bool) (lua.Value, contents, error) {
	if !pair && slots+2 > maxStack {
		return lua.Nil, contents{}, u.c.Errorf("stack overflow (in function mp_decode_to_lua_array)")
	}
	t, err := newTable(u.s)
	if err != nil {
		return lua.Nil, contents{}, err
	}
	return t.Value(), contents{n, pair}, nil
}

func (u *unpacker) array(t *lua.Table, n, slots int) error {
	for i := 1; i <= n; i++ {
		v, fill, err := u.begin(slots + 2)
		if err != nil {
			return err
		}
		if err := t.SetInt(i, v); err != nil {
			return err
		}
		if err := fill.run(u, v, slots+2); err != nil {
			return err
		}
	}
	return nil
}

func (u *unpacker) hash(t *lua.Table, n, slots int) error {
	for range n {
		key, fill, err := u.begin(slots + 1)
		if err != nil {
			return err
		}
		if key.Kind() == lua.KindTable { // is seen from now on
			if err := t.Set(key, lua.Bool(true)); err != nil {
				return err
			}
			if err := fill.run(u, key, slots+1); err != nil {
				return err
			}
		}
		v, fill, err := u.begin(slots + 2)
		if err != nil {
			return err
		}
		// That a key is none is said after the value has been read.
		if key.IsNil() || math.IsNaN(key.Num()) {
			if err := fill.run(u, v, slots+2); err != nil {
				return err
			}
			return t.Set(key, v)
		}
		if err := t.Set(key, v); err != nil {
			return err
		}
		if err := fill.run(u, v, slots+2); err != nil {
			return err
		}
	}
	return nil
}
