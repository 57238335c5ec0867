package command

import (
	"math"
	"slices"
	"strconv"

	"redoubt/glob"
	"redoubt/keyspace"
	"redoubt/number"
	"redoubt/wire"
)

// Commands that walk over the keys of a database.

var keys = &Command{
	Name: "keys", Group: Generic, Since: "1.0.0", Arity: 2,
	Flags: ReadOnly | OnWorker | OneState, Categories: CatDangerous,
	Tips:    []string{"request_policy:all_shards", "nondeterministic_output_order"},
	Syntax:  "pattern:pattern",
	Summary: "Lists all keys that match a pattern.",
	Run: func(c *Ctx) error {
		pattern := c.Args[1]
		all := glob.All(pattern)
		matches := func(key []byte, m keyspace.Meta) bool {
			return m.Exists() && (all || glob.Match(pattern, key))
		}
		// The reply begins with the number of keys. So the keys are counted while the first of them
		// are written; the others are visited a second time.
		list := deferArray(c.Reply)
		var last []byte
		var slot uint16
		c.Tx.Walk(0, nil, func(at uint16, key []byte, m keyspace.Meta) bool {
			switch {
			case !matches(key, m):
			case last != nil:
				list.n++
			default:
				if list.bulk(key); len(c.Reply.Buf)-list.start >= spillBytes {
					slot, last = at, append([]byte{}, key...)
				}
			}
			return true
		})
		list.end()
		if last != nil && c.Spill() {
			c.Tx.Walk(slot, last, func(_ uint16, key []byte, m keyspace.Meta) bool {
				if matches(key, m) {
					c.Reply.Bulk(key)
				}
				return c.Spill()
			})
		}
		return nil
	},
}

var scan = &Command{
	Name: "scan", Group: Generic, Since: "2.8.0", Arity: -2,
	Flags:   ReadOnly,
	Tips:    []string{"nondeterministic_output", "request_policy:special", "response_policy:special"},
	Syntax:  "cursor:integer [MATCH pattern:pattern] [COUNT count:integer] [TYPE type]@6.0.0",
	Summary: "Lists some keys, and the cursor from which to go on.",
	Run: func(c *Ctx) error {
		cursor, ok := parseCursor(c.Args[1])
		if !ok {
			return ErrCursor
		}
		o, err := scanOptions(c.Args[2:], true)
		if err != nil {
			return err
		}
		// A key costs some dozens of bytes.
		if c.Tx.Heavy(min(o.count, math.MaxInt64/64) * 64) {
			return nil
		}
		page := c.newPage()
		cursor = c.Tx.Scan(cursor, int(min(o.count, math.MaxInt)), func(key []byte, m keyspace.Meta) {
			if !o.matches(key) {
				return
			}
			if o.typed {
				c.Tx.FX.Hits++ // Redis looks the key up to learn its type
				if !isWord(o.kind, m.Type.String()) {
					return
				}
			}
			page.bulk(key)
		})
		page.reply(cursor)
		return nil
	},
}

// page is the reply of SCAN and its siblings: the next cursor, which is known last, and some
// elements.
type page struct {
	c        *Ctx
	elements wire.Writer
	n        int
}

func (c *Ctx) newPage() *page { return &page{c: c, elements: wire.Writer{Proto: c.Reply.Proto}} }

func (p *page) bulk(b []byte) {
	p.elements.Bulk(b)
	p.n++
}

func (p *page) reply(cursor uint64) {
	w := p.c.Reply
	w.Array(2)
	w.BulkString(strconv.FormatUint(cursor, 10))
	w.Array(p.n)
	w.Buf = append(w.Buf, p.elements.Buf...)
}

// scanArgs are the options that SCAN and its siblings share.
type scanArgs struct {
	count   int64
	pattern []byte // nil: everything matches
	typed   bool   // SCAN alone: only keys of the type that kind names
	kind    []byte
}

// scanOptions parses the options. A type that does not exist is no error: it matches no key.
func scanOptions(args [][]byte, types bool) (scanArgs, error) {
	o := scanArgs{count: 10}
	for i := 0; i < len(args); i += 2 {
		if i+1 == len(args) {
			return o, ErrSyntax
		}
		switch value := args[i+1]; {
		case isWord(args[i], "count"):
			n, ok := number.ParseInt(value)
			if !ok {
				return o, ErrNotInteger
			}
			if n < 1 {
				return o, ErrSyntax
			}
			o.count = n
		case isWord(args[i], "match"):
			if o.pattern = value; glob.All(value) {
				o.pattern = nil
			}
		case types && isWord(args[i], "type"):
			o.typed, o.kind = true, value
		default:
			return o, ErrSyntax
		}
	}
	return o, nil
}

func (o *scanArgs) matches(name []byte) bool {
	return o.pattern == nil || glob.Match(o.pattern, name)
}

// parseCursor reads a cursor as Redis does, by C's strtoul: a sign is allowed,
// and so is nothing at all, which means 0.
func parseCursor(arg []byte) (uint64, bool) {
	s := string(cString(arg))
	if s == "" {
		return 0, true
	}
	negative := s[0] == '-'
	if negative || s[0] == '+' {
		s = s[1:]
	}
	n, err := strconv.ParseUint(s, 10, 64)
	if err != nil {
		return 0, false
	}
	if negative {
		n = -n
	}
	return n, true
}

var randomKey = &Command{
	Name: "randomkey", Group: Generic, Since: "1.0.0", Arity: 1,
	Flags:   ReadOnly,
	Tips:    []string{"request_policy:all_shards", "response_policy:special", "nondeterministic_output"},
	Summary: "Names some key of the selected database.",
	Run: func(c *Ctx) error {
		if key := c.Tx.Random(c.Rand().IntN); key != nil {
			c.Reply.Bulk(key)
		} else {
			c.Reply.Null()
		}
		return nil
	},
}

// deferredArray is an array reply whose length is known at its end.
type deferredArray struct {
	w     *wire.Writer
	start int
	n     int
}

func deferArray(w *wire.Writer) *deferredArray { return &deferredArray{w: w, start: len(w.Buf)} }

func (d *deferredArray) bulk(b []byte) {
	d.w.Bulk(b)
	d.n++
}

// end inserts the length before the elements.
func (d *deferredArray) end() {
	head := wire.Writer{Proto: d.w.Proto}
	head.Array(d.n)
	d.w.Buf = slices.Insert(d.w.Buf, d.start, head.Buf...)
}
