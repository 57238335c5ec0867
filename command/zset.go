package command

import (
	"math"
	"strconv"

	"redoubt/types/zset"
	"redoubt/wire"
)

// ZSetCommands are the commands on sorted sets.
var ZSetCommands = []*Command{
	zadd, zincrby, zrem, zremrangeByRank, zremrangeByScore, zremrangeByLex,
	zcard, zscore, zmscore, zrank, zrevrank, zcount, zlexcount, zscan, zrandmember,
	zrange, zrangeStore, zrangeByScore, zrevrangeByScore, zrangeByLex, zrevrangeByLex, zrevrange,
	zpopmin, zpopmax, zmpop, bzpopmin, bzpopmax, bzmpop,
	zunion, zinter, zdiff, zunionStore, zinterStore, zdiffStore, zinterCard,
}

// elemWork is the cost of reading an element, in the unit of Tx.Heavy.
const elemWork = 64

var zcard = &Command{
	Name: "zcard", Group: SortedSet, Since: "1.2.0", Arity: 2,
	Flags: ReadOnly | Fast, Keys: OneKey(1, RO),
	Syntax:     "key",
	Summary:    "Tells how many members a sorted set has.",
	Complexity: "O(1)",
	Run: func(c *Ctx) error {
		z, err := zset.Read(c.Tx, c.Args[1])
		if err != nil {
			return err
		}
		c.Reply.Int(z.Len())
		z.Release()
		return nil
	},
}

var zscore = &Command{
	Name: "zscore", Group: SortedSet, Since: "1.2.0", Arity: 3,
	Flags: ReadOnly | Fast, Keys: OneKey(1, RO|Access),
	Syntax:     "key member",
	Summary:    "Tells the score of a member.",
	Complexity: "O(1)",
	Run: func(c *Ctx) error {
		z, err := zset.Read(c.Tx, c.Args[1])
		if err != nil {
			return err
		}
		c.replyScore(z, c.Args[2])
		z.Release()
		return nil
	},
}

// replyScore writes the score of a member, or null.
func (c *Ctx) replyScore(z *zset.ZSet, member []byte) {
	if score, ok := z.Score(member); ok {
		c.Reply.Double(score)
	} else {
		c.Reply.Null()
	}
}

var zmscore = &Command{
	Name: "zmscore", Group: SortedSet, Since: "6.2.0", Arity: -3,
	Flags: ReadOnly | Fast, Keys: OneKey(1, RO|Access),
	Syntax:     "key member...",
	Summary:    "Tells the scores of several members.",
	Complexity: "O(N) where N is the number of members asked for",
	Run: func(c *Ctx) error {
		if c.Tx.Heavy(int64(len(c.Args)) * keyWork) {
			return nil
		}
		z, err := zset.Read(c.Tx, c.Args[1])
		if err != nil {
			return err
		}
		z.Prefetch(c.Args[2:], 1)
		c.Reply.Array(len(c.Args) - 2)
		for _, member := range c.Args[2:] {
			c.replyScore(z, member)
		}
		z.Release()
		return nil
	},
}

var zrank = &Command{
	Name: "zrank", Group: SortedSet, Since: "2.0.0", Arity: -3,
	Flags: ReadOnly | Fast, Keys: OneKey(1, RO|Access),
	Syntax:     "key member [WITHSCORE]",
	Summary:    "Tells how many members come before one in a sorted set.",
	Complexity: "O(log(N))",
	Run:        func(c *Ctx) error { return c.replyRank(false) },
}

var zrevrank = &Command{
	Name: "zrevrank", Group: SortedSet, Since: "2.0.0", Arity: -3,
	Flags: ReadOnly | Fast, Keys: OneKey(1, RO|Access),
	Syntax:     "key member [WITHSCORE]",
	Summary:    "Tells how many members come behind one in a sorted set.",
	Complexity: "O(log(N))",
	Run:        func(c *Ctx) error { return c.replyRank(true) },
}

func (c *Ctx) replyRank(reverse bool) error {
	withScore := len(c.Args) > 3
	if len(c.Args) > 4 {
		return ArityError(c.Cmd.FullName)
	}
	if withScore && !isWord(c.Args[3], "withscore") {
		return ErrSyntax
	}
	z, err := zset.Read(c.Tx, c.Args[1])
	if err != nil {
		return err
	}
	defer z.Release()
	rank, score, ok := z.Rank(c.Args[2], reverse)
	switch {
	case ok && withScore:
		c.Reply.Array(2)
		c.Reply.Int(rank)
		c.Reply.Double(score)
	case ok:
		c.Reply.Int(rank)
	case withScore:
		c.Reply.NullArray()
	default:
		c.Reply.Null()
	}
	return nil
}

