package executor

import (
	"bytes"
	"strings"
	"sync"
	"testing"

	"redoubt/budget"
	"redoubt/command"
	"redoubt/keyspace"
)

// bread key: reads a list without taking anything.
var bread = &command.Command{
	Name: "bread", FullName: "bread", Flags: command.ReadOnly | command.Blocking, Keys: command.OneKey(1, command.RO),
	Run: func(c *command.Ctx) error {
		m, err := listOf(c.Tx, c.Args[1])
		if err != nil {
			return err
		}
		if !m.Exists() {
			return &command.Block{Type: keyspace.List, Keys: c.Args[1:]}
		}
		if c.Tx.Heavy(int64(len(m.Body))) {
			return nil
		}
		c.Reply.Bulk(m.Body)
		return nil
	},
}

// One write for many readers: few replies are made in the writer's batch, the others while
// clients have room for them, and each gets its own. Who takes something is not kept waiting
// behind readers.
func TestManyReadersAreServedInPortions(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	const size, readers, limit = 512 << 10, 120, 16 << 20
	var account budget.Account
	account.SetLimit(limit)
	f.x.clients = &account
	var mu sync.Mutex
	var all sync.WaitGroup
	unread := make(chan *Waiter, readers)
	inBatch, most := 0, int64(0)
	all.Add(readers)
	for range readers {
		c := f.client()
		c.call = Call{Cmd: bread, Args: words("bread k"), Reply: &c.w}
		c.call.OnBlock = func(b *command.Block) *Waiter {
			return f.x.NewWaiter(c.call, b, 2, func(w *Waiter) {
				mu.Lock()
				inBatch, most = inBatch+1, max(most, account.Used())
				mu.Unlock()
				if n := bytes.Count(w.Reply(), []byte("x")); n != size && n != size+1 {
					t.Errorf("a reply of %d bytes", n)
				}
				unread <- w
			})
		}
		if c.b.Run(&c.call) != 0 || !c.call.Blocked {
			t.Fatal("it does not wait")
		}
		c.b.Commit()
	}
	taker := f.waiter(bpop, 0, "bpop k") // came last
	c := f.client()
	c.runCmd(push, "k", strings.Repeat("x", size+1)) // the taker leaves what the readers get later
	c.commit()
	f.want("the taker", taker.got(), "x")
	taker.Release()
	mu.Lock()
	if n := inBatch; n == 0 || n > portion/size+1 {
		t.Errorf("%d replies in the writer's batch", n)
	}
	mu.Unlock()
	go func() { // the clients read
		for w := range unread {
			w.Release()
			all.Done()
		}
	}()
	all.Wait()
	close(unread)
	if most > limit {
		t.Errorf("clients held %d bytes, they may hold %d", most, limit)
	}
	equal(t, "held in the end", account.Used(), 0)
	quiet(f.x)
	f.nobodyWaits()
	f.free()
}

// Who is gone before it was served, or reads nothing, does not keep others from their reply,
// and holds nothing in the end.
func TestReadersThatDoNotRead(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	const size, readers, limit = 512 << 10, 20, 4 << 20
	var account budget.Account
	account.SetLimit(limit)
	f.x.clients = &account
	done := make(chan *Waiter, readers)
	var list []*waiter
	for range readers {
		c := f.client()
		w := &waiter{}
		c.call = Call{Cmd: bread, Args: words("bread k"), Reply: &c.w}
		c.call.OnBlock = func(b *command.Block) *Waiter {
			w.Waiter = f.x.NewWaiter(c.call, b, 2, func(w *Waiter) { done <- w })
			return w.Waiter
		}
		c.b.Run(&c.call)
		c.b.Commit()
		list = append(list, w)
	}
	list[3].Cancel()
	f.want("push", f.doCmd(push, 0, "push k "+strings.Repeat("x", size)), "OK")
	for range readers - 1 {
		<-done
	}
	if account.Used() < limit {
		t.Errorf("clients that read nothing hold %d bytes", account.Used())
	}
	for _, w := range list {
		w.Cancel()
	}
	equal(t, "held in the end", account.Used(), 0)
	f.nobodyWaits()
}

// What is too much for an event loop is served by a worker, also to one who only reads.
func TestALargeElementForAReader(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	const size = 3 << 20
	reader := f.waiter(bread, 0, "bread k")
	_, _, s := f.workerCmd(push, 0, words("push k "+strings.Repeat("x", size)))
	f.want("push", s, "OK")
	quiet(f.x)
	equal(t, "reply", len(reader.got()), size)
	f.nobodyWaits()
	f.free()
}
