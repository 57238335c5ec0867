// Package crash kills a real server at random moments under load, starts it
// again, and checks that it kept its word: every acknowledged write is there,
// none is there by half, nothing that was read is undone.
package crash

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"redoubt/internal/respclient"
	"redoubt/internal/testserver"
)

var (
	rounds = flag.Int("rounds", 3, "how often each server is killed")
	seed   = flag.Uint64("seed", 0, "seed of the operations and of the moments; 0 takes one from the clock")
	race   = flag.Bool("racebuild", false, "build the server with the race detector")
)

var program string

func TestMain(m *testing.M) {
	flag.Parse()
	if *seed == 0 {
		*seed = uint64(time.Now().UnixNano())
	}
	if n, err := strconv.Atoi(os.Getenv("REDOUBT_CRASH_ROUNDS")); err == nil {
		*rounds = n
	}
	var flags []string
	if *race {
		flags = append(flags, "-race")
	}
	path, err := testserver.Build(flags...)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	program = path
	code := m.Run()
	if err := os.RemoveAll(filepath.Dir(path)); err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
	os.Exit(code)
}

const writers = 12

// cluster is the clients of one store, over its whole life.
type cluster struct {
	dir, fsync string
	memory     string // maxmemory
	rng        *rand.Rand
	clients    []*client
	seen       map[string]int // the highest count that anybody read, by db/key
	forms      map[string]int // how many values of each form were there after a crash
}

func newCluster(t *testing.T, fsync string) *cluster {
	t.Logf("seed %d", *seed)
	c := &cluster{dir: t.TempDir(), fsync: fsync, memory: "256mb", rng: rand.New(rand.NewPCG(*seed, 77)), seen: make(map[string]int), forms: make(map[string]int)}
	for i := range writers {
		c.clients = append(c.clients, newClient(i, *seed))
	}
	return c
}

func (c *cluster) start(t *testing.T) *testserver.Process {
	t.Helper()
	return testserver.StartProcess(t, program, c.dir, c.args()...)
}

// args make collections unfold early.
func (c *cluster) args() []string {
	return []string{"--appendfsync", c.fsync, "--engine", "local", "--maxmemory", c.memory, "--hash-max-listpack-entries", "16", "--set-max-listpack-entries", "16",
		"--set-max-intset-entries", "16", "--zset-max-listpack-entries", "16", "--list-max-listpack-size", "16", "--stream-node-max-entries", "7"}
}

// inspect has the program check the store of a server that was killed.
func (c *cluster) inspect(t *testing.T) {
	t.Helper()
	out, err := exec.Command(program, "check", "--dir", c.dir).CombinedOutput()
	if err != nil {
		t.Fatalf("redoubt check: %v\n%s", err, out)
	}
}

// load runs all clients and readers against a server until stop has run and
// every connection is broken.
func (c *cluster) load(t *testing.T, addr string, stop func()) {
	t.Helper()
	var wg sync.WaitGroup
	for _, cl := range c.clients {
		wg.Go(func() {
			if err := cl.write(addr); errors.Is(err, errWrongReply) {
				t.Errorf("client %d: %v", cl.id, err)
			}
		})
	}
	ctx, cancel := context.WithCancel(context.Background())
	var mu sync.Mutex
	for i := range 2 {
		rng := rand.New(rand.NewPCG(*seed, uint64(1000+i)))
		wg.Go(func() {
			seen := readCounts(ctx, addr, rng)
			mu.Lock()
			defer mu.Unlock()
			for k, n := range seen {
				c.seen[k] = max(c.seen[k], n)
			}
		})
	}
	for i := range 3 {
		rng := rand.New(rand.NewPCG(c.rng.Uint64(), uint64(2000+i)))
		wg.Go(func() {
			if err := runWild(addr, rng); err != nil {
				t.Error(err)
			}
		})
	}
	stop()
	cancel()
	wg.Wait()
}

// readCounts reads counters of others and returns the highest it saw of each.
func readCounts(ctx context.Context, addr string, rng *rand.Rand) map[string]int {
	seen := make(map[string]int)
	conn, err := respclient.Dial(addr)
	if err != nil {
		return seen
	}
	defer conn.Close()
	for ctx.Err() == nil {
		id := 1 + rng.IntN(writers-1)
		db, key := strconv.Itoa(id%3), fmt.Sprintf("count:%d:%d", id, rng.IntN(8))
		if _, err := conn.Do("SELECT", db); err != nil {
			return seen
		}
		v, err := conn.Do("GET", key)
		if err != nil {
			return seen
		}
		if n := int(v.Int()); n > seen[db+"/"+key] {
			seen[db+"/"+key] = n
		}
	}
	return seen
}

