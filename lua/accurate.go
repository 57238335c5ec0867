package lua

import "math"

// Elementary functions with the rounding of a C library. Go's own are off by one
// in the last place for up to half of all arguments, and scripts compare x^y.
// These functions compute with pairs of floats, of about 106 bits, and round
// once: the result is the nearest float, which glibc almost always returns.
// They are slow (about a microsecond), so exact cases have a fast path.

// pair is the unevaluated sum of two floats, lo being below the last place of hi.
type pair struct{ hi, lo float64 }

func sum(a, b float64) pair {
	s := a + b
	t := s - a
	return pair{s, (a - (s - t)) + (b - t)}
}

func product(a, b float64) pair {
	p := a * b
	return pair{p, math.FMA(a, b, -p)}
}

func (a pair) add(b pair) pair {
	s := sum(a.hi, b.hi)
	t := sum(a.lo, b.lo)
	s = quick(s.hi, s.lo+t.hi)
	return quick(s.hi, s.lo+t.lo)
}

// quick is sum for |a| >= |b|.
func quick(a, b float64) pair {
	s := a + b
	return pair{s, b - (s - a)}
}

func (a pair) neg() pair            { return pair{-a.hi, -a.lo} }
func (a pair) sub(b pair) pair      { return a.add(b.neg()) }
func (a pair) scale(f float64) pair { return pair{a.hi * f, a.lo * f} } // f a power of two
func (a pair) value() float64       { return a.hi + a.lo }

func (a pair) mul(b pair) pair {
	p := product(a.hi, b.hi)
	return quick(p.hi, p.lo+(a.hi*b.lo+a.lo*b.hi))
}

func (a pair) div(b pair) pair {
	q := a.hi / b.hi
	r := a.sub(b.mul(pair{q, 0}))
	q2 := r.hi / b.hi
	r = r.sub(b.mul(pair{q2, 0}))
	return quick(q, q2).add(pair{r.hi / b.hi, 0})
}

func (a pair) sqrt() pair {
	if a.hi <= 0 {
		return pair{}
	}
	s := math.Sqrt(a.hi)
	r := a.sub(product(s, s))
	return quick(s, r.hi/(2*s))
}

var (
	pairLn2    = pair{0x1.62e42fefa39efp-1, 0x1.abc9e3b39803fp-56}
	pairHalfPi = pair{0x1.921fb54442d18p0, 0x1.1a62633145c07p-54}
)

// halfPiRest is what pairHalfPi lacks.
const halfPiRest = -0x1.f1976b7ed8fbcp-110

// expPair returns e^x as a pair and a power of two.
func expPair(x pair) (pair, int) {
	k := math.Round(x.hi / math.Ln2)
	r := x.sub(pairLn2.mul(pair{k, 0})).scale(1.0 / 64)
	term := pair{1, 0}
	var s pair // e^r - 1
	for n := 1; n <= 12; n++ {
		term = term.mul(r).div(pair{float64(n), 0})
		s = s.add(term)
	}
	for range 6 { // (1+s)^2 - 1
		s = s.scale(2).add(s.mul(s))
	}
	return s.add(pair{1, 0}), int(k)
}

func exp(x float64) float64 {
	if !(math.Abs(x) < 700) || math.Abs(x) < 1e-300 {
		return math.Exp(x)
	}
	r, k := expPair(pair{x, 0})
	return math.Ldexp(r.value(), k)
}

// logPair refines Go's logarithm by a step of Newton's.
func logPair(x float64) pair {
	f, e := math.Frexp(x)
	if f < math.Sqrt2/2 {
		f *= 2
		e--
	}
	y := math.Log(f)
	r, k := expPair(pair{-y, 0})
	d := r.mul(pair{f, 0}).scale(math.Ldexp(1, k)).sub(pair{1, 0})
	d = d.sub(d.mul(d).scale(0.5))
	return pairLn2.mul(pair{float64(e), 0}).add(pair{y, 0}).add(d)
}

func logarithm(x float64) float64 {
	if !(x > 0) || math.IsInf(x, 0) || x == 1 {
		return math.Log(x)
	}
	return logPair(x).value()
}

// log10 uses the formula of fdlibm, as glibc does.
func log10(x float64) float64 {
	if !(x > 0) || math.IsInf(x, 0) {
		return math.Log10(x)
	}
	const ln10Inverse, hi, lo = 0x1.bcb7b1526e50ep-2, 0x1.34413509f6p-2, 0x1.9fef311f12b36p-42
	f, e := math.Frexp(x)
	k := e - 1
	i := 0
	if k < 0 {
		i = 1
	}
	y := float64(k + i)
	f = math.Ldexp(f, 1-i)
	return y*lo + ln10Inverse*logarithm(f) + y*hi
}

