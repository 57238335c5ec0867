package command

import (
	"bytes"
	"math"
	"strings"

	"redoubt/keyspace"
	"redoubt/number"
)

// GenericCommands are the commands on keys of any type, and those of the server
// group that work on whole databases.
var GenericCommands = []*Command{
	del, unlink, exists, touch, typeOf, rename, renameNX, move, copyKey,
	expire, pexpire, expireAt, pexpireAt, ttl, pttl, expireTime, pexpireTime, persist,
	keys, scan, randomKey, object, wait, waitAOF,
	dbSize, flushDB, flushAll, swapDB,
}

// del removes keys. Deleting is O(1) whatever a value's size, so there is
// nothing that UNLINK could do later.
var del = &Command{
	Name: "del", Group: Generic, Since: "1.0.0", Arity: -2,
	Flags: Write, Keys: KeyRange(1, -1, 1, RM|Delete),
	Tips:    []string{"request_policy:multi_shard", "response_policy:agg_sum"},
	Syntax:  "key...",
	Summary: "Removes keys and counts how many there were.",
	Run:     removeKeys,
}

var unlink = &Command{
	Name: "unlink", Group: Generic, Since: "4.0.0", Arity: -2,
	Flags: Write | Fast, Keys: KeyRange(1, -1, 1, RM|Delete),
	Tips:    []string{"request_policy:multi_shard", "response_policy:agg_sum"},
	Syntax:  "key...",
	Summary: "Removes keys at once and leaves clearing their values to the background.",
	Run:     removeKeys,
}

func removeKeys(c *Ctx) error {
	return countKeys(c, func(key []byte) bool {
		m := c.Tx.Find(key)
		if !m.Exists() {
			return false
		}
		c.Tx.Remove(key, m)
		c.Tx.Changed(keyspace.Generic, "del", key)
		return true
	})
}

// countKeys replies for how many of the call's keys f says true. f keeps
// nothing of what it reads.
func countKeys(c *Ctx, f func(key []byte) bool) error {
	if c.Tx.Heavy(int64(len(c.Args)) * keyWork) {
		return nil
	}
	n, held := int64(0), c.Tx.Held()
	for _, key := range c.Args[1:] {
		if f(key) {
			n++
		}
		c.Tx.Release(held)
	}
	c.Reply.Int(n)
	return nil
}

// keyWork is the cost of looking a key up, in the unit of Tx.Heavy.
const keyWork = 256

// exists counts a key as often as it is named.
var exists = &Command{
	Name: "exists", Group: Generic, Since: "1.0.0", Arity: -2,
	Flags: ReadOnly | Fast | NoTouch, Keys: KeyRange(1, -1, 1, RO),
	Tips:    []string{"request_policy:multi_shard", "response_policy:agg_sum"},
	Syntax:  "key...",
	Summary: "Counts how many of the named keys exist.",
	Run: func(c *Ctx) error {
		return countKeys(c, func(key []byte) bool { return c.Tx.Read(key).Exists() })
	},
}

var touch = &Command{
	Name: "touch", Group: Generic, Since: "3.2.1", Arity: -2,
	Flags: ReadOnly | Fast, Keys: KeyRange(1, -1, 1, RO),
	Tips:    []string{"request_policy:multi_shard", "response_policy:agg_sum"},
	Syntax:  "key...",
	Summary: "Marks keys as used just now and counts how many exist.",
	Run: func(c *Ctx) error {
		return countKeys(c, func(key []byte) bool {
			found := c.Tx.Read(key).Exists()
			if found {
				c.Usage.Touch(key)
			}
			return found
		})
	},
}

var typeOf = &Command{
	Name: "type", Group: Generic, Since: "1.0.0", Arity: 2,
	Flags: ReadOnly | Fast | NoTouch, Keys: OneKey(1, RO),
	Syntax:  "key",
	Summary: "Names the type of a key's value.",
	Run: func(c *Ctx) error {
		c.Reply.Status(c.Tx.Read(c.Args[1]).Type.String())
		return nil
	},
}

// rename moves only the meta row: the rows of a large value stay where they
// are.
var rename = &Command{
	Name: "rename", Group: Generic, Since: "1.0.0", Arity: 3,
	Flags:   Write,
	Keys:    []KeySpec{OneKey(1, RW|Access|Delete)[0], OneKey(2, OW|Update)[0]},
	Syntax:  "key newkey:key",
	Summary: "Gives a key another name, replacing what had that name.",
	Run: func(c *Ctx) error {
		if _, err := renameKey(c, true); err != nil {
			return err
		}
		c.Reply.OK()
		return nil
	},
}

var renameNX = &Command{
	Name: "renamenx", Group: Generic, Since: "1.0.0", Arity: 3,
	Flags:   Write | Fast,
	Keys:    []KeySpec{OneKey(1, RW|Access|Delete)[0], OneKey(2, OW|Insert)[0]},
	Syntax:  "key newkey:key",
	Summary: "Gives a key another name unless that name is taken.",
	Run: func(c *Ctx) error {
		done, err := renameKey(c, false)
		if err != nil {
			return err
		}
		c.Reply.Int(bit(done))
		return nil
	},
}

