package command

import (
	"math"
	"slices"

	"redoubt/keyspace"
	"redoubt/number"
	"redoubt/types/hash"
)

// Commands that read or set fields of a hash and do something else at the same
// time.

var hgetdel = &Command{
	Name: "hgetdel", Group: Hash, Since: "8.0.0", Arity: -5,
	Flags: Write | Fast, Keys: OneKey(1, RW|Access|Delete),
	Syntax:     "key FIELDS fields=(numfields:integer field...)",
	Summary:    "Reads fields of a hash and removes them.",
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
		deleted, gone := 0, removal{c: c, name: "HDEL"}
		h.Prefetch(fields)
		c.Reply.Array(len(fields))
		for _, f := range fields {
			e, ok := h.Get(f)
			c.replyField(e, ok)
			if ok {
				h.Remove(f, e)
				deleted++
				gone.add(f)
			}
		}
		c.saved(h, keyspace.HashEv, "hdel", c.Args[1], deleted)
		gone.end()
		return nil
	},
}

var hgetex = &Command{
	Name: "hgetex", Group: Hash, Since: "8.0.0", Arity: -5,
	Flags: Write | Fast, Keys: OneKey(1, RW|Access|Update),
	Syntax: "key [EX seconds:integer|PX milliseconds:integer|EXAT unix-time-seconds:unix-time|" +
		"PXAT unix-time-milliseconds:unix-time|PERSIST] FIELDS fields=(numfields:integer field...)",
	Summary:    "Reads fields of a hash and sets or removes their times of death.",
	Complexity: "O(N) where N is the number of fields given",
	Run: func(c *Ctx) error {
		h, err := hash.Open(c.Tx, c.Args[1], &c.Limits.Limits)
		if err != nil {
			return err
		}
		defer h.Release()
		rest, at := c.Args[2:], int64(-1) // at: none
		if form, ok := timeFormOf(rest[0]); ok {
			if at, err = fieldTime(c, rest[1], form); err != nil {
				return err
			}
			rest = rest[2:]
		} else if isWord(rest[0], "persist") {
			rest, at = rest[1:], persistField
		}
		if len(rest) < 2 {
			return ArityError(c.Cmd.FullName)
		}
		fields, err := fieldList(rest, ErrNumFields)
		if err != nil {
			return err
		}
		updated, deleted := 0, 0
		timed, gone := c.fieldTimes(), removal{c: c, name: "HDEL"}
		h.Prefetch(fields)
		c.Reply.Array(len(fields))
		for _, f := range fields {
			e, ok := h.Get(f)
			c.replyField(e, ok)
			switch {
			case !ok || at < 0:
			case at == persistField:
				if e.At != 0 {
					h.SetAt(f, e, 0)
					updated++
					timed.add(f)
				}
			case at <= c.Tx.Past():
				h.Remove(f, e)
				deleted++
				gone.add(f)
			default:
				h.SetAt(f, e, at)
				updated++
				timed.add(f)
			}
		}
		event := "hexpire"
		switch {
		case deleted > 0:
			event = "hdel"
		case at == persistField:
			event = "hpersist"
		}
		c.saved(h, keyspace.HashEv, event, c.Args[1], updated+deleted)
		if at == persistField {
			timed.end("HPERSIST")
		} else {
			timed.end("HPEXPIREAT", decimal(at))
		}
		gone.end()
		return nil
	},
}

// persistField stands for no time, where a time is asked for; it is later than
// any.
const persistField = math.MaxInt64

var hsetex = &Command{
	Name: "hsetex", Group: Hash, Since: "8.0.0", Arity: -6,
	Flags: Write | DenyOOM | Fast, Keys: OneKey(1, RW|Update),
	Syntax: "key [condition=<FNX|FXX>] [EX seconds:integer|PX milliseconds:integer|EXAT unix-time-seconds:unix-time|" +
		"PXAT unix-time-milliseconds:unix-time|KEEPTTL] FIELDS fields=(numfields:integer (field value)...)",
	Summary:    "Sets fields of a hash together with their times of death.",
	Complexity: "O(N) where N is the number of fields given",
	Run: func(c *Ctx) error {
		o, err := parseHsetex(c)
		if err != nil {
			return err
		}
		h, err := hash.Open(c.Tx, c.Args[1], &c.Limits.Limits)
		if err != nil {
			return err
		}
		defer h.Release()
		if !o.allowed(h) {
			h.Save()
			c.Reply.Int(0)
			return nil
		}
		deleted := o.timed && o.at <= c.Tx.Past()
		gone := o.set(h, deleted)
		c.changed(keyspace.HashEv, "hset", c.Args[1], len(o.pairs)/2)
		switch {
		case deleted:
			c.Tx.Note(keyspace.HashEv, "hdel", c.Args[1])
		case o.timed:
			c.Tx.Note(keyspace.HashEv, "hexpire", c.Args[1])
		}
		c.noteGone(gone, c.Args[1])
		o.propagate(c, deleted)
		c.Reply.Int(1)
		return nil
	},
}

