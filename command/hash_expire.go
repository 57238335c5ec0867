package command

import (
	"redoubt/keyspace"
	"redoubt/number"
	"redoubt/types/hash"
)

// Commands on the times of death of the fields of a hash. As with keys, a time
// that has passed already removes the field at once, as a deletion and not as an
// expiry.

// maxFieldTime is the latest time that Redis gives to a field.
const maxFieldTime = 1<<46 - 1

// What these commands reply for a field.
const (
	noField       = -2 // there is no such field
	noFieldTime   = -1 // it has no time
	fieldRefused  = 0  // the condition is not met
	fieldTimeSet  = 1
	fieldDeleted  = 2 // the time has passed already
	fieldsKeyword = "fields"
)

// ExpireFields removes fields of a hash that are past their time, up to a limit
// or so, and returns how many: for the sweeper.
func ExpireFields(tx *keyspace.Tx, key []byte, limit int) int {
	return hash.ExpireFields(tx, key, limit)
}

var hexpire = &Command{
	Name: "hexpire", Group: Hash, Since: "7.4.0", Arity: -6,
	Flags: Write | DenyOOM | Fast, Keys: OneKey(1, RW|Update),
	Syntax:     "key seconds:integer [NX|XX|GT|LT] FIELDS fields=(numfields:integer field...)",
	Summary:    "Lets fields of a hash expire after a number of seconds.",
	Complexity: "O(N) where N is the number of fields given",
	Run:        func(c *Ctx) error { return setFieldTimes(c, c.Tx.Now, 1000) },
}

var hpexpire = &Command{
	Name: "hpexpire", Group: Hash, Since: "7.4.0", Arity: -6,
	Flags: Write | DenyOOM | Fast, Keys: OneKey(1, RW|Update),
	Syntax:     "key milliseconds:integer [NX|XX|GT|LT] FIELDS fields=(numfields:integer field...)",
	Summary:    "Lets fields of a hash expire after a number of milliseconds.",
	Complexity: "O(N) where N is the number of fields given",
	Run:        func(c *Ctx) error { return setFieldTimes(c, c.Tx.Now, 1) },
}

var hexpireat = &Command{
	Name: "hexpireat", Group: Hash, Since: "7.4.0", Arity: -6,
	Flags: Write | DenyOOM | Fast, Keys: OneKey(1, RW|Update),
	Syntax:     "key unix-time-seconds:unix-time [NX|XX|GT|LT] FIELDS fields=(numfields:integer field...)",
	Summary:    "Lets fields of a hash expire at a Unix time in seconds.",
	Complexity: "O(N) where N is the number of fields given",
	Run:        func(c *Ctx) error { return setFieldTimes(c, 0, 1000) },
}

var hpexpireat = &Command{
	Name: "hpexpireat", Group: Hash, Since: "7.4.0", Arity: -6,
	Flags: Write | DenyOOM | Fast, Keys: OneKey(1, RW|Update),
	Syntax:     "key unix-time-milliseconds:unix-time [NX|XX|GT|LT] FIELDS fields=(numfields:integer field...)",
	Summary:    "Lets fields of a hash expire at a Unix time in milliseconds.",
	Complexity: "O(N) where N is the number of fields given",
	Run:        func(c *Ctx) error { return setFieldTimes(c, 0, 1) },
}

// setFieldTimes gives fields the time base plus the argument in units of so many
// milliseconds.
func setFieldTimes(c *Ctx, base, unit int64) error {
	h, err := hash.Open(c.Tx, c.Args[1], &c.Limits.Limits)
	if err != nil {
		return err
	}
	defer h.Release()
	at, err := fieldTime(c, c.Args[2], base, unit)
	if err != nil {
		return err
	}
	cond, rest := fieldCondition(c.Args[3:])
	fields, err := fieldList(rest, ErrNumFieldsExpire)
	if err != nil {
		return err
	}
	h.Ahead(fields)
	updated, deleted := 0, 0
	c.Reply.Array(len(fields))
	for _, f := range fields {
		e, ok := h.Get(f)
		switch {
		case !ok:
			c.Reply.Int(noField)
		case !cond.allows(e.At, at):
			c.Reply.Int(fieldRefused)
		case at <= c.Tx.Now:
			h.Remove(f, e)
			deleted++
			c.Reply.Int(fieldDeleted)
		default:
			h.SetAt(f, e, at)
			updated++
			c.Reply.Int(fieldTimeSet)
		}
	}
	gone := h.Save()
	switch {
	case deleted > 0:
		c.fieldsChanged("hdel", deleted+updated)
	case updated > 0:
		c.fieldsChanged("hexpire", updated)
	}
	if gone {
		c.keyGone()
	}
	return nil
}

// fieldTime reads a time of death of fields.
func fieldTime(c *Ctx, arg []byte, base, unit int64) (int64, error) {
	n, err := integer(arg)
	switch {
	case err != nil:
		return 0, err
	case n < 0:
		return 0, ErrFieldTime
	case n > maxFieldTime/unit || n*unit > maxFieldTime-base:
		return 0, ExpireError(c.Cmd.FullName)
	}
	return n*unit + base, nil
}

