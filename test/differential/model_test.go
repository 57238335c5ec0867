package differential

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// model is what the string, bitmap, key and expiry commands mean, written as
// plainly as possible over Go maps and without any of the server's code. The
// oracle test compares it with a real Redis, so that it can be trusted where
// there is none.
type model struct {
	dbs   [16]map[string]entry
	db    int
	proto int
	now   func() int64 // milliseconds
}

type entry struct {
	val string
	exp int64  // 0: never
	enc string // what OBJECT ENCODING says when not what a new value has
	// coll is the value of a key that is no string.
	coll collection
}

func newModel(now func() int64) *model {
	m := &model{proto: 2, now: now}
	for i := range m.dbs {
		m.dbs[i] = map[string]entry{}
	}
	return m
}

// The replies, as bytes.
const (
	okReply   = "+OK\r\n"
	syntax    = "ERR syntax error"
	notInt    = "ERR value is not an integer or out of range"
	badExpire = "ERR invalid expire time in '%s' command"
	tooLong   = "ERR string exceeds maximum allowed size (proto-max-bulk-len)"
	dbRange   = "ERR DB index is out of range"
	maxBulk   = 512 << 20
	maxInt64  = 1<<63 - 1
	minInt64  = -1 << 63
)

func num(n int64) string { return fmt.Sprintf(":%d\r\n", n) }

func bulk(s string) string { return fmt.Sprintf("$%d\r\n%s\r\n", len(s), s) }

func array(elems ...string) string {
	return fmt.Sprintf("*%d\r\n%s", len(elems), strings.Join(elems, ""))
}

func fail(format string, args ...any) string {
	return "-" + strings.NewReplacer("\r", " ", "\n", " ").Replace(fmt.Sprintf(format, args...)) + "\r\n"
}

func (m *model) null() string {
	if m.proto == 3 {
		return "_\r\n"
	}
	return "$-1\r\n"
}

// get finds a live key of the selected database.
func (m *model) get(key string) (entry, bool) {
	e, ok := m.dbs[m.db][key]
	dead := ok && e.exp != 0 && e.exp <= m.now()
	if e.coll != nil {
		e.coll = e.coll.at(m.now())
		dead = dead || e.coll == nil
	}
	if dead {
		delete(m.dbs[m.db], key)
		return entry{}, false
	}
	return e, ok
}

func (m *model) put(key string, e entry) { m.dbs[m.db][key] = e }

func (m *model) del(key string) bool {
	_, ok := m.get(key)
	delete(m.dbs[m.db], key)
	return ok
}

// in runs f with another database selected.
func (m *model) in(db int, f func()) {
	old := m.db
	m.db = db
	f()
	m.db = old
}

// integer parses as Redis does: nothing but the canonical text.
func integer(s string) (int64, bool) {
	n, err := strconv.ParseInt(s, 10, 64)
	return n, err == nil && strconv.FormatInt(n, 10) == s
}

// dbIndex parses a database number; the error is the reply.
func dbIndex(s, invalid string) (int, string) {
	n, ok := integer(s)
	switch {
	case !ok && invalid != "":
		return 0, fail("%s", invalid)
	case !ok:
		return 0, fail(notInt)
	case n < -1<<31 || n > 1<<31-1:
		if invalid == "" {
			invalid = "ERR value is out of range, value must between -2147483648 and 2147483647"
		}
		return 0, fail("%s", invalid)
	case n < 0 || n >= 16:
		return -1, fail(dbRange)
	}
	return int(n), ""
}

// handlers are the commands with their arity, as Redis counts it. They get
// the arguments without the command's name.
var handlers map[string]handler

type handler struct {
	arity int
	run   func(m *model, name string, a []string) string
}

