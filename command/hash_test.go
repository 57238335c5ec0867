package command

import (
	"slices"
	"strconv"
	"strings"
	"testing"

	"redoubt/internal/race"
	"redoubt/types"
)

type hashEffect struct {
	call    string
	changes int
	events  string // without the key, which is h
}

// hashEffects are calls with the changes that they count and the events that they
// note, as Redis 7.2.6 and 8.0.6 have them: TestHashEffectsLikeRedis compares.
var hashEffects = []hashEffect{
	{"HGET h a", 0, "keymiss"},
	{"HMGET h a b", 0, "keymiss"},
	{"HGETALL h", 0, "keymiss"},
	{"HLEN h", 0, "keymiss"},
	{"HSTRLEN h a", 0, "keymiss"},
	{"HEXISTS h a", 0, "keymiss"},
	{"HSCAN h 0", 0, "keymiss"},
	{"HRANDFIELD h", 0, "keymiss"},
	{"HRANDFIELD h 2", 0, "keymiss"},
	{"HDEL h a", 0, ""},
	{"HSET h a 1 b 2", 2, "new hset"},
	{"HSET h a 1", 1, "hset"},
	{"HSET h a 1 a 1 a 1", 3, "hset"},
	{"HMSET h c 3 d 4", 2, "hset"},
	{"HSETNX h a 2", 0, ""},
	{"HSETNX h e 5", 1, "hset"},
	{"HINCRBY h a 5", 1, "hincrby"},
	{"HINCRBY h a 0", 1, "hincrby"},
	{"HINCRBYFLOAT h a 1.5", 1, "hincrbyfloat"},
	{"HINCRBY h a 1", 0, ""},
	{"HGET h a", 0, ""},
	{"HDEL h none", 0, ""},
	{"HDEL h a b a none", 2, "hdel"},
	{"HDEL h c d e f", 3, "hdel del"},
	{"HINCRBY h a 1", 1, "new hincrby"},
	{"HDEL h a", 1, "hdel del"},
	{"HINCRBYFLOAT h a 1", 1, "new hincrbyfloat"},
	{"HDEL h a", 1, "hdel del"},
	{"HSETNX h a 1", 1, "new hset"},
	{"DEL h", 1, "del"},
}

// fieldEffects are the same of what is newer.
var fieldEffects = []hashEffect{
	{"HTTL h FIELDS 1 a", 0, "keymiss"},
	{"HEXPIRE h 100 FIELDS 1 a", 0, ""},
	{"HPERSIST h FIELDS 1 a", 0, ""},
	{"HGETEX h EX 100 FIELDS 1 a", 0, ""},
	{"HGETDEL h FIELDS 1 a", 0, ""},
	{"HSETEX h FXX FIELDS 1 a 1", 0, ""},
	{"HSET h a 1 b 2 c 3 d 4", 4, "new hset"},
	{"HEXPIRE h 100 FIELDS 3 a b none", 2, "hexpire"},
	{"HEXPIRE h 200 XX FIELDS 2 c none", 0, ""},
	{"HEXPIRE h 0 FIELDS 2 a none", 1, "hdel"},
	{"HPERSIST h FIELDS 3 b c none", 1, "hpersist"},
	{"HPERSIST h FIELDS 1 b", 0, ""},
	{"HPEXPIREAT h 1 FIELDS 3 b c d", 3, "hdel del"},
	{"HSETEX h FIELDS 2 a 1 b 2", 2, "new hset"},
	{"HSETEX h EX 100 FIELDS 2 a 1 b 2", 2, "hset hexpire"},
	{"HSETEX h KEEPTTL FIELDS 1 a 2", 1, "hset"},
	{"HSETEX h FNX FIELDS 1 a 2", 0, ""},
	{"HSETEX h PXAT 1 FIELDS 1 a 2", 1, "hset hdel"},
	{"HGETEX h FIELDS 1 b", 0, ""},
	{"HGETEX h EX 100 FIELDS 2 b none", 1, "hexpire"},
	{"HGETEX h PERSIST FIELDS 2 b none", 1, "hpersist"},
	{"HGETEX h PERSIST FIELDS 1 b", 0, ""},
	{"HGETEX h EXAT 1 FIELDS 1 b", 1, "hdel del"},
	{"HSET h a 1 b 2", 2, "new hset"},
	{"HGETDEL h FIELDS 2 a none", 1, "hdel"},
	{"HGETDEL h FIELDS 1 none", 0, ""},
	{"HGETDEL h FIELDS 1 b", 1, "hdel del"},
}

