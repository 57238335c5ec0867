package differential

import (
	"fmt"
	"math"
	"math/rand/v2"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"redoubt/internal/testserver"
)

// Searches for places, compared with a real Redis in every digit, and between the
// engines and the two forms of a sorted set where there is none.

// geoOps makes a sorted set or two with random places, and searches of all sorts
// and sizes.
func geoOps(rng *rand.Rand, length int) (ops []op) {
	do := func(args ...string) { ops = append(ops, op{args: args}) }
	pick := func(list ...string) string { return list[rng.IntN(len(list))] }
	num := func(f float64) string { return strconv.FormatFloat(f, 'g', -1, 64) }
	do("CONFIG", "SET", "zset-max-listpack-entries", pick("0", "3", "128"))
	// Places all over the earth, or near each other, also at the ends of the map;
	// not so near that they are the same, since Redis leaves it to chance which of
	// those come first with COUNT.
	centreLon, centreLat := rng.Float64()*360-180, rng.Float64()*170-85
	spread := math.Ldexp(180, -rng.IntN(12))
	place := func() (lon, lat string) {
		x := math.Mod(centreLon+(rng.Float64()-0.5)*spread+540, 360) - 180
		y := centreLat + (rng.Float64()-0.5)*spread
		if math.Abs(y) > 85 {
			y = math.Copysign(85-rng.Float64(), y)
		}
		switch rng.IntN(40) {
		case 0:
			return pick("180", "-180", "0", "-0", "179.9999999"), num(y / 2)
		case 1:
			return num(x), pick("85.05112878", "-85.05112878", "0", "85", "-85")
		}
		return num(x), num(y)
	}
	members := 1 + rng.IntN(60)
	member := func() string { return "m" + strconv.Itoa(rng.IntN(members+1)) }
	from := func() []string {
		if rng.IntN(3) == 0 {
			return []string{"FROMMEMBER", member()}
		}
		lon, lat := place()
		return []string{"FROMLONLAT", lon, lat}
	}
	size := func() string { return num(spread * 111 * math.Ldexp(rng.Float64(), rng.IntN(6)-3)) }
	options := func(with bool) (o []string) {
		if rng.IntN(2) == 0 {
			o = append(o, pick("ASC", "DESC"))
		}
		if rng.IntN(3) == 0 {
			o = append(o, "COUNT", strconv.Itoa(1+rng.IntN(10)))
			if rng.IntN(3) == 0 {
				o = append(o, "ANY")
			}
		}
		for _, w := range []string{"WITHDIST", "WITHHASH", "WITHCOORD"} {
			if with && rng.IntN(3) == 0 {
				o = append(o, w)
			}
		}
		return o
	}
	unit := func() string { return pick("m", "km", "ft", "mi", "KM") }
	scale := func(u string) string { // lengths that fit the places, whatever the unit
		f, _ := strconv.ParseFloat(size(), 64)
		switch u {
		case "m":
			f *= 1000
		case "ft":
			f *= 3280
		case "mi":
			f /= 1.6
		}
		return num(f)
	}
	for len(ops) < length {
		key := pick("g", "g", "g", "h")
		u := unit()
		area := []string{"BYRADIUS", scale(u), u}
		if rng.IntN(2) == 0 {
			area = []string{"BYBOX", scale(u), scale(u), u}
		}
		join := func(lists ...[]string) (all []string) {
			for _, l := range lists {
				all = append(all, l...)
			}
			return all
		}
		switch p := rng.IntN(100); {
		case p < 35:
			args := []string{"GEOADD", key}
			if rng.IntN(10) == 0 {
				args = append(args, pick("NX", "XX", "CH"))
			}
			for range 1 + rng.IntN(8) {
				lon, lat := place()
				args = append(args, lon, lat, member())
			}
			do(args...)
		case p < 60:
			do(join([]string{"GEOSEARCH", key}, from(), area, options(true))...)
		case p < 70:
			store := []string{}
			if rng.IntN(2) == 0 {
				store = []string{"STOREDIST"}
			}
			do(join([]string{"GEOSEARCHSTORE", "d", key}, from(), area, options(false), store)...)
			do("ZRANGE", "d", "0", "-1", "WITHSCORES")
		case p < 76:
			lon, lat := place()
			do(join([]string{pick("GEORADIUS", "GEORADIUS_RO"), key, lon, lat, scale(u), u}, options(true))...)
		case p < 80:
			do(join([]string{pick("GEORADIUSBYMEMBER", "GEORADIUSBYMEMBER_RO"), key, member(), scale(u), u}, options(true))...)
		case p < 83:
			do("GEORADIUSBYMEMBER", key, member(), scale(u), u, pick("STORE", "STOREDIST"), "e")
			do("ZRANGE", "e", "0", "-1", "WITHSCORES")
		case p < 90:
			do("GEODIST", key, member(), member(), u)
		case p < 94:
			do("GEOPOS", key, member(), member())
		case p < 97:
			do("GEOHASH", key, member(), member())
		default:
			do("ZREM", key, member(), member())
		}
	}
	return ops
}

// sequencesOf runs sequences that a function makes until one differs.
func sequencesOf(t *testing.T, count int, make func(rng *rand.Rand, length int) []op, targets []target) {
	t.Helper()
	if *sequences > 0 {
		count = *sequences
	}
	first := *seed
	if first == 0 {
		first = uint64(time.Now().UnixNano())
	}
	for i := range count {
		s := first + uint64(i)
		d, err := compare(make(rand.New(rand.NewPCG(s, 1)), *length), 2+int(s%2), false, targets)
		again := fmt.Sprintf("go test ./test/differential -run '^%s$' -seed %d -sequences 1 -length %d", t.Name(), s, *length)
		if err != nil {
			t.Fatalf("seed %d: %v\nrun again: %s", s, err, again)
		}
		if d != nil {
			t.Fatalf("seed %d: replies differ after\n%s\nrun again: %s", s, d.shrink(false), again)
		}
	}
	t.Logf("%d sequences from seed %d, no difference", count, first)
}

func TestGeoEngines(t *testing.T) {
	t.Parallel()
	sequencesOf(t, 30, geoOps, []target{
		redoubtTarget(t, testserver.Options{Engine: "mem"}, false, 1),
		redoubtTarget(t, testserver.Options{Engine: "local"}, false, 20),
		redoubtTarget(t, testserver.Options{Engine: "cold"}, false, 20),
	})
}

func TestGeoRedis(t *testing.T) {
	testserver.Oracle(t)
	sequencesOf(t, 300, geoOps, []target{
		nearly{redisTarget(t)}, nearly{redoubtTarget(t, testserver.Options{Engine: "mem"}, false, 20)},
	})
}

// nearly is a target whose scores are rounded to 11 digits. A distance that was
// stored shows the last bit of sines and cosines, in which C libraries differ from
// the right one in a case of a thousand.
type nearly struct{ target }

func (n nearly) run(ops []op, proto int) ([]string, error) {
	replies, err := n.target.run(ops, proto)
	for i := range replies {
		if ops[i].args[0] == "ZRANGE" {
			replies[i] = fraction.ReplaceAllStringFunc(replies[i], func(s string) string {
				f, _ := strconv.ParseFloat(s[strings.LastIndexAny(s, ",\n")+1:], 64)
				return strconv.FormatFloat(f, 'g', 11, 64)
			})
		}
	}
	return replies, err
}

// fraction is a number with a point, in RESP2 with its length in front.
var fraction = regexp.MustCompile(`(\$\d+\r\n|,)\d+\.\d+`)
