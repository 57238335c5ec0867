package replicated

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"redoubt/engine/local"
	"redoubt/internal/respclient"
	"redoubt/journal"
)

// disk returns a file system of a node that has nothing yet.
func disk(t testing.TB) *vfs.MemFS {
	mem := vfs.NewCrashableMem()
	must(t, local.JournalFiles(mem).MkdirAll("/data"))
	must(t, local.JournalFiles(mem).SyncDir("/"))
	return mem
}

// write has the leader take writes of so many bytes each.
func (c *cluster) write(from, n, bytes int) {
	c.t.Helper()
	rng := rand.New(rand.NewPCG(uint64(from), uint64(bytes)))
	text := make([]byte, bytes) // which is not compressed to nothing
	for i := range text {
		text[i] = byte('a' + rng.IntN(26))
	}
	value := " " + string(text)
	for i := from; i < from+n; i++ {
		for end := time.Now().Add(30 * time.Second); ; {
			cl := c.leader().client()
			if cl != nil {
				v, err := cl.Do("SET", fmt.Sprint("n", i), fmt.Sprint(i)+value)
				cl.Close()
				if err == nil && !v.IsError() {
					break
				}
			}
			if time.Now().After(end) {
				c.t.Fatal("no node takes a write")
			}
		}
	}
}

// await waits until a condition holds.
func (c *cluster) await(what string, holds func() bool) {
	c.t.Helper()
	for end := time.Now().Add(15 * time.Second); !holds(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			c.t.Fatalf("never: %s", what)
		}
	}
}

// whole reports whether the node takes part as all others do, and has what they have.
func (x *node) whole() bool {
	commit := x.c.leader().member.Node().Status().Commit
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.srv == nil {
		return false
	}
	s := x.member.Node().Status()
	return !s.Returning && s.Role.Leader != 0 && s.Applied >= commit && x.member.Node().Err() == nil
}

// follower returns a node that does not lead.
func (c *cluster) follower() *node {
	leader := c.leader()
	return c.nodes[(leader.no+1)%len(c.nodes)]
}

// check has a returned node and one other one serve everything: the third is gone.
func (c *cluster) check(x *node, n int) {
	c.t.Helper()
	c.await("the node is whole", x.whole)
	gone := c.nodes[(x.no+1)%len(c.nodes)]
	gone.stop()
	for i := range n {
		var v respclient.Value
		c.await(fmt.Sprintf("an answer to read %d", i), func() bool { // there may be another leader since the last one
			cl := c.leader().client()
			if cl == nil {
				return false
			}
			defer cl.Close()
			var err error
			v, err = cl.Do("GET", fmt.Sprint("n", i))
			return err == nil && !v.IsError()
		})
		if !strings.HasPrefix(v.Str, fmt.Sprintf("%d ", i)) {
			c.t.Fatalf("write %d of %d: %.20q", i, n, v.Str)
		}
	}
}

func TestNodeReturns(t *testing.T) {
	t.Parallel()
	const small = 40
	for name, c := range map[string]struct {
		retain int64
		harm   func(c *cluster, x *node)
	}{
		"it was wiped": {0, func(c *cluster, x *node) {
			x.kill(false)
			x.mem = disk(c.t)
		}},
		"power was cut": {0, func(_ *cluster, x *node) {
			x.kill(true)
			x.boot++
		}},
		"the log was damaged": {0, func(c *cluster, x *node) {
			x.kill(false)
			damage(c.t, x.mem)
		}},
		"it was away for long": {64 << 10, func(c *cluster, x *node) {
			x.stop()
			c.write(small, 60, 20<<10)
		}},
		"it was wiped, and the logs are short": {64 << 10, func(c *cluster, x *node) {
			x.kill(false)
			c.write(small, 60, 20<<10)
			x.mem = disk(c.t)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cl := newCluster(t, 3, journal.EverySec, rand.New(rand.NewPCG(1, 1)))
			for _, x := range cl.nodes { // started again with the log that is kept
				if cl.retain = c.retain; c.retain > 0 {
					x.stop()
					x.start()
				}
			}
			cl.write(0, small, 100)
			x := cl.follower()
			c.harm(cl, x)
			x.start()
			n := small
			if c.retain > 0 {
				n += 60
			}
			cl.check(x, n)
			if _, err := x.mem.Stat("/data/local.incoming"); err == nil {
				t.Error("files of the snapshot were left")
			}
		})
	}
}

