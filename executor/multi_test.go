package executor

import (
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"

	"redoubt/command"
	"redoubt/engine"
	"redoubt/keyspace"
	"redoubt/wire"
)

// queue makes the queue of a transaction of lines.
func queue(lines ...string) []command.Queued {
	q := []command.Queued{}
	for _, l := range lines {
		args := words(l)
		if l == "ran" {
			q = append(q, command.Queued{Cmd: saysRan, Args: args})
		} else {
			q = append(q, command.Queued{Cmd: table().Find(args), Args: args})
		}
	}
	return q
}

var saysRan = &command.Command{Name: "ran", Arity: 1, Run: func(c *command.Ctx) error {
	c.Reply.Status("ran")
	return nil
}}

// tryExec gives a transaction to the batch.
func (c *client) tryExec(w *Watch, lines ...string) bool {
	c.call = Call{Cmd: command.Exec, Args: words("exec"), DB: c.db, Reply: &c.w, Queue: queue(lines...), Watch: w}
	return c.b.Run(&c.call) == 0
}

// exec is a transaction in a turn of its own.
func (c *client) exec(w *Watch, lines ...string) string {
	if c.tryExec(w, lines...) {
		_, s := c.commit()
		return s
	}
	c.b.Commit()
	call := c.call
	c.f.x.RunOnWorker(&call)
	return c.take()
}

// watch watches keys in a turn of its own.
func (c *client) watch(w *Watch, keys string) {
	c.f.t.Helper()
	c.call = Call{Cmd: command.Watch, Args: words("watch " + keys), DB: c.db, Reply: &c.w, Watch: w}
	if c.b.Run(&c.call) != 0 {
		c.f.t.Errorf("watch %s was left to a worker", keys)
	}
	_, s := c.commit()
	c.f.want("watch", s, "OK")
}

func TestATransactionIsOneCommit(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	c := f.client()
	before := f.x.Stats.Commits.Load()
	f.want("exec", c.exec(nil, "set a 1", "incr a", "lpush a x", "mget a b", "rename a b"),
		"[OK 2 !WRONGTYPE Operation against a key holding the wrong kind of value [2 (nil)] OK]")
	equal(t, "commits", f.x.Stats.Commits.Load()-before, 1)
	f.want("b", f.do("get b"), "2")
	f.want("none", c.exec(nil), "[]")
	f.free()
}

func TestACommandThatFailsInATransactionLeavesNothing(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	seen := f.observe()
	f.want("exec", f.client().exec(nil, "set a 1", "msetnx b 1 a 2", "incrby a x", "append a 2"), "[OK 0 !ERR value is not an integer or out of range 2]")
	f.want("a", f.do("get a"), "12")
	f.want("effects", seen(), "hits 1 misses 0 expired 0 changes 2 events new:0:a set:0:a append:0:a")
}

func TestATransactionThatMeetsAColdRowLeavesNoTrace(t *testing.T) {
	t.Parallel()
	f, eng := newChilly(t, nil)
	f.do("mset a 1 b 2")
	seen := f.observe()
	seen()
	eng.Set(metaRows("b"))
	c := f.client()
	equal(t, "taken", c.tryExec(nil, "incr a", "rpush l x", "incr b"), false)
	equal(t, "cold", c.call.Cold, true)
	equal(t, "reply", len(c.w.Buf), 0)
	c.b.Commit()
	f.want("effects", seen(), "hits 0 misses 0 expired 0 changes 2 events ")
	call := c.call
	f.x.RunOnWorker(&call)
	f.want("on a worker", c.take(), "[2 1 3]")
	f.free()
}

func TestATransactionRunsWhatNeedsAllKeys(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.do("mset a 1 b 2")
	f.want("exec", f.client().exec(nil, "set c 3", "dbsize", "flushall", "dbsize", "set d 1", "keys *"), "[OK 3 OK 0 OK [d]]")
	f.free()
}

func TestAFailedCommitIsOneErrorForATransaction(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	c := f.client()
	c.run("get a")
	equal(t, "taken", c.tryExec(nil, "set a 1", "set b 1"), true)
	c.run("get a")
	f.eng.failIn.Store(1)
	_, s := c.commit()
	equal(t, "errors", strings.Count(s, "!"), 3)
	f.want("a", f.do("get a"), "(nil)")
}

