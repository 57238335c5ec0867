package comparer

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"redoubt/client"
)

// head is what is asked of each key at first.
type head struct {
	kind string // none: it does not exist
	ttl  int64  // milliseconds, as expiryCommand tells it; -1: none, -2: no key
}

// expiryCommand returns a command that tells when a key expires: PEXPIRETIME, or PTTL if a side
// is older than Redis 7.0 and does not know it.
func expiryCommand(sides ...*client.Client) (string, error) {
	for _, side := range sides {
		_, err := side.Do("PEXPIRETIME", "no such key")
		var refused client.ServerError
		switch {
		case errors.As(err, &refused) && strings.Contains(strings.ToLower(string(refused)), "unknown command"):
			return "PTTL", nil
		case err != nil:
			return "", err
		}
	}
	return "PEXPIRETIME", nil
}

// askHeads asks for the heads of keys, and readHeads reads them.
func askHeads(c *client.Client, keys []string, expiry string) error {
	for _, k := range keys {
		c.Send("TYPE", k)
		c.Send(expiry, k)
	}
	return c.Flush()
}

func readHeads(c *client.Client, keys []string) ([]head, error) {
	list := make([]head, len(keys))
	for i := range keys {
		kind, err := c.Read()
		if err != nil {
			return nil, err
		}
		ttl, err := c.Read()
		if err != nil {
			return nil, err
		}
		list[i] = head{kind.Text, ttl.Number()}
	}
	return list, nil
}

// key returns how a key differs, or "".
func (c *comparison) key(key string, from, to head) (what string, err error) {
	switch {
	case from.kind == to.kind && from.kind == "none":
		return "", nil
	case to.kind == "none":
		return "only " + c.From.String() + " has it", nil
	case from.kind == "none":
		return "only " + c.To.String() + " has it", nil
	case from.kind != to.kind:
		return fmt.Sprintf("it is a %s, and a %s at %s", from.kind, to.kind, c.To), nil
	case (from.ttl < 0) != (to.ttl < 0):
		return fmt.Sprintf("it %s, and %s at %s", c.lives(from.ttl), c.lives(to.ttl), c.To), nil
	}
	if d := from.ttl - to.ttl; d > c.Skew.Milliseconds() || -d > c.Skew.Milliseconds() {
		return fmt.Sprintf("it %s, and %s at %s", c.lives(from.ttl), c.lives(to.ttl), c.To), nil
	}
	switch from.kind {
	case "string":
		what, err = c.str(key)
	case "list":
		what, err = c.list(key)
	case "set":
		what, err = c.members(key, set)
	case "hash":
		what, err = c.members(key, hash)
	case "zset":
		what, err = c.members(key, zset)
	case "stream":
		what, err = c.stream(key)
	default:
		return fmt.Sprintf("its type %s cannot be compared", from.kind), nil
	}
	var refused client.ServerError
	if errors.As(err, &refused) && strings.HasPrefix(string(refused), "WRONGTYPE") {
		return "its type has changed meanwhile", nil
	}
	return what, err
}

func (c *comparison) lives(ttl int64) string {
	switch {
	case ttl < 0:
		return "never expires"
	case c.expiry == "PEXPIRETIME":
		return "expires at " + time.UnixMilli(ttl).UTC().Format("2006-01-02T15:04:05.000Z")
	}
	return "expires in " + (time.Duration(ttl) * time.Millisecond).String()
}

// both asks both sides the same, and returns their replies.
func (c *comparison) both(words ...string) (from, to client.Value, err error) {
	c.from.Send(words...)
	c.to.Send(words...)
	if err := c.to.Flush(); err != nil {
		return from, to, err
	}
	if from, err = c.from.Read(); err != nil {
		return from, to, err
	}
	to, err = c.to.Read()
	return from, to, err
}

// size compares the replies to a command that tells the size of a value.
func (c *comparison) size(noun string, words ...string) (n int64, what string, err error) {
	from, to, err := c.both(words...)
	if err == nil && from.Text != to.Text {
		what = fmt.Sprintf("it has %s %s, and %s at %s", from.Text, noun, to.Text, c.To)
	}
	return from.Number(), what, err
}

const (
	pieceBytes = 1 << 20
	pieceItems = 512
)

func (c *comparison) str(key string) (string, error) {
	n, what, err := c.size("bytes", "STRLEN", key)
	for at := int64(0); at < n && what == "" && err == nil; at += pieceBytes {
		var from, to client.Value
		from, to, err = c.both("GETRANGE", key, strconv.FormatInt(at, 10), strconv.FormatInt(at+pieceBytes-1, 10))
		if from.Text != to.Text {
			what = fmt.Sprintf("the bytes from %d on differ", at)
		}
	}
	return what, err
}

