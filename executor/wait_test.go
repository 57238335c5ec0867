package executor

import (
	"bytes"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"redoubt/command"
	"redoubt/engine"
	"redoubt/keyspace"
	"redoubt/wire"
)

// Lists that are simple enough for a test: elements of one byte in the meta row.

func listOf(tx *keyspace.Tx, key []byte) (keyspace.Meta, error) {
	m := tx.Find(key)
	if m.Exists() && m.Type != keyspace.List {
		return m, command.ErrWrongType
	}
	return m, nil
}

func saveList(tx *keyspace.Tx, key []byte, old keyspace.Meta, body []byte) {
	if len(body) == 0 {
		tx.Remove(key, old)
	} else {
		tx.Store(key, old, keyspace.Meta{Type: keyspace.List, Body: bytes.Clone(body)})
	}
}

// push key elements: appends, and then fails if an element is "!".
var push = custom("push", command.Write, func(c *command.Ctx) error {
	m, err := listOf(c.Tx, c.Args[1])
	if err != nil {
		return err
	}
	saveList(c.Tx, c.Args[1], m, append(bytes.Clone(m.Body), c.Args[2]...))
	if bytes.Contains(c.Args[2], []byte("!")) {
		return errInjected
	}
	c.Reply.OK()
	return nil
})

// bpop key...: takes the first element of the first key that has one.
var bpop = &command.Command{
	Name: "bpop", FullName: "bpop", Flags: command.Write | command.Blocking, Keys: command.KeyRange(1, -1, 1, command.RW),
	Run: func(c *command.Ctx) error {
		for _, key := range c.Args[1:] {
			m, err := listOf(c.Tx, key)
			if err != nil {
				return err
			}
			if m.Exists() {
				c.Reply.Bulk(m.Body[:1])
				saveList(c.Tx, key, m, m.Body[1:])
				return nil
			}
		}
		return &command.Block{Type: keyspace.List, Keys: c.Args[1:]}
	},
}

// bmove from to: moves the first element.
var bmove = &command.Command{
	Name: "bmove", FullName: "bmove", Flags: command.Write | command.Blocking, Keys: command.KeyRange(1, -1, 1, command.RW),
	Run: func(c *command.Ctx) error {
		m, err := listOf(c.Tx, c.Args[1])
		if err != nil {
			return err
		}
		if !m.Exists() {
			return &command.Block{Type: keyspace.List, Keys: c.Args[1:2]}
		}
		to, err := listOf(c.Tx, c.Args[2])
		if err != nil {
			return err
		}
		c.Reply.Bulk(m.Body[:1])
		saveList(c.Tx, c.Args[2], to, append(bytes.Clone(to.Body), m.Body[0]))
		saveList(c.Tx, c.Args[1], m, m.Body[1:])
		return nil
	},
}

// waiter runs a command that must wait, in a turn of its own.
type waiter struct {
	*Waiter
	replies atomic.Int32
}

func (f *fixture) waiter(cmd *command.Command, db int, line string) *waiter {
	f.t.Helper()
	w := &waiter{}
	c := f.client()
	c.call = Call{Cmd: cmd, Args: words(line), DB: db, Reply: &c.w}
	c.call.OnBlock = func(b *command.Block) *Waiter {
		w.Waiter = f.x.NewWaiter(c.call, b, 2, func(*Waiter) { w.replies.Add(1) })
		return w.Waiter
	}
	if c.b.Run(&c.call) != 0 || !c.call.Blocked || w.Waiter == nil {
		f.t.Fatalf("%s does not wait: %s", line, short(c.w.Buf))
	}
	c.b.Commit()
	return w
}

// got is the reply, "" while there is none.
func (w *waiter) got() string {
	if w.replies.Load() != 1 {
		return ""
	}
	return short(w.Reply())
}

func (f *fixture) nobodyWaits() {
	f.t.Helper()
	if clients, keys := f.x.Waiting(); clients != 0 || keys != 0 {
		f.t.Errorf("%d clients wait at %d keys", clients, keys)
	}
}

