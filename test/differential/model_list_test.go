package differential

import (
	"slices"
	"strings"
)

// listValue is a list. It is never changed, so that a key and its copy may share
// one.
type listValue []string

func (l listValue) kind() string        { return "list" }
func (l listValue) at(int64) collection { return l }

// encoding is the one of short lists: tidy takes the other one for the same, since
// Redis's depends on what the list was before.
func (l listValue) encoding() string { return "listpack" }

var listHandlers = map[string]handler{
	"lpush": {-3, (*model).lpush}, "rpush": {-3, (*model).lpush}, "lpushx": {-3, (*model).lpush}, "rpushx": {-3, (*model).lpush},
	"lpop": {-2, (*model).lpop}, "rpop": {-2, (*model).lpop}, "llen": {2, (*model).llen}, "lindex": {3, (*model).lindex},
	"lrange": {4, (*model).lrange}, "lset": {4, (*model).lset}, "linsert": {5, (*model).linsert}, "lrem": {4, (*model).lrem},
	"ltrim": {4, (*model).ltrim}, "lpos": {-3, (*model).lpos}, "lmove": {5, (*model).lmove}, "rpoplpush": {3, (*model).lmove},
	"lmpop": {-4, (*model).lmpop}, "blpop": {-3, (*model).blpop}, "brpop": {-3, (*model).blpop},
	"config": {-2, func(*model, string, []string) string { return okReply }},
}

// list finds a list, as a copy that may be changed; an error is the reply.
func (m *model) list(key string) (l listValue, found bool, err string) {
	e, ok := m.get(key)
	if !ok {
		return nil, false, ""
	}
	if l, ok = e.coll.(listValue); !ok {
		return nil, false, fail(wrongType)
	}
	return slices.Clone(l), true, ""
}

// putList stores a list; an empty one is no key.
func (m *model) putList(key string, l listValue) {
	if len(l) == 0 {
		m.del(key)
		return
	}
	e, _ := m.get(key)
	m.put(key, entry{coll: l, exp: e.exp})
}

func (m *model) nullArray() string {
	if m.proto == 3 {
		return "_\r\n"
	}
	return "*-1\r\n"
}

func bulks(l []string) string {
	out := make([]string, len(l))
	for i, e := range l {
		out[i] = bulk(e)
	}
	return array(out...)
}

// add puts elements at an end, one after the other.
func (l listValue) add(left bool, e ...string) listValue {
	if !left {
		return append(l, e...)
	}
	e = slices.Clone(e)
	slices.Reverse(e)
	return append(e, l...)
}

// take removes elements from an end.
func (l listValue) take(left bool, n int) (taken []string, rest listValue) {
	n = min(n, len(l))
	if left {
		return slices.Clone(l[:n]), l[n:]
	}
	taken = slices.Clone(l[len(l)-n:])
	slices.Reverse(taken)
	return taken, l[:len(l)-n]
}

func (m *model) lpush(name string, a []string) string {
	l, found, err := m.list(a[0])
	if err != "" {
		return err
	}
	if !found && strings.HasSuffix(name, "x") {
		return num(0)
	}
	l = l.add(name[0] == 'l', a[1:]...)
	m.putList(a[0], l)
	return num(int64(len(l)))
}

func (m *model) lpop(name string, a []string) string {
	if len(a) > 2 {
		return fail("ERR wrong number of arguments for '%s' command", name)
	}
	count := int64(1)
	if len(a) == 2 {
		n, ok := integer(a[1])
		if !ok || n < 0 {
			return fail("ERR value is out of range, must be positive")
		}
		count = n
	}
	l, found, err := m.list(a[0])
	switch {
	case err != "":
		return err
	case !found && len(a) == 2:
		return m.nullArray()
	case !found:
		return m.null()
	}
	taken, rest := l.take(name[0] == 'l', int(min(count, 1<<30)))
	m.putList(a[0], rest)
	if len(a) == 2 {
		return bulks(taken)
	}
	return bulk(taken[0])
}

func (m *model) llen(_ string, a []string) string {
	l, _, err := m.list(a[0])
	if err != "" {
		return err
	}
	return num(int64(len(l)))
}

// index turns an index that may be negative into one of the list.
func (l listValue) index(i int64) (int, bool) {
	if i < 0 {
		i += int64(len(l))
	}
	return int(i), i >= 0 && i < int64(len(l))
}

func (m *model) lindex(_ string, a []string) string {
	l, found, err := m.list(a[0])
	if err != "" {
		return err
	}
	if !found {
		return m.null()
	}
	n, ok := integer(a[1])
	if !ok {
		return fail(notInt)
	}
	if i, ok := l.index(n); ok {
		return bulk(l[i])
	}
	return m.null()
}

// slice is the part of a list between two indexes.
func (l listValue) slice(first, last int64) listValue {
	n := int64(len(l))
	if first < 0 {
		first = max(0, first+n)
	}
	if last < 0 {
		last += n
	}
	if first > last || first >= n {
		return nil
	}
	return l[first : min(last, n-1)+1]
}

func (m *model) lrange(_ string, a []string) string {
	first, ok1 := integer(a[1])
	last, ok2 := integer(a[2])
	if !ok1 || !ok2 {
		return fail(notInt)
	}
	l, _, err := m.list(a[0])
	if err != "" {
		return err
	}
	return bulks(l.slice(first, last))
}

func (m *model) ltrim(_ string, a []string) string {
	first, ok1 := integer(a[1])
	last, ok2 := integer(a[2])
	if !ok1 || !ok2 {
		return fail(notInt)
	}
	l, found, err := m.list(a[0])
	if err != "" {
		return err
	}
	if found {
		m.putList(a[0], l.slice(first, last))
	}
	return okReply
}

