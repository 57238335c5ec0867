package command

import (
	"bytes"
	"math"
	"strconv"

	"redoubt/keyspace"
	"redoubt/number"
	"redoubt/types/zset"
)

// Commands that read a part of a sorted set: ZRANGE with its options, and the
// older commands that are cases of it.

// zrangeKind is the kind of a range's bounds.
type zrangeKind byte

const (
	byRank zrangeKind = iota
	byScore
	byLex
)

// zrangeCall is a call of one of the commands.
type zrangeCall struct {
	kind       zrangeKind
	reverse    bool
	withScores bool
	offset     int64
	limit      int64 // negative: no limit

	start, stop int64 // by rank
	low, high   zset.Bound
	first, last zset.LexBound
}

var zrange = &Command{
	Name: "zrange", Group: SortedSet, Since: "1.2.0", Arity: -4,
	Flags: ReadOnly, Keys: OneKey(1, RO|Access),
	Syntax:     "key start stop [BYSCORE|BYLEX]@6.2.0 [REV]@6.2.0 [LIMIT offset:integer count:integer]@6.2.0 [WITHSCORES]",
	Summary:    "Lists members of a sorted set by their numbers, scores or names.",
	Complexity: "O(log(N)+M) with N being the size of the sorted set and M the number of members returned",
	Run:        func(c *Ctx) error { return c.replyZRange(zrangeCall{}, true) },
}

var zrevrange = &Command{
	Name: "zrevrange", Group: SortedSet, Since: "1.2.0", Arity: -4,
	Flags: ReadOnly, Keys: OneKey(1, RO|Access),
	Syntax:     "key start:integer stop:integer [WITHSCORES]",
	Summary:    "Lists members of a sorted set by their numbers, the highest first.",
	Complexity: "O(log(N)+M) with N being the size of the sorted set and M the number of members returned",
	Deprecated: "6.2.0", ReplacedBy: "`ZRANGE` with the `REV` argument",
	Run: func(c *Ctx) error { return c.replyZRange(zrangeCall{reverse: true}, false) },
}

var zrangeByScore = &Command{
	Name: "zrangebyscore", Group: SortedSet, Since: "1.0.5", Arity: -4,
	Flags: ReadOnly, Keys: OneKey(1, RO|Access),
	Syntax:     "key min:double max:double [WITHSCORES]@2.0.0 [LIMIT offset:integer count:integer]",
	Summary:    "Lists members of a sorted set by their scores.",
	Complexity: "O(log(N)+M) with N being the size of the sorted set and M the number of members returned",
	Deprecated: "6.2.0", ReplacedBy: "`ZRANGE` with the `BYSCORE` argument",
	Run: func(c *Ctx) error { return c.replyZRange(zrangeCall{kind: byScore}, false) },
}

var zrevrangeByScore = &Command{
	Name: "zrevrangebyscore", Group: SortedSet, Since: "2.2.0", Arity: -4,
	Flags: ReadOnly, Keys: OneKey(1, RO|Access),
	Syntax:     "key max:double min:double [WITHSCORES] [LIMIT offset:integer count:integer]",
	Summary:    "Lists members of a sorted set by their scores, the highest first.",
	Complexity: "O(log(N)+M) with N being the size of the sorted set and M the number of members returned",
	Deprecated: "6.2.0", ReplacedBy: "`ZRANGE` with the `REV` and `BYSCORE` arguments",
	Run: func(c *Ctx) error { return c.replyZRange(zrangeCall{kind: byScore, reverse: true}, false) },
}

var zrangeByLex = &Command{
	Name: "zrangebylex", Group: SortedSet, Since: "2.8.9", Arity: -4,
	Flags: ReadOnly, Keys: OneKey(1, RO|Access),
	Syntax:     "key min max [LIMIT offset:integer count:integer]",
	Summary:    "Lists members of a sorted set by their names, where all scores are the same.",
	Complexity: "O(log(N)+M) with N being the size of the sorted set and M the number of members returned",
	Deprecated: "6.2.0", ReplacedBy: "`ZRANGE` with the `BYLEX` argument",
	Run: func(c *Ctx) error { return c.replyZRange(zrangeCall{kind: byLex}, false) },
}

