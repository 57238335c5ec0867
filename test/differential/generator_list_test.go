package differential

import "strconv"

// listElement: they are few, so that equal ones meet.
func (g *generator) listElement() string {
	if g.chance(70) {
		return pick(g, []string{"a", "b", "c", "12", "-300", ""})
	}
	return g.value()
}

func (g *generator) listElements() (out []string) {
	most := 4
	if g.chance(10) {
		most = 60
	}
	for range 1 + g.IntN(most) {
		out = append(out, g.listElement())
	}
	return out
}

func (g *generator) listIndex() string {
	n := g.IntN(20) - 8
	if g.chance(10) {
		n = g.IntN(200) - 100
	}
	return g.int(strconv.Itoa(n))
}

func (g *generator) listEnd() string {
	if g.chance(3) {
		return g.value()
	}
	return g.word(pick(g, []string{"left", "right"}))
}

func (g *generator) listCommand() []string {
	k := g.key()
	switch g.IntN(26) {
	case 0, 1, 2, 3, 4, 5:
		return append([]string{pick(g, []string{"LPUSH", "RPUSH", "LPUSH", "RPUSH", "LPUSHX", "RPUSHX"}), k}, g.listElements()...)
	case 6, 7:
		return []string{pick(g, []string{"LPOP", "RPOP"}), k}
	case 8:
		return []string{pick(g, []string{"LPOP", "RPOP"}), k, g.listIndex()}
	case 9:
		return []string{"LINDEX", k, g.listIndex()}
	case 10, 11, 12:
		return []string{"LRANGE", k, g.int("0", "0", g.listIndex()), g.int("-1", "-1", g.listIndex())}
	case 13:
		return []string{"LSET", k, g.int("0", "-1", "1", "2", "-3"), g.listElement()}
	case 14, 15:
		return []string{"LINSERT", k, g.word(pick(g, []string{"before", "after"})), g.listElement(), g.listElement()}
	case 16:
		return []string{"LREM", k, g.int("0", "1", "-1", "2", "-3"), g.listElement()}
	case 17:
		return []string{"LTRIM", k, g.int("0", "1", "-8", "-20"), g.int("-1", "-2", "10", "3")}
	case 18:
		args := []string{"LPOS", k, g.listElement()}
		for g.chance(60) && len(args) < 11 {
			n := g.int("0", "1", "2", "-1", "-2", "5")
			if n == "-9223372036854775808" { // Redis 7.0 has another error
				n = "-3"
			}
			args = append(args, g.word(pick(g, []string{"rank", "count", "maxlen"})), n)
		}
		return args
	case 19, 20:
		return []string{"LMOVE", k, g.key(), g.listEnd(), g.listEnd()}
	case 21:
		return []string{"RPOPLPUSH", k, g.key()}
	case 22:
		keys := g.keys(3)
		args := append([]string{"LMPOP", g.int(strconv.Itoa(len(keys)))}, keys...)
		if args = append(args, g.listEnd()); g.chance(50) {
			args = append(args, g.word("count"), g.int("1", "2", "5", "0", "1000"))
		}
		return args
	case 23:
		if g.chance(70) {
			return []string{"LLEN", k}
		}
		g.ops = append(g.ops, op{args: append(append([]string{pick(g, []string{"BLPOP", "BRPOP"})}, g.keys(3)...), "0.001")})
		return []string{"LLEN", k}
	case 24:
		// Where a list unfolds.
		limits := []string{"-2", "-1", "1", "3", "8", "30", "-5"}
		g.ops = append(g.ops, op{args: []string{"CONFIG", "SET", "list-max-listpack-size", pick(g, limits)}})
	}
	return []string{"LLEN", k}
}
