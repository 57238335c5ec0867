package command

import (
	"math"

	"redoubt/types/hash"
)

// Commands that look at some fields of a hash: a page of them, or random ones.

var hscan = &Command{
	Name: "hscan", Group: Hash, Since: "2.8.0", Arity: -3,
	Flags: ReadOnly, Keys: OneKey(1, RO|Access),
	Tips:       []string{"nondeterministic_output"},
	Syntax:     "key cursor:integer [MATCH pattern:pattern] [COUNT count:integer] [NOVALUES]@7.4.0",
	Summary:    "Lists some fields of a hash with their values, and the cursor from which to go on.",
	Complexity: "O(1) for every call. O(N) for a complete iteration, where N is the number of fields",
	Run: func(c *Ctx) error {
		cursor, ok := parseCursor(c.Args[2])
		if !ok {
			return ErrCursor
		}
		h, err := hash.Read(c.Tx, c.Args[1])
		if err != nil {
			return err
		}
		defer h.Release()
		if !h.Exists() { // whatever the options are
			c.newPage().reply(0)
			return nil
		}
		o, values, err := hscanOptions(c.Args[3:])
		if err != nil {
			return err
		}
		if c.Tx.Heavy(min(o.count, h.Weight()/64) * 64) {
			return nil
		}
		page := c.newPage()
		cursor = h.Scan(cursor, int(min(o.count, math.MaxInt)), func(field []byte, e hash.Entry) {
			if !o.matches(field) {
				return
			}
			page.bulk(field)
			if values {
				page.bulk(e.Value)
			}
		})
		page.reply(cursor)
		return nil
	},
}

// hscanOptions reads the options that all scans have, and NOVALUES.
func hscanOptions(args [][]byte) (o scanArgs, values bool, err error) {
	values = true
	pairs := make([][]byte, 0, len(args))
	for i := 0; i < len(args); i++ {
		if isWord(args[i], "novalues") {
			values = false
			continue
		}
		pairs = append(pairs, args[i])
		if i++; i < len(args) {
			pairs = append(pairs, args[i])
		}
	}
	o, err = scanOptions(pairs, false)
	return o, values, err
}

var hrandfield = &Command{
	Name: "hrandfield", Group: Hash, Since: "6.2.0", Arity: -2,
	Flags: ReadOnly, Keys: OneKey(1, RO|Access),
	Tips:       []string{"nondeterministic_output"},
	Syntax:     "key [options=(count:integer [WITHVALUES])]",
	Summary:    "Names random fields of a hash.",
	Complexity: "O(N) where N is the number of fields returned",
	Run: func(c *Ctx) error {
		if len(c.Args) > 2 {
			return randomFields(c)
		}
		h, err := hash.Read(c.Tx, c.Args[1])
		if err != nil {
			return err
		}
		defer h.Release()
		if !h.Exists() {
			c.Reply.Null()
			return nil
		}
		h.Draw(1, c.Rand(), func(field []byte, _ hash.Entry) bool {
			c.Reply.Bulk(field)
			return true
		})
		return nil
	},
}

// randomFields replies with so many different fields, or, if the number is
// negative, with so many of which some may come again.
func randomFields(c *Ctx) error {
	count, err := integer(c.Args[2])
	if err != nil {
		return err
	}
	if count == math.MinInt64 {
		return rangeError(-math.MaxInt64, math.MaxInt64)
	}
	values := len(c.Args) == 4
	if len(c.Args) > 4 || values && !isWord(c.Args[3], "withvalues") {
		return ErrSyntax
	}
	if values && (count < -math.MaxInt64/2 || count > math.MaxInt64/2) {
		return ErrHashCount
	}
	h, err := hash.Read(c.Tx, c.Args[1])
	if err != nil {
		return err
	}
	defer h.Release()
	n := max(count, -count)
	if count > 0 {
		n = min(n, h.Len())
	}
	if !h.Exists() {
		n = 0
	}
	if c.Tx.Heavy(min(n, math.MaxInt64/drawWork) * drawWork) {
		return nil
	}
	if values && c.Reply.Proto == 2 {
		c.Reply.Array(int(2 * n))
	} else {
		c.Reply.Array(int(n))
	}
	visit := func(field []byte, e hash.Entry) bool {
		if c.Tx.Err() != nil {
			return false
		}
		if values && c.Reply.Proto == 3 {
			c.Reply.Array(2)
		}
		c.Reply.Bulk(field)
		if values {
			c.Reply.Bulk(e.Value)
		}
		return c.Spill()
	}
	if count > 0 {
		h.Sample(n, c.Rand(), func(field []byte, e hash.Entry) { visit(field, e) })
	} else {
		h.Draw(n, c.Rand(), visit)
	}
	return nil
}

// drawWork is the cost of drawing a field, in the unit of Tx.Heavy.
const drawWork = 1024