var zrevrangeByLex = &Command{
	Name: "zrevrangebylex", Group: SortedSet, Since: "2.8.9", Arity: -4,
	Flags: ReadOnly, Keys: OneKey(1, RO|Access),
	Syntax:     "key max min [LIMIT offset:integer count:integer]",
	Summary:    "Lists members of a sorted set by their names, the last first, where all scores are the same.",
	Complexity: "O(log(N)+M) with N being the size of the sorted set and M the number of members returned",
	Deprecated: "6.2.0", ReplacedBy: "`ZRANGE` with the `REV` and `BYLEX` arguments",
	Run: func(c *Ctx) error { return c.replyZRange(zrangeCall{kind: byLex, reverse: true}, false) },
}

// read parses the range and the options of a call; args begin with the range. Only ZRANGE and
// ZRANGESTORE have options for the kind and the direction.
func (r *zrangeCall) read(args [][]byte, free, store bool) error {
	r.limit = -1
	kindGiven, reverseGiven := !free, !free
	for i := 2; i < len(args); i++ {
		switch word := args[i]; {
		case !store && isWord(word, "withscores"):
			r.withScores = true
		case isWord(word, "limit") && i+2 < len(args):
			var err error
			if r.offset, err = integer(args[i+1]); err != nil {
				return err
			}
			if r.limit, err = integer(args[i+2]); err != nil {
				return err
			}
			i += 2
		case !reverseGiven && isWord(word, "rev"):
			r.reverse, reverseGiven = true, true
		case !kindGiven && isWord(word, "bylex"):
			r.kind, kindGiven = byLex, true
		case !kindGiven && isWord(word, "byscore"):
			r.kind, kindGiven = byScore, true
		default:
			return ErrSyntax
		}
	}
	if r.limit != -1 && r.kind == byRank {
		return errZLimit
	}
	if r.withScores && r.kind == byLex {
		return errZWithScores
	}
	low, high := args[0], args[1]
	if r.reverse && r.kind != byRank {
		low, high = high, low
	}
	return r.readRange(low, high)
}

func (r *zrangeCall) readRange(low, high []byte) (err error) {
	switch r.kind {
	case byRank:
		if r.start, err = integer(low); err == nil {
			r.stop, err = integer(high)
		}
		return err
	case byScore:
		var ok, ok2 bool
		r.low, ok = scoreBound(low)
		if r.high, ok2 = scoreBound(high); !ok || !ok2 {
			return errZBound
		}
	case byLex:
		var ok, ok2 bool
		r.first, ok = lexBound(low)
		if r.last, ok2 = lexBound(high); !ok || !ok2 {
			return errZLexBound
		}
	}
	return nil
}

// scoreBound reads an end of a range of scores, as C's strtod does: leading space and empty text
// are allowed, and a number that is too large is infinite.
func scoreBound(arg []byte) (b zset.Bound, ok bool) {
	arg = cString(arg)
	if len(arg) > 0 && arg[0] == '(' {
		b.Open, arg = true, arg[1:]
	}
	if b.Score, ok = zscoreArg(arg); ok || len(arg) == 0 {
		return b, true
	}
	arg = bytes.TrimLeft(arg, " \t\n\v\f\r")
	if len(arg) == 0 || bytes.IndexByte(arg, '_') >= 0 {
		return b, false
	}
	if b.Score, ok = number.ParseDouble(arg); ok {
		return b, true
	}
	f, err := strconv.ParseFloat(string(arg), 64)
	b.Score = f
	return b, (err == nil || math.IsInf(f, 0)) && !math.IsNaN(f)
}

// lexBound reads an end of a range of members.
func lexBound(arg []byte) (b zset.LexBound, ok bool) {
	if len(arg) == 0 {
		return b, false
	}
	switch arg[0] {
	case '(', '[':
		return zset.LexBound{Member: arg[1:], Open: arg[0] == '('}, true
	case '-':
		b.Inf = -1
	case '+':
		b.Inf = 1
	default:
		return b, false
	}
	return b, len(cString(arg)) == 1
}

// span returns the part of a set that a call by scores or members selects.
func (r *zrangeCall) span(z *zset.ZSet) zset.Span {
	if r.kind == byScore {
		return zset.ByScore(r.low, r.high)
	}
	return z.Lex(r.first, r.last)
}

