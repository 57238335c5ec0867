package executor

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"redoubt/command"
	"redoubt/engine"
	"redoubt/keyspace"
	"redoubt/wire"
)

// waits is when the reply to a client's only call of a turn may be sent.
func (c *client) waits(line string) engine.Ticket {
	c.f.t.Helper()
	args := words(line)
	cmd := table().Find(args)
	if !c.tryCmd(cmd, args) {
		c.b.Commit()
		ticket, _, _ := c.f.workerCmd(cmd, c.db, args)
		return ticket
	}
	own := c.b.Commit()
	c.take()
	return c.ready(own)
}

// A reply waits for what it tells: the writer's, and the reader's on whichever
// batch and way. One that tells of other keys does not wait.
func TestRepliesWaitForWhatTheyTell(t *testing.T) {
	t.Parallel()
	f := newDurable(t)
	f.do("mset k 0 j 0 quiet 0")
	f.eng.flush()
	a, b := f.client(), f.client()
	equal(t, "all durable", b.waits("get k") <= f.eng.Durable(), true)

	a.run("set k 1")
	first, _ := a.commit()
	equal(t, "the writer", a.ready(first), first)
	equal(t, "not durable", first > f.eng.Durable(), true)
	a.run("set j 1")
	second, _ := a.commit()
	equal(t, "later", second > first, true)

	worker := func(line string) engine.Ticket {
		ticket, _, _ := f.workerCmd(table().Find(words(line)), 0, words(line))
		return ticket
	}
	for _, c := range []struct {
		line string
		want engine.Ticket
	}{
		{"get k", first}, {"get j", second}, {"get quiet", 0}, {"mget quiet k", first}, {"mget k j", second},
		{"exists quiet nokey", 0}, {"strlen k", first}, {"dbsize", second}, {"keys *", second},
	} {
		equal(t, c.line, max(b.waits(c.line), f.eng.Durable()), max(c.want, f.eng.Durable()))
		equal(t, c.line+" on a worker", max(worker(c.line), f.eng.Durable()), max(c.want, f.eng.Durable()))
	}
	f.eng.durable.Store(uint64(first))
	equal(t, "the first is durable", b.waits("get k") <= f.eng.Durable(), true)
	equal(t, "the second is not", b.waits("get j"), second)

	// An error tells something, too.
	equal(t, "wrong type", b.waits("incrbyfloat j x"), second)
	// A key that is gone.
	a.run("del quiet")
	third, _ := a.commit()
	equal(t, "a deletion", b.waits("get quiet"), third)
	f.now.Add(10)
	a.run("set k v px 5")
	fourth, _ := a.commit()
	f.now.Add(10)
	equal(t, "an expiry", b.waits("get k"), fourth)
}

func TestAReaderInTheWritersBatch(t *testing.T) {
	t.Parallel()
	f := newDurable(t)
	a := f.client()
	reader := a.beside()
	a.run("set k 1")
	reader.run("get k")
	equal(t, "own", reader.call.Own, true)
	reader.run("dbsize")
	equal(t, "own", reader.call.Own, true)
	reader.run("mget x k")
	equal(t, "own", reader.call.Own, true)
	reader.run("get other")
	equal(t, "another key", reader.call.Own, false)
	equal(t, "another key", reader.call.Wait, 0)
	f.want("replies", reader.take(), "1 1 [(nil) 1] (nil)")
	first, _ := a.commit()

	// The batch is committed in the middle of a turn. What was told before waits
	// for that commit, by the ticket of the turn or by the stripe's.
	b := f.client()
	b.run("set hot 1")
	a.run("set k 2")
	reader.run("get k")
	mid := reader.call
	equal(t, "left", a.try("set hot 2"), false)
	reader.run("get k")
	late := reader.call
	equal(t, "no longer the batch's own", late.Own, false)
	equal(t, "the commit in the middle", late.Wait > first, true)
	second := a.b.Commit()
	equal(t, "the ticket of the turn", second, late.Wait)
	equal(t, "the early reader", mid.ready(second), second)
	b.commit()
	f.free()
}

// Between the moment at which a commit is visible and the one at which its
// latches are stamped with the ticket, a reader waits all the same.
func TestAReaderBetweenVisibilityAndStamp(t *testing.T) {
	t.Parallel()
	f := newDurable(t)
	a, b := f.client(), f.client()
	seen := 0
	f.eng.onVisible(func(ticket engine.Ticket) {
		b.run("get k")
		f.want("visible", b.take(), "1")
		equal(t, "waits", max(b.call.Wait, ticket) == b.call.Wait, true)
		equal(t, "not for its own", b.call.Own, false)
		b.b.Commit()
		seen++
	})
	a.run("set k 1")
	a.commit()
	equal(t, "hook", seen, 1)
}

