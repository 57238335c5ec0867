package crash

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
)

// What clients do with collections. Each kind has few keys and many elements, so
// that they unfold into rows, and shrink and go again.

var kinds = []string{"hash", "list", "members", "rank", "stream"}

// few are the keys of a kind.
const few = 3

func (c *client) few(kind string) string { return fmt.Sprintf("%s:%d:%d", kind, c.id, c.rng.IntN(few)) }

// other is another key of the same kind.
func (c *client) other(kind, not string) string {
	for {
		if k := c.few(kind); k != not {
			return k
		}
	}
}

// some is mostly a small number, now and then a large one.
func (c *client) some(large int) int {
	if c.rng.IntN(6) == 0 {
		return 1 + c.rng.IntN(large)
	}
	return 1 + c.rng.IntN(3)
}

// mark makes a short value that no other write has.
func (c *client) mark() string {
	c.serial++
	return fmt.Sprintf("%d.%d", c.id, c.serial)
}

func (c *client) collectionOp() op {
	switch c.rng.IntN(12) {
	case 0:
		return c.keyOp(kinds[c.rng.IntN(len(kinds))])
	case 1, 2:
		return c.hashOp()
	case 3:
		return c.fadeOp()
	case 4, 5:
		return c.listOp()
	case 6, 7:
		return c.setOp()
	case 8, 9:
		return c.zsetOp()
	}
	return c.streamOp()
}

// keyOp does something to a key as a whole.
func (c *client) keyOp(kind string) op {
	db, k := c.db, c.few(kind)
	to := c.other(kind, k)
	switch c.rng.IntN(5) {
	case 0:
		return op{[]string{pick(c.rng, "DEL", "UNLINK"), k}, func(s state) string {
			_, there := s[db][k]
			delete(s[db], k)
			return one(there)
		}}
	case 1:
		return op{[]string{"RENAME", k, to}, func(s state) string {
			v, there := s[db][k]
			if !there {
				return "ERR"
			}
			delete(s[db], k)
			s[db][to] = v
			return "OK"
		}}
	case 2:
		return op{[]string{"COPY", k, to, "REPLACE"}, func(s state) string {
			v, there := s[db][k]
			if there {
				s[db][to] = v.clone()
			}
			return one(there)
		}}
	case 3:
		at := int64(farFuture + c.rng.IntN(1000))
		return op{[]string{"PEXPIREAT", k, strconv.FormatInt(at, 10)}, func(s state) string {
			v, there := s[db][k]
			if v.at = at; there {
				s[db][k] = v
			}
			return one(there)
		}}
	}
	return op{[]string{"PERSIST", k}, func(s state) string {
		v, there := s[db][k]
		had := v.at != 0
		if v.at = 0; there {
			s[db][k] = v
		}
		return one(there && had)
	}}
}

func (c *client) field() string { return fmt.Sprintf("f%d", c.rng.IntN(300)) }

// fieldsOf are so many different fields.
func (c *client) fieldsOf(n int) []string {
	seen := make(map[string]bool)
	for range n {
		seen[c.field()] = true
	}
	return slices.Sorted(maps.Keys(seen))
}

func (c *client) hashOp() op {
	db, k := c.db, c.few("hash")
	hash := func(f func(h hashModel) string) func(state) string {
		return func(s state) string { return edit(s, db, k, newHash, f) }
	}
	fields := c.fieldsOf(c.some(80))
	switch c.rng.IntN(8) {
	case 0, 1, 2:
		args := []string{"HSET", k}
		for _, f := range fields {
			args = append(args, f, c.mark())
		}
		return op{args, hash(func(h hashModel) string {
			added := 0
			for i := 2; i < len(args); i += 2 {
				if _, there := h[args[i]]; !there {
					added++
				}
				h[args[i]] = fieldModel{value: args[i+1]} // and the time goes
			}
			return itoa(added)
		})}
	case 3:
		return op{append([]string{"HDEL", k}, fields...), hash(func(h hashModel) string {
			n := len(h)
			for _, f := range fields {
				delete(h, f)
			}
			return itoa(n - len(h))
		})}
	case 4:
		f := fmt.Sprintf("n%d", c.rng.IntN(3))
		return op{[]string{"HINCRBY", k, f, "1"}, hash(func(h hashModel) string {
			n, _ := strconv.Atoi(h[f].value)
			h[f] = fieldModel{itoa(n + 1), h[f].at}
			return h[f].value
		})}
	case 5, 6:
		at := int64(farFuture + c.rng.IntN(1000))
		args := append([]string{"HPEXPIREAT", k, strconv.FormatInt(at, 10), "FIELDS", itoa(len(fields))}, fields...)
		return op{args, hash(func(h hashModel) string {
			var list []string
			for _, f := range fields {
				old, there := h[f]
				if !there {
					list = append(list, "-2")
					continue
				}
				h[f] = fieldModel{old.value, at}
				list = append(list, "1")
			}
			return reply(list)
		})}
	}
	args := append([]string{"HPERSIST", k, "FIELDS", itoa(len(fields))}, fields...)
	return op{args, hash(func(h hashModel) string {
		var list []string
		for _, f := range fields {
			switch old, there := h[f]; {
			case !there:
				list = append(list, "-2")
			case old.at == 0:
				list = append(list, "-1")
			default:
				h[f] = fieldModel{value: old.value}
				list = append(list, "1")
			}
		}
		return reply(list)
	})}
}