func renameKey(c *Ctx, replace bool) (done bool, err error) {
	from, to := c.Args[1], c.Args[2]
	m := c.Tx.Find(from)
	if !m.Exists() {
		return false, ErrNoSuchKey
	}
	if bytes.Equal(from, to) {
		return false, nil
	}
	old := c.Tx.Find(to)
	if old.Exists() {
		if !replace {
			return false, nil
		}
		c.Tx.Remove(to, old)
	}
	if m.Type == keyspace.Channel {
		c.propagateChannel(to, old.Exists())
	}
	c.Tx.Detach(from, m)
	c.Tx.Store(to, keyspace.Meta{}, m)
	c.Tx.Changed(keyspace.Generic, "rename_from", from)
	c.Tx.Note(keyspace.Generic, "rename_to", to)
	return true, nil
}

// move relies on latches going by the key's name alone: it writes the key in
// two databases.
var move = &Command{
	Name: "move", Group: Generic, Since: "1.0.0", Arity: 3,
	Flags: Write | Fast, Keys: OneKey(1, RW|Access|Update),
	Syntax:  "key db:integer",
	Summary: "Moves a key to another database unless it exists there.",
	Run: func(c *Ctx) error {
		key, from := c.Args[1], c.Tx.DB
		to, err := database(c, c.Args[2])
		if err != nil {
			return err
		}
		if to == from {
			return ErrSameObject
		}
		m := c.Tx.Find(key)
		if !m.Exists() {
			c.Reply.Int(0)
			return nil
		}
		defer func() { c.Tx.DB = from }()
		c.Tx.DB = to
		if c.Tx.Find(key).Exists() {
			c.Reply.Int(0)
			return nil
		}
		c.Tx.Store(key, keyspace.Meta{}, m)
		c.Tx.DB = from
		c.Tx.Detach(key, m)
		c.Tx.Changed(keyspace.Generic, "move_from", key)
		c.Tx.DB = to
		c.Tx.Note(keyspace.Generic, "move_to", key)
		c.Reply.Int(1)
		return nil
	},
}

var copyKey = &Command{
	Name: "copy", Group: Generic, Since: "6.2.0", Arity: -3,
	Flags:   Write | DenyOOM,
	Keys:    []KeySpec{OneKey(1, RO|Access)[0], OneKey(2, OW|Update)[0]},
	Syntax:  "source:key destination:key [DB destination-db:integer] [REPLACE]",
	Summary: "Copies a value and its expiry to another key.",
	Run: func(c *Ctx) error {
		from, to, source := c.Args[1], c.Args[2], c.Tx.DB
		target, replace := source, false
		for i := 3; i < len(c.Args); i++ {
			switch {
			case isWord(c.Args[i], "replace"):
				replace = true
			case isWord(c.Args[i], "db") && i+1 < len(c.Args):
				var err error
				i++
				if target, err = database(c, c.Args[i]); err != nil {
					return err
				}
			default:
				return ErrSyntax
			}
		}
		if target == source && bytes.Equal(from, to) {
			return ErrSameObject
		}
		m := c.Tx.Read(from)
		if !m.Exists() {
			c.Reply.Int(0)
			return nil
		}
		defer func() { c.Tx.DB = source }()
		c.Tx.DB = target
		old := c.Tx.Find(to)
		if old.Exists() {
			if !replace {
				c.Reply.Int(0)
				return nil
			}
			c.Tx.Remove(to, old)
		}
		if m.Type == keyspace.Channel {
			c.propagateChannel(to, old.Exists())
		}
		c.Tx.Store(to, keyspace.Meta{}, c.Tx.Duplicate(to, m))
		c.Tx.Changed(keyspace.Generic, "copy_to", to)
		c.Reply.Int(1)
		return nil
	},
}

// database parses the number of a database.
func database(c *Ctx, arg []byte) (int, error) {
	n, err := int32Arg(arg, "")
	if err != nil {
		return 0, err
	}
	if n < 0 || n >= c.Tx.Space.Databases() {
		return 0, ErrDBRange
	}
	return n, nil
}

// int32Arg parses an argument that Redis keeps in a C int. A message, if there
// is one, replaces both of its errors.
func int32Arg(arg []byte, message Error) (int, error) {
	n, ok := number.ParseInt(arg)
	switch {
	case message != "" && (!ok || n < math.MinInt32 || n > math.MaxInt32):
		return 0, message
	case !ok:
		return 0, ErrNotInteger
	case n < math.MinInt32 || n > math.MaxInt32:
		return 0, rangeError(math.MinInt32, math.MaxInt32)
	}
	return int(n), nil
}

// isWord reports whether an argument is this word, which is in lower case. An
// argument ends at a zero byte for this purpose: Redis compares C strings.
func isWord(arg []byte, word string) bool {
	arg = cString(arg)
	return len(arg) == len(word) && strings.EqualFold(string(arg), word)
}

// cString cuts an argument at its first zero byte, as Redis does where it
// prints or compares one as a C string.
func cString(arg []byte) []byte {
	if i := bytes.IndexByte(arg, 0); i >= 0 {
		return arg[:i]
	}
	return arg
}

func bit(b bool) int64 {
	if b {
		return 1
	}
	return 0
}
