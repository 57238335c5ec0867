package command

import (
	"redoubt/keyspace"
	"redoubt/number"
	"redoubt/types/geo"
	"redoubt/types/zset"
)

// The searches for places: GEOSEARCH and GEOSEARCHSTORE, and their elders
// GEORADIUS and GEORADIUSBYMEMBER. They differ in how their arguments are written;
// what they then do is one thing.

const (
	searchSyntax = "from=<FROMMEMBER member|FROMLONLAT fromlonlat=(longitude:double latitude:double)> " +
		"by=<circle=(BYRADIUS radius:double " + unitSyntax + ")|box=(BYBOX width:double height:double " + unitSyntax + ")> " +
		"[order=<ASC|DESC>] [count-block=(COUNT count:integer [ANY])]"
	withSyntax   = "[WITHCOORD] [WITHDIST] [WITHHASH]"
	storeSyntax  = "[store=<STORE storekey:key'key'|STOREDIST storedistkey:key'key'>]"
	searchEffort = "O(N+log(M)) where N is the number of members in the boxes around the area, and M that of those inside it"
)

var geoSearch = &Command{
	Name: "geosearch", Group: Geo, Since: "6.2.0", Arity: -7,
	Flags: ReadOnly, Keys: OneKey(1, RO|Access),
	Syntax:     "key " + searchSyntax + " " + withSyntax,
	Summary:    "Finds the members inside a circle or a box.",
	Complexity: searchEffort,
	Run:        func(c *Ctx) error { return runSearch(c, searchForm{source: 1, options: 2, search: true}) },
}

var geoSearchStore = &Command{
	Name: "geosearchstore", Group: Geo, Since: "6.2.0", Arity: -8,
	Flags: Write | DenyOOM, Keys: []KeySpec{OneKey(1, OW|Update)[0], OneKey(2, RO|Access)[0]},
	Syntax:     "destination:key source:key " + searchSyntax + " [STOREDIST]",
	Summary:    "Finds the members inside a circle or a box and stores them.",
	Complexity: searchEffort,
	Run: func(c *Ctx) error {
		return runSearch(c, searchForm{source: 2, options: 3, search: true, stores: true, target: c.Args[1]})
	},
}

var geoRadius = &Command{
	Name: "georadius", Group: Geo, Since: "3.2.0", Arity: -6,
	Flags: Write | DenyOOM | MovableKeys, Keys: radiusKeys(6), ReadsOnly: radiusReads(6),
	Syntax: "key longitude:double latitude:double radius:double " + unitSyntax + " " + withSyntax +
		" [count-block=(COUNT count:integer [ANY@6.2.0])] [order=<ASC|DESC>] " + storeSyntax,
	Summary:    "Finds the members around a place, and perhaps stores them.",
	Complexity: searchEffort, Deprecated: "6.2.0",
	ReplacedBy: "`GEOSEARCH` and `GEOSEARCHSTORE` with the `BYRADIUS` argument",
	Run:        func(c *Ctx) error { return runSearch(c, searchForm{source: 1, options: 6, store: true}) },
}

var geoRadiusRO = &Command{
	Name: "georadius_ro", Group: Geo, Since: "3.2.10", Arity: -6,
	Flags: ReadOnly, Keys: OneKey(1, RO|Access),
	Syntax: "key longitude:double latitude:double radius:double " + unitSyntax + " " + withSyntax +
		" [count-block=(COUNT count:integer [ANY@6.2.0])] [order=<ASC|DESC>]",
	Summary:    "Finds the members around a place.",
	Complexity: searchEffort, Deprecated: "6.2.0", ReplacedBy: "`GEOSEARCH` with the `BYRADIUS` argument",
	Run: func(c *Ctx) error { return runSearch(c, searchForm{source: 1, options: 6}) },
}

var geoRadiusByMember = &Command{
	Name: "georadiusbymember", Group: Geo, Since: "3.2.0", Arity: -5,
	Flags: Write | DenyOOM | MovableKeys, Keys: radiusKeys(5), ReadsOnly: radiusReads(5),
	Syntax: "key member radius:double " + unitSyntax + " " + withSyntax +
		" [count-block=(COUNT count:integer [ANY])] [order=<ASC|DESC>] " + storeSyntax,
	Summary:    "Finds the members around another one, and perhaps stores them.",
	Complexity: searchEffort, Deprecated: "6.2.0",
	ReplacedBy: "`GEOSEARCH` and `GEOSEARCHSTORE` with the `BYRADIUS` and `FROMMEMBER` arguments",
	Run:        func(c *Ctx) error { return runSearch(c, searchForm{source: 1, options: 5, store: true}) },
}

