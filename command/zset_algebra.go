package command

import (
	"bytes"
	"cmp"
	"fmt"
	"math"
	"slices"

	"redoubt/engine"
	"redoubt/keyspace"
	"redoubt/number"
	"redoubt/types"
	"redoubt/types/member"
	sets "redoubt/types/set"
	"redoubt/types/zset"
)

// Unions, intersections and differences of sorted sets. Sets are taken as well:
// their members have the score 1.
//
// A stored result goes into the new value element by element, and is never in memory as a whole; a
// result that is replied must be sorted first (sort_table.go).

var zunion = &Command{
	Name: "zunion", Group: SortedSet, Since: "6.2.0", Arity: -3,
	Flags: ReadOnly | MovableKeys, Keys: KeyNum(1, RO|Access),
	Syntax:     "numkeys:integer key... [WEIGHTS weight:integer...] [AGGREGATE aggregate=<SUM|MIN|MAX>] [WITHSCORES]",
	Summary:    "Lists the members that are in any of several sorted sets.",
	Complexity: "O(N)+O(M*log(M)) with N being the sum of the sizes and M the size of the result",
	Run:        func(c *Ctx) error { return c.zreplied((*zalgebra).union, false) },
}

var zinter = &Command{
	Name: "zinter", Group: SortedSet, Since: "6.2.0", Arity: -3,
	Flags: ReadOnly | MovableKeys, Keys: KeyNum(1, RO|Access),
	Syntax:     "numkeys:integer key... [WEIGHTS weight:integer...] [AGGREGATE aggregate=<SUM|MIN|MAX>] [WITHSCORES]",
	Summary:    "Lists the members that are in all of several sorted sets.",
	Complexity: "O(N*K)+O(M*log(M)) with N being the smallest size, K the number of sorted sets and M the size of the result",
	Run:        func(c *Ctx) error { return c.zreplied((*zalgebra).inter, false) },
}

var zdiff = &Command{
	Name: "zdiff", Group: SortedSet, Since: "6.2.0", Arity: -3,
	Flags: ReadOnly | MovableKeys, Keys: KeyNum(1, RO|Access),
	Syntax:     "numkeys:integer key... [WITHSCORES]",
	Summary:    "Lists the members of a sorted set that are not in others.",
	Complexity: "O(N*K)+O(M*log(M)) with N being the size of the first, K the number of sorted sets and M the size of the result",
	Run:        func(c *Ctx) error { return c.zreplied((*zalgebra).diff, true) },
}

// zstoreKeys are the keys of the commands with a destination.
func zstoreKeys() []KeySpec { return []KeySpec{OneKey(1, OW|Update)[0], KeyNum(2, RO|Access)[0]} }

var zunionStore = &Command{
	Name: "zunionstore", Group: SortedSet, Since: "2.0.0", Arity: -4,
	Flags: Write | DenyOOM | MovableKeys, Keys: zstoreKeys(),
	Syntax:     "destination:key numkeys:integer key... [WEIGHTS weight:integer...] [AGGREGATE aggregate=<SUM|MIN|MAX>]",
	Summary:    "Stores the union of several sorted sets.",
	Complexity: "O(N)+O(M*log(M)) with N being the sum of the sizes and M the size of the result",
	Run:        func(c *Ctx) error { return c.zstored((*zalgebra).union, "zunionstore") },
}

var zinterStore = &Command{
	Name: "zinterstore", Group: SortedSet, Since: "2.0.0", Arity: -4,
	Flags: Write | DenyOOM | MovableKeys, Keys: zstoreKeys(),
	Syntax:     "destination:key numkeys:integer key... [WEIGHTS weight:integer...] [AGGREGATE aggregate=<SUM|MIN|MAX>]",
	Summary:    "Stores the intersection of several sorted sets.",
	Complexity: "O(N*K)+O(M*log(M)) with N being the smallest size, K the number of sorted sets and M the size of the result",
	Run:        func(c *Ctx) error { return c.zstored((*zalgebra).inter, "zinterstore") },
}

var zdiffStore = &Command{
	Name: "zdiffstore", Group: SortedSet, Since: "6.2.0", Arity: -4,
	Flags: Write | DenyOOM | MovableKeys, Keys: zstoreKeys(),
	Syntax:     "destination:key numkeys:integer key...",
	Summary:    "Stores the members of a sorted set that are not in others.",
	Complexity: "O(N*K)+O(M*log(M)) with N being the size of the first, K the number of sorted sets and M the size of the result",
	Run:        func(c *Ctx) error { return c.zstored((*zalgebra).diff, "zdiffstore") },
}

