package server_test

import (
	"fmt"
	"math/rand/v2"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"redoubt/engine/enginetest"
	"redoubt/engine/mem"
)

// What sessions do about rows that are not in memory.

// keyRows are the rows of keys, all or those whose name begins with a prefix.
func keyRows(prefix string) func([]byte) bool {
	return func(row []byte) bool {
		return len(row) > 7 && row[0] != 0xff && row[2] == 1 && strings.HasPrefix(string(row[7:]), prefix)
	}
}

// startCold starts a server on an engine whose rows are cold when the test says.
func startCold(t *testing.T, pipes bool) (*front, *enginetest.Cold) {
	eng := enginetest.Chill(mem.New())
	return startOn(t, eng, pipes), eng
}

// figures are how many commands were cold, pipelines warmed and writes slowed.
func (c *client) figures() string {
	c.t.Helper()
	return c.info("redoubt", "cold_commands") + " " + c.info("redoubt", "warm_ups") + " " + c.info("redoubt", "slowed_writes")
}

// pipeline makes keys k0... with their numbers, and returns what reads them.
func (c *client) pipeline(n int) (gets string, replies []string) {
	c.t.Helper()
	for i := range n {
		c.do("SET", fmt.Sprint("k", i), fmt.Sprint(i))
		gets += frame("GET", fmt.Sprint("k", i))
		replies = append(replies, fmt.Sprintf(`"%d"`, i))
	}
	return gets, replies
}

func TestPipelineOfColdRowsIsWarmed(t *testing.T) {
	carriers(t, func(t *testing.T, pipes bool) {
		f, eng := startCold(t, pipes)
		c := f.dial()
		gets, replies := c.pipeline(30)
		eng.Set(keyRows(""))
		c.raw(gets)
		c.want(replies...)
		want := "0 1 0" // one trip to the disk for all
		if pipes {
			want = "0 0 0" // a goroutine of its own waits for itself
		}
		if got := c.figures(); got != want {
			t.Errorf("figures %s, want %s", got, want)
		}
		c.raw(gets)
		c.want(replies...)
		if got := c.figures(); got != want {
			t.Errorf("warm: figures %s, want %s", got, want)
		}
	})
}

// One command, or one cold row among others, is quicker without a warm-up.
func TestSingleColdRows(t *testing.T) {
	t.Parallel()
	f, eng := startCold(t, false)
	c := f.dial()
	gets, replies := c.pipeline(10)
	eng.Set(keyRows("k7"))
	c.raw(gets)
	c.want(replies...)
	if got := c.figures(); got != "1 0 0" {
		t.Errorf("one of ten: figures %s", got)
	}
	eng.Set(keyRows(""))
	for i := range 3 {
		if got := c.do("GET", fmt.Sprint("k", i)); got != fmt.Sprintf(`"%d"`, i) {
			t.Error(got)
		}
	}
	if got := c.figures(); got != "4 0 0" {
		t.Errorf("one by one: figures %s", got)
	}
}

// Where rows do not stay in memory at all, everything gets on.
func TestWarmingThatIsInVain(t *testing.T) {
	t.Parallel()
	f, eng := startCold(t, false)
	c := f.dial()
	gets, replies := c.pipeline(100)
	eng.Forgetful.Store(true)
	eng.Set(keyRows(""))
	c.raw(gets)
	c.want(replies...)
	var cold, warm, slowed int
	fmt.Sscan(c.figures(), &cold, &warm, &slowed)
	if cold != 100 || warm == 0 || warm > 100 {
		t.Errorf("%d cold commands, %d warm-ups", cold, warm)
	}
}