var geoRadiusByMemberRO = &Command{
	Name: "georadiusbymember_ro", Group: Geo, Since: "3.2.10", Arity: -5,
	Flags: ReadOnly, Keys: OneKey(1, RO|Access),
	Syntax: "key member radius:double " + unitSyntax + " " + withSyntax +
		" [count-block=(COUNT count:integer [ANY])] [order=<ASC|DESC>]",
	Summary:    "Finds the members around another one.",
	Complexity: searchEffort, Deprecated: "6.2.0",
	ReplacedBy: "`GEOSEARCH` with the `BYRADIUS` and `FROMMEMBER` arguments",
	Run:        func(c *Ctx) error { return runSearch(c, searchForm{source: 1, options: 5}) },
}

// radiusKeys are the keys of a command with STORE and STOREDIST from an index on.
// An option that comes twice counts as often: the last one holds.
func radiusKeys(from int) []KeySpec {
	behind := func(keyword, word string) KeySpec {
		return KeySpec{
			Flags: OW | Update, Begin: Begin{Keyword: keyword, From: from}, Find: Find{Step: 1},
			Search: func(args [][]byte, visit func(i int)) {
				for i := from; i+1 < len(args); i++ {
					if isWord(args[i], word) {
						visit(i + 1)
					}
				}
			},
		}
	}
	return []KeySpec{OneKey(1, RO|Access)[0], behind("STORE", "store"), behind("STOREDIST", "storedist")}
}

// radiusReads says that a call has neither option.
func radiusReads(from int) func(args [][]byte) bool {
	specs := radiusKeys(from)[1:]
	return func(args [][]byte) bool {
		stores := false
		for _, s := range specs {
			s.Search(args, func(int) { stores = true })
		}
		return !stores
	}
}

// searchForm is how the arguments of a search are written.
type searchForm struct {
	source, options int  // where the key is and where options begin
	search          bool // GEOSEARCH's options
	store           bool // STORE and STOREDIST are options
	stores          bool // at target
	target          []byte
}

// geoCall is a call of one of the searches.
type geoCall struct {
	searchForm
	geo.Search
	z                             *zset.ZSet
	withCoord, withDist, withHash bool
	storeDist                     bool
	fromMember, fromPlace         bool
}

func runSearch(c *Ctx, f searchForm) error {
	z, err := zset.Read(c.Tx, c.Args[f.source])
	if err != nil {
		return err
	}
	defer z.Release()
	s := geoCall{searchForm: f, z: z}
	if err := s.parse(c); err != nil {
		return err
	}
	var found []geo.Place
	if z.Exists() {
		s.Take = c.Tx.Take
		found = s.Find(geoSource(c.Tx, z))
	}
	if c.Tx.Err() != nil {
		return nil
	}
	if s.stores {
		return s.keep(c, found)
	}
	s.reply(c, found)
	return nil
}

// geoSource reads ranges of scores of a sorted set for a search.
func geoSource(tx *keyspace.Tx, z *zset.ZSet) geo.Source {
	work := int64(0)
	return func(min, max float64, visit func(member []byte, score float64) bool) bool {
		more := true
		z.RangeByScore(zset.Bound{Score: min}, zset.Bound{Score: max, Open: true}, false, func(m []byte, score float64) bool {
			work += placeWork
			more = !tx.Heavy(work) && visit(m, score)
			return more
		})
		return more && tx.Err() == nil
	}
}

// placeWork is the cost of looking at a place, in the unit of Tx.Heavy: the
// distance takes most of it.
const placeWork = 512

// parse reads the arguments, in the order of Redis, which is that of its errors.
func (s *geoCall) parse(c *Ctx) error {
	if !s.search {
		if err := s.parseCentre(c.Args); err != nil {
			return err
		}
	}
	if err := s.parseOptions(c.Args[s.options:]); err != nil {
		return err
	}
	switch {
	case s.stores && (s.withDist || s.withHash || s.withCoord):
		if s.search {
			return ErrGeoSearchS
		}
		return ErrGeoStore
	case s.search && !s.fromMember && !s.fromPlace:
		return searchError("FROMMEMBER or FROMLONLAT", c.Args[0])
	case s.search && s.Unit == 0:
		return searchError("BYRADIUS and BYBOX", c.Args[0])
	case s.Any && s.Count == 0:
		return ErrGeoAny
	}
	return nil
}

