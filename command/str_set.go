package command

import (
	"bytes"
	"math"
	"slices"

	"redoubt/keyspace"
	"redoubt/types"
	"redoubt/types/str"
)

// Commands that replace a whole string.

var set = &Command{
	Name: "set", Group: String, Since: "1.0.0", Arity: -3,
	Flags: Write | DenyOOM, Keys: varying(OneKey(1, RW|Access|Update), varySet),
	Syntax: "key value [NX|XX|IFEQ ifeq-value@8.4.0|IFNE ifne-value@8.4.0]@2.6.12 [GET]@6.2.0 [EX " +
		"seconds:integer@2.6.12|PX milliseconds:integer@2.6.12|EXAT unix-time-seconds:unix-time@6.2.0|PXAT " +
		"unix-time-milliseconds:unix-time@6.2.0|KEEPTTL@6.0.0]",
	Summary:    "Makes a key a string with the given value, whatever it was before.",
	Complexity: "O(1)",
	Run: func(c *Ctx) error {
		if len(c.Args) == 3 { // the usual call
			str.Set(c.Tx, c.Args[1], c.Tx.Find(c.Args[1]), c.Args[2], 0)
			c.Reply.OK()
			return nil
		}
		o, err := parseSet(c.Args[3:], setOptions)
		if err != nil {
			return err
		}
		return o.run(c, c.Args[1], c.Args[2])
	},
}

// varySet is KeySpec.Vary of SET: with GET it reads the old value.
func varySet(args [][]byte) KeyFlags {
	for _, a := range args[min(3, len(args)):] {
		if isWord(a, "get") {
			return RW | Access | Update
		}
	}
	return OW | Update
}

// setOption names an option of SET and GETEX.
type setOption uint16

const (
	optNX setOption = 1 << iota
	optXX
	optIfEq
	optIfNe
	optGet
	optEX
	optPX
	optEXAT
	optPXAT
	optKeepTTL
	optPersist

	optCondition = optNX | optXX | optIfEq | optIfNe
	optTime      = optEX | optPX | optEXAT | optPXAT
	optExpiry    = optTime | optKeepTTL | optPersist

	setOptions   = optCondition | optGet | optTime | optKeepTTL
	getexOptions = optTime | optPersist
)

var setOptionNames = []struct {
	name string
	opt  setOption
}{
	{"nx", optNX}, {"xx", optXX}, {"ifeq", optIfEq}, {"ifne", optIfNe}, {"get", optGet}, {"ex", optEX}, {"px", optPX},
	{"exat", optEXAT}, {"pxat", optPXAT}, {"keepttl", optKeepTTL}, {"persist", optPersist},
}

// setCall has the options of one call.
type setCall struct {
	opts setOption
	time []byte // the argument of EX, PX, EXAT or PXAT
	cmp  []byte // the argument of IFEQ or IFNE
}

// parseSet reads options. One may be repeated, the last argument counts; but of
// the conditions, and of what concerns the expiry, only one may be used.
func parseSet(args [][]byte, allowed setOption) (o setCall, err error) {
	for i := 0; i < len(args); i++ {
		opt := setOptionOf(args[i]) & allowed
		excluded := setOption(0)
		switch {
		case opt == 0:
			return o, ErrSyntax
		case opt&optCondition != 0:
			excluded = optCondition &^ opt
		case opt&optExpiry != 0:
			excluded = optExpiry &^ opt
		}
		if o.opts&excluded != 0 {
			return o, ErrSyntax
		}
		o.opts |= opt
		if opt&(optTime|optIfEq|optIfNe) != 0 {
			if i++; i == len(args) {
				return o, ErrSyntax
			}
			if opt&optTime != 0 {
				o.time = args[i]
			} else {
				o.cmp = args[i]
			}
		}
	}
	return o, nil
}

func setOptionOf(arg []byte) setOption {
	for _, n := range setOptionNames {
		if isWord(arg, n.name) {
			return n.opt
		}
	}
	return 0
}

// run sets the key according to the options, and replies.
func (o *setCall) run(c *Ctx, key, value []byte) error {
	expire, err := o.expire(c)
	if err != nil {
		return err
	}
	var old keyspace.Meta
	if o.opts&optGet != 0 {
		v, err := str.Read(c.Tx, key)
		if err != nil {
			return err
		}
		c.replyString(v)
		old = v.Meta
	} else {
		old = c.Tx.Find(key)
	}
	ok, err := o.condition(c, old)
	if err != nil {
		return err
	}
	if ok {
		if o.opts&optKeepTTL != 0 {
			expire = old.Expire
		}
		str.Set(c.Tx, key, old, value, expire)
		if o.opts&optTime != 0 {
			c.Tx.Note(keyspace.Generic, "expire", key)
		}
		o.propagate(c, key, value, expire)
	}
	switch {
	case o.opts&optGet != 0: // replied already
	case ok:
		c.Reply.OK()
	default:
		c.Reply.Null()
	}
	return nil
}

