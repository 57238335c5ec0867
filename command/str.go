package command

import (
	"slices"

	"redoubt/types/str"
)

// StringCommands are the commands on strings.
var StringCommands = []*Command{
	get, getdel, getex, getrange, getset, mget, strlen, substr,
	set, setnx, setex, psetex, mset, msetnx, appendCmd, setrange,
	incr, decr, incrby, decrby, incrbyfloat,
	lcs,
}

var get = &Command{
	Name: "get", Group: String, Since: "1.0.0", Arity: 2,
	Flags: ReadOnly | Fast, Keys: OneKey(1, RO|Access),
	Syntax:     "key",
	Summary:    "Reads the string at a key.",
	Complexity: "O(1)",
	Run: func(c *Ctx) error {
		v, err := str.Read(c.Tx, c.Args[1])
		if err != nil {
			return err
		}
		c.replyString(v)
		return nil
	},
}

// replyString writes a whole string, or null if there is none.
func (c *Ctx) replyString(v str.Value) {
	if !v.Exists() {
		c.Reply.Null()
		return
	}
	c.replyRange(v, 0, v.Len())
}

// replyRange writes the bytes [from, to) of a string. A chunked one goes chunk
// by chunk into the reply, and in parts to the client if it is large.
func (c *Ctx) replyRange(v str.Value, from, to int64) {
	if b, ok := v.Inline(); ok {
		c.Reply.Bulk(b[from:to])
		return
	}
	if c.Tx.Heavy(to - from) {
		return
	}
	c.Reply.BulkHead(int(to - from))
	room := to - from
	if c.Sink != nil {
		room = min(room, spillBytes)
	}
	c.Reply.Buf = slices.Grow(c.Reply.Buf, int(room)+len("\r\n"))
	end := from
	v.Walk(c.Tx, from, to, func(at int64, piece []byte) bool {
		if !c.replyZeros(at - end) {
			return false
		}
		c.Reply.Buf = append(c.Reply.Buf, piece...)
		end = at + int64(len(piece))
		return c.Spill()
	})
	if c.Tx.Err() == nil && c.replyZeros(to-end) {
		c.Reply.BulkEnd()
	}
}

// replyZeros writes a part of a string that is not stored.
func (c *Ctx) replyZeros(n int64) bool {
	for ; n > 0; n -= min(n, int64(len(zeros))) {
		if c.Reply.Buf = append(c.Reply.Buf, zeros[:min(n, int64(len(zeros)))]...); !c.Spill() {
			return false
		}
	}
	return true
}

var zeros [8 << 10]byte

// getdel replies with the value and deletes the key.
var getdel = &Command{
	Name: "getdel", Group: String, Since: "6.2.0", Arity: 2,
	Flags: Write | Fast, Keys: OneKey(1, RW|Access|Delete),
	Syntax:     "key",
	Summary:    "Reads the string at a key and deletes the key.",
	Complexity: "O(1)",
	Run: func(c *Ctx) error {
		v, err := str.Read(c.Tx, c.Args[1])
		if err != nil {
			return err
		}
		c.replyString(v)
		if v.Exists() {
			str.Delete(c.Tx, c.Args[1], v.Meta)
			c.propagate("DEL", c.Args[1])
		}
		return nil
	},
}

var getset = &Command{
	Name: "getset", Group: String, Since: "1.0.0", Arity: 3,
	Flags: Write | DenyOOM | Fast, Keys: OneKey(1, RW|Access|Update),
	Syntax:     "key value",
	Summary:    "Reads the string at a key and replaces it.",
	Complexity: "O(1)", Deprecated: "6.2.0", ReplacedBy: "`SET` with the `GET` option",
	Run: func(c *Ctx) error {
		v, err := str.Read(c.Tx, c.Args[1])
		if err != nil {
			return err
		}
		c.replyString(v)
		str.Set(c.Tx, c.Args[1], v.Meta, c.Args[2], 0)
		c.propagate("SET", c.Args[1:]...)
		return nil
	},
}

var strlen = &Command{
	Name: "strlen", Group: String, Since: "2.2.0", Arity: 2,
	Flags: ReadOnly | Fast, Keys: OneKey(1, RO),
	Syntax:     "key",
	Summary:    "Tells how many bytes the string at a key has.",
	Complexity: "O(1)",
	Run: func(c *Ctx) error {
		v, err := str.Read(c.Tx, c.Args[1])
		if err != nil {
			return err
		}
		c.Reply.Int(v.Len())
		return nil
	},
}

var getrange = &Command{
	Name: "getrange", Group: String, Since: "2.4.0", Arity: 4,
	Flags: ReadOnly, Keys: OneKey(1, RO|Access),
	Syntax:     "key start:integer end:integer",
	Summary:    "Reads a part of the string at a key.",
	Complexity: "O(N) where N is the number of bytes read",
	Run:        runGetrange,
}

var substr = &Command{
	Name: "substr", Group: String, Since: "1.0.0", Arity: 4,
	Flags: ReadOnly, Keys: OneKey(1, RO|Access),
	Syntax:     "key start:integer end:integer",
	Summary:    "Reads a part of the string at a key; the old name of GETRANGE.",
	Complexity: "O(N) where N is the number of bytes read", Deprecated: "2.0.0", ReplacedBy: "`GETRANGE`",
	Run: runGetrange,
}

func runGetrange(c *Ctx) error {
	start, err := integer(c.Args[2])
	if err != nil {
		return err
	}
	end, err := integer(c.Args[3])
	if err != nil {
		return err
	}
	v, err := str.Read(c.Tx, c.Args[1])
	if err != nil {
		return err
	}
	from, to := slice(start, end, v.Len())
	c.replyRange(v, from, to)
	return nil
}

// slice turns a first and a last index, which count from the end if they are
// negative, into a range [from, to) inside a length. An empty range is 0, 0.
func slice(start, end, length int64) (from, to int64) {
	if start < 0 && end < 0 && start > end {
		return 0, 0
	}
	if start < 0 {
		start = max(0, start+length)
	}
	if end < 0 {
		end = max(0, end+length)
	}
	end = min(end, length-1)
	if start > end {
		return 0, 0
	}
	return start, end + 1
}

// mget answers null for what is no string, so it never fails.
var mget = &Command{
	Name: "mget", Group: String, Since: "1.0.0", Arity: -2,
	Flags: ReadOnly | Fast, Keys: KeyRange(1, -1, 1, RO|Access),
	Tips:       []string{"request_policy:multi_shard"},
	Syntax:     "key...",
	Summary:    "Reads the strings at several keys.",
	Complexity: "O(N) where N is the number of keys",
	Run: func(c *Ctx) error {
		start := len(c.Reply.Buf)
		c.Reply.Array(len(c.Args) - 1)
		for _, key := range c.Args[1:] {
			v, err := str.Read(c.Tx, key)
			if err != nil {
				v = str.Value{}
			}
			c.replyString(v)
			if c.Tx.Heavy(int64(len(c.Reply.Buf)-start)) || !c.Spill() {
				return nil
			}
		}
		return nil
	},
}
