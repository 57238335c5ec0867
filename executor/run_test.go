package executor

import (
	"errors"
	"fmt"
	"regexp"
	"runtime"
	"strings"
	"testing"

	"redoubt/command"
	"redoubt/engine"
	"redoubt/executor/latch"
	"redoubt/keyspace"
	"redoubt/wire"
)

// custom makes a command on one key.
func custom(name string, flags command.Flags, run func(*command.Ctx) error) *command.Command {
	return &command.Command{
		Name: name, FullName: name, Arity: -2, Flags: flags, Keys: command.OneKey(1, command.RW), Run: run,
	}
}

// storeString writes a plain string through a transaction.
func storeString(tx *keyspace.Tx, key []byte, value string) {
	old := tx.Find(key)
	tx.Store(key, old, keyspace.Meta{Type: keyspace.String, Encoding: keyspace.Raw, Body: []byte(value)})
	tx.Changed(keyspace.StringEv, "set", key)
}

// twice reads its key's row two times; reads says in which ways it was run.
func twice(runs *[]bool) *command.Command {
	return custom("twice", command.ReadOnly, func(c *command.Ctx) error {
		*runs = append(*runs, c.Tx.Latched)
		c.Reply.Array(2)
		for range 2 {
			c.Reply.Bulk(c.Tx.Read(c.Args[1]).Body)
		}
		return nil
	})
}

func TestABatchSeesItsOwnWritesAndOthersSeeThemAfterTheCommit(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	a, b := f.client(), f.client()
	a.run("set k 1")
	a.run("get k")
	a.run("incr k")
	a.run("mget k nokey")
	f.want("not committed yet", b.do("get k"), "(nil)")
	_, s := a.commit()
	f.want("its own", s, "OK 1 2 [2 (nil)]")
	f.want("committed", b.do("get k"), "2")
	equal(t, "views", f.eng.began.Load(), 0)
}

func TestAReadOfOneKeyTakesNoLatch(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.do("set k old")
	a, b := f.client(), f.client()
	a.run("set k new")
	b.run("get k")
	b.run("get other")
	equal(t, "latches of the reader", len(b.b.latch.Held()), 0)
	_, s := b.commit()
	f.want("while a writer holds the latch", s, "old (nil)")
	a.commit()
}

func TestALatchThatAnotherBatchHolds(t *testing.T) {
	t.Parallel()
	for _, line := range []string{"set k b", "incr k", "del x k", "mget x k", "mset x 1 k 2", "rename k x"} {
		f := newFixture(t)
		f.do("set k 1")
		a, b := f.client(), f.client()
		a.run("set k 2")
		equal(t, line+" on a fresh batch", b.try(line), false)
		f.want("reply", b.take(), "")
		b.b.Commit()
		// With something to commit, that is done first.
		b.run("set before 1")
		equal(t, line+" on a batch in use", b.try(line), false)
		f.want("the command before it is committed", f.do("get before"), "1")
		if _, s := b.commit(); s != "OK" {
			t.Errorf("%s: replies %q", line, s)
		}
		a.commit()
		equal(t, line+" when the latch is free", b.try(line), true)
		b.commit()
		f.free()
	}
}

// free checks that nobody holds a latch.
func (f *fixture) free() {
	f.t.Helper()
	equal(f.t, "held stripes", f.x.latches.Held(), 0)
	if !f.x.latches.TryLockKeyspace() {
		f.t.Fatal("the whole keyspace is still latched")
	}
	f.x.latches.UnlockKeyspace(0)
	equal(f.t, "open views", f.eng.began.Load(), 0)
}

