package command

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// TestZSetsLikeRedis runs random calls of the commands on sorted sets here and on a
// real Redis, and compares, after each of them: the reply byte by byte, the events of
// the keyspace, the number of changes, and the content and the encoding of a set.
//
// It needs REDOUBT_ORACLE=1, and a redis-server of version 7.2 in REDIS_SERVER or in
// the path. REDOUBT_STEPS and REDOUBT_SEED choose the run.
func TestZSetsLikeRedis(t *testing.T) {
	steps, seed := randomRun(t)
	g := &zsetGen{callGen{rand.New(rand.NewPCG(seed, 13))}}
	redis, here := startRedis(t), newBench(t)
	redis.needs(t, "7.2")
	redis.call(t, "CONFIG", "SET", "notify-keyspace-events", "KEAmn")
	for i := range steps {
		if i%250 == 0 {
			here.limits.ZSetEntries, here.limits.ZSetValue = int64(g.pickInt(0, 3, 8, 128)), int64(g.pickInt(4, 64))
			here.limits.SetIntegers, here.limits.SetEntries, here.limits.SetValue = 512, 128, 64
			redis.call(t, "CONFIG", "SET", "zset-max-listpack-entries", strconv.FormatInt(here.limits.ZSetEntries, 10))
			redis.call(t, "CONFIG", "SET", "zset-max-listpack-value", strconv.FormatInt(here.limits.ZSetValue, 10))
			redis.call(t, "DEL", "a", "b", "c", "l", "s")
			here.run("DEL", "a", "b", "c", "l", "s")
		}
		call := g.call()
		show := fmt.Sprintf("step %d, limits %d and %d: %.300q", i, here.limits.ZSetEntries, here.limits.ZSetValue, call)
		if call[0][0] == 'B' && string(redis.call(t, "EXISTS", call[1])) == ":0\r\n" {
			continue // it would wait
		}
		redis.drain(t)
		redis.events = redis.events[:0]
		before := redis.changes(t)
		theirs := redis.call(t, call...)
		redis.drain(t)
		ours, fx := here.run(call...)
		if !bytes.Equal(ours, theirs) {
			t.Fatalf("%s\nours   %.500q\ntheirs %.500q", show, ours, theirs)
		}
		if after := redis.changes(t); after-before != fx.changes {
			t.Fatalf("%s\nours %d changes, theirs %d", show, fx.changes, after-before)
		}
		if ours[0] == '-' { // a failed call leaves no trace here, not even its misses
			redis.events = slices.DeleteFunc(redis.events, func(e string) bool { return strings.HasPrefix(e, "keymiss ") })
		}
		if !slices.Equal(fx.events, redis.events) {
			t.Fatalf("%s\nour events   %q\ntheir events %q", show, fx.events, redis.events)
		}
		key := g.key()
		ours, _ = here.run("ZRANGE", key, "0", "-1", "WITHSCORES")
		if theirs := redis.call(t, "ZRANGE", key, "0", "-1", "WITHSCORES"); !bytes.Equal(ours, theirs) {
			t.Fatalf("%s\n%s is %.500q, theirs is %.500q", show, key, ours, theirs)
		}
		if m := here.find(key); m.Exists() {
			name := encodingName(m)
			if theirs := redis.call(t, "OBJECT", "ENCODING", key); string(theirs) != fmt.Sprintf("$%d\r\n%s\r\n", len(name), name) {
				t.Fatalf("%s\nthe encoding of %s is %s, theirs is %q", show, key, name, theirs)
			}
		}
	}
}

// zsetGen makes random calls of the commands on sorted sets. The key l has one
// score alone, for ranges of names; s is a set.
type zsetGen struct{ callGen }

func (g *zsetGen) key() string { return g.pick("a", "b", "c") }

func (g *zsetGen) member() string {
	if g.IntN(12) == 0 {
		return g.pick("", "longer", strings.Repeat("x", 64), strings.Repeat("y", 65), "\x00\xff", "17", "-3")
	}
	return "m" + strconv.Itoa(g.IntN(20))
}

// score is never a zero with a sign, which Redis keeps in its large form.
func (g *zsetGen) score() string {
	switch g.IntN(12) {
	case 0:
		return g.pick("inf", "-inf", "+inf", "1e300", "-1e300", "1e-5")
	case 1:
		return strconv.FormatFloat(g.NormFloat64()*1000, 'g', -1, 64)
	case 2:
		return strconv.FormatFloat(float64(g.IntN(2000)-1000)/100, 'f', 2, 64)
	case 3:
		return g.pick("", "abc", "nan", "1 ", "0x10", "1e400", "3.", ".5")
	}
	return strconv.Itoa(1 + g.IntN(9))
}

func (g *zsetGen) end() string {
	s := g.pick(g.score(), g.score(), "-inf", "+inf")
	if g.IntN(4) == 0 {
		return "(" + s
	}
	return s
}

func (g *zsetGen) lexEnd() string {
	return g.pick("-", "+", "("+g.member(), "["+g.member(), "["+g.member(), "x")
}