// propagate has replicas set the key without a condition, a reply, and a time that is counted
// from now.
func (o *setCall) propagate(c *Ctx, key, value []byte, expire int64) {
	switch {
	case !c.Tx.Propagates():
	case o.opts&optTime != 0 && o.opts != optPXAT:
		c.propagate("SET", key, value, []byte("PXAT"), decimal(expire))
	case o.opts&(optIfEq|optIfNe) != 0 && o.opts&optKeepTTL != 0:
		c.propagate("SET", key, value, []byte("KEEPTTL"))
	case o.opts&(optIfEq|optIfNe) != 0:
		c.propagate("SET", key, value)
	case o.opts&optGet != 0:
		options := slices.DeleteFunc(slices.Clone(c.Args[3:]), func(a []byte) bool { return isWord(a, "get") })
		c.propagate("SET", append([][]byte{key, value}, options...)...)
	}
}

func (o *setCall) condition(c *Ctx, old keyspace.Meta) (bool, error) {
	switch {
	case o.opts&optNX != 0:
		return !old.Exists(), nil
	case o.opts&optXX != 0:
		return old.Exists(), nil
	case o.opts&(optIfEq|optIfNe) == 0:
		return true, nil
	case !old.Exists():
		return o.opts&optIfNe != 0, nil
	case old.Type != keyspace.String:
		return false, types.ErrWrongType
	}
	return sameString(c.Tx, str.Value{Meta: old}, o.cmp) == (o.opts&optIfEq != 0), nil
}

// sameString reports whether a string has these bytes. It reads one piece at a time.
func sameString(tx *keyspace.Tx, v str.Value, b []byte) bool {
	if v.Len() != int64(len(b)) {
		return false
	}
	same, end := true, int64(0)
	v.Walk(tx, 0, v.Len(), func(at int64, piece []byte) bool {
		same = onlyZeros(b[end:at]) && bytes.Equal(piece, b[at:at+int64(len(piece))])
		end = at + int64(len(piece))
		return same
	})
	return same && onlyZeros(b[end:])
}

func onlyZeros(b []byte) bool { return len(bytes.TrimLeft(b, "\x00")) == 0 }

// expire returns the time of death that an option gives, 0 if none does.
func (o *setCall) expire(c *Ctx) (int64, error) {
	if o.opts&optTime == 0 {
		return 0, nil
	}
	form := timeForm{unit: 1, relative: o.opts&(optEX|optPX) != 0}
	if o.opts&(optEX|optEXAT) != 0 {
		form.unit = 1000
	}
	return timeOfDeath(c, o.time, form)
}

// timeOfDeath reads the time of an expiry, as milliseconds since the epoch.
func timeOfDeath(c *Ctx, arg []byte, form timeForm) (int64, error) {
	n, err := integer(arg)
	if err != nil {
		return 0, err
	}
	at, ok := form.time(c, n, math.MaxInt64)
	if n <= 0 || !ok {
		return 0, ExpireError(c.Cmd.FullName)
	}
	return at, nil
}

var setnx = &Command{
	Name: "setnx", Group: String, Since: "1.0.0", Arity: 3,
	Flags: Write | DenyOOM | Fast, Keys: OneKey(1, OW|Insert),
	Syntax:     "key value",
	Summary:    "Makes a key a string unless the key exists.",
	Complexity: "O(1)", Deprecated: "2.6.12", ReplacedBy: "`SET` with the `NX` option",
	Run: func(c *Ctx) error {
		old := c.Tx.Find(c.Args[1])
		if old.Exists() {
			c.Reply.Int(0)
			return nil
		}
		str.Set(c.Tx, c.Args[1], old, c.Args[2], 0)
		c.Reply.Int(1)
		return nil
	},
}