func TestATransactionWaitsForWhatItRead(t *testing.T) {
	t.Parallel()
	f := newDurable(t)
	a, b := f.client(), f.client()
	a.run("set k 1")
	wrote, _ := a.commit()
	equal(t, "taken", b.tryExec(nil, "get k", "get l"), true)
	own, s := b.commit()
	f.want("reply", s, "[1 (nil)]")
	equal(t, "waits", b.ready(own), wrote)
}

func TestWatch(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name   string
		setup  string
		watch  string
		change string
		at     int64 // milliseconds that pass before EXEC
		want   string
	}{
		{"unchanged", "set a 1", "a b", "get a", 0, "[ran]"},
		{"set", "set a 1", "a", "set a 1", 0, "[]"},
		{"made", "", "a", "set a 1", 0, "[]"},
		{"deleted", "set a 1", "a", "del a", 0, "[]"},
		{"deleted, was not there", "", "a", "del a", 0, "[ran]"},
		{"another key", "set a 1", "a", "set b 1", 0, "[ran]"},
		{"a member", "zadd a 1 x 2 y", "a", "zadd a 3 x", 0, "[]"},
		{"the same member", "zadd a 1 x 2 y", "a", "zadd a 1 x", 0, "[ran]"},
		{"renamed onto", "mset a 1 b 2", "a", "rename b a", 0, "[]"},
		{"renamed away", "mset a 1 b 2", "a", "rename a c", 0, "[]"},
		{"moved away", "set a 1", "a", "move a 1", 0, "[]"},
		{"expiry set", "set a 1", "a", "expire a 100", 0, "[]"},
		{"expired by itself", "set a 1 px 5", "a", "ping", 10, "[]"},
		{"expired and found", "set a 1 px 5", "a", "get a", 10, "[]"},
		{"a hash's last field died", "hset a f 1;hpexpire a 5 fields 1 f", "a", "ping", 10, "[]"},
		{"flushed", "set a 1", "a", "flushall", 0, "[]"},
		{"flushed, was not there", "set b 1", "a", "flushall", 0, "[ran]"},
		{"swapped", "set a 1", "a", "swapdb 0 1", 0, "[]"},
		{"swapped, neither is there", "set b 1", "a", "swapdb 0 1", 0, "[ran]"},
		{"popped", "rpush a 1 2", "a", "lpop a", 0, "[]"},
		{"stored", "sadd b x", "a", "sunionstore a b", 0, "[]"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			for _, same := range []bool{false, true} { // the same batch, uncommitted, or another client's
				f := newFixture(t)
				for _, line := range strings.Split(tc.setup, ";") {
					if line != "" {
						f.do(line)
					}
				}
				c, other := f.client(), f.client()
				var w Watch
				c.watch(&w, tc.watch)
				f.now.Add(tc.at)
				switch cmd := table().Find(words(tc.change)); {
				case cmd == nil: // ping
				case same && cmd.Flags&(command.Exclusive|command.OnWorker) == 0:
					c.run(tc.change)
					c.w.Buf = c.w.Buf[:0]
				default:
					other.do(tc.change)
				}
				f.want("exec", c.exec(&w, "ran"), tc.want)
				w.Clear()
				equal(t, "observers", f.x.space.Observers.Load(), 0)
				f.free()
			}
		})
	}
}

func TestAKeyThatWasDeadWhenWatchedIsMissing(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.do("set a 1 px 5")
	f.now.Add(10)
	c := f.client()
	var w Watch
	c.watch(&w, "a")
	f.client().do("del a") // removes the dead row
	f.want("exec", c.exec(&w, "ran"), "[ran]")
	f.do("set a 1")
	f.want("exec", c.exec(&w, "ran"), "[]")
}

func TestChangesBeforeWatchDoNotCount(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	c, d := f.client(), f.client()
	var other, w Watch
	d.watch(&other, "zz") // somebody observes, so that changes are noted
	c.run("set a 1")
	c.call = Call{Cmd: command.Watch, Args: words("watch a"), Reply: &c.w, Watch: &w}
	equal(t, "detour", c.b.Run(&c.call), 0)
	c.take()
	f.want("exec", c.exec(&w, "ran"), "[ran]")
}

func TestWatchOfAClientThatLeftNotesNothing(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	var w Watch
	w.End()
	f.client().watch(&w, "a")
	equal(t, "observers", f.x.space.Observers.Load(), 0)
	equal(t, "keys", len(f.x.watching.at), 0)
}