// FLUSHALL and SWAPDB change all keys without their latches.
func TestReadersWaitForACommandThatRanAlone(t *testing.T) {
	t.Parallel()
	f := newDurable(t)
	b := f.client()
	f.do("set k 1")
	for _, line := range []string{"swapdb 0 1", "swapdb 1 0", "flushall"} {
		f.eng.flush()
		ticket, _, s := f.workerCmd(table().Find(words(line)), 0, words(line))
		f.want(line, s, "OK")
		equal(t, line+" is not durable", ticket > f.eng.Durable(), true)
		for _, read := range []string{"get k", "mget k j", "exists k", "dbsize"} {
			equal(t, line+", "+read, b.waits(read), ticket)
		}
		worker, _, _ := f.workerCmd(table().Find(words("get k")), 0, words("get k"))
		equal(t, line+" on a worker", worker, ticket)
		f.eng.flush()
		equal(t, line+" is durable", b.waits("get k") <= f.eng.Durable(), true)
	}
}

func TestReadersWaitForTheSweep(t *testing.T) {
	t.Parallel()
	f := newDurable(t)
	f.do("set k 1 px 10")
	f.eng.flush()
	f.now.Add(10)
	f.bg.Sweep(t.Context())
	equal(t, "swept", f.eng.Committed() > f.eng.Durable(), true)
	equal(t, "waits", f.client().waits("exists k"), f.eng.Committed())
}

func TestAFailedCommitSpoilsItsReplies(t *testing.T) {
	t.Parallel()
	const bad = "!MISCONF commit: store refuses writes: injected"
	f := newDurable(t)
	f.x.Listening(^keyspace.Class(0))
	events := 0
	f.x.Listen(func(e *keyspace.Effects, _ engine.Ticket) { events += len(e.Events) })
	f.do("set k old")
	events = 0
	a := f.client()
	other := a.beside()
	a.w.Buf = append(a.w.Buf, "+EARLIER\r\n"...) // of an earlier turn, not sent yet
	a.run("set k 1")
	a.run("get k")
	other.run("get k") // in the same batch: it saw what will not be
	a.w.Status("PONG") // a command that the batch knows nothing of
	a.run("set j 1")
	other.run("get nokey")
	a.w.Status("PONG")
	f.eng.failIn.Store(1)
	ticket, s := a.commit()
	equal(t, "ticket", ticket, 0)
	f.want("replies", s, "EARLIER "+bad+" "+bad+" PONG "+bad+" PONG")
	f.want("of the other", other.take(), bad+" "+bad)
	equal(t, "events", events, 0)
	equal(t, "logged", strings.Contains(f.log.String(), "commit failed"), true)
	f.want("afterwards", f.do("mget k j"), "[old (nil)]")
	f.want("size", f.do("dbsize"), "1")
	f.free()

	// The next turn of the same clients is not concerned.
	a.run("set k 2")
	other.run("get k")
	_, s = a.commit()
	f.want("replies", s, "OK")
	f.want("of the other", other.take(), "2")
}

func TestAFailedCommitInTheMiddleOfATurn(t *testing.T) {
	t.Parallel()
	const bad = "!MISCONF commit: store refuses writes: injected"
	f := newDurable(t)
	a, b := f.client(), f.client()
	other := a.beside()
	b.run("set hot 1")
	a.run("set k 1")
	f.eng.failIn.Store(1)
	equal(t, "left", a.try("set hot 2"), false)
	other.run("set k 2")
	other.run("get k")
	ticket := a.b.Commit()
	equal(t, "ticket", ticket > 0, true)
	f.want("spoiled", a.take(), bad)
	f.want("not spoiled", other.take(), "OK 2")
	b.commit()
	f.want("kept", f.do("mget k hot"), "[2 1]")

	// The other way round: what the first commit stored keeps its ticket.
	b.run("set hot 3")
	a.run("set k 3")
	equal(t, "left", a.try("set hot 4"), false)
	first := f.eng.Committed()
	other.run("set k 4")
	f.eng.failIn.Store(1)
	equal(t, "ticket of what was stored", a.b.Commit(), first)
	f.want("not spoiled", a.take(), "OK")
	f.want("spoiled", other.take(), bad)
	b.commit()
	f.free()
}

// A turn with many rows is committed in parts: each reply belongs to its part.
func TestALargeTurnIsCommittedInParts(t *testing.T) {
	t.Parallel()
	const bad = "!MISCONF commit: store refuses writes: injected"
	f := newDurable(t)
	a := f.client()
	for _, fail := range []int64{0, 1, 2} {
		before := f.x.Stats.Commits.Load()
		f.eng.failIn.Store(fail)
		n := 0
		for ; n < 3*batchRows; n++ {
			a.run(fmt.Sprintf("set key%d-%d v", fail, n))
			if a.b.rows.Len() > batchRows+1 {
				t.Fatalf("the batch holds %d rows", a.b.rows.Len())
			}
		}
		ticket, s := a.commit()
		equal(t, "the newest ticket", ticket, f.eng.Committed())
		failed := strings.Count(s, bad)
		ok := len(strings.Fields(strings.ReplaceAll(s, bad, "")))
		equal(t, "replies", failed+ok, n)
		f.want("stored", f.do(fmt.Sprintf("exists key%d-0 key%d-%d", fail, fail, n-1)), []string{"2", "1", "2"}[fail])
		if commits := f.x.Stats.Commits.Load() - before; commits < 3-min(1, fail) {
			t.Errorf("%d commits", commits)
		}
		if (fail > 0) != (failed > 0) || failed > n/2 {
			t.Errorf("%d of %d replies are errors", failed, n)
		}
		if fail == 1 != strings.HasPrefix(s, bad) {
			t.Errorf("the replies begin with %.60s", s)
		}
	}
	f.free()
}

