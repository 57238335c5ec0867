package tikv_test

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"redoubt/engine/tikv"
	"redoubt/internal/respclient"
	"redoubt/internal/testserver"
	"redoubt/internal/testserver/ontikv"
	"redoubt/internal/testtikv"
)

const (
	faultTimeout = time.Second // tikv-timeout
	// slack is how late an answer may be on a busy machine.
	slack = 6 * time.Second
	// recovery is how long it may take until all works again.
	recovery = 30 * time.Second
)

// broken is a server on a cluster that a test breaks.
type broken struct {
	*testtikv.Cluster
	*testserver.Server
	t     *testing.T
	log   lineCounter
	pings *pinger
}

func breakable(t *testing.T) *broken {
	t.Helper()
	b := &broken{Cluster: testtikv.Start(t, testtikv.Linked()), t: t}
	o := ontikv.At(b.PD(), testtikv.Prefix(t), faultTimeout)
	o.Args = []string{"--tikv-timeout", fmt.Sprint(faultTimeout.Milliseconds())}
	o.Log = &b.log
	b.Server = testserver.Start(t, o)
	b.pings = ping(t, b.Addr)
	// At the end all must be whole: the server says goodbye.
	t.Cleanup(func() { b.PDLink().Mend(); b.StoreLink().Mend() })
	return b
}

func (b *broken) dial() *respclient.Client {
	b.t.Helper()
	c, err := respclient.Dial(b.Addr)
	if err != nil {
		b.t.Fatal(err)
	}
	c.Timeout = time.Minute
	b.t.Cleanup(func() { c.Close() })
	return c
}

// recovers waits until reads and writes work.
func (b *broken) recovers() {
	b.t.Helper()
	c := b.dial()
	begin := time.Now()
	for _, line := range []string{"GET a", "SET b 1", "INCR other", "MGET a b"} {
		for {
			v, err := c.Do(strings.Fields(line)...)
			if err == nil && !v.IsError() {
				break
			}
			if err != nil || time.Since(begin) > recovery {
				b.t.Fatalf("%s after %v: %v, %v", line, time.Since(begin), v, err)
			}
		}
	}
	b.t.Logf("recovered after %v", time.Since(begin).Round(time.Millisecond))
}

// lineCounter counts the lines of a log.
type lineCounter struct{ n atomic.Int64 }

func (l *lineCounter) Write(p []byte) (int, error) {
	l.n.Add(1)
	return len(p), nil
}

// pinger looks at whether event loops keep serving.
type pinger struct {
	worst atomic.Int64
}

func ping(t *testing.T, addr string) *pinger {
	t.Helper()
	c, err := respclient.Dial(addr)
	if err != nil {
		t.Fatal(err)
	}
	p := new(pinger)
	var wg sync.WaitGroup
	stop := make(chan struct{})
	wg.Go(func() {
		for {
			select {
			case <-stop:
				return
			case <-time.After(20 * time.Millisecond):
			}
			begin := time.Now()
			if v, err := c.Do("PING"); err != nil || v.Str != "PONG" {
				t.Errorf("PING: %v, %v", v, err)
				return
			}
			p.worst.Store(max(p.worst.Load(), int64(time.Since(begin))))
		}
	})
	t.Cleanup(func() {
		close(stop)
		wg.Wait()
		c.Close()
		t.Logf("the slowest PING took %v", time.Duration(p.worst.Load()).Round(time.Millisecond))
		if p.worst.Load() > int64(slack) {
			t.Error("the event loops do not keep serving")
		}
	})
	return p
}

// refused says that an error is one that a client may expect.
func refused(v respclient.Value) bool {
	return v.IsError() && (strings.HasPrefix(v.Str, "TRYAGAIN ") || strings.HasPrefix(v.Str, "UNKNOWN "))
}

