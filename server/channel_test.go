package server_test

import (
	"fmt"
	"strings"
	"testing"

	"redoubt/engine/mem"
)

// A channel is a key like any other: what works on keys works on it.
func TestChannelIsAKey(t *testing.T) {
	t.Parallel()
	f := start(t, false, "--notify-keyspace-events", "KEp")
	c, other := f.dial(), f.dial()
	want := func(want string, args ...string) {
		t.Helper()
		if got := c.do(args...); got != want {
			t.Errorf("%q: %s, want %s", args, got, want)
		}
	}
	const one = "1) (integer) 1\n2) (integer) 1"
	want(one, "CHPUBLISH", "c", "m1", strings.Repeat("x", 1000))
	want("channel", "TYPE", "c")
	want(`"channel"`, "OBJECT", "ENCODING", "c")
	c.do("SET", "s", "1")
	c.do("SADD", "set", "1")
	want("1) \"0\"\n2) 1) \"c\"", "SCAN", "0", "TYPE", "channel", "COUNT", "1000")
	used := 0
	fmt.Sscanf(c.do("MEMORY", "USAGE", "c"), "(integer) %d", &used)
	if used < 1000 || used > 3000 {
		t.Errorf("MEMORY USAGE: %d", used)
	}
	// EXPIRE, PERSIST, TTL are those of the key.
	want("(integer) 1", "EXPIRE", "c", "1000")
	want("(integer) 1000", "TTL", "c")
	want(one, "CHPUBLISH", "c2", "m1", "1")
	want("(integer) -1", "TTL", "c2")
	want("(integer) 1", "PERSIST", "c")
	// WATCH sees a publish and an acknowledgement, not a duplicate.
	watched := func(changes bool, args ...string) {
		t.Helper()
		c.do("WATCH", "c")
		other.do(args...)
		c.do("MULTI")
		c.do("PING")
		if got := c.do("EXEC"); (got == "(nil array)" || got == "(nil)") != changes {
			t.Errorf("%q under WATCH: EXEC says %s", args, got)
		}
	}
	watched(true, "CHPUBLISH", "c", "m2", "1")
	watched(false, "CHPUBLISH", "c", "m2", "1")
	watched(true, "CHSUBSCRIBE", "c", "s", "FROM", "first")
	fetched := c.do("CHFETCH", "c", "s")
	h := fetched[strings.LastIndex(fetched, `"`)-24 : strings.LastIndex(fetched, `"`)]
	watched(true, "CHACK", "c", "s", h)
	watched(false, "CHACK", "c", "s", h)
	// Transactions and scripts.
	c.do("MULTI")
	c.do("CHPUBLISH", "c", "m3", "3")
	c.do("CHFETCH", "c", "s", "BLOCK", "0")
	if got := c.do("EXEC"); !strings.Contains(got, `"m3"`) {
		t.Errorf("EXEC: %s", got)
	}
	want("(integer) 4", "EVAL", "return redis.call('CHPUBLISH', KEYS[1], 'm4', '4')[1]", "1", "c")
	// A payload restores it, handles included; one that was changed is refused.
	if got := c.do("EVAL", "local p = redis.call('DUMP', 'c') redis.call('DEL', 'c') return redis.call('RESTORE', 'c', 0, p)", "1", "c"); got != "OK" {
		t.Errorf("RESTORE: %s", got)
	}
	want("(integer) 0", "CHACK", "c", "s", h)
	if got := c.do("EVAL", "local p = redis.call('DUMP', 'c') return redis.call('RESTORE', 'x', 0, 'y' .. p)", "1", "c"); !strings.Contains(got, "DUMP payload version or checksum are wrong") {
		t.Errorf("RESTORE of a changed payload: %s", got)
	}
	want("(integer) 1", "COPY", "c", "copy")
	if got := c.do("CHACK", "copy", "s", h); !strings.HasPrefix(got, "(error) BADHANDLE") { // a handle is of one name
		t.Errorf("a handle of another channel: %s", got)
	}
	want("OK", "RENAME", "copy", "c9")
	want(`1) "s"`, "CHLIST", "c9")
	want("(integer) 2", "UNLINK", "c", "c9")
	want("(integer) 0", "EXISTS", "c", "c9")
}

// Events of channels are of a class of their own, p.
func TestChannelEvents(t *testing.T) {
	t.Parallel()
	f := start(t, false, "--notify-keyspace-events", "Ep")
	c, listener := f.dial(), f.dial()
	listener.do("PSUBSCRIBE", "__keyevent@0__:*")
	want := func(event string, args ...string) string {
		t.Helper()
		reply := c.do(args...)
		if event == "" {
			return reply
		}
		if got := listener.read(); !strings.Contains(got, `"__keyevent@0__:`+event+`"`) || !strings.Contains(got, `"c"`) {
			t.Errorf("%q: %s, want the event %s", args, got, event)
		}
		return reply
	}
	want("csubscribe", "CHSUBSCRIBE", "c", "s")
	want("cpublish", "CHPUBLISH", "c", "m", "1")
	want("", "CHPUBLISH", "c", "m", "1")
	fetched := want("", "CHFETCH", "c", "s")
	h := fetched[strings.LastIndex(fetched, `"`)-24 : strings.LastIndex(fetched, `"`)]
	want("cack", "CHACK", "c", "s", h)
	want("", "CHACK", "c", "s", h)
	want("cunsubscribe", "CHUNSUBSCRIBE", "c", "s")
	want("cconfig", "CHCONFIG", "c", "EXPIRE", "100")
	want("cpublish", "CHPUBLISH", "c", "m2", "1")
}

// The rules of the ACL are those of keys and of the category @channel.
func TestChannelACL(t *testing.T) {
	t.Parallel()
	w := startWeb(t, mem.New())
	admin := w.dial()
	admin.do("ACL", "SETUSER", "reader", "on", ">p", "~c*", "-@all", "+@channel", "-chpublish", "-chconfig")
	admin.do("ACL", "SETUSER", "none", "on", ">p", "~*", "+@all", "-@channel")
	admin.do("CHPUBLISH", "c", "m", "1")
	admin.do("CHPUBLISH", "other", "m", "1")
	c := w.dial()
	for _, step := range []struct {
		want string
		args []string
	}{
		{"OK", []string{"AUTH", "reader", "p"}},
		{"1) (integer) 0\n2) (integer) 1", []string{"CHSUBSCRIBE", "c", "s", "FROM", "first"}},
		{"(error) NOPERM", []string{"CHPUBLISH", "c", "x", "1"}},
		{"(error) NOPERM", []string{"CHSUBSCRIBE", "other", "s"}},
		{"(error) NOPERM", []string{"CHINFO", "other"}},
		{"(error) NOPERM", []string{"SET", "c1", "1"}},
		{"1) 1) 1) (integer) 1", []string{"CHFETCH", "c", "s"}},
		{"OK", []string{"AUTH", "none", "p"}},
		{"(error) NOPERM", []string{"CHFETCH", "c", "s"}},
		{"OK", []string{"SET", "c1", "1"}},
	} {
		if got := c.do(step.args...); !strings.HasPrefix(got, step.want) {
			t.Errorf("%q: %s, want %s", step.args, got, step.want)
		}
	}
	// The rules for HTTP are others: those of the channels file.
	w.want("200", "PUT", forget+"http", "1")
}
