package main

import (
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"redoubt/internal/respclient"
	"redoubt/internal/testserver"
)

// Data goes from a real Redis through its files to Redoubt and back into a real Redis, which
// compares. REDIS_SERVER names another redis-server than that of the path.

// realRedis is a Redis and a connection to it.
type realRedis struct {
	t   *testing.T
	c   *respclient.Client
	dir string
	v   string
}

// startReal starts a redis-server on a directory, or skips the test if there is none.
func startReal(t *testing.T, dir string, args ...string) *realRedis {
	t.Helper()
	if _, err := exec.LookPath("redis-server"); err != nil && os.Getenv("REDIS_SERVER") == "" {
		t.Skip("needs a redis-server: make tools installs one, or REDIS_SERVER names one")
	}
	conf := filepath.Join(t.TempDir(), "redis.conf")
	text := "save \"\"\n"
	for i := 0; i < len(args); i += 2 {
		text += args[i] + " " + args[i+1] + "\n"
	}
	must(t, os.WriteFile(conf, []byte(text), 0o600))
	r := testserver.StartRedisIn(t, dir, conf)
	c, err := respclient.Dial(r.Addr)
	must(t, err)
	t.Cleanup(func() { c.Close() })
	s := &realRedis{t, c, dir, r.Version}
	for deadline := time.Now().Add(20 * time.Second); s.raw("PING").Str != "PONG"; { // it may be loading
		if time.Now().After(deadline) {
			t.Fatal("redis-server does not get ready")
		}
	}
	return s
}

func (s *realRedis) raw(args ...string) respclient.Value {
	s.t.Helper()
	v, err := s.c.Do(args...)
	if err != nil {
		s.t.Fatalf("%.100q: %v", args, err)
	}
	return v
}

func (s *realRedis) do(args ...string) respclient.Value {
	s.t.Helper()
	v := s.raw(args...)
	if v.IsError() {
		s.t.Fatalf("%.100q: %s", args, v)
	}
	return v
}

func (s *realRedis) line(line string) { s.t.Helper(); s.do(strings.Fields(line)...) }

// since says whether the server has a version, or a later one.
func (s *realRedis) since(version string) bool { return s.v >= version }

// fill makes keys of every type and size, in several databases.
func (s *realRedis) fill(rng *rand.Rand) {
	for _, line := range []string{
		"SET s:int 12345", "SET s:neg -1", "SET s:big 9223372036854775807", "SET s:text hello", "SETRANGE s:zeros 300000 x", "SETBIT s:bits 77777 1",
		"PFADD hll a b c d e", "GEOADD geo 13.361389 38.115556 Palermo 15.087269 37.502669 Catania",
		"RPUSH l:small a b 1 -5 100000", "SADD set:int 1 -5 99999999999", "SADD set:small a b 1", "ZADD z:small 1 a -inf b +inf c 1.5 d 1.5 e",
		"HSET h:small f v 1 2", "SELECT 9", "SET other:db v", "SET other:ttl v", "PEXPIREAT other:ttl 4000000000001", "SELECT 0",
		"XADD x:empty 1-1 a b", "XDEL x:empty 1-1", "XGROUP CREATE x:only g $ MKSTREAM",
	} {
		s.line(line)
	}
	s.do("SET", "", "the empty key")
	s.do("SET", "s:empty", "")
	s.do("SET", "s:long", strings.Repeat("0123456789abcdef", 100_000))
	s.do("SET", "bin\x00\xff\r\n key", "\x00\xff\r\n")
	for i := range 3000 {
		n := rng.IntN(1 << 30)
		s.do("RPUSH", "l:large", fmt.Sprint("element ", n))
		s.do("SADD", "set:large", fmt.Sprint("member ", n))
		s.do("SADD", "set:ints", fmt.Sprint(n))
		s.do("ZADD", "z:large", fmt.Sprint(rng.NormFloat64()), fmt.Sprint("member ", n))
		s.do("HSET", "h:large", fmt.Sprint("field ", n), strings.Repeat("v", rng.IntN(100)))
		s.do("XADD", "x:large", fmt.Sprintf("%d-%d", 1000+i, i%3), "field", fmt.Sprint(n), fmt.Sprint("other", i%5), "v")
		s.do("SET", fmt.Sprint("key:", i), fmt.Sprint("value ", n))
		if i%10 == 0 {
			s.do("PEXPIREAT", fmt.Sprint("key:", i), fmt.Sprint(4000000000000+n))
			s.do("XDEL", "x:large", fmt.Sprintf("%d-%d", 1000+i, i%3))
		}
	}
	s.do("RPUSH", "l:long", strings.Repeat("long", 5000), "x", strings.Repeat("z", 100))
	s.do("XGROUP", "CREATE", "x:large", "g", "0")
	s.do("XGROUP", "CREATE", "x:large", "idle", "1500")
	for i := range 20 {
		s.do("XREADGROUP", "GROUP", "g", fmt.Sprint("consumer ", i%5), "COUNT", "60", "STREAMS", "x:large", ">")
	}
	s.do("XTRIM", "x:large", "MAXLEN", "2500")
	s.raw("XGROUP", "CREATECONSUMER", "x:large", "g", "never")
	if s.since("7") {
		s.do("FUNCTION", "LOAD", "#!lua name=mylib\nredis.register_function('answer', function() return 42 end)")
		s.do("FUNCTION", "LOAD", "#!lua name=other\nredis.register_function('question', function() return 'what?' end)")
	}
	if s.since("7.4") {
		s.line("HSET t:small a 1 b 2 c 3")
		s.line("HPEXPIREAT t:small 4000000000000 FIELDS 2 a b")
		for i := range 700 {
			s.do("HSET", "t:large", fmt.Sprint("f", i), fmt.Sprint(i))
		}
		s.line("HPEXPIREAT t:large 4000000000123 FIELDS 2 f0 f699")
	}
}

