package command

import (
	"strings"

	"redoubt/keyspace"
	"redoubt/number"
	"redoubt/types/zset"
)

// Commands that remove the lowest or highest members of a sorted set, some of which wait for a
// member.

// zpopForm is how popped elements are replied.
type zpopForm struct {
	key    bool // the name of the key comes first
	nested bool // each element is an array of its own
}

var zpopmin = &Command{
	Name: "zpopmin", Group: SortedSet, Since: "5.0.0", Arity: -2,
	Flags: Write | Fast, Keys: OneKey(1, RW|Access|Delete),
	Syntax:     "key [count:integer]",
	Summary:    "Takes the members with the lowest scores out of a sorted set.",
	Complexity: "O(log(N)*M) with N being the size of the sorted set and M the number of members taken",
	Run:        func(c *Ctx) error { return c.zpop(false) },
}

var zpopmax = &Command{
	Name: "zpopmax", Group: SortedSet, Since: "5.0.0", Arity: -2,
	Flags: Write | Fast, Keys: OneKey(1, RW|Access|Delete),
	Syntax:     "key [count:integer]",
	Summary:    "Takes the members with the highest scores out of a sorted set.",
	Complexity: "O(log(N)*M) with N being the size of the sorted set and M the number of members taken",
	Run:        func(c *Ctx) error { return c.zpop(true) },
}

func (c *Ctx) zpop(highest bool) error {
	if len(c.Args) > 3 {
		return ErrSyntax
	}
	count := int64(1)
	form := zpopForm{}
	if len(c.Args) == 3 {
		n, ok := number.ParseInt(c.Args[2])
		if !ok || n < 0 {
			return ErrNotPositive
		}
		count, form.nested = n, c.Reply.Proto == 3
	}
	z, err := zset.Open(c.Tx, c.Args[1], &c.Limits.Limits)
	if err != nil {
		return err
	}
	defer z.Release()
	if !z.Exists() || count == 0 {
		c.Reply.Array(0)
		return nil
	}
	c.popFrom(z, count, highest, form)
	return nil
}

// popFrom pops elements from a set that has some, and replies.
func (c *Ctx) popFrom(z *zset.ZSet, count int64, highest bool, form zpopForm) {
	count = min(count, z.Len())
	if c.Tx.Heavy(count * removeWork) {
		return
	}
	w := c.Reply
	switch {
	case form.nested && form.key:
		w.Array(2)
		w.Bulk(z.Key())
		w.Array(int(count))
	case form.nested:
		w.Array(int(count))
	case form.key:
		w.Array(int(2*count + 1))
		w.Bulk(z.Key())
	default:
		w.Array(int(2 * count))
	}
	z.Pop(count, highest, func(member []byte, score float64) {
		if form.nested {
			w.Array(2)
		}
		w.Bulk(member)
		w.Double(score)
	})
	event := "zpopmin"
	if highest {
		event = "zpopmax"
	}
	if form.key { // the command has several keys, and may be one that waits
		name := strings.ToUpper(event)
		if form.nested {
			c.propagate(name, z.Key(), decimal(count))
		} else {
			c.propagate(name, z.Key())
		}
	}
	c.saved(z, keyspace.ZSetEv, event, z.Key(), int(count))
}

// popFirst pops from the first of the keys that has a sorted set. It returns false if
// none has.
func (c *Ctx) popFirst(keys [][]byte, count int64, highest bool, form zpopForm) (bool, error) {
	for _, key := range keys {
		z, err := zset.Open(c.Tx, key, &c.Limits.Limits)
		if err != nil {
			return false, err
		}
		found := z.Exists()
		if found {
			c.popFrom(z, count, highest, form)
		}
		z.Release()
		if found {
			return true, nil
		}
	}
	return false, nil
}

