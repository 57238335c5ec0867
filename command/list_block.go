package command

import (
	"math"
	"math/big"

	"redoubt/keyspace"
	"redoubt/number"
	"redoubt/types/list"
)

// Commands that wait for an element of a list. Their handlers return a Block, which says what
// they wait for.

var blpop = &Command{
	Name: "blpop", Group: List, Since: "2.0.0", Arity: -3,
	Flags: Write | Blocking, Keys: KeyRange(1, -2, 1, RW|Access|Delete),
	Syntax:     "key... timeout:double",
	Summary:    "Takes the first element of the first list with some among several keys, and waits for one if there is none.",
	Complexity: "O(N) where N is the number of keys",
	Run:        func(c *Ctx) error { return c.blockingPop(leftEnd) },
}

var brpop = &Command{
	Name: "brpop", Group: List, Since: "2.0.0", Arity: -3,
	Flags: Write | Blocking, Keys: KeyRange(1, -2, 1, RW|Access|Delete),
	Syntax:     "key... timeout:double",
	Summary:    "Takes the last element of the first list with some among several keys, and waits for one if there is none.",
	Complexity: "O(N) where N is the number of keys",
	Run:        func(c *Ctx) error { return c.blockingPop(rightEnd) },
}

func (c *Ctx) blockingPop(left bool) error {
	last := len(c.Args) - 1
	timeout, err := secondsToWait(c, c.Args[last])
	if err != nil {
		return err
	}
	keys := c.Args[1:last]
	for _, key := range keys {
		l, err := list.Open(c.Tx, key, &c.Limits.Limits)
		if err != nil {
			return err
		}
		found := l.Exists()
		if found {
			c.Reply.Array(2)
			c.Reply.Bulk(key)
			c.takeOff(l, key, left, 1)
			c.propagate(popName(left), key)
		}
		if l.Release(); found {
			return nil
		}
	}
	return c.waitForList(timeout, keys)
}

// waitForList returns the result of a command that has found no element.
func (c *Ctx) waitForList(timeout int64, keys [][]byte) error {
	if c.NoBlock {
		c.Reply.NullArray()
		return nil
	}
	return &Block{Timeout: timeout, Type: keyspace.List, Keys: keys}
}

var blmove = &Command{
	Name: "blmove", Group: List, Since: "6.2.0", Arity: 6,
	Flags: Write | DenyOOM | Blocking, Keys: moveKeys,
	Syntax:     "source:key destination:key wherefrom=<LEFT|RIGHT> whereto=<LEFT|RIGHT> timeout:double",
	Summary:    "Moves an element from an end of one list to an end of another, and waits for one if there is none.",
	Complexity: "O(1)",
	Run: func(c *Ctx) error {
		from, to, err := twoEnds(c.Args[3], c.Args[4])
		if err != nil {
			return err
		}
		return c.blockingMove(from, to, c.Args[5])
	},
}

var brpoplpush = &Command{
	Name: "brpoplpush", Group: List, Since: "2.2.0", Arity: 4,
	Flags: Write | DenyOOM | Blocking, Keys: moveKeys,
	Syntax:     "source:key destination:key timeout:double",
	Summary:    "Moves the last element of a list to the front of another, and waits for one if there is none.",
	Complexity: "O(1)", Deprecated: "6.2.0", ReplacedBy: "`BLMOVE` with the `RIGHT` and `LEFT` arguments",
	Run: func(c *Ctx) error { return c.blockingMove(rightEnd, leftEnd, c.Args[3]) },
}

// blockingMove replies with a null string if it must not wait, but with a null array when the
// timeout is over, as Redis does.
func (c *Ctx) blockingMove(from, to bool, timeout []byte) error {
	ms, err := secondsToWait(c, timeout)
	if err != nil {
		return err
	}
	moved, err := c.moveElement(from, to)
	switch {
	case err != nil || moved:
		if len(c.Args) == 4 {
			c.propagate("RPOPLPUSH", c.Args[1:3]...)
		} else {
			c.propagate("LMOVE", c.Args[1:5]...)
		}
		return err
	case c.NoBlock:
		c.Reply.Null()
		return nil
	}
	return c.waitForList(ms, c.Args[1:2])
}

var blmpop = &Command{
	Name: "blmpop", Group: List, Since: "7.0.0", Arity: -5,
	Flags: Write | Blocking | MovableKeys, Keys: KeyNum(2, RW|Access|Delete),
	Syntax:     "timeout:double numkeys:integer key... where=<LEFT|RIGHT> [COUNT count:integer]",
	Summary:    "Takes elements from the first list with some among several keys, and waits for one if there is none.",
	Complexity: "O(N+M) where N is the number of keys and M the number of elements taken",
	Run: func(c *Ctx) error {
		o, err := parseLmpop(c.Args[2:])
		if err != nil {
			return err
		}
		timeout, err := secondsToWait(c, c.Args[1])
		if err != nil {
			return err
		}
		if taken, err := o.run(c); err != nil || taken {
			return err
		}
		return c.waitForList(timeout, o.keys)
	},
}

// secondsToWait reads the timeout of a command that waits: seconds, with a
// fraction. It returns milliseconds, rounded up; 0 is for ever.
func secondsToWait(c *Ctx, arg []byte) (int64, error) {
	if n, ok := number.ParseInt(arg); ok && n >= 0 && n < math.MaxInt32 { // the usual case
		return n * 1000, nil
	}
	f, ok := number.ParseLongDouble(arg)
	if !ok {
		return 0, ErrTimeoutFloat
	}
	f.Mul(f, big.NewFloat(1000))
	if f.IsInf() && !f.Signbit() || !f.IsInf() && f.Cmp(new(big.Float).SetInt64(math.MaxInt64)) > 0 {
		return 0, ErrTimeoutRange
	}
	ms, accuracy := f.Int64()
	if accuracy == big.Below && f.Sign() > 0 {
		ms++
	}
	switch {
	case f.IsInf() || ms < 0:
		return 0, ErrTimeoutSign
	case ms > math.MaxInt64-c.Tx.Now:
		return 0, ErrTimeoutRange
	}
	return ms, nil
}