func TestASecondReadNeedsTheLatch(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.do("set k v")
	hits := f.x.Stats.Hits.Load()
	var runs []bool
	a, b := f.client(), f.client()
	a.runCmd(twice(&runs), "k")
	equal(t, "runs", fmt.Sprint(runs), "[false true]")
	equal(t, "the latch is kept", b.try("set k w"), false)
	b.commit()
	_, s := a.commit()
	f.want("replied once", s, "[v v]")
	equal(t, "hits counted once", f.x.Stats.Hits.Load()-hits, 2)

	// Somebody else has the latch: it is for a worker, and leaves nothing behind.
	b.run("set k w")
	runs = nil
	c := f.client()
	c.run("get k")
	equal(t, "taken", c.tryCmd(twice(&runs), words("twice k")), false)
	equal(t, "runs", fmt.Sprint(runs), "[false]")
	hits = f.x.Stats.Hits.Load()
	_, s = c.commit()
	f.want("only the reply before it", s, "v")
	equal(t, "hits", f.x.Stats.Hits.Load()-hits, 1)
	b.commit()

	// A batch that wrote the key has the latch already.
	runs = nil
	c.run("set k x")
	c.runCmd(twice(&runs), "k")
	equal(t, "runs", fmt.Sprint(runs), "[true]")
	_, s = c.commit()
	f.want("replies", s, "OK [x x]")
	runs = nil
	if _, _, s := f.workerCmd(twice(&runs), 0, words("twice k")); s != "[x x]" || fmt.Sprint(runs) != "[true]" {
		t.Errorf("on a worker: %s, runs %v", s, runs)
	}
	f.free()
}

func TestAHeavyCommandIsLeftToAWorker(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.x.Listening(^keyspace.Class(0))
	var events int
	f.x.Listen(func(e *keyspace.Effects, _ engine.Ticket) { events += len(e.Events) })
	heavy := custom("heavy", command.Write, func(c *command.Ctx) error {
		storeString(c.Tx, c.Args[1], "v")
		c.Tx.NewRef(c.Args[1], 1)
		c.Reply.OK()
		c.Tx.Heavy(1 << 30)
		return nil
	})
	c := f.client()
	c.run("set a 1")
	equal(t, "taken", c.tryCmd(heavy, words("heavy k")), false)
	_, s := c.commit()
	f.want("replies", s, "OK")
	equal(t, "events of the first command", events, 2)
	f.want("rolled back", f.do("exists k"), "0")
	if _, _, s := f.workerCmd(heavy, 0, words("heavy k")); s != "OK" {
		t.Errorf("on a worker: %s", s)
	}
	f.want("stored", f.do("get k"), "v")
	f.free()
}

func TestSlowCommandsAreForWorkers(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	slow := custom("slow", command.Write|command.OnWorker, func(c *command.Ctx) error {
		c.Reply.Bool(c.Tx.Worker)
		return nil
	})
	c := f.client()
	equal(t, "on a loop", c.tryCmd(slow, words("slow k")), false)
	c.b = f.x.NewWaitingBatch()
	equal(t, "on a waiting batch", c.tryCmd(slow, words("slow k")), true)
	_, s := c.commit()
	f.want("knows where it runs", s, "1")
	equal(t, "alone on a waiting batch", c.try("flushall"), false)
	equal(t, "one state on a waiting batch", c.try("keys *"), false)
	state := custom("state", command.ReadOnly|command.OneState, nil)
	equal(t, "one state on a waiting batch", c.tryCmd(state, words("state k")), false)
	equal(t, "one state on a loop", f.client().tryCmd(state, words("state k")), false)
	f.free()
}

func TestAnAloneCommandWaitsForOpenBatches(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	a, b := f.client(), f.client()
	equal(t, "on a loop", a.try("flushall"), false)
	a.run("set k 1")
	done := make(chan string)
	go func() { done <- f.worker(0, "flushall") }()
	for f.x.latches.TryShare() { // until it waits
		f.x.latches.Unshare()
		runtime.Gosched()
	}
	equal(t, "a new batch does not wait", b.try("get k"), false)
	a.run("get k") // an open one goes on
	select {
	case <-done:
		t.Error("the open batch was not waited for")
	default:
	}
	_, s := a.commit()
	f.want("replies", s, "OK 1")
	f.want("flush", <-done, "OK")
	f.want("flushed", b.do("get k"), "(nil)")
	f.want("size", b.do("dbsize"), "0")
	f.free()
}