// same compares the data of two servers by what they say of it themselves. An append-only file
// does not say when consumers were seen.
func (s *realRedis) same(o *realRedis, seen bool) {
	s.t.Helper()
	for _, db := range []string{"0", "9"} {
		s.do("SELECT", db)
		o.do("SELECT", db)
		if a, b := s.do("DBSIZE"), o.do("DBSIZE"); a.Int() != b.Int() {
			s.t.Errorf("database %s has %d keys, and there %d", db, a.Int(), b.Int())
		}
		cursor := "0"
		for {
			page := s.do("SCAN", cursor, "COUNT", "1000")
			for _, k := range page.Elems[1].Elems {
				for _, ask := range [][]string{{"DEBUG", "DIGEST-VALUE", k.Str}, {"TYPE", k.Str}, {"PTTL", k.Str}} {
					a, b := s.do(ask...), o.do(ask...)
					near := ask[0] == "PTTL" && a.Int()-b.Int() < 60_000 && b.Int()-a.Int() < 60_000 && (a.Int() < 0) == (b.Int() < 0)
					if fmt.Sprint(a) != fmt.Sprint(b) && !near {
						s.t.Errorf("%q in database %s: %s is %v, and there %v", k.Str, db, ask[1], a, b)
					}
				}
			}
			if cursor = page.Elems[0].Str; cursor == "0" {
				break
			}
		}
	}
	s.do("SELECT", "0")
	o.do("SELECT", "0")
	if a, b := s.do("DEBUG", "DIGEST"), o.do("DEBUG", "DIGEST"); a.Str != b.Str {
		s.t.Errorf("the digest is %s, and there %s", a.Str, b.Str)
	}
	for _, ask := range []string{"XINFO STREAM x:large FULL COUNT 0", "XINFO STREAM x:empty FULL", "HPEXPIRETIME t:large FIELDS 3 f0 f1 f699"} {
		words := strings.Fields(ask)
		a, b := s.raw(words...), o.raw(words...)
		if s.v < "7.4" && words[0] == "HPEXPIRETIME" {
			continue
		}
		if words[0] == "XINFO" { // how the entries lie in memory is not data
			hide := []string{"radix-tree-keys", "radix-tree-nodes"}
			if !seen {
				hide = append(hide, "seen-time", "active-time")
			}
			without(a, hide)
			without(b, hide)
		}
		if fmt.Sprint(a) != fmt.Sprint(b) {
			s.t.Errorf("%s\n is %.2000s\nhere %.2000s", ask, fmt.Sprint(b), fmt.Sprint(a))
		}
	}
	if s.since("7") {
		for _, name := range []string{"mylib", "other"} {
			list := []string{"FUNCTION", "LIST", "LIBRARYNAME", name, "WITHCODE"}
			if a, b := s.do(list...), o.do(list...); fmt.Sprint(a) != fmt.Sprint(b) {
				s.t.Errorf("the functions are %v, and there %v", a, b)
			}
		}
	}
}

// without hides values by their names.
func without(v respclient.Value, names []string) {
	for i := range v.Elems {
		if i > 0 && slices.Contains(names, v.Elems[i-1].Str) {
			v.Elems[i] = respclient.Value{Kind: respclient.Bulk}
		}
		without(v.Elems[i], names)
	}
}

