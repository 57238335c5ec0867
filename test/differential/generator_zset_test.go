package differential

import "strconv"

// Scores are halves, so that sums of them are exact, and are never zero with a
// sign.
func (g *generator) score() string {
	switch {
	case g.chance(70):
		return strconv.Itoa(g.IntN(12) - 4)
	case g.chance(60):
		return strconv.FormatFloat(float64(g.IntN(40)-10)/2, 'f', -1, 64)
	case g.chance(60):
		return pick(g, []string{"inf", "-inf", "+inf", "1e3", "100000", "-2.25"})
	}
	return pick(g, []string{"abc", "", "nan", "1x", "--1"})
}

func (g *generator) scoreEnd() string {
	s := g.score()
	if g.chance(25) {
		return "(" + s
	}
	if g.chance(20) {
		return pick(g, []string{"-inf", "+inf"})
	}
	return s
}

func (g *generator) lexEnd() string {
	if g.chance(30) {
		return pick(g, []string{"-", "+", "-", "+", "x", ""})
	}
	return pick(g, []string{"(", "["}) + g.member()
}

func (g *generator) limit(args []string) []string {
	if g.chance(30) {
		args = append(args, g.word("limit"), g.int("0", "1", "2", "5", "20"), g.int("0", "1", "2", "5", "-1"))
	}
	return args
}

func (g *generator) withScores(args []string) []string {
	if g.chance(50) {
		args = append(args, g.word("withscores"))
	}
	return args
}

func (g *generator) rankEnd() string { return g.int(strconv.Itoa(g.IntN(16) - 6)) }

func (g *generator) zsetCommand() []string {
	k := g.key()
	switch g.IntN(32) {
	case 0, 1, 2, 3, 4, 5, 6:
		args := []string{"ZADD", k}
		for g.chance(30) && len(args) < 6 {
			args = append(args, g.word(pick(g, []string{"nx", "xx", "gt", "lt", "ch", "incr"})))
		}
		for range 1 + g.IntN(5) {
			args = append(args, g.score(), g.member())
		}
		return args
	case 7, 8:
		return []string{"ZINCRBY", k, g.score(), g.member()}
	case 9:
		return append([]string{"ZREM", k}, g.members(4)...)
	case 10:
		return []string{"ZCARD", k}
	case 11:
		return append([]string{"ZMSCORE", k}, g.members(4)...)
	case 12:
		return []string{"ZSCORE", k, g.member()}
	case 13, 14:
		args := []string{pick(g, []string{"ZRANK", "ZREVRANK"}), k, g.member()}
		if g.chance(30) {
			args = append(args, g.word(pick(g, []string{"withscore", "withscore", "withscores"})))
		}
		return args
	case 15:
		return []string{"ZCOUNT", k, g.scoreEnd(), g.scoreEnd()}
	case 16:
		return []string{"ZREMRANGEBYRANK", k, g.rankEnd(), g.rankEnd()}
	case 17:
		return []string{"ZREMRANGEBYSCORE", k, g.scoreEnd(), g.scoreEnd()}
	case 18:
		args := []string{"ZRANGE", k, g.rankEnd(), g.rankEnd()}
		if g.chance(40) {
			args = append(args, g.word("rev"))
		}
		return g.withScores(args)
	case 19:
		args := []string{"ZRANGE", k, g.scoreEnd(), g.scoreEnd(), g.word("byscore")}
		if g.chance(40) {
			args = append(args, g.word("rev"))
		}
		return g.withScores(g.limit(args))
	case 20:
		return g.withScores([]string{"ZREVRANGE", k, g.rankEnd(), g.rankEnd()})
	case 21, 22:
		return g.withScores(g.limit([]string{pick(g, []string{"ZRANGEBYSCORE", "ZREVRANGEBYSCORE"}), k, g.scoreEnd(), g.scoreEnd()}))
	case 23:
		if g.chance(50) {
			return []string{"ZRANGESTORE", k, g.key(), g.rankEnd(), g.rankEnd()}
		}
		return g.limit([]string{"ZRANGESTORE", k, g.key(), g.scoreEnd(), g.scoreEnd(), g.word("byscore")})
	case 24:
		args := []string{pick(g, []string{"ZPOPMIN", "ZPOPMAX"}), k}
		if g.chance(60) {
			args = append(args, g.int("0", "1", "2", "3", "100", "-1"))
		}
		return args
	case 25:
		keys := g.keys(3)
		args := append([]string{"ZMPOP", strconv.Itoa(len(keys))}, keys...)
		args = append(args, g.word(pick(g, []string{"min", "max", "min", "max", "foo"})))
		if g.chance(40) {
			args = append(args, g.word("count"), g.int("1", "2", "5", "0"))
		}
		return args
	case 26, 27, 28:
		return g.zalgebra()
	case 29:
		g.lexCommands()
	case 30:
		if g.chance(30) {
			args := []string{"ZADD", k}
			for i := range 120 + g.IntN(15) {
				args = append(args, strconv.Itoa(i%7), "m"+strconv.Itoa(i))
			}
			return args
		}
	}
	return []string{"OBJECT", g.word("encoding"), k}
}

func (g *generator) zalgebra() []string {
	name := pick(g, []string{"ZUNION", "ZINTER", "ZDIFF", "ZUNIONSTORE", "ZINTERSTORE", "ZDIFFSTORE", "ZINTERCARD"})
	args := []string{name}
	if name[len(name)-1] == 'E' { // ...STORE
		args = append(args, g.key())
	}
	keys := g.keys(4)
	args = append(append(args, strconv.Itoa(len(keys))), keys...)
	for g.chance(40) && len(args) < 14 {
		switch g.IntN(4) {
		case 0:
			args = append(args, g.word("weights"))
			for range keys {
				args = append(args, pick(g, []string{"1", "2", "0.5", "3", "2", "x"}))
			}
		case 1:
			args = append(args, g.word("aggregate"), g.word(pick(g, []string{"sum", "min", "max", "max", "foo"})))
		case 2:
			args = append(args, g.word("withscores"))
		case 3:
			args = append(args, g.word("limit"), g.int("0", "1", "2", "100", "-1"))
		}
	}
	return args
}

// lexCommands work on a key of which all scores are the same.
func (g *generator) lexCommands() {
	k := g.key()
	add := []string{"ZADD", k}
	for range 1 + g.IntN(10) {
		add = append(add, "0", g.member())
	}
	g.ops = append(g.ops, op{args: []string{"DEL", k}}, op{args: add})
	for range 3 {
		switch g.IntN(4) {
		case 0:
			g.cmd("ZLEXCOUNT", k, g.lexEnd(), g.lexEnd())
		case 1:
			g.cmd("ZREMRANGEBYLEX", k, g.lexEnd(), g.lexEnd())
		case 2:
			g.cmd(g.limit([]string{pick(g, []string{"ZRANGEBYLEX", "ZREVRANGEBYLEX"}), k, g.lexEnd(), g.lexEnd()})...)
		case 3:
			g.cmd(g.limit([]string{"ZRANGE", k, g.lexEnd(), g.lexEnd(), g.word("bylex")})...)
		}
	}
}