var zscan = &Command{
	Name: "zscan", Group: SortedSet, Since: "2.8.0", Arity: -3,
	Flags: ReadOnly, Keys: OneKey(1, RO|Access),
	Tips:       []string{"nondeterministic_output"},
	Syntax:     "key cursor:integer [MATCH pattern:pattern] [COUNT count:integer]",
	Summary:    "Lists some members of a sorted set with their scores, and the cursor from which to go on.",
	Complexity: "O(1) for every call. O(N) for a complete iteration, where N is the number of members",
	Run: func(c *Ctx) error {
		cursor, ok := parseCursor(c.Args[2])
		if !ok {
			return ErrCursor
		}
		z, err := zset.Read(c.Tx, c.Args[1])
		if err != nil {
			return err
		}
		defer z.Release()
		page := c.newPage()
		if !z.Exists() { // the options are not parsed then
			page.reply(0)
			return nil
		}
		o, err := scanOptions(c.Args[3:], false)
		if err != nil {
			return err
		}
		count := min(o.count, z.Len()+1)
		if c.Tx.Heavy(count * elemWork) {
			return nil
		}
		packed := z.Packed()
		cursor = z.Scan(cursor, int(count), func(member []byte, score float64) {
			if o.matches(member) {
				page.bulk(member)
				scanScore(&page.elements, score, packed)
				page.n++
			}
		})
		page.reply(cursor)
		return nil
	},
}

// scanScore writes a score as ZSCAN has it: a string in either protocol, and of a
// large set with all its digits, as in Redis.
func scanScore(w *wire.Writer, score float64, packed bool) {
	if packed || math.IsInf(score, 0) {
		plain := wire.Writer{Buf: w.Buf, Proto: 2}
		plain.Double(score)
		w.Buf = plain.Buf
		return
	}
	var b [32]byte
	w.Bulk(strconv.AppendFloat(b[:0], score, 'g', 17, 64))
}

var zrandmember = &Command{
	Name: "zrandmember", Group: SortedSet, Since: "6.2.0", Arity: -2,
	Flags: ReadOnly, Keys: OneKey(1, RO|Access),
	Tips:       []string{"nondeterministic_output"},
	Syntax:     "key [options=(count:integer [WITHSCORES])]",
	Summary:    "Names random members of a sorted set.",
	Complexity: "O(N) where N is the number of members returned",
	Run: func(c *Ctx) error {
		if len(c.Args) > 2 {
			return c.randomMembers()
		}
		z, err := zset.Read(c.Tx, c.Args[1])
		if err != nil {
			return err
		}
		defer z.Release()
		if member, _, ok := z.Pick(c.Rand()); ok {
			c.Reply.Bulk(member)
		} else {
			c.Reply.Null()
		}
		return nil
	},
}

// randomMembers replies with so many distinct members or, if the number is negative, with members
// that may repeat.
func (c *Ctx) randomMembers() error {
	count, err := integer(c.Args[2])
	if err != nil {
		return err
	}
	if count == math.MinInt64 {
		return rangeError(-math.MaxInt64, math.MaxInt64)
	}
	withScores := len(c.Args) == 4
	if len(c.Args) > 4 || withScores && !isWord(c.Args[3], "withscores") {
		return ErrSyntax
	}
	if withScores && (count < -math.MaxInt64/2 || count > math.MaxInt64/2) {
		return errZOutOfRange
	}
	z, err := zset.Read(c.Tx, c.Args[1])
	if err != nil {
		return err
	}
	defer z.Release()
	n := max(count, -count)
	if count > 0 {
		n = min(n, z.Len())
	}
	if z.Len() == 0 {
		n = 0
	}
	const pickWork = 16 * elemWork
	if c.Tx.Heavy(min(n, math.MaxInt64/pickWork) * pickWork) {
		return nil
	}
	c.elementHead(n, withScores)
	switch {
	case n == 0:
	case count > 0 && n == z.Len():
		// In the order in which Redis happens to have them.
		z.Walk(zset.Whole, true, func(member []byte, score float64) bool { return c.element(member, score, withScores) })
	case count > 0:
		z.Sample(n, c.Rand(), func(member []byte, score float64) { c.element(member, score, withScores) })
	default:
		for range n {
			held := c.Tx.Held()
			member, score, ok := z.Pick(c.Rand())
			if !ok || !c.element(member, score, withScores) {
				return nil
			}
			c.Tx.Release(held)
		}
	}
	return nil
}

// elementHead begins a reply of n elements of a sorted set: with scores they are
// pairs in RESP3 and twice as many strings in RESP2.
func (c *Ctx) elementHead(n int64, withScores bool) {
	if withScores && c.Reply.Proto == 2 {
		n *= 2
	}
	c.Reply.Array(int(n))
}

// element writes an element. It returns false if the client has gone.
func (c *Ctx) element(member []byte, score float64, withScores bool) bool {
	if withScores && c.Reply.Proto == 3 {
		c.Reply.Array(2)
	}
	c.Reply.Bulk(member)
	if withScores {
		c.Reply.Double(score)
	}
	return c.Spill()
}
