package command

import (
	"math"

	"redoubt/number"
	"redoubt/types/str"
)

// Commands that change a string in place.

var appendCmd = &Command{
	Name: "append", Group: String, Since: "2.0.0", Arity: 3,
	Flags: Write | DenyOOM | Fast, Keys: OneKey(1, RW|Insert),
	Syntax:     "key value",
	Summary:    "Adds bytes at the end of the string at a key.",
	Complexity: "O(N) where N is the number of bytes added",
	Run: func(c *Ctx) error {
		n, err := str.Append(c.Tx, c.Args[1], c.Args[2], c.Limits.MaxBulk)
		if err != nil {
			return err
		}
		c.Reply.Int(n)
		return nil
	},
}

var setrange = &Command{
	Name: "setrange", Group: String, Since: "2.2.0", Arity: 4,
	Flags: Write | DenyOOM, Keys: OneKey(1, RW|Update),
	Syntax:     "key offset:integer value",
	Summary:    "Overwrites a part of the string at a key, and makes it longer if need be.",
	Complexity: "O(N) where N is the number of bytes written",
	Run: func(c *Ctx) error {
		offset, err := integer(c.Args[2])
		if err != nil {
			return err
		}
		if offset < 0 {
			return ErrOffset
		}
		n, err := str.SetRange(c.Tx, c.Args[1], offset, c.Args[3], c.Limits.MaxBulk)
		if err != nil {
			return err
		}
		c.Reply.Int(n)
		return nil
	},
}

var incr = &Command{
	Name: "incr", Group: String, Since: "1.0.0", Arity: 2,
	Flags: Write | DenyOOM | Fast, Keys: OneKey(1, RW|Access|Update),
	Syntax:     "key",
	Summary:    "Adds one to the integer at a key.",
	Complexity: "O(1)",
	Run:        func(c *Ctx) error { return c.incrBy(1) },
}

var decr = &Command{
	Name: "decr", Group: String, Since: "1.0.0", Arity: 2,
	Flags: Write | DenyOOM | Fast, Keys: OneKey(1, RW|Access|Update),
	Syntax:     "key",
	Summary:    "Takes one from the integer at a key.",
	Complexity: "O(1)",
	Run:        func(c *Ctx) error { return c.incrBy(-1) },
}

var incrby = &Command{
	Name: "incrby", Group: String, Since: "1.0.0", Arity: 3,
	Flags: Write | DenyOOM | Fast, Keys: OneKey(1, RW|Access|Update),
	Syntax:     "key increment:integer",
	Summary:    "Adds to the integer at a key.",
	Complexity: "O(1)",
	Run: func(c *Ctx) error {
		n, err := integer(c.Args[2])
		if err != nil {
			return err
		}
		return c.incrBy(n)
	},
}

var decrby = &Command{
	Name: "decrby", Group: String, Since: "1.0.0", Arity: 3,
	Flags: Write | DenyOOM | Fast, Keys: OneKey(1, RW|Access|Update),
	Syntax:     "key decrement:integer",
	Summary:    "Subtracts from the integer at a key.",
	Complexity: "O(1)",
	Run: func(c *Ctx) error {
		n, err := integer(c.Args[2])
		if err != nil {
			return err
		}
		if n == math.MinInt64 { // has no negative
			return ErrDecrOverflow
		}
		return c.incrBy(-n)
	},
}

func (c *Ctx) incrBy(delta int64) error {
	n, err := str.IncrBy(c.Tx, c.Args[1], delta)
	if err != nil {
		return err
	}
	c.Reply.Int(n)
	return nil
}

var incrbyfloat = &Command{
	Name: "incrbyfloat", Group: String, Since: "2.6.0", Arity: 3,
	Flags: Write | DenyOOM | Fast, Keys: OneKey(1, RW|Access|Update),
	Syntax:     "key increment:double",
	Summary:    "Adds to the floating point number at a key.",
	Complexity: "O(1)",
	Run: func(c *Ctx) error {
		text, err := str.IncrByFloat(c.Tx, c.Args[1], c.Args[2])
		if err != nil {
			return err
		}
		c.Reply.Bulk(text)
		if c.Tx.Propagates() {
			c.propagate("SET", c.Args[1], []byte(text), []byte("KEEPTTL"))
		}
		return nil
	},
}

// integer reads an integer argument.
func integer(arg []byte) (int64, error) {
	n, ok := number.ParseInt(arg)
	if !ok {
		return 0, ErrNotInteger
	}
	return n, nil
}
