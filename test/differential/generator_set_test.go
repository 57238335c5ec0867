package differential

import (
	"strconv"
	"strings"
)

// memberPool are members of sets, many of them numbers. The last is too long for
// a small set.
var memberPool = []string{
	"1", "2", "3", "-1", "10", "9223372036854775807", "-9223372036854775808", "01", "a", "b", "c", "", "member with space",
	"bin\x00\xff\r\n", strings.Repeat("long", 16), strings.Repeat("long", 20),
}

func (g *generator) member() string {
	switch {
	case g.large && g.chance(5):
		return g.longName()
	case g.chance(50):
		return strconv.Itoa(g.IntN(12))
	case g.chance(97):
		return memberPool[g.IntN(len(memberPool)-1)]
	}
	return pick(g, memberPool)
}

// longName is one of some names of members and fields that are long and begin in the
// same way, which an engine may store in another way.
func (g *generator) longName() string {
	return strings.Repeat("name", 500+g.IntN(2)*1500) + pick(g, []string{"", "\x00", "1", "2", strings.Repeat("3", 100), strings.Repeat("\xff", 9000)})
}

func (g *generator) members(most int) (out []string) {
	for range 1 + g.IntN(most) {
		out = append(out, g.member())
	}
	return out
}

func (g *generator) setCommand() []string {
	k := g.key()
	switch g.IntN(24) {
	case 0, 1, 2, 3, 4:
		return append([]string{"SADD", k}, g.members(6)...)
	case 5: // numbers alone
		args := []string{"SADD", k}
		for range 1 + g.IntN(6) {
			args = append(args, strconv.Itoa(g.IntN(40)-20))
		}
		return args
	case 6, 7:
		return append([]string{"SREM", k}, g.members(5)...)
	case 8:
		return []string{"SISMEMBER", k, g.member()}
	case 9:
		return append([]string{"SMISMEMBER", k}, g.members(5)...)
	case 10:
		return []string{"SCARD", k}
	case 11, 12:
		return []string{"SMEMBERS", k}
	case 13, 14:
		return []string{"SMOVE", k, g.key(), g.member()}
	case 15: // without an argument too few or too many, by which much would depend on chance
		g.popAll(k)
		return []string{"SCARD", k}
	case 16:
		args := []string{"SRANDMEMBER", k}
		if g.chance(80) {
			args = append(args, g.int("0", "1", "2", "3", "-1", "-5", "-20", "100", "-9223372036854775808"))
		}
		return args
	case 17:
		g.scanSet(k)
		return []string{"SMEMBERS", k}
	case 18:
		return append([]string{pick(g, []string{"SINTER", "SUNION", "SDIFF"})}, g.keys(4)...)
	case 19, 20:
		return append([]string{pick(g, []string{"SINTERSTORE", "SUNIONSTORE", "SDIFFSTORE"}), k}, g.keys(5)...)
	case 21:
		keys := g.keys(4)
		args := append([]string{"SINTERCARD", strconv.Itoa(len(keys))}, keys...)
		if g.chance(10) {
			args[1] = g.int("0", "1", "-1", "5")
		}
		for g.chance(30) && len(args) < 10 {
			args = append(args, g.word(pick(g, []string{"limit", "limit", "limit", "foo"})), g.int("0", "1", "2", "100", "-1"))
		}
		return args
	case 22:
		if g.chance(40) {
			return g.manyMembers(k)
		}
	}
	return []string{"OBJECT", g.word("encoding"), k}
}

// manyMembers adds so many that a set has another form then, or nearly.
func (g *generator) manyMembers(k string) []string {
	args, name, n := []string{"SADD", k}, "m", 120+g.IntN(15)
	if g.chance(50) {
		name, n = "", 505+g.IntN(15)
	}
	for i := range n {
		args = append(args, name+strconv.Itoa(i))
	}
	return args
}

// popAll pops everything, so that it is known what is popped.
func (g *generator) popAll(k string) {
	args := []string{"SPOP", k, pick(g, []string{"100000", "100000", "100000", "0", "-1", "abc", "9223372036854775807", ""})}
	if g.chance(3) {
		args = append(args, "1")
	}
	g.ops = append(g.ops, op{args: args})
}

// scanSet is a page with room for all members.
func (g *generator) scanSet(k string) {
	args := []string{"SSCAN", k, "0", g.word("count"), "1000"}
	for g.chance(30) && len(args) < 9 {
		args = append(args, g.word(pick(g, []string{"match", "match", "match", "count", "foo"})))
		if g.chance(90) {
			args = append(args, pick(g, patterns))
		}
	}
	g.ops = append(g.ops, op{args: args})
}
