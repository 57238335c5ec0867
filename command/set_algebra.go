package command

import (
	"slices"

	"redoubt/keyspace"
	"redoubt/number"
	"redoubt/types"
	sets "redoubt/types/set"
	"redoubt/wire"
)

// Commands on several sets.

const (
	errInterKeys  = Error("ERR numkeys should be greater than 0")
	errInterArgs  = Error("ERR Number of keys can't be greater than number of args")
	errInterLimit = Error("ERR LIMIT can't be negative")
)

var sinter = &Command{
	Name: "sinter", Group: Set, Since: "1.0.0", Arity: -2,
	Flags: ReadOnly, Keys: KeyRange(1, -1, 1, RO|Access),
	Tips:       []string{"nondeterministic_output_order"},
	Syntax:     "key...",
	Summary:    "Lists the members that several sets have in common.",
	Complexity: "O(N*M) where N is the size of the smallest set and M the number of sets",
	Run:        func(c *Ctx) error { return c.replyOf((*sets.Group).Inter) },
}

var sunion = &Command{
	Name: "sunion", Group: Set, Since: "1.0.0", Arity: -2,
	Flags: ReadOnly, Keys: KeyRange(1, -1, 1, RO|Access),
	Tips:       []string{"nondeterministic_output_order"},
	Syntax:     "key...",
	Summary:    "Lists the members that any of several sets has.",
	Complexity: "O(N*M) where N is the number of members of all sets and M the number of sets",
	Run:        func(c *Ctx) error { return c.replyOf((*sets.Group).Union) },
}

var sdiff = &Command{
	Name: "sdiff", Group: Set, Since: "1.0.0", Arity: -2,
	Flags: ReadOnly, Keys: KeyRange(1, -1, 1, RO|Access),
	Tips:       []string{"nondeterministic_output_order"},
	Syntax:     "key...",
	Summary:    "Lists the members of a set that no other one has.",
	Complexity: "O(N*M) where N is the size of the first set and M the number of sets",
	Run:        func(c *Ctx) error { return c.replyOf((*sets.Group).Diff) },
}

// replyOf writes the members that an operation on the sets at all keys visits. The reply begins
// with their number: a short reply is made first and its number inserted; for a long reply, which
// is sent while it is made, the operation is run twice.
func (c *Ctx) replyOf(op func(*sets.Group, func([]byte) bool)) error {
	g, err := sets.ReadAll(c.Tx, c.Args[1:])
	if err != nil {
		return err
	}
	start, n, short := len(c.Reply.Buf), 0, true
	op(g, func(m []byte) bool {
		n++
		if short {
			c.Reply.Bulk(m)
			if c.Sink != nil && len(c.Reply.Buf)-start > spillBytes {
				c.Reply.Buf, short = c.Reply.Buf[:start], false
			}
		}
		return true
	})
	switch {
	case c.Tx.Err() != nil:
	case short:
		head := wire.Writer{Proto: c.Reply.Proto}
		head.Set(n)
		c.Reply.Buf = slices.Insert(c.Reply.Buf, start, head.Buf...)
	default:
		c.Reply.Set(n)
		op(g, c.writeMember)
	}
	return nil
}

var sintercard = &Command{
	Name: "sintercard", Group: Set, Since: "7.0.0", Arity: -3,
	Flags: ReadOnly | MovableKeys, Keys: KeyNum(1, RO|Access),
	Syntax:     "numkeys:integer key... [LIMIT limit:integer]",
	Summary:    "Counts the members that several sets have in common.",
	Complexity: "O(N*M) where N is the size of the smallest set and M the number of sets",
	Run: func(c *Ctx) error {
		keys, limit, err := interCardArgs(c.Args)
		if err != nil {
			return err
		}
		g, err := sets.ReadAll(c.Tx, keys)
		if err != nil {
			return err
		}
		n := int64(0)
		g.Inter(func([]byte) bool {
			n++
			return n != limit
		})
		c.Reply.Int(n)
		return nil
	},
}

// interCardArgs returns the keys and the limit; 0 is none.
func interCardArgs(args [][]byte) (keys [][]byte, limit int64, err error) {
	n, ok := number.ParseInt(args[1])
	if !ok || n < 1 {
		return nil, 0, errInterKeys
	}
	if n > int64(len(args)-2) {
		return nil, 0, errInterArgs
	}
	keys, rest := args[2:2+n], args[2+n:]
	for ; len(rest) > 0; rest = rest[2:] {
		if !isWord(rest[0], "limit") || len(rest) < 2 {
			return nil, 0, ErrSyntax
		}
		if limit, ok = number.ParseInt(rest[1]); !ok || limit < 0 {
			return nil, 0, errInterLimit
		}
	}
	return keys, limit, nil
}

var sinterstore = &Command{
	Name: "sinterstore", Group: Set, Since: "1.0.0", Arity: -3,
	Flags:      Write | DenyOOM,
	Keys:       append(OneKey(1, RW|Update), KeyRange(2, -1, 1, RO|Access)...),
	Syntax:     "destination:key key...",
	Summary:    "Makes a key the set of the members that several sets have in common.",
	Complexity: "O(N*M) where N is the size of the smallest set and M the number of sets",
	Run:        func(c *Ctx) error { return c.storeOf((*sets.Group).CreateInter, "sinterstore") },
}

var sunionstore = &Command{
	Name: "sunionstore", Group: Set, Since: "1.0.0", Arity: -3,
	Flags:      Write | DenyOOM,
	Keys:       append(OneKey(1, OW|Update), KeyRange(2, -1, 1, RO|Access)...),
	Syntax:     "destination:key key...",
	Summary:    "Makes a key the set of the members that any of several sets has.",
	Complexity: "O(N*M) where N is the number of members of all sets and M the number of sets",
	Run:        func(c *Ctx) error { return c.storeOf((*sets.Group).CreateUnion, "sunionstore") },
}

var sdiffstore = &Command{
	Name: "sdiffstore", Group: Set, Since: "1.0.0", Arity: -3,
	Flags:      Write | DenyOOM,
	Keys:       append(OneKey(1, OW|Update), KeyRange(2, -1, 1, RO|Access)...),
	Syntax:     "destination:key key...",
	Summary:    "Makes a key the set of the members of a set that no other one has.",
	Complexity: "O(N*M) where N is the size of the first set and M the number of sets",
	Run:        func(c *Ctx) error { return c.storeOf((*sets.Group).CreateDiff, "sdiffstore") },
}

// storeOf makes the first key a set that create makes of the others.
func (c *Ctx) storeOf(create func(*sets.Group, []byte, *types.Limits) *sets.Set, event string) error {
	g, err := sets.ReadAll(c.Tx, c.Args[2:])
	if err != nil {
		return err
	}
	dst := create(g, c.Args[1], &c.Limits.Limits)
	defer dst.Release()
	c.stored(dst, keyspace.SetEv, event, c.Args[1], 1)
	return nil
}
