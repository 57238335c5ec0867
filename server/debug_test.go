package server_test

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"redoubt/internal/respclient"
	"redoubt/internal/testserver"
)

func parse(t *testing.T, s string) float64 {
	t.Helper()
	f, err := strconv.ParseFloat(s, 64)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

var debugOn = []string{"--enable-debug-command", "yes"}

func TestDebugIsOffByDefault(t *testing.T) {
	t.Parallel()
	c := dial(t, testserver.Start(t, testserver.Options{}).Addr)
	if v := ask(t, c, "DEBUG SLEEP 0"); !strings.HasPrefix(v.Str, "ERR DEBUG command not allowed.") {
		t.Errorf("by default: %s", v)
	}
	c = dial(t, testserver.Start(t, testserver.Options{Args: []string{"--enable-debug-command", "local"}}).Addr)
	if v := ask(t, c, "DEBUG SLEEP 0"); v.Str != "OK" {
		t.Errorf("from the same machine: %s", v)
	}
}

// The digest depends on what the databases hold and on nothing else: not on
// the order of writes, the engine, or the ids of large values.
func TestDigest(t *testing.T) {
	t.Parallel()
	large := strings.Repeat("x", 200_000)
	write := func(c *respclient.Client, order []int) string {
		calls := [][]string{
			{"SET", "a", "1"}, {"SET", "b", "text", "PXAT", "33177117420000"}, {"SET", "large", large}, {"SETBIT", "sparse", "9000000", "1"},
			{"SET", "gone", large},
		}
		for _, i := range order {
			if v, err := c.Do(calls[i]...); err != nil || v.IsError() {
				t.Fatalf("%s: %s, %v", calls[i][1], v, err)
			}
		}
		must(t, c, "DEL gone")
		must(t, c, "SELECT 2")
		must(t, c, "SET a 2")
		must(t, c, "SELECT 0")
		return must(t, c, "DEBUG DIGEST").Str
	}
	one := dial(t, testserver.Start(t, testserver.Options{Engine: "mem", Args: debugOn}).Addr)
	two := dial(t, testserver.Start(t, testserver.Options{Engine: "local", Args: debugOn}).Addr)
	x, y := write(one, []int{0, 1, 2, 3, 4}), write(two, []int{4, 3, 1, 2, 0})
	if x != y || len(x) != 40 {
		t.Errorf("the digests are %s and %s", x, y)
	}
	must(t, one, "COPY large copy")
	v := must(t, one, "DEBUG DIGEST-VALUE large copy a")
	if v.Elems[0].Str != v.Elems[1].Str || v.Elems[0].Str == v.Elems[2].Str {
		t.Errorf("digests of a value, its copy and another: %s", v)
	}
	must(t, one, "DEL copy")
	for _, change := range []struct{ do, undo string }{
		{"SET a 3", "SET a 1"}, {"PERSIST b", "PEXPIREAT b 33177117420000"}, {"RENAME a c", "RENAME c a"},
		{"SETBIT sparse 100 1", "SETBIT sparse 100 0"}, {"MOVE b 3", ""},
	} {
		must(t, one, change.do)
		if got := must(t, one, "DEBUG DIGEST").Str; got == x {
			t.Errorf("%s does not change the digest", change.do)
		}
		if change.undo == "" {
			continue
		}
		must(t, one, change.undo)
		if got := must(t, one, "DEBUG DIGEST").Str; got != x {
			t.Errorf("%s after %s: %s, want %s", change.undo, change.do, got, x)
		}
	}
}

// In a transaction what DEBUG does with keys is a part of it.
func TestDebugInExec(t *testing.T) {
	t.Parallel()
	c := dial(t, testserver.Start(t, testserver.Options{Args: debugOn}).Addr)
	for _, line := range []string{"MULTI", "SET k v", "DEBUG SLEEP 0.01", "DEBUG OBJECT k", "DEBUG DIGEST-VALUE k", "DEBUG DIGEST", "DEBUG POPULATE 3", "DBSIZE"} {
		must(t, c, line)
	}
	v, err := c.Do("EXEC")
	if err != nil || len(v.Elems) != 7 || v.Elems[1].Str != "OK" || !strings.Contains(v.Elems[2].Str, "encoding:embstr") || v.Elems[5].Str != "OK" || v.Elems[6].Int() != 4 {
		t.Errorf("%s, %v", v, err)
	}
}

// DEBUG SLEEP keeps others waiting, as the name says: of two commands of a client,
// one before the sleep and the next behind it, the second ends at least that long
// after the first was sent.
func TestDebugSleepHoldsEverybody(t *testing.T) {
	t.Parallel()
	addr := testserver.Start(t, testserver.Options{Args: debugOn}).Addr
	one, two := dial(t, addr), dial(t, addr)
	must(t, two, "SET k v")
	sent := time.Now()
	must(t, two, "GET k")
	if err := one.Send("DEBUG", "SLEEP", "0.3"); err != nil {
		t.Fatal(err)
	}
	slept := make(chan struct{})
	go func() {
		defer close(slept)
		if v, err := one.Read(); err != nil || v.Str != "OK" {
			t.Errorf("%s, %v", v, err)
		}
	}()
	longest, over := time.Duration(0), false
	for !over {
		select {
		case <-slept:
			over = true // one more, which comes behind the sleep
		default:
		}
		before := sent
		sent = time.Now()
		must(t, two, "GET k")
		longest = max(longest, time.Since(before))
	}
	if longest < 300*time.Millisecond {
		t.Errorf("two GETs never took longer than %s", longest)
	}
}

func TestMemoryUsage(t *testing.T) {
	t.Parallel()
	for _, engine := range []string{"mem", "local"} {
		c := dial(t, testserver.Start(t, testserver.Options{Engine: engine}).Addr)
		last := int64(0)
		for _, n := range []int{1, 100, 10_000, 70_000, 1_000_000, 5_000_000} {
			if v, err := c.Do("SET", "k", strings.Repeat("x", n)); err != nil || v.IsError() {
				t.Fatalf("%s, %v", v, err)
			}
			got := must(t, c, "MEMORY USAGE k").Int()
			if got < int64(n) || got > int64(n)+int64(n)/20+200 || got <= last {
				t.Errorf("%s: a string of %d bytes takes %d, after %d", engine, n, got, last)
			}
			last = got
		}
		must(t, c, "SETBIT sparse 4294967295 1")
		if got := must(t, c, "MEMORY USAGE sparse").Int(); got > 100_000 {
			t.Errorf("%s: a sparse string takes %d", engine, got)
		}
		before := must(t, c, "MEMORY USAGE k").Int()
		must(t, c, "EXPIRE k 100")
		if got := must(t, c, "MEMORY USAGE k").Int(); got <= before {
			t.Errorf("%s: with an expiry it takes %d, without %d", engine, got, before)
		}
	}
}

func TestShutdownCommand(t *testing.T) {
	t.Parallel()
	for _, call := range []string{"SHUTDOWN", "SHUTDOWN NOSAVE", "SHUTDOWN SAVE NOW FORCE"} {
		s := testserver.Start(t, testserver.Options{})
		c := dial(t, s.Addr)
		if err := c.Send(strings.Fields(call)...); err != nil {
			t.Fatal(err)
		}
		select {
		case <-s.Stopping():
		case <-time.After(20 * time.Second):
			t.Errorf("%s: nobody is told to stop", call)
		}
	}
}

func TestPopulate(t *testing.T) {
	t.Parallel()
	c := dial(t, testserver.Start(t, testserver.Options{Args: debugOn}).Addr)
	must(t, c, "SET key:5 mine")
	must(t, c, "DEBUG POPULATE 2500")
	if n := must(t, c, "DBSIZE").Int(); n != 2500 {
		t.Errorf("%d keys", n)
	}
	for key, want := range map[string]string{"key:0": "value:0", "key:2499": "value:2499", "key:5": "mine"} {
		if got := must(t, c, "GET "+key).Str; got != want {
			t.Errorf("%s is %q", key, got)
		}
	}
	must(t, c, "DEBUG POPULATE 2 big 200000")
	if n := must(t, c, "STRLEN big:1").Int(); n != 200_000 {
		t.Errorf("big:1 has %d bytes", n)
	}
	if v := ask(t, c, fmt.Sprint("DEBUG POPULATE 1 p ", 600<<20)); !v.IsError() {
		t.Errorf("a value that is too long: %s", v)
	}
}
