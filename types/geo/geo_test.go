package geo

import (
	"fmt"
	"math"
	"math/big"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"
)

func seeded(t *testing.T) *rand.Rand {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	return rand.New(rand.NewPCG(seed, 1))
}

func randomPlace(rng *rand.Rand) (lon, lat float64) {
	return MinLon + rng.Float64()*(MaxLon-MinLon), MinLat + rng.Float64()*(MaxLat-MinLat)
}

// What Redis 7.2.6 has for some places: ZSCORE, GEOPOS and GEOHASH.
func TestKnownPlaces(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		lon, lat, score float64
		pos, hash       string
	}{
		{13.361389, 38.115556, 3479099956230698, "13.36138933897018433 38.11555639549629859", "sqc8b49rny0"},
		{15.087269, 37.502669, 3479447370796909, "15.08726745843887329 37.50266842333162032", "sqdtr74hyu0"},
	} {
		score := Encode(c.lon, c.lat)
		lon, lat := Decode(score)
		if score != c.score {
			t.Errorf("%v %v: score %.0f, want %.0f", c.lon, c.lat, score, c.score)
		}
		if pos := fmt.Sprintf("%.17f %.17f", lon, lat); pos != c.pos {
			t.Errorf("%v %v: place %s, want %s", c.lon, c.lat, pos, c.pos)
		}
		if hash := string(AppendHash(nil, score)); hash != c.hash {
			t.Errorf("%v %v: hash %s, want %s", c.lon, c.lat, hash, c.hash)
		}
	}
}

func FuzzEncode(f *testing.F) {
	f.Add(0.0, 0.0)
	f.Add(MaxLon, MaxLat)
	f.Add(MinLon, MinLat)
	f.Add(13.361389, 38.115556)
	f.Fuzz(func(t *testing.T, lon, lat float64) {
		if !Valid(lon, lat) {
			return
		}
		score := Encode(lon, lat)
		x, y := Decode(score)
		// The box has 1/2^26 of either range. At the eastern end the score has a bit
		// more than a float, so that the latitude may be in the next one.
		if math.Abs(x-lon) > 360.0/(1<<26) || math.Abs(y-lat) > 2*2*MaxLat/(1<<26) {
			t.Fatalf("%v %v came back as %v %v", lon, lat, x, y)
		}
		if lon < MaxLon && lat < MaxLat && Encode(x, y) != score {
			t.Fatalf("%v %v: the middle of the box %v has the score %v", lon, lat, score, Encode(x, y))
		}
		if lon < MaxLon && Distance(lon, lat, x, y) > 0.6 {
			t.Fatalf("%v %v: the box is %v m away", lon, lat, Distance(lon, lat, x, y))
		}
	})
}

func FuzzDecode(f *testing.F) {
	for _, s := range []float64{0, 1 << 52, 1<<54 - 2, -1, 1e300, math.Inf(1), math.Inf(-1), 3479099956230698.5, 1 << 63, -1 << 63} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, score float64) {
		if math.IsNaN(score) {
			return
		}
		if lon, lat := Decode(score); !Valid(lon, lat) {
			t.Fatalf("%v is at %v %v", score, lon, lat)
		}
		if h := AppendHash(nil, score); len(h) != 11 || strings.Trim(string(h), alphabet) != "" {
			t.Fatalf("%v has the hash %q", score, h)
		}
	})
}

func TestSpread(t *testing.T) {
	t.Parallel()
	rng := seeded(t)
	for range 1000 {
		x, y := rng.Uint32(), rng.Uint32()
		v := spread(x) | spread(y)<<1
		if gather(v) != x || gather(v>>1) != y {
			t.Fatalf("%x %x became %x", x, y, v)
		}
	}
}