func (g *zsetGen) rank() string {
	if g.IntN(30) == 0 {
		return g.pick("x", "1.5", "9223372036854775807", "-9223372036854775808", "")
	}
	return strconv.Itoa(g.IntN(16) - 6)
}

// some draws words, each now and then.
func (g *zsetGen) some(call []string, words ...string) []string {
	for _, w := range words {
		if g.IntN(4) == 0 {
			call = append(call, strings.Fields(w)...)
		}
	}
	return call
}

func (g *zsetGen) limit() string {
	return "LIMIT " + g.pick("0", "1", "2", "9", "x") + " " + g.pick("0", "1", "3", "-1", "-2")
}

func (g *zsetGen) call() []string {
	k := g.key()
	switch g.IntN(40) {
	case 0, 1, 2, 3, 4, 5, 6, 7, 8:
		call := g.some([]string{"ZADD", k}, "NX", "XX", "GT", "LT", "CH")
		if g.IntN(3) > 0 {
			call = []string{"ZADD", k}
		}
		if g.IntN(8) == 0 {
			call = append(call, "INCR")
		}
		for range 1 + g.IntN(1+g.IntN(6)) {
			call = append(call, g.score(), g.member())
		}
		return call
	case 9, 10:
		return []string{"ZINCRBY", k, g.pick(g.score(), "0.1", "-0.3", "2.25"), g.member()}
	case 11, 12:
		call := []string{"ZREM", k}
		for range 1 + g.IntN(4) {
			call = append(call, g.member())
		}
		return call
	case 13:
		return []string{g.pick("ZSCORE", "ZMSCORE", "ZINCRBY"), k, g.member()}
	case 14:
		return g.some([]string{g.pick("ZRANK", "ZREVRANK"), k, g.member()}, "WITHSCORE")
	case 15:
		return []string{g.pick("ZCOUNT", "ZREMRANGEBYSCORE"), k, g.end(), g.end()}
	case 16:
		return []string{"ZREMRANGEBYRANK", k, g.rank(), g.rank()}
	case 17, 18:
		return g.some([]string{g.pick("ZRANGE", "ZREVRANGE"), k, g.rank(), g.rank()}, "WITHSCORES", "REV", g.limit())
	case 19, 20:
		return g.some([]string{g.pick("ZRANGEBYSCORE", "ZREVRANGEBYSCORE"), k, g.end(), g.end()}, "WITHSCORES", g.limit())
	case 21:
		return g.some([]string{"ZRANGE", k, g.end(), g.end(), "BYSCORE"}, "REV", "WITHSCORES", g.limit())
	case 22:
		return g.some([]string{"ZRANGESTORE", g.key(), k, g.end(), g.end(), "BYSCORE"}, "REV", g.limit())
	case 23:
		return g.some([]string{"ZRANGESTORE", g.key(), k, g.rank(), g.rank()}, "REV")
	case 24, 25:
		return g.some([]string{g.pick("ZPOPMIN", "ZPOPMAX"), k}, g.pick("1", "2", "0", "100", "x", "-1"))
	case 26:
		return g.some([]string{"ZMPOP", "2", g.key(), k, g.pick("MIN", "MAX")}, "COUNT "+g.pick("1", "3", "0"))
	case 27:
		return []string{g.pick("BZPOPMIN", "BZPOPMAX"), k, g.key(), g.pick("0", "1", "0.5", "-1", "x")}
	case 28:
		return []string{"ZADD", "l", "5", g.member(), "5", g.member(), "5", g.member()}
	case 29, 30:
		return g.some([]string{g.pick("ZRANGEBYLEX", "ZREVRANGEBYLEX"), "l", g.lexEnd(), g.lexEnd()}, g.limit())
	case 31:
		return []string{g.pick("ZLEXCOUNT", "ZREMRANGEBYLEX"), "l", g.lexEnd(), g.lexEnd()}
	case 32:
		return []string{"SADD", "s", g.member(), g.member()}
	case 33:
		return g.some([]string{"ZRANDMEMBER", k, "1000"}, "WITHSCORES")
	}
	return g.algebra()
}

func (g *zsetGen) algebra() []string {
	name := g.pick("ZUNION", "ZINTER", "ZDIFF", "ZUNIONSTORE", "ZINTERSTORE", "ZDIFFSTORE", "ZINTERCARD")
	call := []string{name}
	if strings.HasSuffix(name, "STORE") {
		call = append(call, g.key())
	}
	n := 1 + g.IntN(3)
	call = append(call, strconv.Itoa(n))
	weights := "WEIGHTS"
	for range n {
		call = append(call, g.pick("a", "b", "c", "a", "b", "c", "l", "s", "none"))
		weights += " " + g.pick("1", "2", "0.5", "3.7", "x")
	}
	return g.some(call, weights, "AGGREGATE "+g.pick("SUM", "MIN", "MAX", "FOO"), "WITHSCORES", "LIMIT "+g.pick("0", "1", "x"))
}