func (m *model) lset(_ string, a []string) string {
	l, found, err := m.list(a[0])
	if err != "" {
		return err
	}
	if !found {
		return fail("ERR no such key")
	}
	n, ok := integer(a[1])
	if !ok {
		return fail(notInt)
	}
	i, ok := l.index(n)
	if !ok {
		return fail("ERR index out of range")
	}
	l[i] = a[2]
	m.putList(a[0], l)
	return okReply
}

func (m *model) linsert(_ string, a []string) string {
	where := strings.ToLower(a[1])
	if where != "before" && where != "after" {
		return fail(syntax)
	}
	l, found, err := m.list(a[0])
	if err != "" {
		return err
	}
	i := slices.Index(l, a[2])
	switch {
	case !found:
		return num(0)
	case i < 0:
		return num(-1)
	case where == "after":
		i++
	}
	l = slices.Insert(l, i, a[3])
	m.putList(a[0], l)
	return num(int64(len(l)))
}

func (m *model) lrem(_ string, a []string) string {
	n, ok := integer(a[1])
	if !ok {
		return fail(notInt)
	}
	l, found, err := m.list(a[0])
	if err != "" {
		return err
	}
	if !found {
		return num(0)
	}
	if n < 0 {
		slices.Reverse(l)
	}
	removed := int64(0)
	l = slices.DeleteFunc(l, func(e string) bool {
		if e != a[2] || n != 0 && (removed == n || removed == -n) {
			return false
		}
		removed++
		return true
	})
	if n < 0 {
		slices.Reverse(l)
	}
	m.putList(a[0], l)
	return num(removed)
}

func (m *model) lpos(_ string, a []string) string {
	rank, count, most := int64(1), int64(-1), int64(0)
	for o := a[2:]; len(o) > 0; o = o[2:] {
		if len(o) < 2 {
			return fail(syntax)
		}
		n, ok := integer(o[1])
		switch strings.ToLower(o[0]) {
		case "rank":
			switch rank = n; {
			case !ok:
				return fail(notInt)
			case n == minInt64:
				return fail("ERR value is out of range, value must between -9223372036854775807 and 9223372036854775807")
			case n == 0:
				return fail("ERR RANK can't be zero: use 1 to start from the first match, 2 from the second ... or use negative to start from the end of the list")
			}
		case "count":
			if count = n; !ok || n < 0 {
				return fail("ERR COUNT can't be negative")
			}
		case "maxlen":
			if most = n; !ok || n < 0 {
				return fail("ERR MAXLEN can't be negative")
			}
		default:
			return fail(syntax)
		}
	}
	l, _, err := m.list(a[0])
	if err != "" {
		return err
	}
	back := rank < 0
	if back {
		slices.Reverse(l)
		rank = -rank
	}
	var found []string
	for i, e := range l {
		if e != a[1] || most > 0 && int64(i) >= most {
			continue
		}
		if rank--; rank > 0 {
			continue
		}
		if back {
			i = len(l) - 1 - i
		}
		found = append(found, num(int64(i)))
	}
	switch {
	case count < 0 && len(found) == 0:
		return m.null()
	case count < 0:
		return found[0]
	case count > 0 && int64(len(found)) > count:
		found = found[:count]
	}
	return array(found...)
}

func (m *model) lmove(name string, a []string) string {
	from, to := "right", "left"
	if name == "lmove" {
		from, to = strings.ToLower(a[2]), strings.ToLower(a[3])
		if from != "left" && from != "right" || to != "left" && to != "right" {
			return fail(syntax)
		}
	}
	l, found, err := m.list(a[0])
	if err != "" {
		return err
	}
	if !found {
		return m.null()
	}
	if _, _, err := m.list(a[1]); err != "" {
		return err
	}
	taken, rest := l.take(from == "left", 1)
	if a[0] == a[1] {
		m.putList(a[0], rest.add(to == "left", taken...))
		return bulk(taken[0])
	}
	m.putList(a[0], rest)
	d, _, _ := m.list(a[1])
	m.putList(a[1], d.add(to == "left", taken...))
	return bulk(taken[0])
}

func (m *model) lmpop(_ string, a []string) string {
	n, ok := integer(a[0])
	if !ok || n < 1 {
		return fail("ERR numkeys should be greater than 0")
	}
	if n >= int64(len(a)-1) {
		return fail(syntax)
	}
	keys, rest := a[1:1+n], a[1+n:]
	where, count := strings.ToLower(rest[0]), int64(1)
	if where != "left" && where != "right" {
		return fail(syntax)
	}
	if rest = rest[1:]; len(rest) > 0 {
		if !strings.EqualFold(rest[0], "count") || len(rest) < 2 {
			return fail(syntax)
		}
		if count, ok = integer(rest[1]); !ok || count < 1 {
			return fail("ERR count should be greater than 0")
		}
		if len(rest) > 2 {
			return fail(syntax)
		}
	}
	for _, k := range keys {
		l, found, err := m.list(k)
		if err != "" {
			return err
		}
		if found {
			taken, rest := l.take(where == "left", int(min(count, 1<<30)))
			m.putList(k, rest)
			return array(bulk(k), bulks(taken))
		}
	}
	return m.nullArray()
}

// blpop is a pop whose time is over when it finds nothing: nobody else is there to
// push.
func (m *model) blpop(name string, a []string) string {
	for _, k := range a[:len(a)-1] {
		l, found, err := m.list(k)
		if err != "" {
			return err
		}
		if found {
			taken, rest := l.take(name == "blpop", 1)
			m.putList(k, rest)
			return array(bulk(k), bulk(taken[0]))
		}
	}
	return m.nullArray()
}
