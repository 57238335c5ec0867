package command

import (
	"redoubt/keyspace"
	"redoubt/types/list"
)

// Commands that take elements from one of several lists, or move them between two.

// moveKeys are the source and the destination of a move.
var moveKeys = []KeySpec{
	{Flags: RW | Access | Delete, Begin: Begin{Index: 1}, Find: Find{Step: 1}},
	{Flags: RW | Insert, Begin: Begin{Index: 2}, Find: Find{Step: 1}},
}

var lmove = &Command{
	Name: "lmove", Group: List, Since: "6.2.0", Arity: 5,
	Flags: Write | DenyOOM, Keys: moveKeys,
	Syntax:     "source:key destination:key wherefrom=<LEFT|RIGHT> whereto=<LEFT|RIGHT>",
	Summary:    "Moves an element from an end of one list to an end of another, or of the same.",
	Complexity: "O(1)",
	Run: func(c *Ctx) error {
		from, to, err := twoEnds(c.Args[3], c.Args[4])
		if err != nil {
			return err
		}
		moved, err := c.moveElement(from, to)
		if err == nil && !moved {
			c.Reply.Null()
		}
		return err
	},
}

var rpoplpush = &Command{
	Name: "rpoplpush", Group: List, Since: "1.2.0", Arity: 3,
	Flags: Write | DenyOOM, Keys: moveKeys,
	Syntax:     "source:key destination:key",
	Summary:    "Moves the last element of a list to the front of another.",
	Complexity: "O(1)", Deprecated: "6.2.0", ReplacedBy: "`LMOVE` with the `RIGHT` and `LEFT` arguments",
	Run: func(c *Ctx) error {
		moved, err := c.moveElement(rightEnd, leftEnd)
		if err == nil && !moved {
			c.Reply.Null()
		}
		return err
	},
}

// whichEnd reads LEFT or RIGHT.
func whichEnd(arg []byte) (left bool, err error) {
	left = isWord(arg, "left")
	if !left && !isWord(arg, "right") {
		return false, ErrSyntax
	}
	return left, nil
}

func twoEnds(a, b []byte) (from, to bool, err error) {
	if from, err = whichEnd(a); err != nil {
		return false, false, err
	}
	to, err = whichEnd(b)
	return from, to, err
}

// moveElement moves an element from the list at the first argument to the list at the second one
// and replies with it. It returns false if there is no element.
func (c *Ctx) moveElement(from, to bool) (moved bool, err error) {
	key, target := c.Args[1], c.Args[2]
	src, err := list.Open(c.Tx, key, &c.Limits.Limits)
	if err != nil {
		return false, err
	}
	defer src.Release()
	if !src.Exists() {
		return false, nil
	}
	if string(key) == string(target) {
		c.rotate(src, key, from, to)
		return true, nil
	}
	dst, err := list.Open(c.Tx, target, &c.Limits.Limits)
	if err != nil {
		return false, err
	}
	defer dst.Release()
	src.Pop(from, 1, func(e []byte) {
		dst.Push(to, e)
		c.Reply.Bulk(e)
	})
	dst.Save()
	c.changed(keyspace.ListEv, pushEvent(to), target, 0)
	c.saved(src, keyspace.ListEv, popEvent(from), key, 1)
	return true, nil
}

// rotate is a move inside one list.
func (c *Ctx) rotate(l *list.List, key []byte, from, to bool) {
	var moved []byte
	l.Pop(from, 1, func(e []byte) { moved = c.Tx.Own(e, 0) })
	c.Reply.Bulk(moved)
	l.Push(to, moved)
	l.Save()
	c.changed(keyspace.ListEv, pushEvent(to), key, 0)
	c.changed(keyspace.ListEv, popEvent(from), key, 1)
}

var lmpop = &Command{
	Name: "lmpop", Group: List, Since: "7.0.0", Arity: -4,
	Flags: Write | MovableKeys, Keys: KeyNum(1, RW|Access|Delete),
	Syntax:     "numkeys:integer key... where=<LEFT|RIGHT> [COUNT count:integer]",
	Summary:    "Takes elements from the first list with some among several keys.",
	Complexity: "O(N+M) where N is the number of keys and M the number of elements taken",
	Run: func(c *Ctx) error {
		o, err := parseLmpop(c.Args[1:])
		if err != nil {
			return err
		}
		taken, err := o.run(c)
		if err == nil && !taken {
			c.Reply.NullArray()
		}
		return err
	},
}

// lmpopCall is a call of LMPOP or BLMPOP.
type lmpopCall struct {
	keys  [][]byte
	left  bool
	count int64
}

// parseLmpop reads the arguments from the number of keys on.
func parseLmpop(args [][]byte) (o lmpopCall, err error) {
	n, err := integer(args[0])
	if err != nil || n < 1 {
		return o, ErrNumKeys
	}
	args = args[1:]
	if n >= int64(len(args)) {
		return o, ErrSyntax
	}
	o.keys, args = args[:n], args[n:]
	if o.left, err = whichEnd(args[0]); err != nil {
		return o, err
	}
	switch args = args[1:]; {
	case len(args) == 0:
		o.count = 1
	case len(args) < 2 || !isWord(args[0], "count"):
		return o, ErrSyntax
	default:
		if o.count, err = integer(args[1]); err != nil || o.count < 1 {
			return o, ErrCountPositive
		}
		if len(args) > 2 {
			return o, ErrSyntax
		}
	}
	return o, nil
}

// run removes elements from the first list that has some and replies with the list's key and the
// elements. It returns false if all lists are empty.
func (o *lmpopCall) run(c *Ctx) (taken bool, err error) {
	for _, key := range o.keys {
		l, err := list.Open(c.Tx, key, &c.Limits.Limits)
		if err != nil {
			return false, err
		}
		if l.Exists() {
			n := min(o.count, l.Len())
			c.Reply.Array(2)
			c.Reply.Bulk(key)
			c.Reply.Array(int(n))
			c.takeOff(l, key, o.left, n)
			c.propagate(popName(o.left), key, decimal(n))
			taken = true
		}
		if l.Release(); taken {
			break
		}
	}
	return taken, nil
}
