package lib

import (
	"encoding/binary"
	"math"

	"redoubt/lua"
)

// maxNesting is how deep tables are packed. What lies deeper becomes nil, which
// is how a table that contains itself ends.
const maxNesting = 16

func openMsgpack(s *lua.State) {
	t := s.NewTable(0, 0)
	s.Register(t, "pack", msgpackPack)
	s.Register(t, "unpack", msgpackUnpack)
	s.Register(t, "unpack_one", msgpackUnpackOne)
	s.Register(t, "unpack_limit", msgpackUnpackLimit)
	for _, field := range [][2]string{
		{"_NAME", "cmsgpack"},
		{"_VERSION", "lua-cmsgpack 0.4.0"},
		{"_COPYRIGHT", "Copyright (C) 2012, Salvatore Sanfilippo"},
		{"_DESCRIPTION", "MessagePack C implementation for Lua"},
	} {
		_ = t.SetStr(field[0], lua.String(field[1])) // no limit of memory is set yet
	}
	publish(s, "cmsgpack", t)
}

// msgpackPack packs its arguments one after the other.
func msgpackPack(c *lua.Call) error {
	n := c.Len()
	if n == 0 {
		return c.ArgError(-1, "MessagePack pack needs input.")
	}
	if 2*n > maxStack {
		return c.ArgError(-1, "Too many arguments for MessagePack pack.")
	}
	p := packer{buffer: buffer{s: c.State()}, c: c}
	for i := range n {
		if err := p.value(c.Arg(i), 0, n+i+1); err != nil {
			return err
		}
	}
	return p.result(c)
}

type packer struct {
	buffer
	pace
	c *lua.Call
}

// value packs a value. slots is what the C code would have on its stack, the
// value included.
func (p *packer) value(v lua.Value, level, slots int) error {
	if err := p.step(p.s); err != nil {
		return err
	}
	if err := p.room(9); err != nil {
		return err
	}
	switch v.Kind() {
	case lua.KindString:
		return p.str(v.Str())
	case lua.KindBool:
		if v.Truth() {
			p.b = append(p.b, 0xc3)
		} else {
			p.b = append(p.b, 0xc2)
		}
		return nil
	case lua.KindNumber:
		p.number(v.Num())
		return nil
	case lua.KindTable:
		if level < maxNesting {
			return p.table(v.Table(), level, slots)
		}
	}
	p.b = append(p.b, 0xc0)
	return nil
}

// number packs a whole number as an integer, in as few bytes as it takes, and
// any other as the shorter float that is exact.
func (p *packer) number(f float64) {
	if n := truncate(f); float64(n) == f {
		p.integer(n)
		return
	}
	if short := float32(f); float64(short) == f {
		p.b = binary.BigEndian.AppendUint32(append(p.b, 0xca), math.Float32bits(short))
		return
	}
	p.b = binary.BigEndian.AppendUint64(append(p.b, 0xcb), math.Float64bits(f))
}

func (p *packer) integer(n int64) {
	switch {
	case n >= -32 && n <= math.MaxInt8:
		p.b = append(p.b, byte(n))
	case n >= 0 && n <= math.MaxUint8:
		p.b = append(p.b, 0xcc, byte(n))
	case n >= 0 && n <= math.MaxUint16:
		p.b = binary.BigEndian.AppendUint16(append(p.b, 0xcd), uint16(n))
	case n >= 0 && n <= math.MaxUint32:
		p.b = binary.BigEndian.AppendUint32(append(p.b, 0xce), uint32(n))
	case n >= 0:
		p.b = binary.BigEndian.AppendUint64(append(p.b, 0xcf), uint64(n))
	case n >= math.MinInt8:
		p.b = append(p.b, 0xd0, byte(n))
	case n >= math.MinInt16:
		p.b = binary.BigEndian.AppendUint16(append(p.b, 0xd1), uint16(n))
	case n >= math.MinInt32:
		p.b = binary.BigEndian.AppendUint32(append(p.b, 0xd2), uint32(n))
	default:
		p.b = binary.BigEndian.AppendUint64(append(p.b, 0xd3), uint64(n))
	}
}

func (p *packer) str(s string) error {
	if err := p.room(5 + len(s)); err != nil {
		return err
	}
	switch n := len(s); {
	case n < 32:
		p.b = append(p.b, 0xa0|byte(n))
	case n <= math.MaxUint8:
		p.b = append(p.b, 0xd9, byte(n))
	case n <= math.MaxUint16:
		p.b = binary.BigEndian.AppendUint16(append(p.b, 0xda), uint16(n))
	default:
		p.b = binary.BigEndian.AppendUint32(append(p.b, 0xdb), uint32(n))
	}
	p.b = append(p.b, s...)
	return nil
}

// head begins a table of n entries: short is the byte for one of up to 15,
// long the one for up to 65,535, which the next byte follows.
func (p *packer) head(n int, short, long byte) {
	switch {
	case n <= 15:
		p.b = append(p.b, short|byte(n))
	case n <= math.MaxUint16:
		p.b = binary.BigEndian.AppendUint16(append(p.b, long), uint16(n))
	default:
		p.b = binary.BigEndian.AppendUint32(append(p.b, long+1), uint32(n))
	}
}

func (p *packer) table(t *lua.Table, level, slots int) error {
	if slots+2 > maxStack {
		return p.c.Errorf("stack overflow (in function table_is_an_array)")
	}
	n, array, err := p.count(t)
	if err != nil {
		return err
	}
	if array {
		p.head(n, 0x90, 0xdc)
		for i := 1; i <= n; i++ {
			if err := p.value(t.GetInt(i), level+1, slots+1); err != nil {
				return err
			}
		}
		return nil
	}
	if slots+3 > maxStack {
		return p.c.Errorf("stack overflow (in function mp_encode_lua_table_as_map)")
	}
	p.head(n, 0x80, 0xde)
	for k := lua.Nil; ; {
		key, val, ok, err := t.Next(k)
		if err != nil || !ok {
			return err
		}
		if err := p.value(key, level+1, slots+3); err != nil {
			return err
		}
		if err := p.value(val, level+1, slots+2); err != nil {
			return err
		}
		k = key
	}
}

// count returns the number of entries, and whether their keys are 1 to that
// number. An empty table is such an array.
func (p *packer) count(t *lua.Table) (n int, array bool, err error) {
	array = true
	highest := int32(0)
	for k := lua.Nil; ; n++ {
		if err := p.step(p.s); err != nil {
			return 0, false, err
		}
		key, _, ok, err := t.Next(k)
		if err != nil {
			return 0, false, err
		}
		if !ok {
			break
		}
		f := key.Num()
		if i := truncate32(f); f > 0 && float64(i) == f {
			highest = max(highest, i)
		} else {
			array = false
		}
		k = key
	}
	return n, array && int(highest) == n, nil
}