// A box moved is the box of the place that much further.
func TestMove(t *testing.T) {
	t.Parallel()
	rng := seeded(t)
	for range 2000 {
		lon, lat := randomPlace(rng)
		step := uint(1 + rng.IntN(steps))
		b := box{encode(lon, lat, MinLat, MaxLat, step), step}
		n := uint32(1)<<step - 1
		for _, d := range directions {
			m := b.move(d.x, d.y)
			x, y := gather(b.bits>>1)+uint32(d.x), gather(b.bits)+uint32(d.y)
			if want := spread(y&n) | spread(x&n)<<1; m.bits != want || m.step != step {
				t.Fatalf("%x at step %d by %v: %x, want %x", b.bits, step, d, m.bits, want)
			}
		}
	}
}

// The functions agree with series in arithmetic of 300 bits.
func TestTrigonometry(t *testing.T) {
	t.Parallel()
	rng := seeded(t)
	for i := range 3000 {
		x := (rng.Float64() - 0.5) * 2 * math.Pi
		if i%4 == 0 {
			x = math.Ldexp(x, -rng.IntN(60))
		}
		if i%50 == 0 {
			x = float64(rng.IntN(5)-2) * halfPi1
		}
		s, c := bigSinCos(x)
		if got := sin(x); got != s {
			t.Errorf("sin(%v) = %v, want %v", x, got, s)
		}
		if got := cos(x); got != c {
			t.Errorf("cos(%v) = %v, want %v", x, got, c)
		}
		y := math.Abs(math.Sin(x))
		if i%10 == 0 {
			y = 1 - math.Ldexp(rng.Float64(), -rng.IntN(53))
		}
		if got, want := asin(y), bigAsin(y); got != want {
			t.Errorf("asin(%v) = %v, want %v", y, got, want)
		}
	}
	if asin(0) != 0 || asin(1) != math.Pi/2 || !math.IsNaN(asin(1.0000000000000002)) {
		t.Error("asin at the ends is wrong")
	}
}

const bigBits = 300

func bigFloat(x float64) *big.Float { return new(big.Float).SetPrec(bigBits).SetFloat64(x) }

func bigSinCosOf(x *big.Float) (s, c *big.Float) {
	s, c = bigFloat(0), bigFloat(0)
	term := bigFloat(1)
	for n := range 90 {
		to := []*big.Float{c, s}[n%2]
		if n%4 < 2 {
			to.Add(to, term)
		} else {
			to.Sub(to, term)
		}
		term = new(big.Float).SetPrec(bigBits).Mul(term, x)
		term.Quo(term, bigFloat(float64(n+1)))
	}
	return s, c
}

func bigSinCos(x float64) (float64, float64) {
	s, c := bigSinCosOf(bigFloat(x))
	sf, _ := s.Float64()
	cf, _ := c.Float64()
	return sf, cf
}

// bigAsin solves sin(y) = x by way of the angle between (cos y, sin y) and the
// point on the circle at height x.
func bigAsin(x float64) float64 {
	one := bigFloat(1)
	h := bigFloat(x)
	w := new(big.Float).SetPrec(bigBits).Mul(h, h)
	w.Sub(one, w).Sqrt(w)
	y := bigFloat(math.Asin(x))
	for range 4 {
		s, c := bigSinCosOf(y)
		d := new(big.Float).SetPrec(bigBits).Sub(c.Mul(c, h), s.Mul(s, w))
		y.Add(y, d)
	}
	f, _ := y.Float64()
	return f
}