// ranks returns the ranks of the first and the last element of a call by rank. ok is false if
// there are none.
func (r *zrangeCall) ranks(size int64) (start, stop int64, ok bool) {
	start, stop = r.start, r.stop
	if start < 0 {
		start = max(0, start+size)
	}
	if stop < 0 {
		stop += size
	}
	return start, min(stop, size-1), start <= stop && start < size
}

// replyZRange runs one of the commands.
func (c *Ctx) replyZRange(r zrangeCall, free bool) error {
	if err := r.read(c.Args[2:], free, false); err != nil {
		return err
	}
	z, err := zset.Read(c.Tx, c.Args[1])
	if err != nil {
		return err
	}
	defer z.Release()
	if !z.Exists() {
		c.Reply.Array(0)
		return nil
	}
	if r.kind == byRank {
		start, stop, ok := r.ranks(z.Len())
		if !ok {
			c.Reply.Array(0)
			return nil
		}
		if c.Tx.Heavy((stop - start + 1) * elemWork) {
			return nil
		}
		c.elementHead(stop-start+1, r.withScores)
		z.RangeByRank(start, stop, r.reverse, func(member []byte, score float64) bool {
			return c.element(member, score, r.withScores)
		})
		return nil
	}
	if r.offset < 0 || r.limit == 0 || r.offset > 0 && r.offset >= z.Len() {
		c.Reply.Array(0)
		return nil
	}
	c.replySpan(z, &r)
	return nil
}

// replySpan replies with a range by scores or members, whose size is not known at first. The
// number of elements of a short reply is inserted at the end. A long reply is begun again on a
// worker, and there the elements are counted first if the reply can be sent while it is made.
func (c *Ctx) replySpan(z *zset.ZSet, r *zrangeCall) {
	s := r.span(z)
	most := r.limit
	if most < 0 {
		most = math.MaxInt64
	}
	if c.Sink != nil {
		n := min(most, max(0, z.Count(s)-r.offset))
		c.elementHead(n, r.withScores)
		if n > 0 {
			z.WalkFrom(s, r.reverse, r.offset, func(member []byte, score float64) bool {
				n--
				return c.element(member, score, r.withScores) && n > 0
			})
		}
		return
	}
	list := deferArray(c.Reply)
	each := 1
	if r.withScores && c.Reply.Proto == 2 {
		each = 2
	}
	z.WalkFrom(s, r.reverse, r.offset, func(member []byte, score float64) bool {
		c.element(member, score, r.withScores)
		list.n += each
		most--
		return most > 0 && !c.Tx.Heavy(max(int64(list.n)*elemWork, int64(len(c.Reply.Buf)-list.start)))
	})
	list.end()
}

var zrangeStore = &Command{
	Name: "zrangestore", Group: SortedSet, Since: "6.2.0", Arity: -5,
	Flags:      Write | DenyOOM,
	Keys:       []KeySpec{OneKey(1, OW|Update)[0], OneKey(2, RO|Access)[0]},
	Syntax:     "dst:key src:key min max [BYSCORE|BYLEX] [REV] [LIMIT offset:integer count:integer]",
	Summary:    "Stores a part of a sorted set as another one.",
	Complexity: "O(log(N)+M) with N being the size of the sorted set and M the number of members stored",
	Run: func(c *Ctx) error {
		var r zrangeCall
		if err := r.read(c.Args[3:], true, true); err != nil {
			return err
		}
		src, err := zset.Read(c.Tx, c.Args[2])
		if err != nil {
			return err
		}
		defer src.Release()
		dst := zset.Create(c.Tx, c.Args[1], &c.Limits.Limits)
		defer dst.Release()
		work := int64(0)
		add := func(member []byte, score float64) bool {
			dst.Insert(member, score)
			work += 4*elemWork + 2*int64(len(member))
			return !c.Tx.Heavy(work)
		}
		switch start, stop, ok := r.ranks(src.Len()); {
		case r.kind == byRank && !ok:
		case r.kind == byRank:
			dst.Expect(int(min(stop-start+1, math.MaxInt32)), 0)
			src.WalkApart(zset.Whole, r.reverse, start, stop-start+1, add)
		case r.offset < 0:
		default:
			limit := r.limit
			if limit < 0 {
				limit = math.MaxInt64
			}
			src.WalkApart(r.span(src), r.reverse, r.offset, limit, add)
		}
		c.stored(dst, keyspace.ZSetEv, "zrangestore", c.Args[1], 1)
		return nil
	},
}
