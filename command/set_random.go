package command

import (
	"math"

	"redoubt/keyspace"
	"redoubt/number"
	sets "redoubt/types/set"
)

// Commands that choose members of a set at random.

var spop = &Command{
	Name: "spop", Group: Set, Since: "1.0.0", Arity: -2,
	Flags: Write | Fast, Keys: OneKey(1, RW|Access|Delete),
	Tips:       []string{"nondeterministic_output"},
	Syntax:     "key [count:integer]@3.2.0",
	Summary:    "Takes a random member, or several, out of a set.",
	Complexity: "O(N) where N is the number of members taken",
	Run: func(c *Ctx) error {
		if len(c.Args) > 3 {
			return ErrSyntax
		}
		if len(c.Args) == 3 {
			return c.popCount(c.Args[2])
		}
		s, err := sets.Open(c.Tx, c.Args[1], &c.Limits.Limits)
		if err != nil {
			return err
		}
		defer s.Release()
		m, ok := s.Pop(c.Rand())
		if !ok {
			c.Reply.Null()
			return nil
		}
		c.saved(s, keyspace.SetEv, "spop", c.Args[1], 1)
		c.Reply.Bulk(m)
		c.propagate("SREM", c.Args[1], m)
		return nil
	},
}

func (c *Ctx) popCount(arg []byte) error {
	count, ok := number.ParseInt(arg)
	if !ok || count < 0 {
		return ErrNotPositive
	}
	s, err := sets.Open(c.Tx, c.Args[1], &c.Limits.Limits)
	if err != nil {
		return err
	}
	defer s.Release()
	count = min(count, s.Len())
	if count == s.Len() { // also when both are 0
		c.replySet(s)
		if count > 0 {
			s.Clear()
			c.saved(s, keyspace.SetEv, "spop", c.Args[1], int(count))
			c.propagate("DEL", c.Args[1])
		}
		return nil
	}
	c.Reply.Set(int(count))
	if count > 0 {
		gone := removal{c: c, name: "SREM"}
		s.PopMany(count, c.Rand(), func(m []byte) {
			c.Reply.Bulk(m)
			gone.add(m)
		})
		gone.end()
		c.saved(s, keyspace.SetEv, "spop", c.Args[1], int(count))
	}
	return nil
}

var srandmember = &Command{
	Name: "srandmember", Group: Set, Since: "1.0.0", Arity: -2,
	Flags: ReadOnly, Keys: OneKey(1, RO|Access),
	Tips:       []string{"nondeterministic_output"},
	Syntax:     "key [count:integer]@2.6.0",
	Summary:    "Lists a random member of a set, or several.",
	Complexity: "O(N) where N is the number of members listed",
	Run: func(c *Ctx) error {
		if len(c.Args) > 3 {
			return ErrSyntax
		}
		if len(c.Args) == 3 {
			return c.sampleMembers(c.Args[2])
		}
		s, err := sets.Read(c.Tx, c.Args[1])
		if err != nil {
			return err
		}
		defer s.Release()
		if m, ok := s.Pick(c.Rand()); ok {
			c.Reply.Bulk(m)
		} else {
			c.Reply.Null()
		}
		return nil
	},
}

// sampleMembers replies with distinct members or, if the count is negative, with members that are
// drawn independently.
func (c *Ctx) sampleMembers(arg []byte) error {
	count, err := integer(arg)
	if err != nil {
		return err
	}
	if count == math.MinInt64 {
		return rangeError(-math.MaxInt64, math.MaxInt64)
	}
	s, err := sets.Read(c.Tx, c.Args[1])
	if err != nil {
		return err
	}
	defer s.Release()
	switch {
	case s.Len() == 0:
		c.Reply.Array(0)
	case count < 0:
		c.Reply.Array(int(-count))
		s.Draw(-count, c.Rand(), c.writeMember)
	default:
		count = min(count, s.Len())
		if c.Tx.Heavy(count * 64) {
			return nil
		}
		c.Reply.Array(int(count))
		s.Sample(count, c.Rand(), func(m []byte) { c.writeMember(m) })
	}
	return nil
}
