package command

import (
	"math"

	"redoubt/keyspace"
	"redoubt/number"
)

// OBJECT shows how a key is stored, and does not count as a use of the key.

var object = &Command{
	Name: "object", Group: Generic, Since: "2.2.3", Arity: -2,
	Summary: "Tells how the value of a key is kept.",
	Subs:    []*Command{objectEncoding, objectFreq, objectHelp, objectIdleTime, objectRefCount},
}

var objectEncoding = &Command{
	Name: "encoding", Group: Generic, Since: "2.2.3", Arity: 3,
	Flags: ReadOnly | NoTouch, Keys: OneKey(2, RO),
	Tips:    []string{"nondeterministic_output"},
	Syntax:  "key",
	Summary: "Names the layout of a value, in the words that Redis has for it.",
	Run: func(c *Ctx) error {
		m := inspect(c)
		if !m.Exists() {
			c.Reply.Null()
			return nil
		}
		c.Reply.BulkString(encodingName(m))
		return nil
	},
}

var objectFreq = &Command{
	Name: "freq", Group: Generic, Since: "4.0.0", Arity: 3,
	Flags: ReadOnly | NoTouch, Keys: OneKey(2, RO),
	Tips:    []string{"nondeterministic_output"},
	Syntax:  "key",
	Summary: "Tells how often a key is used, on a logarithmic scale; it needs an LFU maxmemory-policy.",
	Run: func(c *Ctx) error {
		switch m := inspect(c); {
		case !m.Exists():
			c.Reply.Null()
		case !c.Limits.LFU:
			return ErrNoLFU
		default:
			c.Reply.Int(c.Usage.Freq(c.Args[2]))
		}
		return nil
	},
}

var objectIdleTime = &Command{
	Name: "idletime", Group: Generic, Since: "2.2.3", Arity: 3,
	Flags: ReadOnly | NoTouch, Keys: OneKey(2, RO),
	Tips:    []string{"nondeterministic_output"},
	Syntax:  "key",
	Summary: "Tells for about how many seconds a key was not used.",
	Run: func(c *Ctx) error {
		switch m := inspect(c); {
		case !m.Exists():
			c.Reply.Null()
		case c.Limits.LFU:
			return ErrLFU
		default:
			c.Reply.Int(c.Usage.Idle(c.Args[2]))
		}
		return nil
	},
}

// objectRefCount: values are never shared here. Redis shares the small integers, and replies with
// the largest count for them.
var objectRefCount = &Command{
	Name: "refcount", Group: Generic, Since: "2.2.3", Arity: 3,
	Flags: ReadOnly | NoTouch, Keys: OneKey(2, RO),
	Tips:    []string{"nondeterministic_output"},
	Syntax:  "key",
	Summary: "Tells how many keys share a value.",
	Run: func(c *Ctx) error {
		m := inspect(c)
		if !m.Exists() {
			c.Reply.Null()
			return nil
		}
		count := int64(1)
		if m.Type == keyspace.String && m.Encoding == keyspace.Int && !c.Limits.LFU {
			if n, ok := number.ParseInt(m.Body); ok && n >= 0 && n < sharedIntegers {
				count = math.MaxInt32
			}
		}
		c.Reply.Int(count)
		return nil
	},
}

const sharedIntegers = 10000

var objectHelp = &Command{
	Name: "help", Group: Generic, Since: "6.2.0", Arity: 2,
	Flags: Loading | Stale, Categories: CatKeyspace,
	Summary: "Lists the subcommands of OBJECT.",
	Run:     writeHelp,
}

// inspect finds the key of an OBJECT call. It counts a hit or a miss but notes no keymiss event.
func inspect(c *Ctx) keyspace.Meta {
	m := c.Tx.Find(c.Args[2])
	if m.Exists() {
		c.Tx.FX.Hits++
	} else {
		c.Tx.FX.Misses++
	}
	return m
}

// encodingName is Redis's name for the encoding of a value.
func encodingName(m keyspace.Meta) string {
	if m.Type == keyspace.String {
		switch m.Encoding {
		case keyspace.Int:
			return "int"
		case keyspace.Embedded:
			return "embstr"
		}
		return "raw"
	}
	switch enc := m.Encoding; {
	case m.Type == keyspace.Stream:
		return "stream"
	case m.Type == keyspace.Channel:
		return "channel"
	case enc == keyspace.Packed:
		return "listpack"
	case enc == keyspace.PackedTimed:
		return "listpackex"
	case enc == keyspace.Integers:
		return "intset"
	case m.Type == keyspace.List:
		return "quicklist"
	case m.Type == keyspace.ZSet:
		return "skiplist"
	}
	return "hashtable"
}
