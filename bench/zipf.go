//go:build linux

package main

import (
	"math"
	"math/bits"
	"math/rand/v2"
)

// chooser chooses keys by their number, from 0.
type chooser interface{ next() uint64 }

// uniform chooses all keys alike.
type uniform struct {
	random *rand.PCG
	n      uint64
}

func (u *uniform) next() uint64 { return below(u.random, u.n) }

// below is a random number below n; the bias of a multiplication is too small
// to be seen here.
func below(random *rand.PCG, n uint64) uint64 {
	hi, _ := bits.Mul64(random.Uint64(), n)
	return hi
}

// inOrder chooses every key once.
type inOrder struct{ at uint64 }

func (o *inOrder) next() uint64 {
	o.at++
	return o.at - 1
}

// zipf chooses rank k of 1..n with a probability in proportion to k^-s. The
// standard library's generator wants s > 1, and 0.99 is what stores are measured
// with. This is rejection-inversion (Hörmann and Derflinger, 1996): the density
// is replaced by a continuous one that can be inverted, and the few draws that
// fall beside the steps are drawn again. One power per draw, no table.
type zipf struct {
	random    *rand.PCG
	n         uint64
	s         float64
	low, high float64 // the integral's range
	sure      float64 // a draw so near its rank needs no look at the density
}

// newZipf makes a generator; s is above 0 and not 1.
func newZipf(random *rand.PCG, s float64, n uint64) *zipf {
	z := &zipf{random: random, n: n, s: s}
	z.low = z.integral(1.5) - 1
	z.high = z.integral(float64(n) + 0.5)
	z.sure = 2 - z.inverse(z.integral(2.5)-math.Pow(2, -s))
	return z
}

// integral is that of x^-s, and inverse its inverse.
func (z *zipf) integral(x float64) float64 { return (math.Pow(x, 1-z.s) - 1) / (1 - z.s) }
func (z *zipf) inverse(y float64) float64  { return math.Pow(1+y*(1-z.s), 1/(1-z.s)) }

// rank is the next draw.
func (z *zipf) rank() uint64 {
	for {
		u := z.high + float64(z.random.Uint64()>>11)/(1<<53)*(z.low-z.high)
		x := z.inverse(u)
		k := min(max(uint64(x+0.5), 1), z.n)
		if float64(k)-x <= z.sure || u >= z.integral(float64(k)+0.5)-math.Pow(float64(k), -z.s) {
			return k
		}
	}
}

// next spreads the ranks over the keys, so that the hottest ones are not
// neighbours: a multiplication by a prime modulo n gives every key one rank.
func (z *zipf) next() uint64 {
	const prime = 2_654_435_761
	return (z.rank() - 1) * prime % z.n
}