// Replies and their order are the same whatever is cold.
func TestColdPipelinesKeepTheirOrder(t *testing.T) {
	carriers(t, func(t *testing.T, pipes bool) {
		seed := uint64(time.Now().UnixNano())
		t.Logf("seed %d", seed)
		r := rand.New(rand.NewPCG(seed, 1))
		f, eng := startCold(t, pipes)
		plain := start(t, pipes)
		var n atomic.Uint64
		eng.Forgetful.Store(true)
		eng.Set(func(row []byte) bool { return row[0] != 0xff && n.Add(0x9e3779b97f4a7c15)>>56 < 60 })
		a, b := f.dial(), plain.dial()
		for range 60 {
			var in strings.Builder
			sent := 0
			for range 1 + r.IntN(100) {
				k, other := fmt.Sprint("k", r.IntN(20)), fmt.Sprint("k", r.IntN(20))
				sent++
				switch r.IntN(9) {
				case 0:
					in.WriteString(frame("SET", k, fmt.Sprint(r.IntN(100))))
				case 1:
					in.WriteString(frame("INCR", k))
				case 2:
					in.WriteString(frame("MGET", k, other))
				case 3:
					in.WriteString(frame("DEL", k, other))
				case 4:
					in.WriteString(frame("SELECT", fmt.Sprint(r.IntN(2))))
				case 5:
					in.WriteString(frame("RENAME", k, other))
				case 6:
					in.WriteString("PING\r\n")
				case 7:
					in.WriteString(frame("DBSIZE"))
				default:
					in.WriteString(frame("GET", k))
				}
			}
			a.raw(in.String())
			b.raw(in.String())
			for i := range sent {
				if got, want := a.read(), b.read(); got != want {
					t.Fatalf("reply %d is %s, want %s", i, got, want)
				}
			}
		}
	})
}

// gated makes reads from disk wait; the channel counts them.
func gated(eng *enginetest.Cold) (reading chan struct{}, gate chan struct{}) {
	reading, gate = make(chan struct{}, 1000), make(chan struct{})
	eng.OnRead(func() {
		reading <- struct{}{}
		<-gate
	})
	return reading, gate
}

// Who waits for the disk keeps nobody else waiting, and what it has sent is
// answered although it sends no more.
func TestWaitingForColdRows(t *testing.T) {
	t.Parallel()
	f, eng := startCold(t, false)
	c, other := f.dial(), f.dial()
	gets, replies := c.pipeline(5)
	other.do("SET", "x", "1")
	eng.Set(keyRows("k"))
	reading, gate := gated(eng)
	c.raw(frame("SET", "x", "2") + gets + "*x\r\n") // and a protocol error
	if err := c.Conn().(*net.TCPConn).CloseWrite(); err != nil {
		t.Fatal(err)
	}
	<-reading
	if got := other.do("GET", "x"); got != `"1"` {
		t.Errorf("x is %s", got)
	}
	close(gate)
	c.want(append(append([]string{"OK"}, replies...), "(error) ERR Protocol error: invalid multibulk length", "(closed)")...)
}

// A client that leaves, and a server that stops, during a warm-up.
func TestLeavingWhileRowsAreFetched(t *testing.T) {
	t.Parallel()
	f, eng := startCold(t, false)
	c, stays := f.dial(), f.dial()
	gets, _ := c.pipeline(5)
	id := c.id()
	eng.Set(keyRows("k"))
	reading, gate := gated(eng)
	c.raw(gets)
	<-reading
	if got := stays.do("CLIENT", "KILL", "ID", id); got != "(integer) 1" {
		t.Errorf("kill: %s", got)
	}
	stays.raw(gets)
	<-reading
	done := make(chan struct{})
	go func() {
		defer close(done)
		f.stop()
	}()
	f.refusing()
	close(gate)
	<-done
	if got := c.read(); got != "(closed)" {
		t.Errorf("killed: %s", got)
	}
}

func TestCongestedWritesGoToWorkers(t *testing.T) {
	carriers(t, func(t *testing.T, pipes bool) {
		f, eng := startCold(t, pipes)
		c := f.dial()
		c.do("SET", "k", "1")
		eng.Jammed.Store(true)
		eng.NoWait.Store(0)
		c.raw(frame("INCR", "k") + frame("GET", "k") + frame("SET", "a", "x") + frame("MGET", "a", "k") + frame("INCR", "k"))
		c.want("(integer) 2", `"2"`, "OK", "1) \"x\"\n2) \"2\"", "(integer) 3")
		want := "0 0 3"
		if pipes {
			want = "0 0 0"
		}
		if got := c.figures(); got != want || eng.NoWait.Load() != 0 {
			t.Errorf("figures %s, want %s; %d commits on NoWait views", got, want, eng.NoWait.Load())
		}
		eng.Jammed.Store(false)
		if got := c.do("INCR", "k"); got != "(integer) 4" {
			t.Error(got)
		}
	})
}
