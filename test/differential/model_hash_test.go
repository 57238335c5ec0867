package differential

import (
	"math/big"
	"slices"
	"strconv"
	"strings"
)

// hashValue is a hash: its fields in the order in which they came. It is never
// changed, so that a key and its copy may share one.
type hashValue struct {
	fields []hashField
	enc    string
}

type hashField struct {
	name, value string
	at          int64 // 0: never
}

func (h *hashValue) kind() string     { return "hash" }
func (h *hashValue) encoding() string { return h.enc }

// at leaves out the fields that are dead then.
func (h *hashValue) at(now int64) collection {
	dead := func(f hashField) bool { return f.at != 0 && f.at <= now }
	if !slices.ContainsFunc(h.fields, dead) {
		return h
	}
	n := &hashValue{slices.DeleteFunc(slices.Clone(h.fields), dead), h.enc}
	if len(n.fields) == 0 {
		return nil
	}
	return n
}

func (h *hashValue) find(name string) (hashField, bool) {
	i := slices.IndexFunc(h.fields, func(f hashField) bool { return f.name == name })
	if i < 0 {
		return hashField{}, false
	}
	return h.fields[i], true
}

// with sets a field; the hash is the caller's own.
func (h *hashValue) with(f hashField) {
	if i := slices.IndexFunc(h.fields, func(o hashField) bool { return o.name == f.name }); i >= 0 {
		h.fields[i] = f
	} else {
		h.fields = append(h.fields, f)
	}
	h.expect(f.name, f.value)
	if len(h.fields) > 512 {
		h.enc = "hashtable"
	}
	if f.at != 0 && h.enc == "listpack" {
		h.enc = "listpackex"
	}
}

// expect notes fields and values that are about to be set.
func (h *hashValue) expect(all ...string) {
	if len(all)/2 > 512 || slices.ContainsFunc(all, func(s string) bool { return len(s) > 64 }) {
		h.enc = "hashtable"
	}
}

func (h *hashValue) without(name string) bool {
	n := len(h.fields)
	h.fields = slices.DeleteFunc(h.fields, func(f hashField) bool { return f.name == name })
	return len(h.fields) < n
}

// hash finds a hash, as a copy that may be changed; an error is the reply.
func (m *model) hash(key string) (*hashValue, string) {
	e, ok := m.get(key)
	if !ok {
		return &hashValue{enc: "listpack"}, ""
	}
	h, ok := e.coll.(*hashValue)
	if !ok {
		return nil, fail(wrongType)
	}
	return &hashValue{slices.Clone(h.fields), h.enc}, ""
}

// putHash stores a hash; an empty one is no key.
func (m *model) putHash(key string, h *hashValue) {
	if len(h.fields) == 0 {
		m.del(key)
		return
	}
	e, _ := m.get(key)
	m.put(key, entry{coll: h, exp: e.exp})
}

var hashHandlers = map[string]handler{
	"hset": {-4, (*model).hset}, "hmset": {-4, (*model).hset}, "hsetnx": {4, (*model).hsetnx}, "hget": {3, (*model).hget},
	"hmget": {-3, (*model).hmget}, "hgetall": {2, (*model).hgetall}, "hkeys": {2, (*model).hgetall}, "hvals": {2, (*model).hgetall},
	"hlen": {2, (*model).hlen}, "hstrlen": {3, (*model).hget}, "hexists": {3, (*model).hget}, "hdel": {-3, (*model).hdel},
	"hincrby": {4, (*model).hincrby}, "hincrbyfloat": {4, (*model).hincrbyfloat}, "hrandfield": {-2, (*model).hrandfield},
	"hscan": {-3, (*model).hscan}, "hexpire": {-6, (*model).hexpire}, "hpexpire": {-6, (*model).hexpire},
	"hexpireat": {-6, (*model).hexpire}, "hpexpireat": {-6, (*model).hexpire}, "httl": {-5, (*model).httl}, "hpttl": {-5, (*model).httl},
	"hexpiretime": {-5, (*model).httl}, "hpexpiretime": {-5, (*model).httl}, "hpersist": {-5, (*model).hpersist},
	"hgetex": {-5, (*model).hgetex}, "hsetex": {-6, (*model).hsetex}, "hgetdel": {-5, (*model).hgetdel},
}

func arity(name string) string { return fail("ERR wrong number of arguments for '%s' command", name) }

