package geo

import "math"

// Sine, cosine and arc sine, correctly rounded.
//
// Go's functions are off by the last bit now and then. Redis uses those of the C
// library, with an error below 0.55 units in the last place: they return the
// correctly rounded result but for about one case in a thousand, where C libraries
// differ from each other and between processors. (Only STOREDIST shows the last
// bit; the other commands print four decimals.)
//
// The functions here use double-double arithmetic (a number is the sum of two
// floats), to about 80 bits. They take several times as long as Go's: a search
// calls them only for places that are near enough (shape.go).

// double is hi+lo, where lo is less than half of the last bit of hi.
type double struct{ hi, lo float64 }

// sum is the exact sum of two floats.
func sum(a, b float64) double {
	s := a + b
	t := s - a
	return double{s, (a - (s - t)) + (b - t)}
}

// fastSum is sum for |a| >= |b|.
func fastSum(a, b float64) double {
	s := a + b
	return double{s, b - (s - a)}
}

// product is the exact product of two floats.
func product(a, b float64) double {
	p := a * b
	return double{p, math.FMA(a, b, -p)}
}

func (a double) add(b double) double {
	s, t := sum(a.hi, b.hi), sum(a.lo, b.lo)
	s = fastSum(s.hi, s.lo+t.hi)
	return fastSum(s.hi, s.lo+t.lo)
}

func (a double) neg() double { return double{-a.hi, -a.lo} }

func (a double) times(b double) double {
	p := product(a.hi, b.hi)
	return fastSum(p.hi, p.lo+(float64(a.hi*b.lo)+float64(a.lo*b.hi)))
}

// over is a/n for a small integer n.
func (a double) over(n float64) double {
	q := a.hi / n
	p := product(q, n)
	return fastSum(q, (a.hi-p.hi-p.lo+a.lo)/n)
}

// sqrt is the square root of a, which is not negative.
func (a double) sqrt() double {
	if a.hi == 0 {
		return double{}
	}
	q := math.Sqrt(a.hi)
	p := product(q, q)
	return fastSum(q, (a.hi-p.hi-p.lo+a.lo)/(2*q))
}

// Half of pi in three parts.
const (
	halfPi1 = 1.5707963267948966
	halfPi2 = 6.123233995736766e-17
	halfPi3 = -1.4973849048591833e-33
)

// The series go up to r^25/25!, and |r| <= pi/4. Terms from the tenth power on are
// so small that their sum may be a float.
const terms = 26

var inverseFactorial = func() (f [terms]double) {
	f[0] = double{1, 0}
	for n := 1; n < terms; n++ {
		f[n] = f[n-1].over(float64(n))
	}
	return f
}()

// limit is the largest |x| for which sin and cos are exact: more than half a turn.
const limit = 3.9

// reduce subtracts the nearest multiple of pi/2 from x, |x| <= limit, and returns the
// rest and the multiple modulo 4.
func reduce(x float64) (r double, quarters int) {
	k := math.RoundToEven(x / halfPi1)
	// k has two bits at most, so that these products are exact, and so is the
	// first difference.
	r = sum(x-float64(k*halfPi1), -float64(k*halfPi2))
	return fastSum(r.hi, r.lo-float64(k*halfPi3)), int(k) & 3
}

// series sums r^n/n! with alternating signs and every other n from 0 or 1 on, but
// for a factor r in the second case. square is minus r squared.
func series(from int, square double) double {
	tail := 0.0
	for n := terms - 2 + from; n >= 10; n -= 2 {
		tail = float64(tail*square.hi) + inverseFactorial[n].hi
	}
	s := double{tail, 0}
	for n := 8 + from; n >= 0; n -= 2 {
		p, f := s.times(square), inverseFactorial[n]
		t := sum(f.hi, p.hi)
		s = fastSum(t.hi, t.lo+(f.lo+p.lo))
	}
	return s
}

// turned is the sine of x plus quarters of a turn.
func turned(x float64, quarters int) double {
	r, k := reduce(x)
	square := r.times(r).neg()
	k = (k + quarters) & 3
	var s double
	if k&1 == 0 {
		s = series(1, square).times(r)
	} else {
		s = series(0, square)
	}
	if k >= 2 {
		s = s.neg()
	}
	return s
}

func sin(x float64) float64 {
	if !(math.Abs(x) <= limit) {
		return math.Sin(x)
	}
	return turned(x, 0).hi
}

func cos(x float64) float64 {
	if !(math.Abs(x) <= limit) {
		return math.Cos(x)
	}
	return turned(x, 1).hi
}

// asin for 0 <= x <= 1: it corrects Go's result y by the arc sine of
// sin(asin(x)-y), which is so small that it is its own arc sine.
func asin(x float64) float64 {
	y := math.Asin(x)
	if x == 0 || math.IsNaN(y) {
		return y
	}
	s, c := turned(y, 0), turned(y, 1)
	root := sum(1, -x).times(sum(1, x)).sqrt() // the cosine of asin(x)
	d := c.times(double{x, 0}).add(root.times(s).neg())
	at := sum(y, d.hi)
	return at.hi + (at.lo + d.lo)
}