// check compares a restarted server with what the clients and readers know.
func (c *cluster) check(t *testing.T, addr string) {
	t.Helper()
	found, err := dump(addr, c.forms)
	if err != nil {
		t.Fatalf("read the store: %v", err)
	}
	for _, cl := range c.clients {
		own := state{}
		for db := range cl.acked {
			own[db] = make(map[string]value)
			for k, v := range found[db] {
				if cl.alone || strings.HasSuffix(k[:strings.LastIndexByte(k, ':')], fmt.Sprintf(":%d", cl.id)) {
					own[db][k] = v
				}
			}
		}
		if err := cl.settle(own); err != nil {
			t.Fatal(err)
		}
	}
	for place, n := range c.seen {
		db, key, _ := strings.Cut(place, "/")
		d, _ := strconv.Atoi(db)
		if now, _ := strconv.Atoi(found[d][key].text); now < n {
			t.Fatalf("a reader saw %s at %d, now it is %d", place, n, now)
		}
	}
}

// dump reads all databases, and checks DBSIZE by the way.
func dump(addr string, forms map[string]int) (state, error) {
	conn, err := respclient.Dial(addr)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	all := state{}
	for db := range 16 {
		if _, err := conn.Do("SELECT", strconv.Itoa(db)); err != nil {
			return nil, err
		}
		keys, err := scanAll(conn)
		if err != nil {
			return nil, err
		}
		all[db] = make(map[string]value)
		for k := range keys {
			text, ok, err := read(conn, k)
			if err != nil {
				return nil, err
			}
			at, err := conn.Do("PEXPIRETIME", k)
			if err != nil {
				return nil, err
			}
			if !ok { // a short-lived one that expired meanwhile
				continue
			}
			form, err := conn.Do("OBJECT", "ENCODING", k)
			if err != nil {
				return nil, err
			}
			kind, _, _ := strings.Cut(text, " ")
			if slices.Contains([]string{"hash", "list", "set", "zset", "stream"}, kind) {
				forms[kind+" as "+form.Str]++
				if kind == "zset" && strings.Count(text, " ") > 600 {
					forms["zset with ranks"]++
				}
			}
			all[db][k] = value{text: text, at: max(0, at.Int())}
		}
		if err := checkSize(conn, db); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// checkSize waits until DBSIZE is the number of keys; expired ones may be
// counted until they are removed in the background.
func checkSize(conn *respclient.Client, db int) error {
	for deadline := time.Now().Add(10 * time.Second); ; {
		keys, err := scanAll(conn)
		if err != nil {
			return err
		}
		size, err := conn.Do("DBSIZE")
		if err != nil {
			return err
		}
		if int(size.Int()) == len(keys) {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("DBSIZE of database %d is %d, SCAN finds %d keys", db, size.Int(), len(keys))
		}
	}
}

func scanAll(conn *respclient.Client) (map[string]bool, error) {
	keys := make(map[string]bool)
	for cursor := "0"; ; {
		v, err := conn.Do("SCAN", cursor, "COUNT", "100")
		if err != nil {
			return nil, err
		}
		if v.IsError() || len(v.Elems) != 2 {
			return nil, fmt.Errorf("SCAN: %s", v)
		}
		for _, k := range v.Elems[1].Elems {
			keys[k.Str] = true
		}
		if cursor = v.Elems[0].Str; cursor == "0" {
			return keys, nil
		}
	}
}

func (c *cluster) acknowledged() (n int) {
	for _, cl := range c.clients {
		n += cl.count
	}
	return n
}

// TestKill kills the server again and again.
func TestKill(t *testing.T) {
	for _, how := range []string{"always", "everysec", "everysec-cold"} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			fsync, cold := strings.CutSuffix(how, "-cold")
			c := newCluster(t, fsync)
			if cold { // most rows are on disk only, and rounds write back all the time
				c.memory = "4mb"
			}
			for range *rounds {
				p := c.start(t)
				c.load(t, p.Addr, func() {
					<-time.After(time.Duration(50+c.rng.IntN(450)) * time.Millisecond)
					kill(t, p)
				})
				if t.Failed() {
					return
				}
				c.inspect(t)
				if c.rng.IntN(3) == 0 { // and once more while it recovers
					p = testserver.Launch(t, program, c.dir, c.args()...)
					<-time.After(time.Duration(c.rng.IntN(60)) * time.Millisecond)
					kill(t, p)
				}
				p = c.start(t)
				c.check(t, p.Addr)
				kill(t, p)
				c.inspect(t)
			}
			t.Logf("%d rounds, %d acknowledged commands; after them: %v", *rounds, c.acknowledged(), c.forms)
			if c.acknowledged() == 0 {
				t.Error("nothing was acknowledged: the test tested nothing")
			}
			for _, form := range allForms {
				if c.forms[form] == 0 && c.acknowledged() > 20_000 {
					t.Errorf("no %s was ever there: the test tested less than it should", form)
				}
			}
		})
	}
}

