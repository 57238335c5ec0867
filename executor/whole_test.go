package executor

import (
	"runtime"
	"slices"
	"strings"
	"testing"

	"redoubt/command"
	"redoubt/keyspace"
	"redoubt/wire"
)

// A call that reads keys which it did not name sees one state of all of them: each
// write sets all weights to the same number, and SORT must never find two.
func TestUnnamedKeysAreOfOneState(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	rng := seeded(t)
	f.client().do("rpush list a b c d")
	f.client().do("mset w_a 0 w_b 0 w_c 0 w_d 0")
	f.actors(9, rng, func(i int, a *actor) {
		for n := range rounds(300) {
			if i < 6 {
				v := " " + strings.Repeat("x", 1+n%7)
				a.send("mset w_a" + v + " w_b" + v + " w_c" + v + " w_d" + v)
				continue
			}
			var reply string
			switch n % 3 {
			case 0:
				reply = a.send("sort_ro list by nosort get w_*")
			case 1:
				reply = a.send("sort list by nosort get w_*")
			default:
				a.send("sort list by w_* alpha get w_* store d" + string(rune('0'+i)))
				reply = a.send("lrange d" + string(rune('0'+i)) + " 0 -1")
			}
			parts := strings.Fields(strings.Trim(reply, "[]"))
			if len(parts) != 4 || len(slices.Compact(parts)) != 1 {
				t.Errorf("weights of two states: %q", reply)
				return
			}
		}
	})
}

// The same without luck: what others write between two reads of such a call is not
// seen by one that reads, and must wait for one that writes.
func TestOneStateOfUnnamedKeys(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.do("mset a 1 b 1")
	between := func() { f.do("mset a 2 b 2") }
	look := func(c *command.Ctx) error {
		if c.Tx.WantsOneState() {
			return nil
		}
		c.Reply.Bulk(append([]byte{}, c.Tx.Find([]byte("a")).Body...))
		between()
		c.Reply.Bulk(append([]byte{}, c.Tx.Find([]byte("b")).Body...))
		return nil
	}
	_, _, s := f.workerCmd(custom("look", command.ReadOnly, look), 0, words("look k"))
	f.want("a read", s, "1 1")
	between = func() {
		if f.x.latches.TryShare() {
			f.x.latches.Unshare()
			t.Error("others may write between two reads of a write")
		}
	}
	_, _, s = f.workerCmd(custom("take", command.Write, look), 0, words("take k"))
	f.want("a write", s, "2 2")
	f.free()
}

// SORT says so when it is going to read such keys, and only then.
func TestSortNamesItsNeed(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.client().do("rpush list 2 1")
	for line, whole := range map[string]bool{
		"sort list": false, "sort_ro list": false, "sort list store d": false, "sort list by nosort get #": false, "sort_ro list get const": false,
		"sort list by w_*": true, "sort_ro list by w_*": true, "sort_ro list by h_*->f": true, "sort list get w_* store d": true,
		"sort_ro list get # get w_*": true, "sort list by nosort get w_*": true, "sort list by w_* by nosort": false,
	} {
		c := f.client()
		if took := c.try(line); took == whole || (c.call.Detour == keyspace.NeedsOneState) != whole {
			t.Errorf("%q: the loop took it: %v, it needs all keys: %v", line, took, c.call.Detour == keyspace.NeedsOneState)
		}
		c.b.Commit()
	}
}

// A call of a command that may write is a read if it says so: it needs no latch of
// its own, and cannot write.
func TestReadsOnly(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.client().do("set k v")
	var writable, oneState bool
	cmd := &command.Command{
		Name: "maybe", FullName: "maybe", Arity: -2, Flags: command.Write, Keys: command.OneKey(1, command.RW),
		ReadsOnly: func(args [][]byte) bool { return len(args) == 2 },
		Run: func(c *command.Ctx) error {
			if len(c.Args) > 2 && c.Tx.WantsOneState() {
				return nil
			}
			m := c.Tx.Find(c.Args[1])
			writable, oneState = c.Tx.Writable, c.Tx.OneState
			if string(m.Body) != "v" {
				t.Errorf("found %q", m.Body)
			}
			c.Tx.Store(c.Args[1], m, keyspace.Meta{Type: keyspace.String, Encoding: keyspace.Raw, Body: []byte("v")})
			c.Reply.OK()
			return nil
		},
	}
	a := &actor{client: f.client()}
	if reply, _ := a.reply(cmd, "maybe k"); writable || !strings.Contains(reply, "not flagged as a write") {
		t.Errorf("a call that only reads could write: %q", reply)
	}
	if reply, _ := a.reply(cmd, "maybe k all"); !writable || !oneState || reply != "OK" {
		t.Errorf("writable %v, one state %v: %q", writable, oneState, reply)
	}
	cmd.ReadsOnly = func([][]byte) bool { return true }
	if reply, _ := a.reply(cmd, "maybe k all"); writable || !oneState || !strings.Contains(reply, "not flagged as a write") {
		t.Errorf("writable %v, one state %v: %q", writable, oneState, reply)
	}
}

// A call that takes long gives way to one that needs the whole keyspace, and is run
// again from its start.
func TestLongCallsGiveWay(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.do("set k 1")
	space := f.x.Space()
	begun, runs := make(chan struct{}), 0
	long := &command.Command{Name: "long", Arity: 1, Flags: command.Write | command.OnWorker, Run: func(c *command.Ctx) error {
		space.Scripts.Add(1)
		defer space.Scripts.Add(-1)
		if runs++; runs == 1 {
			close(begun)
			for space.Wanted.Load() == 0 {
				runtime.Gosched()
			}
			c.Tx.Fail(keyspace.GivesWay)
			return c.Tx.Err()
		}
		c.Reply.Int(c.Tx.Size())
		return nil
	}}
	done := make(chan string)
	go func() {
		call := &Call{Cmd: long, Args: [][]byte{[]byte("long")}, Reply: &wire.Writer{Proto: 2}}
		f.x.RunOnWorker(call)
		done <- string(call.Reply.Buf)
	}()
	<-begun
	f.do("flushall")
	if reply := <-done; reply != ":0\r\n" || runs != 2 {
		t.Errorf("%q after %d runs", reply, runs)
	}
}