// parseCentre reads what GEORADIUS and GEORADIUSBYMEMBER have in front of their
// options. Without a sorted set the latter does not look at it.
func (s *geoCall) parseCentre(args [][]byte) (err error) {
	if s.options == 6 {
		if s.Lon, s.Lat, err = geoPlace(args[2], args[3]); err != nil {
			return err
		}
	} else if !s.z.Exists() {
		return nil
	} else if err = s.from(args[2]); err != nil {
		return err
	}
	return s.circle(args[s.options-2], args[s.options-1])
}

// from makes a member the centre.
func (s *geoCall) from(member []byte) error {
	score, ok := s.z.Score(member)
	if !ok {
		return ErrGeoMember
	}
	s.Lon, s.Lat = geo.Decode(score)
	return nil
}

func (s *geoCall) circle(radius, unit []byte) (err error) {
	r, ok := number.ParseDouble(radius)
	switch {
	case !ok:
		return ErrGeoRadius
	case r < 0:
		return ErrGeoMinus
	}
	s.Radius = r
	s.Unit, err = geoUnit(unit)
	return err
}

func (s *geoCall) box(width, height, unit []byte) (err error) {
	w, ok := number.ParseDouble(width)
	if !ok {
		return ErrGeoWidth
	}
	h, ok := number.ParseDouble(height)
	switch {
	case !ok:
		return ErrGeoHeight
	case h < 0 || w < 0:
		return ErrGeoBox
	}
	s.Box, s.Width, s.Height = true, w, h
	s.Unit, err = geoUnit(unit)
	return err
}

func (s *geoCall) parseOptions(args [][]byte) (err error) {
	for i := 0; i < len(args) && err == nil; i++ {
		is := func(word string, behind int) bool { return i+behind < len(args) && isWord(args[i], word) }
		switch {
		case is("withdist", 0):
			s.withDist = true
		case is("withhash", 0):
			s.withHash = true
		case is("withcoord", 0):
			s.withCoord = true
		case is("any", 0):
			s.Any = true
		case is("asc", 0):
			s.Order = geo.Nearest
		case is("desc", 0):
			s.Order = geo.Farthest
		case is("count", 1):
			i++
			if s.Count, err = integer(args[i]); err == nil && s.Count <= 0 {
				err = ErrGeoCount
			}
		case s.store && (is("store", 1) || is("storedist", 1)):
			s.storeDist = is("storedist", 1)
			i++
			s.stores, s.target = true, args[i]
		case s.search && s.stores && is("storedist", 0):
			s.storeDist = true
		case s.search && !s.fromPlace && is("frommember", 1):
			i++
			s.fromMember = true
			if s.z.Exists() {
				err = s.from(args[i])
			}
		case s.search && !s.fromMember && is("fromlonlat", 2):
			s.Lon, s.Lat, err = geoPlace(args[i+1], args[i+2])
			s.fromPlace = true
			i += 2
		case s.search && !s.Box && is("byradius", 2):
			err = s.circle(args[i+1], args[i+2])
			i += 2
		case s.search && (s.Box || s.Unit == 0) && is("bybox", 3):
			err = s.box(args[i+1], args[i+2], args[i+3])
			i += 3
		default:
			return ErrSyntax
		}
	}
	return err
}

// reply writes what was found: members, or arrays of members and what was asked
// for with them.
func (s *geoCall) reply(c *Ctx, found []geo.Place) {
	w := c.Reply
	fields := 1
	for _, with := range []bool{s.withDist, s.withHash, s.withCoord} {
		if with {
			fields++
		}
	}
	w.Array(len(found))
	for _, p := range found {
		if fields > 1 {
			w.Array(fields)
		}
		w.Bulk(p.Member)
		if s.withDist {
			c.replyDistance(p.Distance)
		}
		if s.withHash {
			w.Int(int64(p.Score))
		}
		if s.withCoord {
			c.replyPlace(p.Lon, p.Lat)
		}
		if !c.Spill() {
			return
		}
	}
}

// keep stores what was found in the place of the target, which goes if there is
// nothing.
func (s *geoCall) keep(c *Ctx, found []geo.Place) error {
	to := zset.Create(c.Tx, s.target, &c.Limits.Limits)
	defer to.Release()
	for _, p := range found {
		score := p.Score
		if s.storeDist {
			score = p.Distance
		}
		to.Insert(p.Member, score)
	}
	event := "georadiusstore"
	if s.search {
		event = "geosearchstore"
	}
	c.stored(to, keyspace.ZSetEv, event, s.target, len(found))
	return nil
}
