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

// TestListsLikeRedis runs random calls of the commands on lists here and on a real
// Redis, and compares, after each of them: the reply byte by byte, the events of
// the keyspace, the number of changes, and the content and the encoding of a list.
//
// It needs REDOUBT_ORACLE=1, and a redis-server of version 7.2 in REDIS_SERVER or in
// the path. REDOUBT_STEPS and REDOUBT_SEED choose the run.
func TestListsLikeRedis(t *testing.T) {
	steps, seed := randomRun(t)
	g := &listGen{callGen{rand.New(rand.NewPCG(seed, 11))}}
	redis, here := startRedis(t), newBench(t)
	redis.needs(t, "7.2")
	here.limits.ListSize = -2
	redis.call(t, "CONFIG", "SET", "notify-keyspace-events", "KEAmn")
	differ := 0
	for i := range steps {
		if i%200 == 0 {
			here.limits.ListSize = int64(g.pickInt(-1, -2, 1, 3, 8, 40))
			redis.call(t, "CONFIG", "SET", "list-max-listpack-size", strconv.FormatInt(here.limits.ListSize, 10))
			redis.call(t, "DEL", "a", "b", "c", "d")
			here.run("DEL", "a", "b", "c", "d")
		}
		call := g.call()
		show := fmt.Sprintf("step %d, limit %d: %.200q", i, here.limits.ListSize, call)
		if call[0][0] == 'B' && string(redis.call(t, append([]string{"EXISTS"}, call[1:3]...)...)) == ":0\r\n" {
			continue // it would wait
		}
		redis.drain(t)
		redis.events = redis.events[:0]
		before := redis.changes(t)
		theirs := redis.call(t, call...)
		redis.drain(t)
		ours, fx := here.run(call...)
		if !bytes.Equal(ours, theirs) {
			t.Fatalf("%s\nours   %.300q\ntheirs %.300q", show, ours, theirs)
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
		ours, _ = here.run("LRANGE", key, "0", "-1")
		if theirs := redis.call(t, "LRANGE", key, "0", "-1"); !bytes.Equal(ours, theirs) {
			t.Fatalf("%s\n%s is %.300q, theirs is %.300q", show, key, ours, theirs)
		}
		m := here.find(key)
		if !m.Exists() {
			continue
		}
		// Redis may have a list that became small in several nodes still, and if
		// the number of elements is limited, LSET may have made a node too large:
		// see package list.
		name := encodingName(m)
		same := string(redis.call(t, "OBJECT", "ENCODING", key)) == fmt.Sprintf("$%d\r\n%s\r\n", len(name), name)
		switch {
		case !same && here.limits.ListSize < 0 && name == "quicklist":
			t.Fatalf("%s\n%s is still a quicklist", show, key)
		case !same:
			differ++
		}
	}
	if differ > steps/20 {
		t.Errorf("%d of %d encodings differ", differ, steps)
	}
	t.Logf("%d of %d encodings differ", differ, steps)
}

// listGen makes random calls of the commands on lists.
type listGen struct{ callGen }

func (g *listGen) key() string { return g.pick("a", "b", "c", "d") }

func (g *listGen) element() string {
	switch g.IntN(14) {
	case 0:
		return strings.Repeat("x", g.IntN(200))
	case 1:
		return strings.Repeat("y", g.pickInt(63, 64, 126, 4000, 4095, 4096, 2030, 9000))
	case 2:
		return g.integer()
	case 3:
		return ""
	}
	return g.pick("p", "q", "r", "s", "12", "300")
}

func (g *listGen) elements() (e []string) {
	for range 1 + g.IntN(1+g.IntN(6)) {
		e = append(e, g.element())
	}
	return e
}

func (g *listGen) index() string {
	if g.IntN(20) == 0 {
		return g.pick("x", "9223372036854775808", "2147483647", "-2147483648", "1.5", "")
	}
	return strconv.Itoa(g.IntN(24) - 8)
}

func (g *listGen) end() string {
	if g.IntN(20) == 0 {
		return g.pick("up", "")
	}
	return g.pick("left", "RIGHT")
}

func (g *listGen) call() []string {
	c := g.wellFormed()
	if g.IntN(100) == 0 && c[0][0] != 'B' {
		if g.IntN(2) == 0 {
			return append(c, "x")
		}
		return c[:len(c)-1]
	}
	return c
}

func (g *listGen) wellFormed() []string {
	k := g.key()
	switch g.IntN(22) {
	case 0, 1, 2, 3, 4:
		return append([]string{g.pick("LPUSH", "RPUSH", "RPUSH", "LPUSHX", "RPUSHX"), k}, g.elements()...)
	case 5, 6:
		return []string{g.pick("LPOP", "RPOP"), k}
	case 7:
		return []string{g.pick("LPOP", "RPOP"), k, g.index()}
	case 8:
		return []string{"LINDEX", k, g.index()}
	case 9:
		return []string{"LRANGE", k, g.index(), g.index()}
	case 10:
		return []string{"LSET", k, g.index(), g.element()}
	case 11, 12:
		return []string{"LINSERT", k, g.pick("before", "AFTER", "after", "x"), g.element(), g.element()}
	case 13:
		return []string{"LREM", k, g.index(), g.element()}
	case 14:
		return []string{"LTRIM", k, g.pick(g.index(), "0"), g.pick(g.index(), "-1", "-2")}
	case 15:
		c := []string{"LPOS", k, g.element()}
		for range g.IntN(3) {
			c = append(c, g.pick("rank", "COUNT", "maxlen"), g.index())
		}
		return c
	case 16, 17:
		return []string{"LMOVE", k, g.key(), g.end(), g.end()}
	case 18:
		return []string{"RPOPLPUSH", k, g.key()}
	case 19:
		c := []string{"LMPOP", g.pick("2", "2", "2", "1", "3", "x"), k, g.key(), g.end()}
		if g.IntN(2) == 0 {
			c = append(c, "COUNT", g.index())
		}
		return c
	case 20:
		return []string{g.pick("BLPOP", "BRPOP"), k, g.key(), g.pick("0", "1.5", "0")}
	}
	return []string{g.pick("LLEN", "DEL"), k}
}