func TestWaitersAreServedInOrder(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	first, second, third := f.waiter(bpop, 0, "bpop a b"), f.waiter(bpop, 0, "bpop b a"), f.waiter(bpop, 0, "bpop a")
	c := f.client()
	c.runCmd(push, "a", "xy")
	c.run("type a") // before anybody else sees the key
	c.runCmd(push, "c", "z")
	if first.got() != "" {
		t.Error("a reply before the commit")
	}
	_, s := c.commit()
	f.want("replies", s, "OK none OK")
	f.want("first", first.got(), "x")
	f.want("second", second.got(), "y")
	f.want("third", third.got(), "")
	f.want("another database", f.doCmd(push, 1, "push a 1"), "OK")
	f.want("third", third.got(), "")
	f.want("push", f.doCmd(push, 0, "push a 12"), "OK")
	f.want("third", third.got(), "1")
	f.nobodyWaits()
	f.free()
}

func (f *fixture) doCmd(cmd *command.Command, db int, line string) string {
	f.t.Helper()
	c := f.client()
	c.db = db
	if !c.tryCmd(cmd, words(line)) {
		f.t.Errorf("%s was left to a worker", line)
	}
	_, s := c.commit()
	return s
}

func TestWaitersThatFeedOthers(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	last := f.waiter(bpop, 0, "bpop c")
	middle := f.waiter(bmove, 0, "bmove b c")
	start := f.waiter(bmove, 0, "bmove a b")
	f.want("push", f.doCmd(push, 0, "push a x"), "OK")
	for _, w := range []*waiter{start, middle, last} {
		f.want("chain", w.got(), "x")
	}
	f.want("keys", f.do("exists a b c"), "0")
	f.nobodyWaits()

	// A circle ends when its waiters are served.
	one, two := f.waiter(bmove, 0, "bmove a b"), f.waiter(bmove, 0, "bmove b a")
	f.doCmd(push, 0, "push a x")
	f.want("circle", one.got()+two.got(), "xx")
	f.want("the element", f.do("exists a"), "1")
	f.free()
}

func TestWaitersAndTypes(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	w := f.waiter(bpop, 0, "bpop a")
	f.do("set a 1")
	f.want("a string", w.got(), "")
	f.do("del a")
	f.doCmd(push, 0, "push other x")
	f.do("rename other a")
	f.want("by rename", w.got(), "x")

	w = f.waiter(bpop, 0, "bpop a")
	f.doCmd(push, 1, "push a y")
	f.do("swapdb 0 1")
	f.want("by swapdb", w.got(), "y")

	w = f.waiter(bmove, 0, "bmove a b")
	f.do("set b 1")
	f.doCmd(push, 0, "push a z")
	f.want("an error", w.got(), "!"+string(command.ErrWrongType))
	f.want("nothing was taken", f.doCmd(bpop, 0, "bpop a"), "z")
	f.nobodyWaits()
	f.free()
}

func TestWaitersAndFailure(t *testing.T) {
	t.Parallel()
	f := newDurable(t)
	w := f.waiter(bpop, 0, "bpop a")
	f.want("push", f.doCmd(push, 0, "push a !"), "!ERR injected")
	f.want("after a command that failed", w.got(), "")
	if !w.End(nil) || w.got() != "(nil)" && w.got() != "[]" {
		t.Errorf("ended: %q", w.got())
	}
	equal(t, "ended again", w.End(errors.New("late")), false)
	f.nobodyWaits()

	w = f.waiter(bpop, 0, "bpop a")
	equal(t, "ended", w.End(command.Error("UNBLOCKED by somebody")), true)
	f.want("error", w.got(), "!UNBLOCKED by somebody")
	w = f.waiter(bpop, 0, "bpop a a b")
	w.Cancel()
	f.doCmd(push, 0, "push a x")
	f.want("canceled", w.got(), "")
	f.nobodyWaits()
	f.want("not taken", f.do("exists a"), "1")

	// A waiter's reply waits for the commit that served it.
	w = f.waiter(bpop, 0, "bpop b")
	f.doCmd(push, 0, "push b x")
	equal(t, "ticket", w.Ticket, f.eng.Committed())
	w = f.waiter(bpop, 0, "bpop b")
	f.eng.failIn.Store(1)
	f.doCmd(push, 0, "push b x")
	if w.got() == "x" || w.got() == "" {
		t.Errorf("the commit failed, and the waiter got %q", w.got())
	}
	f.free()
}

