package command

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"redoubt/internal/race"
	"redoubt/types"
	"redoubt/wire"
)

// setEffects are calls with the changes that they count and the events that they
// note, as Redis 7.2.6 has them: TestSetEffectsLikeRedis compares.
var setEffects = []struct {
	call    string
	changes int
	events  string
}{
	{"SISMEMBER s a", 0, "keymiss s"},
	{"SMEMBERS s", 0, "keymiss s"},
	{"SCARD s", 0, "keymiss s"},
	{"SRANDMEMBER s", 0, "keymiss s"},
	{"SRANDMEMBER s 2", 0, "keymiss s"},
	{"SMISMEMBER s a b", 0, "keymiss s"},
	{"SSCAN s 0", 0, "keymiss s"},
	{"SINTER s t", 0, "keymiss s, keymiss t"},
	{"SREM s a", 0, ""},
	{"SPOP s", 0, ""},
	{"SPOP s 3", 0, ""},
	{"SMOVE s t a", 0, ""},
	{"SADD s a b c", 3, "new s, sadd s"},
	{"SADD s a d a", 1, "sadd s"},
	{"SADD s a", 0, ""},
	{"SREM s none", 0, ""},
	{"SREM s a none b", 2, "srem s"},
	{"SMOVE s t none", 0, ""},
	{"SMOVE s s c", 0, ""},
	{"SMOVE s t c", 2, "srem s, new t, sadd t"},
	{"SADD s c", 1, "sadd s"},
	{"SMOVE s t c", 1, "srem s"},
	{"SMOVE s t d", 2, "srem s, del s, sadd t"},
	{"SPOP t 0", 0, ""},
	{"SPOP t", 1, "spop t"},
	{"SPOP t", 1, "spop t, del t"},
	{"SADD s 1 2 3 4 5 6 7 8 9", 9, "new s, sadd s"},
	{"SPOP s 2", 2, "spop s"},
	{"SPOP s 6", 6, "spop s"},
	{"SPOP s 100", 1, "spop s, del s"},
	{"SADD a 1 2 3", 3, "new a, sadd a"},
	{"SADD b 2 3 4 x", 4, "new b, sadd b"},
	{"SINTERSTORE d a b", 1, "new d, sinterstore d"},
	{"SUNIONSTORE d a b", 1, "sunionstore d"},
	{"SDIFFSTORE d a b", 1, "sdiffstore d"},
	{"SDIFFSTORE d a a", 1, "del d"},
	{"SDIFFSTORE d a a", 0, ""},
	{"SINTERSTORE a none b", 1, "keymiss none, del a"},
	{"SINTERCARD 2 b none", 0, "keymiss none"},
	{"SUNIONSTORE d none", 0, "keymiss none"},
	{"SREM b 2 3 4 x", 4, "srem b, del b"},
	{"PFADD h", 1, "new h, pfadd h"},
	{"PFADD h", 0, ""},
	{"PFADD h x y", 2, "pfadd h"},
	{"PFADD h x", 0, ""},
	{"PFCOUNT h", 1, ""},
	{"PFCOUNT h", 0, ""},
	{"PFCOUNT h none", 0, "keymiss none"},
	{"PFCOUNT none", 0, "keymiss none"},
	{"PFMERGE i h", 1, "keymiss i, new i, pfadd i"},
	{"PFMERGE i h", 1, "pfadd i"},
	{"PFDEBUG TODENSE i", 1, ""},
	{"PFDEBUG TODENSE i", 0, ""},
	{"DEL h i", 2, "del h, del i"},
}

// setLimits are those under which sets have one form or another.
var setLimits = []string{"512 128 64", "0 128 64", "0 0 0"}

func TestSetEffects(t *testing.T) {
	t.Parallel()
	for i, limits := range [][3]int64{{512, 128, 64}, {0, 128, 64}, {0, 0, 0}} {
		b := newBench(t)
		b.limits.Limits = types.DefaultLimits
		b.limits.SetIntegers, b.limits.SetEntries, b.limits.SetValue = limits[0], limits[1], limits[2]
		for _, c := range setEffects {
			_, o := b.run(strings.Fields(c.call)...)
			if got := strings.Join(o.events, ", "); o.changes != c.changes || got != c.events {
				t.Errorf("limits %s: %s: %d changes, events %q; want %d, %q", setLimits[i], c.call, o.changes, got, c.changes, c.events)
			}
		}
	}
}

