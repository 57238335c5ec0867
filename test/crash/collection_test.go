package crash

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// Models of hashes, lists, sets and sorted sets, as clients keep them.

// hashModel has fields with their values and times of death, 0 for none.
type hashModel map[string]fieldModel

type fieldModel struct {
	value string
	at    int64
}

func (h hashModel) clone() collection { return maps.Clone(h) }

func (h hashModel) String() string {
	var b strings.Builder
	b.WriteString("hash")
	for _, f := range slices.Sorted(maps.Keys(h)) {
		fmt.Fprintf(&b, " %s=%s", f, h[f].value)
		if at := h[f].at; at != 0 {
			fmt.Fprintf(&b, "@%d", at)
		}
	}
	return b.String()
}

// listModel is the elements of a list.
type listModel []string

func (l *listModel) clone() collection { c := slices.Clone(*l); return &c }
func (l *listModel) String() string    { return "list " + strings.Join(*l, " ") }

// insert puts elements before an index.
func (l *listModel) insert(i int, e ...string) { *l = slices.Insert(*l, i, e...) }

// cut removes elements and returns them.
func (l *listModel) cut(from, to int) []string {
	gone := slices.Clone((*l)[from:to])
	*l = slices.Delete(*l, from, to)
	return gone
}

// setModel is the members of a set.
type setModel map[string]bool

func (s setModel) clone() collection { return maps.Clone(s) }
func (s setModel) String() string {
	return "set " + strings.Join(slices.Sorted(maps.Keys(s)), " ")
}

// zsetModel has members with their scores.
type zsetModel map[string]int

func (z zsetModel) clone() collection { return maps.Clone(z) }

func (z zsetModel) String() string {
	var b strings.Builder
	b.WriteString("zset")
	for _, m := range z.ordered() {
		fmt.Fprintf(&b, " %s:%d", m, z[m])
	}
	return b.String()
}

// ordered are the members in the order of the set.
func (z zsetModel) ordered() []string {
	list := slices.Collect(maps.Keys(z))
	slices.SortFunc(list, func(a, b string) int { return cmp.Or(cmp.Compare(z[a], z[b]), cmp.Compare(a, b)) })
	return list
}

// empty says whether a collection has no elements, so that its key goes. A stream
// stays.
func empty(c collection) bool {
	switch c := c.(type) {
	case hashModel:
		return len(c) == 0
	case *listModel:
		return len(*c) == 0
	case setModel:
		return len(c) == 0
	case zsetModel:
		return len(c) == 0
	}
	return false
}

// edit changes the collection at a key, which none makes if there is none. f
// returns the reply.
func edit[C collection](s state, db int, key string, none func() C, f func(c C) string) string {
	v, there := s[db][key]
	var c C
	if there {
		c = v.coll.(C)
	} else {
		c = none()
	}
	reply := f(c)
	if empty(c) {
		delete(s[db], key)
	} else {
		s[db][key] = value{coll: c, at: v.at}
	}
	return reply
}

// look is edit for what only reads.
func look[C collection](s state, db int, key string, none func() C) C {
	if v, there := s[db][key]; there {
		return v.coll.(C)
	}
	return none()
}

func newHash() hashModel  { return hashModel{} }
func newList() *listModel { return new(listModel) }
func newSet() setModel    { return setModel{} }
func newZSet() zsetModel  { return zsetModel{} }

// reply is a list as plain shows it.
func reply(list []string) string {
	if len(list) == 0 {
		return "[]"
	}
	return "[" + strings.Join(list, " ") + "]"
}

func itoa(n int) string { return strconv.Itoa(n) }