// TestTransfersKeepTheSum has clients move amounts between accounts, by EXEC of
// what they read under WATCH, while others read all accounts in one transaction.
func TestTransfersKeepTheSum(t *testing.T) {
	t.Parallel()
	const accounts, clients = 5, 6
	f := newFixture(t)
	r := seeded(t)
	var all []string
	for i := range accounts {
		all = append(all, fmt.Sprintf("acc%d", i))
		f.do(fmt.Sprintf("set acc%d 100", i))
	}
	var wg sync.WaitGroup
	for range clients {
		seed := r.Uint64()
		wg.Go(func() {
			c, rnd := f.client(), seed
			next := func(n int) int { rnd = rnd*6364136223846793005 + 1; return int(rnd>>33) % n }
			done := 0
			for range rounds(2000) {
				from, to, amount := next(accounts), next(accounts), next(20)
				if from == to {
					continue
				}
				var w Watch
				c.call = Call{Cmd: command.Watch, Args: words(fmt.Sprintf("watch acc%d acc%d", from, to)), Reply: &c.w, Watch: &w}
				if c.b.Run(&c.call) != 0 {
					c.b.Commit()
					call := c.call
					f.x.RunOnWorker(&call)
				}
				c.commit()
				a, err1 := strconv.Atoi(c.do(fmt.Sprintf("get acc%d", from)))
				b, err2 := strconv.Atoi(c.do(fmt.Sprintf("get acc%d", to)))
				if err1 != nil || err2 != nil {
					t.Errorf("balances: %v, %v", err1, err2)
					return
				}
				if s := c.exec(&w, fmt.Sprintf("set acc%d %d", from, a-amount), fmt.Sprintf("set acc%d %d", to, b+amount)); s == "[OK OK]" {
					done++
				}
				w.Clear()
				sum := 0
				for _, s := range strings.Fields(strings.Trim(c.exec(nil, "mget "+strings.Join(all, " ")), "[]")) {
					n, _ := strconv.Atoi(s)
					sum += n
				}
				if sum != accounts*100 {
					t.Errorf("the accounts hold %d", sum)
					return
				}
			}
			if done == 0 {
				t.Error("no transfer succeeded")
			}
		})
	}
	wg.Wait()
	f.free()
}

// scripted runs lines as a script would: declared keys come first.
func scripted(lines ...string) *command.Command {
	return &command.Command{
		Name: "scripted", Arity: -1, Flags: command.MayReplicate, Keys: command.KeyRange(1, -1, 1, command.RW),
		Run: func(c *command.Ctx) error {
			c.Reply.Array(len(lines))
			for _, l := range lines {
				args := words(l)
				if err := c.Do(table().Find(args), args, c.Reply); c.Tx.Err() != nil {
					return err
				} else if err != nil {
					c.Reply.Error(command.Text(err))
				}
			}
			return nil
		},
	}
}

func TestAScriptReachesKeysItDidNotDeclare(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.do("mset a 1 b 2")
	c := f.client()
	s := scripted("incr a", "incr b", "sadd s m", "incr s", "dbsize")
	c.runCmd(s, "a")
	_, got := c.commit()
	f.want("free keys", got, "[2 3 1 !WRONGTYPE Operation against a key holding the wrong kind of value 3]")

	// Somebody holds b: the script is rolled back and run again, alone.
	other := f.client()
	other.run("incr b")
	equal(t, "taken", c.tryCmd(s, words("scripted a")), false)
	equal(t, "detour", c.call.Detour, keyspace.NeedsOneState)
	c.b.Commit()
	f.want("a meanwhile", f.do("get a"), "2")
	done := make(chan string)
	go func() {
		_, _, s := f.workerCmd(s, 0, words("scripted a"))
		done <- s
	}()
	other.commit()
	f.want("alone", <-done, "[3 5 0 !WRONGTYPE Operation against a key holding the wrong kind of value 3]")
	f.free()
}

func TestAScriptInATransaction(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	c := f.client()
	q := queue("set a 1", "ran", "get a")
	q[1] = command.Queued{Cmd: scripted("incr a", "lpush l x"), Args: words("scripted a")}
	c.call = Call{Cmd: command.Exec, Args: words("exec"), Reply: &c.w, Queue: q}
	equal(t, "detour", c.b.Run(&c.call), 0)
	_, s := c.commit()
	f.want("exec", s, "[OK [2 1] 2]")
	equal(t, "ran", q[1].Ran, true)
}

