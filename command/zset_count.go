package command

import (
	"redoubt/keyspace"
	"redoubt/types/zset"
)

// Commands that count or remove a part of a sorted set.

var zcount = &Command{
	Name: "zcount", Group: SortedSet, Since: "2.0.0", Arity: 4,
	Flags: ReadOnly | Fast, Keys: OneKey(1, RO|Access),
	Syntax:     "key min:double max:double",
	Summary:    "Counts the members of a sorted set in a range of scores.",
	Complexity: "O(log(N)) with N being the size of the sorted set",
	Run:        func(c *Ctx) error { return c.countZRange(byScore) },
}

var zlexcount = &Command{
	Name: "zlexcount", Group: SortedSet, Since: "2.8.9", Arity: 4,
	Flags: ReadOnly | Fast, Keys: OneKey(1, RO|Access),
	Syntax:     "key min max",
	Summary:    "Counts the members of a sorted set in a range of names, where all scores are the same.",
	Complexity: "O(log(N)) with N being the size of the sorted set",
	Run:        func(c *Ctx) error { return c.countZRange(byLex) },
}

func (c *Ctx) countZRange(kind zrangeKind) error {
	r := zrangeCall{kind: kind}
	if err := r.readRange(c.Args[2], c.Args[3]); err != nil {
		return err
	}
	z, err := zset.Read(c.Tx, c.Args[1])
	if err != nil {
		return err
	}
	defer z.Release()
	n := int64(0)
	if z.Exists() {
		n = z.Count(r.span(z))
	}
	c.Reply.Int(n)
	return nil
}

var zremrangeByRank = &Command{
	Name: "zremrangebyrank", Group: SortedSet, Since: "2.0.0", Arity: 4,
	Flags: Write, Keys: OneKey(1, RW|Delete),
	Syntax:     "key start:integer stop:integer",
	Summary:    "Removes members of a sorted set by their numbers.",
	Complexity: "O(log(N)+M) with N being the size of the sorted set and M the number of members removed",
	Run:        func(c *Ctx) error { return c.removeZRange(byRank, "zremrangebyrank") },
}

var zremrangeByScore = &Command{
	Name: "zremrangebyscore", Group: SortedSet, Since: "1.2.0", Arity: 4,
	Flags: Write, Keys: OneKey(1, RW|Delete),
	Syntax:     "key min:double max:double",
	Summary:    "Removes members of a sorted set by their scores.",
	Complexity: "O(log(N)+M) with N being the size of the sorted set and M the number of members removed",
	Run:        func(c *Ctx) error { return c.removeZRange(byScore, "zremrangebyscore") },
}

var zremrangeByLex = &Command{
	Name: "zremrangebylex", Group: SortedSet, Since: "2.8.9", Arity: 4,
	Flags: Write, Keys: OneKey(1, RW|Delete),
	Syntax:     "key min max",
	Summary:    "Removes members of a sorted set by their names, where all scores are the same.",
	Complexity: "O(log(N)+M) with N being the size of the sorted set and M the number of members removed",
	Run:        func(c *Ctx) error { return c.removeZRange(byLex, "zremrangebylex") },
}

// removeWork is the cost of removing an element, in the unit of Tx.Heavy.
const removeWork = 8 * elemWork

func (c *Ctx) removeZRange(kind zrangeKind, event string) error {
	r := zrangeCall{kind: kind}
	if err := r.readRange(c.Args[2], c.Args[3]); err != nil {
		return err
	}
	z, err := zset.Open(c.Tx, c.Args[1], &c.Limits.Limits)
	if err != nil {
		return err
	}
	defer z.Release()
	n := int64(0)
	switch start, stop, ok := r.ranks(z.Len()); {
	case !z.Exists():
	case kind == byRank:
		if ok && !c.Tx.Heavy((stop-start+1)*removeWork) {
			n = z.RemoveRanks(start, stop)
		}
	default:
		s := r.span(z)
		// Counting costs little compared with removing.
		if most := z.Len(); most*removeWork > 1<<18 && c.Tx.Heavy(z.CountUpTo(s, min(most, 1<<14))*removeWork) {
			return nil
		}
		n = z.RemoveSpan(s)
	}
	c.saved(z, keyspace.ZSetEv, event, c.Args[1], int(n))
	c.Reply.Int(n)
	return nil
}
