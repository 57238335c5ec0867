package replica

import (
	"context"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"redoubt/client"
	"redoubt/comparer"
	"redoubt/internal/respclient"
	"redoubt/internal/testmaster"
	"redoubt/internal/testserver"
)

// program is built once.
var program = sync.OnceValues(func() (string, error) {
	path, err := testserver.Build()
	built = path
	return path, err
})

var built string

func TestMain(m *testing.M) {
	code := m.Run()
	if built != "" {
		os.RemoveAll(filepath.Dir(built))
	}
	os.Exit(code)
}

// seeded returns random numbers whose seed is printed; REPLICA_SEED repeats them.
func seeded(t *testing.T) *rand.Rand {
	seed := uint64(time.Now().UnixNano())
	if s := os.Getenv("REPLICA_SEED"); s != "" {
		seed, _ = strconv.ParseUint(s, 10, 64)
	}
	t.Logf("REPLICA_SEED=%d", seed)
	return rand.New(rand.NewPCG(seed, 1))
}

func dial(t *testing.T, addr string) *respclient.Client {
	t.Helper()
	c, err := respclient.Dial(addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

func do(t *testing.T, c *respclient.Client, words ...string) string {
	t.Helper()
	v, err := c.Do(words...)
	if err != nil {
		t.Fatalf("%v: %v", words, err)
	}
	return v.Str
}

// info is a line of INFO.
func info(t *testing.T, c *respclient.Client, section, name string) string {
	t.Helper()
	for line := range strings.Lines(do(t, c, "INFO", section)) {
		if n, value, _ := strings.Cut(strings.TrimSpace(line), ":"); n == name {
			return value
		}
	}
	return ""
}

func redoubt(t *testing.T, dir string, args ...string) *testserver.Process {
	t.Helper()
	path, err := program()
	if err != nil {
		t.Fatal(err)
	}
	return testserver.StartProcess(t, path, dir, args...)
}

func split(addr string) (host, port string) {
	host, port, _ = strings.Cut(addr, ":")
	return host, port
}

// inSync waits until the replica has applied all that the master has sent.
func inSync(t *testing.T, master, replica *respclient.Client) {
	t.Helper()
	testmaster.Wait(t, "the replica is in sync", func() bool {
		want, _ := strconv.ParseInt(info(t, master, "replication", "master_repl_offset"), 10, 64)
		have, _ := strconv.ParseInt(info(t, replica, "replication", "slave_repl_offset"), 10, 64)
		return info(t, replica, "replication", "master_link_status") == "up" && have >= want
	})
}

// equal compares the data of two servers key by key.
func equal(t *testing.T, from, to string) {
	t.Helper()
	r, err := comparer.Compare(context.Background(), comparer.Options{
		From: client.Server{Addr: from}, To: client.Server{Addr: to}, Skew: time.Second, Again: 5,
		Report: func(d comparer.Difference) { t.Error(d) },
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d keys compared", r.Keys)
}

// dumps restores what a Redis dumps of each key beside what its replica, a master now, has of
// the key, and compares the two.
func dumps(t *testing.T, master, replica *respclient.Client) {
	t.Helper()
	n := 0
	for db := range 3 {
		do(t, master, "SELECT", strconv.Itoa(db))
		do(t, replica, "SELECT", strconv.Itoa(db))
		keys, err := master.Do("KEYS", "*")
		if err != nil {
			t.Fatal(err)
		}
		for _, k := range keys.Elems {
			dump, err := master.Do("DUMP", k.Str)
			if err != nil {
				t.Fatal(err)
			}
			do(t, replica, "PERSIST", k.Str)
			if got := do(t, replica, "RESTORE", "of the master", "0", dump.Str, "REPLACE"); dump.IsNull || got != "OK" {
				if do(t, master, "EXISTS", k.Str) == "1" {
					t.Errorf("RESTORE of %q: %s", k.Str, got)
				}
				continue
			}
			v, err := replica.Do("DEBUG", "DIGEST-VALUE", k.Str, "of the master")
			if err != nil || len(v.Elems) != 2 {
				t.Fatalf("DIGEST-VALUE: %v, %v", v, err)
			}
			// When a consumer was last seen is not replicated, by Redis neither.
			if groups, err := master.Do("XINFO", "GROUPS", k.Str); err == nil && len(groups.Elems) > 0 {
				continue
			}
			if v.Elems[0].Str != v.Elems[1].Str {
				t.Errorf("key %q of database %d differs from its DUMP", k.Str, db)
			}
			n++
		}
		do(t, replica, "DEL", "of the master")
	}
	t.Logf("%d DUMPs compared", n)
}

// writer writes random commands of all types.
type writer struct {
	rng *rand.Rand
	n   int
}

// next is a command; some are wrong, or empty what is there.
func (w *writer) next() []string {
	w.n++
	r := w.rng
	k := func(kind string) string { return kind + strconv.Itoa(r.IntN(40)) }
	v := strconv.Itoa(w.n)
	if r.IntN(30) == 0 {
		v = strings.Repeat(v, 1+r.IntN(2000))
	}
	small := strconv.Itoa(r.IntN(50))
	list := [][]string{
		{"SET", k("s"), v}, {"SET", k("s"), v, "EX", "1000"}, {"SET", k("s"), v, "PX", "1"}, {"APPEND", k("s"), v}, {"SETRANGE", k("s"), small, v}, {"INCR", k("n")}, {"INCRBYFLOAT", k("f"), "0.1"},
		{"GETEX", k("s"), "PX", "100000"}, {"GETDEL", k("s")}, {"MSET", k("s"), v, k("s"), v}, {"SETBIT", k("b"), small, "1"}, {"PFADD", k("p"), v}, {"PFMERGE", k("p"), k("p")},
		{"LPUSH", k("l"), v, v}, {"RPUSH", k("l"), v}, {"LPOP", k("l")}, {"RPOP", k("l"), "3"}, {"LMOVE", k("l"), k("l"), "LEFT", "RIGHT"}, {"LTRIM", k("l"), "0", "200"}, {"LINSERT", k("l"), "BEFORE", v, "x"},
		{"LMPOP", "2", k("l"), k("l"), "LEFT"}, {"SADD", k("t"), small, v}, {"SREM", k("t"), small}, {"SPOP", k("t")}, {"SPOP", k("t"), "3"}, {"SMOVE", k("t"), k("t"), small}, {"SUNIONSTORE", k("t"), k("t"), k("t")},
		{"HSET", k("h"), small, v, "g", v}, {"HDEL", k("h"), small}, {"HINCRBY", k("h"), "c", "3"}, {"HINCRBYFLOAT", k("h"), "d", "1.5"},
		{"ZADD", k("z"), small, v}, {"ZINCRBY", k("z"), "1.5", small}, {"ZPOPMIN", k("z")}, {"ZREMRANGEBYRANK", k("z"), "0", "1"}, {"ZUNIONSTORE", k("z"), "2", k("z"), k("z")}, {"ZRANGESTORE", k("z"), k("z"), "0", "20"}, {"GEOADD", k("z"), "13.3", "38.1", v},
		{"XADD", k("x"), "*", "a", v}, {"XADD", k("x"), "MAXLEN", "~", "100", "*", "a", v, "b", small}, {"XGROUP", "CREATE", k("x"), "g", "0", "MKSTREAM"}, {"XREADGROUP", "GROUP", "g", "c" + small, "COUNT", "3", "STREAMS", k("x"), ">"}, {"XTRIM", k("x"), "MAXLEN", "20"},
		{"XAUTOCLAIM", k("x"), "g", "c1", "0", "0", "COUNT", "2"},
		{"EXPIRE", k("s"), "1000"}, {"PEXPIRE", k("l"), "50"}, {"PERSIST", k("s")}, {"DEL", k("s"), k("l")}, {"UNLINK", k("z")}, {"RENAME", k("s"), k("s")}, {"COPY", k("h"), k("h"), "REPLACE"}, {"MOVE", k("s"), "2"},
		{"EVAL", "redis.call('incr',KEYS[1]) redis.call('set',KEYS[2],ARGV[1]) return redis.call('spop',KEYS[3])", "3", k("n"), k("s"), k("t"), v},
		{"SORT", k("t"), "STORE", k("l")}, {"BITFIELD", k("b"), "SET", "u8", small, small}, {"RESTORE", k("s"), "0", "\x00\x03abc\x0a\x00\x2b\x80\xa6\x9a\xc8\x5c\x9b\x0f"},
	}
	return list[r.IntN(len(list))]
}

// write writes n commands, some of them as transactions, in several databases.
func (w *writer) write(t *testing.T, c *respclient.Client, n int) error {
	t.Helper()
	var b []byte
	replies := 0
	add := func(words ...string) { b = respclient.AppendCommand(b, words...); replies++ }
	for range n {
		switch w.rng.IntN(60) {
		case 0:
			add("SELECT", strconv.Itoa(w.rng.IntN(3)))
		case 1:
			add("MULTI")
			for range w.rng.IntN(5) {
				add(w.next()...)
			}
			add("SELECT", strconv.Itoa(w.rng.IntN(3)))
			add(w.next()...)
			add("EXEC")
		case 2:
			if w.rng.IntN(10) == 0 {
				add([][]string{{"SWAPDB", "0", "1"}, {"FLUSHDB"}, {"FUNCTION", "LOAD", "REPLACE", "#!lua name=lib\nredis.register_function('f',function(k) return redis.call('incr',k[1]) end)"}}[w.rng.IntN(3)]...)
			}
		case 3:
			add("FCALL", "f", "1", "n"+strconv.Itoa(w.rng.IntN(40)))
		default:
			add(w.next()...)
		}
	}
	if err := c.Write(b); err != nil {
		return err
	}
	for range replies {
		if _, err := c.Read(); err != nil {
			return err
		}
	}
	return nil
}

// TestReplicaOfRedis writes at random to a Redis, and cuts links and kills its replica meanwhile.
func TestReplicaOfRedis(t *testing.T) {
	t.Parallel()
	testserver.Oracle(t)
	for _, c := range []struct {
		name string
		args []string
	}{{"diskless", []string{"--repl-diskless-sync", "yes", "--repl-diskless-sync-delay", "0"}}, {"disk", []string{"--repl-diskless-sync", "no"}}} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			rng := seeded(t)
			redis := testserver.StartRedis(t, append(c.args, "--repl-backlog-size", "64mb")...)
			m := dial(t, redis.Addr)
			w := &writer{rng: rng}
			write := func(n int) {
				if err := w.write(t, m, n); err != nil {
					t.Fatal(err)
				}
			}
			write(2000)
			dir := t.TempDir()
			// DEBUG is needed for digests.
			args := []string{"--enable-debug-command", "yes", "--maxmemory", "64mb"}
			p := redoubt(t, dir, args...)
			host, port := split(redis.Addr)
			if got := do(t, dial(t, p.Addr), "REPLICAOF", host, port); got != "OK" {
				t.Fatalf("REPLICAOF: %s", got)
			}
			for range 8 {
				write(500 + rng.IntN(2000))
				switch rng.IntN(3) {
				case 0:
					do(t, m, "CLIENT", "KILL", "TYPE", "replica")
				case 1:
					p.Kill()
					write(rng.IntN(500))
					p = redoubt(t, dir, args...)
				}
			}
			r := dial(t, p.Addr)
			inSync(t, m, r)
			equal(t, redis.Addr, p.Addr)
			t.Logf("full synchronizations: %s, partial: %s", info(t, m, "stats", "sync_full"), info(t, m, "stats", "sync_partial_ok"))
			if got := do(t, r, "SET", "a", "b"); !strings.HasPrefix(got, "READONLY") {
				t.Errorf("a write: %s", got)
			}
			if n := do(t, m, "WAIT", "1", "10000"); n != "1" {
				t.Errorf("WAIT: %s", n)
			}
			begun := time.Now()
			if got := do(t, r, "REPLICAOF", "NO", "ONE"); got != "OK" {
				t.Errorf("NO ONE: %s", got)
			}
			t.Logf("REPLICAOF NO ONE took %s", time.Since(begun))
			dumps(t, m, r)
			if got := do(t, r, "SET", "a", "b"); got != "OK" {
				t.Errorf("a write to the master: %s", got)
			}
		})
	}
}

// TestMasterIsKilled kills the master, which comes back with an older state: the replica takes
// it over as a whole.
func TestMasterIsKilled(t *testing.T) {
	t.Parallel()
	testserver.Oracle(t)
	rng := seeded(t)
	dir := t.TempDir()
	file := filepath.Join(dir, "redis.conf")
	if err := os.WriteFile(file, []byte("save \"\"\nappendonly yes\nappendfsync always\nrepl-diskless-sync-delay 0\nenable-debug-command yes\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	redis := testserver.StartRedisIn(t, dir, file)
	p := redoubt(t, t.TempDir(), "--enable-debug-command", "yes", "--maxmemory", "64mb")
	r := dial(t, p.Addr)
	w := &writer{rng: rng}
	for range 3 {
		host, port := split(redis.Addr)
		do(t, r, "REPLICAOF", host, port)
		m := dial(t, redis.Addr)
		if err := w.write(t, m, 1000+rng.IntN(2000)); err != nil {
			t.Fatal(err)
		}
		redis.Kill()
		redis = testserver.StartRedisIn(t, dir, file)
	}
	host, port := split(redis.Addr)
	do(t, r, "REPLICAOF", host, port)
	m := dial(t, redis.Addr)
	inSync(t, m, r)
	equal(t, redis.Addr, p.Addr)
}
