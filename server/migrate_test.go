package server_test

import (
	"bufio"
	"bytes"
	"fmt"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"redoubt/engine"
	"redoubt/internal/respclient"
	"redoubt/internal/sharedmem"
	"redoubt/internal/testserver"
	"redoubt/server"
)

// migrate is MIGRATE to a server, without the first arguments.
func (c *client) migrate(addr string, args ...string) string {
	c.t.Helper()
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		c.t.Fatal(err)
	}
	return c.do(append([]string{"MIGRATE", host, port}, args...)...)
}

// expect makes calls and compares the replies.
func (c *client) expect(pairs ...string) {
	c.t.Helper()
	for i := 0; i < len(pairs); i += 2 {
		if got := c.do(strings.Fields(pairs[i])...); got != pairs[i+1] {
			c.t.Errorf("%s: %.300s, want %.300s", pairs[i], got, pairs[i+1])
		}
	}
}

func TestMigrate(t *testing.T) {
	carriers(t, func(t *testing.T, pipes bool) {
		testMigrate(t, start(t, pipes).dial(), start(t, pipes))
	})
}

// In a transaction or script MIGRATE is a part of it: it sees what came before, and does
// not wait for the latches that the transaction holds.
func TestMigrateInExec(t *testing.T) {
	carriers(t, func(t *testing.T, pipes bool) {
		from, target := start(t, pipes).dial(), start(t, pipes)
		host, port, err := net.SplitHostPort(target.addr)
		if err != nil {
			t.Fatal(err)
		}
		to := " " + host + " " + port + " "
		from.expect("MULTI", "OK", "SELECT 2", "QUEUED", "SET k v", "QUEUED", "MIGRATE"+to+"k 0 5000", "QUEUED", "EXISTS k", "QUEUED",
			"MIGRATE"+to+"k 0 5000", "QUEUED", "SET k w", "QUEUED", "MIGRATE"+to+"k 0 5000", "QUEUED", "GET k", "QUEUED",
			"EXEC", "1) OK\n2) OK\n3) OK\n4) (integer) 0\n5) NOKEY\n6) OK\n"+
				"7) (error) ERR Target instance replied with error: BUSYKEY Target key name already exists.\n8) \"w\"")
		if got := from.do("EVAL", "redis.call('SET', KEYS[1], 'x') return {redis.call('MIGRATE', unpack(ARGV)), redis.call('EXISTS', KEYS[1])}",
			"1", "s", host, port, "s", "0", "5000"); got != "1) OK\n2) (integer) 0" {
			t.Errorf("in a script: %s", got)
		}
		from.expect("DBSIZE", "(integer) 1", "SELECT 0", "OK", "DBSIZE", "(integer) 0")
		target.dial().expect("MGET k s", "1) \"v\"\n2) \"x\"")
	})
}

// On a store that others use, the commit may conflict when the target has the key
// already. The next try finds it there and takes it for its own.
func TestMigrateConflicts(t *testing.T) {
	t.Parallel()
	eng := sharedmem.New().Open()
	from, target := startWith(t, server.Options{Engine: eng, Beat: 50 * time.Millisecond}).dial(), start(t, false)
	from.expect("SET a 1", "OK", "SET b 2", "OK")
	tries := 0
	eng.Intercept(func(batch *engine.Batch) (f sharedmem.Fault) {
		for op := range batch.Ops() {
			if bytes.HasSuffix(op.Key, []byte("a")) {
				if tries++; tries <= 3 {
					f.Err = engine.ErrConflict
				}
				break
			}
		}
		return f
	})
	if got := from.migrate(target.addr, "", "0", "5000", "KEYS", "a", "b"); got != "OK" {
		t.Error(got)
	}
	eng.Intercept(nil)
	if tries < 4 {
		t.Errorf("%d tries", tries)
	}
	from.expect("EXISTS a b", "(integer) 0")
	if got := from.info("stats", "migrate_cached_sockets"); got != "1" {
		t.Errorf("%s connections are kept", got)
	}
	target.dial().expect("MGET a b", "1) \"1\"\n2) \"2\"")
}

