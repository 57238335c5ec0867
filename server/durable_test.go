package server_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"redoubt/engine"
	"redoubt/engine/mem"
)

// disk is an engine whose commits become durable when the test says, and fail
// when it says so.
type disk struct {
	engine.Engine
	holding atomic.Bool
	commits atomic.Int64

	mu      sync.Mutex
	durable engine.Ticket
	err     error
	refuse  error         // what the next commit fails with
	gate    chan struct{} // if set, snapshots wait for it
	waiting chan struct{} // gets a value when one waits
	tell    func()
}

func newDisk() *disk { return &disk{Engine: mem.New(), waiting: make(chan struct{}, 100)} }

func (d *disk) Capabilities() engine.Capabilities { return engine.Capabilities{Durable: true} }
func (d *disk) OnDurable(f func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.tell = f
}

func (d *disk) Durable() engine.Ticket {
	if !d.holding.Load() {
		return d.Committed()
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.durable
}

func (d *disk) Err() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.err
}

// hold makes nothing durable that is committed from now on.
func (d *disk) hold() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.durable = d.Committed()
	d.holding.Store(true)
}

// sync makes everything durable that is committed now.
func (d *disk) sync() { d.change(func() { d.durable = d.Committed() }) }

// fail breaks the disk for good.
func (d *disk) fail() {
	d.change(func() { d.err = fmt.Errorf("%w: the disk is gone", engine.ErrReadOnly) })
}

func (d *disk) change(f func()) {
	d.mu.Lock()
	f()
	tell := d.tell
	d.mu.Unlock()
	if tell != nil {
		tell()
	}
}

// refuseNext has the next commit fail.
func (d *disk) refuseNext(err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.refuse = err
}

func (d *disk) Begin(o engine.ViewOptions) (engine.View, error) {
	v, err := d.Engine.Begin(o)
	return diskView{v, d}, err
}

type diskView struct {
	engine.View
	d *disk
}

func (v diskView) Commit(b *engine.Batch) (engine.Ticket, error) {
	d := v.d
	d.mu.Lock()
	err := d.refuse
	if d.refuse = nil; d.err != nil {
		err = d.err
	}
	d.mu.Unlock()
	if err != nil {
		return 0, err
	}
	t, err := v.View.Commit(b)
	d.commits.Add(1)
	return t, err
}

// block has snapshots, which KEYS takes, wait until the gate is opened.
func (d *disk) block() (open func()) {
	gate := make(chan struct{})
	d.mu.Lock()
	defer d.mu.Unlock()
	d.gate = gate
	return sync.OnceFunc(func() {
		d.mu.Lock()
		d.gate = nil
		d.mu.Unlock()
		close(gate)
	})
}

func (d *disk) Snapshot() (engine.Snapshot, error) {
	d.mu.Lock()
	gate := d.gate
	d.mu.Unlock()
	if gate != nil {
		d.waiting <- struct{}{}
		<-gate
	}
	return d.Engine.Snapshot()
}

// ran waits until a client's last command was run: no more input of it is left,
// and the turn in which that happened is over.
func (c *client) ran(id, cmd string) {
	c.t.Helper()
	until(c.t, "the other client's "+cmd+" is run", func() bool { return c.field(id, "cmd") == cmd })
	if got := c.do("PING"); got != "PONG" {
		c.t.Fatal(got)
	}
}

// A reply waits until what it tells is safe: that of the writer, and that of a
// reader who saw the write. Others do not wait.
func TestRepliesWaitForDurability(t *testing.T) {
	carriers(t, func(t *testing.T, pipes bool) {
		d := newDisk()
		f := startOn(t, d, pipes)
		writer, reader, counter, admin := f.dial(), f.dial(), f.dial(), f.dial()
		admin.do("SET", "other", "1")
		ids := map[*client]string{writer: writer.id(), reader: reader.id(), counter: counter.id()}
		d.hold()
		writer.send("SET", "k", "v")
		admin.ran(ids[writer], "set")
		reader.send("GET", "k")
		admin.ran(ids[reader], "get")
		counter.send("DBSIZE") // it counts what is not safe yet
		admin.ran(ids[counter], "dbsize")
		for range 3 {
			for _, words := range [][]string{{"PING"}, {"GET", "other"}, {"EXISTS", "nosuch"}, {"CLIENT", "LIST"}} {
				if got := admin.do(words...); strings.HasPrefix(got, "(error)") {
					t.Error(got)
				}
			}
		}
		if !writer.silent() || !reader.silent() || !counter.silent() {
			t.Error("a reply did not wait")
		}
		d.sync()
		writer.want("OK")
		reader.want(`"v"`)
		counter.want("(integer) 2")
	})
}

// What follows a reply that waits comes behind it, also from a worker.
func TestHeldRepliesKeepTheirOrder(t *testing.T) {
	carriers(t, func(t *testing.T, pipes bool) {
		d := newDisk()
		f := startOn(t, d, pipes)
		c, admin := f.dial(), f.dial()
		id := c.id()
		d.hold()
		c.send("SET", "a", "1")
		admin.ran(id, "set")
		c.send("PING")
		admin.ran(id, "ping")
		c.raw(frame("ECHO", "x") + frame("KEYS", "*") + frame("NOSUCH") + frame("GET", "a") + frame("SET", "b", "2") + frame("TTL", "a"))
		admin.ran(id, "ttl")
		if !c.silent() {
			t.Error("a reply overtook another")
		}
		d.sync()
		c.want("OK", "PONG", `"x"`, `1) "a"`, `(error) "ERR unknown command 'NOSUCH', with args beginning with: "`, `"1"`, "OK", "(integer) -1")
	})
}

