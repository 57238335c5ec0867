package executor

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"redoubt/command"
	"redoubt/keyspace"
	"redoubt/wire"
)

// begun counts how often a call is begun.
func begun(c *Call) *int {
	n := new(int)
	c.Begin = func() { *n++ }
	return n
}

// A read that takes long is begun on the loop and then on a snapshot: it does not wait
// for the latch of its key, however long somebody has that.
func TestLongReadsAreBegunTwice(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	for i := range 40 {
		f.do(fmt.Sprintf("hset big f%d %s", i, strings.Repeat("v", 64<<10)))
	}
	hot := f.x.NewWaitingBatch()
	args := words("hset big hot 1")
	equal(t, "detour of the write", hot.Run(&Call{Cmd: table().Find(args), Args: args, Reply: new(wire.Writer)}), 0)
	c := f.client()
	args = words("hgetall big")
	call := Call{Cmd: table().Find(args), Args: args, Reply: &c.w}
	n := begun(&call)
	if d := c.b.Run(&call); d != keyspace.TakesLong && d != keyspace.NeedsLatch {
		t.Fatalf("the loop: %v", d)
	}
	c.b.Commit()
	f.x.RunOnWorker(&call)
	equal(t, "begun", *n, 2)
	equal(t, "fields", strings.Count(c.take(), "f"), 40)
	hot.Commit()
	equal(t, "fields", f.do("hlen big"), "41")
	f.free()
}

// A script that meets the latch of a key that it did not name is begun once more, with
// the whole keyspace latched.
func TestScriptsThatMeetALatchAreBegunTwice(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	other := f.x.NewWaitingBatch()
	args := words("set other 1")
	equal(t, "detour of the write", other.Run(&Call{Cmd: table().Find(args), Args: args, Reply: new(wire.Writer)}), 0)
	script := custom("script", command.Write, func(c *command.Ctx) error {
		args := words("get other")
		return c.Do(table().Find(args), args, c.Reply)
	})
	c := f.client()
	call := Call{Cmd: script, Args: words("script k"), Reply: &c.w}
	n := begun(&call)
	equal(t, "detour", c.b.Run(&call), keyspace.NeedsOneState)
	c.b.Commit()
	done := make(chan struct{})
	go func() {
		defer close(done)
		f.x.RunOnWorker(&call)
	}()
	for f.x.space.Wanted.Load() == 0 { // it waits for all latches
		select {
		case <-done:
			t.Fatal("it was run beside another batch")
		case <-time.After(time.Millisecond):
		}
	}
	other.Commit()
	<-done
	equal(t, "begun", *n, 2)
	f.want("reply", c.take(), "1")
	f.free()
}
