package command

import (
	"redoubt/keyspace"
	"redoubt/types/list"
)

// ListCommands are the commands on lists.
var ListCommands = []*Command{
	lpush, rpush, lpushx, rpushx, lpop, rpop, llen, lindex, lrange, lset,
	linsert, lrem, ltrim, lpos,
	lmove, rpoplpush, lmpop,
	blpop, brpop, blmove, brpoplpush, blmpop,
}

// Which end of a list a command works at.
const (
	leftEnd  = true
	rightEnd = false
)

// pushEvent and popEvent name what happened at an end.
func pushEvent(left bool) string {
	if left {
		return "lpush"
	}
	return "rpush"
}

func popEvent(left bool) string {
	if left {
		return "lpop"
	}
	return "rpop"
}

// popName is the command that takes elements off an end.
func popName(left bool) string {
	if left {
		return "LPOP"
	}
	return "RPOP"
}

var lpush = &Command{
	Name: "lpush", Group: List, Since: "1.0.0", Arity: -3,
	Flags: Write | DenyOOM | Fast, Keys: OneKey(1, RW|Insert),
	Syntax:     "key element...",
	Summary:    "Puts elements in front of a list, one after the other; a missing key becomes a list.",
	Complexity: "O(N) where N is the number of elements given",
	Run:        func(c *Ctx) error { return c.push(leftEnd, false) },
}

var rpush = &Command{
	Name: "rpush", Group: List, Since: "1.0.0", Arity: -3,
	Flags: Write | DenyOOM | Fast, Keys: OneKey(1, RW|Insert),
	Syntax:     "key element...",
	Summary:    "Adds elements to the end of a list; a missing key becomes a list.",
	Complexity: "O(N) where N is the number of elements given",
	Run:        func(c *Ctx) error { return c.push(rightEnd, false) },
}

var lpushx = &Command{
	Name: "lpushx", Group: List, Since: "2.2.0", Arity: -3,
	Flags: Write | DenyOOM | Fast, Keys: OneKey(1, RW|Insert),
	Syntax:     "key element...",
	Summary:    "Puts elements in front of a list, if there is one.",
	Complexity: "O(N) where N is the number of elements given",
	Run:        func(c *Ctx) error { return c.push(leftEnd, true) },
}

var rpushx = &Command{
	Name: "rpushx", Group: List, Since: "2.2.0", Arity: -3,
	Flags: Write | DenyOOM | Fast, Keys: OneKey(1, RW|Insert),
	Syntax:     "key element...",
	Summary:    "Adds elements to the end of a list, if there is one.",
	Complexity: "O(N) where N is the number of elements given",
	Run:        func(c *Ctx) error { return c.push(rightEnd, true) },
}

// push adds the elements among the arguments; if existing is true, only to a list that exists.
func (c *Ctx) push(left, existing bool) error {
	key := c.Args[1]
	l, err := list.Open(c.Tx, key, &c.Limits.Limits)
	if err != nil {
		return err
	}
	defer l.Release()
	if existing && !l.Exists() {
		c.Reply.Int(0)
		return nil
	}
	elems := c.Args[2:]
	l.PushAll(left, elems)
	c.saved(l, keyspace.ListEv, pushEvent(left), key, len(elems))
	c.Reply.Int(l.Len())
	return nil
}

var lpop = &Command{
	Name: "lpop", Group: List, Since: "1.0.0", Arity: -2,
	Flags: Write | Fast, Keys: OneKey(1, RW|Access|Delete),
	Syntax:     "key [count:integer]@6.2.0",
	Summary:    "Takes the first element of a list, or several from the front. A list without elements is deleted.",
	Complexity: "O(N) where N is the number of elements taken",
	Run:        func(c *Ctx) error { return c.pop(leftEnd) },
}

var rpop = &Command{
	Name: "rpop", Group: List, Since: "1.0.0", Arity: -2,
	Flags: Write | Fast, Keys: OneKey(1, RW|Access|Delete),
	Syntax:     "key [count:integer]@6.2.0",
	Summary:    "Takes the last element of a list, or several from the end. A list without elements is deleted.",
	Complexity: "O(N) where N is the number of elements taken",
	Run:        func(c *Ctx) error { return c.pop(rightEnd) },
}

