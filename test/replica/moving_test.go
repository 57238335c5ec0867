package replica

import (
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"redoubt/internal/respclient"
	"redoubt/internal/testserver"
)

// shell are the commands of docs/moving.md, in their order.
var shell = regexp.MustCompile("(?ms)^```sh\n(.*?)^```")

// TestMoving follows docs/moving.md while clients write, and expects every write that was
// acknowledged at the end.
func TestMoving(t *testing.T) {
	t.Parallel()
	testserver.Oracle(t)
	if _, err := exec.LookPath("redis-cli"); err != nil {
		t.Skip("needs redis-cli")
	}
	text, err := os.ReadFile("../../docs/moving.md")
	if err != nil {
		t.Fatal(err)
	}
	blocks := shell.FindAllStringSubmatch(string(text), -1)
	if len(blocks) < 6 {
		t.Fatalf("docs/moving.md has %d blocks of commands", len(blocks))
	}
	rng := seeded(t)
	redis := testserver.StartRedis(t, "--repl-diskless-sync-delay", "0")
	w := &writer{rng: rng}
	if err := w.write(t, dial(t, redis.Addr), 3000); err != nil {
		t.Fatal(err)
	}
	p := redoubt(t, t.TempDir(), "--maxmemory", "64mb")

	const writers = 4
	var addr atomic.Pointer[string]
	addr.Store(&redis.Addr)
	var stop atomic.Bool
	acked := make([]int, writers)
	var work sync.WaitGroup
	for i := range writers {
		work.Go(func() { acked[i] = count(i, &addr, &stop) })
	}
	path, err := program()
	if err != nil {
		t.Fatal(err)
	}
	host, port := split(redis.Addr)
	for _, b := range blocks {
		if strings.Contains(b[1], "SHUTDOWN") { // the clients are switched
			addr.Store(&p.Addr)
		}
		cmd := exec.Command("sh", "-ec", `redoubt() { "$PROGRAM" "$@"; }`+"\n"+b[1])
		cmd.Env = append(os.Environ(), "PROGRAM="+path, "OLD=redis://"+redis.Addr, "OLD_HOST="+host, "OLD_PORT="+port, "NEW=redis://"+p.Addr)
		begun := time.Now()
		out, err := cmd.CombinedOutput()
		t.Logf("%s%s(%s)", b[1], out, time.Since(begun).Round(time.Millisecond))
		if err != nil {
			stop.Store(true)
			t.Fatalf("%v", err)
		}
	}
	c := dial(t, p.Addr)
	before := make([]string, writers)
	for i := range writers {
		before[i] = do(t, c, "GET", "counter"+strconv.Itoa(i))
	}
	deadline := time.Now().Add(20 * time.Second)
	for i := range writers { // they go on at the new server
		for do(t, c, "GET", "counter"+strconv.Itoa(i)) == before[i] && time.Now().Before(deadline) {
			time.Sleep(time.Millisecond)
		}
	}
	stop.Store(true)
	work.Wait()
	for i := range writers {
		if n, _ := strconv.Atoi(do(t, c, "GET", "counter"+strconv.Itoa(i))); n < acked[i] || n == 0 {
			t.Errorf("counter %d is %d, and %d was acknowledged", i, n, acked[i])
		}
		if n, _ := strconv.Atoi(do(t, c, "LLEN", "list"+strconv.Itoa(i))); n < acked[i] {
			t.Errorf("list %d has %d elements, and %d were acknowledged", i, n, acked[i])
		}
	}
	t.Logf("acknowledged: %v", acked)
}

// count sets a counter to 1, 2, ... and appends each number to a list, at the server that is
// in use, and returns the last number that was acknowledged. A write without a reply is repeated.
func count(i int, addr *atomic.Pointer[string], stop *atomic.Bool) (acked int) {
	var c *respclient.Client
	defer func() {
		if c != nil {
			c.Close()
		}
	}()
	for !stop.Load() {
		if c == nil {
			var err error
			if c, err = respclient.Dial(*addr.Load()); err != nil {
				c = nil
				time.Sleep(time.Millisecond)
				continue
			}
		}
		n := strconv.Itoa(acked + 1)
		v, err := c.Do("EVAL", "redis.call('rpush',KEYS[2],ARGV[1]) return redis.call('set',KEYS[1],ARGV[1])", "2", "counter"+strconv.Itoa(i), "list"+strconv.Itoa(i), n)
		switch {
		case err != nil:
			c.Close()
			c = nil
		case v.Str == "OK":
			acked++
			time.Sleep(time.Millisecond)
		default: // READONLY: not yet
			time.Sleep(time.Millisecond)
		}
	}
	return acked
}
