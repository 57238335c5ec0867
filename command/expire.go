package command

import (
	"math"

	"redoubt/keyspace"
	"redoubt/number"
)

// Commands on the expiry of keys. A time that has passed already removes the
// key at once, as a deletion and not as an expiry.

var expire = &Command{
	Name: "expire", Group: Generic, Since: "1.0.0", Arity: -3,
	Flags: Write | Fast, Keys: OneKey(1, RW|Update),
	Syntax:  "key seconds:integer [NX|XX|GT|LT]@7.0.0",
	Summary: "Lets a key expire after a number of seconds.",
	Run:     func(c *Ctx) error { return setExpiry(c, inSeconds) },
}

var pexpire = &Command{
	Name: "pexpire", Group: Generic, Since: "2.6.0", Arity: -3,
	Flags: Write | Fast, Keys: OneKey(1, RW|Update),
	Syntax:  "key milliseconds:integer [NX|XX|GT|LT]@7.0.0",
	Summary: "Lets a key expire after a number of milliseconds.",
	Run:     func(c *Ctx) error { return setExpiry(c, inMilliseconds) },
}

var expireAt = &Command{
	Name: "expireat", Group: Generic, Since: "1.2.0", Arity: -3,
	Flags: Write | Fast, Keys: OneKey(1, RW|Update),
	Syntax:  "key unix-time-seconds:unix-time [NX|XX|GT|LT]@7.0.0",
	Summary: "Lets a key expire at a Unix time in seconds.",
	Run:     func(c *Ctx) error { return setExpiry(c, atSecond) },
}

var pexpireAt = &Command{
	Name: "pexpireat", Group: Generic, Since: "2.6.0", Arity: -3,
	Flags: Write | Fast, Keys: OneKey(1, RW|Update),
	Syntax:  "key unix-time-milliseconds:unix-time [NX|XX|GT|LT]@7.0.0",
	Summary: "Lets a key expire at a Unix time in milliseconds.",
	Run:     func(c *Ctx) error { return setExpiry(c, atMillisecond) },
}

// timeForm is how an argument gives a time.
type timeForm struct {
	unit     int64 // in milliseconds
	relative bool  // counted from now, not from 1970
}

var (
	inSeconds      = timeForm{1000, true} // EX
	inMilliseconds = timeForm{1, true}    // PX
	atSecond       = timeForm{1000, false}
	atMillisecond  = timeForm{1, false}
)

// timeFormOf is the form of the time behind an option: EX, PX, EXAT or PXAT.
func timeFormOf(option []byte) (f timeForm, ok bool) {
	switch {
	case isWord(option, "ex"):
		return inSeconds, true
	case isWord(option, "px"):
		return inMilliseconds, true
	case isWord(option, "exat"):
		return atSecond, true
	case isWord(option, "pxat"):
		return atMillisecond, true
	}
	return timeForm{}, false
}

// base is the moment from which the time is counted.
func (f timeForm) base(c *Ctx) int64 {
	if f.relative {
		return c.Tx.Now
	}
	return 0
}

// time is the time that n stands for, in Unix milliseconds. ok is false if that is after
// latest, or cannot be expressed.
func (f timeForm) time(c *Ctx, n, latest int64) (at int64, ok bool) {
	base := f.base(c)
	if n > latest/f.unit || n < math.MinInt64/f.unit || n*f.unit > latest-base {
		return 0, false
	}
	return n*f.unit + base, true
}

// setExpiry gives a key the expiry that the argument says.
func setExpiry(c *Ctx, form timeForm) error {
	cond, err := expiryCondition(c.Args[3:])
	if err != nil {
		return err
	}
	n, ok := number.ParseInt(c.Args[2])
	if !ok {
		return ErrNotInteger
	}
	at, ok := form.time(c, n, math.MaxInt64)
	if !ok {
		return ExpireError(c.Cmd.Name)
	}
	key := c.Args[1]
	m := c.Tx.Find(key)
	if !m.Exists() || !cond.allows(m.Expire, at) {
		c.Reply.Int(0)
		return nil
	}
	if at <= c.Tx.Past() {
		c.Tx.Remove(key, m)
		c.Tx.Changed(keyspace.Generic, "del", key)
		c.propagate("DEL", key)
	} else {
		old := m
		m.Expire = at
		c.Tx.Store(key, old, m)
		c.Tx.Changed(keyspace.Generic, "expire", key)
		if form != atMillisecond {
			c.propagateTime("PEXPIREAT", key, at, c.Args[3:]...)
		}
	}
	c.Reply.Int(1)
	return nil
}

