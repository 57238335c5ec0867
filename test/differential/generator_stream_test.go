package differential

import (
	"strconv"
	"strings"
)

// streamCommands adds some commands about a stream, so that it becomes one whatever
// it was before. Their arguments have the forms that the model reads; what is wrong
// with others is said by the command scripts.
func (g *generator) streamCommands() {
	k := g.key()
	if g.chance(50) {
		g.ops = append(g.ops, op{args: []string{"DEL", k}})
	}
	for range 1 + g.IntN(40) {
		args := g.streamCommand(k)
		args[0] = g.word(args[0])
		g.ops = append(g.ops, op{args: args})
		if g.chance(3) {
			k = g.key()
		}
	}
}

func (g *generator) streamID() string {
	id := strconv.Itoa(g.IntN(12))
	if g.chance(80) {
		id += "-" + strconv.Itoa(g.IntN(3))
	}
	if g.chance(2) {
		return pick(g, []string{"x", "", "1-x", "abc-1", "18446744073709551616", "-1", "1-2-3"})
	}
	return id
}

func (g *generator) streamEnd() string {
	switch g.IntN(5) {
	case 0, 1:
		return pick(g, []string{"-", "+"})
	case 2:
		return "(" + strconv.Itoa(1+g.IntN(9)) + "-" + strconv.Itoa(g.IntN(2))
	}
	return g.streamID()
}

func (g *generator) streamPairs() (out []string) {
	fields := []string{"f", "f", "f", "g", "field", "1234", ""}
	for range 1 + g.IntN(3) {
		v := pick(g, values)
		if g.chance(15) {
			v = strings.Repeat("v", pick(g, []int{50, 70, 127, 130, 1300, 2000, 4095, 5000}))
		}
		out = append(out, pick(g, fields), v)
	}
	return out
}

func (g *generator) streamTrim() (out []string) {
	if g.chance(60) {
		out = append(out, g.word("maxlen"))
	} else {
		out = append(out, g.word("minid"))
	}
	approx := g.chance(50)
	if approx {
		out = append(out, "~")
	} else if g.chance(30) {
		out = append(out, "=")
	}
	if strings.EqualFold(out[0], "maxlen") {
		out = append(out, g.int("0", "1", "2", "3", "5", "8", "20", "-1"))
	} else {
		out = append(out, g.streamID())
	}
	if approx && g.chance(30) {
		out = append(out, g.word("limit"), pick(g, []string{"0", "1", "2", "3", "10"}))
	}
	return out
}

func (g *generator) streamCommand(k string) []string {
	group, who := pick(g, []string{"g", "g", "h", "group"}), pick(g, []string{"a", "b", "alice", ""})
	count := g.int("0", "1", "2", "3", "10", "-1")
	switch g.IntN(40) {
	default: // add
		args := []string{"XADD", k}
		if g.chance(5) {
			args = append(args, g.word("nomkstream"))
		}
		if g.chance(12) {
			args = append(args, g.streamTrim()...)
		}
		id := strconv.Itoa(g.IntN(12)) + "-*"
		if g.chance(20) {
			id = g.streamID()
		}
		return append(append(args, id), g.streamPairs()...)
	case 0:
		return []string{"XLEN", k}
	case 1, 2, 3:
		args := []string{pick(g, []string{"XRANGE", "XREVRANGE"}), k, g.streamEnd(), g.streamEnd()}
		if g.chance(30) {
			args = append(args, g.word("count"), count)
		}
		return args
	case 4, 5:
		args := []string{"XDEL", k, g.streamID()}
		for g.chance(50) {
			args = append(args, g.streamID())
		}
		return args
	case 6:
		return append([]string{"XTRIM", k}, g.streamTrim()...)
	case 7:
		return []string{"XSETID", k, g.streamID()}
	case 8:
		keys := append(g.keys(2), k)
		args := append([]string{"XREAD", g.word("count"), count, g.word("streams")}, keys...)
		for range keys {
			args = append(args, pick(g, []string{"$", "0", g.streamID(), g.streamID()}))
		}
		return args
	case 9, 10:
		args := []string{"XGROUP", g.word("create"), k, group, pick(g, []string{"$", "0", g.streamID()})}
		if g.chance(40) {
			args = append(args, g.word("mkstream"))
		}
		return args
	case 11:
		return []string{"XGROUP", g.word("setid"), k, group, pick(g, []string{"$", "0", g.streamID()})}
	case 12:
		if g.chance(30) {
			return []string{"XGROUP", g.word("destroy"), k, group}
		}
		return []string{"XGROUP", g.word(pick(g, []string{"createconsumer", "delconsumer"})), k, group, who}
	case 13, 14, 15, 16, 17:
		args := []string{"XREADGROUP", g.word("group"), group, who, g.word("count"), count}
		if g.chance(10) {
			args = append(args, g.word("noack"))
		}
		return append(args, g.word("streams"), k, pick(g, []string{">", ">", ">", "0", g.streamID()}))
	case 18, 19:
		return []string{"XACK", k, group, g.streamID(), g.streamID()}
	case 20:
		return []string{"XPENDING", k, group}
	case 21, 22:
		args := []string{"XPENDING", k, group, g.streamEnd(), g.streamEnd(), count}
		if g.chance(40) {
			args = append(args, who)
		}
		return args
	case 23, 24:
		args := []string{"XCLAIM", k, group, who, pick(g, []string{"0", "0", longIdle}), g.streamID(), g.streamID()}
		if g.chance(30) {
			args = append(args, g.word("force"))
		}
		if g.chance(30) {
			args = append(args, g.word("justid"))
		}
		return args
	case 25, 26:
		return []string{"XAUTOCLAIM", k, group, who, pick(g, []string{"0", "0", longIdle}), g.streamEnd(), g.word("count"), count}
	case 27:
		return []string{"XINFO", g.word("stream"), k}
	case 28, 29:
		return []string{"XINFO", g.word("groups"), k}
	}
}