// The same for both forms.
func TestHashEffects(t *testing.T) {
	t.Parallel()
	for _, entries := range []int64{512, 0} {
		b := newBench(t)
		b.limits.Limits = types.DefaultLimits
		b.limits.HashEntries = entries
		for i, c := range slices.Concat(hashEffects, fieldEffects) {
			_, o := b.run(strings.Fields(c.call)...)
			if got := names(o.events); o.changes != c.changes || got != c.events {
				t.Errorf("%d entries, call %d, %s: %d changes, events %q; want %d, %q", entries, i, c.call, o.changes, got, c.changes, c.events)
			}
		}
	}
}

// names leaves the key out of events.
func names(events []string) string {
	for i := range events {
		events[i] = strings.TrimSuffix(events[i], " h")
	}
	return strings.Join(events, " ")
}

// TestHashEffectsLikeRedis compares with a real Redis, the newer ones with Redis 8.
func TestHashEffectsLikeRedis(t *testing.T) {
	needsRedis(t)
	redis, list := startRedis(t), hashEffects
	if known := redis.call(t, "COMMAND", "INFO", "HSETEX"); len(known) > len("*1\r\n*-1\r\n") {
		list = slices.Concat(list, fieldEffects)
	}
	for _, entries := range []int{512, 0} {
		redis.call(t, "CONFIG", "SET", "notify-keyspace-events", "KEAmn")
		redis.call(t, "CONFIG", "SET", "hash-max-listpack-entries", strconv.Itoa(entries))
		heard := listen(t, redis.c.RemoteAddr())
		for _, c := range list {
			call := strings.Fields(c.call)
			before := redis.changes(t)
			redis.call(t, call...)
			changed := redis.changes(t) - before
			events := heard(redis)
			for i := range events {
				events[i] = strings.TrimPrefix(events[i], "0 ")
			}
			if got := names(events); changed != c.changes || got != c.events {
				t.Errorf("%s: Redis says %d changes, events %q", c.call, changed, got)
			}
		}
	}
}

// Fields that a write finds past their time are an event of their own.
func TestExpiredFieldsAreAnEvent(t *testing.T) {
	t.Parallel()
	for _, entries := range []int64{512, 0} {
		b := newBench(t)
		b.limits.Limits = types.DefaultLimits
		b.limits.HashEntries = entries
		b.run("HSET", "h", "a", "1", "b", "2", "c", "3")
		b.run("HPEXPIRE", "h", "10", "FIELDS", "2", "a", "b")
		b.now += 10
		if got, o := b.run("HLEN", "h"); string(got) != ":1\r\n" || len(o.events) != 0 {
			t.Errorf("HLEN says %q, events %q", got, o.events)
		}
		got, o := b.run("HDEL", "h", "a")
		if e := names(o.events); string(got) != ":0\r\n" || e != "hexpired" || o.changes != 0 {
			t.Errorf("HDEL says %q, events %q, %d changes", got, e, o.changes)
		}
		if _, o = b.run("HDEL", "h", "a"); len(o.events) != 0 {
			t.Errorf("again: %q", o.events)
		}
		b.run("HPEXPIRE", "h", "10", "FIELDS", "1", "c")
		b.now += 10
		got, o = b.run("HSET", "h", "d", "4")
		if e := names(o.events); string(got) != ":1\r\n" || e != "hexpired del new hset" {
			t.Errorf("HSET says %q, events %q", got, e)
		}
	}
}

// The usual calls make no garbage.
func TestHashAllocations(t *testing.T) {
	if race.Enabled {
		t.Skip("the race detector drops what is pooled, at random")
	}
	for _, entries := range []int64{512, 0} {
		b := newBench(t)
		b.limits.Limits = types.DefaultLimits
		b.limits.HashEntries = entries
		b.run("HSET", "h", "a", "1", "b", "2", "n", "3")
		tx := b.begin()
		tx.Listening = 0
		for _, call := range []string{
			"HGET h a", "HSET h a other", "HSET h new value", "HINCRBY h n 5", "HDEL h a", "HMGET h a b n", "HLEN h", "HEXISTS h a", "HSETNX h a 1",
		} {
			allocs := b.allocations(tx, strings.Fields(call))
			if allocs > 0 {
				t.Errorf("%d entries: %s makes %v allocations", entries, call, allocs)
			}
		}
		tx.Rows.View.Close()
	}
}
