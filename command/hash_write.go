package command

import (
	"math"
	"math/big"
	"strconv"

	"redoubt/keyspace"
	"redoubt/number"
	"redoubt/types/hash"
)

// Commands that change fields of a hash. Setting a field takes its time of death
// away, incrementing it does not.

var hset = &Command{
	Name: "hset", Group: Hash, Since: "2.0.0", Arity: -4,
	Flags: Write | DenyOOM | Fast, Keys: OneKey(1, RW|Update),
	Syntax:     "key (field value)...",
	Summary:    "Sets fields of a hash.",
	Complexity: "O(N) where N is the number of fields set",
	Run: func(c *Ctx) error {
		created, err := c.setFields()
		if err == nil {
			c.Reply.Int(created)
		}
		return err
	},
}

var hmset = &Command{
	Name: "hmset", Group: Hash, Since: "2.0.0", Arity: -4,
	Flags: Write | DenyOOM | Fast, Keys: OneKey(1, RW|Update),
	Syntax:     "key (field value)...",
	Summary:    "Sets fields of a hash; the old name of HSET with several fields.",
	Complexity: "O(N) where N is the number of fields set", Deprecated: "4.0.0", ReplacedBy: "`HSET` with multiple field-value pairs",
	Run: func(c *Ctx) error {
		_, err := c.setFields()
		if err == nil {
			c.Reply.OK()
		}
		return err
	},
}

// setFields sets the fields among the arguments and counts the new ones.
func (c *Ctx) setFields() (created int64, err error) {
	if len(c.Args)%2 == 1 {
		return 0, ArityError(c.Cmd.FullName)
	}
	key, pairs := c.Args[1], c.Args[2:]
	h, err := hash.Open(c.Tx, key, &c.Limits.Limits)
	if err != nil {
		return 0, err
	}
	defer h.Release()
	h.Expect(pairs)
	bytes := int64(0)
	for i := 0; i < len(pairs); i += 2 {
		if bytes += int64(len(pairs[i+1])); c.Tx.Heavy(bytes) {
			return 0, nil
		}
		if h.Set(pairs[i], pairs[i+1], 0) {
			created++
		}
	}
	c.saved(h, keyspace.HashEv, "hset", key, len(pairs)/2)
	return created, nil
}

var hsetnx = &Command{
	Name: "hsetnx", Group: Hash, Since: "2.0.0", Arity: 4,
	Flags: Write | DenyOOM | Fast, Keys: OneKey(1, RW|Insert),
	Syntax:     "key field value",
	Summary:    "Sets a field of a hash unless it exists.",
	Complexity: "O(1)",
	Run: func(c *Ctx) error {
		h, err := hash.Open(c.Tx, c.Args[1], &c.Limits.Limits)
		if err != nil {
			return err
		}
		defer h.Release()
		set := 0
		if _, exists := h.Get(c.Args[2]); !exists {
			h.Set(c.Args[2], c.Args[3], 0)
			set = 1
		}
		c.saved(h, keyspace.HashEv, "hset", c.Args[1], set)
		c.Reply.Int(int64(set))
		return nil
	},
}

var hdel = &Command{
	Name: "hdel", Group: Hash, Since: "2.0.0", Arity: -3,
	Flags: Write | Fast, Keys: OneKey(1, RW|Delete),
	Syntax:     "key field...",
	Summary:    "Removes fields of a hash.",
	Complexity: "O(N) where N is the number of fields to be removed",
	Run: func(c *Ctx) error {
		h, err := hash.Open(c.Tx, c.Args[1], &c.Limits.Limits)
		if err != nil {
			return err
		}
		defer h.Release()
		h.Prefetch(c.Args[2:])
		deleted := 0
		for _, f := range c.Args[2:] {
			if h.Delete(f) {
				deleted++
			}
		}
		c.saved(h, keyspace.HashEv, "hdel", c.Args[1], deleted)
		c.Reply.Int(int64(deleted))
		return nil
	},
}

var hincrby = &Command{
	Name: "hincrby", Group: Hash, Since: "2.0.0", Arity: 4,
	Flags: Write | DenyOOM | Fast, Keys: OneKey(1, RW|Access|Update),
	Syntax:     "key field increment:integer",
	Summary:    "Adds to the integer in a field of a hash.",
	Complexity: "O(1)",
	Run: func(c *Ctx) error {
		delta, err := integer(c.Args[3])
		if err != nil {
			return err
		}
		h, err := hash.Open(c.Tx, c.Args[1], &c.Limits.Limits)
		if err != nil {
			return err
		}
		defer h.Release()
		n := int64(0)
		e, ok := h.Get(c.Args[2])
		if ok {
			if n, ok = number.ParseInt(e.Value); !ok {
				return ErrHashNotInteger
			}
		}
		if delta < 0 && n < math.MinInt64-delta || delta > 0 && n > math.MaxInt64-delta {
			return ErrOverflow
		}
		n += delta
		h.Replace(c.Args[2], strconv.AppendInt(c.Tx.Own(nil, 20), n, 10), e)
		c.saved(h, keyspace.HashEv, "hincrby", c.Args[1], 1)
		c.Reply.Int(n)
		return nil
	},
}

var hincrbyfloat = &Command{
	Name: "hincrbyfloat", Group: Hash, Since: "2.6.0", Arity: 4,
	Flags: Write | DenyOOM | Fast, Keys: OneKey(1, RW|Access|Update),
	Syntax:     "key field increment:double",
	Summary:    "Adds to the floating point number in a field of a hash.",
	Complexity: "O(1)",
	Run: func(c *Ctx) error {
		delta, ok := number.ParseLongDouble(c.Args[3])
		if !ok {
			return ErrNotFloat
		}
		if delta.IsInf() {
			return ErrIncrementNaN
		}
		h, err := hash.Open(c.Tx, c.Args[1], &c.Limits.Limits)
		if err != nil {
			return err
		}
		defer h.Release()
		n := new(big.Float)
		e, ok := h.Get(c.Args[2])
		if ok {
			if n, ok = number.ParseLongDouble(e.Value); !ok {
				return ErrHashNotFloat
			}
		}
		sum, ok := number.AddLongDouble(n, delta)
		if !ok {
			return ErrNaN
		}
		text := number.AppendLongDouble(nil, sum)
		h.Replace(c.Args[2], text, e)
		c.saved(h, keyspace.HashEv, "hincrbyfloat", c.Args[1], 1)
		c.Reply.Bulk(text)
		c.propagate("HSET", c.Args[1], c.Args[2], text)
		return nil
	},
}
