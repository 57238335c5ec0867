package server_test

import (
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"redoubt/budget"
	"redoubt/engine/local"
	"redoubt/journal"
	"redoubt/keyspace"
	"redoubt/server"
)

// The working memory of commands: what needs much of it waits for its turn or fails,
// and nobody else is disturbed.

// startShort starts a server on a store in files whose commands have little working
// memory.
func startShort(t *testing.T, pipes bool, limit int64) (*front, *budget.Pool) {
	t.Helper()
	eng, err := local.Open(local.Options{Dir: t.TempDir(), Memory: 1 << 50, Fsync: journal.No, Unit: keyspace.Unit, Pinned: keyspace.Pinned})
	if err != nil {
		t.Fatal(err)
	}
	held := new(budget.Budget)
	held.Work.SetLimit(limit)
	return startWith(t, server.Options{Engine: eng, Pipes: pipes, Budget: held}, "--proto-max-bulk-len", "64mb"), &held.Work
}

// fillMany makes collections of n elements: a list, two sets, two sorted sets, a hash.
func (c *client) fillMany(n int) {
	c.t.Helper()
	for at := 0; at < n; at += 500 {
		l, s, u := []string{"RPUSH", "l"}, []string{"SADD", "s"}, []string{"SADD", "u"}
		z, y, h := []string{"ZADD", "z"}, []string{"ZADD", "y"}, []string{"HSET", "h"}
		for i := at; i < min(n, at+500); i++ {
			e := fmt.Sprint("element-", i*7919%n)
			l, s, u = append(l, e), append(s, e), append(u, "other-"+e)
			z, y, h = append(z, fmt.Sprint(i), e), append(y, fmt.Sprint(i), "other-"+e), append(h, e, "some value of "+e)
		}
		for _, args := range [][]string{l, s, u, z, y, h} {
			if got := c.do(args...); !strings.HasPrefix(got, "(integer)") {
				c.t.Fatalf("%s: %s", args[0], got)
			}
		}
	}
}

// many are commands on what fillMany made that need working memory. %d is another number
// for each client.
var many = []string{
	"SORT l ALPHA", "SORT l ALPHA DESC LIMIT 10 20", "SORT l BY nokey-* ALPHA", "SORT l ALPHA STORE sorted:%d",
	"ZUNION 2 z y", "ZINTER 2 z s WITHSCORES", "ZDIFF 2 z u",
	"ZUNIONSTORE zu:%d 2 z y", "ZINTERSTORE zi:%d 2 z s", "ZRANGESTORE zr:%d z 0 -1",
	"SUNIONSTORE su:%d s u", "SINTERSTORE si:%d s s", "SDIFFSTORE sd:%d s u",
	"COPY h copy:%d", "DUMP h", "SRANDMEMBER s -3000", "LRANGE l 0 -1",
}

func at(line string, i int) []string {
	return strings.Fields(strings.ReplaceAll(line, "%d", fmt.Sprint(i)))
}

// Many at once are all answered, as one by itself is, and hold together what they may.
func TestWorkingMemoryIsShared(t *testing.T) {
	carriers(t, func(t *testing.T, pipes bool) {
		f, pool := startShort(t, pipes, 4<<20)
		one := f.dial()
		one.fillMany(6000)
		var all sync.WaitGroup
		for i, line := range many {
			want := ""
			if !strings.Contains(line, "SRANDMEMBER") {
				want = one.do(at(line, 100)...)
			}
			if strings.HasPrefix(want, "(error)") {
				t.Errorf("%s: %s", line, want)
			}
			for j := range 3 {
				c := f.dial()
				all.Go(func() {
					if got := c.do(at(line, j)...); want != "" && got != want || strings.HasPrefix(got, "(error)") {
						t.Errorf("%d %s: %.200s, want %.200s", i, line, got, want)
					}
				})
			}
		}
		all.Wait()
		for _, key := range []string{"sorted", "zu", "zi", "zr", "su", "si", "sd", "copy"} {
			if a, b := one.do("DEBUG", "DIGEST-VALUE", key+":100"), one.do("DEBUG", "DIGEST-VALUE", key+":1"); a != b {
				t.Errorf("%s: %s and %s", key, a, b)
			}
		}
		eventually(t, "all memory is given back", func() bool { return pool.Used() == 0 })
		if got := pool.Figures(); got.Most > got.Limit || got.Most == 0 || got.Waiting > 0 || got.Refused > 0 {
			t.Errorf("figures %+v", got)
		}
	})
}