// The same between Redoubt and a real Redis: there only.
func TestMigrateToRedis(t *testing.T) {
	testserver.Oracle(t)
	testMigrate(t, start(t, false).dial(), &front{t: t, addr: testserver.StartRedis(t).Addr})
}

func testMigrate(t *testing.T, from *client, target *front) {
	to := target.dial()
	from.expect("SET s text", "OK", "SET n 5", "OK", "PEXPIRE n 100000", "(integer) 1", "RPUSH l a b c", "(integer) 3", "SADD set 1 2 x", "(integer) 3",
		"ZADD z 1 a 2.5 b", "(integer) 2", "HSET h f v g w", "(integer) 2", "XADD x 1-1 f v", `"1-1"`, "XGROUP CREATE x group 0", "OK")
	if got := from.migrate(target.addr, "", "3", "5000", "KEYS", "s", "n", "nokey", "l", "set", "z", "h", "x"); got != "OK" {
		t.Fatal(got)
	}
	if got := from.info("stats", "migrate_cached_sockets"); got != "1" {
		t.Errorf("%s connections are kept", got)
	}
	from.expect("DBSIZE", "(integer) 0")
	to.expect("DBSIZE", "(integer) 0", "SELECT 3", "OK", "DBSIZE", "(integer) 7", "GET s", `"text"`, "GET n", `"5"`, "TTL n", "(integer) 100", "TTL s", "(integer) -1",
		"LRANGE l 0 -1", "1) \"a\"\n2) \"b\"\n3) \"c\"", "SCARD set", "(integer) 3", "ZSCORE z b", `"2.5"`, "HGET h g", `"w"`, "XLEN x", "(integer) 1",
		"XINFO CONSUMERS x group", "(empty array)")

	// A copy, and over a key that is there.
	from.expect("SET s other", "OK", "SET k v", "OK")
	if got := from.migrate(target.addr, "k", "3", "5000", "COPY"); got != "OK" {
		t.Error(got)
	}
	if got := from.migrate(target.addr, "s", "3", "5000"); got != "(error) ERR Target instance replied with error: BUSYKEY Target key name already exists." {
		t.Error(got)
	}
	to.expect("GET s", `"text"`, "GET k", `"v"`)
	from.expect("MGET s k", "1) \"other\"\n2) \"v\"")
	if got := from.migrate(target.addr, "", "3", "5000", "COPY", "REPLACE", "KEYS", "s", "k"); got != "OK" {
		t.Error(got)
	}
	to.expect("GET s", `"other"`)

	// Only what was taken is deleted.
	from.expect("MSET a 1 b 2 c 3 d 4", "OK")
	to.expect("MSET b _ c _", "OK")
	if got := from.migrate(target.addr, "", "3", "5000", "KEYS", "a", "b", "c", "d"); !strings.Contains(got, "BUSYKEY") {
		t.Error(got)
	}
	from.expect("MGET a b c d", "1) (nil)\n2) \"2\"\n3) \"3\"\n4) (nil)")
	to.expect("MGET a b c d", "1) \"1\"\n2) \"_\"\n3) \"_\"\n4) \"4\"")

	// The connection that was kept is closed by the other side: another is made.
	to.expect("CLIENT KILL TYPE normal SKIPME yes", "(integer) 1")
	if got := from.migrate(target.addr, "b", "4", "5000"); got != "OK" {
		t.Error(got)
	}
	to.expect("CLIENT KILL TYPE normal SKIPME yes", "(integer) 1")
	if got := from.migrate(target.addr, "c", "4", "5000"); got != "OK" {
		t.Error(got)
	}
	to.expect("SELECT 4", "OK", "DBSIZE", "(integer) 2")

	if got := from.migrate(target.addr, "k", "99", "5000"); got != "(error) ERR Target instance replied with error: ERR DB index is out of range" {
		t.Error(got)
	}
	to.expect("CONFIG SET requirepass secret", "OK", "AUTH secret", "OK", "CLIENT KILL TYPE normal SKIPME yes", "(integer) 0")
	for _, c := range []struct{ args, want string }{
		{"", "(error) ERR Target instance replied with error: NOAUTH Authentication required."},
		{"AUTH wrong", "(error) ERR Target instance replied with error: WRONGPASS invalid username-password pair or user is disabled."},
		{"AUTH secret", "OK"},
		{"AUTH2 default secret", "OK"},
	} {
		from.expect("SET k v", "OK")
		if got := from.migrate(target.addr, append([]string{"k", "5", "5000", "REPLACE"}, strings.Fields(c.args)...)...); got != c.want {
			t.Errorf("%s: %s", c.args, got)
		}
	}
	from.expect("EXISTS k", "(integer) 0")
	to.expect("SELECT 5", "OK", "GET k", `"v"`)
}

