package command

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// needsRedis skips a test that compares with a real Redis unless REDOUBT_ORACLE is
// set. The redis-server, of version 7.2, is that of REDIS_SERVER or of the path.
func needsRedis(t *testing.T) {
	t.Helper()
	if os.Getenv("REDOUBT_ORACLE") == "" {
		t.Skip("REDOUBT_ORACLE is not set")
	}
}

// randomRun says how many random steps such a test makes, and from which seed:
// REDOUBT_STEPS and REDOUBT_SEED choose the run.
func randomRun(t *testing.T) (steps int, seed uint64) {
	t.Helper()
	needsRedis(t)
	steps, seed = 20000, uint64(time.Now().UnixNano())
	if n, err := strconv.Atoi(os.Getenv("REDOUBT_STEPS")); err == nil {
		steps = n
	}
	if n, err := strconv.ParseUint(os.Getenv("REDOUBT_SEED"), 10, 64); err == nil {
		seed = n
	}
	t.Logf("REDOUBT_SEED=%d", seed)
	return steps, seed
}

// TestStringsLikeRedis runs random calls of the commands on strings and bitmaps
// here and on a real Redis, and compares, after each of them: the reply byte by
// byte, the events of the keyspace, the number of changes, and for each key its
// value, its encoding and whether it has an expiry.
//
// It needs REDOUBT_ORACLE=1, and a redis-server of version 7.2 in REDIS_SERVER
// or in the path. REDOUBT_STEPS and REDOUBT_SEED choose the run.
func TestStringsLikeRedis(t *testing.T) {
	steps, seed := randomRun(t)
	g := &callGen{rand.New(rand.NewPCG(seed, 7))}
	redis, here := startRedis(t), newBench(t)
	for _, c := range [][]string{
		{"CONFIG", "SET", "notify-keyspace-events", "KEAmn"},
		{"CONFIG", "SET", "proto-max-bulk-len", strconv.Itoa(oracleMaxBulk)}, {"RPUSH", "list", "x"},
		{"DEBUG", "SET-ACTIVE-EXPIRE", "0"},
	} {
		redis.call(t, c...)
	}
	here.limits.MaxBulk = oracleMaxBulk
	here.storeList("list")
	changes := 0
	for i := range steps {
		call := g.call()
		show := fmt.Sprintf("step %d: %.200q", i, call)
		redis.drain(t)
		redis.events = redis.events[:0]
		before := redis.changes(t)
		theirs := redis.call(t, call...)
		redis.drain(t)
		here.now = time.Now().UnixMilli()
		ours, fx := here.run(call...)
		if !bytes.Equal(ours, theirs) {
			t.Fatalf("%s\nours   %.300q\ntheirs %.300q", show, ours, theirs)
		}
		if after := redis.changes(t); after-before != fx.changes {
			t.Fatalf("%s\nours %d changes, theirs %d", show, fx.changes, after-before)
		} else if after > before {
			changes++
		}
		if ours[0] == '-' { // a failed call leaves no trace here, not even its misses
			redis.events = slices.DeleteFunc(redis.events, func(e string) bool { return strings.HasPrefix(e, "keymiss ") })
		}
		if !slices.Equal(fx.events, redis.events) {
			t.Fatalf("%s\nour events   %q\ntheir events %q", show, fx.events, redis.events)
		}
		for _, key := range []string{string(call[min(1, len(call)-1)]), g.key()} {
			compareKey(t, show, redis, here, key)
		}
	}
	t.Logf("%d of %d calls changed something", changes, steps)
}