var zmpop = &Command{
	Name: "zmpop", Group: SortedSet, Since: "7.0.0", Arity: -4,
	Flags: Write | MovableKeys, Keys: KeyNum(1, RW|Access|Delete),
	Syntax:     "numkeys:integer key... where=<MIN|MAX> [COUNT count:integer]",
	Summary:    "Takes the lowest or highest members out of the first sorted set that has some.",
	Complexity: "O(K) + O(M*log(N)) with K being the number of keys, N the size of the sorted set and M the number of members taken",
	Run: func(c *Ctx) error {
		keys, highest, count, err := mpopArgs(c.Args[1:])
		if err != nil {
			return err
		}
		found, err := c.popFirst(keys, count, highest, zpopForm{key: true, nested: true})
		if err == nil && !found {
			c.Reply.NullArray()
		}
		return err
	},
}

// mpopArgs reads the arguments that ZMPOP and BZMPOP share, from the number of keys on.
func mpopArgs(args [][]byte) (keys [][]byte, highest bool, count int64, err error) {
	n, ok := number.ParseInt(args[0])
	if !ok || n < 1 {
		return nil, false, 0, ErrNumKeys
	}
	if n >= int64(len(args)-1) {
		return nil, false, 0, ErrSyntax
	}
	keys, args = args[1:1+n], args[1+n:]
	switch {
	case isWord(args[0], "min"):
	case isWord(args[0], "max"):
		highest = true
	default:
		return nil, false, 0, ErrSyntax
	}
	count = -1
	for i := 1; i < len(args); i += 2 {
		if count != -1 || !isWord(args[i], "count") || i+1 == len(args) {
			return nil, false, 0, ErrSyntax
		}
		if count, ok = number.ParseInt(args[i+1]); !ok || count < 1 {
			return nil, false, 0, ErrCountPositive
		}
	}
	return keys, highest, max(count, 1), nil
}

var bzpopmin = &Command{
	Name: "bzpopmin", Group: SortedSet, Since: "5.0.0", Arity: -3,
	Flags: Write | Blocking | Fast, Keys: KeyRange(1, -2, 1, RW|Access|Delete),
	Syntax:     "key... timeout:double",
	Summary:    "Takes the member with the lowest score out of the first sorted set that has some, or waits for one.",
	Complexity: "O(log(N)) with N being the size of the sorted set",
	Run:        func(c *Ctx) error { return c.bzpop(false) },
}

var bzpopmax = &Command{
	Name: "bzpopmax", Group: SortedSet, Since: "5.0.0", Arity: -3,
	Flags: Write | Blocking | Fast, Keys: KeyRange(1, -2, 1, RW|Access|Delete),
	Syntax:     "key... timeout:double",
	Summary:    "Takes the member with the highest score out of the first sorted set that has some, or waits for one.",
	Complexity: "O(log(N)) with N being the size of the sorted set",
	Run:        func(c *Ctx) error { return c.bzpop(true) },
}

func (c *Ctx) bzpop(highest bool) error {
	last := len(c.Args) - 1
	return c.popOrWait(c.Args[1:last], c.Args[last], 1, highest, zpopForm{key: true})
}

var bzmpop = &Command{
	Name: "bzmpop", Group: SortedSet, Since: "7.0.0", Arity: -5,
	Flags: Write | Blocking | MovableKeys, Keys: KeyNum(2, RW|Access|Delete),
	Syntax:     "timeout:double numkeys:integer key... where=<MIN|MAX> [COUNT count:integer]",
	Summary:    "Takes the lowest or highest members out of the first sorted set that has some, or waits for some.",
	Complexity: "O(K) + O(M*log(N)) with K being the number of keys, N the size of the sorted set and M the number of members taken",
	Run: func(c *Ctx) error {
		keys, highest, count, err := mpopArgs(c.Args[2:])
		if err != nil {
			return err
		}
		return c.popOrWait(keys, c.Args[1], count, highest, zpopForm{key: true, nested: true})
	},
}

func (c *Ctx) popOrWait(keys [][]byte, timeout []byte, count int64, highest bool, form zpopForm) error {
	wait, err := secondsToWait(c, timeout)
	if err != nil {
		return err
	}
	found, err := c.popFirst(keys, count, highest, form)
	switch {
	case err != nil || found || c.Tx.Err() != nil:
		return err
	case c.NoBlock:
		c.Reply.NullArray()
		return nil
	}
	return &Block{Timeout: wait, Type: keyspace.ZSet, Keys: keys}
}