func (m *model) hset(name string, a []string) string {
	if len(a)%2 == 0 {
		return arity(name)
	}
	h, err := m.hash(a[0])
	if err != "" {
		return err
	}
	h.expect(a[1:]...)
	created := int64(0)
	for i := 1; i < len(a); i += 2 {
		if _, ok := h.find(a[i]); !ok {
			created++
		}
		h.with(hashField{name: a[i], value: a[i+1]})
	}
	m.putHash(a[0], h)
	if name == "hmset" {
		return okReply
	}
	return num(created)
}

func (m *model) hsetnx(_ string, a []string) string {
	h, err := m.hash(a[0])
	if err != "" {
		return err
	}
	if _, ok := h.find(a[1]); ok {
		return num(0)
	}
	h.with(hashField{name: a[1], value: a[2]})
	m.putHash(a[0], h)
	return num(1)
}

func (m *model) hget(name string, a []string) string {
	h, err := m.hash(a[0])
	if err != "" {
		return err
	}
	f, ok := h.find(a[1])
	switch {
	case name == "hstrlen":
		return num(int64(len(f.value)))
	case name == "hexists" && ok:
		return num(1)
	case name == "hexists":
		return num(0)
	}
	return m.fieldValue(f, ok)
}

func (m *model) fieldValue(f hashField, ok bool) string {
	if !ok {
		return m.null()
	}
	return bulk(f.value)
}

func (m *model) hmget(_ string, a []string) string {
	h, err := m.hash(a[0])
	if err != "" {
		return err
	}
	var out []string
	for _, name := range a[1:] {
		out = append(out, m.fieldValue(h.find(name)))
	}
	return array(out...)
}

func (m *model) hgetall(name string, a []string) string {
	h, err := m.hash(a[0])
	if err != "" {
		return err
	}
	var out []string
	for _, f := range h.fields {
		if name != "hvals" {
			out = append(out, bulk(f.name))
		}
		if name != "hkeys" {
			out = append(out, bulk(f.value))
		}
	}
	if name == "hgetall" && m.proto == 3 {
		return "%" + strconv.Itoa(len(h.fields)) + "\r\n" + strings.Join(out, "")
	}
	return array(out...)
}

func (m *model) hlen(_ string, a []string) string {
	h, err := m.hash(a[0])
	if err != "" {
		return err
	}
	return num(int64(len(h.fields)))
}

func (m *model) hdel(_ string, a []string) string {
	h, err := m.hash(a[0])
	if err != "" {
		return err
	}
	deleted := int64(0)
	for _, name := range a[1:] {
		if h.without(name) {
			deleted++
		}
	}
	if deleted > 0 {
		m.putHash(a[0], h)
	}
	return num(deleted)
}

func (m *model) hincrby(_ string, a []string) string {
	by, ok := integer(a[2])
	if !ok {
		return fail(notInt)
	}
	h, err := m.hash(a[0])
	if err != "" {
		return err
	}
	n := int64(0)
	f, had := h.find(a[1])
	if had {
		if n, ok = integer(f.value); !ok {
			return fail("ERR hash value is not an integer")
		}
	}
	if by < 0 && n < minInt64-by || by > 0 && n > maxInt64-by {
		return fail("ERR increment or decrement would overflow")
	}
	h.with(hashField{a[1], strconv.FormatInt(n+by, 10), f.at})
	m.putHash(a[0], h)
	return num(n + by)
}

func (m *model) hincrbyfloat(_ string, a []string) string {
	by, ok := float(a[2])
	switch {
	case !ok:
		return fail("ERR value is not a valid float")
	case by.IsInf():
		return fail("ERR value is NaN or Infinity")
	}
	h, err := m.hash(a[0])
	if err != "" {
		return err
	}
	n := new(big.Float)
	f, had := h.find(a[1])
	if had {
		if n, ok = float(f.value); !ok {
			return fail("ERR hash value is not a float")
		}
	}
	if n.IsInf() {
		return fail("ERR increment would produce NaN or Infinity")
	}
	text := decimalText(n, by)
	h.with(hashField{a[1], text, f.at})
	m.putHash(a[0], h)
	return bulk(text)
}

// decimalText is a sum as Redis prints it.
func decimalText(x, y *big.Float) string {
	text := new(big.Float).SetPrec(64).Add(x, y).Text('f', 17)
	text = strings.TrimSuffix(strings.TrimRight(text, "0"), ".")
	if text == "-0" || text == "" {
		return "0"
	}
	return text
}

