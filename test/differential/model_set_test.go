package differential

import (
	"slices"
	"strings"
)

// setValue is a set: its members in the order in which they came. It is never
// changed, so that a key and its copy may share one.
type setValue struct {
	members []string
	enc     string
}

func (s *setValue) kind() string          { return "set" }
func (s *setValue) encoding() string      { return s.enc }
func (s *setValue) at(_ int64) collection { return s }

func (s *setValue) has(member string) bool { return slices.Contains(s.members, member) }

func allIntegers(list []string) bool {
	return !slices.ContainsFunc(list, func(m string) bool { _, ok := integer(m); return !ok })
}

func shortMembers(list []string) bool {
	return len(list) <= 128 && !slices.ContainsFunc(list, func(m string) bool { return len(m) > 64 })
}

// fitting is the smallest encoding for some members.
func fitting(list []string) string {
	switch {
	case len(list) <= 512 && allIntegers(list):
		return "intset"
	case !allIntegers(list) && shortMembers(list):
		return "listpack"
	}
	return "hashtable"
}

// add adds a member; the set is the caller's own.
func (s *setValue) add(member string) bool {
	if s.has(member) {
		return false
	}
	s.members = append(s.members, member)
	switch s.enc {
	case "intset":
		s.enc = fitting(s.members)
	case "listpack":
		if !shortMembers(s.members) {
			s.enc = "hashtable"
		}
	}
	return true
}

func (s *setValue) remove(member string) bool {
	n := len(s.members)
	s.members = slices.DeleteFunc(s.members, func(m string) bool { return m == member })
	return len(s.members) < n
}

// setAt finds a set, as a copy that may be changed, nil if there is none; an error
// is the reply.
func (m *model) setAt(key string) (*setValue, string) {
	e, ok := m.get(key)
	if !ok {
		return nil, ""
	}
	s, ok := e.coll.(*setValue)
	if !ok {
		return nil, fail(wrongType)
	}
	return &setValue{slices.Clone(s.members), s.enc}, ""
}

// putSet stores a set; an empty one is no key.
func (m *model) putSet(key string, s *setValue) {
	if len(s.members) == 0 {
		m.del(key)
		return
	}
	e, _ := m.get(key)
	m.put(key, entry{coll: s, exp: e.exp})
}

var setHandlers = map[string]handler{
	"sadd": {-3, (*model).sadd}, "srem": {-3, (*model).srem}, "sismember": {3, (*model).sismember},
	"smismember": {-3, (*model).smismember}, "scard": {2, (*model).scard}, "smembers": {2, (*model).smembers},
	"smove": {4, (*model).smove}, "spop": {-2, (*model).spop}, "srandmember": {-2, (*model).srandmember},
	"sscan": {-3, (*model).sscan}, "sinter": {-2, (*model).sinter}, "sunion": {-2, (*model).sinter}, "sdiff": {-2, (*model).sinter},
	"sinterstore": {-3, (*model).sinterstore}, "sunionstore": {-3, (*model).sinterstore}, "sdiffstore": {-3, (*model).sinterstore},
	"sintercard": {-3, (*model).sintercard},
}

// newSet is a set to which so many members will be added.
func newSet(first string, count int) *setValue {
	_, number := integer(first)
	switch {
	case number && count <= 512:
		return &setValue{enc: "intset"}
	case count <= 128:
		return &setValue{enc: "listpack"}
	}
	return &setValue{enc: "hashtable"}
}

func (m *model) sadd(_ string, a []string) string {
	s, err := m.setAt(a[0])
	if err != "" {
		return err
	}
	list := a[1:]
	if s == nil {
		s = newSet(list[0], len(list))
	} else if s.enc == "intset" && len(list) > 512 || s.enc == "listpack" && len(list) > 128 {
		s.enc = "hashtable"
	}
	n := int64(0)
	for _, member := range list {
		if s.add(member) {
			n++
		}
	}
	m.putSet(a[0], s)
	return num(n)
}