var allForms = []string{
	"hash as listpack", "hash as listpackex", "hash as hashtable", "list as listpack", "list as quicklist", "set as intset", "set as listpack",
	"set as hashtable", "stream as stream", "zset as listpack", "zset as skiplist", "zset with ranks",
}

// TestTerminate asks the server to end while clients write: it does so soon,
// with exit code 0, and everything is there afterwards.
func TestTerminate(t *testing.T) {
	t.Parallel()
	ways := map[string]func(*testserver.Process) error{
		"signal": func(*testserver.Process) error { return nil },
		"command": func(p *testserver.Process) error {
			conn, err := respclient.Dial(p.Addr)
			if err != nil {
				return err
			}
			defer conn.Close()
			return conn.Send("SHUTDOWN")
		},
	}
	for how, ask := range ways {
		for _, fsync := range []string{"always", "everysec"} {
			t.Run(how+"-"+fsync, func(t *testing.T) {
				t.Parallel()
				c := newCluster(t, fsync)
				p := c.start(t)
				c.load(t, p.Addr, func() {
					<-time.After(200 * time.Millisecond)
					if err := ask(p); err != nil {
						t.Error(err)
					}
					end := p.Wait
					if how == "signal" {
						end = p.Terminate
					}
					if code, err := end(15 * time.Second); err != nil || code != 0 {
						t.Errorf("exit code %d, %v", code, err)
					}
					kill(t, p)
				})
				p = c.start(t)
				c.check(t, p.Addr)
				if c.acknowledged() == 0 {
					t.Error("nothing was acknowledged: the test tested nothing")
				}
			})
		}
	}
}

// TestSecondProcess starts a server on a store that another one has open: it
// gives up, says why, and does no harm.
func TestSecondProcess(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	p := testserver.StartProcess(t, program, dir)
	conn, err := respclient.Dial(p.Addr)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	second := testserver.Launch(t, program, dir)
	if code, err := second.Wait(15 * time.Second); err != nil || code == 0 {
		t.Errorf("the second server: exit code %d, %v", code, err)
	}
	if !strings.Contains(second.Log(), "in use") {
		t.Errorf("the second server does not say why it gives up: %s", second.Log())
	}
	if v, err := conn.Do("SET", "k", "v"); err != nil || v.Str != "OK" {
		t.Errorf("the first server answers %s, %v", v, err)
	}
}

// The level of the log can be changed while the server runs.
func TestLogLevel(t *testing.T) {
	t.Parallel()
	p := testserver.StartProcess(t, program, t.TempDir())
	provoke := func() { // a protocol error is logged at the level debug
		conn, err := respclient.Dial(p.Addr)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		if _, err := conn.Conn().Write([]byte("*x\r\n")); err != nil {
			t.Fatal(err)
		}
		if v, err := conn.Read(); err != nil || !strings.Contains(v.String(), "Protocol error") {
			t.Fatalf("%s, %v", v, err)
		}
	}
	provoke()
	if strings.Contains(p.Log(), "protocol error") {
		t.Error("logged although the level is notice")
	}
	conn, err := respclient.Dial(p.Addr)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if v, err := conn.Do("CONFIG", "SET", "loglevel", "debug"); err != nil || v.Str != "OK" {
		t.Fatalf("%s, %v", v, err)
	}
	provoke()
	for deadline := time.Now().Add(10 * time.Second); !strings.Contains(p.Log(), "protocol error"); {
		if time.Now().After(deadline) {
			t.Fatalf("not logged: %s", p.Log())
		}
	}
}

// kill kills a server and looks for signs of trouble in its log.
// asker sends commands that must not be answered by an error.
func asker(t *testing.T, c *respclient.Client) func(args ...string) (respclient.Value, error) {
	return func(args ...string) (respclient.Value, error) {
		v, err := c.Do(args...)
		if err == nil && v.IsError() {
			t.Fatalf("%.80q: %s", args, v.Str)
		}
		return v, err
	}
}

func kill(t *testing.T, p *testserver.Process) {
	t.Helper()
	p.Kill()
	for _, sign := range []string{"DATA RACE", "panic:", "fatal error:"} {
		if strings.Contains(p.Log(), sign) {
			t.Errorf("the log of the server has %q", sign)
		}
	}
}
