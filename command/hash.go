package command

import (
	"redoubt/types/hash"
)

// HashCommands are the commands on hashes.
var HashCommands = []*Command{
	hset, hsetnx, hmset, hget, hmget, hgetall, hkeys, hvals, hlen, hstrlen, hexists, hdel, hincrby, hincrbyfloat,
	hrandfield, hscan,
	hexpire, hpexpire, hexpireat, hpexpireat, httl, hpttl, hexpiretime, hpexpiretime, hpersist,
	hgetex, hsetex, hgetdel,
}

var hget = &Command{
	Name: "hget", Group: Hash, Since: "2.0.0", Arity: 3,
	Flags: ReadOnly | Fast, Keys: OneKey(1, RO|Access),
	Syntax:     "key field",
	Summary:    "Reads a field of a hash.",
	Complexity: "O(1)",
	Run: func(c *Ctx) error {
		h, err := hash.Read(c.Tx, c.Args[1])
		if err != nil {
			return err
		}
		defer h.Release()
		e, ok := h.Get(c.Args[2])
		c.replyField(e, ok)
		return nil
	},
}

// replyField writes the value of a field, or null if there is none.
func (c *Ctx) replyField(e hash.Entry, found bool) {
	if found {
		c.Reply.Bulk(e.Value)
	} else {
		c.Reply.Null()
	}
}

var hmget = &Command{
	Name: "hmget", Group: Hash, Since: "2.0.0", Arity: -3,
	Flags: ReadOnly | Fast, Keys: OneKey(1, RO|Access),
	Syntax:     "key field...",
	Summary:    "Reads several fields of a hash.",
	Complexity: "O(N) where N is the number of fields asked for",
	Run: func(c *Ctx) error {
		h, err := hash.Read(c.Tx, c.Args[1])
		if err != nil {
			return err
		}
		defer h.Release()
		fields := c.Args[2:]
		h.Prefetch(fields)
		start := len(c.Reply.Buf)
		c.Reply.Array(len(fields))
		for _, f := range fields {
			held := c.Tx.Held()
			e, ok := h.Get(f)
			c.replyField(e, ok)
			c.Tx.Release(held)
			if c.Tx.Heavy(int64(len(c.Reply.Buf) - start)) {
				return nil
			}
		}
		return nil
	},
}

var hgetall = &Command{
	Name: "hgetall", Group: Hash, Since: "2.0.0", Arity: 2,
	Flags: ReadOnly, Keys: OneKey(1, RO|Access),
	Tips:       []string{"nondeterministic_output_order"},
	Syntax:     "key",
	Summary:    "Reads all fields of a hash with their values.",
	Complexity: "O(N) where N is the number of fields",
	Run:        func(c *Ctx) error { return c.replyHash(true, true) },
}

var hkeys = &Command{
	Name: "hkeys", Group: Hash, Since: "2.0.0", Arity: 2,
	Flags: ReadOnly, Keys: OneKey(1, RO|Access),
	Tips:       []string{"nondeterministic_output_order"},
	Syntax:     "key",
	Summary:    "Lists the names of all fields of a hash.",
	Complexity: "O(N) where N is the number of fields",
	Run:        func(c *Ctx) error { return c.replyHash(true, false) },
}

var hvals = &Command{
	Name: "hvals", Group: Hash, Since: "2.0.0", Arity: 2,
	Flags: ReadOnly, Keys: OneKey(1, RO|Access),
	Tips:       []string{"nondeterministic_output_order"},
	Syntax:     "key",
	Summary:    "Lists the values of all fields of a hash.",
	Complexity: "O(N) where N is the number of fields",
	Run:        func(c *Ctx) error { return c.replyHash(false, true) },
}

// replyHash writes all names, all values, or both.
func (c *Ctx) replyHash(names, values bool) error {
	h, err := hash.Read(c.Tx, c.Args[1])
	if err != nil {
		return err
	}
	defer h.Release()
	if c.Tx.Heavy(h.Weight()) {
		return nil
	}
	if n := int(h.Len()); names && values {
		c.Reply.Map(n)
	} else {
		c.Reply.Array(n)
	}
	start := len(c.Reply.Buf)
	h.Each(func(field []byte, e hash.Entry) bool {
		if names {
			c.Reply.Bulk(field)
		}
		if values {
			c.Reply.Bulk(e.Value)
		}
		return !c.Tx.Heavy(int64(len(c.Reply.Buf)-start)) && c.Spill()
	})
	return nil
}

var hlen = &Command{
	Name: "hlen", Group: Hash, Since: "2.0.0", Arity: 2,
	Flags: ReadOnly | Fast, Keys: OneKey(1, RO),
	Syntax:     "key",
	Summary:    "Counts the fields of a hash.",
	Complexity: "O(1)",
	Run: func(c *Ctx) error {
		h, err := hash.Read(c.Tx, c.Args[1])
		if err != nil {
			return err
		}
		defer h.Release()
		c.Reply.Int(h.Len())
		return nil
	},
}

var hstrlen = &Command{
	Name: "hstrlen", Group: Hash, Since: "3.2.0", Arity: 3,
	Flags: ReadOnly | Fast, Keys: OneKey(1, RO),
	Syntax:     "key field",
	Summary:    "Tells how many bytes the value of a field has.",
	Complexity: "O(1)",
	Run: func(c *Ctx) error {
		h, err := hash.Read(c.Tx, c.Args[1])
		if err != nil {
			return err
		}
		defer h.Release()
		e, _ := h.Get(c.Args[2])
		c.Reply.Int(int64(len(e.Value)))
		return nil
	},
}

var hexists = &Command{
	Name: "hexists", Group: Hash, Since: "2.0.0", Arity: 3,
	Flags: ReadOnly | Fast, Keys: OneKey(1, RO),
	Syntax:     "key field",
	Summary:    "Tells whether a hash has a field.",
	Complexity: "O(1)",
	Run: func(c *Ctx) error {
		h, err := hash.Read(c.Tx, c.Args[1])
		if err != nil {
			return err
		}
		defer h.Release()
		_, ok := h.Get(c.Args[2])
		c.Reply.Int(bit(ok))
		return nil
	},
}