func (m *model) srem(_ string, a []string) string {
	s, err := m.setAt(a[0])
	if err != "" || s == nil {
		return orZero(err)
	}
	n := int64(0)
	for _, member := range a[1:] {
		if s.remove(member) {
			n++
		}
	}
	m.putSet(a[0], s)
	return num(n)
}

// orZero is an error, or the reply 0 if there is none.
func orZero(err string) string {
	if err != "" {
		return err
	}
	return num(0)
}

func (m *model) smismember(_ string, a []string) string {
	s, err := m.setAt(a[0])
	if err != "" {
		return err
	}
	var out []string
	for _, member := range a[1:] {
		n := int64(0)
		if s != nil && s.has(member) {
			n = 1
		}
		out = append(out, num(n))
	}
	return array(out...)
}

func (m *model) sismember(_ string, a []string) string {
	return strings.TrimPrefix(m.smismember("", a), "*1\r\n")
}

func (m *model) scard(_ string, a []string) string {
	s, err := m.setAt(a[0])
	if err != "" || s == nil {
		return orZero(err)
	}
	return num(int64(len(s.members)))
}

// setReply is a set in the protocol of the connection.
func (m *model) setReply(members []string) string {
	var out []string
	for _, member := range members {
		out = append(out, bulk(member))
	}
	reply := array(out...)
	if m.proto == 3 {
		return "~" + reply[1:]
	}
	return reply
}

func (m *model) smembers(_ string, a []string) string { return m.sinter("sinter", a) }

func (m *model) smove(_ string, a []string) string {
	from, err := m.setAt(a[0])
	if err != "" || from == nil {
		return orZero(err)
	}
	to, err := m.setAt(a[1])
	if err != "" {
		return err
	}
	if a[0] == a[1] {
		return m.sismember("", []string{a[0], a[2]})
	}
	if !from.remove(a[2]) {
		return num(0)
	}
	m.putSet(a[0], from)
	if to == nil {
		to = newSet(a[2], 1)
	}
	to.add(a[2])
	m.putSet(a[1], to)
	return num(1)
}

// spop knows what is popped only when all is, which is what the generator asks
// for.
func (m *model) spop(_ string, a []string) string {
	if len(a) > 2 {
		return fail(syntax)
	}
	count := int64(1)
	if len(a) == 2 {
		n, ok := integer(a[1])
		if !ok || n < 0 {
			return fail("ERR value is out of range, must be positive")
		}
		count = n
	}
	s, err := m.setAt(a[0])
	switch {
	case err != "":
		return err
	case s == nil && len(a) == 1:
		return m.null()
	case s == nil || count == 0:
		return m.setReply(nil)
	case int64(len(s.members)) > count:
		return "who knows what is popped"
	}
	m.del(a[0])
	if len(a) == 1 {
		return bulk(s.members[0])
	}
	return m.setReply(s.members)
}

// srandmember: which members come is left out by tidySet.
func (m *model) srandmember(_ string, a []string) string {
	if len(a) > 2 {
		return fail(syntax)
	}
	count := int64(1)
	if len(a) == 2 {
		n, ok := integer(a[1])
		switch {
		case !ok:
			return fail(notInt)
		case n == minInt64:
			return fail("ERR value is out of range, value must between -9223372036854775807 and 9223372036854775807")
		}
		count = n
	}
	s, err := m.setAt(a[0])
	switch {
	case err != "":
		return err
	case s == nil && len(a) == 1:
		return m.null()
	case s == nil:
		return array()
	case len(a) == 1:
		return bulk(s.members[0])
	}
	n := min(count, int64(len(s.members)))
	if count < 0 {
		n = -count
	}
	return array(slices.Repeat([]string{bulk("")}, int(n))...)
}

