package geo

import (
	"math"
	"strconv"
)

const (
	// earth is the radius of the earth in metres, as Redis has it.
	earth = 6372797.560856
	// radian is one degree in radians. pi is rounded first, since Go would
	// otherwise divide the exact pi.
	radian = float64(math.Pi) / 180
)

func radians(degrees float64) float64 { return float64(degrees * radian) }
func degrees(radians float64) float64 { return radians / radian }

// Distance is the distance of two places in metres, by the haversine formula.
func Distance(lon1, lat1, lon2, lat2 float64) float64 {
	return point{lon1, lat1, cos(radians(lat1))}.distance(lon2, lat2)
}

// point is a place with the cosine of its latitude.
type point struct{ lon, lat, cos float64 }

// distance is Distance from the point to a place.
func (p point) distance(lon, lat float64) float64 {
	v := sin((radians(lon) - radians(p.lon)) / 2)
	if v == 0 {
		return latDistance(p.lat, lat)
	}
	r1, r2 := radians(p.lat), radians(lat)
	u, c := 0.0, p.cos
	if lat != p.lat {
		u, c = sin((r2-r1)/2), cos(r2)
	}
	a := float64(u*u) + float64(float64(float64(p.cos*c)*v)*v)
	return 2 * earth * asin(math.Sqrt(a))
}

// latDistance is Distance of two places on one meridian.
func latDistance(lat1, lat2 float64) float64 {
	return earth * math.Abs(radians(lat2)-radians(lat1))
}

// Unit is a unit of length, in metres.
type Unit float64

const (
	Metre     Unit = 1
	Kilometre Unit = 1000
	Foot      Unit = 0.3048
	Mile      Unit = 1609.34
)

// AppendDistance appends a distance with four decimals, rounded to even as Redis
// does. NaN, the distance between some exactly opposite places, is printed as the
// integer that C converts it to.
func AppendDistance(b []byte, d float64) []byte {
	n := int64(math.MinInt64)
	if scaled := math.RoundToEven(d * 10000); math.Abs(scaled) < 1<<63 {
		n = int64(scaled)
	}
	abs := uint64(n)
	if n < 0 {
		b, abs = append(b, '-'), -abs
	}
	b = append(strconv.AppendUint(b, abs/10000, 10), '.')
	f := abs % 10000
	return append(b, '0'+byte(f/1000), '0'+byte(f/100%10), '0'+byte(f/10%10), '0'+byte(f%10))
}