// A waiter whose other key is latched by another batch is served when it is free.
func TestWaitersBehindLatches(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	w := f.waiter(bpop, 0, "bpop a b")
	holder := f.client()
	holder.run("set b 1")
	holder.run("del b")
	f.want("push", f.doCmd(push, 0, "push a x"), "OK")
	f.want("behind a latch", w.got(), "")
	holder.commit()
	for deadline := time.Now().Add(20 * time.Second); w.got() == ""; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("it was never served")
		}
	}
	f.want("served", w.got(), "x")
	f.nobodyWaits()
}

// A waiter that wants to know is run again when its key is gone, also behind one that
// does not.
func TestWaitersAtAKeyThatIsGone(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	// tell key: reports whether the key is there, once it is not.
	tell := custom("tell", command.Write|command.Blocking, func(c *command.Ctx) error {
		if c.Tx.Find(c.Args[1]).Exists() {
			return &command.Block{Type: keyspace.Stream, Keys: c.Args[1:2], Gone: true}
		}
		c.Reply.Bulk([]byte("gone"))
		return nil
	})
	// stream key: makes a stream there.
	stream := custom("stream", command.Write, func(c *command.Ctx) error {
		c.Tx.Store(c.Args[1], c.Tx.Find(c.Args[1]), keyspace.Meta{Type: keyspace.Stream, Encoding: keyspace.Packed})
		c.Reply.OK()
		return nil
	})
	for _, remove := range []string{"del s", "flushall", "set s x", "rename s other"} {
		other := f.waiter(bpop, 0, "bpop s")
		f.doCmd(stream, 0, "stream s")
		w := f.waiter(tell, 0, "tell s")
		if f.x.WaitingGone() != 1 {
			t.Errorf("%d keys", f.x.WaitingGone())
		}
		f.do(remove)
		want := "gone"
		if remove == "set s x" {
			want = "" // the key is there
			w.Cancel()
		}
		f.want(remove, w.got(), want)
		f.want("who waits for an element", other.got(), "")
		other.Cancel()
		f.do("del s other")
		f.nobodyWaits()
		equal(t, "keys", f.x.WaitingGone(), 0)
	}
	f.free()
}

// What a handler did before it waits is undone, unless it says that it stays.
func TestWaitersThatKeepSomething(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	for _, keep := range []bool{false, true} {
		runs := 0
		cmd := custom("note", command.Write|command.Blocking, func(c *command.Ctx) error {
			runs++
			storeString(c.Tx, c.Args[2], fmt.Sprint(runs))
			if m, _ := listOf(c.Tx, c.Args[1]); m.Exists() {
				c.Reply.OK()
				return nil
			}
			return &command.Block{Type: keyspace.List, Keys: c.Args[1:2], Keep: keep}
		})
		cmd.Keys = command.KeyRange(1, -1, 1, command.RW)
		w := f.waiter(cmd, 0, "note q n")
		want := map[bool]string{true: "1", false: "(nil)"}[keep]
		f.want("while it waits", f.do("get n"), want)
		f.doCmd(push, 0, "push other x")
		f.do("swapdb 0 0")
		f.want("nothing came", f.do("get n"), want)
		f.doCmd(push, 0, "push q x")
		f.want("served", w.got(), "OK")
		f.want("afterwards", f.do("get n"), fmt.Sprint(runs))
		f.do("del q n other")
	}
	f.nobodyWaits()
	f.free()
}

