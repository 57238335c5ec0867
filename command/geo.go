package command

import (
	"fmt"
	"math"
	"slices"
	"strconv"

	"redoubt/keyspace"
	"redoubt/number"
	"redoubt/types/geo"
	"redoubt/types/zset"
)

// GeoCommands are the commands on places, which are sorted sets whose scores are
// geohashes.
var GeoCommands = []*Command{
	geoAdd, geoDist, geoHash, geoPos, geoSearch, geoSearchStore, geoRadius, geoRadiusRO, geoRadiusByMember, geoRadiusByMemberRO,
}

// Errors of places.
const (
	ErrGeoUnit    = Error("ERR unsupported unit provided. please use M, KM, FT, MI")
	ErrGeoRadius  = Error("ERR need numeric radius")
	ErrGeoMinus   = Error("ERR radius cannot be negative")
	ErrGeoWidth   = Error("ERR need numeric width")
	ErrGeoHeight  = Error("ERR need numeric height")
	ErrGeoBox     = Error("ERR height or width cannot be negative")
	ErrGeoMember  = Error("ERR could not decode requested zset member")
	ErrGeoCount   = Error("ERR COUNT must be > 0")
	ErrGeoAny     = Error("ERR the ANY argument requires COUNT argument")
	ErrGeoStore   = Error("ERR STORE option in GEORADIUS is not compatible with WITHDIST, WITHHASH and WITHCOORD options")
	ErrGeoSearchS = Error("ERR GEOSEARCHSTORE is not compatible with WITHDIST, WITHHASH and WITHCOORD options")
)

// placeError is the answer to a place that is not on the map.
func placeError(lon, lat float64) error {
	return Error("ERR invalid longitude,latitude pair " + cDecimal(lon) + "," + cDecimal(lat))
}

// searchError is the answer to a search that lacks one of two options. The name
// of the command is as the client wrote it.
func searchError(options string, name []byte) error {
	return Error(fmt.Sprintf("ERR exactly one of %s can be specified for %s", options, cString(name)))
}

// cDecimal is C's %f.
func cDecimal(f float64) string {
	switch {
	case math.IsInf(f, 1):
		return "inf"
	case math.IsInf(f, -1):
		return "-inf"
	}
	return strconv.FormatFloat(f, 'f', 6, 64)
}

const unitSyntax = "unit=<M|KM|FT|MI>"

var geoAdd = &Command{
	Name: "geoadd", Group: Geo, Since: "3.2.0", Arity: -5,
	Flags: Write | DenyOOM, Keys: OneKey(1, RW|Update),
	Syntax:     "key [condition=<NX|XX>@6.2.0] [change=CH@6.2.0] (longitude:double latitude:double member)...",
	Summary:    "Adds places to a sorted set, or moves them.",
	Complexity: "O(log(N)) for each place, where N is the number of members",
	Run:        runGeoAdd,
}

// runGeoAdd is ZADD with scores that are computed from coordinates.
func runGeoAdd(c *Ctx) error {
	var nx, xx, ch bool
	first := 2
options:
	for ; first < len(c.Args); first++ {
		switch {
		case isWord(c.Args[first], "nx"):
			nx = true
		case isWord(c.Args[first], "xx"):
			xx = true
		case isWord(c.Args[first], "ch"):
			ch = true
		default:
			break options
		}
	}
	places := c.Args[first:]
	if len(places)%3 != 0 || nx && xx || len(places) == 0 {
		return ErrSyntax
	}
	if c.Tx.Heavy(int64(len(places)) * keyWork) {
		return nil
	}
	var buf [16]float64
	scores := buf[:0]
	for i := 0; i < len(places); i += 3 {
		lon, lat, err := geoPlace(places[i], places[i+1])
		if err != nil {
			return err
		}
		scores = append(scores, geo.Encode(lon, lat))
	}
	z, err := zset.Open(c.Tx, c.Args[1], &c.Limits.Limits)
	if err != nil {
		return err
	}
	defer z.Release()
	added, moved := 0, 0
	if z.Exists() || !xx {
		z.Expect(len(scores), len(places[2]))
		z.Prefetch(places[2:], 3)
		for i, score := range scores {
			member := places[3*i+2]
			old, found := z.Score(member)
			switch {
			case !found && !xx:
				z.Insert(member, score)
				added++
			case found && !nx && z.Replace(member, old, score):
				moved++
			}
		}
	}
	c.saved(z, keyspace.ZSetEv, "zadd", c.Args[1], added+moved) // it may have unfolded although nothing was added
	if added+moved > 0 && c.Tx.Propagates() {
		args := slices.Clone(c.Args[1:first])
		for i, score := range scores {
			args = append(args, strconv.AppendFloat(nil, score, 'f', -1, 64), places[3*i+2])
		}
		c.propagate("zadd", args...)
	}
	if ch {
		added += moved
	}
	c.Reply.Int(int64(added))
	return nil
}