// Turn by turn: what is safe is sent, although later replies wait.
func TestRepliesAreReleasedOneByOne(t *testing.T) {
	carriers(t, func(t *testing.T, pipes bool) {
		d := newDisk()
		f := startOn(t, d, pipes)
		c, admin := f.dial(), f.dial()
		id := c.id()
		d.hold()
		c.send("SET", "a", "1")
		admin.ran(id, "set")
		first := d.Committed()
		c.send("DEL", "a")
		admin.ran(id, "del")
		d.change(func() { d.durable = first })
		c.want("OK")
		if !c.silent() {
			t.Error("the second reply did not wait")
		}
		d.sync()
		c.want("(integer) 1")
	})
}

// When the store fails, every reply that waits becomes an error, one for each
// command, and what is said afterwards is in step again.
func TestFailedStoreSpoilsHeldReplies(t *testing.T) {
	carriers(t, func(t *testing.T, pipes bool) {
		d := newDisk()
		f := startOn(t, d, pipes)
		c, reader, quiet, admin := f.dial(), f.dial(), f.dial(), f.dial()
		id, readerID, quietID := c.id(), reader.id(), quiet.id()
		d.hold()
		c.raw(frame("SET", "a", "1") + frame("KEYS", "*") + frame("GET", "a") + frame("PING"))
		c.send("ECHO", "x")
		admin.ran(id, "echo")
		reader.raw(frame("GET", "nosuch") + frame("GET", "a"))
		admin.ran(readerID, "get")
		quiet.raw(frame("CLIENT", "REPLY", "SKIP") + frame("SET", "b", "1") + frame("SET", "c", "1") + frame("CLIENT", "REPLY", "OFF") + frame("STRLEN", "b"))
		admin.ran(quietID, "strlen")
		if !c.silent() || !reader.silent() || !quiet.silent() {
			t.Fatal("a reply did not wait")
		}
		d.fail()
		const lost = "(error) MISCONF store refuses writes: the disk is gone"
		c.want(lost, lost, lost, lost, lost)
		reader.want(lost, lost)
		quiet.want(lost)
		if got := c.do("PING"); got != "PONG" {
			t.Error(got)
		}
		if got := c.do("SET", "a", "2"); !strings.HasPrefix(got, "(error) MISCONF") {
			t.Error(got)
		}
		if got := quiet.do("CLIENT", "REPLY", "ON"); got != "OK" {
			t.Error(got)
		}
	})
}

// A commit that fails turns the replies of its batch into errors, and no other:
// neither those that the batch did not give, nor those of the next batch.
func TestFailedCommitSpoilsItsBatch(t *testing.T) {
	carriers(t, func(t *testing.T, pipes bool) {
		d := newDisk()
		f := startOn(t, d, pipes)
		c := f.dial()
		c.do("SET", "before", "1")
		d.refuseNext(errors.New("no luck"))
		c.raw(frame("PING") + frame("SET", "a", "1") + frame("NOSUCH") + frame("INCR", "n") + frame("GET", "before") +
			frame("ECHO", "x") + frame("CLIENT", "GETNAME") + frame("GET"))
		const lost = "(error) ERR commit: no luck"
		c.want("PONG", lost, `(error) "ERR unknown command 'NOSUCH', with args beginning with: "`, lost, lost, `"x"`, "(nil)",
			"(error) ERR wrong number of arguments for 'get' command")
		c.raw(frame("GET", "before") + frame("INCR", "n") + frame("EXISTS", "a"))
		c.want(`"1"`, "(integer) 1", "(integer) 0")
	})
}

// Shutdown lets running commands end and their replies be sent, and takes no
// new ones.
func TestShutdownFinishesWhatRuns(t *testing.T) {
	carriers(t, func(t *testing.T, pipes bool) {
		d := newDisk()
		f := startOn(t, d, pipes)
		c, late := f.dial(), f.dial()
		c.do("SET", "k", "v")
		open := d.block()
		defer open()
		c.raw(frame("KEYS", "*") + frame("SET", "behind", "1"))
		<-d.waiting
		before := d.commits.Load()
		done := make(chan struct{})
		go func() {
			defer close(done)
			f.stop()
		}()
		f.refusing()
		late.raw(frame("SET", "late", "1"))
		open()
		c.want(`1) "k"`, "(closed)")
		late.want("(closed)")
		<-done
		if d.commits.Load() != before {
			t.Error("a command was run that came too late")
		}
	})
}

// Replies that wait for durability are waited for, and not sent without it.
func TestShutdownWaitsForDurability(t *testing.T) {
	carriers(t, func(t *testing.T, pipes bool) {
		d := newDisk()
		f := startOn(t, d, pipes)
		c, worker, admin := f.dial(), f.dial(), f.dial()
		id := c.id()
		d.hold()
		c.raw(frame("SET", "k", "v") + frame("PING"))
		admin.ran(id, "ping")
		open := d.block()
		defer open()
		worker.send("KEYS", "*")
		<-d.waiting
		done := make(chan struct{})
		go func() {
			defer close(done)
			f.stop()
		}()
		f.refusing()
		open()
		f.patience()
		if !c.silent() || !worker.silent() {
			t.Error("a reply did not wait")
		}
		d.sync()
		c.want("OK", "PONG", "(closed)")
		worker.want(`1) "k"`, "(closed)")
		<-done
	})
}

func TestShutdownGivesUp(t *testing.T) {
	carriers(t, func(t *testing.T, pipes bool) {
		d := newDisk()
		f := startOn(t, d, pipes)
		c, admin := f.dial(), f.dial()
		id := c.id()
		d.hold()
		c.send("SET", "k", "v")
		admin.ran(id, "set")
		ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
		defer cancel()
		if err := f.Shutdown(ctx); err != nil {
			t.Error(err)
		}
		c.want("(closed)")
	})
}
