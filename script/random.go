package script

import (
	"math"

	"redoubt/lua"
)

// random is the generator of math.random: the same linear congruence, modulo 2^48, as C's
// lrand48, so that a script which seeds it gets the same numbers as from Redis. Each
// execution begins with its own seed, which is the same when it is run again.
type random uint64

func (r *random) seed(n int32) { *r = random(uint64(uint32(n))<<16|0x330E) & (1<<48 - 1) }

// next returns the next 31 bits.
func (r *random) next() int32 {
	*r = (*r*0x5DEECE66D + 0xB) & (1<<48 - 1)
	return int32(*r >> 17)
}

// float returns a number in [0, 1).
func (r *random) float() float64 {
	return float64(r.next()%math.MaxInt32) / math.MaxInt32
}

func (st *state) mathRandom(c *lua.Call) error {
	r := st.random.float()
	low, high := 1, 0
	var err error
	switch c.Len() {
	case 0:
		c.Return(lua.Number(r))
		return nil
	case 1:
		if high, err = c.CheckInt(0); err != nil {
			return err
		}
		if int32(high) < 1 {
			return c.ArgError(0, "interval is empty")
		}
	case 2:
		if low, err = c.CheckInt(0); err != nil {
			return err
		}
		if high, err = c.CheckInt(1); err != nil {
			return err
		}
		if int32(low) > int32(high) {
			return c.ArgError(1, "interval is empty")
		}
	default:
		return c.Errorf("wrong number of arguments")
	}
	l, u := int32(low), int32(high)
	c.Return(lua.Number(math.Floor(r*float64(u-l+1)) + float64(l)))
	return nil
}

func (st *state) mathSeed(c *lua.Call) error {
	n, err := c.CheckInt(0)
	if err != nil {
		return err
	}
	st.random.seed(int32(n))
	return nil
}
