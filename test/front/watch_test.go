package front

import (
	"strings"
	"testing"
)

// changes are what another front end does to a key that is watched, after the
// commands that prepare it. The watched key is called w.
var changes = []struct{ before, change string }{
	{"SET w 1", "SET w 1"},
	{"SET w 1", "DEL w"},
	{"SET w 1", "GETDEL w"},
	{"SET w 1", "UNLINK w;SET w 1"},
	{"SET w 1", "APPEND w x"},
	{"SET w 1", "SETRANGE w 0 y"},
	{"SET w 1", "SETBIT w 3 1"},
	{"SET w 1", "INCR w"},
	{"SET w 1", "PEXPIRE w 100000"},
	{"SET w 1 PX 100000", "PERSIST w"},
	{"SET w 1", "RENAME w v"},
	{"SET v 1", "RENAME v w"},
	{"SET v 1", "COPY v w"},
	{"SET w 1", "MOVE w 1"},
	{"", "SET w 1"},
	{"", "LPUSH w a"},
	{"SET w 1", "SET w 2 PX 1"}, // and it dies
	{"HSET w a 1 b 2", "HSET w a 2"},
	{"HSET w a 1 b 2", "HDEL w b"},
	{"LPUSH w a b c", "LPOP w"},
	{"LPUSH w a b c", "LSET w 1 d"},
	{"SADD w a b c", "SREM w a"},
	{"ZADD w 1 a 2 b", "ZINCRBY w 1 a"},
	{"PFADD w a", "PFADD w b"},
	{"XADD w 1-1 a b", "XADD w 2-1 a b"},
	{"XADD w 1-1 a b", "XGROUP CREATE w g 0"},
	{"XADD w 1-1 a b;XGROUP CREATE w g 0", "XREADGROUP GROUP g c STREAMS w >"},
	{"XADD w 1-1 a b;XGROUP CREATE w g 0;XREADGROUP GROUP g c STREAMS w >", "XACK w g 1-1"},
	// One row of a large collection.
	{"large h", "HSET w pad17 v"},
	{"large h", "HSET w new v"},
	{"large h", "HDEL w pad17"},
	{"large h", "HINCRBY w n 1"},
	{"large h", "HPEXPIRE w 100000 FIELDS 1 pad17"},
	{"large h", "DEL w;HSET w pad17 x"},
	{"large z", "ZADD w 5 pad17"},
	{"large z", "ZADD w 5 new"},
	{"large z", "ZREM w pad17"},
	{"large z", "ZPOPMIN w"},
	{"large z", "ZREMRANGEBYRANK w 100 110"},
	{"large s", "SADD w new"},
	{"large s", "SREM w pad17"},
	{"large s", "SPOP w"},
	{"large l", "LPUSH w new"},
	{"large l", "RPOP w"},
	{"large l", "LSET w 300 v"},
	{"large l", "LREM w 1 pad"},
	{"large l", "LTRIM w 1 -1"},
}

// harmless is what changes nothing of it.
var harmless = []struct{ before, change string }{
	{"SET w 1", "GET w"},
	{"SET w 1", "SET v 1"},
	{"SET w 1", "DEL v"},
	{"large h", "HGET w pad17"},
	{"large h", "HDEL w none"},
	{"large h", "EXISTS w"},
	{"large s", "SISMEMBER w pad17"},
	{"", "DEL w"},
}

func (c *client) lines(list string) {
	c.t.Helper()
	for line := range strings.SplitSeq(list, ";") {
		switch line {
		case "":
		case "large h":
			c.large("w", "", "", "")
		case "large z":
			c.large("", "w", "", "")
		case "large s":
			c.large("", "", "w", "")
		case "large l":
			c.large("", "", "", "w")
		default:
			if line == "LREM w 1 pad" {
				line = "LREM w 1 " + strings.Repeat("x", 100) + "17"
			}
			if v := c.value(strings.Fields(line)...); v.IsError() {
				c.t.Errorf("%s: %s", line, v.Str)
			}
		}
	}
}

// WATCH sees what another front end does, to any part of a value, and nothing else.
func TestWatch(t *testing.T) {
	onStores(t, 2, steady, nil, func(t *testing.T, s *stage) {
		a, b := s.dial(0), s.dial(1)
		try := func(before, change string, want string) {
			b.do("DEL", "w", "v")
			b.lines(before)
			a.want("OK", "WATCH", "w")
			b.lines(change)
			if strings.HasSuffix(change, "PX 1") {
				s.until("it dies", func() bool { return b.do("EXISTS", "w") == "0" })
			}
			a.do("MULTI")
			a.do("SET", "done", "1")
			if got := a.do("EXEC"); got != want {
				t.Errorf("%q, WATCH w, %q: EXEC %s", before, change, got)
			}
		}
		for _, c := range changes {
			try(c.before, c.change, "nil")
		}
		for _, c := range harmless {
			try(c.before, c.change, "[OK]")
		}
		// All keys of a database are replaced. One that was not there before, and is
		// not then, has not changed.
		for _, change := range []string{"FLUSHALL", "SWAPDB 0 1"} {
			b.do("SET", "w", "1")
			b.do("DEL", "v")
			a.want("OK", "WATCH", "w")
			other := s.dial(0)
			other.want("OK", "WATCH", "v")
			b.lines(change)
			for c, want := range map[*client]string{a: "nil", other: "[OK]"} {
				c.do("MULTI")
				c.do("SET", "done", "1")
				c.want(want, "EXEC")
			}
		}
		// A key that comes and goes is seen by who has seen it.
		b.do("DEL", "w")
		a.want("OK", "WATCH", "w")
		b.do("SET", "w", "5")
		a.want("5", "GET", "w")
		b.do("DEL", "w")
		a.do("MULTI")
		a.do("SET", "done", "1")
		a.want("nil", "EXEC")
		// A key that dies by itself has changed.
		for lives := false; !lives; {
			b.do("SET", "w", "1", "PX", "300")
			a.want("OK", "WATCH", "w")
			if lives = a.do("EXISTS", "w") == "1"; !lives {
				a.do("UNWATCH")
			}
		}
		s.until("it dies", func() bool { return b.do("EXISTS", "w") == "0" })
		a.do("MULTI")
		a.do("SET", "done", "1")
		a.want("nil", "EXEC")
	})
}
