package differential

import (
	"bufio"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"redoubt/internal/rdbtext"
	"redoubt/internal/respclient"
	"redoubt/internal/testserver"
)

// A real Redis as the replica of a Redoubt on which random sequences run: both have the same
// data whenever the load rests.

// restPatience is how long a replica may take to have the same data as its master. It serves
// only to show where a test hangs.
const restPatience = 60 * time.Second

// client connects for the time of a test.
func client(t *testing.T, addr string) *respclient.Client {
	t.Helper()
	c, err := respclient.Dial(addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// follow makes a server a replica.
func follow(t *testing.T, c *respclient.Client, addr string) {
	t.Helper()
	host, port, _ := net.SplitHostPort(addr)
	if v, err := c.Do("REPLICAOF", host, port); err != nil || v.IsError() {
		t.Fatalf("REPLICAOF: %v %v", v, err)
	}
}

// contents returns the text of each key of a server, by a snapshot. What replicas of Redis do not
// agree upon either is left out: when a consumer was last seen, and how often entries that it has
// pending were shown to it again.
func contents(addr string) (map[string]string, error) {
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(restPatience)); err != nil {
		return nil, err
	}
	if _, err := conn.Write(respclient.AppendCommand(nil, "SYNC")); err != nil {
		return nil, err
	}
	in := bufio.NewReader(conn)
	line := "\n"
	for line == "\n" && err == nil { // still there
		line, err = in.ReadString('\n')
	}
	if err != nil {
		return nil, err
	}
	n, err := strconv.ParseInt(strings.TrimSpace(strings.TrimPrefix(line, "$")), 10, 64)
	if err != nil {
		return nil, fmt.Errorf("SYNC: %q", line)
	}
	keys, err := rdbtext.Keys(io.LimitReader(in, n))
	for k, text := range keys {
		keys[k] = private.ReplaceAllString(text, "$1")
	}
	return keys, err
}

var private = regexp.MustCompile(`(?m)^(consumer ".*"|pending \{\d+ \d+\})(?: -?\d+)+$`)

// awaitSame waits until the replica has the data of the master.
func awaitSame(t *testing.T, master, replica string) {
	t.Helper()
	var a, b map[string]string
	var err error
	for until := time.Now().Add(restPatience); time.Now().Before(until); time.Sleep(50 * time.Millisecond) {
		if a, err = contents(master); err != nil {
			t.Fatalf("the master: %v", err)
		}
		if b, err = contents(replica); err == nil && maps.Equal(a, b) {
			return
		}
	}
	rdbtext.Same(t, b, a)
	state := ""
	if c, err := respclient.Dial(replica); err == nil {
		v, _ := c.Do("INFO", "replication")
		state = v.Str
		c.Close()
	}
	t.Fatalf("the replica has other data than the master: %v; it says %s", err, state)
}

// replicaSeed prints the seed of a test.
func replicaSeed(t *testing.T) uint64 {
	s := *seed
	if s == 0 {
		s = uint64(time.Now().UnixNano())
	}
	t.Logf("seed %d", s)
	return s
}

// TestReplicaOracle runs sequences, in the ways of the other tests, on a Redoubt that has a real
// Redis as its replica.
func TestReplicaOracle(t *testing.T) {
	testserver.Oracle(t)
	t.Parallel()
	for _, engine := range []string{"local", "mem", "cold"} {
		t.Run(engine, func(t *testing.T) {
			t.Parallel()
			m := redoubtTarget(t, testserver.Options{Engine: engine, Args: []string{"--repl-diskless-sync-delay", "0"}}, true, 50)
			r := testserver.StartRedis(t)
			r.Needs(t, "7.0", "7.2")
			follow(t, client(t, r.Addr), m.addr)
			s := replicaSeed(t)
			for i := range uint64(18) {
				g := &generator{Rand: rand.New(rand.NewPCG(s+i, 1)), live: true}
				m.multi, m.eval = i%3 == 1, i%3 == 2
				seq := slices.DeleteFunc(g.sequence(*length), func(o op) bool { return o.wait > 50*time.Millisecond })
				if _, err := m.run(seq, 2); err != nil {
					t.Fatalf("seed %d: %v", s+i, err)
				}
				awaitSame(t, m.addr, r.Addr)
			}
		})
	}
}

// cutter passes connections on to a server and cuts each one after some bytes.
type cutter struct {
	ln   net.Listener
	to   string
	mu   sync.Mutex
	rng  *rand.Rand
	most int64 // 0: connections are not cut
	cuts int
}

func newCutter(t *testing.T, to string, rng *rand.Rand) *cutter {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	c := &cutter{ln: ln, to: to, rng: rng}
	t.Cleanup(func() { ln.Close() })
	go func() {
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			go c.pass(conn)
		}
	}()
	return c
}

// limit has connections from now on cut after up to most bytes, 0 for never.
func (c *cutter) limit(most int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.most = most
}