// geoPlace reads coordinates.
func geoPlace(lonArg, latArg []byte) (lon, lat float64, err error) {
	lon, ok := number.ParseDouble(lonArg)
	if !ok {
		return 0, 0, ErrNotFloat
	}
	if lat, ok = number.ParseDouble(latArg); !ok {
		return 0, 0, ErrNotFloat
	}
	if !geo.Valid(lon, lat) {
		return 0, 0, placeError(lon, lat)
	}
	return lon, lat, nil
}

// geoUnit reads a unit of length.
func geoUnit(arg []byte) (geo.Unit, error) {
	switch {
	case isWord(arg, "m"):
		return geo.Metre, nil
	case isWord(arg, "km"):
		return geo.Kilometre, nil
	case isWord(arg, "ft"):
		return geo.Foot, nil
	case isWord(arg, "mi"):
		return geo.Mile, nil
	}
	return 0, ErrGeoUnit
}

var geoDist = &Command{
	Name: "geodist", Group: Geo, Since: "3.2.0", Arity: -4,
	Flags: ReadOnly, Keys: OneKey(1, RO|Access),
	Syntax:     "key member1 member2 [" + unitSyntax + "]",
	Summary:    "Measures how far two members are apart.",
	Complexity: "O(log(N)) where N is the number of members",
	Run: func(c *Ctx) error {
		unit := geo.Metre
		if len(c.Args) > 5 {
			return ErrSyntax
		}
		if len(c.Args) == 5 {
			var err error
			if unit, err = geoUnit(c.Args[4]); err != nil {
				return err
			}
		}
		z, err := zset.Read(c.Tx, c.Args[1])
		if err != nil {
			return err
		}
		defer z.Release()
		from, ok := z.Score(c.Args[2])
		to, both := z.Score(c.Args[3])
		if !ok || !both {
			c.Reply.Null()
			return nil
		}
		lon1, lat1 := geo.Decode(from)
		lon2, lat2 := geo.Decode(to)
		c.replyDistance(geo.Distance(lon1, lat1, lon2, lat2) / float64(unit))
		return nil
	},
}

// replyDistance writes a distance: text in RESP3, too.
func (c *Ctx) replyDistance(d float64) {
	var buf [32]byte
	c.Reply.Bulk(geo.AppendDistance(buf[:0], d))
}

// replyPlace writes coordinates.
func (c *Ctx) replyPlace(lon, lat float64) {
	c.Reply.Array(2)
	c.replyCoordinate(lon)
	c.replyCoordinate(lat)
}

// replyCoordinate writes a coordinate as Redis prints a long double for people:
// with 17 digits behind the point, less the zeros at the end.
func (c *Ctx) replyCoordinate(f float64) {
	var buf [32]byte
	text := strconv.AppendFloat(buf[:0], f, 'f', 17, 64)
	end := len(text)
	for end > 0 && text[end-1] == '0' {
		end--
	}
	if text[end-1] == '.' {
		end--
	}
	if text = text[:end]; string(text) == "-0" {
		text = text[1:]
	}
	if w := c.Reply; w.Proto == 3 {
		w.Buf = append(append(append(w.Buf, ','), text...), '\r', '\n')
	} else {
		w.Bulk(text)
	}
}

var geoHash = &Command{
	Name: "geohash", Group: Geo, Since: "3.2.0", Arity: -2,
	Flags: ReadOnly, Keys: OneKey(1, RO|Access),
	Syntax:     "key [member...]",
	Summary:    "Tells the geohashes of members, as other programs write them.",
	Complexity: "O(log(N)) for each member asked for, where N is the number of members",
	Run: func(c *Ctx) error {
		var buf [16]byte
		return eachPlace(c, c.Reply.Null, func(score float64) { c.Reply.Bulk(geo.AppendHash(buf[:0], score)) })
	},
}

var geoPos = &Command{
	Name: "geopos", Group: Geo, Since: "3.2.0", Arity: -2,
	Flags: ReadOnly, Keys: OneKey(1, RO|Access),
	Syntax:     "key [member...]",
	Summary:    "Tells where members are: their longitudes and latitudes.",
	Complexity: "O(1) for each member asked for",
	Run: func(c *Ctx) error {
		return eachPlace(c, c.Reply.NullArray, func(score float64) { c.replyPlace(geo.Decode(score)) })
	},
}

// eachPlace replies for each member that the call names.
func eachPlace(c *Ctx, missing func(), found func(score float64)) error {
	z, err := zset.Read(c.Tx, c.Args[1])
	if err != nil {
		return err
	}
	defer z.Release()
	members := c.Args[2:]
	if c.Tx.Heavy(int64(len(members)) * keyWork) {
		return nil
	}
	z.Prefetch(members, 1)
	c.Reply.Array(len(members))
	for _, m := range members {
		held := c.Tx.Held()
		if score, ok := z.Score(m); ok {
			found(score)
		} else {
			missing()
		}
		c.Tx.Release(held)
		if !c.Spill() {
			return nil
		}
	}
	return nil
}
