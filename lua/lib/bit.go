package lib

import (
	"math"
	"math/bits"

	"redoubt/lua"
)

// openBit makes bit: operations on 32 bits. Whatever number goes in is taken
// modulo 2^32, and what comes out is signed.
func openBit(s *lua.State) {
	t := s.NewTable(0, 12)
	s.Register(t, "tobit", func(c *lua.Call) error { return unary(c, func(b uint32) uint32 { return b }) })
	s.Register(t, "bnot", func(c *lua.Call) error { return unary(c, func(b uint32) uint32 { return ^b }) })
	s.Register(t, "band", func(c *lua.Call) error { return fold(c, func(a, b uint32) uint32 { return a & b }) })
	s.Register(t, "bor", func(c *lua.Call) error { return fold(c, func(a, b uint32) uint32 { return a | b }) })
	s.Register(t, "bxor", func(c *lua.Call) error { return fold(c, func(a, b uint32) uint32 { return a ^ b }) })
	s.Register(t, "lshift", func(c *lua.Call) error { return shift(c, func(b uint32, n int) uint32 { return b << n }) })
	s.Register(t, "rshift", func(c *lua.Call) error { return shift(c, func(b uint32, n int) uint32 { return b >> n }) })
	s.Register(t, "arshift", func(c *lua.Call) error {
		return shift(c, func(b uint32, n int) uint32 { return uint32(int32(b) >> n) })
	})
	s.Register(t, "rol", func(c *lua.Call) error { return shift(c, bits.RotateLeft32) })
	s.Register(t, "ror", func(c *lua.Call) error {
		return shift(c, func(b uint32, n int) uint32 { return bits.RotateLeft32(b, -n) })
	})
	s.Register(t, "bswap", func(c *lua.Call) error { return unary(c, bits.ReverseBytes32) })
	s.Register(t, "tohex", tohex)
	publish(s, "bit", t)
}

// bitsOf returns the low 32 bits of an argument. Adding this constant moves the
// integer part of a number into the low bits of its representation, rounded to
// even; numbers of 2^51 and more give what Redis gives for them, which is
// nothing meaningful.
func bitsOf(c *lua.Call, i int) (uint32, error) {
	f, ok := c.Arg(i).ToNumber()
	if !ok {
		return 0, c.TypeError(i, "number")
	}
	return uint32(math.Float64bits(f + (1<<52 + 1<<51))), nil
}

func returnBits(c *lua.Call, b uint32) error {
	c.Return(lua.Number(float64(int32(b))))
	return nil
}

func unary(c *lua.Call, op func(b uint32) uint32) error {
	b, err := bitsOf(c, 0)
	if err != nil {
		return err
	}
	return returnBits(c, op(b))
}

// fold goes through its arguments from the last one, as an error about them shows.
func fold(c *lua.Call, op func(a, b uint32) uint32) error {
	all, err := bitsOf(c, 0)
	if err != nil {
		return err
	}
	for i := c.Len() - 1; i > 0; i-- {
		b, err := bitsOf(c, i)
		if err != nil {
			return err
		}
		all = op(all, b)
	}
	return returnBits(c, all)
}

// shift uses the low five bits of its second argument.
func shift(c *lua.Call, op func(b uint32, n int) uint32) error {
	b, err := bitsOf(c, 0)
	if err != nil {
		return err
	}
	n, err := bitsOf(c, 1)
	if err != nil {
		return err
	}
	return returnBits(c, op(b, int(n&31)))
}

// tohex prints the lowest digits, eight unless told; a negative number of
// digits means upper case.
func tohex(c *lua.Call) error {
	b, err := bitsOf(c, 0)
	if err != nil {
		return err
	}
	n := int64(8)
	if c.Len() > 1 {
		asked, err := bitsOf(c, 1)
		if err != nil {
			return err
		}
		n = int64(int32(asked))
	}
	digits := "0123456789abcdef"
	if n < 0 {
		n, digits = -n, "0123456789ABCDEF"
	}
	out := make([]byte, min(n, 8))
	for i := len(out) - 1; i >= 0; i-- {
		out[i] = digits[b&15]
		b >>= 4
	}
	c.Return(lua.String(string(out)))
	return nil
}