// Large values go over in one piece, and many keys in one call.
func TestMigrateMuch(t *testing.T) {
	t.Parallel()
	from, target := start(t, false).dial(), start(t, false)
	to := target.dial()
	const elements, keys = 20_000, 1000
	args := make([]string, 0, elements+2)
	args = append(args, "RPUSH", "list")
	for i := range elements {
		args = append(args, fmt.Sprint("element ", i))
	}
	from.do(args...)
	args = []string{"", "0", "5000", "KEYS", "list"}
	for i := range keys {
		from.do("SET", fmt.Sprint("key", i), strings.Repeat("x", i))
		args = append(args, fmt.Sprint("key", i))
	}
	if got := from.migrate(target.addr, args...); got != "OK" {
		t.Fatal(got)
	}
	from.expect("DBSIZE", "(integer) 0")
	to.expect("DBSIZE", fmt.Sprintf("(integer) %d", keys+1), "LLEN list", fmt.Sprintf("(integer) %d", elements),
		"LINDEX list -1", fmt.Sprintf("%q", fmt.Sprint("element ", elements-1)), "STRLEN key999", "(integer) 999")
}

// fake is a target that answers as it is told.
type fake struct {
	net.Listener
	taken atomic.Int64
}

// newFake starts one. Answer is called for each call that comes, with its number, and
// returns the reply; an empty one is none, and "close" hangs up.
func newFake(t *testing.T, answer func(n int, args []respclient.Value) string) *fake {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	f := &fake{Listener: l}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			f.taken.Add(1)
			go f.serve(conn, answer)
		}
	}()
	return f
}

func (f *fake) serve(conn net.Conn, answer func(int, []respclient.Value) string) {
	defer conn.Close()
	c := respclient.New(conn)
	w := bufio.NewWriter(conn)
	for n := 0; ; n++ {
		v, err := c.Read()
		if err != nil {
			return
		}
		reply := answer(n, v.Elems)
		if reply == "close" {
			return
		}
		if reply != "" {
			fmt.Fprintf(w, "%s\r\n", reply)
			w.Flush()
		}
	}
}

const ioRead = "(error) IOERR error or timeout reading to target instance"