// faults are what can happen to a cluster.
var faults = []struct {
	name  string
	begin func(*broken)
	end   func(*broken)
	reads bool // single reads may succeed
}{
	{"store cut off", func(b *broken) { b.StoreLink().Cut() }, func(b *broken) { b.StoreLink().Mend() }, false},
	{"PD cut off", func(b *broken) { b.PDLink().Cut() }, func(b *broken) { b.PDLink().Mend() }, true},
	{"both cut off", func(b *broken) { b.StoreLink().Cut(); b.PDLink().Cut() }, func(b *broken) { b.StoreLink().Mend(); b.PDLink().Mend() }, false},
	{"answers of the store lost", func(b *broken) { b.StoreLink().Mute() }, func(b *broken) { b.StoreLink().Mend() }, false},
	{"answers of PD lost", func(b *broken) { b.PDLink().Mute() }, func(b *broken) { b.PDLink().Mend() }, true},
	{"store killed", (*broken).killStore, (*broken).startStore, false},
	{"store stopped", func(b *broken) { b.PauseStore() }, func(b *broken) { b.ResumeStore() }, false},
}

func (b *broken) killStore()  { b.KillStore() }
func (b *broken) startStore() { b.StartStore() }

// TestFaults has parts of the cluster out of reach: each command is answered, in time
// and by an error that says so; nothing hangs, grows or fills the log; and when all is
// back it works again, without anybody doing anything.
func TestFaults(t *testing.T) {
	t.Parallel()
	for _, f := range faults {
		t.Run(f.name, func(t *testing.T) {
			t.Parallel()
			b := breakable(t)
			c := b.dial()
			send(t, c, "SET a 1", "HSET h f v", "RPUSH l a", "SCRIPT LOAD "+readAndWrite)
			f.begin(b)
			b.allRefused(f.reads)
			b.pipelines(f.reads)
			lines := b.log.n.Load()
			f.end(b)
			b.recovers()
			if lines > 12 {
				t.Errorf("%d lines were logged", lines)
			}
		})
	}
}

// lone are commands that may read a single row, and need no timestamp then.
var lone = []string{"GET", "TTL", "HGET", "LRANGE", "SORT"}

// allRefused sends commands of all kinds, each on its own connection.
func (b *broken) allRefused(reads bool) {
	b.t.Helper()
	var wg sync.WaitGroup
	for _, line := range []string{
		"GET a", "TTL a", "HGET h f", "LRANGE l 0 -1", "SORT l ALPHA",
		"SET a 2", "INCR n", "DEL a", "MGET a b c", "MSET a 1 b 2", "HSET h f w", "LPUSH l x", "RENAME a b", "SCAN 0", "KEYS *",
		"EVAL return{redis.call('get',KEYS[1])} 1 a", "EVAL return{redis.call('incr',KEYS[1])} 1 n",
		"BLPOP nobody 100", "XREAD BLOCK 100000 STREAMS nobody $", "WATCH a", "FLUSHALL", "FLUSHDB", "SPUBLISH c m", "RANDOMKEY",
		"COPY a z", "INCR n", "INCR n", "INCR n", "INCR n", "INCR n", "INCR n", "NO-SUCH-COMMAND",
	} {
		c := b.dial()
		wg.Go(func() {
			for range 2 {
				begin := time.Now()
				v, err := c.Do(strings.Fields(line)...)
				took := time.Since(begin)
				name, _, _ := strings.Cut(line, " ")
				switch {
				case err != nil:
					b.t.Errorf("%s: %v after %v", line, err, took)
					return
				case took > faultTimeout+slack:
					b.t.Errorf("%s took %v: %v", line, took, v)
				case name == "SPUBLISH" && !v.IsError(), name == "NO-SUCH-COMMAND" && strings.HasPrefix(v.Str, "ERR unknown"):
				case reads && !v.IsError() && slices.Contains(lone, name):
				case !refused(v):
					b.t.Errorf("%s: %v after %v", line, v, took)
				}
			}
		})
	}
	wg.Wait()
}

