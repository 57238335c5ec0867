package number

import (
	"math"
	"math/big"
	"math/bits"
)

// The digits of doubles are those of Grisu2 (Florian Loitsch, Printing
// Floating-Point Numbers Quickly and Accurately with Integers, 2010), which is
// what Redis uses. They always read back as the same number, and in about 999
// cases of 1000 they are the shortest ones, as strconv gives them. In the
// others they are not, so to print what Redis prints takes the same algorithm,
// with the same choice among its powers of ten.

// scaled is f * 2^e.
type scaled struct {
	f uint64
	e int
}

// times multiplies, rounded to 64 bits.
func (x scaled) times(y scaled) scaled {
	hi, lo := bits.Mul64(x.f, y.f)
	return scaled{hi + lo>>63, x.e + y.e + 64}
}

// normal moves the highest bit to the top.
func (x scaled) normal() scaled {
	n := bits.LeadingZeros64(x.f)
	return scaled{x.f << n, x.e - n}
}

// The powers of ten that numbers are scaled with: every eighth, rounded to 64
// bits.
const (
	firstPower = -348
	powerStep  = 8
	powerCount = 87
)

var powers = func() (p [powerCount]scaled) {
	for i := range p {
		k := firstPower + i*powerStep
		f := new(big.Float).SetPrec(64).SetInt(power(10, max(k, -k)))
		if k < 0 {
			exact := new(big.Float).SetInt(power(10, -k))
			f.SetPrec(64).Quo(big.NewFloat(1), exact)
		}
		var mant big.Float
		e := f.MantExp(&mant) - 64
		mant.SetMantExp(&mant, 64)
		p[i].f, _ = mant.Uint64()
		p[i].e = e
	}
	return p
}()

// A scaled number's exponent lies in this range, so that its whole part has few
// bits and its fraction leaves room to be multiplied by ten.
const (
	scaledMin = -60
	scaledMax = -32
)

// powerFor returns a power of ten, and its exponent, that scales numbers with
// the binary exponent e. Often two would do; from this first guess on it finds
// the one that Redis finds.
func powerFor(e int) (scaled, int) {
	const log2 = 0.30102999566398114
	guess := float64(-(e + powerCount)) * log2
	i := (int(guess) - firstPower) / powerStep
	for {
		switch at := e + powers[i].e + 64; {
		case at < scaledMin:
			i++
		case at > scaledMax:
			i--
		default:
			return powers[i], firstPower + i*powerStep
		}
	}
}

const (
	fractionBits = 52
	hidden       = 1 << fractionBits
)

// shortest appends the digits of a positive finite number to b and returns them
// with the power of ten of the last digit.
func shortest(b []byte, f float64) (digits []byte, exp int) {
	raw := math.Float64bits(f)
	w := scaled{raw & (hidden - 1), int(raw>>fractionBits) - 1075}
	if raw>>fractionBits != 0 {
		w.f |= hidden
	} else {
		w.e++
	}
	// All numbers between the two boundaries read back as f.
	upper := scaled{2*w.f + 1, w.e - 1}.normal()
	shift := 1
	if w.f == hidden { // the neighbour below is nearer
		shift = 2
	}
	lower := scaled{w.f<<shift - 1, w.e - shift}
	lower = scaled{lower.f << (lower.e - upper.e), upper.e}

	p, k := powerFor(upper.e)
	w, upper, lower = w.normal().times(p), upper.times(p), lower.times(p)
	upper.f-- // each product is off by less than one
	lower.f++
	return generate(b, w, upper, lower, -k)
}

// generate produces digits of upper until what is left falls below the distance
// to lower, then moves the last digit towards w.
func generate(b []byte, w, upper, lower scaled, exp int) ([]byte, int) {
	toW, width := upper.f-w.f, upper.f-lower.f
	frac := uint(-upper.e) // bits behind the point
	one := uint64(1) << frac
	whole, rest := upper.f>>frac, upper.f&(one-1)

	unit := uint64(1_000_000_000)
	for n := 9; n >= 0; n-- {
		digit := whole / unit
		if digit != 0 || len(b) > 0 {
			b = append(b, '0'+byte(digit))
		}
		whole -= digit * unit
		if left := whole<<frac + rest; left <= width {
			approach(b, width, left, unit<<frac, toW)
			return b, exp + n
		}
		unit /= 10
	}
	scale := uint64(1)
	for n := -1; ; n-- {
		rest, width, scale = rest*10, width*10, scale*10
		digit := rest >> frac
		if digit != 0 || len(b) > 0 {
			b = append(b, '0'+byte(digit))
		}
		rest &= one - 1
		if rest < width {
			approach(b, width, rest, one, toW*scale)
			return b, exp + n
		}
	}
}

// approach lowers the last digit while that brings the number nearer to w and
// keeps it between the boundaries. All numbers are distances down from upper.
func approach(digits []byte, width, left, unit, toW uint64) {
	for left < toW && width-left >= unit && (left+unit < toW || toW-left > left+unit-toW) {
		digits[len(digits)-1]--
		left += unit
	}
}