func TestAFailedCommitOnAWorker(t *testing.T) {
	t.Parallel()
	const bad = "!MISCONF commit: store refuses writes: injected"
	f := newDurable(t)
	f.do("mset k 1 j 1")
	for _, line := range []string{"set k 2", "flushall", "swapdb 0 1"} {
		f.eng.failIn.Store(1)
		f.want(line, f.worker(0, line), bad)
	}
	f.want("untouched", f.do("mget k j"), "[1 1]")
	f.want("size", f.do("dbsize"), "2")
	f.eng.failIn.Store(1)
	_, err := f.x.Do(func(tx *keyspace.Tx) { tx.Flush(0) })
	equal(t, "own execution", fmt.Sprint(err), "store refuses writes: injected")
	f.want("untouched", f.do("dbsize"), "2")
	f.free()
}

// A client may be gone by the time its commit fails, and its buffer with it.
func TestAFailedCommitAfterTheClientLeft(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	a := f.client()
	b := a.beside()
	a.w.Buf = append(a.w.Buf, "+EARLIER\r\n"...)
	a.run("set k 1")
	b.run("get k")
	a.w.Buf = nil
	f.eng.failIn.Store(1)
	a.b.Commit()
	f.want("of the one who stayed", b.take(), "!MISCONF commit: store refuses writes: injected")
	f.free()
}

func TestAnEngineThatBeginsNothing(t *testing.T) {
	t.Parallel()
	const bad = "!MISCONF begin: store refuses writes: injected"
	f := newDurable(t)
	a := f.client()
	a.run("set k 1")
	a.commit()
	f.eng.broken.Store(true)
	for _, line := range []string{"set k 2", "get k"} {
		a.run(line)
		equal(t, "failed", a.call.Failed, true)
		equal(t, "waits", a.call.ready(99), 0)
	}
	_, s := a.commit()
	f.want("replies", s, bad+" "+bad)
	f.want("on a worker", f.worker(0, "get k"), bad)
	f.want("alone", f.worker(0, "flushall"), bad)
	f.want("on a snapshot", f.worker(0, "keys *"), bad)
	if _, err := f.x.Do(func(*keyspace.Tx) { t.Error("run") }); err == nil {
		t.Error("own execution: no error")
	}
	f.free()

	// Those replies are sent and gone when the engine works again, and a later
	// failure must not touch what stands in their place.
	f.eng.broken.Store(false)
	a.w.Buf = append(a.w.Buf, "+LATER\r\n"...)
	a.run("set k 3")
	f.eng.failIn.Store(1)
	_, s = a.commit()
	f.want("replies", s, "LATER !MISCONF commit: store refuses writes: injected")
}

// Whatever happens on a worker, there is exactly one reply.
func TestAWorkerAlwaysReplies(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	for name, err := range map[string]error{"heavy": keyspace.TakesLong, "latch": keyspace.NeedsLatch} {
		cmd := custom(name, command.Write, func(c *command.Ctx) error {
			storeString(c.Tx, c.Args[1], "v")
			c.Reply.OK()
			c.Tx.Fail(err)
			return nil
		})
		_, call, s := f.workerCmd(cmd, 0, words(name+" k"))
		if !strings.HasPrefix(s, "!ERR ") || strings.Contains(s, "OK") || !call.Failed {
			t.Errorf("%s: %q, failed %v", name, s, call.Failed)
		}
		f.want("nothing is left", f.do("exists k"), "0")
	}
	f.free()
}

// A commit that fails rewrites the replies of several connections: each under
// its own guard, but not under the one that the caller of Run holds.
func TestSpoiledRepliesAreGuarded(t *testing.T) {
	t.Parallel()
	f := newDurable(t)
	b := f.x.NewBatch()
	var first, second countingLock
	one, two := &wire.Writer{Proto: 2}, &wire.Writer{Proto: 2}
	set := table().Lookup([]byte("set"))
	words := func(s string) [][]byte { return bytes.Fields([]byte(s)) }
	b.Run(&Call{Cmd: set, Args: words("set a 1"), Reply: one, Guard: &first})
	b.Run(&Call{Cmd: set, Args: words("set b 1"), Reply: two, Guard: &second})
	f.eng.failIn.Store(1)
	b.commit() // as in the middle of the second Run
	equal(t, "locks of the first", first.n, 1)
	equal(t, "locks of the second", second.n, 0)
	equal(t, "replies", one.Buf[0] == '-' && two.Buf[0] == '-', true)
}

type countingLock struct{ n int }

func (l *countingLock) Lock()   { l.n++ }
func (l *countingLock) Unlock() {}