func init() {
	handlers = map[string]handler{
		"select": {2, (*model).selectDB}, "swapdb": {3, (*model).swapDB}, "flushdb": {-1, (*model).flush}, "flushall": {-1, (*model).flush},
		"dbsize": {1, (*model).dbSize}, "del": {-2, (*model).delMany}, "unlink": {-2, (*model).delMany}, "exists": {-2, (*model).exists},
		"touch": {-2, (*model).exists}, "type": {2, (*model).typeOf}, "rename": {3, (*model).rename}, "renamenx": {3, (*model).rename},
		"copy": {-3, (*model).copyKey}, "move": {3, (*model).move}, "keys": {2, (*model).keys}, "randomkey": {1, (*model).randomKey},
		"object": {-2, nil}, "object|encoding": {3, (*model).encoding},
		"expire": {-3, (*model).expire}, "pexpire": {-3, (*model).expire}, "expireat": {-3, (*model).expire}, "pexpireat": {-3, (*model).expire},
		"ttl": {2, (*model).ttl}, "pttl": {2, (*model).ttl}, "expiretime": {2, (*model).ttl}, "pexpiretime": {2, (*model).ttl},
		"persist": {2, (*model).persist},
		"get":     {2, (*model).getCmd}, "set": {-3, (*model).set}, "setnx": {3, (*model).setNX}, "setex": {4, (*model).setEX},
		"psetex": {4, (*model).setEX}, "getset": {3, (*model).getSet}, "getdel": {2, (*model).getDel}, "getex": {-2, (*model).getEX},
		"mget": {-2, (*model).mget}, "mset": {-3, (*model).mset}, "msetnx": {-3, (*model).mset}, "append": {3, (*model).append},
		"strlen": {2, (*model).strlen}, "getrange": {4, (*model).getRange}, "substr": {4, (*model).getRange},
		"setrange": {4, (*model).setRange}, "incr": {2, (*model).incr}, "decr": {2, (*model).incr}, "incrby": {3, (*model).incr},
		"decrby": {3, (*model).incr}, "incrbyfloat": {3, (*model).incrFloat}, "lcs": {-3, (*model).lcs},
		"setbit": {4, (*model).setBit}, "getbit": {3, (*model).getBit}, "bitcount": {-2, (*model).bitCount}, "bitpos": {-3, (*model).bitPos},
		"bitop": {-4, (*model).bitOp}, "bitfield": {-2, (*model).bitField}, "bitfield_ro": {-2, (*model).bitField},
	}
	maps.Copy(handlers, hashHandlers)
	maps.Copy(handlers, listHandlers)
	maps.Copy(handlers, setHandlers)
	maps.Copy(handlers, streamHandlers)
	maps.Copy(handlers, zsetHandlers)
}

// do runs a command and returns its reply as it goes over the wire.
func (m *model) do(args []string) string {
	name, a := strings.ToLower(args[0]), args[1:]
	if name == "object" && len(a) > 0 {
		name, a = name+"|"+strings.ToLower(a[0]), a[1:]
	}
	h, ok := handlers[name]
	if !ok {
		panic("the model has no command " + name)
	}
	if n := len(args); n != h.arity && (h.arity > 0 || n < -h.arity) {
		return fail("ERR wrong number of arguments for '%s' command", name)
	}
	if reply, other := m.otherType(name, a); other {
		return reply
	}
	return h.run(m, name, a)
}

func (m *model) selectDB(_ string, a []string) string {
	db, err := dbIndex(a[0], "")
	if err == "" {
		m.db, err = db, okReply
	}
	return err
}

func (m *model) swapDB(_ string, a []string) string {
	x, err := dbIndex(a[0], "ERR invalid first DB index")
	if err != "" && x != -1 {
		return err
	}
	y, err := dbIndex(a[1], "ERR invalid second DB index")
	if err != "" {
		return err
	}
	if x == -1 {
		return fail(dbRange)
	}
	m.dbs[x], m.dbs[y] = m.dbs[y], m.dbs[x]
	return okReply
}

func (m *model) flush(name string, a []string) string {
	if len(a) > 1 || len(a) == 1 && !strings.EqualFold(a[0], "sync") && !strings.EqualFold(a[0], "async") {
		return fail(syntax)
	}
	for i := range m.dbs {
		if name == "flushall" || i == m.db {
			m.dbs[i] = map[string]entry{}
		}
	}
	return okReply
}

func (m *model) live() []string {
	var keys []string
	for k := range m.dbs[m.db] {
		if _, ok := m.get(k); ok {
			keys = append(keys, k)
		}
	}
	slices.Sort(keys)
	return keys
}

func (m *model) dbSize(string, []string) string { return num(int64(len(m.live()))) }

func (m *model) delMany(_ string, a []string) string {
	n := int64(0)
	for _, k := range a {
		if m.del(k) {
			n++
		}
	}
	return num(n)
}

