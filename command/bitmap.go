package command

import (
	"math"
	"strings"

	"redoubt/number"
	"redoubt/types/bitmap"
	"redoubt/types/str"
)

// BitmapCommands are the commands on the bits of strings.
var BitmapCommands = []*Command{setbit, getbit, bitcount, bitpos, bitop, bitfield, bitfieldRO}

var setbit = &Command{
	Name: "setbit", Group: Bitmap, Since: "2.2.0", Arity: 4,
	Flags: Write | DenyOOM, Keys: OneKey(1, RW|Access|Update),
	Syntax:     "key offset:integer value:integer",
	Summary:    "Sets or clears a bit of the string at a key and tells what it was.",
	Complexity: "O(1)",
	Run: func(c *Ctx) error {
		offset, err := bitOffset(c, c.Args[2])
		if err != nil {
			return err
		}
		on, ok := number.ParseInt(c.Args[3])
		if !ok || on&^1 != 0 {
			return ErrBitValue
		}
		old, err := bitmap.Set(c.Tx, c.Args[1], offset, on == 1)
		if err != nil {
			return err
		}
		c.Reply.Int(bit(old))
		return nil
	},
}

var getbit = &Command{
	Name: "getbit", Group: Bitmap, Since: "2.2.0", Arity: 3,
	Flags: ReadOnly | Fast, Keys: OneKey(1, RO|Access),
	Syntax:     "key offset:integer",
	Summary:    "Reads a bit of the string at a key.",
	Complexity: "O(1)",
	Run: func(c *Ctx) error {
		offset, err := bitOffset(c, c.Args[2])
		if err != nil {
			return err
		}
		v, err := str.Read(c.Tx, c.Args[1])
		if err != nil {
			return err
		}
		c.Reply.Int(bitmap.Get(c.Tx, v, offset))
		return nil
	},
}

// bitOffset reads the offset of a bit, which must be within the largest string allowed.
func bitOffset(c *Ctx, arg []byte) (int64, error) {
	n, ok := number.ParseInt(arg)
	if !ok || n < 0 || n>>3 >= c.Limits.MaxBulk {
		return 0, ErrBitOffset
	}
	return n, nil
}

// bitcount reads the key before it parses its other arguments, as Redis 7.2 does: the reply
// for a missing key is 0 even if they are wrong.
var bitcount = &Command{
	Name: "bitcount", Group: Bitmap, Since: "2.6.0", Arity: -2,
	Flags: ReadOnly, Keys: OneKey(1, RO|Access),
	Syntax:     "key [range=(start:integer end:integer [BYTE|BIT]@7.0.0)]",
	Summary:    "Counts the bits that are set in a string or in a part of it.",
	Complexity: "O(N) where N is the number of stored bytes in the range",
	Run: func(c *Ctx) error {
		v, err := str.Read(c.Tx, c.Args[1])
		if err != nil {
			return err
		}
		if !v.Exists() {
			c.Reply.Int(0)
			return nil
		}
		from, to := int64(0), v.Len()*8
		switch len(c.Args) {
		case 2:
		case 4, 5:
			if from, to, err = bitcountRange(c, v.Len()); err != nil {
				return err
			}
		default:
			return ErrSyntax
		}
		c.Reply.Int(bitmap.Count(c.Tx, v, from, to))
		return nil
	},
}

// bitcountRange reads the range of BITCOUNT and returns it in bits.
func bitcountRange(c *Ctx, length int64) (from, to int64, err error) {
	start, err := integer(c.Args[2])
	if err != nil {
		return 0, 0, err
	}
	end, err := integer(c.Args[3])
	if err != nil {
		return 0, 0, err
	}
	if start < 0 && end < 0 && start > end { // Redis 7.2 does not read on
		return 0, 0, nil
	}
	unit := int64(8)
	if len(c.Args) == 5 {
		if unit, err = bitUnit(c.Args[4]); err != nil {
			return 0, 0, err
		}
	}
	from, to = slice(start, end, length*8/unit)
	return from * unit, to * unit, nil
}

// bitUnit reads BYTE or BIT and returns how many bits that is.
func bitUnit(arg []byte) (int64, error) {
	switch {
	case isWord(arg, "bit"):
		return 1, nil
	case isWord(arg, "byte"):
		return 8, nil
	}
	return 0, ErrSyntax
}

