// Package geo computes with places on earth, which Redis keeps as members of sorted
// sets: the score of a member is its geohash.
//
// A geohash here is 52 bits: 26 that halve the range of latitudes again and
// again, interleaved with 26 for the longitudes, so that places with the same
// first bits are in the same box. Hence a box of any size is a range of scores,
// and a search reads at most nine boxes around its centre and nothing else of the
// sorted set.
//
// Every number that a client can see must have the digits that Redis gives it.
// So the arithmetic follows the same steps with the same roundings: products
// that are added to something are written float64(x*y), which keeps the compiler
// from fusing the two operations, and sines and cosines are rounded correctly
// (trig.go).
package geo

// The ranges of coordinates that can be stored: those of the Web Mercator
// projection, which ends before the poles.
const (
	MinLon, MaxLon = -180.0, 180.0
	MinLat, MaxLat = -85.05112878, 85.05112878
)

// steps is the number of times that a stored geohash halves each range.
const steps = 26

// Valid reports whether a place can be stored.
func Valid(lon, lat float64) bool {
	return lon >= MinLon && lon <= MaxLon && lat >= MinLat && lat <= MaxLat
}

// Encode returns the score of a place, which must be Valid.
func Encode(lon, lat float64) float64 {
	return float64(encode(lon, lat, MinLat, MaxLat, steps))
}

// encode returns a geohash of step bits per coordinate, with latitudes from minLat
// to maxLat. A coordinate at the very end of its range overflows by one bit, as in
// Redis.
func encode(lon, lat, minLat, maxLat float64, step uint) uint64 {
	scale := float64(uint64(1) << step)
	y := (lat - minLat) / (maxLat - minLat)
	x := (lon - MinLon) / (MaxLon - MinLon)
	return spread(uint32(y*scale)) | spread(uint32(x*scale))<<1
}

// Decode returns the centre of the box of a score. Every score has one, since any
// sorted set may be read as places.
func Decode(score float64) (lon, lat float64) {
	b := box{toBits(score), steps}.area()
	lon, lat = (b.minLon+b.maxLon)/2, (b.minLat+b.maxLat)/2
	return max(MinLon, min(MaxLon, lon)), max(MinLat, min(MaxLat, lat))
}

// toBits converts a score, even one that is no geohash, as C does on x86-64.
func toBits(score float64) uint64 {
	const limit = 1 << 63
	if score >= limit {
		if score -= limit; score >= limit {
			return 0
		}
		return uint64(score) ^ limit
	}
	if score < -limit {
		return limit
	}
	return uint64(int64(score))
}

// spread moves the bits of x to the even places.
func spread(x uint32) uint64 {
	v := uint64(x)
	v = (v | v<<16) & 0x0000ffff0000ffff
	v = (v | v<<8) & 0x00ff00ff00ff00ff
	v = (v | v<<4) & 0x0f0f0f0f0f0f0f0f
	v = (v | v<<2) & 0x3333333333333333
	return (v | v<<1) & evens
}

// gather is the reverse of spread; bits at odd places are ignored.
func gather(v uint64) uint32 {
	v &= evens
	v = (v | v>>1) & 0x3333333333333333
	v = (v | v>>2) & 0x0f0f0f0f0f0f0f0f
	v = (v | v>>4) & 0x00ff00ff00ff00ff
	v = (v | v>>8) & 0x0000ffff0000ffff
	return uint32(v | v>>16)
}

const (
	evens = 0x5555555555555555 // latitude
	odds  = 0xaaaaaaaaaaaaaaaa // longitude
)

const alphabet = "0123456789bcdefghjkmnpqrstuvwxyz"

// AppendHash appends the geohash of a score in the standard notation: 11 letters,
// with latitudes from -90 to 90. The bits suffice for ten letters, so the last is
// always 0.
func AppendHash(b []byte, score float64) []byte {
	lon, lat := Decode(score)
	bits := encode(lon, lat, -90, 90, steps)
	for shift := 2*steps - 5; shift > 0; shift -= 5 {
		b = append(b, alphabet[bits>>shift&31])
	}
	return append(b, alphabet[0])
}

// box is the set of geohashes with the same first 2*step bits. The zero box stands
// for no box.
type box struct {
	bits uint64
	step uint
}

// area is a rectangle in degrees.
type area struct{ minLon, maxLon, minLat, maxLat float64 }

func (b box) area() area {
	x, y := gather(b.bits>>1), gather(b.bits)
	n := float64(uint64(1) << b.step)
	at := func(i uint32, from, to float64) float64 { return from + float64(float64(i)/n*(to-from)) }
	return area{
		minLon: at(x, MinLon, MaxLon), maxLon: at(x+1, MinLon, MaxLon),
		minLat: at(y, MinLat, MaxLat), maxLat: at(y+1, MinLat, MaxLat),
	}
}

// move returns the box dx boxes to the east and dy to the north, wrapping around at
// the ends of the ranges. dx and dy are -1, 0 or 1.
func (b box) move(dx, dy int) box {
	all := uint64(1)<<(2*b.step) - 1
	x, y := b.bits&odds, b.bits&evens
	// The bits between those of a coordinate are set so that a carry runs
	// through them, or a borrow stops at them.
	switch dx {
	case 1:
		x += all&evens + 1
	case -1:
		x = (x | all&evens) - (all&evens + 1)
	}
	switch dy {
	case 1:
		y += all&odds + 1
	case -1:
		y = (y | all&odds) - (all&odds + 1)
	}
	if dx != 0 {
		x &= all & odds
	}
	if dy != 0 {
		y &= all & evens
	}
	return box{x | y, b.step}
}

// scores returns the range of scores of the box: min inclusive, max exclusive.
func (b box) scores() (min, max float64) {
	shift := 2 * (steps - b.step)
	return float64(b.bits << shift), float64((b.bits + 1) << shift)
}
