package command

import (
	"bufio"
	"bytes"
	"fmt"
	"math/rand/v2"
	"net"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"redoubt/keyspace"
	"redoubt/wire"
)

// TestGenericLikeRedis runs random calls of the generic commands here and on a
// real Redis and compares replies, keyspace events of all databases and changes
// after each of them. It is switched on as TestStringsLikeRedis is.
func TestGenericLikeRedis(t *testing.T) {
	steps, seed := randomRun(t)
	g := &genericGen{rand.New(rand.NewPCG(seed, 11))}
	redis, here := startRedis(t), &keyBench{bench: newBench(t)}
	redis.call(t, "CONFIG", "SET", "notify-keyspace-events", "KEAmn")
	redis.call(t, "DEBUG", "SET-ACTIVE-EXPIRE", "0")
	heard := listen(t, redis.c.RemoteAddr())
	for i := range steps {
		if g.IntN(40) == 0 {
			here.db = g.IntN(3)
			redis.call(t, "SELECT", strconv.Itoa(here.db))
		}
		call := g.call()
		show := fmt.Sprintf("step %d, database %d: %.200q", i, here.db, call)
		before := redis.changes(t)
		theirs := redis.call(t, call...)
		changed := redis.changes(t) - before
		events := heard(redis)
		here.now = time.Now().UnixMilli()
		ours, fx := here.runIn(call...)
		if !sameReply(call, ours, theirs) {
			t.Fatalf("%s\nours   %.500q\ntheirs %.500q", show, ours, theirs)
		}
		if fx.changes != changed {
			t.Fatalf("%s\nours %d changes, theirs %d", show, fx.changes, changed)
		}
		if ours[0] == '-' { // a failed call leaves no trace here, not even its misses
			events = slices.DeleteFunc(events, func(e string) bool { return strings.Contains(e, " keymiss ") })
		}
		if !slices.Equal(fx.events, events) {
			t.Fatalf("%s\nour events   %q\ntheir events %q", show, fx.events, events)
		}
		if call[0] == "PEXPIRE" && call[2] == "1" {
			for deadline := time.Now().Add(10 * time.Second); string(redis.call(t, "EXISTS", call[1])) != ":0\r\n"; {
				if time.Now().After(deadline) {
					t.Fatalf("%s: the key does not expire", show)
				}
			}
			here.now = time.Now().UnixMilli() + 10 // ours was set a little later
			here.removeExpired(call[1])
			heard(redis)
		}
	}
}

// keyBench is a bench with a selected database that keeps the databases of
// events.
type keyBench struct {
	*bench
	db int
}

func (b *keyBench) runIn(args ...string) ([]byte, outcome) {
	b.t.Helper()
	raw := make([][]byte, len(args))
	for i, a := range args {
		raw[i] = []byte(a)
	}
	c := &Ctx{Args: raw, Limits: &b.limits, Reply: &wire.Writer{Proto: b.proto}, Usage: noUsage{}}
	if c.Cmd = b.table.Find(raw); c.Cmd == nil || c.Cmd.Run == nil {
		b.t.Fatalf("no command %q", args)
	}
	if !c.Cmd.ArityOK(len(args)) {
		c.Reply.Error(Text(ArityError(c.Cmd.FullName)))
		return c.Reply.Buf, outcome{}
	}
	c.Tx = b.begin()
	c.Tx.DB, c.Tx.Writable = b.db, c.Cmd.Flags&Write != 0
	mark := c.Tx.Start()
	if err := c.Cmd.Run(c); err != nil {
		c.Tx.Rollback(mark)
		c.Reply.Buf = c.Reply.Buf[:0]
		c.Reply.Error(Text(err))
	}
	if c.Tx.DB != b.db {
		b.t.Errorf("%q left database %d selected", args, c.Tx.DB)
	}
	var events []string
	for _, e := range b.fx.Events {
		if e.Class != keyspace.ExpiredEv {
			events = append(events, fmt.Sprintf("%d %s %s", e.DB, e.Name, e.Key))
		}
	}
	o := b.commit(c.Tx)
	o.events = events
	return c.Reply.Buf, o
}

// removeExpired does what a write on an expired key does to it.
func (b *keyBench) removeExpired(key string) {
	tx := b.begin()
	tx.DB = b.db
	tx.Find([]byte(key))
	b.commit(tx)
}

type noUsage struct{}

func (noUsage) Idle([]byte) int64 { return 0 }
func (noUsage) Freq([]byte) int64 { return 5 }
func (noUsage) Touch([]byte)      {}

// listen returns a function that returns the keyspace events of all databases
// since its last call, without those of expiry, which come when they come.
func listen(t *testing.T, addr net.Addr) func(*redisConn) []string {
	t.Helper()
	c, err := net.Dial(addr.Network(), addr.String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	r := bufio.NewReader(c)
	if _, err := c.Write([]byte("PSUBSCRIBE __keyspace@* mark\r\n")); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if _, err := readReply(r); err != nil {
			t.Fatal(err)
		}
	}
	return func(redis *redisConn) (events []string) {
		t.Helper()
		redis.call(t, "PUBLISH", "mark", "x")
		for {
			msg, err := readReply(r)
			if err != nil {
				t.Fatal(err)
			}
			part := strings.Split(string(msg), "\r\n") // *4 $8 pmessage $n pattern $n channel $n message
			if part[6] == "mark" {
				return events
			}
			db, key, _ := strings.Cut(strings.TrimPrefix(part[6], "__keyspace@"), "__:")
			if part[8] != "expired" {
				events = append(events, db+" "+part[8]+" "+key)
			}
		}
	}
}