// hrandfield says only how many fields there are to come: see tidyHash.
func (m *model) hrandfield(_ string, a []string) string {
	if len(a) == 1 {
		h, err := m.hash(a[0])
		switch {
		case err != "":
			return err
		case len(h.fields) == 0:
			return m.null()
		}
		return bulk(h.fields[0].name)
	}
	n, ok := integer(a[1])
	switch {
	case !ok:
		return fail(notInt)
	case n == minInt64:
		return fail("ERR value is out of range, value must between -9223372036854775807 and 9223372036854775807")
	case len(a) > 3 || len(a) == 3 && !strings.EqualFold(a[2], "withvalues"):
		return fail(syntax)
	case len(a) == 3 && (n < -maxInt64/2 || n > maxInt64/2):
		return fail("ERR value is out of range")
	}
	h, err := m.hash(a[0])
	if err != "" {
		return err
	}
	size := int64(len(h.fields))
	switch {
	case size == 0:
		n = 0
	case n < 0:
		n = -n
	default:
		n = min(n, size)
	}
	if len(a) == 3 && m.proto == 2 {
		n *= 2
	}
	return "*" + strconv.FormatInt(n, 10) + "\r\n"
}

func (m *model) hscan(_ string, a []string) string {
	if _, err := strconv.ParseUint(a[1], 10, 64); err != nil {
		return fail("ERR invalid cursor")
	}
	h, err := m.hash(a[0])
	if err != "" {
		return err
	}
	pattern, values := "*", true
	for i := 2; i < len(a) && len(h.fields) > 0; i += 2 {
		switch o := strings.ToLower(a[i]); {
		case o == "novalues":
			values = false
			i--
		case i+1 == len(a):
			return fail(syntax)
		case o == "count":
			n, ok := integer(a[i+1])
			if !ok {
				return fail(notInt)
			}
			if n < 1 {
				return fail(syntax)
			}
		case o == "match":
			pattern = a[i+1]
		default:
			return fail(syntax)
		}
	}
	var out []string
	for _, f := range h.fields {
		if !match(pattern, f.name) {
			continue
		}
		out = append(out, bulk(f.name))
		if values {
			out = append(out, bulk(f.value))
		}
	}
	return array(bulk("0"), array(out...))
}

// tidyHash takes the order out of a reply, and chance.
func tidyHash(o op, reply string) string {
	name := strings.ToLower(o.args[0])
	if reply[0] == '-' || name == "hrandfield" && (reply[0] == '_' || reply == "$-1\r\n") {
		return reply
	}
	head, rest, _ := strings.Cut(reply, "\r\n")
	switch name {
	case "hrandfield":
		if reply[0] == '$' {
			return "some field"
		}
		return head
	case "hgetall":
		return head + sortedPairs(rest)
	case "hscan":
		if !wholeScan(o.args) {
			return head
		}
		cursor, rest, _ := strings.Cut(rest, "*")
		n, rest, _ := strings.Cut(rest, "\r\n")
		if slices.ContainsFunc(o.args, func(s string) bool { return strings.EqualFold(s, "novalues") }) {
			return head + cursor + n + strings.Join(sortedBulks(rest), "")
		}
		return head + cursor + n + sortedPairs(rest)
	}
	return head + strings.Join(sortedBulks(rest), "")
}

// wholeScan says whether a page is large enough for all fields that a test has:
// its arguments may have been cut, or have grown.
func wholeScan(args []string) bool {
	is := func(s string) bool { return strings.EqualFold(s, "count") }
	return len(args) > 4 && is(args[3]) && args[4] == "1000" && !slices.ContainsFunc(args[5:], is)
}

// sortedPairs sorts pairs of strings.
func sortedPairs(rest string) string {
	bulks := cutBulks(rest)
	var pairs []string
	for i := 0; i+1 < len(bulks); i += 2 {
		pairs = append(pairs, bulks[i]+bulks[i+1])
	}
	slices.Sort(pairs)
	return strings.Join(pairs, "")
}

// cutBulks cuts strings apart.
func cutBulks(rest string) (elems []string) {
	for rest != "" {
		head, _, _ := strings.Cut(rest, "\r\n")
		n, err := strconv.Atoi(head[1:])
		if err != nil || len(head)+n+4 > len(rest) {
			return append(elems, rest)
		}
		end := len(head) + 2 + n + 2
		elems = append(elems, rest[:end])
		rest = rest[end:]
	}
	return elems
}