// power returns x^y.
func power(x, y float64) float64 {
	if y == 2 {
		return x * x
	}
	if x == math.Trunc(x) && y == math.Trunc(y) && y >= 0 && y <= 64 {
		// As long as it is exact.
		r := 1.0
		for i := 0.0; i < y && math.Abs(r) < 1<<53; i++ {
			r *= x
		}
		if math.Abs(r) < 1<<53 {
			return r
		}
	}
	if x == 2 && y == math.Trunc(y) && math.Abs(y) < 1000 {
		return math.Ldexp(1, int(y))
	}
	plain := math.Pow(x, y)
	a := math.Abs(plain)
	if !(a > 1e-290 && a < 1e290) || a == 1 || y == 1 || math.Abs(y) == 0.5 || x == 0 {
		return plain
	}
	p := logPair(math.Abs(x)).mul(pair{y, 0})
	r, k := expPair(p)
	return math.Copysign(math.Ldexp(r.value(), k), plain)
}

// sinCosPair returns both of x, which must not be large.
func sinCosPair(x float64) (sin, cos pair) {
	k := math.Round(x / (math.Pi / 2))
	r := pair{x, 0}.sub(pairHalfPi.mul(pair{k, 0})).sub(pair{halfPiRest * k, 0})
	sq := r.mul(r)
	s, c := r, pair{1, 0}
	st, ct := r, pair{1, 0}
	for n := 2.0; n <= 28; n += 2 {
		ct = ct.mul(sq).div(pair{-(n - 1) * n, 0})
		st = st.mul(sq).div(pair{-n * (n + 1), 0})
		c, s = c.add(ct), s.add(st)
	}
	switch int64(k) & 3 {
	case 1:
		return c, s.neg()
	case 2:
		return s.neg(), c.neg()
	case 3:
		return c.neg(), s
	}
	return s, c
}

// trigSmall reports whether sinCosPair can reduce an argument.
func trigSmall(x float64) bool { return math.Abs(x) < 1e8 && math.Abs(x) > 1e-8 }

func sine(x float64) float64 {
	if !trigSmall(x) {
		return math.Sin(x)
	}
	s, _ := sinCosPair(x)
	return s.value()
}

func cosine(x float64) float64 {
	if !trigSmall(x) {
		return math.Cos(x)
	}
	_, c := sinCosPair(x)
	return c.value()
}

func tangent(x float64) float64 {
	if !trigSmall(x) {
		return math.Tan(x)
	}
	s, c := sinCosPair(x)
	return s.div(c).value()
}

// angle returns the angle of (x, y), from Go's by a step of Newton's.
func angle(y, x pair) float64 {
	first := math.Atan2(y.hi, x.hi)
	if !trigSmall(first) {
		return first
	}
	s, c := sinCosPair(first)
	d := y.mul(c).sub(x.mul(s)).div(x.mul(c).add(y.mul(s)))
	return pair{first, 0}.add(d).value()
}

func ordinary(x float64) bool { return math.Abs(x) > 1e-100 && math.Abs(x) < 1e100 }

func arctangent2(y, x float64) float64 {
	if !ordinary(x) || !ordinary(y) {
		return math.Atan2(y, x)
	}
	return angle(pair{y, 0}, pair{x, 0})
}

func arctangent(x float64) float64 {
	if !ordinary(x) {
		return math.Atan(x)
	}
	return angle(pair{x, 0}, pair{1, 0})
}

func arcsine(x float64) float64 {
	if !ordinary(x) || math.Abs(x) >= 1 {
		return math.Asin(x)
	}
	return angle(pair{x, 0}, pair{1, 0}.sub(product(x, x)).sqrt())
}

func arccosine(x float64) float64 {
	if !ordinary(x) || math.Abs(x) >= 1 {
		return math.Acos(x)
	}
	return angle(pair{1, 0}.sub(product(x, x)).sqrt(), pair{x, 0})
}

// The hyperbolic functions use the formulas of fdlibm, as glibc does.
func hyperbolicSine(x float64) float64 {
	a := math.Abs(x)
	if !(a < 22) || a < 1e-8 {
		return math.Sinh(x)
	}
	h := math.Copysign(0.5, x)
	t := math.Expm1(a)
	if a < 1 {
		return h * (2*t - t*t/(t+1))
	}
	return h * (t + t/(t+1))
}

func hyperbolicCosine(x float64) float64 {
	a := math.Abs(x)
	if !(a < 22) {
		return math.Cosh(x)
	}
	if a < 0.5*math.Ln2 {
		t := math.Expm1(a)
		return 1 + t*t/(2*(1+t))
	}
	t := exp(a)
	return 0.5*t + 0.5/t
}

func hyperbolicTangent(x float64) float64 {
	a := math.Abs(x)
	if !(a < 22) || a < 1e-8 {
		return math.Tanh(x)
	}
	var z float64
	if a >= 1 {
		z = 1 - 2/(math.Expm1(2*a)+2)
	} else {
		t := math.Expm1(-2 * a)
		z = -t / (t + 2)
	}
	return math.Copysign(z, x)
}
