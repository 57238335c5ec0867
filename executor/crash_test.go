package executor

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"fmt"
	"slices"
	"strings"
	"testing"

	"redoubt/engine"
	"redoubt/engine/mem"
	"redoubt/keyspace"
)

// A crash leaves the commits up to some ticket. Whichever that is, the store
// must be whole: here every commit is recorded while everything runs at once,
// and stores are made of the first so many of them.

type recordedCommit struct {
	ticket   engine.Ticket
	ops      []engine.Op
	ranges   [][2][]byte
	counters map[string]int64
}

func record(ticket engine.Ticket, b *engine.Batch) recordedCommit {
	r := recordedCommit{ticket: ticket, counters: make(map[string]int64)}
	for lo, hi := range b.Ranges() {
		r.ranges = append(r.ranges, [2][]byte{bytes.Clone(lo), bytes.Clone(hi)})
	}
	for op := range b.Ops() {
		r.ops = append(r.ops, engine.Op{Key: bytes.Clone(op.Key), Value: bytes.Clone(op.Value), Delete: op.Delete})
	}
	for k, d := range b.Counters() {
		r.counters[string(k)] += d
	}
	return r
}

// replay makes a store of commits.
func replay(t *testing.T, commits []recordedCommit) engine.Engine {
	t.Helper()
	e := mem.New()
	v, err := e.Begin(engine.ViewOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer v.Close()
	for _, c := range commits {
		var b engine.Batch
		for _, r := range c.ranges {
			b.DeleteRange(r[0], r[1])
		}
		for _, op := range c.ops {
			if op.Delete {
				b.Delete(op.Key)
			} else {
				b.Put(op.Key, op.Value)
			}
		}
		for k, d := range c.counters {
			b.Add([]byte(k), d)
		}
		if _, err := v.Commit(&b); err != nil {
			t.Fatal(err)
		}
	}
	return e
}

func TestEveryCrashLeavesAWholeStore(t *testing.T) {
	t.Parallel()
	rng := seeded(t)
	j := &journal{Engine: mem.New()}
	var commits []recordedCommit
	j.recorded = func(ticket engine.Ticket, b *engine.Batch) { commits = append(commits, record(ticket, b)) }
	f := open(t, j)
	f.actors(6, rng, func(i int, a *actor) {
		for n := range rounds(150) {
			k := fmt.Sprint("key", a.rng.IntN(20))
			a.db = a.rng.IntN(2)
			big := strings.Repeat(string(rune('a'+a.rng.IntN(26))), 70_000+a.rng.IntN(100_000))
			switch a.rng.IntN(16) {
			case 0:
				a.send("flushdb")
			case 1:
				a.send("swapdb 0 1")
			case 2:
				f.bg.Sweep(context.Background())
			case 3:
				f.bg.Clear(context.Background())
			case 4:
				f.now.Add(a.rng.Int64N(20_000) - 8_000) // the clock goes back, too
			case 5, 6:
				a.send("del " + k)
			case 7:
				a.send("rename " + k + fmt.Sprint(" key", a.rng.IntN(20)))
			case 8:
				a.send("copy " + k + fmt.Sprint(" key", a.rng.IntN(20)) + " db 1 replace")
			case 9:
				a.send("pexpire " + k + " 5000")
			case 10, 11:
				a.send(fmt.Sprintf("set %s %d px 3000", k, n))
			default:
				a.send("set " + k + " " + big)
			}
		}
	})
	slices.SortFunc(commits, func(a, b recordedCommit) int { return cmp.Compare(a.ticket, b.ticket) })
	for range 12 {
		n := 1 + rng.IntN(len(commits))
		if n == 1 {
			continue
		}
		g := open(t, &journal{Engine: replay(t, commits[:n])})
		g.now.Store(testNow - 10_000 + rng.Int64N(20_000)) // after a restart with whatever clock
		g.whole()
		if t.Failed() {
			t.Fatalf("after %d of %d commits", n, len(commits))
		}
	}
}

// whole checks a store: counters, values, ids, and that clearing leaves exactly
// what is in use.
func (f *fixture) whole() {
	t := f.t
	t.Helper()
	largest := uint64(0)
	snap, err := f.eng.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	it := snap.Iter(nil, []byte{0xff}, false)
	for it.Next() {
		if k := it.Key(); k[2] >= 2 && k[2] <= 4 {
			largest = max(largest, binary.BigEndian.Uint64(k[3:]))
		}
	}
	it.Close()
	snap.Close()
	if _, err := f.x.Do(func(tx *keyspace.Tx) {
		if id := tx.NewRef([]byte("k"), 0).ID; id <= largest {
			t.Errorf("id %x is given out, and %x is in use", id, largest)
		}
	}); err != nil {
		t.Fatal(err)
	}
	f.now.Store(0) // nothing has expired
	for db := range testDatabases {
		c := f.client()
		c.db = db
		keys := strings.Fields(strings.Trim(c.do("keys *"), "[]"))
		f.want("size", c.do("dbsize"), fmt.Sprint(len(keys)))
		for _, k := range keys {
			v := c.do("get " + k)
			if n := c.do("strlen " + k); n != fmt.Sprint(len(v)) || v == "" {
				t.Errorf("%s has %d bytes, STRLEN says %s", k, len(v), n)
			}
			if len(v) > 1000 && strings.Trim(v, v[:1]) != "" {
				t.Errorf("%s is a mixture", k)
			}
		}
	}
	for db := range testDatabases {
		f.worker(db, "flushdb")
	}
	f.bg.Clear(context.Background())
	f.now.Store(testNow * 2)
	f.bg.Sweep(context.Background())
	if n := f.data(); n != 0 {
		t.Errorf("%d rows belong to nobody: %v", n, f.rows())
	}
	if keys, volatile, living := f.counters(); living != 0 {
		t.Errorf("counters that belong to nobody: keys %d, with an expiry %d", keys, volatile)
	}
}