// bitpos treats a string as if it were followed by zeros, unless the range has an end.
var bitpos = &Command{
	Name: "bitpos", Group: Bitmap, Since: "2.8.7", Arity: -3,
	Flags: ReadOnly, Keys: OneKey(1, RO|Access),
	Syntax:     "key bit:integer [range=(start:integer [end-unit-block=(end:integer [BYTE|BIT]@7.0.0)])]",
	Summary:    "Finds the first bit that is set, or clear, in a string or in a part of it.",
	Complexity: "O(N) where N is the number of stored bytes in the range",
	Run: func(c *Ctx) error {
		want, err := integer(c.Args[2])
		if err != nil {
			return err
		}
		if want != 0 && want != 1 {
			return ErrBitArgument
		}
		v, err := str.Read(c.Tx, c.Args[1])
		if err != nil {
			return err
		}
		if !v.Exists() {
			c.Reply.Int(-want)
			return nil
		}
		from, to, bounded, err := bitposRange(c, v.Len())
		if err != nil {
			return err
		}
		pos := bitmap.Pos(c.Tx, v, want == 1, from, to)
		if pos < 0 && want == 0 && !bounded && from < to {
			pos = to
		}
		c.Reply.Int(pos)
		return nil
	},
}

// bitposRange reads the range of BITPOS and returns it in bits. bounded reports whether its end
// was given.
func bitposRange(c *Ctx, length int64) (from, to int64, bounded bool, err error) {
	start, end, unit := int64(0), int64(math.MaxInt64), int64(8)
	switch len(c.Args) {
	case 3:
		return 0, length * 8, false, nil
	case 4, 5, 6:
	default:
		return 0, 0, false, ErrSyntax
	}
	if start, err = integer(c.Args[3]); err != nil {
		return 0, 0, false, err
	}
	if len(c.Args) == 6 {
		if unit, err = bitUnit(c.Args[5]); err != nil {
			return 0, 0, false, err
		}
	}
	if len(c.Args) >= 5 {
		if end, err = integer(c.Args[4]); err != nil {
			return 0, 0, false, err
		}
		bounded = true
	}
	length = length * 8 / unit
	if start < 0 {
		start = max(0, start+length)
	}
	if end < 0 {
		end = max(0, end+length)
	}
	end = min(end, length-1)
	if start > end {
		return 0, 0, bounded, nil
	}
	return start * unit, (end + 1) * unit, bounded, nil
}

var bitopNames = []string{"and", "or", "xor", "not", "diff", "diff1", "andor", "one"} // as bitmap.Op counts

// bitop has DIFF, DIFF1, ANDOR and ONE since Redis 8.2.
var bitop = &Command{
	Name: "bitop", Group: Bitmap, Since: "2.6.0", Arity: -4,
	Flags: Write | DenyOOM,
	Keys: []KeySpec{
		{Flags: OW | Update, Begin: Begin{Index: 2}, Find: Find{Last: 0, Step: 1}},
		{Flags: RO | Access, Begin: Begin{Index: 3}, Find: Find{Last: -1, Step: 1}},
	},
	Syntax:     "operation=<AND|OR|XOR|NOT|DIFF@8.2.0|DIFF1@8.2.0|ANDOR@8.2.0|ONE@8.2.0> destkey:key key...",
	Summary:    "Combines strings bit by bit and stores the result.",
	Complexity: "O(N) where N is the number of stored bytes in the sources",
	Run: func(c *Ctx) error {
		op := bitmap.Op(0)
		for int(op) < len(bitopNames) && !isWord(c.Args[1], bitopNames[op]) {
			op++
		}
		switch {
		case int(op) == len(bitopNames):
			return ErrSyntax
		case op == bitmap.Not && len(c.Args) != 4:
			return ErrBitopNot
		case op >= bitmap.Diff && op <= bitmap.AndOr && len(c.Args) < 5:
			return BitopSourcesError(strings.ToUpper(bitopNames[op]))
		}
		sources := make([]str.Value, len(c.Args)-3)
		for i, key := range c.Args[3:] {
			var err error
			if sources[i], err = str.Read(c.Tx, key); err != nil {
				return err
			}
		}
		c.Reply.Int(bitmap.Combine(c.Tx, op, c.Args[2], sources))
		return nil
	},
}