// A command that must see one state reads a snapshot, which is taken while no
// FLUSHALL or SWAPDB can come between it and the numbers of the databases.
func TestOneState(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.do("mset a 1 b 1")
	f.eng.onSnapshot(func() {
		if f.x.latches.TryLockKeyspace() {
			f.x.latches.UnlockKeyspace(0)
			t.Error("the databases may be swapped while the snapshot is taken")
		}
	})
	cmd := &command.Command{
		Name: "walk", FullName: "walk", Flags: command.ReadOnly | command.OneState | command.OnWorker,
		Run: func(c *command.Ctx) error {
			f.do("mset a 2 c 2")
			f.do("del b")
			n := 0
			c.Tx.Walk(0, nil, func(uint16, []byte, keyspace.Meta) bool { n++; return true })
			c.Reply.Int(int64(n))
			c.Reply.Bulk(c.Tx.Find([]byte("a")).Body)
			return nil
		},
	}
	_, _, s := f.workerCmd(cmd, 0, words("walk"))
	f.want("one state", s, "2 1")
	f.want("afterwards", f.do("mget a b c"), "[2 (nil) 2]")
	write := &command.Command{
		Name: "bad", FullName: "bad", Flags: command.Write | command.OneState, Keys: command.OneKey(1, command.RW),
		Run: func(c *command.Ctx) error { storeString(c.Tx, c.Args[1], "v"); c.Reply.OK(); return nil },
	}
	if _, _, s := f.workerCmd(write, 0, words("bad k")); !strings.Contains(s, "snapshot tried to write") {
		t.Errorf("a write on a snapshot: %s", s)
	}
	f.free()
}

// A command whose snapshot is revoked gets another, some times, unless a part of its
// reply is on its way.
func TestRevokedSnapshot(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		flags         command.Flags
		revoked, runs int
		streams       bool
		want          string
	}{
		{command.OneState, 1, 2, false, "done"},
		{command.OneState, maxSnapshots - 1, maxSnapshots, false, "done"},
		{command.OneState, maxSnapshots, maxSnapshots, false, "TRYAGAIN"},
		{command.OneState, 1, 1, true, "part"},
		{0, 2, 3, false, "done"}, // one that takes long stays on snapshots
	} {
		f := newFixture(t)
		snapshots, runs := 0, 0
		f.eng.onSnapshot(func() { snapshots++ })
		cmd := &command.Command{
			Name: "walk", FullName: "walk", Flags: command.ReadOnly | command.OnWorker | c.flags,
			Run: func(ctx *command.Ctx) error {
				runs++
				if c.streams {
					ctx.Reply.Status("part")
					if err := ctx.Sink(ctx.Reply); err != nil {
						return err
					}
				}
				if runs <= c.revoked {
					return fmt.Errorf("reading: %w", engine.ErrSnapshotLost)
				}
				ctx.Reply.Status("done")
				return nil
			},
		}
		call := &Call{Cmd: cmd, Args: words("walk"), Reply: new(wire.Writer), Detour: keyspace.TakesLong}
		if c.streams {
			call.Sink = func(*wire.Writer) error { return nil }
		}
		f.x.RunOnWorker(call)
		if s := string(call.Reply.Buf); !strings.Contains(s, c.want) || call.Failed != (c.want != "done") {
			t.Errorf("%d revoked: %q, failed %v", c.revoked, s, call.Failed)
		}
		if runs != c.runs || snapshots != c.runs {
			t.Errorf("%d revoked: %d runs on %d snapshots, want %d", c.revoked, runs, snapshots, c.runs)
		}
		f.free()
	}
}

// failing makes a command that leaves traces everywhere and then fails.
func failing(flags command.Flags, fail func(*command.Ctx) error) *command.Command {
	return custom("failing", flags, func(c *command.Ctx) error {
		c.Tx.Read(c.Args[1])
		storeString(c.Tx, c.Args[1], "failed")
		storeString(c.Tx, []byte(string(c.Args[1])+"2"), "failed")
		m := c.Tx.Find(c.Args[1])
		m.Expire = c.Tx.Now + 1
		c.Tx.Store(c.Args[1], c.Tx.Find(c.Args[1]), m)
		c.Tx.NewRef(c.Args[1], 1)
		c.Reply.Array(7)
		c.Reply.BulkString("half a reply")
		return fail(c)
	})
}