// GEODIST and STOREDIST of Redis 7.2.6.
func TestDistance(t *testing.T) {
	t.Parallel()
	lon1, lat1 := Decode(3479099956230698)
	lon2, lat2 := Decode(3479447370796909)
	d := Distance(lon1, lat1, lon2, lat2)
	for _, c := range []struct {
		unit Unit
		text string
	}{{Metre, "166274.1516"}, {Kilometre, "166.2742"}, {Mile, "103.3182"}, {Foot, "545518.8700"}} {
		if got := string(AppendDistance(nil, d/float64(c.unit))); got != c.text {
			t.Errorf("in units of %v m: %s, want %s", c.unit, got, c.text)
		}
	}
	for d, text := range map[float64]string{
		0: "0.0000", 0.00004: "0.0000", 0.0005: "0.0005", 0.00005: "0.0000", 0.775: "0.7750", 12.34567: "12.3457", 9.99999: "10.0000",
		20015086.79602057: "20015086.7960", math.Inf(1): "-922337203685477.5808",
	} {
		if got := string(AppendDistance(nil, d)); got != text {
			t.Errorf("%v: %s, want %s", d, got, text)
		}
	}
	if got := string(AppendDistance(nil, math.NaN())); got != "-922337203685477.5808" {
		t.Errorf("NaN: %s", got)
	}
}

// set is a sorted set that counts what a search reads of it.
type set struct {
	scores  []float64
	visited int
}

func newSet(rng *rand.Rand, n int, place func() (lon, lat float64)) *set {
	s := &set{}
	for range n {
		s.scores = append(s.scores, Encode(place()))
	}
	slices.Sort(s.scores)
	return s
}

func (s *set) source(min, max float64, visit func(member []byte, score float64) bool) bool {
	i, _ := slices.BinarySearch(s.scores, min)
	for ; i < len(s.scores) && s.scores[i] < max; i++ {
		s.visited++
		if !visit(fmt.Appendf(nil, "m%d", i), s.scores[i]) {
			return false
		}
	}
	return true
}

// A search finds what looking at every member finds, and reads not much more
// than that.
func TestFindLikeBruteForce(t *testing.T) {
	t.Parallel()
	rng := seeded(t)
	for round := range 300 {
		lon, lat := randomPlace(rng)
		lat *= 0.9
		extent := math.Ldexp(20e6, -rng.IntN(16))
		s := newSet(rng, 2000, func() (float64, float64) {
			if round%3 == 0 {
				return randomPlace(rng)
			}
			d := degrees(extent/earth) * 2
			x := math.Mod(lon+(rng.Float64()-0.5)*2*d+540, 360) - 180
			return max(MinLon, x), max(MinLat, min(85, lat+(rng.Float64()-0.5)*2*d))
		})
		q := Search{Shape: Shape{Lon: lon, Lat: lat, Unit: []Unit{Metre, Kilometre, Foot, Mile}[rng.IntN(4)]}}
		q.Radius = extent / float64(q.Unit) * rng.Float64()
		if round%2 == 0 {
			q.Box, q.Width, q.Height = true, q.Radius*(0.1+2*rng.Float64()), q.Radius*(0.1+2*rng.Float64())
		}
		if b := q.bounds(); b.minLat < -88 || b.maxLat > 88 || b.maxLon-b.minLon > 340 {
			continue // Redis misses places where an area reaches over a pole or around the earth, and so do we
		}
		m := q.measure()
		var want []string
		for i, score := range s.scores {
			if _, ok := m.within(Decode(score)); ok {
				want = append(want, fmt.Sprintf("m%d", i))
			}
		}
		var got []string
		for _, p := range q.Find(s.source) {
			got = append(got, string(p.Member))
		}
		slices.Sort(got)
		slices.Sort(want)
		if !slices.Equal(got, want) {
			t.Fatalf("round %d: %+v: %d found, there are %d", round, q.Shape, len(got), len(want))
		}
	}
}

// The fast way to say that a place is too far never contradicts the exact one.
func TestWithinIsExact(t *testing.T) {
	t.Parallel()
	rng := seeded(t)
	for range 20000 {
		s := Shape{Unit: Metre}
		s.Lon, s.Lat = randomPlace(rng)
		d := math.Ldexp(1, -rng.IntN(40))
		lon, lat := s.Lon+(rng.Float64()-0.5)*d, max(MinLat, min(MaxLat, s.Lat+(rng.Float64()-0.5)*d))
		exact := Distance(s.Lon, s.Lat, lon, lat)
		for _, r := range []float64{exact, math.Nextafter(exact, 0), exact * 1.0000001, exact * 0.9999999, 0} {
			s.Radius = r
			if _, ok := s.measure().within(lon, lat); ok != (exact <= r) {
				t.Fatalf("%+v: %v %v at %v is said to be within: %v", s, lon, lat, exact, ok)
			}
		}
	}
}

