package crash

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// streamModel is a stream with its groups. The IDs of entries are a number and 0:
// a client's serial number, so that each is above all that were before.
type streamModel struct {
	entries []entryModel
	groups  map[string]*groupModel
}

type entryModel struct {
	id    int
	value string
}

type groupModel struct {
	last    int
	pending map[int]string // who has it
}

func newStream() *streamModel { return &streamModel{groups: make(map[string]*groupModel)} }

func (m *streamModel) clone() collection {
	c := &streamModel{slices.Clone(m.entries), make(map[string]*groupModel)}
	for name, g := range m.groups {
		c.groups[name] = &groupModel{g.last, maps.Clone(g.pending)}
	}
	return c
}

func (m *streamModel) String() string {
	var b strings.Builder
	b.WriteString("stream")
	for _, e := range m.entries {
		fmt.Fprintf(&b, " %d-0:%s", e.id, e.value)
	}
	for _, name := range slices.Sorted(maps.Keys(m.groups)) {
		g := m.groups[name]
		fmt.Fprintf(&b, " group %s at %d-0", name, g.last)
		for _, id := range slices.Sorted(maps.Keys(g.pending)) {
			fmt.Fprintf(&b, " %d-0>%s", id, g.pending[id])
		}
	}
	return b.String()
}

// has says whether there is such an entry.
func (m *streamModel) has(id int) bool {
	return slices.ContainsFunc(m.entries, func(e entryModel) bool { return e.id == id })
}

// recent is an ID that may be there.
func (c *client) recent() int { return max(1, c.serial-c.rng.IntN(400)) }

func (c *client) streamOp() op {
	db, k := c.db, c.few("stream")
	group, consumer := pick(c.rng, "g", "h"), pick(c.rng, "a", "b", "c")
	// stream changes a stream that there is; else the reply is missing.
	stream := func(missing string, f func(m *streamModel) string) func(state) string {
		return func(s state) string {
			m, ok := s[db][k].coll.(*streamModel)
			if !ok {
				return missing
			}
			return f(m)
		}
	}
	ofGroup := func(missing, lacking string, f func(m *streamModel, g *groupModel) string) func(state) string {
		return stream(missing, func(m *streamModel) string {
			g := m.groups[group]
			if g == nil {
				return lacking
			}
			return f(m, g)
		})
	}
	switch c.rng.IntN(14) {
	case 0, 1, 2, 3, 4:
		return c.addEntry(db, k)
	case 5:
		id := c.recent()
		return op{[]string{"XDEL", k, fmt.Sprint(id, "-0")}, stream("0", func(m *streamModel) string {
			n := len(m.entries)
			m.entries = slices.DeleteFunc(m.entries, func(e entryModel) bool { return e.id == id })
			return itoa(n - len(m.entries))
		})}
	case 6:
		most := c.rng.IntN(150)
		return op{[]string{"XTRIM", k, "MAXLEN", itoa(most)}, stream("0", func(m *streamModel) string {
			n := max(0, len(m.entries)-most)
			m.entries = m.entries[n:]
			return itoa(n)
		})}
	case 7:
		return op{[]string{"XGROUP", "CREATE", k, group, "0", "MKSTREAM"}, func(s state) string {
			return edit(s, db, k, newStream, func(m *streamModel) string {
				if m.groups[group] != nil {
					return "BUSYGROUP"
				}
				m.groups[group] = &groupModel{pending: make(map[int]string)}
				return "OK"
			})
		}}
	case 8, 9, 10:
		n := c.some(60)
		args := []string{"XREADGROUP", "GROUP", group, consumer, "COUNT", itoa(n), "STREAMS", k, ">"}
		return op{args, ofGroup("NOGROUP", "NOGROUP", func(m *streamModel, g *groupModel) string {
			var list []string
			for _, e := range m.entries {
				if e.id > g.last && len(list) < n {
					list = append(list, fmt.Sprintf("[%d-0 [f %s]]", e.id, e.value))
					g.last, g.pending[e.id] = e.id, consumer
				}
			}
			if list == nil {
				return "nil"
			}
			return reply([]string{reply([]string{k, reply(list)})})
		})}
	case 11:
		args := []string{"XACK", k, group}
		ids := make(map[int]bool)
		for range c.some(60) {
			ids[c.recent()] = true
		}
		for id := range ids {
			args = append(args, fmt.Sprint(id, "-0"))
		}
		return op{args, ofGroup("0", "0", func(_ *streamModel, g *groupModel) string {
			n := len(g.pending)
			maps.DeleteFunc(g.pending, func(id int, _ string) bool { return ids[id] })
			return itoa(n - len(g.pending))
		})}
	case 12:
		id := c.recent()
		return op{[]string{"XCLAIM", k, group, consumer, "0", fmt.Sprint(id, "-0"), "JUSTID"},
			ofGroup("NOGROUP", "NOGROUP", func(m *streamModel, g *groupModel) string {
				if _, pending := g.pending[id]; !pending {
					return "[]"
				}
				if !m.has(id) { // it was deleted: nobody can have it
					delete(g.pending, id)
					return "[]"
				}
				g.pending[id] = consumer
				return fmt.Sprintf("[%d-0]", id)
			})}
	}
	if c.rng.IntN(3) > 0 {
		return op{[]string{"XGROUP", "DELCONSUMER", k, group, consumer}, ofGroup("ERR", "NOGROUP", func(_ *streamModel, g *groupModel) string {
			n := len(g.pending)
			maps.DeleteFunc(g.pending, func(_ int, who string) bool { return who == consumer })
			return itoa(n - len(g.pending))
		})}
	}
	return op{[]string{"XGROUP", "DESTROY", k, group}, stream("ERR", func(m *streamModel) string {
		_, there := m.groups[group]
		delete(m.groups, group)
		return one(there)
	})}
}

// addEntry is XADD, sometimes with a limit of the length.
func (c *client) addEntry(db int, k string) op {
	v := c.mark()
	id, args, most := c.serial, []string{"XADD", k}, -1
	if c.rng.IntN(4) == 0 {
		most = c.rng.IntN(100)
		args = append(args, "MAXLEN", itoa(most))
	}
	return op{append(args, fmt.Sprint(id, "-0"), "f", v), func(s state) string {
		return edit(s, db, k, newStream, func(m *streamModel) string {
			m.entries = append(m.entries, entryModel{id, v})
			if most >= 0 {
				m.entries = m.entries[max(0, len(m.entries)-most):]
			}
			return fmt.Sprint(id, "-0")
		})
	}}
}