func compareKey(t *testing.T, show string, redis *redisConn, here *bench, key string) {
	t.Helper()
	theirs := [][]byte{redis.call(t, "OBJECT", "ENCODING", key), redis.call(t, "GET", key), redis.call(t, "PEXPIRETIME", key)}
	m := here.find(key)
	ours, _ := here.run("GET", key)
	if !bytes.Equal(ours, theirs[1]) {
		t.Fatalf("%s\n%s is %.300q, theirs is %.300q", show, key, ours, theirs[1])
	}
	if !m.Exists() {
		return
	}
	if name := encodingName(m); key != "list" && string(theirs[0]) != fmt.Sprintf("$%d\r\n%s\r\n", len(name), name) {
		t.Fatalf("%s\n%s has the encoding %s, theirs %q", show, key, name, theirs[0])
	}
	at, err := strconv.ParseInt(strings.TrimSpace(string(theirs[2][1:])), 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	// The clocks of both differ by the time between the calls.
	if (at == -1) != (m.Expire == 0) || m.Expire != 0 && max(at-m.Expire, m.Expire-at) > 10_000 {
		t.Fatalf("%s\n%s expires at %d, theirs at %d", show, key, m.Expire, at)
	}
}

// redisConn is a connection to the real Redis, and one that hears events.
type redisConn struct {
	c, sub   net.Conn
	r, heard *bufio.Reader
	events   []string
}

func startRedis(t *testing.T) *redisConn {
	t.Helper()
	prog := os.Getenv("REDIS_SERVER")
	if prog == "" {
		prog = "redis-server"
	}
	dir := t.TempDir()
	sock := filepath.Join(dir, "s")
	cmd := exec.Command(prog, "--port", "0", "--unixsocket", sock, "--dir", dir, "--save", "", "--appendonly", "no",
		"--enable-debug-command", "yes")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := cmd.Process.Kill(); err != nil {
			t.Error(err)
		}
		_ = cmd.Wait() // killed: that is its error
	})
	rc := &redisConn{}
	for deadline := time.Now().Add(10 * time.Second); ; {
		var err error
		if rc.c, err = net.Dial("unix", sock); err == nil {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal(err)
		}
	}
	var err error
	if rc.sub, err = net.Dial("unix", sock); err != nil {
		t.Fatal(err)
	}
	rc.r, rc.heard = bufio.NewReader(rc.c), bufio.NewReader(rc.sub)
	if _, err := rc.sub.Write([]byte("PSUBSCRIBE __keyevent@0__:* sync\r\n")); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if _, err := readReply(rc.heard); err != nil {
			t.Fatal(err)
		}
	}
	return rc
}

// needs skips the test if the server is of another version, 7.2 say.
func (rc *redisConn) needs(t *testing.T, version string) {
	t.Helper()
	_, is, _ := strings.Cut(string(rc.call(t, "INFO", "server")), "redis_version:")
	if is, _, _ = strings.Cut(is, "\r"); !strings.HasPrefix(is, version+".") {
		t.Skipf("compares with Redis %s, this is %s", version, is)
	}
}

func (rc *redisConn) call(t *testing.T, args ...string) []byte {
	t.Helper()
	b := fmt.Appendf(nil, "*%d\r\n", len(args))
	for _, a := range args {
		b = fmt.Appendf(b, "$%d\r\n%s\r\n", len(a), a)
	}
	if _, err := rc.c.Write(b); err != nil {
		t.Fatal(err)
	}
	reply, err := readReply(rc.r)
	if err != nil {
		t.Fatal(err)
	}
	return reply
}

// drain takes in the events so far.
func (rc *redisConn) drain(t *testing.T) {
	t.Helper()
	rc.call(t, "PUBLISH", "sync", "x")
	for {
		msg, err := readReply(rc.heard)
		if err != nil {
			t.Fatal(err)
		}
		part := strings.Split(string(msg), "\r\n") // *4 $8 pmessage $n pattern $n channel $n message
		if part[6] == "sync" {
			return
		}
		if e := strings.TrimPrefix(part[6], "__keyevent@0__:"); e != "expired" { // comes when it comes
			rc.events = append(rc.events, e+" "+part[8])
		}
	}
}

func (rc *redisConn) changes(t *testing.T) int {
	t.Helper()
	info := string(rc.call(t, "INFO", "persistence"))
	_, rest, _ := strings.Cut(info, "rdb_changes_since_last_save:")
	n, err := strconv.Atoi(rest[:strings.Index(rest, "\r")])
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// readReply reads one RESP2 reply as it stands on the wire.
func readReply(r *bufio.Reader) ([]byte, error) {
	line, err := r.ReadBytes('\n')
	if err != nil {
		return nil, err
	}
	n, _ := strconv.Atoi(strings.TrimSpace(string(line[1:])))
	switch {
	case line[0] == '$' && n >= 0:
		body := make([]byte, n+2)
		if _, err := io.ReadFull(r, body); err != nil {
			return nil, err
		}
		line = append(line, body...)
	case line[0] == '*':
		for range n {
			part, err := readReply(r)
			if err != nil {
				return nil, err
			}
			line = append(line, part...)
		}
	}
	return line, nil
}