var zinterCard = &Command{
	Name: "zintercard", Group: SortedSet, Since: "7.0.0", Arity: -3,
	Flags: ReadOnly | MovableKeys, Keys: KeyNum(1, RO|Access),
	Syntax:     "numkeys:integer key... [LIMIT limit:integer]",
	Summary:    "Counts the members that are in all of several sorted sets.",
	Complexity: "O(N*K) with N being the smallest size and K the number of sorted sets",
	Run: func(c *Ctx) error {
		a := &zalgebra{c: c, card: true}
		if err := a.read(c.Args[1:]); err != nil {
			return err
		}
		n := int64(0)
		a.inter(func([]byte, float64) bool {
			n++
			return n != a.limit
		})
		c.Reply.Int(n)
		return nil
	},
}

// zalgebra is a call of one of the commands.
type zalgebra struct {
	c       *Ctx
	sources []*zsource
	mix     func(a, b float64) float64 // AGGREGATE

	store, diffs, card bool // which options the command has
	withScores         bool
	limit              int64
}

// zsource is a set or a sorted set that is read.
type zsource struct {
	key    []byte
	z      *zset.ZSet
	s      *sets.Set
	weight float64
}

func (s *zsource) size() int64 {
	if s.s != nil {
		return s.s.Len()
	}
	return s.z.Len()
}

func (s *zsource) score(member []byte) (float64, bool) {
	if s.s != nil {
		return 1, s.s.Has(member)
	}
	return s.z.Score(member)
}

// each visits the elements; visit may write.
func (s *zsource) each(visit func(member []byte, score float64) bool) {
	if s.z != nil {
		s.z.WalkApart(zset.Whole, false, 0, math.MaxInt64, visit)
		return
	}
	const pageSize = 512
	var page []byte
	var ends []int
	for cursor, more := uint64(0), true; more; more = cursor != 0 {
		page, ends = page[:0], ends[:0]
		cursor = s.s.Scan(cursor, pageSize, func(member []byte) {
			page = append(page, member...)
			ends = append(ends, len(page))
		})
		at := 0
		for _, end := range ends {
			if !visit(page[at:end], 1) {
				return
			}
			at = end
		}
	}
}

// read parses the call, from the number of keys on. As in Redis, the keys are read before the
// options are parsed.
func (a *zalgebra) read(args [][]byte) error {
	n, err := integer(args[0])
	switch {
	case err != nil:
		return err
	case n < 1:
		return noInputError(a.c.Cmd.FullName)
	case n > int64(len(args)-1):
		return ErrSyntax
	}
	for _, key := range args[1 : 1+n] {
		s, err := a.open(key)
		if err != nil {
			return err
		}
		a.sources = append(a.sources, s)
	}
	a.mix = addScores
	return a.options(args[1+n:])
}

func (a *zalgebra) open(key []byte) (s *zsource, err error) {
	s = &zsource{key: key, weight: 1}
	switch a.c.Tx.Find(key).Type {
	case keyspace.Set:
		s.s, err = sets.Read(a.c.Tx, key)
	case keyspace.ZSet, keyspace.None:
		s.z, err = zset.Read(a.c.Tx, key)
	default:
		err = types.ErrWrongType
	}
	return s, err
}

func (a *zalgebra) options(args [][]byte) error {
	for len(args) > 0 {
		used := 2
		switch word := args[0]; {
		case !a.diffs && !a.card && len(args) > len(a.sources) && isWord(word, "weights"):
			for i, s := range a.sources {
				var ok bool
				if s.weight, ok = number.ParseDouble(args[1+i]); !ok {
					return errZWeight
				}
			}
			used = 1 + len(a.sources)
		case !a.diffs && !a.card && len(args) > 1 && isWord(word, "aggregate"):
			switch how := args[1]; {
			case isWord(how, "sum"):
				a.mix = addScores
			case isWord(how, "min"):
				a.mix = lowerScore
			case isWord(how, "max"):
				a.mix = higherScore
			default:
				return ErrSyntax
			}
		case !a.store && !a.card && isWord(word, "withscores"):
			a.withScores, used = true, 1
		case a.card && len(args) > 1 && isWord(word, "limit"):
			var ok bool
			if a.limit, ok = number.ParseInt(args[1]); !ok || a.limit < 0 {
				return errZCardLimit
			}
		default:
			return ErrSyntax
		}
		args = args[used:]
	}
	return nil
}

// addScores adds; infinities that cancel each other are 0.
func addScores(a, b float64) float64 { return orZero(a + b) }

func lowerScore(a, b float64) float64 {
	if b < a {
		return b
	}
	return a
}

func higherScore(a, b float64) float64 {
	if b > a {
		return b
	}
	return a
}

func orZero(f float64) float64 {
	if math.IsNaN(f) {
		return 0
	}
	return f
}

// bySize puts the smallest sources first. Sums of floats depend on the order.
func (a *zalgebra) bySize() {
	slices.SortStableFunc(a.sources, func(x, y *zsource) int { return cmp.Compare(x.size(), y.size()) })
}

