package differential

import (
	"strconv"
	"strings"
)

// fieldPool are names of fields. The last is too long for a small hash.
var fieldPool = []string{"a", "b", "c", "d", "e", "n", "m", "", "field with space", "bin\x00\xff\r\n", strings.Repeat("long", 20)}

func (g *generator) field() string {
	if g.large && g.chance(5) {
		return g.longName()
	}
	if g.chance(97) {
		return fieldPool[g.IntN(len(fieldPool)-1)]
	}
	return pick(g, fieldPool)
}

func (g *generator) fieldValue() string {
	switch {
	case g.chance(40):
		return strconv.Itoa(g.IntN(20))
	case g.chance(90):
		for {
			if v := pick(g, values); len(v) <= 64 || g.chance(10) {
				return v
			}
		}
	}
	return g.value()
}

func (g *generator) fields(most int) (out []string) {
	for range 1 + g.IntN(most) {
		out = append(out, g.field())
	}
	return out
}

func (g *generator) pairs(most int) (out []string) {
	for range 1 + g.IntN(most) {
		out = append(out, g.field(), g.fieldValue())
	}
	return out
}

func (g *generator) hashCommand() []string {
	k := g.key()
	if g.newer && g.chance(40) {
		return g.fieldExpiry(k)
	}
	switch g.IntN(22) {
	case 0, 1, 2, 3, 4:
		return append([]string{pick(g, []string{"HSET", "HSET", "HSET", "HMSET"}), k}, g.pairs(5)...)
	case 5:
		return []string{"HSETNX", k, g.field(), g.fieldValue()}
	case 6:
		return []string{pick(g, []string{"HGET", "HEXISTS", "HSTRLEN"}), k, g.field()}
	case 7:
		return append([]string{"HMGET", k}, g.fields(5)...)
	case 8, 9, 10:
		return []string{pick(g, []string{"HGETALL", "HGETALL", "HKEYS", "HVALS"}), k}
	case 11:
		return []string{"HLEN", k}
	case 12, 13:
		return append([]string{"HDEL", k}, g.fields(4)...)
	case 14, 15:
		return []string{"HINCRBY", k, g.field(), g.int(strconv.Itoa(g.IntN(100)-50), "9223372036854775807", "-9223372036854775808")}
	case 16, 17:
		return []string{"HINCRBYFLOAT", k, g.field(), pick(g, floats)}
	case 18:
		args := []string{"HRANDFIELD", k}
		if g.chance(80) {
			args = append(args, g.int("0", "1", "2", "3", "-1", "-5", "-20", "100"))
		}
		if len(args) == 3 && g.chance(50) {
			args = append(args, g.word(pick(g, []string{"withvalues", "withvalues", "withvalues", "foo"})))
		}
		return args
	case 19, 20:
		// A page that has room for all of them.
		args := []string{"HSCAN", k, "0", g.word("count"), "1000"}
		for g.chance(30) && len(args) < 9 {
			switch g.IntN(3) {
			case 0:
				args = append(args, g.word("match"), pick(g, patterns))
			case 1:
				args = append(args, g.word(pick(g, []string{"count", "match", "foo"})))
			case 2:
				if g.newer {
					args = append(args, g.word("novalues"))
				}
			}
		}
		return args
	}
	if g.chance(5) { // many fields at once
		args := []string{"HSET", k}
		for i := range 505 + g.IntN(15) {
			args = append(args, "f"+strconv.Itoa(i), "v")
		}
		return args
	}
	return []string{"OBJECT", g.word("encoding"), k}
}

// fieldList is FIELDS, a number and fields, or fields with values.
func (g *generator) fieldList(list []string, each int) []string {
	n := strconv.Itoa(len(list) / each)
	if g.chance(4) {
		n = pick(g, oddInts)
	}
	word := g.word("fields")
	if g.chance(2) {
		word = g.word("foo")
	}
	return append([]string{word, n}, list...)
}

// fieldTime is a time for fields, in the near future or the past.
func (g *generator) fieldTime(seconds, relative bool) string {
	if relative {
		return g.span(seconds)
	}
	return g.moment(seconds)
}

func (g *generator) fieldExpiry(k string) []string {
	switch g.IntN(12) {
	case 0, 1, 2, 3:
		name := pick(g, []string{"HEXPIRE", "HPEXPIRE", "HEXPIREAT", "HPEXPIREAT"})
		if g.live { // two clocks, and times that are asked for
			name = pick(g, []string{"HEXPIREAT", "HPEXPIREAT"})
		}
		args := []string{name, k, g.fieldTime(name[1] == 'E', !strings.HasSuffix(name, "AT"))}
		if g.chance(35) {
			args = append(args, g.word(pick(g, []string{"nx", "xx", "gt", "lt", "gt", "lt", "foo"})))
		}
		return append(args, g.fieldList(g.fields(6), 1)...)
	case 4, 5, 6:
		names := []string{"HEXPIRETIME", "HPEXPIRETIME", "HTTL", "HPTTL"}
		if g.live {
			names = names[:2]
		}
		return append([]string{pick(g, names), k}, g.fieldList(g.fields(6), 1)...)
	case 7:
		return append([]string{"HPERSIST", k}, g.fieldList(g.fields(4), 1)...)
	case 8:
		return append([]string{"HGETDEL", k}, g.fieldList(g.fields(3), 1)...)
	case 9:
		args := []string{"HGETEX", k}
		switch {
		case g.chance(60):
			args = append(args, g.fieldTimeOption()...)
		case g.chance(40):
			args = append(args, g.word("persist"))
		}
		return append(args, g.fieldList(g.fields(4), 1)...)
	}
	args := []string{"HSETEX", k}
	if g.chance(30) {
		args = append(args, g.word(pick(g, []string{"fnx", "fxx"})))
	}
	switch {
	case g.chance(60):
		args = append(args, g.fieldTimeOption()...)
	case g.chance(40):
		args = append(args, g.word("keepttl"))
	}
	if g.chance(5) {
		args = append(args, g.word(pick(g, []string{"fnx", "fxx", "keepttl", "foo"})))
	}
	return append(args, g.fieldList(g.pairs(4), 2)...)
}

// fieldTimeOption is timeOption, without relative times when clocks differ.
func (g *generator) fieldTimeOption() []string {
	switch {
	case !g.live:
		return g.timeOption()
	case g.chance(50):
		return []string{g.word("exat"), g.moment(true)}
	}
	return []string{g.word("pxat"), g.moment(false)}
}
