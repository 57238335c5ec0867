package executor

import (
	"sync"
	"testing"

	"redoubt/command"
	"redoubt/keyspace"
)

// bshare key: reads a list, as a command that may write, without taking anything.
var bshare = &command.Command{
	Name: "bshare", FullName: "bshare", Flags: command.Write | command.Blocking, Keys: command.OneKey(1, command.RW),
	Run: func(c *command.Ctx) error {
		m, err := listOf(c.Tx, c.Args[1])
		if err != nil {
			return err
		}
		if !m.Exists() {
			return &command.Block{Type: keyspace.List, Keys: c.Args[1:], Shares: true}
		}
		c.Reply.Bulk(m.Body)
		return nil
	},
}

// Thousands who wait for the same, and take nothing from each other, are not all served
// before the writer has its reply; but all are served.
func TestManyWhoShareAreServedInPortions(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	const waiters = 2000
	var all sync.WaitGroup
	all.Add(waiters)
	for range waiters {
		c := f.client()
		c.call = Call{Cmd: bshare, Args: words("bshare k"), Reply: &c.w}
		c.call.OnBlock = func(b *command.Block) *Waiter {
			return f.x.NewWaiter(c.call, b, 2, func(w *Waiter) {
				w.Release()
				all.Done()
			})
		}
		if c.b.Run(&c.call) != 0 || !c.call.Blocked {
			t.Fatal("it does not wait")
		}
		c.b.Commit()
	}
	taker := f.waiter(bpop, 0, "bpop k") // came last, and is served with the write
	c := f.client()
	c.runCmd(push, "k", "xyz")
	if n, most := len(c.b.served), portion/servedWork+2; n < 2 || n > most { // the taker, too
		t.Errorf("%d were served in the writer's batch, at most %d should be", n, most)
	}
	c.commit()
	f.want("the taker", taker.got(), "x")
	taker.Release()
	all.Wait()
	quiet(f.x)
	f.nobodyWaits()
	f.free()
}