// union visits the members that are in any source. If they are few, or of many sources, they are
// collected in memory first. Else the sources are merged by a walk over all of them at once, in
// the common order of their hashes, which needs no memory.
func (a *zalgebra) union(visit func(member []byte, score float64) bool) {
	a.bySize()
	total := int64(0)
	for _, s := range a.sources {
		total += s.size()
	}
	switch {
	case a.c.Tx.Heavy(total * elemWork):
	case total <= gatherMost || len(a.sources) > mergeMost:
		a.gather(visit)
	default:
		a.merge(visit)
	}
}

const (
	gatherMost = 4096 // elements of all sources of a union that are gathered
	mergeMost  = 32   // sources that are walked over side by side
)

// merge is union by a walk over all sources at once.
func (a *zalgebra) merge(visit func(member []byte, score float64) bool) {
	cursors := make([]*member.Cursor, len(a.sources))
	for i, s := range a.sources {
		if s.s != nil {
			cursors[i] = s.s.Members(i)
		} else {
			cursors[i] = s.z.Members(i)
		}
	}
	member.Merge(cursors, func(m []byte, at []*member.Cursor) bool {
		sum := 0.0
		for i, c := range at {
			s, score := a.sources[c.Source], 1.0
			if s.s == nil {
				var ok bool
				if score, ok = zset.ScoreOf(c.Value()); !ok {
					a.c.Tx.Fail(fmt.Errorf("%w: a member row of a sorted set has %d bytes", engine.ErrCorrupt, len(c.Value())))
					return false
				}
			}
			if score = orZero(s.weight * score); i > 0 {
				score = a.mix(sum, score)
			}
			sum = score
		}
		return visit(m, sum)
	})
}

// gather is union by a hash table of all members.
func (a *zalgebra) gather(visit func(member []byte, score float64) bool) {
	tx := a.c.Tx
	sums := make(map[string]float64)
	var members []string // in the order in which they came
	for _, s := range a.sources {
		s.each(func(member []byte, score float64) bool {
			score = orZero(s.weight * score)
			if old, ok := sums[string(member)]; ok {
				score = a.mix(old, score)
				sums[string(member)] = score
				return tx.Err() == nil
			}
			m := string(member)
			sums[m], members = score, append(members, m)
			return tx.Take(int64(len(m)) + gatherBytes)
		})
	}
	for _, m := range members {
		if tx.Err() != nil || !visit([]byte(m), sums[m]) {
			return
		}
	}
}

// gatherBytes is the memory of an entry of gather's table besides the member.
const gatherBytes = 112

// eachPrefetching is each for a visitor that looks the members up in other sources: where it is worth
// while, pages of members are prefetched from the other sources.
func (a *zalgebra) eachPrefetching(first *zsource, others []*zsource, visit func(member []byte, score float64) bool) {
	const pageSize = 256
	if len(others) == 0 || !a.c.Tx.WorthPrefetching(int(min(first.size(), pageSize))) {
		first.each(visit)
		return
	}
	var members [][]byte
	var scores []float64
	flush := func() (more bool) {
		for _, s := range others {
			if s.s != nil {
				s.s.Prefetch(members)
			} else {
				s.z.Prefetch(members, 1)
			}
		}
		more = true
		for i := 0; more && i < len(members); i++ {
			more = visit(members[i], scores[i])
		}
		members, scores = members[:0], scores[:0]
		return more
	}
	more := true
	first.each(func(member []byte, score float64) bool {
		members, scores = append(members, bytes.Clone(member)), append(scores, score)
		if len(members) == pageSize {
			more = flush()
		}
		return more
	})
	if more {
		flush()
	}
}

// inter visits the members that are in all sources.
func (a *zalgebra) inter(visit func(member []byte, score float64) bool) {
	a.bySize()
	first, others := a.sources[0], a.sources[1:]
	if first.size() == 0 || a.c.Tx.Heavy(first.size()*int64(len(a.sources))*elemWork) {
		return
	}
	a.eachPrefetching(first, others, func(member []byte, score float64) bool {
		sum := orZero(first.weight * score)
		for _, s := range others {
			other, ok := s.score(member)
			if !ok {
				return a.c.Tx.Err() == nil
			}
			sum = a.mix(sum, s.weight*other)
		}
		return visit(member, sum)
	})
}

// diff visits the members of the first source that no other has.
func (a *zalgebra) diff(visit func(member []byte, score float64) bool) {
	first, others := a.sources[0], a.sources[1:]
	if first.size() == 0 || a.c.Tx.Heavy(first.size()*int64(len(a.sources))*elemWork) {
		return
	}
	for _, s := range others {
		if bytes.Equal(s.key, first.key) {
			return
		}
	}
	a.eachPrefetching(first, others, func(member []byte, score float64) bool {
		for _, s := range others {
			if _, ok := s.score(member); ok {
				return a.c.Tx.Err() == nil
			}
		}
		return visit(member, score)
	})
}
