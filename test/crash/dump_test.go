package crash

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"redoubt/internal/respclient"
)

// Reading collections from a server into the texts that the models have.

// read is the text of what is at a key; it says false if there is nothing.
func read(conn *respclient.Client, key string) (text string, ok bool, err error) {
	r := &reader{conn: conn, key: key}
	switch kind := r.do("TYPE", key).Str; kind {
	case "none":
	case "string":
		v := r.do("GET", key)
		return v.Str, !v.IsNull, r.err
	case "hash":
		text = r.hash()
	case "list":
		l := listModel(r.strings("LRANGE", key, "0", "-1"))
		text = l.String()
	case "set":
		members := r.strings("SMEMBERS", key)
		slices.Sort(members)
		text = "set " + strings.Join(members, " ")
	case "zset":
		text = "zset"
		for i, s := range r.strings("ZRANGE", key, "0", "-1", "WITHSCORES") {
			text += [...]string{" ", ":"}[i%2] + s
		}
	case "stream":
		text = r.stream()
	default:
		r.fail(fmt.Errorf("%s has the type %s", key, kind))
	}
	return text, text != "", r.err
}

// reader reads one key; its first error stays.
type reader struct {
	conn *respclient.Client
	key  string
	err  error
}

func (r *reader) fail(err error) {
	if r.err == nil {
		r.err = err
	}
}

func (r *reader) do(args ...string) respclient.Value {
	v, err := r.conn.Do(args...)
	if err == nil && v.IsError() {
		err = fmt.Errorf("%.80q answers %s", args, v.Str)
	}
	if err != nil {
		r.fail(err)
		return respclient.Value{}
	}
	return v
}

func (r *reader) strings(args ...string) (list []string) {
	for _, e := range r.do(args...).Elems {
		list = append(list, e.Str)
	}
	return list
}

func (r *reader) hash() string {
	list := r.strings("HGETALL", r.key)
	if len(list) == 0 { // its last field has just died
		return ""
	}
	h, args := hashModel{}, []string{"HPEXPIRETIME", r.key, "FIELDS", itoa(len(list) / 2)}
	for i := 0; i < len(list); i += 2 {
		h[list[i]] = fieldModel{value: list[i+1]}
		args = append(args, list[i])
	}
	for i, at := range r.strings(args...) {
		n, _ := strconv.ParseInt(at, 10, 64)
		f := h[args[4+i]]
		f.at = max(0, n)
		h[args[4+i]] = f
	}
	if n := r.do("HLEN", r.key).Int(); int(n) != len(h) && r.err == nil {
		r.fail(fmt.Errorf("HLEN of %s is %d, HGETALL finds %d fields", r.key, n, len(h)))
	}
	return h.String()
}

func (r *reader) stream() string {
	var b strings.Builder
	b.WriteString("stream")
	for _, e := range r.do("XRANGE", r.key, "-", "+").Elems {
		fmt.Fprintf(&b, " %s:%s", e.Elems[0].Str, e.Elems[1].Elems[1].Str)
	}
	groups := r.do("XINFO", "GROUPS", r.key).Elems
	slices.SortFunc(groups, func(a, b respclient.Value) int { return strings.Compare(a.Elems[1].Str, b.Elems[1].Str) })
	for _, g := range groups {
		name, last := g.Elems[1].Str, ""
		for i := 0; i < len(g.Elems); i += 2 {
			if g.Elems[i].Str == "last-delivered-id" {
				last = g.Elems[i+1].Str
			}
		}
		fmt.Fprintf(&b, " group %s at %s", name, last)
		for _, p := range r.do("XPENDING", r.key, name, "-", "+", "1000000").Elems {
			fmt.Fprintf(&b, " %s>%s", p.Elems[0].Str, p.Elems[1].Str)
		}
	}
	return b.String()
}
