package command

import (
	"math"

	"redoubt/keyspace"
	"redoubt/number"
	"redoubt/types/zset"
)

// Commands that change single members of a sorted set.

// zaddOptions are the options before the scores.
type zaddOptions struct {
	nx, xx, gt, lt, ch, incr bool
}

var zadd = &Command{
	Name: "zadd", Group: SortedSet, Since: "1.2.0", Arity: -4,
	Flags: Write | DenyOOM | Fast, Keys: OneKey(1, RW|Update),
	Syntax:     "key [NX|XX]@3.0.2 [GT|LT]@6.2.0 [change=CH]@3.0.2 [increment=INCR]@3.0.2 (score:double member)...",
	Summary:    "Gives members of a sorted set their scores, and adds those that are new.",
	Complexity: "O(log(N)) for each member, where N is the size of the sorted set",
	Run: func(c *Ctx) error {
		var o zaddOptions
		at := 2
		for ; at < len(c.Args); at++ {
			if word := c.Args[at]; len(word) > 0 && word[0]|32 < 'a' {
				break // a number: the common case
			} else if !o.read(word) {
				break
			}
		}
		pairs := c.Args[at:]
		switch {
		case len(pairs) == 0 || len(pairs)%2 != 0:
			return ErrSyntax
		case o.nx && o.xx:
			return errZConditions
		case o.gt && o.nx || o.lt && o.nx || o.gt && o.lt:
			return errZComparison
		case o.incr && len(pairs) > 2:
			return errZIncr
		}
		return c.addMembers(pairs, &o)
	},
}

// read reads an option. It returns false if the argument is no option.
func (o *zaddOptions) read(word []byte) bool {
	switch {
	case isWord(word, "nx"):
		o.nx = true
	case isWord(word, "xx"):
		o.xx = true
	case isWord(word, "gt"):
		o.gt = true
	case isWord(word, "lt"):
		o.lt = true
	case isWord(word, "ch"):
		o.ch = true
	case isWord(word, "incr"):
		o.incr = true
	default:
		return false
	}
	return true
}

// zincrby takes its arguments in another order than ZADD INCR.
var zincrby = &Command{
	Name: "zincrby", Group: SortedSet, Since: "1.2.0", Arity: 4,
	Flags: Write | DenyOOM | Fast, Keys: OneKey(1, RW|Access|Update),
	Syntax:     "key increment:integer member",
	Summary:    "Adds to the score of a member.",
	Complexity: "O(log(N)) where N is the size of the sorted set",
	Run:        func(c *Ctx) error { return c.addMembers(c.Args[2:], &zaddOptions{incr: true}) },
}

// addMembers adds pairs of a score and a member and replies.
func (c *Ctx) addMembers(pairs [][]byte, o *zaddOptions) error {
	if c.Tx.Heavy(int64(len(pairs)) * keyWork) {
		return nil
	}
	// All scores are checked before the set is changed; they are parsed twice, which is cheaper
	// than keeping them.
	for i := 0; i < len(pairs); i += 2 {
		if _, ok := zscoreArg(pairs[i]); !ok {
			return ErrNotFloat
		}
	}
	key := c.Args[1]
	z, err := zset.Open(c.Tx, key, &c.Limits.Limits)
	if err != nil {
		return err
	}
	defer z.Release()
	var added, updated int64
	var score float64
	done := false
	if z.Exists() || !o.xx {
		z.Expect(len(pairs)/2, len(pairs[1]))
		z.Prefetch(pairs[1:], 2)
		for i := 0; i < len(pairs); i += 2 {
			score, _ = zscoreArg(pairs[i])
			was, there := z.Score(pairs[i+1])
			if there && o.nx || !there && o.xx {
				continue
			}
			if !there {
				z.Insert(pairs[i+1], score)
				added, done = added+1, true
				continue
			}
			if o.incr {
				if score += was; math.IsNaN(score) {
					return errZNaN
				}
			}
			if o.lt && score >= was || o.gt && score <= was {
				continue
			}
			if done = true; z.Replace(pairs[i+1], was, score) {
				updated++
			}
		}
	}
	event := "zadd"
	if o.incr {
		event = "zincr"
	}
	c.saved(z, keyspace.ZSetEv, event, key, int(added+updated)) // it may have unfolded although nothing was added
	switch {
	case o.incr && done:
		c.Reply.Double(score)
	case o.incr:
		c.Reply.Null()
	case o.ch:
		c.Reply.Int(added + updated)
	default:
		c.Reply.Int(added)
	}
	return nil
}

// zscoreArg reads a score. Most are small whole numbers.
func zscoreArg(arg []byte) (float64, bool) {
	if len(arg) < 16 {
		if n, ok := number.ParseInt(arg); ok {
			return float64(n), true
		}
	}
	return number.ParseDouble(arg)
}

var zrem = &Command{
	Name: "zrem", Group: SortedSet, Since: "1.2.0", Arity: -3,
	Flags: Write | Fast, Keys: OneKey(1, RW|Delete),
	Syntax:     "key member...",
	Summary:    "Takes members out of a sorted set.",
	Complexity: "O(M*log(N)) where M is the number of members and N the size of the sorted set",
	Run: func(c *Ctx) error {
		if c.Tx.Heavy(int64(len(c.Args)) * keyWork) {
			return nil
		}
		z, err := zset.Open(c.Tx, c.Args[1], &c.Limits.Limits)
		if err != nil {
			return err
		}
		defer z.Release()
		z.Prefetch(c.Args[2:], 1)
		n := int64(0)
		for _, member := range c.Args[2:] {
			if z.Remove(member) {
				n++
			}
		}
		c.saved(z, keyspace.ZSetEv, "zrem", c.Args[1], int(n))
		c.Reply.Int(n)
		return nil
	},
}
