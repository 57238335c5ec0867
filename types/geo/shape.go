package geo

import "math"

// Shape is the area of a search: a circle, or a box whose sides run along meridians
// and parallels. Lengths are in Unit.
type Shape struct {
	Lon, Lat      float64 // the centre
	Box           bool
	Radius        float64
	Width, Height float64
	Unit          Unit
}

// boxes returns the boxes of geohashes that cover the shape, in the order in which
// Redis scans them, which is that of its replies: the box of the centre, then the
// neighbours that are needed.
//
// The boxes are so large that the shape reaches into the next box at most. Where the
// neighbours wrap around the earth, a box that repeats the previous one is left out.
func (s *Shape) boxes() []box {
	bounds := s.bounds()
	step := s.step()
	centre, around := s.at(step)
	if step > 1 && !covers(centre, bounds) {
		step--
		centre, around = s.at(step)
	}
	if step > 1 {
		exclude(&around, centre.area(), bounds)
	}
	list := []box{centre}
	for _, b := range around {
		last := list[len(list)-1]
		if b.step > 0 && (len(list) == 1 || b != last) {
			list = append(list, b)
		}
	}
	return list
}

// directions are the offsets of the boxes around the centre, to the east and north.
var directions = [8]struct{ x, y int }{{0, 1}, {0, -1}, {1, 0}, {-1, 0}, {1, 1}, {-1, 1}, {1, -1}, {-1, -1}}

// at returns the box of the centre at a step, and those around it.
func (s *Shape) at(step uint) (centre box, around [8]box) {
	centre = box{encode(s.Lon, s.Lat, MinLat, MaxLat, step), step}
	for i, d := range directions {
		around[i] = centre.move(d.x, d.y)
	}
	return centre, around
}

// bounds is an area around the shape. Its longitudes are computed at the side nearer
// to the pole, where meridians are closest together.
func (s *Shape) bounds() area {
	w, h := s.Radius, s.Radius
	if s.Box {
		w, h = s.Width/2, s.Height/2
	}
	w, h = float64(float64(s.Unit)*w), float64(float64(s.Unit)*h)
	dLat := degrees(h / earth)
	edge := s.Lat + dLat
	if s.Lat < 0 {
		edge = s.Lat - dLat
	}
	dLon := degrees(w / earth / cos(radians(edge)))
	return area{minLon: s.Lon - dLon, maxLon: s.Lon + dLon, minLat: s.Lat - dLat, maxLat: s.Lat + dLat}
}

// mercator is half of the earth's circumference in Web Mercator, in metres.
const mercator = 20037726.37

// step estimates the largest step, that is the smallest boxes, that will do.
func (s *Shape) step() uint {
	r := s.Radius
	if s.Box { // up to a corner
		w, h := s.Width/2, s.Height/2
		r = math.Sqrt(float64(w*w) + float64(h*h))
	}
	r *= float64(s.Unit)
	if r == 0 {
		return steps
	}
	step := -1
	for ; r < mercator; r *= 2 {
		step++
	}
	// Meridians come together towards the poles.
	lat := math.Abs(s.Lat)
	if lat > 66 {
		step--
	}
	if lat > 80 {
		step--
	}
	return uint(max(1, min(steps, step)))
}

// covers reports whether the boxes around this one reach to the bounds. The centre
// may be near a side of its box.
func covers(centre box, bounds area) bool {
	short := centre.move(0, 1).area().maxLat < bounds.maxLat || centre.move(0, -1).area().minLat > bounds.minLat ||
		centre.move(1, 0).area().maxLon < bounds.maxLon || centre.move(-1, 0).area().minLon > bounds.minLon
	return !short // true also where the bounds are NaN
}

// exclude drops the neighbours at the sides where the centre's box reaches beyond
// the bounds.
func exclude(around *[8]box, centre, bounds area) {
	for i, d := range directions {
		if d.y < 0 && centre.minLat < bounds.minLat || d.y > 0 && centre.maxLat > bounds.maxLat ||
			d.x < 0 && centre.minLon < bounds.minLon || d.x > 0 && centre.maxLon > bounds.maxLon {
			around[i] = box{}
		}
	}
}

// measure is a shape with precomputed values. Lengths are in metres.
type measure struct {
	shape                 *Shape
	radius, width, height float64
	centre                point
	// far is a bound on the squared sine of half the angle between two places: above
	// far, they are certainly farther apart than the radius or half the width.
	far float64
}

func (s *Shape) measure() *measure {
	u := float64(s.Unit)
	m := &measure{shape: s, radius: s.Radius * u, width: s.Width * u, height: s.Height * u, centre: point{s.Lon, s.Lat, cos(radians(s.Lat))}}
	reach := m.radius
	if s.Box {
		reach = m.width / 2
	}
	// The margins are a million times the rounding errors of the values compared.
	m.far = math.Inf(1)
	if angle := (reach*(1+1e-9) + 1e-3) / earth / 2; angle < math.Pi/2 {
		h := math.Sin(angle)
		m.far = h * h * (1 + 1e-9)
	}
	return m
}

// within returns the distance of a place from the centre in metres, if the place is
// in the shape.
//
// Places that are certainly too far are excluded with Go's own functions, without an
// arc sine; the exact arithmetic is for the others.
func (m *measure) within(lon, lat float64) (distance float64, ok bool) {
	s := m.shape
	across := latDistance(lat, s.Lat)
	h := math.Sin((lon - s.Lon) * (radian / 2))
	if s.Box {
		c := math.Cos(lat * radian)
		if across > m.height/2 || c*c*h*h > m.far || Distance(lon, lat, s.Lon, lat) > m.width/2 {
			return 0, false
		}
		return m.centre.distance(lon, lat), true
	}
	if across > m.radius*(1+1e-9)+1e-3 {
		return 0, false
	}
	v := math.Sin((lat - s.Lat) * (radian / 2))
	if v*v+m.centre.cos*math.Cos(lat*radian)*h*h > m.far {
		return 0, false
	}
	d := m.centre.distance(lon, lat)
	return d, !(d > m.radius)
}