// condition says when an expiry may be changed.
type condition struct{ nx, xx, gt, lt bool }

func expiryCondition(args [][]byte) (c condition, err error) {
	for _, arg := range args {
		if !c.word(arg) {
			return c, optionError(cString(arg))
		}
	}
	if c.nx && (c.xx || c.gt || c.lt) {
		return c, ErrExpireNX
	}
	if c.gt && c.lt {
		return c, ErrExpireGTLT
	}
	return c, nil
}

// word adds the condition that a word stands for, and reports whether it is one.
func (c *condition) word(arg []byte) bool {
	switch {
	case isWord(arg, "nx"):
		c.nx = true
	case isWord(arg, "xx"):
		c.xx = true
	case isWord(arg, "gt"):
		c.gt = true
	case isWord(arg, "lt"):
		c.lt = true
	default:
		return false
	}
	return true
}

// allows reports whether an expiry may change from one time to another; 0 stands
// for none, which is later than any time.
func (c condition) allows(from, to int64) bool {
	switch {
	case c.nx && from != 0, c.xx && from == 0:
		return false
	case c.gt:
		return from != 0 && to > from
	case c.lt:
		return from == 0 || to < from
	}
	return true
}

var persist = &Command{
	Name: "persist", Group: Generic, Since: "2.2.0", Arity: 2,
	Flags: Write | Fast, Keys: OneKey(1, RW|Update),
	Syntax:  "key",
	Summary: "Takes the expiry of a key away.",
	Run: func(c *Ctx) error {
		key := c.Args[1]
		m := c.Tx.Find(key)
		if m.Expire == 0 {
			c.Reply.Int(0)
			return nil
		}
		old := m
		m.Expire = 0
		c.Tx.Store(key, old, m)
		c.Tx.Changed(keyspace.Generic, "persist", key)
		c.Reply.Int(1)
		return nil
	},
}

var ttl = &Command{
	Name: "ttl", Group: Generic, Since: "1.0.0", Arity: 2,
	Flags: ReadOnly | Fast | NoTouch, Keys: OneKey(1, RO|Access),
	Tips:    []string{"nondeterministic_output"},
	Syntax:  "key",
	Summary: "Tells in how many seconds a key expires.",
	Run:     func(c *Ctx) error { return tellExpiry(c, inSeconds) },
}

var pttl = &Command{
	Name: "pttl", Group: Generic, Since: "2.6.0", Arity: 2,
	Flags: ReadOnly | Fast | NoTouch, Keys: OneKey(1, RO|Access),
	Tips:    []string{"nondeterministic_output"},
	Syntax:  "key",
	Summary: "Tells in how many milliseconds a key expires.",
	Run:     func(c *Ctx) error { return tellExpiry(c, inMilliseconds) },
}

var expireTime = &Command{
	Name: "expiretime", Group: Generic, Since: "7.0.0", Arity: 2,
	Flags: ReadOnly | Fast | NoTouch, Keys: OneKey(1, RO|Access),
	Syntax:  "key",
	Summary: "Tells at which Unix time in seconds a key expires.",
	Run:     func(c *Ctx) error { return tellExpiry(c, atSecond) },
}

var pexpireTime = &Command{
	Name: "pexpiretime", Group: Generic, Since: "7.0.0", Arity: 2,
	Flags: ReadOnly | Fast | NoTouch, Keys: OneKey(1, RO|Access),
	Syntax:  "key",
	Summary: "Tells at which Unix time in milliseconds a key expires.",
	Run:     func(c *Ctx) error { return tellExpiry(c, atMillisecond) },
}

// tellExpiry replies with the expiry of a key, rounded; -1 for a key without one, -2 for no
// key.
func tellExpiry(c *Ctx, form timeForm) error {
	m := c.Tx.Read(c.Args[1])
	if !m.Exists() {
		c.Reply.Int(-2)
		return nil
	}
	if m.Expire == 0 {
		c.Reply.Int(-1)
		return nil
	}
	at := m.Expire - form.base(c)
	if form.unit > 1 {
		at = int64((uint64(at) + uint64(form.unit/2)) / uint64(form.unit)) // unsigned, as the latest times would overflow
	}
	c.Reply.Int(at)
	return nil
}
