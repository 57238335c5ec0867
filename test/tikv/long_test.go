package tikv_test

import (
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"redoubt/copier"
	"redoubt/engine"
	"redoubt/engine/mem"
	"redoubt/engine/tikv"
	"redoubt/internal/respclient"
	"redoubt/internal/testserver"
	"redoubt/internal/testserver/ontikv"
	"redoubt/internal/testtikv"
)

// Names that are longer than TiKV's keys may be: commands take them, up to what a row
// may have, and a copy brings them to another store and back.
func TestLongNames(t *testing.T) {
	t.Parallel()
	pd, prefix := testtikv.Shared(t), testtikv.Prefix(t)
	ok := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	dial := func(prefix string) *respclient.Client {
		c, err := respclient.Dial(testserver.Start(t, ontikv.At(pd, prefix, 20*time.Second)).Addr)
		ok(err)
		t.Cleanup(func() { c.Close() })
		return c
	}
	c := dial(prefix)
	say := func(c *respclient.Client, want string, args ...string) {
		t.Helper()
		v, err := c.Do(args...)
		ok(err)
		if v.Str != want && !(v.IsError() && strings.HasPrefix(v.Str, want)) {
			t.Fatalf("%.40q: %.200s, want %s", args, v.Str, want)
		}
	}
	name := func(n int, end string) string { return strings.Repeat("name", n/4) + end }
	var members []string
	for i := range 100 {
		end := fmt.Sprintf("%03d", i*37%100)
		members = append(members, name(5000, end))
		say(c, "OK", "SET", name(50_000, end), end)
		say(c, "OK", "SET", name(3000, end), end, "PX", "100000000")
		say(c, "1", "ZADD", "z", "0", name(5000, end))
		say(c, "1", "HSET", "h", name(20_000, end), end)
	}
	slices.Sort(members)
	million := strings.Repeat("m", 1_000_000)
	say(c, "2", "SADD", "s", million, million+"1")
	// What a row cannot hold is refused as a whole.
	huge := strings.Repeat("h", 6<<20)
	for _, args := range [][]string{{"SET", huge, "v"}, {"SADD", "s", "new", huge}, {"HSET", "h", "new", huge}, {"RPUSH", "l", "new", huge}} {
		say(c, "ERR commit: a name with its value, or an element, takes 62915", args...)
	}
	say(c, "OK", "SET", "v", strings.Repeat(huge, 2))
	say(c, "0", "EXISTS", "l")

	open := func(prefix string) engine.Engine {
		e, err := tikv.Open(tikv.Options{PD: []string{pd}, Prefix: prefix, Timeout: 20 * time.Second, Logger: slog.New(slog.DiscardHandler)})
		ok(err)
		t.Cleanup(func() { ok(e.Close()) })
		return e
	}
	other := testtikv.Prefix(t) + "copy:"
	from := open(prefix)
	for _, to := range []engine.Engine{mem.New(), open(other)} {
		rows, err := from.Snapshot()
		ok(err)
		_, err = copier.Run(t.Context(), copier.Source{Rows: rows, Name: "long"}, to, copier.Options{})
		ok(err)
		ok(rows.Close())
		from = to
	}

	for _, c := range []*respclient.Client{c, dial(other)} {
		all, err := c.Do("KEYS", "*")
		ok(err)
		if len(all.Elems) != 204 {
			t.Errorf("%d keys", len(all.Elems))
		}
		say(c, "042", "GET", name(50_000, "042"))
		say(c, "", "GET", name(50_000, "x"))
		say(c, "1", "SISMEMBER", "s", million+"1")
		say(c, "0", "SISMEMBER", "s", million+"2")
		say(c, "042", "HGET", "h", name(20_000, "042"))
		say(c, "42", "ZRANK", "z", members[42])
		say(c, "10", "ZLEXCOUNT", "z", "["+members[20], "("+members[30])
		for _, way := range []string{"ZRANGE", "ZREVRANGE"} {
			v, err := c.Do(way, "z", "0", "-1")
			ok(err)
			var got []string
			for _, e := range v.Elems {
				got = append(got, e.Str)
			}
			if way == "ZREVRANGE" {
				slices.Reverse(got)
			}
			if !slices.Equal(got, members) {
				t.Errorf("%s: %d members, or in another order", way, len(got))
			}
		}
		unlink := []string{"UNLINK"}
		for i := range 100 {
			unlink = append(unlink, name(50_000, fmt.Sprintf("%03d", i)))
		}
		say(c, "100", unlink...)
	}
}