// sscan is a page with room for all members.
func (m *model) sscan(_ string, a []string) string {
	s, err := m.setAt(a[0])
	switch {
	case err != "":
		return err
	case s == nil:
		return array(bulk("0"), array())
	}
	pattern := "*"
	for i := 2; i < len(a); i += 2 {
		switch option := strings.ToLower(a[i]); {
		case option == "count" && i+1 < len(a):
			n, ok := integer(a[i+1])
			if !ok {
				return fail(notInt)
			}
			if n < 1 {
				return fail(syntax)
			}
		case option == "match" && i+1 < len(a):
			pattern = a[i+1]
		default:
			return fail(syntax)
		}
	}
	var out []string
	for _, member := range s.members {
		if match(pattern, member) {
			out = append(out, bulk(member))
		}
	}
	return array(bulk("0"), array(out...))
}

// operate is the outcome of an operation on sets, and the sets; nil for missing
// ones.
func (m *model) operate(name string, keys []string) (out []string, sets []*setValue, err string) {
	for _, k := range keys {
		s, err := m.setAt(k)
		if err != "" {
			return nil, nil, err
		}
		sets = append(sets, s)
	}
	in := func(s *setValue, member string) bool { return s != nil && s.has(member) }
	seen := map[string]bool{}
	for _, s := range sets {
		if s == nil {
			s = &setValue{}
		}
		for _, member := range s.members {
			n := 0
			for _, t := range sets {
				if in(t, member) {
					n++
				}
			}
			inFirst := in(sets[0], member)
			belongs := strings.HasPrefix(name, "sunion") || strings.HasPrefix(name, "sinter") && n == len(sets) ||
				strings.HasPrefix(name, "sdiff") && inFirst && n == 1
			if belongs && !seen[member] {
				seen[member] = true
				out = append(out, member)
			}
		}
	}
	return out, sets, ""
}

func (m *model) sinter(name string, a []string) string {
	out, _, err := m.operate(name, a)
	if err != "" {
		return err
	}
	return m.setReply(out)
}

func (m *model) sinterstore(name string, a []string) string {
	out, sets, err := m.operate(name, a[1:])
	if err != "" {
		return err
	}
	s := &setValue{members: out, enc: fitting(out)}
	if name == "sdiffstore" && sets[0] != nil && !slices.Contains(a[2:], a[1]) {
		// Redis may take the others from a copy of the first.
		one, two := 0, 0
		for _, t := range sets {
			if t != nil {
				one += len(sets[0].members)
				two += len(t.members)
			}
		}
		if one/2 > two {
			s.enc = fitting(sets[0].members)
		}
	}
	m.del(a[0])
	m.putSet(a[0], s)
	return num(int64(len(out)))
}

func (m *model) sintercard(_ string, a []string) string {
	n, ok := integer(a[0])
	if !ok || n < 1 {
		return fail("ERR numkeys should be greater than 0")
	}
	if n > int64(len(a)-1) {
		return fail("ERR Number of keys can't be greater than number of args")
	}
	limit := int64(0)
	for rest := a[1+n:]; len(rest) > 0; rest = rest[2:] {
		if !strings.EqualFold(rest[0], "limit") || len(rest) < 2 {
			return fail(syntax)
		}
		if limit, ok = integer(rest[1]); !ok || limit < 0 {
			return fail("ERR LIMIT can't be negative")
		}
	}
	out, _, err := m.operate("sinter", a[1:1+n])
	if err != "" {
		return err
	}
	count := int64(len(out))
	if limit > 0 {
		count = min(count, limit)
	}
	return num(count)
}

// tidySet takes the order out of the replies of set commands, and the choice out
// of SRANDMEMBER.
func tidySet(o op, reply string) string {
	head, rest, _ := strings.Cut(reply, "\r\n")
	if head == "" || !strings.Contains("*~$", head[:1]) || head == "$-1" {
		return reply
	}
	switch name := strings.ToLower(o.args[0]); {
	case name == "srandmember" && head[0] == '$':
		return "some member"
	case name == "srandmember":
		return head
	case name == "sscan" && head[0] == '*':
		before, list, _ := strings.Cut(rest, "*")
		head2, elems, _ := strings.Cut(list, "\r\n")
		return head + before + head2 + strings.Join(sortedBulks(elems), "")
	case head[0] == '$':
		return reply
	}
	return head + strings.Join(sortedBulks(rest), "")
}