// What can never fit is told so, and leaves no trace.
func TestTooMuchWorkingMemory(t *testing.T) {
	t.Parallel()
	f, pool := startShort(t, false, 256<<10)
	c := f.dial()
	c.fillMany(20000)
	size := c.do("DBSIZE")
	for i, line := range []string{
		"SORT l ALPHA", "SORT l ALPHA STORE sorted", "ZUNION 2 z y", "DUMP h", "EVAL X 0", "EVAL Y 1 written",
	} {
		args := at(line, 0)
		switch args[len(args)-1] {
		case "0":
			args[1] = "local t = {} for i = 1, 100000 do t[i] = 'value ' .. i end return #t"
		case "written":
			args[1] = "redis.call('SET', KEYS[1], 'x') return {pcall(string.rep, 'x', 1000000)}"
		}
		if got := c.do(args...); !strings.HasPrefix(got, "(error) OOM ") || !strings.Contains(got, "maxmemory") {
			t.Errorf("%s: %.200s", line, got)
		}
		if got := pool.Figures(); got.Refused != int64(i+1) {
			t.Errorf("%s: %+v", line, got)
		}
	}
	if got := c.do("DBSIZE"); got != size {
		t.Errorf("there are %s keys, and were %s", got, size)
	}
	if got := c.do("SORT", "l", "ALPHA", "LIMIT", "0", "2"); got != "1) \"element-0\"\n2) \"element-1\"" {
		t.Errorf("with LIMIT: %s", got)
	}
	if got := c.info("memory", "mem_working_limit"); got != fmt.Sprint(256<<10) {
		t.Errorf("the limit is %s", got)
	}
}

// Ten scripts that build tables are run one after the other if need be.
func TestScriptsShareWorkingMemory(t *testing.T) {
	t.Parallel()
	f, pool := startShort(t, false, 4<<20)
	var all sync.WaitGroup
	for i := range 10 {
		c := f.dial()
		all.Go(func() {
			script := "local t = {} for i = 1, 15000 do t[i] = KEYS[1] .. i end redis.call('SET', KEYS[1], #t) return #t"
			if got := c.do("EVAL", script, "1", fmt.Sprint("key", i)); got != "(integer) 15000" {
				t.Errorf("script %d: %s", i, got)
			}
		})
	}
	all.Wait()
	if got := f.dial().do("DBSIZE"); got != "(integer) 10" {
		t.Errorf("there are %s keys", got)
	}
	if got := pool.Figures(); got.Most > got.Limit || got.Used != 0 || got.Refused > 0 {
		t.Errorf("figures %+v", got)
	}
}

// A transaction of large values is written in portions.
func TestLargeTransaction(t *testing.T) {
	t.Parallel()
	f, pool := startShort(t, false, 12<<20)
	c := f.dial()
	value := strings.Repeat("v", 1<<20)
	c.do("MULTI")
	for i := range 30 {
		if got := c.do("SET", fmt.Sprint("k", i), value); got != "QUEUED" {
			t.Fatal(got)
		}
	}
	if got := c.do("EXEC"); !strings.HasSuffix(got, "30) OK") {
		t.Errorf("EXEC: %.200s", got)
	}
	if got := c.do("STRLEN", "k29"); got != "(integer) 1048576" {
		t.Errorf("STRLEN: %s", got)
	}
	if got := pool.Figures(); got.Most > got.Limit || got.Used != 0 {
		t.Errorf("figures %+v", got)
	}
}

// While somebody holds the memory, large commands wait, small ones do not, and a client
// that has gone, in whatever way, gives up its place.
func TestWaitingForWorkingMemory(t *testing.T) {
	carriers(t, func(t *testing.T, pipes bool) {
		f, pool := startShort(t, pipes, 4<<20)
		c := f.dial()
		c.fillMany(20000)
		held := pool.Lease()
		if err := held.Grow(pool.Limit()*3/4, nil); err != nil {
			t.Fatal(err)
		}
		waits := f.dial()
		waits.send("ZUNIONSTORE", "union", "2", "z", "y")
		eventually(t, "it takes what there is", func() bool { return pool.Used() > pool.Limit()*3/4 })
		for name, leave := range map[string]func(*client, *net.TCPConn, string) error{
			"killed": func(_ *client, _ *net.TCPConn, id string) error {
				_, err := c.Do("CLIENT", "KILL", "ID", id)
				return err
			},
			"closed": func(gone *client, _ *net.TCPConn, _ string) error { return gone.Close() },
			"reset": func(gone *client, conn *net.TCPConn, _ string) error {
				return errors.Join(conn.SetLinger(0), gone.Close())
			},
			"half closed": func(_ *client, conn *net.TCPConn, _ string) error { return conn.CloseWrite() },
		} {
			gone := f.dial()
			id := gone.id()
			gone.send("SORT", "l", "ALPHA", "STORE", "never")
			eventually(t, "another one waits", func() bool { return pool.Figures().Waiting > 0 })
			if err := leave(gone, gone.Conn().(*net.TCPConn), id); err != nil {
				t.Fatal(err)
			}
			eventually(t, name+": its place is free", func() bool { return pool.Figures().Waiting == 0 })
			eventually(t, name+": it is closed", func() bool { return c.field(id, "id") == "" })
		}
		if got := c.do("SET", "k", "v"); got != "OK" {
			t.Error(got)
		}
		if got := c.do("EVAL", "local n = 0 for i = 1, 100000 do n = n + i end return n", "0"); got != "(integer) 5000050000" {
			t.Error(got)
		}
		held.Release()
		waits.want("(integer) 40000")
		if got := c.do("EXISTS", "never"); got != "(integer) 0" {
			t.Error("who has gone was served")
		}
	})
}

func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); !ok(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("never seen: " + what)
		}
	}
}