// fadeOp writes to hashes with fields that are gone before anybody looks, which
// the model does not know of.
func (c *client) fadeOp() op {
	db, k := c.db, c.few("fade")
	hash := func(f func(h hashModel) string) func(state) string {
		return func(s state) string { return edit(s, db, k, newHash, f) }
	}
	f, v := c.field(), c.mark()
	switch c.rng.IntN(4) {
	case 0:
		return op{[]string{"HSET", k, f, v}, hash(func(h hashModel) string {
			_, there := h[f]
			h[f] = fieldModel{value: v}
			return one(!there)
		})}
	case 1:
		return op{[]string{"HDEL", k, f}, hash(func(h hashModel) string {
			_, there := h[f]
			delete(h, f)
			return one(there)
		})}
	}
	args := []string{"HSETEX", k, "PX", itoa(1 + c.rng.IntN(20)), "FIELDS"}
	n := c.some(40)
	args = append(args, itoa(n))
	for i := range n {
		args = append(args, fmt.Sprintf("s%d", i), v)
	}
	return op{args, func(state) string { return "1" }}
}

func (c *client) listOp() op {
	db, k := c.db, c.few("list")
	list := func(f func(l *listModel) string) func(state) string {
		return func(s state) string { return edit(s, db, k, newList, f) }
	}
	side := pick(c.rng, "L", "R")
	switch c.rng.IntN(9) {
	case 0, 1, 2:
		var elems []string
		for range c.some(60) {
			elems = append(elems, c.mark())
		}
		return op{append([]string{side + "PUSH", k}, elems...), list(func(l *listModel) string {
			for _, e := range elems {
				if side == "L" {
					l.insert(0, e)
				} else {
					l.insert(len(*l), e)
				}
			}
			return itoa(len(*l))
		})}
	case 3, 4:
		n := c.some(30)
		return op{[]string{side + "POP", k, itoa(n)}, list(func(l *listModel) string {
			n := min(n, len(*l))
			switch {
			case n == 0:
				return "nil"
			case side == "L":
				return reply(l.cut(0, n))
			}
			gone := l.cut(len(*l)-n, len(*l))
			slices.Reverse(gone)
			return reply(gone)
		})}
	case 5:
		n := c.rng.IntN(200)
		return op{[]string{"LTRIM", k, "0", itoa(n)}, list(func(l *listModel) string {
			l.cut(min(n+1, len(*l)), len(*l))
			return "OK"
		})}
	case 6:
		i, v := c.rng.IntN(40), c.mark()
		return op{[]string{"LSET", k, itoa(i), v}, list(func(l *listModel) string {
			if i >= len(*l) {
				return "ERR"
			}
			(*l)[i] = v
			return "OK"
		})}
	case 7:
		i := c.rng.IntN(30)
		pivot, v := "", c.mark() // one that may be there
		if l, ok := c.acked[db][k].coll.(*listModel); ok && len(*l) > 0 {
			pivot = (*l)[min(i, len(*l)-1)]
		}
		return op{[]string{"LINSERT", k, "BEFORE", pivot, v}, list(func(l *listModel) string {
			at := slices.Index(*l, pivot)
			switch {
			case len(*l) == 0:
				return "0"
			case at < 0:
				return "-1"
			}
			l.insert(at, v)
			return itoa(len(*l))
		})}
	}
	to := c.few("list")
	return op{[]string{"LMOVE", k, to, "LEFT", "RIGHT"}, func(s state) string {
		moved := ""
		edit(s, db, k, newList, func(l *listModel) string {
			if len(*l) > 0 {
				moved = l.cut(0, 1)[0]
				if to == k {
					l.insert(len(*l), moved)
				}
			}
			return ""
		})
		if moved == "" {
			return "nil"
		}
		if to != k {
			edit(s, db, to, newList, func(l *listModel) string { l.insert(len(*l), moved); return "" })
		}
		return moved
	}}
}

