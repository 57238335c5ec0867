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

var hexpire = &Command{
	Name: "hexpire", Group: Hash, Since: "7.4.0", Arity: -6,
	Flags: Write | DenyOOM | Fast, Keys: OneKey(1, RW|Update),
	Syntax:     "key seconds:integer [NX|XX|GT|LT] FIELDS fields=(numfields:integer field...)",
	Summary:    "Lets fields of a hash expire after a number of seconds.",
	Complexity: "O(N) where N is the number of fields given",
	Run:        func(c *Ctx) error { return setFieldTimes(c, inSeconds) },
}

var hpexpire = &Command{
	Name: "hpexpire", Group: Hash, Since: "7.4.0", Arity: -6,
	Flags: Write | DenyOOM | Fast, Keys: OneKey(1, RW|Update),
	Syntax:     "key milliseconds:integer [NX|XX|GT|LT] FIELDS fields=(numfields:integer field...)",
	Summary:    "Lets fields of a hash expire after a number of milliseconds.",
	Complexity: "O(N) where N is the number of fields given",
	Run:        func(c *Ctx) error { return setFieldTimes(c, inMilliseconds) },
}

var hexpireat = &Command{
	Name: "hexpireat", Group: Hash, Since: "7.4.0", Arity: -6,
	Flags: Write | DenyOOM | Fast, Keys: OneKey(1, RW|Update),
	Syntax:     "key unix-time-seconds:unix-time [NX|XX|GT|LT] FIELDS fields=(numfields:integer field...)",
	Summary:    "Lets fields of a hash expire at a Unix time in seconds.",
	Complexity: "O(N) where N is the number of fields given",
	Run:        func(c *Ctx) error { return setFieldTimes(c, atSecond) },
}

var hpexpireat = &Command{
	Name: "hpexpireat", Group: Hash, Since: "7.4.0", Arity: -6,
	Flags: Write | DenyOOM | Fast, Keys: OneKey(1, RW|Update),
	Syntax:     "key unix-time-milliseconds:unix-time [NX|XX|GT|LT] FIELDS fields=(numfields:integer field...)",
	Summary:    "Lets fields of a hash expire at a Unix time in milliseconds.",
	Complexity: "O(N) where N is the number of fields given",
	Run:        func(c *Ctx) error { return setFieldTimes(c, atMillisecond) },
}

// setFieldTimes gives fields the time that the argument says.
func setFieldTimes(c *Ctx, form timeForm) error {
	h, err := hash.Open(c.Tx, c.Args[1], &c.Limits.Limits)
	if err != nil {
		return err
	}
	defer h.Release()
	at, err := fieldTime(c, c.Args[2], form)
	if err != nil {
		return err
	}
	cond, rest := fieldCondition(c.Args[3:])
	fields, err := fieldList(rest, ErrNumFieldsExpire)
	if err != nil {
		return err
	}
	h.Prefetch(fields)
	updated, deleted := 0, 0
	timed, gone := c.fieldTimes(), removal{c: c, name: "HDEL"}
	c.Reply.Array(len(fields))
	for _, f := range fields {
		e, ok := h.Get(f)
		switch {
		case !ok:
			c.Reply.Int(noField)
		case !cond.allows(e.At, at):
			c.Reply.Int(fieldRefused)
		case at <= c.Tx.Past():
			h.Remove(f, e)
			deleted++
			gone.add(f)
			c.Reply.Int(fieldDeleted)
		default:
			h.SetAt(f, e, at)
			updated++
			timed.add(f)
			c.Reply.Int(fieldTimeSet)
		}
	}
	event := "hexpire"
	if deleted > 0 {
		event = "hdel"
	}
	c.saved(h, keyspace.HashEv, event, c.Args[1], updated+deleted)
	timed.end("HPEXPIREAT", decimal(at))
	gone.end()
	return nil
}

// fieldTime reads a time of death of fields.
func fieldTime(c *Ctx, arg []byte, form timeForm) (int64, error) {
	n, err := integer(arg)
	if err != nil {
		return 0, err
	}
	if n < 0 {
		return 0, ErrFieldTime
	}
	at, ok := form.time(c, n, maxFieldTime)
	if !ok {
		return 0, ExpireError(c.Cmd.FullName)
	}
	return at, nil
}

// fieldCondition reads the condition at the front, if there is one.
func fieldCondition(args [][]byte) (cond condition, rest [][]byte) {
	if cond.word(args[0]) {
		args = args[1:]
	}
	return cond, args
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
	Run:        func(c *Ctx) error { return tellFieldTimes(c, inSeconds) },
}

var hpttl = &Command{
	Name: "hpttl", Group: Hash, Since: "7.4.0", Arity: -5,
	Flags: ReadOnly | Fast, Keys: OneKey(1, RO|Access),
	Syntax:     "key FIELDS fields=(numfields:integer field...)",
	Summary:    "Tells in how many milliseconds fields of a hash expire.",
	Complexity: "O(N) where N is the number of fields given",
	Run:        func(c *Ctx) error { return tellFieldTimes(c, inMilliseconds) },
}

var hexpiretime = &Command{
	Name: "hexpiretime", Group: Hash, Since: "7.4.0", Arity: -5,
	Flags: ReadOnly | Fast, Keys: OneKey(1, RO|Access),
	Syntax:     "key FIELDS fields=(numfields:integer field...)",
	Summary:    "Tells at which Unix time in seconds fields of a hash expire.",
	Complexity: "O(N) where N is the number of fields given",
	Run:        func(c *Ctx) error { return tellFieldTimes(c, atSecond) },
}

var hpexpiretime = &Command{
	Name: "hpexpiretime", Group: Hash, Since: "7.4.0", Arity: -5,
	Flags: ReadOnly | Fast, Keys: OneKey(1, RO|Access),
	Syntax:     "key FIELDS fields=(numfields:integer field...)",
	Summary:    "Tells at which Unix time in milliseconds fields of a hash expire.",
	Complexity: "O(N) where N is the number of fields given",
	Run:        func(c *Ctx) error { return tellFieldTimes(c, atMillisecond) },
}

// tellFieldTimes replies with times of fields, rounded up.
func tellFieldTimes(c *Ctx, form timeForm) error {
	h, err := hash.Read(c.Tx, c.Args[1])
	if err != nil {
		return err
	}
	defer h.Release()
	fields, err := fieldList(c.Args[2:], ErrNumFields)
	if err != nil {
		return err
	}
	h.Prefetch(fields)
	c.Reply.Array(len(fields))
	for _, f := range fields {
		switch e, ok := h.Get(f); {
		case !ok:
			c.Reply.Int(noField)
		case e.At == 0:
			c.Reply.Int(noFieldTime)
		default:
			c.Reply.Int((e.At - form.base(c) + form.unit - 1) / form.unit)
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
		h.Prefetch(fields)
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
			c.Tx.Changed(keyspace.HashEv, "hpersist", c.Args[1])
		}
		return nil
	},
}