// fieldCondition reads the condition at the front, if there is one.
func fieldCondition(args [][]byte) (cond condition, rest [][]byte) {
	switch {
	case isWord(args[0], "nx"):
		cond.nx = true
	case isWord(args[0], "xx"):
		cond.xx = true
	case isWord(args[0], "gt"):
		cond.gt = true
	case isWord(args[0], "lt"):
		cond.lt = true
	default:
		return cond, args
	}
	return cond, args[1:]
}

// fieldList reads FIELDS numfields field..., of which at least the first two are
// there. bad is the answer to a number that is none.
func fieldList(args [][]byte, bad error) ([][]byte, error) {
	if !isWord(args[0], fieldsKeyword) {
		return nil, ErrNoFields
	}
	n, ok := number.ParseInt(args[1])
	if !ok || n < 1 {
		return nil, bad
	}
	if n != int64(len(args)-2) {
		return nil, ErrNumFieldsMatch
	}
	return args[2:], nil
}

var httl = &Command{
	Name: "httl", Group: Hash, Since: "7.4.0", Arity: -5,
	Flags: ReadOnly | Fast, Keys: OneKey(1, RO|Access),
	Syntax:     "key FIELDS fields=(numfields:integer field...)",
	Summary:    "Tells in how many seconds fields of a hash expire.",
	Complexity: "O(N) where N is the number of fields given",
	Run:        func(c *Ctx) error { return tellFieldTimes(c, c.Tx.Now, 1000) },
}

var hpttl = &Command{
	Name: "hpttl", Group: Hash, Since: "7.4.0", Arity: -5,
	Flags: ReadOnly | Fast, Keys: OneKey(1, RO|Access),
	Syntax:     "key FIELDS fields=(numfields:integer field...)",
	Summary:    "Tells in how many milliseconds fields of a hash expire.",
	Complexity: "O(N) where N is the number of fields given",
	Run:        func(c *Ctx) error { return tellFieldTimes(c, c.Tx.Now, 1) },
}

var hexpiretime = &Command{
	Name: "hexpiretime", Group: Hash, Since: "7.4.0", Arity: -5,
	Flags: ReadOnly | Fast, Keys: OneKey(1, RO|Access),
	Syntax:     "key FIELDS fields=(numfields:integer field...)",
	Summary:    "Tells at which Unix time in seconds fields of a hash expire.",
	Complexity: "O(N) where N is the number of fields given",
	Run:        func(c *Ctx) error { return tellFieldTimes(c, 0, 1000) },
}

var hpexpiretime = &Command{
	Name: "hpexpiretime", Group: Hash, Since: "7.4.0", Arity: -5,
	Flags: ReadOnly | Fast, Keys: OneKey(1, RO|Access),
	Syntax:     "key FIELDS fields=(numfields:integer field...)",
	Summary:    "Tells at which Unix time in milliseconds fields of a hash expire.",
	Complexity: "O(N) where N is the number of fields given",
	Run:        func(c *Ctx) error { return tellFieldTimes(c, 0, 1) },
}

// tellFieldTimes replies with times relative to base, in a unit of so many
// milliseconds, rounded up.
func tellFieldTimes(c *Ctx, base, unit int64) error {
	h, err := hash.Read(c.Tx, c.Args[1])
	if err != nil {
		return err
	}
	defer h.Release()
	fields, err := fieldList(c.Args[2:], ErrNumFields)
	if err != nil {
		return err
	}
	h.Ahead(fields)
	c.Reply.Array(len(fields))
	for _, f := range fields {
		switch e, ok := h.Get(f); {
		case !ok:
			c.Reply.Int(noField)
		case e.At == 0:
			c.Reply.Int(noFieldTime)
		default:
			c.Reply.Int((e.At - base + unit - 1) / unit)
		}
	}
	return nil
}

var hpersist = &Command{
	Name: "hpersist", Group: Hash, Since: "7.4.0", Arity: -5,
	Flags: Write | Fast, Keys: OneKey(1, RW|Update),
	Syntax:     "key FIELDS fields=(numfields:integer field...)",
	Summary:    "Takes the times of death of fields of a hash away.",
	Complexity: "O(N) where N is the number of fields given",
	Run: func(c *Ctx) error {
		h, err := hash.Open(c.Tx, c.Args[1], &c.Limits.Limits)
		if err != nil {
			return err
		}
		defer h.Release()
		fields, err := fieldList(c.Args[2:], ErrNumFields)
		if err != nil {
			return err
		}
		h.Ahead(fields)
		changed := false
		c.Reply.Array(len(fields))
		for _, f := range fields {
			switch e, ok := h.Get(f); {
			case !ok:
				c.Reply.Int(noField)
			case e.At == 0:
				c.Reply.Int(noFieldTime)
			default:
				h.SetAt(f, e, 0)
				changed = true
				c.Reply.Int(fieldTimeSet)
			}
		}
		h.Save()
		if changed {
			c.fieldsChanged("hpersist", 1)
		}
		return nil
	},
}

// hashTimeOption is the option of HGETEX or HSETEX that an argument names: the
// base and the unit of the time behind it. It says false if it names none.
func hashTimeOption(c *Ctx, arg []byte) (base, unit int64, ok bool) {
	switch {
	case isWord(arg, "ex"):
		return c.Tx.Now, 1000, true
	case isWord(arg, "px"):
		return c.Tx.Now, 1, true
	case isWord(arg, "exat"):
		return 0, 1000, true
	case isWord(arg, "pxat"):
		return 0, 1, true
	}
	return 0, 0, false
}
