package command

import (
	"redoubt/keyspace"
	sets "redoubt/types/set"
)

// SetCommands are the commands on sets.
var SetCommands = []*Command{
	sadd, srem, sismember, smismember, scard, smembers, smove, sscan,
	spop, srandmember,
	sinter, sinterstore, sintercard, sunion, sunionstore, sdiff, sdiffstore,
}

var sadd = &Command{
	Name: "sadd", Group: Set, Since: "1.0.0", Arity: -3,
	Flags: Write | DenyOOM | Fast, Keys: OneKey(1, RW|Insert),
	Syntax:     "key member...",
	Summary:    "Adds members to a set and tells how many of them are new.",
	Complexity: "O(N) where N is the number of members given",
	Run: func(c *Ctx) error {
		s, err := sets.Open(c.Tx, c.Args[1], &c.Limits.Limits)
		if err != nil {
			return err
		}
		defer s.Release()
		members := c.Args[2:]
		s.Expect(members[0], len(members))
		s.Prefetch(members)
		added := 0
		for _, m := range members {
			if s.Add(m) {
				added++
			}
		}
		c.saved(s, keyspace.SetEv, "sadd", c.Args[1], added) // its form may have changed although nothing was added
		c.Reply.Int(int64(added))
		return nil
	},
}

var srem = &Command{
	Name: "srem", Group: Set, Since: "1.0.0", Arity: -3,
	Flags: Write | Fast, Keys: OneKey(1, RW|Delete),
	Syntax:     "key member...",
	Summary:    "Takes members out of a set and tells how many were there.",
	Complexity: "O(N) where N is the number of members given",
	Run: func(c *Ctx) error {
		s, err := sets.Open(c.Tx, c.Args[1], &c.Limits.Limits)
		if err != nil {
			return err
		}
		defer s.Release()
		s.Prefetch(c.Args[2:])
		removed := 0
		for _, m := range c.Args[2:] {
			if s.Remove(m) {
				removed++
			}
		}
		c.saved(s, keyspace.SetEv, "srem", c.Args[1], removed)
		c.Reply.Int(int64(removed))
		return nil
	},
}

var sismember = &Command{
	Name: "sismember", Group: Set, Since: "1.0.0", Arity: 3,
	Flags: ReadOnly | Fast, Keys: OneKey(1, RO),
	Syntax:     "key member",
	Summary:    "Tells whether a set has a member.",
	Complexity: "O(1)",
	Run: func(c *Ctx) error {
		s, err := sets.Read(c.Tx, c.Args[1])
		if err != nil {
			return err
		}
		defer s.Release()
		c.Reply.Int(bit(s.Has(c.Args[2])))
		return nil
	},
}

var smismember = &Command{
	Name: "smismember", Group: Set, Since: "6.2.0", Arity: -3,
	Flags: ReadOnly | Fast, Keys: OneKey(1, RO|Access),
	Syntax:     "key member...",
	Summary:    "Tells for each of some members whether a set has it.",
	Complexity: "O(N) where N is the number of members given",
	Run: func(c *Ctx) error {
		s, err := sets.Read(c.Tx, c.Args[1])
		if err != nil {
			return err
		}
		defer s.Release()
		s.Prefetch(c.Args[2:])
		c.Reply.Array(len(c.Args) - 2)
		for _, m := range c.Args[2:] {
			c.Reply.Int(bit(s.Has(m)))
		}
		return nil
	},
}

var scard = &Command{
	Name: "scard", Group: Set, Since: "1.0.0", Arity: 2,
	Flags: ReadOnly | Fast, Keys: OneKey(1, RO),
	Syntax:     "key",
	Summary:    "Tells how many members a set has.",
	Complexity: "O(1)",
	Run: func(c *Ctx) error {
		s, err := sets.Read(c.Tx, c.Args[1])
		if err != nil {
			return err
		}
		defer s.Release()
		c.Reply.Int(s.Len())
		return nil
	},
}

var smembers = &Command{
	Name: "smembers", Group: Set, Since: "1.0.0", Arity: 2,
	Flags: ReadOnly, Keys: OneKey(1, RO|Access),
	Tips:       []string{"nondeterministic_output_order"},
	Syntax:     "key",
	Summary:    "Lists all members of a set.",
	Complexity: "O(N) where N is the number of members",
	Run: func(c *Ctx) error {
		s, err := sets.Read(c.Tx, c.Args[1])
		if err != nil {
			return err
		}
		defer s.Release()
		c.replySet(s)
		return nil
	},
}

// replySet writes all members of a set.
func (c *Ctx) replySet(s *sets.Set) {
	if c.Tx.Heavy(s.Weight()) {
		return
	}
	c.Reply.Set(int(s.Len()))
	s.Each(c.writeMember)
}

// writeMember writes an element of a reply that may be large.
func (c *Ctx) writeMember(member []byte) bool {
	c.Reply.Bulk(member)
	return c.Spill()
}

// smove reads the source first: if it does not exist, the type of the destination does not matter.
var smove = &Command{
	Name: "smove", Group: Set, Since: "1.0.0", Arity: 4,
	Flags:      Write | Fast,
	Keys:       append(OneKey(1, RW|Access|Delete), OneKey(2, RW|Insert)...),
	Syntax:     "source:key destination:key member",
	Summary:    "Moves a member from one set to another.",
	Complexity: "O(1)",
	Run: func(c *Ctx) error {
		member := c.Args[3]
		from, err := sets.Open(c.Tx, c.Args[1], &c.Limits.Limits)
		if err != nil {
			return err
		}
		if !from.Exists() {
			c.Reply.Int(0)
			return nil
		}
		to, err := sets.Open(c.Tx, c.Args[2], &c.Limits.Limits)
		if err != nil {
			return err
		}
		if string(c.Args[1]) == string(c.Args[2]) {
			c.Reply.Int(bit(from.Has(member)))
			return nil
		}
		if !from.Remove(member) {
			c.Reply.Int(0)
			return nil
		}
		c.saved(from, keyspace.SetEv, "srem", c.Args[1], 1)
		if !to.Exists() {
			to.Expect(member, 1)
		}
		if to.Add(member) {
			c.saved(to, keyspace.SetEv, "sadd", c.Args[2], 1)
		}
		c.Reply.Int(1)
		return nil
	},
}

var sscan = &Command{
	Name: "sscan", Group: Set, Since: "2.8.0", Arity: -3,
	Flags: ReadOnly, Keys: OneKey(1, RO|Access),
	Tips:       []string{"nondeterministic_output"},
	Syntax:     "key cursor:integer [MATCH pattern:pattern] [COUNT count:integer]",
	Summary:    "Lists some members of a set, and the cursor from which to go on.",
	Complexity: "O(N) where N is the count",
	Run: func(c *Ctx) error {
		cursor, ok := parseCursor(c.Args[2])
		if !ok {
			return ErrCursor
		}
		s, err := sets.Read(c.Tx, c.Args[1])
		if err != nil {
			return err
		}
		defer s.Release()
		if !s.Exists() { // the options are not parsed then
			c.newPage().reply(0)
			return nil
		}
		o, err := scanOptions(c.Args[3:], false)
		if err != nil {
			return err
		}
		page := c.newPage()
		cursor = s.Scan(cursor, o.count, func(m []byte) {
			if o.matches(m) {
				page.bulk(m)
			}
		})
		page.reply(cursor)
		return nil
	},
}
