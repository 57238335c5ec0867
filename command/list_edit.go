package command

import (
	"math"
	"strconv"

	"redoubt/keyspace"
	"redoubt/types/list"
)

// Commands that search for elements, or change the middle of a list.

var linsert = &Command{
	Name: "linsert", Group: List, Since: "2.2.0", Arity: 5,
	Flags: Write | DenyOOM, Keys: OneKey(1, RW|Insert),
	Syntax:  "key where=<BEFORE|AFTER> pivot element",
	Summary: "Puts an element beside another one of a list.",
	Complexity: "O(N) where N is the number of elements up to the other one; " +
		"those of the shorter side are moved if the list is large",
	Run: func(c *Ctx) error {
		after := isWord(c.Args[2], "after")
		if !after && !isWord(c.Args[2], "before") {
			return ErrSyntax
		}
		key := c.Args[1]
		l, err := list.Open(c.Tx, key, &c.Limits.Limits)
		if err != nil {
			return err
		}
		defer l.Release()
		switch {
		case !l.Exists():
			c.Reply.Int(0)
		case !l.Insert(after, c.Args[3], c.Args[4]):
			c.Reply.Int(-1)
		default:
			c.saved(l, keyspace.ListEv, "linsert", key, 1)
			c.Reply.Int(l.Len())
		}
		return nil
	},
}

var lrem = &Command{
	Name: "lrem", Group: List, Since: "1.0.0", Arity: 4,
	Flags: Write, Keys: OneKey(1, RW|Delete),
	Syntax:     "key count:integer element",
	Summary:    "Removes elements of a list by their value: all, some from the front, or some from the end.",
	Complexity: "O(N) where N is the length of the list",
	Run: func(c *Ctx) error {
		count, err := integer(c.Args[2])
		if err != nil {
			return err
		}
		key := c.Args[1]
		l, err := list.Open(c.Tx, key, &c.Limits.Limits)
		if err != nil {
			return err
		}
		defer l.Release()
		n := l.Remove(count, c.Args[3])
		c.saved(l, keyspace.ListEv, "lrem", key, int(n))
		c.Reply.Int(n)
		return nil
	},
}

// ltrim notes its event even if it removes nothing, but counts only removed elements as changes.
var ltrim = &Command{
	Name: "ltrim", Group: List, Since: "1.0.0", Arity: 4,
	Flags: Write, Keys: OneKey(1, RW|Delete),
	Syntax:     "key start:integer stop:integer",
	Summary:    "Removes the elements outside of a part of a list.",
	Complexity: "O(N) where N is the number of elements removed",
	Run: func(c *Ctx) error {
		first, err := integer(c.Args[2])
		if err != nil {
			return err
		}
		last, err := integer(c.Args[3])
		if err != nil {
			return err
		}
		key := c.Args[1]
		l, err := list.Open(c.Tx, key, &c.Limits.Limits)
		if err != nil {
			return err
		}
		defer l.Release()
		if l.Exists() {
			n := l.Len()
			from, to := list.Range(first, last, n)
			if from == to {
				from, to = n, n // remove everything
			}
			l.Trim(from, n-to)
			gone := l.Save()
			c.changed(keyspace.ListEv, "ltrim", key, int(from+n-to))
			c.noteGone(gone, key)
		}
		c.Reply.OK()
		return nil
	},
}

var lpos = &Command{
	Name: "lpos", Group: List, Since: "6.0.6", Arity: -3,
	Flags: ReadOnly, Keys: OneKey(1, RO|Access),
	Syntax:     "key element [RANK rank:integer] [COUNT num-matches:integer] [MAXLEN len:integer]",
	Summary:    "Finds the index of an element of a list, or those of several equal ones.",
	Complexity: "O(N) where N is the number of elements looked at",
	Run: func(c *Ctx) error {
		o, err := parseLpos(c.Args[3:])
		if err != nil {
			return err
		}
		l, err := list.Read(c.Tx, c.Args[1])
		if err != nil {
			return err
		}
		defer l.Release()
		skip, reverse := o.rank-1, o.rank < 0
		if reverse {
			skip = -o.rank - 1
		}
		var found []byte // the replies, since their number comes first
		n := int64(0)
		l.Find(c.Args[2], reverse, o.maxlen, func(i int64) bool {
			if skip > 0 {
				skip--
				return true
			}
			n++
			found = append(strconv.AppendInt(append(found, ':'), i, 10), '\r', '\n')
			return o.count >= 0 && n != o.count
		})
		switch {
		case o.count >= 0:
			c.Reply.Array(int(n))
		case n == 0:
			c.Reply.Null()
		}
		c.Reply.Buf = append(c.Reply.Buf, found...)
		return nil
	},
}

// lposOptions are the options of LPOS. Without COUNT, count is -1, and the reply is one match; 0
// is all matches.
type lposOptions struct{ rank, count, maxlen int64 }

func parseLpos(args [][]byte) (o lposOptions, err error) {
	o = lposOptions{rank: 1, count: -1}
	for ; len(args) > 0; args = args[2:] {
		if len(args) < 2 {
			return o, ErrSyntax
		}
		n, err := integer(args[1])
		switch {
		case isWord(args[0], "rank"):
			switch o.rank = n; {
			case err != nil:
				return o, err
			case n == math.MinInt64:
				return o, rangeError(-math.MaxInt64, math.MaxInt64)
			case n == 0:
				return o, ErrRankZero
			}
		case isWord(args[0], "count"):
			if o.count = n; err != nil || n < 0 {
				return o, ErrCountSign
			}
		case isWord(args[0], "maxlen"):
			if o.maxlen = n; err != nil || n < 0 {
				return o, ErrMaxlenSign
			}
		default:
			return o, ErrSyntax
		}
	}
	return o, nil
}