// TestLocalCommandsAreNotRepeated: a command of the server that changes something
// is run once, with everything latched.
func TestLocalCommandsAreNotRepeated(t *testing.T) {
	t.Parallel()
	f, eng := newChilly(t, nil)
	f.do("set a 1")
	eng.Set(metaRows("a"))
	who := &fakeCaller{}
	for _, harmless := range []bool{false, true} {
		cmd := &command.Command{Name: "local", Arity: -1}
		if harmless {
			cmd.Flags = command.Repeatable
		}
		eng.Set(metaRows("a")) // reading it brought it into memory
		*who = fakeCaller{}
		var w wire.Writer
		c := Call{Cmd: command.Exec, Args: words("exec"), Reply: &w, Caller: who, Queue: []command.Queued{
			{Cmd: cmd, Args: words("local 0")}, {Cmd: table().Find(words("get a")), Args: words("get a")}, {Cmd: cmd, Args: words("local 2")},
		}}
		b := f.x.NewBatch()
		if b.Run(&c) == 0 {
			t.Fatal("a cold row was read on a loop")
		}
		b.Commit()
		if !harmless {
			equal(t, "runs on the loop", who.runs, 0)
		}
		who.runs = 0
		f.x.RunOnWorker(&c)
		f.want("exec", short(w.Buf), "[OK 1 OK]")
		equal(t, "runs", who.runs, 2)
		equal(t, "selected", c.Selected, 2)
	}
	f.free()
}

type fakeCaller struct{ runs int }

func (f *fakeCaller) Permit(*command.Command, [][]byte) error { return nil }
func (f *fakeCaller) OutOfMemory() bool                       { return false }
func (f *fakeCaller) Writable(command.Flags) error            { return nil }
func (f *fakeCaller) Local(_ *command.Command, args [][]byte, _ int, w *wire.Writer, _ command.Within) (int, error) {
	f.runs++
	w.OK()
	return strconv.Atoi(string(args[1]))
}

func TestMessagesAreToldAfterTheCommit(t *testing.T) {
	t.Parallel()
	f := newDurable(t)
	var told []string
	var ticket engine.Ticket
	f.x.Listen(func(e *keyspace.Effects, t engine.Ticket) {
		for _, m := range e.Messages {
			told = append(told, string(m.Payload))
		}
		ticket = t
	})
	say := &command.Command{Name: "say", Arity: -1, Run: func(c *command.Ctx) error {
		c.Tx.Publish([]byte("ch"), c.Args[1], false)
		c.Reply.Int(0)
		return nil
	}}
	c := f.client()
	c.run("set a 1")
	c.runCmd(say, "hello")
	equal(t, "told before the commit", len(told), 0)
	own, _ := c.commit()
	equal(t, "told", strings.Join(told, " "), "hello")
	equal(t, "ticket", ticket, own)
	c.runCmd(say, "again")
	f.eng.failIn.Store(1)
	c.run("set a 2")
	c.commit()
	equal(t, "told after a commit that failed", strings.Join(told, " "), "hello")
}

// What the commands of a transaction touch adds up: many that are fine by
// themselves are for a worker together.
func TestHeavyTransactionsLeaveTheLoop(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	touch := &command.Command{Name: "touches", Arity: 1, Run: func(c *command.Ctx) error {
		c.Tx.Heavy(100 << 10) // the total so far, told twice
		c.Tx.Heavy(400 << 10)
		c.Reply.OK()
		return nil
	}}
	try := func(n int) (bool, *client) {
		c := f.client()
		c.call = Call{Cmd: command.Exec, Args: words("exec"), Reply: &c.w, Queue: []command.Queued{}}
		for range n {
			c.call.Queue = append(c.call.Queue, command.Queued{Cmd: touch, Args: words("touches")})
		}
		ok := c.b.Run(&c.call) == 0
		c.b.Commit()
		return ok, c
	}
	ok, _ := try(2)
	equal(t, "two on a loop", ok, true)
	ok, c := try(3)
	equal(t, "three on a loop", ok, false)
	equal(t, "detour", c.call.Detour, keyspace.TakesLong)
	f.x.RunOnWorker(&c.call)
	f.want("three on a worker", c.take(), "[OK OK OK]")

	c = f.client()
	many := "mget" + strings.Repeat(" k", heavyArgs/2)
	equal(t, "many arguments on a loop", c.tryExec(nil, many, many), false)
	f.free()
}