func (c *cutter) pass(conn net.Conn) {
	defer conn.Close()
	server, err := net.Dial("tcp", c.to)
	if err != nil {
		return
	}
	defer server.Close()
	c.mu.Lock()
	n := int64(1) << 62
	if c.most > 0 {
		n = c.rng.Int64N(c.most)
		c.cuts++
	}
	c.mu.Unlock()
	go func() {
		_, _ = io.Copy(server, conn)
		server.Close()
	}()
	_, _ = io.CopyN(conn, server, n)
}

// figure returns a number of INFO.
func figure(t *testing.T, c *respclient.Client, name string) int64 {
	t.Helper()
	v, err := c.Do("INFO", "everything")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(v.Str) {
		if value, ok := strings.CutPrefix(strings.TrimSpace(line), name+":"); ok {
			n, _ := strconv.ParseInt(value, 10, 64)
			return n
		}
	}
	t.Fatalf("INFO has no %s", name)
	return 0
}

// TestReplicaOfBrokenLinksOracle cuts the link of the replica after random numbers of bytes: in
// the handshake, in the snapshot and in the stream.
func TestReplicaOfBrokenLinksOracle(t *testing.T) {
	testserver.Oracle(t)
	t.Parallel()
	m := redoubtTarget(t, testserver.Options{Engine: "local", Args: []string{"--repl-diskless-sync-delay", "0", "--repl-backlog-size", "4mb", "--repl-ping-replica-period", "1"}}, true, 50)
	r := testserver.StartRedis(t, "--repl-timeout", "5")
	r.Needs(t, "7.0", "7.2")
	s := replicaSeed(t)
	cut := newCutter(t, m.addr, rand.New(rand.NewPCG(s, 2)))
	master, replica := client(t, m.addr), client(t, r.Addr)
	cut.limit(20 << 10)
	follow(t, replica, cut.ln.Addr().String())
	for i := range uint64(12) {
		g := &generator{Rand: rand.New(rand.NewPCG(s+i, 1)), live: true}
		seq := slices.DeleteFunc(g.sequence(*length), func(o op) bool { return o.wait > 50*time.Millisecond })
		if _, err := m.run(seq, 2); err != nil {
			t.Fatalf("seed %d: %v", s+i, err)
		}
		if v, err := replica.Do("CLIENT", "KILL", "TYPE", "master"); err != nil || v.IsError() {
			t.Fatal(v, err)
		}
	}
	cut.limit(0)
	if v, err := replica.Do("CLIENT", "KILL", "TYPE", "master"); err != nil || v.IsError() {
		t.Fatal(v, err)
	}
	awaitSame(t, m.addr, r.Addr)
	full, partial := figure(t, master, "sync_full"), figure(t, master, "sync_partial_ok")
	t.Logf("%d connections were to be cut; %d snapshots, %d times the stream alone", cut.cuts, full, partial)
	if cut.cuts < 3 || partial == 0 {
		t.Errorf("%d connections were to be cut, %d went on where they were", cut.cuts, partial)
	}
}

// TestReplicaOfKilledServersOracle kills the master and the replica in turns, under load.
func TestReplicaOfKilledServersOracle(t *testing.T) {
	testserver.Oracle(t)
	t.Parallel()
	program, err := testserver.Build()
	if err != nil {
		t.Fatal(err)
	}
	dir, args := t.TempDir(), []string{"--repl-diskless-sync-delay", "0", "--repl-ping-replica-period", "1"}
	p := testserver.StartProcess(t, program, dir, args...)
	s := replicaSeed(t)
	rng := rand.New(rand.NewPCG(s, 3))
	for i := range uint64(4) {
		r := testserver.StartRedis(t, "--repl-timeout", "5")
		r.Needs(t, "7.0", "7.2")
		replica := client(t, r.Addr)
		follow(t, replica, p.Addr)
		m := &serverTarget{label: "Redoubt", addr: p.Addr, reset: func() {}, advance: time.Sleep, burst: 50}
		g := &generator{Rand: rand.New(rand.NewPCG(s+i, 1)), live: true}
		seq := slices.DeleteFunc(g.sequence(*length), func(o op) bool { return o.wait > 50*time.Millisecond })
		if _, err := m.run(seq, 2); err != nil {
			t.Fatalf("seed %d: %v", s+i, err)
		}
		load, stopped := client(t, p.Addr), make(chan struct{})
		go func() { // until the server is killed
			defer close(stopped)
			for n := 0; ; n++ {
				if _, err := load.Do("INCR", "n"+strconv.Itoa(n%100)); err != nil {
					return
				}
			}
		}()
		time.Sleep(time.Duration(rng.IntN(50)) * time.Millisecond) // anywhere in the transfer and the stream
		p.Kill()
		<-stopped
		p = testserver.StartProcess(t, program, dir, args...)
		follow(t, replica, p.Addr)
		awaitSame(t, p.Addr, r.Addr)
		r.Kill()
	}
}