func TestFindOrders(t *testing.T) {
	t.Parallel()
	rng := seeded(t)
	s := newSet(rng, 500, func() (float64, float64) { return rng.Float64(), rng.Float64() })
	s.scores = append(s.scores, s.scores[100:200]...) // some at the same place
	slices.Sort(s.scores)
	all := Search{Shape: Shape{Lon: 0.5, Lat: 0.5, Radius: 40, Unit: Kilometre}}
	names := func(p []Place) (out []string) {
		for _, p := range p {
			out = append(out, string(p.Member))
		}
		return out
	}
	found := all.Find(s.source)
	for _, order := range []Order{Nearest, Farthest} {
		want := slices.Clone(found)
		slices.SortStableFunc(want, func(a, b Place) int {
			c := 0
			if a.Distance < b.Distance {
				c = -1
			} else if a.Distance > b.Distance {
				c = 1
			}
			if order == Farthest {
				c = -c
			}
			return c
		})
		for _, count := range []int64{0, 1, 2, 7, 50, 1000} {
			q := all
			q.Order, q.Count = order, count
			w := want
			if count > 0 && count < int64(len(w)) {
				w = w[:count]
			}
			if got := names(q.Find(s.source)); !slices.Equal(got, names(w)) {
				t.Errorf("order %d count %d: %.200q, want %.200q", order, count, got, names(w))
			}
		}
	}
	q := all
	q.Count, q.Any = 9, true
	if got := names(q.Find(s.source)); !slices.Equal(got, names(found[:9])) {
		t.Errorf("any 9: %q, want %q", got, names(found[:9]))
	}
	q.Order = Nearest
	if got := q.Find(s.source); len(got) != 9 || !slices.IsSortedFunc(got, func(a, b Place) int { return int(a.Distance*1e6) - int(b.Distance*1e6) }) {
		t.Errorf("any 9, nearest first: %v", got)
	}
}

// A search for places nearby reads the boxes around it, not the whole set.
func TestFindReadsLittle(t *testing.T) {
	t.Parallel()
	rng := seeded(t)
	s := newSet(rng, 100_000, func() (float64, float64) { return rng.Float64() * 10, rng.Float64() * 10 })
	for range 100 {
		s.visited = 0
		q := Search{Shape: Shape{Lon: rng.Float64() * 10, Lat: rng.Float64() * 10, Radius: 10, Unit: Kilometre}}
		found := len(q.Find(s.source))
		if s.visited > 1500 {
			t.Errorf("%d places were read to find %d of %d", s.visited, found, len(s.scores))
		}
	}
}

func BenchmarkDistance(b *testing.B) {
	for range b.N {
		Distance(13.361389, 38.115556, 15.087269, 37.502669)
	}
}

func BenchmarkFind(b *testing.B) {
	rng := rand.New(rand.NewPCG(1, 1))
	s := newSet(rng, 100_000, func() (float64, float64) { return rng.Float64() * 10, rng.Float64() * 10 })
	q := Search{Shape: Shape{Lon: 5, Lat: 5, Radius: 10, Unit: Kilometre}}
	member := []byte("member")
	source := func(min, max float64, visit func(member []byte, score float64) bool) bool {
		i, _ := slices.BinarySearch(s.scores, min)
		for ; i < len(s.scores) && s.scores[i] < max; i++ {
			s.visited++
			visit(member, s.scores[i])
		}
		return true
	}
	b.ReportAllocs()
	found := 0
	for range b.N {
		found = len(q.Find(source))
	}
	b.ReportMetric(float64(s.visited)/float64(b.N), "read/op")
	b.ReportMetric(float64(found), "found/op")
}