// pipelines looks at whether each command of one gets one reply.
func (b *broken) pipelines(reads bool) {
	b.t.Helper()
	c := b.dial()
	var out []byte
	const n = 40
	for i := range n {
		out = respclient.AppendCommand(out, "SET", fmt.Sprint("p", i), "v")
		out = respclient.AppendCommand(out, "GET", fmt.Sprint("p", i))
		if i%20 == 0 {
			out = respclient.AppendCommand(out, "ECHO", fmt.Sprint(i))
		}
	}
	if err := c.Write(out); err != nil {
		b.t.Fatal(err)
	}
	begin := time.Now()
	expect := func(word string) {
		v, err := c.Read()
		switch {
		case err != nil:
			b.t.Fatalf("after %v: %v", time.Since(begin), err)
		case word == "" && !refused(v) && !(reads && !v.IsError()), word != "" && v.Str != word:
			b.t.Errorf("got %v, want an error or %q", v, word)
		}
	}
	for i := range n {
		expect("")
		expect("")
		if i%20 == 0 {
			expect(fmt.Sprint(i))
		}
	}
	if took := time.Since(begin); took > 8*faultTimeout+slack {
		b.t.Errorf("a pipeline took %v", took)
	}
}

// TestUnknownOutcome loses the answers to increments: the client is told that nobody
// knows, and nothing was done twice.
func TestUnknownOutcome(t *testing.T) {
	t.Parallel()
	b := breakable(t)
	c, eng := b.dial(), b.Engine.(*tikv.Engine)
	unknown, n := 0, int64(0)
	for round := 0; round < 4 || unknown == 0; round++ {
		if round == 20 {
			t.Fatal("no outcome was unknown")
		}
		v := send(t, c, "INCR n")[0]
		if n++; v.Int() != n {
			t.Fatalf("INCR = %v, want %d", v, n)
		}
		// Between its read and its commit the script takes some time.
		read := eng.RPCs()["Get"]
		if err := c.Send("EVAL", "redis.call('incr', KEYS[1]) local t = os.clock() while os.clock() - t < 0.2 do end", "1", "n"); err != nil {
			t.Fatal(err)
		}
		await(t, func() bool { return eng.RPCs()["Get"] > read })
		b.StoreLink().Mute()
		begin := time.Now()
		v, err := c.Read()
		if err != nil || v.IsError() && !refused(v) || time.Since(begin) > faultTimeout+slack {
			t.Errorf("%v, %v, after %v", v, err, time.Since(begin))
		}
		b.StoreLink().Mend()
		b.recovers()
		now := send(t, c, "GET n")[0].Str
		switch is := now == fmt.Sprint(n+1); {
		case is && strings.HasPrefix(v.Str, "TRYAGAIN"), !is && !v.IsError():
			t.Errorf("n is %s, it was %d, and the client was told %v", now, n, v)
		case !is && now != fmt.Sprint(n):
			t.Fatalf("n is %s, not %d or %d", now, n, n+1)
		case is:
			n++
		}
		if strings.HasPrefix(v.Str, "UNKNOWN") {
			unknown++
		}
	}
	t.Logf("%d unknown outcomes", unknown)
}

// TestSlowStore has a store take a tenth of a second for each request: clients wait,
// and what is more than may be under way waits in the front end.
func TestSlowStore(t *testing.T) {
	t.Parallel()
	b := breakable(t)
	b.Engine.(*tikv.Engine).SetMaxTransactions(8)
	send(t, b.dial(), "SET a 1")
	b.StoreLink().Delay(50 * time.Millisecond)
	var done, tryAgain atomic.Int64
	var wg sync.WaitGroup
	for i := range 32 {
		c := b.dial()
		wg.Go(func() {
			for n := range 4 {
				v, err := c.Do("SET", fmt.Sprint("k", i), fmt.Sprint(n))
				switch {
				case err != nil || v.IsError() && !refused(v):
					t.Errorf("%v, %v", v, err)
				case v.IsError():
					tryAgain.Add(1)
				default:
					done.Add(1)
				}
			}
		})
	}
	wg.Wait()
	t.Logf("%d done, %d refused", done.Load(), tryAgain.Load())
	if done.Load() == 0 {
		t.Error("nothing is done")
	}
	b.StoreLink().Mend()
	b.recovers()
}

func await(t *testing.T, f func() bool) {
	t.Helper()
	for begin := time.Now(); !f(); time.Sleep(5 * time.Millisecond) {
		if time.Since(begin) > time.Minute {
			t.Fatal("it does not come")
		}
	}
}
