package server_test

import (
	"strings"
	"testing"

	"redoubt/internal/respclient"
	"redoubt/internal/testserver"
)

// smallForms and largeForms have collections packed, or in rows from the first
// element on.
func smallForms(t *testing.T, c *respclient.Client) {
	t.Helper()
	must(t, c, "CONFIG SET hash-max-listpack-entries 512 set-max-intset-entries 512 set-max-listpack-entries 128 "+
		"zset-max-listpack-entries 128 list-max-listpack-size -2")
}

func largeForms(t *testing.T, c *respclient.Client) {
	t.Helper()
	must(t, c, "CONFIG SET hash-max-listpack-entries 0 set-max-intset-entries 0 set-max-listpack-entries 0 "+
		"zset-max-listpack-entries 0 list-max-listpack-size 1")
}

// Equal values have equal digests, in whatever form they are and however they came
// to be; and nothing else has.
func TestDigestOfCollections(t *testing.T) {
	t.Parallel()
	c := dial(t, testserver.Start(t, testserver.Options{Args: debugOn}).Addr)
	value := func(key string) string { return must(t, c, "DEBUG DIGEST-VALUE "+key).Elems[0].Str }
	for _, v := range []struct {
		name string
		// The same value in two ways, the first one in the small form and the
		// second in the large one.
		small, large []string
		// Changes that must show, and what undoes them.
		change, undo []string
	}{
		{
			"list", []string{"RPUSH k a b c"}, []string{"LPUSH k b a", "LPUSH k x", "RPUSH k c d", "LPOP k", "RPOP k"},
			[]string{"RPUSH k d", "LSET k 0 x", "LPUSH k a"}, []string{"RPOP k", "LSET k 0 a", "LPOP k"},
		},
		{
			"integers", []string{"SADD k 1 2 3"}, []string{"SADD k 3 x 2 1", "SREM k x"},
			[]string{"SADD k 4", "SREM k 1"}, []string{"SREM k 4", "SADD k 1"},
		},
		{
			"set", []string{"SADD k a b c"}, []string{"SADD k c x b a", "SREM k x"},
			[]string{"SADD k d", "SREM k a"}, []string{"SREM k d", "SADD k a"},
		},
		{
			"hash", []string{"HSET k f 1 g 2"}, []string{"HSET k g 1 f 1 h 3", "HSET k g 2", "HDEL k h"},
			[]string{"HSET k f 2", "HSET k h 1", "HPEXPIREAT k 33177117420000 FIELDS 1 f"}, []string{"HSET k f 1", "HDEL k h", "HPERSIST k FIELDS 1 f"},
		},
		{
			"sorted set", []string{"ZADD k 1 a 2.5 b -inf c"}, []string{"ZADD k 7 b 1 a -inf c 3 d", "ZADD k 2.5 b", "ZREM k d"},
			[]string{"ZADD k 1.5 a", "ZADD k 1 d"}, []string{"ZADD k 1 a", "ZREM k d"},
		},
		{
			"stream", []string{"XADD k 1-1 f v", "XADD k 2-1 g w h x", "XGROUP CREATE k one 0"},
			[]string{"XGROUP CREATE k two 0 MKSTREAM", "XADD k 1-1 f v", "XADD k 2-1 g w h x", "XGROUP CREATE k one 0", "XGROUP DESTROY k two"},
			[]string{"XADD k 3-1 f v", "XGROUP CREATECONSUMER k one alice"}, nil,
		},
		{"string", []string{"SET k text"}, []string{"APPEND k te", "APPEND k xt"}, []string{"APPEND k x", "SET k tex"}, []string{"SET k text", "SET k text"}},
		{
			"long string", []string{"SET k " + strings.Repeat("x", 20000)}, []string{"SETRANGE k 0 " + strings.Repeat("x", 20000)},
			[]string{"SETRANGE k 19999 y", "SETRANGE k 1 y"}, []string{"SETRANGE k 19999 x", "SETRANGE k 1 x"},
		},
	} {
		make := func(calls []string) string {
			must(t, c, "DEL k")
			for _, call := range calls {
				must(t, c, call)
			}
			return value("k")
		}
		smallForms(t, c)
		small := make(v.small)
		must(t, c, "COPY k copy REPLACE")
		must(t, c, "RENAME copy other")
		if got := value("other"); got != small {
			t.Errorf("%s: a copy has the digest %s, not %s", v.name, got, small)
		}
		whole := must(t, c, "DEBUG DIGEST").Str
		largeForms(t, c)
		if large := make(v.large); large != small {
			t.Errorf("%s: the digests of the forms are %s and %s", v.name, small, large)
		}
		if got := must(t, c, "DEBUG DIGEST").Str; got != whole {
			t.Errorf("%s: the digests of the databases are %s and %s", v.name, whole, got)
		}
		for i, change := range v.change {
			must(t, c, change)
			if value("k") == small {
				t.Errorf("%s: %s does not change the digest", v.name, change)
			}
			if i < len(v.undo) {
				must(t, c, v.undo[i])
				if got := value("k"); got != small {
					t.Errorf("%s: %s and %s make the digest %s, not %s", v.name, change, v.undo[i], got, small)
				}
			}
		}
		must(t, c, "FLUSHALL")
	}
}

// DEBUG OBJECT knows every type and form.
func TestDebugObjectOfCollections(t *testing.T) {
	t.Parallel()
	c := dial(t, testserver.Start(t, testserver.Options{Args: debugOn}).Addr)
	for _, form := range []struct {
		set   func(*testing.T, *respclient.Client)
		names [5]string
	}{
		{smallForms, [5]string{"listpack", "listpack", "listpack", "listpack", "stream"}},
		{largeForms, [5]string{"quicklist", "hashtable", "skiplist", "hashtable", "stream"}},
	} {
		form.set(t, c)
		for i, call := range []string{"RPUSH k a b", "SADD k a b", "ZADD k 1 a 2 b", "HSET k f v", "XADD k 1-1 f v"} {
			must(t, c, "DEL k")
			must(t, c, call)
			if got := must(t, c, "DEBUG OBJECT k").Str; !strings.Contains(got, " encoding:"+form.names[i]+" ") {
				t.Errorf("%s: %s, want %s", call, got, form.names[i])
			}
		}
	}
}

// MEMORY USAGE of a collection goes with its size, whether sampled or counted.
func TestMemoryUsageOfCollections(t *testing.T) {
	t.Parallel()
	c := dial(t, testserver.Start(t, testserver.Options{}).Addr)
	for _, call := range []string{"RPUSH", "SADD", "ZADD", "HSET"} {
		args := []string{call, "k"}
		must(t, c, "DEL k")
		for i := range 5000 {
			m := "member:" + string(rune('a'+i%26)) + strings.Repeat("x", 10) + string(rune('0'+i/26%10)) + string(rune('0'+i/260))
			switch call {
			case "ZADD":
				args = append(args, "1", m)
			case "HSET":
				args = append(args, m, "value")
			default:
				args = append(args, m)
			}
		}
		if v, err := c.Do(args...); err != nil || v.IsError() {
			t.Fatalf("%s: %s, %v", call, v, err)
		}
		sampled, all := must(t, c, "MEMORY USAGE k").Int(), must(t, c, "MEMORY USAGE k SAMPLES 0").Int()
		if all < 5000*40 || sampled < all*8/10 || sampled > all*12/10 {
			t.Errorf("%s: %d bytes sampled, %d counted", call, sampled, all)
		}
	}
}