func TestAFailedCommandLeavesNoTrace(t *testing.T) {
	t.Parallel()
	const internal = "!ERR internal error ID, see the server's log for this number"
	id := regexp.MustCompile("internal error ([0-9a-f]{8}),")
	for name, c := range map[string]struct {
		flags command.Flags
		fail  func(*command.Ctx) error
		want  string
	}{
		"error":   {command.Write, func(*command.Ctx) error { return command.ErrSyntax }, "!ERR syntax error"},
		"tx":      {command.Write, func(c *command.Ctx) error { c.Tx.Fail(errors.New("a\r\nb")); return nil }, "!ERR a  b"},
		"panic":   {command.Write, func(*command.Ctx) error { panic("a bug") }, internal},
		"runtime": {command.Write, func(c *command.Ctx) error { c.Args[100] = nil; return nil }, internal},
		"a read that writes": {command.ReadOnly, func(*command.Ctx) error { return nil },
			"!ERR a command that is not flagged as a write, or has no keys, tried to write"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			f.x.Listening(^keyspace.Class(0))
			var names []string
			f.x.Listen(func(e *keyspace.Effects, _ engine.Ticket) {
				for _, ev := range e.Events {
					names = append(names, ev.Name+":"+string(ev.Key))
				}
			})
			f.do("set k before")
			names = nil
			rows, changes := fmt.Sprint(f.rows()), f.x.Stats.Changes.Load()
			a := f.client()
			a.run("set k during")
			a.runCmd(failing(c.flags, c.fail), "k")
			equal(t, "failed", a.call.Failed, true)
			a.run("get k")
			equal(t, "failed", a.call.Failed, false)
			a.run("dbsize")
			_, s := a.commit()
			if m := id.FindStringSubmatch(s); m != nil && strings.Contains(f.log.String(), "id="+m[1]) {
				s = strings.Replace(s, m[1], "ID", 1)
			}
			f.want("replies", s, "OK "+c.want+" during 1")
			f.want("rows", fmt.Sprint(f.rows()), rows)
			equal(t, "events", strings.Join(names, " "), "set:k")
			equal(t, "changes", f.x.Stats.Changes.Load()-changes, 1)
			equal(t, "due", f.x.space.NextDue() > f.now.Load(), false) // unknown at the start
			if strings.Contains(c.want, "log") != strings.Contains(f.log.String(), "panicked") {
				t.Errorf("log: %s", f.log)
			}
			f.free()
		})
	}
}

func TestAPanicOfACommandThatNeededItsLatch(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.do("set k v")
	cmd := custom("careless", command.ReadOnly, func(c *command.Ctx) error {
		c.Tx.Find(c.Args[1])
		c.Reply.Bulk(c.Tx.Find(c.Args[1]).Body[:1]) // finds nothing without the latch
		return nil
	})
	c := f.client()
	c.runCmd(cmd, "k")
	_, s := c.commit()
	f.want("run again with its latch", s, "v")
	f.free()
}

// The latches of a call are those of its keys, whichever way they are found.
func TestLatchesAreThoseOfTheKeys(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	unknown := command.KeySpec{Begin: command.Begin{Unknown: true}, Find: command.Find{Unknown: true},
		Search: func(args [][]byte, visit func(int)) { visit(len(args) - 1) }}
	list := append([]*command.Command{
		{Name: "search", Arity: -2, Keys: []command.KeySpec{unknown}},
		{Name: "num", Arity: -2, Keys: command.KeyNum(1, command.RW)},
		{Name: "notkey", Arity: -2, Keys: command.OneKey(1, command.NotKey)},
		{Name: "word", Arity: -2, Keys: []command.KeySpec{{Begin: command.Begin{Keyword: "keys", From: 1}, Find: command.Find{Last: -1, Step: 1}}}},
	}, table().All()...)
	b := f.x.NewWaitingBatch()
	for _, cmd := range list {
		for _, line := range []string{"name", "name a", "name 2 b c d", "name a keys c d", "name a b c d e f"} {
			args := words(line)
			if !cmd.ArityOK(len(args)) {
				continue
			}
			want := make(map[uint32]bool)
			if !cmd.EachKey(args, func(i int, _ *command.KeySpec) { want[f.x.latches.Stripe(args[i])] = true }) {
				clear(want) // the handler will refuse them
			}
			write := *cmd
			write.Flags |= command.Write
			b.latchKeys(&Call{Cmd: &write, Args: args, Reply: &wire.Writer{}})
			got := make(map[uint32]bool)
			for _, i := range b.latch.Held() {
				got[i] = true
			}
			if fmt.Sprint(got) != fmt.Sprint(want) {
				t.Errorf("%s, %q: latches %v, want %v", cmd.Name, line, got, want)
			}
			b.latch.Release(0)
		}
	}
}