var setex = &Command{
	Name: "setex", Group: String, Since: "2.0.0", Arity: 4,
	Flags: Write | DenyOOM, Keys: OneKey(1, OW|Update),
	Syntax:     "key seconds:integer value",
	Summary:    "Makes a key a string that lives for some seconds.",
	Complexity: "O(1)", Deprecated: "2.6.12", ReplacedBy: "`SET` with the `EX` option",
	Run: func(c *Ctx) error {
		o := setCall{opts: optEX, time: c.Args[2]}
		return o.run(c, c.Args[1], c.Args[3])
	},
}

var psetex = &Command{
	Name: "psetex", Group: String, Since: "2.6.0", Arity: 4,
	Flags: Write | DenyOOM, Keys: OneKey(1, OW|Update),
	Syntax:     "key milliseconds:integer value",
	Summary:    "Makes a key a string that lives for some milliseconds.",
	Complexity: "O(1)", Deprecated: "2.6.12", ReplacedBy: "`SET` with the `PX` option",
	Run: func(c *Ctx) error {
		o := setCall{opts: optPX, time: c.Args[2]}
		return o.run(c, c.Args[1], c.Args[3])
	},
}

var getex = &Command{
	Name: "getex", Group: String, Since: "6.2.0", Arity: -2,
	Flags: Write | Fast, Keys: OneKey(1, RW|Access|Update),
	Syntax: "key [EX seconds:integer|PX milliseconds:integer|EXAT unix-time-seconds:unix-time|" +
		"PXAT unix-time-milliseconds:unix-time|PERSIST]",
	Summary:    "Reads the string at a key and sets or removes its expiry.",
	Complexity: "O(1)",
	Run: func(c *Ctx) error {
		o, err := parseSet(c.Args[2:], getexOptions)
		if err != nil {
			return err
		}
		key := c.Args[1]
		v, err := str.Read(c.Tx, key)
		if err != nil {
			return err
		}
		if !v.Exists() {
			c.Reply.Null()
			return nil
		}
		expire, err := o.expire(c)
		if err != nil {
			return err
		}
		c.replyString(v)
		m := v.Meta
		switch {
		case o.opts&(optEXAT|optPXAT) != 0 && expire <= c.Tx.Past():
			str.Delete(c.Tx, key, m)
			c.propagate("DEL", key)
		case o.opts&optTime != 0:
			m.Expire = expire
			c.Tx.Store(key, v.Meta, m)
			c.Tx.Changed(keyspace.Generic, "expire", key)
			c.propagateTime("PEXPIREAT", key, expire)
		case o.opts&optPersist != 0 && m.Expire != 0:
			m.Expire = 0
			c.Tx.Store(key, v.Meta, m)
			c.Tx.Changed(keyspace.Generic, "persist", key)
			c.propagate("PERSIST", key)
		}
		return nil
	},
}

var mset = &Command{
	Name: "mset", Group: String, Since: "1.0.1", Arity: -3,
	Flags: Write | DenyOOM, Keys: KeyRange(1, -1, 2, OW|Update),
	Tips:       []string{"request_policy:multi_shard", "response_policy:all_succeeded"},
	Syntax:     "(key value)...",
	Summary:    "Makes several keys strings at once.",
	Complexity: "O(N) where N is the number of keys",
	Run: func(c *Ctx) error {
		if len(c.Args)%2 == 0 {
			return ArityError(c.Cmd.FullName)
		}
		c.setPairs()
		c.Reply.OK()
		return nil
	},
}

// msetnx sets all of its keys or none.
var msetnx = &Command{
	Name: "msetnx", Group: String, Since: "1.0.1", Arity: -3,
	Flags: Write | DenyOOM, Keys: KeyRange(1, -1, 2, OW|Insert),
	Syntax:     "(key value)...",
	Summary:    "Makes several keys strings at once, unless one of them exists.",
	Complexity: "O(N) where N is the number of keys",
	Run: func(c *Ctx) error {
		if len(c.Args)%2 == 0 {
			return ArityError(c.Cmd.FullName)
		}
		for i := 1; i < len(c.Args); i += 2 {
			if c.Tx.Find(c.Args[i]).Exists() {
				c.Reply.Int(0)
				return nil
			}
		}
		c.setPairs()
		c.Reply.Int(1)
		return nil
	},
}

// setPairs sets the keys and values among the arguments, in order.
func (c *Ctx) setPairs() {
	bytes := int64(0)
	for i := 1; i < len(c.Args); i += 2 {
		if bytes += int64(len(c.Args[i+1])); c.Tx.Heavy(bytes) {
			return
		}
		str.Set(c.Tx, c.Args[i], c.Tx.Find(c.Args[i]), c.Args[i+1], 0)
	}
}
