package command

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"redoubt/types"
)

// TestStreamsLikeRedis runs random calls of the commands on streams here and on a
// real Redis, and compares, after each of them: the reply, the events of the
// keyspace, the number of changes, and all that XINFO tells of a stream, which
// includes how its entries are cut into nodes.
//
// It needs REDOUBT_ORACLE=1, and a redis-server of version 7.2 in REDIS_SERVER or in
// the path. REDOUBT_STEPS and REDOUBT_SEED choose the run.
func TestStreamsLikeRedis(t *testing.T) {
	steps, seed := randomRun(t)
	g := &streamGen{callGen{rand.New(rand.NewPCG(seed, 13))}}
	redis, here := startRedis(t), newBench(t)
	redis.needs(t, "7.2")
	here.limits.Limits = types.DefaultLimits
	redis.call(t, "CONFIG", "SET", "notify-keyspace-events", "KEAmn")
	for i := range steps {
		if i%150 == 0 {
			l := &here.limits.Limits
			l.StreamNodeEntries, l.StreamNodeBytes = int64(g.pickInt(0, 1, 2, 3, 5, 100)), int64(g.pickInt(0, 100, 200, 500, 4096))
			redis.call(t, "CONFIG", "SET", "stream-node-max-entries", strconv.FormatInt(l.StreamNodeEntries, 10))
			redis.call(t, "CONFIG", "SET", "stream-node-max-bytes", strconv.FormatInt(l.StreamNodeBytes, 10))
			for _, c := range [][]string{{"DEL", "s", "t", "str"}, {"SET", "str", "x"}} {
				redis.call(t, c...)
				here.run(c...)
			}
		}
		call := g.call()
		show := fmt.Sprintf("step %d, limits %d %d: %.300q", i, here.limits.StreamNodeEntries, here.limits.StreamNodeBytes, call)
		redis.drain(t)
		redis.events = redis.events[:0]
		before := redis.changes(t)
		theirs := redis.call(t, call...)
		redis.drain(t)
		here.now = time.Now().UnixMilli()
		ours, fx := here.run(call...)
		if a, b := withoutTimes(ours), withoutTimes(theirs); !bytes.Equal(a, b) {
			t.Fatalf("%s\nours   %.600q\ntheirs %.600q", show, a, b)
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
		for _, look := range [][]string{{"XINFO", "STREAM", "s"}, {"XINFO", "STREAM", "s", "FULL", "COUNT", "0"}, {"XINFO", "CONSUMERS", "s", "g"}} {
			ours, _ := here.run(look...)
			if a, b := withoutTimes(ours), withoutTimes(redis.call(t, look...)); !bytes.Equal(a, b) {
				t.Fatalf("%s\n%s\nours   %.3000q\ntheirs %.3000q", show, look, a, b)
			}
		}
	}
}

var (
	moments   = regexp.MustCompile(`:\d{13}\r\n`)
	idleTimes = regexp.MustCompile(`((?:\r\n|^)\*4\r\n\$\d+\r\n\d+-\d+\r\n\$\d+\r\n\w*\r\n|idle\r\n|inactive\r\n|radix-tree-nodes\r\n):\d+`)
)

// withoutTimes takes from a reply what depends on the moment, and the size of a
// tree that only Redis has.
func withoutTimes(reply []byte) []byte {
	// An array of four that follows another shares its line end with that one.
	for range 2 {
		reply = idleTimes.ReplaceAll(reply, []byte("$1:0"))
	}
	return moments.ReplaceAll(reply, []byte(":time\r\n"))
}

// streamGen makes random calls of the commands on streams, some of them with
// arguments that make no sense.
type streamGen struct{ callGen }

func (g *streamGen) id() string {
	if g.IntN(20) == 0 {
		return g.pick("", "x", "-", "+", "$", ">", "*", "1-*", "1-x", "-1", "1-2-3", "01", "+1", " 1", "1-01", "1- 1", "1--1",
			"18446744073709551615", "18446744073709551615-18446744073709551615", "18446744073709551616", "1\x00x", "(1", "1-1 ")
	}
	if g.IntN(4) == 0 {
		return strconv.Itoa(g.IntN(20))
	}
	return fmt.Sprintf("%d-%d", g.IntN(20), g.IntN(3))
}

func (g *streamGen) end() string {
	switch g.IntN(6) {
	case 0, 1:
		return g.pick("-", "+")
	case 2:
		return "(" + g.id()
	}
	return g.id()
}

func (g *streamGen) count() string { return g.pick("0", "1", "2", "3", "5", "100", "-1", "x") }

func (g *streamGen) pairs() (out []string) {
	for range 1 + g.IntN(3) {
		v := g.pick("v", "", "1", "-1", "127", "128", "4095", "-4097", "32768", "8388608", "2147483648", "12345678901234567890")
		if g.IntN(4) == 0 {
			v = strings.Repeat("v", g.pickInt(10, 62, 63, 64, 126, 127, 128, 300, 4094, 4096))
		}
		out = append(out, g.pick("f", "f", "f", "g", "field", "123"), v)
	}
	return out
}

func (g *streamGen) trim() (out []string) {
	word := g.pick("MAXLEN", "MAXLEN", "MINID")
	out = append(out, word)
	if o := g.pick("", "~", "~", "="); o != "" {
		out = append(out, o)
	}
	if word == "MINID" {
		out = append(out, g.id())
	} else {
		out = append(out, g.pick("0", "1", "2", "3", "5", "8", "12", "30", "-1", "x"))
	}
	if g.IntN(4) == 0 {
		out = append(out, "LIMIT", g.count())
	}
	return out
}

// call makes a call, now and then with an argument more, less, or exchanged.
func (g *streamGen) call() []string {
	c := g.command()
	switch i := 1 + g.IntN(len(c)-1); g.IntN(25) {
	case 0:
		if len(c) > 2 { // a name alone is no call of a subcommand
			c = slices.Delete(c, i, i+1)
		}
	case 1:
		c[i] = g.pick("x", "", "0", g.id(), "COUNT", "LIMIT", "STREAMS", "str", "nokey", "s")
	case 2:
		c = slices.Insert(c, i, g.pick("x", "0", g.id(), "COUNT", "FORCE", "JUSTID", "NOACK", "GROUP", "MAXLEN", "MINID", "LIMIT", "MKSTREAM", "ENTRIESREAD"))
	}
	// These would wait, make an ID of the clock, are newer, or have texts of their own.
	bad := func(a string) bool {
		return strings.EqualFold(a, "block") || strings.HasPrefix(a, "*") || a == "+" && strings.HasPrefix(c[0], "XREAD")
	}
	if slices.ContainsFunc(c, bad) || (c[0] == "XGROUP" || c[0] == "XINFO") && !slices.Contains(streamSubs, c[1]) {
		return g.call()
	}
	return c
}

var streamSubs = []string{"CREATE", "SETID", "DESTROY", "CREATECONSUMER", "DELCONSUMER", "STREAM", "GROUPS", "CONSUMERS"}

func (g *streamGen) command() []string {
	key := g.pick("s", "s", "s", "s", "s", "s", "t", "t", "nokey", "str")
	group, who := g.pick("g", "g", "g", "h", "no"), g.pick("a", "b", "c", "")
	switch g.IntN(40) {
	case 0:
		return []string{g.pick("XLEN", "DEL"), g.pick("nokey", "t")}
	case 1, 2:
		c := []string{g.pick("XRANGE", "XREVRANGE"), key, g.end(), g.end()}
		if g.IntN(3) == 0 {
			c = append(c, "COUNT", g.count())
		}
		return c
	case 3, 4, 5:
		return []string{"XDEL", key, g.id(), g.id(), g.id()}
	case 6, 7:
		return append([]string{"XTRIM", key}, g.trim()...)
	case 8:
		c := []string{"XSETID", key, g.id()}
		if g.IntN(3) == 0 {
			c = append(c, "ENTRIESADDED", g.pick("0", "5", "30", "-1"))
		}
		if g.IntN(3) == 0 {
			c = append(c, "MAXDELETEDID", g.id())
		}
		return c
	case 9, 10:
		return []string{"XREAD", "COUNT", g.count(), "STREAMS", key, g.pick("s", "t", "nokey"), g.pick("0", "$", g.id()), g.id()}
	case 11, 12:
		c := []string{"XGROUP", "CREATE", key, group, g.pick("0", "$", g.id())}
		if g.IntN(3) == 0 {
			c = append(c, "MKSTREAM")
		}
		if g.IntN(3) == 0 {
			c = append(c, "ENTRIESREAD", g.pick("0", "3", "20", "-1", "-2"))
		}
		return c
	case 13:
		c := []string{"XGROUP", "SETID", key, group, g.pick("0", "$", g.end())}
		if g.IntN(3) == 0 {
			c = append(c, "ENTRIESREAD", g.pick("0", "3", "20", "-1", "-2"))
		}
		return c
	case 14:
		if g.IntN(2) == 0 {
			return []string{"XGROUP", "DESTROY", key, group}
		}
		return []string{"XGROUP", g.pick("CREATECONSUMER", "DELCONSUMER"), key, group, who}
	case 15, 16, 17, 18, 19:
		c := []string{"XREADGROUP", "GROUP", group, who, "COUNT", g.count()}
		if g.IntN(8) == 0 {
			c = append(c, "NOACK")
		}
		id := g.pick(">", ">", ">", "0", g.id())
		if g.IntN(4) == 0 {
			return append(c, "STREAMS", key, g.pick("s", "t"), id, g.pick(">", "0"))
		}
		return append(c, "STREAMS", key, id)
	case 20, 21:
		return []string{"XACK", key, group, g.id(), g.id(), g.id()}
	case 22:
		return []string{"XPENDING", key, group}
	case 23:
		c := []string{"XPENDING", key, group}
		if g.IntN(3) == 0 {
			c = append(c, "IDLE", g.pick("0", "100000000000"))
		}
		c = append(c, g.end(), g.end(), g.count())
		if g.IntN(2) == 0 {
			c = append(c, who)
		}
		return c
	case 24, 25, 26:
		c := []string{"XCLAIM", key, group, who, g.pick("0", "0", "-1", "100000000000"), g.id(), g.id()}
		for g.IntN(2) == 0 {
			c = append(c, [][]string{{"FORCE"}, {"JUSTID"}, {"IDLE", "5000"}, {"TIME", "1"}, {"RETRYCOUNT", g.pick("0", "7", "-1")}, {"LASTID", g.id()}}[g.IntN(6)]...)
		}
		return c
	case 27, 28:
		c := []string{"XAUTOCLAIM", key, group, who, g.pick("0", "0", "100000000000"), g.end()}
		if g.IntN(2) == 0 {
			c = append(c, "COUNT", g.count())
		}
		if g.IntN(3) == 0 {
			c = append(c, "JUSTID")
		}
		return c
	case 29:
		return []string{"XINFO", g.pick("STREAM", "GROUPS"), key}
	case 30:
		return []string{"XINFO", "STREAM", key, "FULL", "COUNT", g.count()}
	case 31:
		return []string{"XINFO", "CONSUMERS", key, group}
	}
	c := []string{"XADD", key}
	if g.IntN(10) == 0 {
		c = append(c, "NOMKSTREAM")
	}
	if g.IntN(5) == 0 {
		c = append(c, g.trim()...)
	}
	id := strconv.Itoa(g.IntN(20)) + "-*"
	if g.IntN(3) == 0 {
		id = g.id()
	}
	return append(append(c, id), g.pairs()...)
}