// Nothing is deleted that the target did not take, whatever it does.
func TestMigrateToATroublesomeTarget(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name    string
		answer  func(n int, args []respclient.Value) string
		want    string
		left    string
		patient bool
	}{
		{"it never answers", func(int, []respclient.Value) string { return "" }, ioRead, "1) \"1\"\n2) \"2\"\n3) \"3\"", false},
		{"it answers the first only", func(n int, _ []respclient.Value) string {
			return []string{"+OK", "+OK", "", ""}[n] // the first is SELECT
		}, ioRead, "1) (nil)\n2) \"2\"\n3) \"3\"", false},
		{"it hangs up", func(n int, _ []respclient.Value) string {
			return []string{"+OK", "+OK", "close"}[n]
		}, ioRead, "1) (nil)\n2) \"2\"\n3) \"3\"", true},
		{"it hangs up at once", func(int, []respclient.Value) string { return "close" }, ioRead, "1) \"1\"\n2) \"2\"\n3) \"3\"", true},
		{"it refuses one", func(n int, _ []respclient.Value) string {
			return []string{"+OK", "+OK", "-OOM no room", "+OK"}[n]
		}, "(error) ERR Target instance replied with error: OOM no room", "1) (nil)\n2) \"2\"\n3) (nil)", true},
		{"it refuses one and hangs up", func(n int, _ []respclient.Value) string {
			return []string{"+OK", "-OOM no room", "close"}[n]
		}, "(error) ERR Target instance replied with error: OOM no room", "1) \"1\"\n2) \"2\"\n3) \"3\"", true},
		{"it is not a Redis", func(int, []respclient.Value) string { return strings.Repeat("x", 5000) }, ioRead, "1) \"1\"\n2) \"2\"\n3) \"3\"", true},
		{"it refuses the database", func(int, []respclient.Value) string { return "-ERR no such database" },
			"(error) ERR Target instance replied with error: ERR no such database", "1) \"1\"\n2) \"2\"\n3) \"3\"", true},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			from := start(t, false).dial()
			from.expect("MSET a 1 b 2 c 3", "OK")
			timeout := "100"
			if c.patient {
				timeout = "20000"
			}
			if got := from.migrate(newFake(t, c.answer).Addr().String(), "", "1", timeout, "KEYS", "a", "b", "c"); got != c.want {
				t.Errorf("%s", got)
			}
			from.expect("MGET a b c", c.left)
		})
	}
}

// What is written to a key while it is on its way is not lost: it waits, and finds
// that the key is gone, or still there.
func TestMigrateHoldsItsKeys(t *testing.T) {
	carriers(t, func(t *testing.T, pipes bool) {
		for _, answer := range []string{"+OK", "-ERR not now"} {
			f := start(t, pipes)
			one, two, three := f.dial(), f.dial(), f.dial()
			one.expect("SET counter 5", "OK", "SET other 1", "OK")
			arrived, release := make(chan struct{}), make(chan struct{})
			target := newFake(t, func(n int, args []respclient.Value) string {
				if n == 0 {
					return "+OK"
				}
				close(arrived)
				<-release
				return answer
			})
			host, port, _ := net.SplitHostPort(target.Addr().String())
			one.send("MIGRATE", host, port, "counter", "1", "20000")
			<-arrived
			two.send("INCR", "counter")
			three.expect("INCR other", "(integer) 2", "GET other", `"2"`) // others go on
			if !two.silent() {
				t.Error("a key was changed on its way")
			}
			close(release)
			if answer == "+OK" {
				one.want("OK")
				two.want("(integer) 1")
			} else {
				one.want("(error) ERR Target instance replied with error: ERR not now")
				two.want("(integer) 6")
			}
		}
	})
}

// Connections are kept for the next call, which needs no SELECT then.
func TestMigrateKeepsConnections(t *testing.T) {
	t.Parallel()
	from := start(t, false).dial()
	var selects atomic.Int64
	target := newFake(t, func(_ int, args []respclient.Value) string {
		if args[0].Str == "SELECT" {
			selects.Add(1)
		}
		return "+OK"
	})
	for i, db := range []string{"1", "1", "2", "2", "1"} {
		from.expect("SET k v", "OK")
		if got := from.migrate(target.Addr().String(), "k", db, "5000"); got != "OK" {
			t.Fatal(got)
		}
		if got := from.info("stats", "migrate_cached_sockets"); got != "1" {
			t.Errorf("call %d: %s connections are kept", i, got)
		}
	}
	if target.taken.Load() != 1 || selects.Load() != 3 {
		t.Errorf("%d connections, %d SELECTs", target.taken.Load(), selects.Load())
	}
}