// TestSetEffectsLikeRedis compares with a real Redis.
func TestSetEffectsLikeRedis(t *testing.T) {
	needsRedis(t)
	redis := startRedis(t)
	redis.call(t, "CONFIG", "SET", "notify-keyspace-events", "KEAmn")
	for _, limits := range setLimits {
		for i, name := range []string{"set-max-intset-entries", "set-max-listpack-entries", "set-max-listpack-value"} {
			redis.call(t, "CONFIG", "SET", name, strings.Fields(limits)[i])
		}
		heard := listen(t, redis.c.RemoteAddr())
		for _, c := range setEffects {
			before := redis.changes(t)
			redis.call(t, strings.Fields(c.call)...)
			changed := redis.changes(t) - before
			events := heard(redis)
			for i := range events {
				events[i] = strings.TrimPrefix(events[i], "0 ")
			}
			if got := strings.Join(events, ", "); changed != c.changes || got != c.events {
				t.Errorf("limits %s: %s: Redis says %d changes, events %q", limits, c.call, changed, got)
			}
		}
	}
}

// The usual calls make no garbage.
func TestSetAllocations(t *testing.T) {
	if race.Enabled {
		t.Skip("the race detector drops what is pooled, at random")
	}
	for _, limit := range []int64{512, 0} {
		b := newBench(t)
		b.limits.Limits = types.DefaultLimits
		b.limits.SetIntegers, b.limits.SetEntries = limit, limit
		b.run("SADD", "s", "a", "b", "c")
		b.run("SADD", "i", "1", "2", "3")
		b.run("PFADD", "h", "a")
		tx := b.begin()
		tx.Listening = 0
		for _, call := range []string{
			"SADD s a", "SADD s d", "SADD i 4", "SREM s a", "SREM i 2", "SISMEMBER s b", "SISMEMBER i 2", "SMISMEMBER s a x", "SCARD s",
		} {
			allocs := b.allocations(tx, strings.Fields(call))
			if allocs > 0 {
				t.Errorf("limit %d: %s makes %v allocations", limit, call, allocs)
			}
		}
		tx.Rows.View.Close()
	}
}

// Large replies leave in pieces, and are the same as in one piece.
func TestSetRepliesAreStreamed(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.limits.Limits = types.DefaultLimits
	for key, from := range map[string]int{"a": 0, "b": 5000, "c": 19_000} {
		args := []string{"SADD", key}
		for i := range 10_000 {
			args = append(args, fmt.Sprint("a member with the number ", from+i))
		}
		b.run(args...)
	}
	for _, call := range []string{"SMEMBERS a", "SINTER a b", "SUNION a b c", "SDIFF a b c", "SRANDMEMBER a 20000", "SRANDMEMBER a 9000", "SRANDMEMBER a -30000"} {
		whole, _ := b.run(strings.Fields(call)...)
		var sent []byte
		most := 0
		c := &Ctx{Tx: b.begin(), Limits: &b.limits, Reply: &wire.Writer{Proto: 2}}
		c.Sink = func(w *wire.Writer) error {
			most = max(most, len(w.Buf))
			sent = append(sent, w.Buf...)
			w.Buf = w.Buf[:0]
			return nil
		}
		for _, a := range strings.Fields(call) {
			c.Args = append(c.Args, []byte(a))
		}
		c.Cmd = b.table.Find(c.Args)
		if err := c.Cmd.Run(c); err != nil {
			t.Fatal(err)
		}
		sent = append(sent, c.Reply.Buf...)
		b.commit(c.Tx)
		if !bytes.Equal(sent, whole) {
			t.Errorf("%s: %d bytes were sent, not the %d of the reply", call, len(sent), len(whole))
		}
		if most == 0 || most > 2*spillBytes {
			t.Errorf("%s: the largest piece has %d bytes", call, most)
		}
	}
}
