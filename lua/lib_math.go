package lua

import (
	"math"
	"time"
)

var mathFunctions []goFunction

var mathConstants = map[string]float64{"pi": math.Pi, "huge": math.Inf(1)}

func init() {
	one := func(f func(float64) float64) func(*Call) error {
		return func(c *Call) error {
			x, err := c.CheckNumber(0)
			if err != nil {
				return err
			}
			c.Return(Number(f(x)))
			return nil
		}
	}
	two := func(f func(x, y float64) float64) func(*Call) error {
		return func(c *Call) error {
			x, err := c.CheckNumber(0)
			if err != nil {
				return err
			}
			y, err := c.CheckNumber(1)
			if err != nil {
				return err
			}
			c.Return(Number(f(x, y)))
			return nil
		}
	}
	mathFunctions = functions(
		"abs", one(math.Abs), "acos", one(arccosine), "asin", one(arcsine), "atan", one(arctangent),
		"atan2", two(arctangent2), "ceil", one(math.Ceil), "cos", one(cosine), "cosh", one(hyperbolicCosine),
		"deg", one(func(x float64) float64 { return x / (math.Pi / 180) }),
		"exp", one(exp), "floor", one(math.Floor), "fmod", two(math.Mod), "mod", two(math.Mod), "frexp", mathFrexp,
		"ldexp", mathLdexp, "log", one(logarithm), "log10", one(log10), "max", mathMax, "min", mathMin,
		"modf", mathModf, "pow", two(power), "rad", one(func(x float64) float64 { return x * (math.Pi / 180) }),
		"random", mathRandom, "randomseed", mathRandomseed, "sin", one(sine), "sinh", one(hyperbolicSine),
		"sqrt", one(math.Sqrt), "tan", one(tangent), "tanh", one(hyperbolicTangent),
	)
}

func mathFrexp(c *Call) error {
	x, err := c.CheckNumber(0)
	if err != nil {
		return err
	}
	f, e := math.Frexp(x)
	c.Return(Number(f), Number(float64(e)))
	return nil
}

func mathLdexp(c *Call) error {
	x, err := c.CheckNumber(0)
	if err != nil {
		return err
	}
	e, err := c.check32(1)
	if err != nil {
		return err
	}
	c.Return(Number(math.Ldexp(x, e)))
	return nil
}

func mathModf(c *Call) error {
	x, err := c.CheckNumber(0)
	if err != nil {
		return err
	}
	whole := math.Trunc(x)
	part := x - whole
	if math.IsInf(x, 0) || part == 0 {
		part = math.Copysign(0, x)
	}
	c.Return(Number(whole), Number(part))
	return nil
}

func mathMax(c *Call) error { return c.extreme(func(a, b float64) bool { return a > b }) }
func mathMin(c *Call) error { return c.extreme(func(a, b float64) bool { return a < b }) }

func (c *Call) extreme(better func(a, b float64) bool) error {
	best, err := c.CheckNumber(0)
	if err != nil {
		return err
	}
	for i := 1; i < len(c.args); i++ {
		x, err := c.CheckNumber(i)
		if err != nil {
			return err
		}
		if better(x, best) {
			best = x
		}
	}
	c.Return(Number(best))
	return nil
}

// rand48 is Redis's own generator, the linear congruence of 48 bits that is
// known as drand48: scripts get the same numbers on every machine.
type rand48 struct{ x uint64 }

func (r *rand48) seed(n int32) { r.x = uint64(uint32(n))<<16 | 0x330e }

// next returns the next 31 bits.
func (r *rand48) next() int32 {
	r.x = (r.x*0x5deece66d + 0xb) & (1<<48 - 1)
	return int32(r.x >> 17)
}

func mathRandom(c *Call) error {
	const most = math.MaxInt32
	r := float64(c.st.random.next()%most) / most
	switch len(c.args) {
	case 0:
		c.Return(Number(r))
	case 1:
		hi, err := c.check32(0)
		if err != nil {
			return err
		}
		if hi < 1 {
			return c.ArgError(0, "interval is empty")
		}
		c.Return(Number(math.Floor(r*float64(hi)) + 1))
	case 2:
		lo, err := c.check32(0)
		if err != nil {
			return err
		}
		hi, err := c.check32(1)
		if err != nil {
			return err
		}
		if lo > hi {
			return c.ArgError(1, "interval is empty")
		}
		c.Return(Number(math.Floor(r*float64(int32(hi-lo+1))) + float64(lo)))
	default:
		return c.Errorf("wrong number of arguments")
	}
	return nil
}

func mathRandomseed(c *Call) error {
	n, err := c.check32(0)
	if err != nil {
		return err
	}
	c.st.random.seed(int32(n))
	return nil
}

var osFunctions []goFunction

// started is what os.clock counts from: only differences mean something.
var started = time.Now()

func init() {
	osFunctions = functions("clock", func(c *Call) error {
		c.Return(Number(float64(time.Since(started).Microseconds()) / 1e6))
		return nil
	})
}