// Many batches push and pop at once: each element comes to one client, once.
func TestWaitersTogether(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	const keys, clients = 4, 8
	each := rounds(200)
	var got [256]atomic.Int64
	var all, pushers sync.WaitGroup
	pop := func(rng int) {
		c := f.client()
		for i := range each {
			line := "bpop"
			for k := range keys {
				line += fmt.Sprintf(" k%d", (rng+i+k)%keys)
			}
			done := make(chan string, 1)
			call := Call{Cmd: bpop, Args: words(line), Reply: &c.w}
			call.OnBlock = func(b *command.Block) *Waiter {
				own := call
				own.Args = words(line)
				return f.x.NewWaiter(own, b, 2, func(w *Waiter) { done <- short(w.Reply()) })
			}
			if c.b.Run(&call) != 0 {
				c.b.Commit()
				f.x.RunOnWorker(&call)
			}
			c.b.Commit()
			s := c.take()
			if call.Blocked {
				select {
				case s = <-done:
				case <-time.After(30 * time.Second):
					t.Errorf("%s waits for ever", line)
					return
				}
			}
			got[s[0]].Add(1)
		}
	}
	for i := range clients {
		all.Go(func() { pop(i) })
		pushers.Go(func() {
			c := f.client()
			for k := range each {
				line := fmt.Sprintf("push k%d %c", (i+k*7)%keys, 'a'+byte(k%26))
				if !c.tryCmd(push, words(line)) {
					c.b.Commit()
					f.workerCmd(push, 0, words(line))
				}
				if k%3 == 0 {
					c.commit()
				}
			}
			c.commit()
		})
	}
	pushers.Wait()
	all.Wait()
	total := int64(0)
	for i := range got {
		total += got[i].Load()
	}
	equal(t, "elements", total, int64(clients*each))
	for k := range 26 {
		want := int64(0)
		for i := range each {
			if i%26 == k {
				want += clients
			}
		}
		equal(t, string(rune('a'+k)), got['a'+k].Load(), want)
	}
	f.nobodyWaits()
}

// A large read is run on a state of its own, and its reply goes out in parts.
func TestSink(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.do("set k v")
	cmd := custom("large", command.ReadOnly, func(c *command.Ctx) error {
		if c.Tx.Heavy(1 << 30) {
			return nil
		}
		c.Reply.Array(100)
		for range 100 {
			f.do("set k w") // nobody holds its latch
			c.Reply.Bulk(append(make([]byte, 10_000), c.Tx.Find(c.Args[1]).Body...))
			if !c.Spill() {
				return nil
			}
		}
		return nil
	})
	c := f.client()
	equal(t, "on a loop", c.tryCmd(cmd, words("large k")), false)
	equal(t, "detour", c.call.Detour, keyspace.TakesLong)
	c.b.Commit()
	var parts, most, n int
	c.call.Sink = func(w *wire.Writer) error {
		if !f.x.latches.TryLockKeyspace() {
			t.Error("the keyspace is latched while the client reads")
		} else {
			f.x.latches.UnlockKeyspace(0)
		}
		parts, most = parts+1, max(most, len(w.Buf))
		n += bytes.Count(w.Buf, []byte("\x00v\r\n"))
		w.Buf = w.Buf[:0]
		return nil
	}
	var t0 engine.Ticket = f.x.RunOnWorker(&c.call)
	n += bytes.Count(c.w.Buf, []byte("\x00v\r\n"))
	if c.call.Failed || !c.call.Streamed || parts < 10 || most > 80_000 || n != 100 || t0 == 0 {
		t.Errorf("%d parts, the largest of %d bytes, %d elements: %+v", parts, most, n, c.call)
	}
	c.w.Buf = nil
	c.call.Sink = func(*wire.Writer) error { return errInjected }
	f.x.RunOnWorker(&c.call)
	equal(t, "failed", c.call.Failed && c.call.Streamed, true)
	f.free()
}
