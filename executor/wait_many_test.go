package executor

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"redoubt/command"
	"redoubt/engine"
	"redoubt/internal/sharedmem"
	"redoubt/keyspace"
	"redoubt/wire"
)

// Many who wait at one key of a shared store cost no more than each one's part: they
// are looked at together when they come, and passed over once when they are served.
func TestManyWaitAtOneKey(t *testing.T) {
	t.Parallel()
	const n = 2000
	for _, elsewhere := range []bool{false, true} {
		t.Run(fmt.Sprint("pushed elsewhere: ", elsewhere), func(t *testing.T) {
			t.Parallel()
			a, b := two(t)
			woken := 0
			a.x.Listen(func(fx *keyspace.Effects, _ engine.Ticket) { woken = max(woken, len(fx.Woken)) })
			before := a.eng.Trips()
			var got sync.WaitGroup
			replies := make(chan string, n)
			got.Add(n)
			for range n {
				args, w := words("blpop list 0"), wire.Writer{Proto: 2}
				c := &Call{Cmd: table().Find(args), Args: args, Reply: &w}
				c.OnBlock = func(block *command.Block) *Waiter {
					return a.x.NewWaiter(*c, block, 2, func(w *Waiter) { replies <- short(w.Reply()); got.Done() })
				}
				if a.x.RunOnWorker(c); !c.Blocked {
					t.Fatal(short(w.Buf))
				}
			}
			quiet(a.x)
			t.Logf("to begin to wait: %d questions to the store", a.eng.Trips()-before)
			before = a.eng.Trips()
			p := a
			if elsewhere {
				p = b
			}
			var line strings.Builder
			line.WriteString("rpush list")
			for i := range n {
				fmt.Fprint(&line, " ", i)
			}
			p.want(line.String(), fmt.Sprint(n))
			if elsewhere {
				a.x.Wake(keyspace.Ready{Key: []byte("list")})
			}
			got.Wait()
			seen := map[string]bool{}
			for range n {
				seen[<-replies] = true
			}
			equal(t, "elements", len(seen), n)
			if elsewhere {
				p.want("exists list", "0")
				return
			}
			if asked := a.eng.Trips() - before; asked > 50 {
				t.Errorf("%d questions to the store for one push", asked)
			}
			if woken != 1 {
				t.Errorf("one commit tells of %d keys that are ready", woken)
			}
		})
	}
}

// Who joins others that wait does not wait for the latch of the key, and is forgotten
// by nobody.
func TestJoiningOthersNeedsNoLatch(t *testing.T) {
	t.Parallel()
	a := openShared(t, sharedmem.New())
	wait := func() (reply chan string) {
		reply = make(chan string, 1)
		args, w := words("blpop other list 0"), wire.Writer{Proto: 2}
		c := &Call{Cmd: table().Find(args), Args: args, Reply: &w}
		c.OnBlock = func(block *command.Block) *Waiter {
			return a.x.NewWaiter(*c, block, 2, func(w *Waiter) { reply <- short(w.Reply()) })
		}
		if a.x.RunOnWorker(c); !c.Blocked {
			t.Error(short(w.Buf))
		}
		return reply
	}
	first := wait()
	hangs, goOn := make(chan struct{}), make(chan struct{})
	a.eng.Intercept(func(*engine.Batch) sharedmem.Fault {
		a.eng.Intercept(nil)
		close(hangs)
		return sharedmem.Fault{Wait: goOn}
	})
	pushed := make(chan string)
	go func() { pushed <- a.do("rpush list a b") }()
	<-hangs // it has the latch of the list
	second := wait()
	close(goOn)
	equal(t, "pushed", <-pushed, "2")
	equal(t, "replies", <-first+<-second, "[list a][list b]")
}

// Who would join others that wait, and must be run in another way, is run in that way.
func TestJoiningOthersMeetsADetour(t *testing.T) {
	t.Parallel()
	a := openShared(t, sharedmem.New())
	runs := 0
	cmd := &command.Command{
		Name: "waits", FullName: "waits", Flags: command.Write | command.Blocking, Keys: command.OneKey(1, command.RW),
		Run: func(c *command.Ctx) error {
			if runs++; runs == 2 {
				c.Tx.Fail(keyspace.TakesLong)
				return nil
			}
			return &command.Block{Keys: c.Args[1:2], Type: keyspace.List}
		},
	}
	for range 2 {
		c := &Call{Cmd: cmd, Args: words("waits list"), Reply: &wire.Writer{Proto: 2}}
		c.OnBlock = func(block *command.Block) *Waiter { return a.x.NewWaiter(*c, block, 2, func(*Waiter) {}) }
		if a.x.RunOnWorker(c); !c.Blocked {
			t.Errorf("run %d: neither waits nor has an answer: %s", runs, short(c.Reply.Buf))
		}
	}
	clients, _ := a.x.Waiting()
	equal(t, "clients that wait", clients, 2)
	equal(t, "runs", runs, 3)
}