// back exports a store and has a real Redis load it, twice.
func back(t *testing.T, store string, of *realRedis, seen bool) {
	t.Helper()
	if out, _, err := use("check", "--dir", store); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	dir := t.TempDir()
	args := []string{"export", "--from", store, "--to", filepath.Join(dir, "dump.rdb")}
	if !of.since("7.2") { // it knows no later version
		args = append(args, "--rdb-version", "10")
	}
	out, _, err := use(args...)
	must(t, err)
	t.Log(strings.TrimSpace(out))
	if !of.since("7") {
		return // what is written is for Redis 7.0 and later
	}
	r := startReal(t, dir, "enable-debug-command", "yes")
	of.same(r, seen)
	r.do("DEBUG", "RELOAD", "NOSAVE")
	of.same(r, seen)
}

func redisSeed(t *testing.T) *rand.Rand {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	return rand.New(rand.NewPCG(seed, 0))
}

// A Redis's dump.rdb.
func TestRedisFileGoesRound(t *testing.T) {
	t.Parallel()
	s := startReal(t, t.TempDir(), debugOf()...)
	s.fill(redisSeed(t))
	s.do("SAVE")
	store := t.TempDir()
	out, _, err := use("import", filepath.Join(s.dir, "dump.rdb"), "--to", store)
	must(t, err)
	t.Logf("Redis %s: %s", s.v, strings.TrimSpace(out))
	back(t, store, s, true)
}

// debugOf is what allows DEBUG, on versions that ask for it.
func debugOf() []string {
	path := os.Getenv("REDIS_SERVER")
	if path == "" {
		path = "redis-server"
	}
	if out, err := exec.Command(path, "--version").Output(); err == nil && strings.Contains(string(out), "v=6") {
		return nil
	}
	return []string{"enable-debug-command", "yes"}
}

// A Redis's append-only file: with a base in RDB or in commands, or before Redis 7 one file.
func TestRedisCommandsGoRound(t *testing.T) {
	t.Parallel()
	for _, preamble := range []string{"yes", "no"} {
		s := startReal(t, t.TempDir(), append(debugOf(), "appendonly", "yes", "aof-use-rdb-preamble", preamble, "appendfsync", "no")...)
		rng := redisSeed(t)
		s.fill(rng)
		s.do("BGREWRITEAOF")
		for deadline := time.Now().Add(30 * time.Second); strings.Contains(s.do("INFO", "persistence").Str, "aof_rewrite_in_progress:1") ||
			strings.Contains(s.do("INFO", "persistence").Str, "aof_rewrite_scheduled:1"); {
			if time.Now().After(deadline) {
				t.Fatal("the file is not rewritten")
			}
		}
		for i := range 300 {
			s.do("SPOP", "set:large")
			s.do("INCRBYFLOAT", "s:float", "0.1")
			s.do("ZINCRBY", "z:large", "1.5", fmt.Sprint("new ", i%7))
			s.do("HINCRBYFLOAT", "h:large", "sum", "0.3")
			s.do("LMOVE", "l:large", "l:moved", "LEFT", "RIGHT")
			s.do("XADD", "x:large", "*", "n", fmt.Sprint(i))
			s.do("XREADGROUP", "GROUP", "g", "late", "COUNT", "2", "STREAMS", "x:large", ">")
			s.do("SET", fmt.Sprint("late:", i%50), "v", "EX", fmt.Sprint(100000+i))
			s.do("GETEX", fmt.Sprint("late:", i%50), "PERSIST")
			s.do("SETEX", fmt.Sprint("late:", i%20), "200000", "x")
			s.do("EXPIRE", "s:float", "100000")
			if i%20 == 0 {
				s.do("MULTI")
				s.do("RENAME", "s:float", "s:f2")
				s.do("SELECT", "9")
				s.do("INCR", "counter")
				s.do("SELECT", "0")
				s.do("COPY", "s:f2", "s:float", "REPLACE")
				s.do("EXEC")
				s.do("EVAL", "redis.call('RPUSH', KEYS[1], ARGV[1]); return redis.call('INCR', KEYS[2])", "2", "l:script", "n:script", fmt.Sprint(i))
			}
		}
		s.do("SWAPDB", "9", "3")
		s.do("SET", "short", "v", "PX", "1")
		s.do("SELECT", "9")
		s.do("SET", "other", "v")
		s.do("FLUSHDB")
		s.do("SWAPDB", "9", "3")
		s.do("SELECT", "0")
		if s.since("7") {
			s.do("FUNCTION", "DELETE", "other")
		}
		for deadline := time.Now().Add(10 * time.Second); s.do("EXISTS", "short").Int() > 0 && time.Now().Before(deadline); {
		}
		path := filepath.Join(s.dir, "appendonly.aof")
		if s.since("7") {
			path = s.dir // the manifest is found in appendonlydir
		}
		store := t.TempDir()
		out, _, err := use("import", path, "--to", store)
		must(t, err)
		t.Logf("Redis %s, preamble %s: %s", s.v, preamble, strings.TrimSpace(out))
		s.do("DEBUG", "LOADAOF") // what the file says, not what the server knew besides
		back(t, store, s, false)
	}
}