// A write without keys has no latches: it must run alone.
func TestWritesHaveKeysOrRunOnWorker(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	write := func(c *command.Ctx) error { storeString(c.Tx, []byte("k"), "v"); c.Reply.OK(); return nil }
	for _, keys := range [][]command.KeySpec{
		nil, command.OneKey(7, command.RW), command.KeyRange(1, 7, 1, command.RW), command.KeyNum(2, command.RW),
		append(command.OneKey(1, command.RW), command.KeyNum(2, command.RW)...),
	} {
		cmd := &command.Command{Name: "w", FullName: "w", Arity: -1, Flags: command.Write, Keys: keys, Run: write}
		c := f.client()
		c.runCmd(cmd, "k", "k")
		if _, s := c.commit(); !strings.Contains(s, "has no keys") {
			t.Errorf("%+v: %s", keys, s)
		}
		if _, _, s := f.workerCmd(cmd, 0, words("w k k")); !strings.Contains(s, "has no keys") {
			t.Errorf("%+v on a worker: %s", keys, s)
		}
	}
	f.want("nothing was stored", f.do("exists k"), "0")
	for _, c := range table().All() {
		if c.Run != nil && c.Flags&command.Write != 0 && c.Flags&command.Exclusive == 0 && len(c.Keys) == 0 {
			t.Errorf("%s writes and has no keys", c.FullName)
		}
		if c.Run != nil && c.Flags&command.Write != 0 && c.Flags&command.OneState != 0 {
			t.Errorf("%s writes on a snapshot", c.FullName)
		}
	}
}

func TestIdleTime(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.do("set k v")
	f = open(t, f.eng) // a restart forgets when the key was used
	f.now.Add(5000)
	f.want("since the start", f.do("object idletime k"), "5")
	f.want("used", f.do("get k"), "v")
	f.now.Add(3000)
	f.want("since then", f.do("object idletime k"), "3")
	f.worker(0, "mget k k") // a worker marks the key, and no other
	marked := 0
	for i := range uint32(latch.Stripes) {
		if f.x.latches.Used(i) != 0 {
			marked++
		}
	}
	equal(t, "marked", marked, 1)
	f.want("just now", f.do("object idletime k"), "0")
	c := f.client()
	f.now.Add(2000)
	c.tryCmd(table().Find(words("get k")), words("get k"))
	c.commit()
	f.now.Add(2000)
	c.call = Call{Cmd: table().Find(words("get k")), Args: words("get k"), Reply: &c.w, NoTouch: true}
	c.b.Run(&c.call)
	c.commit()
	f.want("not marked", f.do("object idletime k"), "2")
}

// Prefetching is a hint with bounds, and what it opens a commit closes.
func TestPrefetchIsBounded(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	b := f.x.NewBatch()
	args := words("mget")
	for i := range 10 * maxWanted {
		args = append(args, fmt.Append(nil, i))
	}
	cmd := table().Find(args)
	for range 3 {
		b.Prefetch(cmd, args, 1)
		b.Prefetch(table().Find(words("get k")), words("get k"), 0)
		b.Prefetch(table().Find(words("get k")), words("get"), 0) // not checked yet
		b.Prefetch(table().Find(words("dbsize")), words("dbsize"), 0)
	}
	equal(t, "rows", b.wanted.Len(), maxWanted)
	equal(t, "latches", len(b.wantedLatches), maxWanted)
	equal(t, "cold", b.Fetch(), 0)
	b.Prefetch(table().Find(words("get k")), words("get k"), 0) // begins anew
	equal(t, "rows", b.wanted.Len(), 1)
	equal(t, "latches", len(b.wantedLatches), 1)
	equal(t, "open", f.eng.began.Load(), 1)
	equal(t, "ticket", b.Commit(), 0)
	f.free()
}
