package differential

import (
	"maps"
	"slices"
	"strings"
)

// Keys of several types. A key whose value is no string has a collection, and the
// handlers of strings do not know of that: what they do with such a key is said
// here.

// collection is a value that is no string. It is never changed: a command that
// changes it puts another one, so that a key and its copy may share it.
type collection interface {
	kind() string     // what TYPE says
	encoding() string // what OBJECT ENCODING says
	// at is the collection at a later time, nil when nothing is left of it.
	at(now int64) collection
}

const wrongType = "WRONGTYPE Operation against a key holding the wrong kind of value"

// kindOf is what TYPE says of a key that exists.
func kindOf(e entry) string {
	if e.coll != nil {
		return e.coll.kind()
	}
	return "string"
}

// stringKeys are the arguments of a string or bitmap command that must be strings
// if they exist; none for other commands.
func (m *model) stringKeys(name string, a []string) []string {
	switch name {
	case "get", "getset", "getdel", "getex", "append", "strlen", "getrange", "substr", "setrange", "incr", "decr", "incrby",
		"decrby", "incrbyfloat", "setbit", "getbit", "bitcount", "bitpos", "bitfield", "bitfield_ro":
		return a[:1]
	case "set":
		if o, ok := parseOptions(a[2:], true); ok && (o.get || o.cmp != "" && !o.nx && !o.xx) {
			return a[:1]
		}
	case "lcs":
		return a[:2]
	case "bitop":
		return a[2:]
	}
	return nil
}

// otherType answers a string command whose key is no string. It says false when
// the command is to be run as usual.
//
// Redis looks for the type where it looks whether the key exists. So an argument
// that is refused although there is no key is refused first.
func (m *model) otherType(name string, a []string) (string, bool) {
	var others []string
	for _, k := range m.stringKeys(name, a) {
		if e, ok := m.get(k); ok && e.coll != nil {
			others = append(others, k)
		}
	}
	if len(others) == 0 {
		return "", false
	}
	switch name {
	case "lcs":
		return fail("ERR The specified keys must contain string values"), true
	case "incrbyfloat":
		return fail(wrongType), true
	}
	db := m.dbs[m.db]
	m.dbs[m.db] = maps.Clone(db)
	for _, k := range others {
		m.del(k)
	}
	reply := handlers[name].run(m, name, slices.Clone(a))
	m.dbs[m.db] = db
	if strings.HasPrefix(reply, "-") && reply != fail(tooLong) {
		return reply, true
	}
	return fail(wrongType), true
}