func (c *comparison) list(key string) (string, error) {
	n, what, err := c.size("elements", "LLEN", key)
	for at := int64(0); at < n && what == "" && err == nil; at += pieceItems {
		var from, to client.Value
		from, to, err = c.both("LRANGE", key, strconv.FormatInt(at, 10), strconv.FormatInt(at+pieceItems-1, 10))
		for i := 0; i < max(len(from.List), len(to.List)) && what == ""; i++ {
			if i >= len(from.List) || i >= len(to.List) || from.List[i].Text != to.List[i].Text {
				what = fmt.Sprintf("the element %d differs", at+int64(i))
			}
		}
	}
	return what, err
}

// unordered is a type whose members come in any order.
type unordered struct {
	size, scan string
	pairs      bool     // SCAN yields members with values
	look       []string // the command that asks for one member
	noun       string
}

var (
	set  = unordered{"SCARD", "SSCAN", false, []string{"SISMEMBER"}, "members"}
	hash = unordered{"HLEN", "HSCAN", true, []string{"HGET"}, "fields"}
	zset = unordered{"ZCARD", "ZSCAN", true, []string{"ZSCORE"}, "members"}
)

// members compares the members of one side with those of the other; the sizes are equal, so
// the other side has no further ones.
func (c *comparison) members(key string, u unordered) (what string, err error) {
	if _, what, err = c.size(u.noun, u.size, key); what != "" || err != nil {
		return what, err
	}
	step := 1
	if u.pairs {
		step = 2
	}
	for cursor := "0"; ; {
		v, err := c.from.Do(u.scan, key, cursor, "COUNT", strconv.Itoa(pieceItems))
		if err != nil {
			return "", err
		}
		if len(v.List) != 2 {
			return "", client.ErrReply
		}
		cursor = v.List[0].Text
		items := v.List[1].Texts()
		for i := 0; i+step <= len(items); i += step {
			c.to.Send(append(u.look, key, items[i])...)
		}
		for i := 0; i+step <= len(items); i += step {
			r, err := c.to.Read()
			if err != nil {
				return "", err
			}
			if what == "" && (r.Null || !u.pairs && r.Text != "1" || u.pairs && !same(items[i+1], r.Text, u.size == "ZCARD")) {
				what = fmt.Sprintf("%.100q of its %s differs or is missing at %s", items[i], u.noun, c.To)
			}
		}
		if cursor == "0" || what != "" {
			return what, nil
		}
	}
}

// same reports whether two values are the same; scores may be written in two ways.
func same(a, b string, scores bool) bool {
	if a == b || !scores {
		return a == b
	}
	x, err := strconv.ParseFloat(a, 64)
	y, err2 := strconv.ParseFloat(b, 64)
	return err == nil && err2 == nil && x == y
}

// stream compares entries, the last id, and groups with their pending entries.
func (c *comparison) stream(key string) (string, error) {
	_, what, err := c.size("entries", "XLEN", key)
	for from := "-"; what == "" && err == nil; {
		var a, b client.Value
		if a, b, err = c.both("XRANGE", key, from, "+", "COUNT", strconv.Itoa(pieceItems)); err != nil || len(a.List)+len(b.List) == 0 {
			break
		}
		if what = entries(a, b); what != "" || len(a.List) == 0 {
			break
		}
		from = "(" + a.List[len(a.List)-1].List[0].Text
	}
	if what != "" || err != nil {
		return what, err
	}
	if what, err = c.described(key, "XINFO", "STREAM", key); what != "" || err != nil {
		return what, err
	}
	return c.described(key, "XINFO", "GROUPS", key)
}

// entries returns which of some entries of a stream is the first to differ.
func entries(a, b client.Value) string {
	for i := range max(len(a.List), len(b.List)) {
		if i >= len(a.List) || i >= len(b.List) || fmt.Sprint(a.List[i]) != fmt.Sprint(b.List[i]) {
			list := a.List
			if i >= len(list) {
				list = b.List
			}
			if len(list[i].List) > 0 {
				return fmt.Sprintf("the entry %s differs", list[i].List[0].Text)
			}
			return "an entry differs"
		}
	}
	return ""
}

// logical are the fields of XINFO that are data; the others tell how it is stored.
var logical = map[string]bool{"length": true, "last-generated-id": true, "name": true, "pending": true, "last-delivered-id": true}

// described compares the logical fields of a reply of XINFO.
func (c *comparison) described(key string, words ...string) (string, error) {
	from, to, err := c.both(words...)
	if err != nil {
		return "", err
	}
	if a, b := describe(from), describe(to); a != b {
		return fmt.Sprintf("%s %s says %s, and %s at %s", words[0], words[1], a, b, c.To), nil
	}
	return "", nil
}

func describe(v client.Value) string {
	var b strings.Builder
	for i := 0; i < len(v.List); i++ {
		if e := v.List[i]; len(e.List) > 0 {
			b.WriteString("(" + describe(e) + ")")
		} else if logical[e.Text] && i+1 < len(v.List) {
			i++
			fmt.Fprintf(&b, "%s=%q ", e.Text, v.List[i].Text)
		}
	}
	return b.String()
}