// damage changes a byte in the middle of the longest file of the journal.
func damage(t testing.TB, mem *vfs.MemFS) {
	const dir = "/data/local/journal/"
	names, err := mem.List(dir)
	must(t, err)
	var name string
	var size int64
	for _, n := range names {
		info, err := mem.Stat(dir + n)
		must(t, err)
		if strings.HasSuffix(n, ".jnl") && info.Size() > size {
			name, size = n, info.Size()
		}
	}
	f, err := local.JournalFiles(mem).OpenForWrite(dir + name)
	must(t, err)
	at := min(600, size/2)
	b := make([]byte, 1)
	_, err = f.ReadAt(b, at)
	must(t, err)
	_, err = f.WriteAt([]byte{b[0] ^ 1}, at)
	must(t, err)
	must(t, f.Close())
}

// Whoever gives or takes a snapshot is killed in the middle of it, again and again.
func TestKilledInSnapshot(t *testing.T) {
	t.Parallel()
	rng := seeded(t)
	c := newCluster(t, 3, journal.EverySec, rng)
	for _, x := range c.nodes {
		c.retain, c.rate = 64<<10, 512<<10
		x.stop()
		x.start()
	}
	const n = 60
	c.write(0, n, 20<<10)
	x := c.follower()
	x.kill(false)
	c.write(0, n, 20<<10)
	x.mem = disk(t)
	have := int64(0)
	for round := range 3 {
		ctx, cancel := context.WithTimeout(context.Background(), 60*time.Second)
		started := make(chan error, 1)
		go func() { started <- x.startWithin(ctx) }()
		c.await("more of the snapshot is there", func() bool {
			now := sizes(x.mem, "/data/local.incoming/store")
			grown := now != have && now > 0
			have = now
			return grown
		})
		if round == 0 || round == 2 && rng.IntN(2) == 0 {
			giver := c.leader()
			giver.kill(false)
			giver.start()
		}
		cancel()
		if err := <-started; !errors.Is(err, context.Canceled) {
			t.Errorf("it was not ended in the middle: %v", err)
		}
		x.mem = x.mem.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: 100, RNG: rng})
	}
	x.start()
	c.check(x, n)
}

// sizes returns how many bytes the files of a directory have.
func sizes(mem *vfs.MemFS, dir string) (sum int64) {
	names, _ := mem.List(dir)
	for _, n := range names {
		if info, err := mem.Stat(dir + "/" + n); err == nil {
			sum += info.Size()
		}
	}
	return sum
}

// A node of another cluster, and the old files of a node that was replaced, harm nobody.
func TestOldFilesAreRefused(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3, journal.EverySec, rand.New(rand.NewPCG(1, 1)))
	other := newCluster(t, 3, journal.EverySec, rand.New(rand.NewPCG(1, 1)))
	c.write(0, 10, 10)
	x, y := c.follower(), other.follower()
	y.kill(false)
	x.kill(false)
	old := x.mem
	x.mem = disk(t)
	x.start()
	c.await("the new node is whole", x.whole)
	c.write(0, 10, 20)
	x.kill(false)
	fresh := x.mem
	for name, mem := range map[string]*vfs.MemFS{"the old files": old, "those of another cluster": y.mem} {
		x.mem = mem
		x.start()
		term, refused := c.leader().member.Node().Status().Role.Term, 0
		for refused < 3*election { // it has been alone for long
			refused++
			if s := x.member.Node().Status(); s.Role.Leader != 0 {
				t.Fatalf("%s: the node follows %d", name, s.Role.Leader)
			}
			time.Sleep(tick)
		}
		c.write(0, 10, 30)
		if now := c.leader().member.Node().Status().Role.Term; now != term {
			t.Errorf("%s: the term went from %d to %d", name, term, now)
		}
		x.kill(false)
	}
	x.mem = fresh
	x.start()
	c.check(x, 10)
}