// pop replies with one element, or with an array if there is a count.
func (c *Ctx) pop(left bool) error {
	if len(c.Args) > 3 {
		return ArityError(c.Cmd.FullName)
	}
	count, many := int64(1), len(c.Args) == 3
	if many {
		n, err := integer(c.Args[2])
		if err != nil || n < 0 {
			return ErrNotPositive
		}
		count = n
	}
	key := c.Args[1]
	l, err := list.Open(c.Tx, key, &c.Limits.Limits)
	if err != nil {
		return err
	}
	defer l.Release()
	switch count = min(count, l.Len()); {
	case !l.Exists() && many:
		c.Reply.NullArray()
		return nil
	case !l.Exists():
		c.Reply.Null()
		return nil
	case many:
		c.Reply.Array(int(count))
	}
	if count > 0 {
		c.takeOff(l, key, left, count)
	}
	return nil
}

// takeOff removes count elements from an end and replies with them. The list has as many.
func (c *Ctx) takeOff(l *list.List, key []byte, left bool, count int64) {
	l.Pop(left, count, func(e []byte) { c.Reply.Bulk(e) })
	c.saved(l, keyspace.ListEv, popEvent(left), key, int(count))
}

var llen = &Command{
	Name: "llen", Group: List, Since: "1.0.0", Arity: 2,
	Flags: ReadOnly | Fast, Keys: OneKey(1, RO),
	Syntax:     "key",
	Summary:    "Tells how many elements a list has.",
	Complexity: "O(1)",
	Run: func(c *Ctx) error {
		l, err := list.Read(c.Tx, c.Args[1])
		if err != nil {
			return err
		}
		c.Reply.Int(l.Len())
		l.Release()
		return nil
	},
}

// lindex parses its index only if the list exists.
var lindex = &Command{
	Name: "lindex", Group: List, Since: "1.0.0", Arity: 3,
	Flags: ReadOnly, Keys: OneKey(1, RO|Access),
	Syntax:     "key index:integer",
	Summary:    "Reads one element of a list.",
	Complexity: "O(1)",
	Run: func(c *Ctx) error {
		l, err := list.Read(c.Tx, c.Args[1])
		if err != nil {
			return err
		}
		defer l.Release()
		if !l.Exists() {
			c.Reply.Null()
			return nil
		}
		i, err := integer(c.Args[2])
		if err != nil {
			return err
		}
		if e, ok := l.Index(i); ok {
			c.Reply.Bulk(e)
		} else {
			c.Reply.Null()
		}
		return nil
	},
}

var lrange = &Command{
	Name: "lrange", Group: List, Since: "1.0.0", Arity: 4,
	Flags: ReadOnly, Keys: OneKey(1, RO|Access),
	Syntax:     "key start:integer stop:integer",
	Summary:    "Reads a part of a list.",
	Complexity: "O(N) where N is the number of elements read",
	Run: func(c *Ctx) error {
		first, err := integer(c.Args[2])
		if err != nil {
			return err
		}
		last, err := integer(c.Args[3])
		if err != nil {
			return err
		}
		l, err := list.Read(c.Tx, c.Args[1])
		if err != nil {
			return err
		}
		defer l.Release()
		from, to := list.Range(first, last, l.Len())
		c.Reply.Array(int(to - from))
		l.Walk(from, to, false, func(e []byte) bool {
			c.Reply.Bulk(e)
			return c.Spill()
		})
		return nil
	},
}

// lset parses its index only if the list exists.
var lset = &Command{
	Name: "lset", Group: List, Since: "1.0.0", Arity: 4,
	Flags: Write | DenyOOM, Keys: OneKey(1, RW|Update),
	Syntax:     "key index:integer element",
	Summary:    "Replaces one element of a list.",
	Complexity: "O(1)",
	Run: func(c *Ctx) error {
		key := c.Args[1]
		l, err := list.Open(c.Tx, key, &c.Limits.Limits)
		if err != nil {
			return err
		}
		defer l.Release()
		if !l.Exists() {
			return ErrNoSuchKey
		}
		i, err := integer(c.Args[2])
		if err != nil {
			return err
		}
		if !l.Set(i, c.Args[3]) {
			return ErrIndex
		}
		c.saved(l, keyspace.ListEv, "lset", key, 1)
		c.Reply.OK()
		return nil
	},
}