func (m *model) exists(_ string, a []string) string {
	n := int64(0)
	for _, k := range a {
		if _, ok := m.get(k); ok {
			n++
		}
	}
	return num(n)
}

func (m *model) typeOf(_ string, a []string) string {
	if e, ok := m.get(a[0]); ok {
		return "+" + kindOf(e) + "\r\n"
	}
	return "+none\r\n"
}

func (m *model) rename(name string, a []string) string {
	e, ok := m.get(a[0])
	if !ok {
		return fail("ERR no such key")
	}
	_, taken := m.get(a[1])
	nx := name == "renamenx"
	if nx && taken {
		return num(0)
	}
	if a[0] != a[1] {
		m.del(a[0])
		m.put(a[1], e)
	}
	if nx {
		return num(1)
	}
	return okReply
}

func (m *model) copyKey(_ string, a []string) string {
	db, replace, err := m.db, false, ""
	for i := 2; i < len(a); i++ {
		switch {
		case strings.EqualFold(a[i], "replace"):
			replace = true
		case strings.EqualFold(a[i], "db") && i+1 < len(a):
			if db, err = dbIndex(a[i+1], ""); err != "" {
				return err
			}
			i++
		default:
			return fail(syntax)
		}
	}
	if db == m.db && a[0] == a[1] {
		return fail("ERR source and destination objects are the same")
	}
	e, ok := m.get(a[0])
	reply := num(0)
	m.in(db, func() {
		if _, taken := m.get(a[1]); ok && (!taken || replace) {
			m.put(a[1], e)
			reply = num(1)
		}
	})
	return reply
}

func (m *model) move(_ string, a []string) string {
	db, err := dbIndex(a[1], "")
	if err != "" {
		return err
	}
	if db == m.db {
		return fail("ERR source and destination objects are the same")
	}
	e, ok := m.get(a[0])
	moved := false
	m.in(db, func() {
		if _, taken := m.get(a[0]); ok && !taken {
			m.put(a[0], e)
			moved = true
		}
	})
	if !moved {
		return num(0)
	}
	m.del(a[0])
	return num(1)
}

// keys replies in sorted order; the comparison sorts the others' replies.
func (m *model) keys(_ string, a []string) string {
	var found []string
	for _, k := range m.live() {
		if match(a[0], k) {
			found = append(found, bulk(k))
		}
	}
	return array(found...)
}

// randomKey says only whether there is a key.
func (m *model) randomKey(string, []string) string {
	if keys := m.live(); len(keys) > 0 {
		return bulk(keys[0])
	}
	return m.null()
}

func (m *model) encoding(_ string, a []string) string {
	e, ok := m.get(a[0])
	_, isInt := integer(e.val)
	switch {
	case !ok:
		return m.null()
	case e.coll != nil:
		return bulk(e.coll.encoding())
	case e.enc == "raw" || len(e.val) > 44:
		return bulk("raw")
	case isInt && e.enc == "":
		return bulk("int")
	}
	return bulk("embstr")
}

// match covers what the generator's patterns use. An oddity of Redis: the
// empty key is matched by * and by the empty pattern, not by ** or the like.
func match(p, s string) bool {
	return p == "*" || p == s || s != "" && globMatch(p, s)
}

func globMatch(p, s string) bool {
	for p != "" {
		switch p[0] {
		case '*':
			for i := 0; i <= len(s); i++ {
				if globMatch(p[1:], s[i:]) {
					return true
				}
			}
			return false
		case '[':
			end := strings.IndexByte(p, ']')
			set := p[1:end]
			not := strings.HasPrefix(set, "^")
			if s == "" || inSet(strings.TrimPrefix(set, "^"), s[0]) == not {
				return false
			}
			p, s = p[end+1:], s[1:]
			continue
		case '\\':
			if len(p) > 1 {
				p = p[1:]
			}
			fallthrough
		default:
			if s == "" || p[0] != s[0] {
				return false
			}
		case '?':
			if s == "" {
				return false
			}
		}
		p, s = p[1:], s[1:]
	}
	return s == ""
}

func inSet(set string, c byte) bool {
	for i := 0; i < len(set); i++ {
		if i+2 < len(set) && set[i+1] == '-' {
			if set[i] <= c && c <= set[i+2] {
				return true
			}
			i += 2
		} else if set[i] == c {
			return true
		}
	}
	return false
}