// sameReply compares replies, those about time with some tolerance and those
// without an order sorted.
func sameReply(call []string, ours, theirs []byte) bool {
	if bytes.Equal(ours, theirs) {
		return true
	}
	switch call[0] {
	case "TTL", "PTTL", "EXPIRETIME", "PEXPIRETIME":
		x, err1 := strconv.ParseInt(strings.TrimSpace(string(ours[1:])), 10, 64)
		y, err2 := strconv.ParseInt(strings.TrimSpace(string(theirs[1:])), 10, 64)
		if call[0][0] != 'P' {
			x, y = x*1000, y*1000
		}
		return err1 == nil && err2 == nil && x >= 0 && y >= 0 && max(x-y, y-x) < 10_000
	case "KEYS", "SCAN":
		lines := func(b []byte) []string {
			l := strings.SplitAfter(string(b), "$")
			for i := range l { // the last of an array ends without the next one's sign
				l[i] = strings.TrimSuffix(strings.ReplaceAll(l[i], "*", "$*"), "$")
			}
			slices.Sort(l)
			return l
		}
		return slices.Equal(lines(ours), lines(theirs))
	}
	return false
}

// genericGen makes random calls of the generic commands.
type genericGen struct{ *rand.Rand }

func (g *genericGen) pick(s ...string) string { return s[g.IntN(len(s))] }

func (g *genericGen) key() string {
	return g.pick("a", "b", "c", "{t}1", "{t}2", "", "k\x00x", "a name that is somewhat longer")
}

func (g *genericGen) number() string {
	return g.pick("100000", "1000000", "200000", "-1", "0", "x", "", "9223372036854775807", "-9223372036854775808", "9223372036854775",
		"9223372036854776", "-9223372036854776", "99999999999", "1.5", "+1", " 1", "01", "33177117420", "33177117420000", "2147483648")
}

func (g *genericGen) database() string {
	return g.pick("0", "1", "2", "2", "1", "0", "15", "16", "-1", "x", "99999999999", "")
}

func (g *genericGen) pattern() string {
	return g.pick("*", "?", "[ab]", "{t}*", "", "**", "[^a]", "k*", "a\x00")
}

// some returns one of the words sometimes.
func (g *genericGen) some(words ...string) []string {
	if g.IntN(2) == 0 {
		return nil
	}
	return []string{g.pick(words...)}
}

func (g *genericGen) call() []string {
	condition := func() []string {
		return append(g.some("nx", "XX", "gt", "LT", "GT", "foo", "", "nx\x00x"), g.some("NX", "xx", "GT", "lt")...)
	}
	switch g.IntN(22) {
	case 0, 1, 2:
		return []string{"SET", g.key(), g.pick("10000", "-1", "hello", strings.Repeat("x", 60), strings.Repeat("y", 70_000))}
	case 3:
		return []string{"GET", g.key()}
	case 4, 5:
		return append([]string{g.pick("DEL", "UNLINK", "EXISTS", "TOUCH"), g.key()}, g.some(g.key(), g.key())...)
	case 6, 7, 8:
		return []string{g.pick("TYPE", "TTL", "PTTL", "EXPIRETIME", "PEXPIRETIME", "PERSIST"), g.key()}
	case 9, 10:
		return []string{g.pick("RENAME", "RENAMENX"), g.key(), g.key()}
	case 11:
		return []string{"MOVE", g.key(), g.database()}
	case 12:
		return append([]string{"COPY", g.key(), g.key()}, g.some("replace", "REPLACE", "foo", "db")...)
	case 13:
		return slices.Concat([]string{"COPY", g.key(), g.key()}, g.some("replace"), []string{"db", g.database()}, g.some("REPLACE", "DB"))
	case 14:
		return append([]string{g.pick("EXPIRE", "PEXPIRE", "EXPIREAT", "PEXPIREAT"), g.key(), g.number()}, condition()...)
	case 15:
		return append([]string{g.pick("EXPIRE", "PEXPIREAT"), g.key(), g.pick("500000", "33177117420000", "44177117420000")}, condition()...)
	case 16:
		return []string{"PEXPIRE", g.key(), "1"}
	case 17:
		return []string{"KEYS", g.pattern()}
	case 18:
		return slices.Concat([]string{"SCAN", g.pick("0", "0", "-0", "+0", "", " 0", "x", "99999999999999999999", "0x0", "0\x00a"), "COUNT", "1000"},
			strings.Fields(g.pick("", "MATCH a*", "match **", "TYPE string", "type LIST", "TYPE ?", "foo", "count 0", "COUNT x")))
	case 19:
		return []string{"OBJECT", g.pick("encoding", "REFCOUNT", "freq"), g.key()}
	case 20:
		if g.IntN(4) > 0 {
			return []string{"DBSIZE"}
		}
		return append([]string{g.pick("FLUSHDB", "FLUSHALL")}, g.some("sync", "ASYNC", "foo")...)
	}
	return []string{"SWAPDB", g.database(), g.database()}
}