func (c *client) setOp() op {
	db, k := c.db, c.few("members")
	word := pick(c.rng, "", "m") // while all members are numbers, a set is an intset
	var members []string
	for range c.some(80) {
		members = append(members, pick(c.rng, "", word)+itoa(c.rng.IntN(400)))
	}
	set := func(f func(m setModel) string) func(state) string {
		return func(s state) string { return edit(s, db, k, newSet, f) }
	}
	switch c.rng.IntN(7) {
	case 0, 1, 2:
		return op{append([]string{"SADD", k}, members...), set(func(m setModel) string {
			n := len(m)
			for _, x := range members {
				m[x] = true
			}
			return itoa(len(m) - n)
		})}
	case 3, 4:
		return op{append([]string{"SREM", k}, members...), set(func(m setModel) string {
			n := len(m)
			for _, x := range members {
				delete(m, x)
			}
			return itoa(n - len(m))
		})}
	case 5:
		to, x := c.other("members", k), members[0]
		return op{[]string{"SMOVE", k, to, x}, func(s state) string {
			if !look(s, db, k, newSet)[x] {
				return "0"
			}
			edit(s, db, k, newSet, func(m setModel) string { delete(m, x); return "" })
			return edit(s, db, to, newSet, func(m setModel) string { m[x] = true; return "1" })
		}}
	}
	a, b, how := c.few("members"), c.few("members"), pick(c.rng, "SUNIONSTORE", "SINTERSTORE", "SDIFFSTORE")
	return op{[]string{how, k, a, b}, func(s state) string {
		x, y, to := look(s, db, a, newSet), look(s, db, b, newSet), newSet()
		for m := range x {
			if how == "SUNIONSTORE" || y[m] == (how == "SINTERSTORE") {
				to[m] = true
			}
		}
		for m := range y {
			if how == "SUNIONSTORE" {
				to[m] = true
			}
		}
		delete(s[db], k)
		return edit(s, db, k, newSet, func(m setModel) string { maps.Copy(m, to); return itoa(len(m)) })
	}}
}

func (c *client) zsetOp() op {
	db, k := c.db, c.few("rank")
	zset := func(f func(z zsetModel) string) func(state) string {
		return func(s state) string { return edit(s, db, k, newZSet, f) }
	}
	member := func() string { return fmt.Sprintf("m%d", c.rng.IntN(2500)) }
	remove := func(z zsetModel, list []string) string {
		for _, m := range list {
			delete(z, m)
		}
		return itoa(len(list))
	}
	switch c.rng.IntN(9) {
	case 0, 1, 2:
		args := []string{"ZADD", k}
		for range c.some(400) {
			args = append(args, itoa(c.rng.IntN(1000)-500), member())
		}
		return op{args, zset(func(z zsetModel) string {
			n := len(z)
			for i := 2; i < len(args); i += 2 {
				z[args[i+1]], _ = strconv.Atoi(args[i])
			}
			return itoa(len(z) - n)
		})}
	case 3:
		m, by := member(), c.rng.IntN(100)-50
		return op{[]string{"ZINCRBY", k, itoa(by), m}, zset(func(z zsetModel) string {
			z[m] += by
			return itoa(z[m])
		})}
	case 4:
		args := []string{"ZREM", k}
		for range c.some(100) {
			args = append(args, member())
		}
		return op{args, zset(func(z zsetModel) string {
			n := len(z)
			remove(z, args[2:])
			return itoa(n - len(z))
		})}
	case 5:
		n := c.some(100)
		return op{[]string{"ZPOPMIN", k, itoa(n)}, zset(func(z zsetModel) string {
			list, out := z.ordered(), []string(nil)
			list = list[:min(n, len(list))]
			for _, m := range list {
				out = append(out, m, itoa(z[m]))
			}
			remove(z, list)
			return reply(out)
		})}
	case 6:
		from, n := c.rng.IntN(600), c.some(150)
		return op{[]string{"ZREMRANGEBYRANK", k, itoa(from), itoa(from + n - 1)}, zset(func(z zsetModel) string {
			list := z.ordered()
			return remove(z, list[min(from, len(list)):min(from+n, len(list))])
		})}
	case 7:
		m := member()
		return op{[]string{"ZRANK", k, m}, zset(func(z zsetModel) string {
			if at := slices.Index(z.ordered(), m); at >= 0 {
				return itoa(at)
			}
			return "nil"
		})}
	}
	a, b := c.few("rank"), c.few("rank")
	return op{[]string{"ZUNIONSTORE", k, "2", a, b}, func(s state) string {
		to := newZSet()
		for _, from := range []string{a, b} {
			for m, n := range look(s, db, from, newZSet) {
				to[m] += n
			}
		}
		delete(s[db], k)
		return edit(s, db, k, newZSet, func(z zsetModel) string { maps.Copy(z, to); return itoa(len(z)) })
	}}
}