// propagate has replicas do the same without a condition, by commands that Redis 7.4 knows
// where that is possible.
func (o *hsetexCall) propagate(c *Ctx, deleted bool) {
	if !c.Tx.Propagates() {
		return
	}
	key, n := c.Args[1], decimal(int64(len(o.pairs)/2))
	fields := make([][]byte, 0, len(o.pairs)/2)
	for i := 0; i < len(o.pairs); i += 2 {
		fields = append(fields, o.pairs[i])
	}
	switch {
	case deleted:
		c.propagate("HDEL", slices.Insert(fields, 0, key)...)
	case o.keep:
		c.propagate("HSETEX", append([][]byte{key, []byte("KEEPTTL"), []byte("FIELDS"), n}, o.pairs...)...)
	default:
		c.propagate("HSET", append([][]byte{key}, o.pairs...)...)
		if o.timed {
			c.propagate("HPEXPIREAT", append([][]byte{key, decimal(o.at), []byte("FIELDS"), n}, fields...)...)
		}
	}
}

// hsetexCall is what one call of HSETEX asks for.
type hsetexCall struct {
	fnx, fxx, keep, timed bool
	at                    int64
	pairs                 [][]byte
}

func parseHsetex(c *Ctx) (o hsetexCall, err error) {
	for args := c.Args[2:]; len(args) > 0; args = args[1:] {
		word := args[0]
		form, isTime := timeFormOf(word)
		switch {
		case isWord(word, fieldsKeyword):
			o.pairs, err = hsetexPairs(c, args[1:])
			return o, err
		case isTime || isWord(word, "keepttl"):
			if o.timed || o.keep {
				return o, ErrHsetexExpiry
			}
			if o.timed, o.keep = isTime, !isTime; o.keep {
				continue
			}
			if len(args) < 2 {
				return o, ErrNoExpireTime
			}
			args = args[1:]
			if o.at, err = fieldTime(c, args[0], form); err != nil {
				return o, err
			}
		case isWord(word, "fnx"), isWord(word, "fxx"):
			if o.fnx || o.fxx {
				return o, ErrHsetexCondition
			}
			o.fnx = isWord(word, "fnx")
			o.fxx = !o.fnx
		default:
			return o, unknownArgument(cString(word))
		}
	}
	return o, ArityError(c.Cmd.FullName)
}

// hsetexPairs reads what stands behind FIELDS: a number, and so many fields with
// their values.
func hsetexPairs(c *Ctx, args [][]byte) ([][]byte, error) {
	if len(args) < 3 {
		return nil, ArityError(c.Cmd.FullName)
	}
	n, ok := number.ParseInt(args[0])
	if !ok || n < 1 || n > math.MaxInt32 {
		return nil, ErrNumFieldsSet
	}
	if pairs := args[1:]; len(pairs)%2 == 0 && n == int64(len(pairs)/2) {
		return pairs, nil
	}
	return nil, ArityError(c.Cmd.FullName)
}

// allowed reports whether the condition is met: none of the fields exists, or all.
func (o *hsetexCall) allowed(h *hash.Hash) bool {
	if !o.fnx && !o.fxx {
		return true
	}
	for i := 0; i < len(o.pairs); i += 2 {
		if _, exists := h.Get(o.pairs[i]); exists == o.fnx {
			return false
		}
	}
	return true
}

// set sets the fields, or deletes them if their time has passed already. It says
// whether the key is gone then.
func (o *hsetexCall) set(h *hash.Hash, deleted bool) (gone bool) {
	h.Expect(o.pairs)
	for i := 0; i < len(o.pairs); i += 2 {
		field, value := o.pairs[i], o.pairs[i+1]
		switch {
		case deleted:
			h.Delete(field)
		case o.keep:
			e, _ := h.Get(field)
			h.Replace(field, value, e)
		default:
			h.Set(field, value, o.at)
		}
	}
	return h.Save() || deleted && !h.Exists()
}
