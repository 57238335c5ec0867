package command

import (
	"redoubt/keyspace"
	"redoubt/number"
	"redoubt/types/bitmap"
	"redoubt/types/str"
)

var bitfield = &Command{
	Name: "bitfield", Group: Bitmap, Since: "3.2.0", Arity: -2,
	Flags: Write | DenyOOM, Keys: varying(OneKey(1, RW|Access|Update), varyBitfield),
	Syntax: "key [operation=<GET get-block=(encoding offset:integer)|write=([OVERFLOW overflow-block=<WRAP|SAT|FAIL>] " +
		"write-operation=<SET set-block=(encoding offset:integer value:integer)|INCRBY incrby-block=(encoding " +
		"offset:integer increment:integer)>)>...]",
	Summary:    "Reads and changes integers of any width among the bits of a string.",
	Complexity: "O(1) for each operation",
	Run:        func(c *Ctx) error { return runBitfield(c, false) },
}

// varyBitfield is KeySpec.Vary of BITFIELD: a call with only GET operations only reads.
func varyBitfield(args [][]byte) KeyFlags {
	for i := 2; i < len(args); i++ {
		left := len(args) - i - 1
		switch {
		case isWord(args[i], "get") && left >= 2:
			i += 2
		case isWord(args[i], "overflow") && left >= 1:
			i++
		default:
			return RW | Access | Update
		}
	}
	return RO | Access
}

var bitfieldRO = &Command{
	Name: "bitfield_ro", Group: Bitmap, Since: "6.0.0", Arity: -2,
	Flags: ReadOnly | Fast, Keys: OneKey(1, RO|Access),
	Syntax:     "key [GET get-block=(encoding offset:integer)]...",
	Summary:    "Reads integers of any width among the bits of a string.",
	Complexity: "O(1) for each operation",
	Run:        func(c *Ctx) error { return runBitfield(c, true) },
}

// fieldOp is one operation of a BITFIELD call.
type fieldOp struct {
	field    bitmap.Field
	kind     byte // 'g', 's' or 'i'
	value    int64
	overflow bitmap.Overflow
}

// runBitfield parses all operations before it runs any. The string is extended for all writing
// operations, even for those that then fail.
func runBitfield(c *Ctx, readOnly bool) error {
	ops, end, err := parseBitfield(c)
	if err != nil {
		return err
	}
	var v str.Value
	switch {
	case end == 0:
		v, err = str.Read(c.Tx, c.Args[1])
	case readOnly:
		err = ErrFieldRO
	default:
		v, err = str.Find(c.Tx, c.Args[1])
	}
	if err != nil {
		return err
	}
	e := v.Edit(c.Tx, c.Args[1], (end+7)>>3)
	defer e.Release()
	changes := 0
	c.Reply.Array(len(ops))
	for _, op := range ops {
		if op.kind == 'g' {
			c.Reply.Int(op.field.Get(e))
			continue
		}
		run := op.field.Add
		if op.kind == 's' {
			run = op.field.Set
		}
		n, changed, ok := run(e, op.value, op.overflow)
		if !ok {
			c.Reply.Null()
			continue
		}
		if changed || e.Grown() {
			changes++
		}
		c.Reply.Int(n)
	}
	if end == 0 {
		return nil
	}
	if changes > 0 || e.Grown() || !e.Raw() {
		e.Store()
	}
	switch {
	case changes > 0:
		c.Tx.Changed(keyspace.StringEv, "setbit", c.Args[1])
		c.Tx.FX.Changes += changes - 1
	case e.Grown(): // to Redis this is no change, but its replicas then differ from it
		c.propagate(string(c.Args[0]), c.Args[1:]...)
	}
	return nil
}

// parseBitfield reads the operations. end is the first bit behind all writing operations, 0 if
// there are none.
func parseBitfield(c *Ctx) (ops []fieldOp, end int64, err error) {
	overflow := bitmap.Wrap
	for args := c.Args[2:]; len(args) > 0; {
		op := fieldOp{overflow: overflow}
		need := 4
		switch word := args[0]; {
		case isWord(word, "get") && len(args) >= 3:
			op.kind, need = 'g', 3
		case isWord(word, "set") && len(args) >= 4:
			op.kind = 's'
		case isWord(word, "incrby") && len(args) >= 4:
			op.kind = 'i'
		case isWord(word, "overflow") && len(args) >= 2:
			if overflow, err = parseOverflow(args[1]); err != nil {
				return nil, 0, err
			}
			args = args[2:]
			continue
		default:
			return nil, 0, ErrSyntax
		}
		if op.field, err = parseField(c, args[1], args[2]); err != nil {
			return nil, 0, err
		}
		if op.kind != 'g' {
			if op.value, err = integer(args[3]); err != nil {
				return nil, 0, err
			}
			end = max(end, op.field.End())
		}
		ops = append(ops, op)
		args = args[need:]
	}
	return ops, end, nil
}

func parseOverflow(arg []byte) (bitmap.Overflow, error) {
	switch {
	case isWord(arg, "wrap"):
		return bitmap.Wrap, nil
	case isWord(arg, "sat"):
		return bitmap.Sat, nil
	case isWord(arg, "fail"):
		return bitmap.Fail, nil
	}
	return 0, ErrOverflowType
}

// parseField reads a type such as i16 or u8 and an offset, which counts fields
// instead of bits if it begins with '#'.
func parseField(c *Ctx, kind, offset []byte) (f bitmap.Field, err error) {
	kind = cString(kind)
	if len(kind) == 0 || (kind[0] != 'i' && kind[0] != 'u') {
		return f, ErrFieldType
	}
	f.Signed = kind[0] == 'i'
	n, ok := number.ParseInt(kind[1:])
	if !ok || n < 1 || n > 64 || (n == 64 && !f.Signed) {
		return f, ErrFieldType
	}
	f.Bits = uint(n)
	count := int64(1)
	if len(offset) > 0 && offset[0] == '#' {
		offset, count = offset[1:], n
	}
	at, ok := number.ParseInt(offset)
	if at *= count; !ok || at < 0 || at>>3 >= c.Limits.MaxBulk { // Redis lets the product wrap around, too
		return f, ErrBitOffset
	}
	f.Offset = at
	return f, nil
}
