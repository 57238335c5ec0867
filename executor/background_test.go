package executor

import (
	"context"
	"encoding/binary"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"redoubt/engine"
	"redoubt/keyspace"
	"redoubt/wire"
)

// fill stores n keys of each kind at once: with and without an expiry, plain and
// with rows of their own.
func (f *fixture) fill(db, n int, at int64) {
	f.t.Helper()
	_, err := f.x.Do(func(tx *keyspace.Tx) {
		tx.DB = db
		for i := range n {
			for kind, expire := range []int64{0, at, 0, at} {
				key := fmt.Appendf(nil, "key%d-%d", kind, i)
				m := keyspace.Meta{Type: keyspace.String, Encoding: keyspace.Raw, Expire: expire, Body: []byte("v")}
				if kind >= 2 {
					ref := tx.NewRef(key, 2)
					m.Encoding, m.Body = keyspace.Chunked, keyspace.AppendRef(nil, ref)
					for c := range byte(3) {
						tx.PutRow(append(keyspace.AppendRowKey(nil, ref, keyspace.SubRow), c), []byte("chunk"))
					}
				}
				tx.Store(key, keyspace.Meta{}, m)
			}
		}
	})
	if err != nil {
		f.t.Fatal(err)
	}
}

// counters returns the sums of keys and of keys with an expiry over all numbers
// that keyspaces had so far, dead ones included, and how many are not zero.
func (f *fixture) counters() (keys, volatile int64, living int) {
	f.t.Helper()
	for ks := range uint32(10_000) {
		for _, what := range []byte{2, 3} {
			n, err := f.eng.Counter(binary.BigEndian.AppendUint32([]byte{0xff, what}, ks))
			if err != nil {
				f.t.Fatal(err)
			}
			if n != 0 {
				living++
			}
			if what == 2 {
				keys += n
			} else {
				volatile += n
			}
		}
	}
	return keys, volatile, living
}

// data are the rows that are not the system's.
func (f *fixture) data() (n int) {
	for kind, rows := range f.rows() {
		if kind != 0xff {
			n += rows
		}
	}
	return n
}

// sweepStep is how many keys a sweep removes per commit.
const sweepStep = 64

func TestSweepOfManyKeys(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	n := rounds(100_000)
	const others = 500 // of each of four kinds
	if _, err := f.x.Do(func(tx *keyspace.Tx) {
		for i := range n {
			tx.Store(fmt.Append(nil, i), keyspace.Meta{}, keyspace.Meta{
				Type: keyspace.String, Encoding: keyspace.Raw, Expire: testNow + 1000, Body: []byte("v"),
			})
		}
	}); err != nil {
		t.Fatal(err)
	}
	f.fill(0, others, testNow+1000)
	f.fill(1, others, testNow+2000)
	f.bg.Sweep(t.Context())
	f.want("nothing is due", f.do("dbsize"), fmt.Sprint(n+4*others))

	f.now.Add(1000)
	commits, held := 0, 0
	f.eng.onVisible(func(engine.Ticket) {
		if commits++; commits%20 != 0 {
			return
		}
		held = max(held, f.x.latches.Held())
	})
	f.bg.Sweep(t.Context())
	f.eng.onVisible(nil)
	f.want("half of the others are left", f.do("dbsize"), fmt.Sprint(2*others))
	if held == 0 || held > sweepStep {
		t.Errorf("%d latches were held at once", held)
	}
	if want := n / sweepStep; commits < want {
		t.Errorf("%d commits: some were larger than %d keys", commits, sweepStep)
	}
	equal(t, "counted", f.x.Stats.Expired.Load(), int64(n+2*others))
	keys, volatile, _ := f.counters()
	equal(t, "keys", keys, 6*others)
	equal(t, "with an expiry", volatile, 2*others)
	equal(t, "next", f.x.space.NextDue() <= testNow+2000, true)
	f.bg.Clear(t.Context())
	rows := f.rows()
	equal(t, "keys", rows[1], 6*others)
	equal(t, "rows of values", rows[2], 3*3*others)
	equal(t, "expire rows", rows[5], 2*others)
	equal(t, "garbage", rows[6], 0)
	f.free()
}

// A key that is given more time between the moment at which the sweep finds it
// and the one at which it has the latch stays.
func TestAKeyIsRenewedWhileTheSweepWaits(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.do("set {tag}k v px 100") // in one slot: one step of the sweep lists both
	f.do("set {tag}j v px 100")
	f.bg.Sweep(t.Context()) // now it knows that no other slot has anything
	a := f.client()
	f.now.Add(99)
	a.run("pexpire {tag}k 1000") // for this batch the key is not past its time
	f.now.Add(1)
	var once sync.Once
	f.eng.onWalked(func() { // the sweep has listed what is due
		once.Do(func() {
			_, s := a.commit()
			f.want("renewed", s, "1")
		})
	})
	f.bg.Sweep(t.Context())
	f.eng.onWalked(nil)
	f.want("kept and expired", f.do("mget {tag}k {tag}j"), "[v (nil)]")
	f.want("time left", f.do("pttl {tag}k"), "999")
	f.want("size", f.do("dbsize"), "1")
	equal(t, "expired", f.x.Stats.Expired.Load(), 1)
	f.now.Add(999)
	f.bg.Sweep(t.Context())
	equal(t, "rows", f.data(), 0)
}

// Writers renew keys while their time runs out and the sweep goes round. A key
// whose renewal was answered by 1 stays, with its value.
func TestSweepAgainstWriters(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	var running atomic.Int64
	const writers = 6
	running.Store(writers)
	var renewed, lapsed atomic.Int64
	f.actors(writers+1, seeded(t), func(i int, a *actor) {
		if i == writers {
			for running.Load() > 0 {
				f.bg.Sweep(context.Background())
			}
			return
		}
		defer running.Add(-1)
		for n := range rounds(1200) {
			key, value := fmt.Sprintf("key%d-%d", i, n%7), fmt.Sprint(n)
			if s := a.send(fmt.Sprintf("set %s %s px %d", key, value, 1+a.rng.IntN(4))); s != "OK" {
				t.Errorf("set: %s", s)
				return
			}
			f.now.Add(a.rng.Int64N(2))
			want := value
			switch s := a.send("pexpire " + key + " 1000000000"); s {
			case "1":
				renewed.Add(1)
			case "0":
				want = "(nil)"
				lapsed.Add(1)
			default:
				t.Errorf("pexpire: %s", s)
			}
			for range 2 {
				if s := a.send("get " + key); s != want {
					t.Errorf("%s: %s, want %s", key, s, want)
					return
				}
			}
		}
	})
	t.Logf("renewed %d, lapsed %d", renewed.Load(), lapsed.Load())
	if renewed.Load() == 0 || lapsed.Load() == 0 {
		t.Error("one of the two ways was not taken")
	}
	rows := f.rows()
	equal(t, "expire rows", rows[5], rows[1])
	keys, volatile, _ := f.counters()
	equal(t, "keys", keys, int64(rows[1]))
	equal(t, "with an expiry", volatile, int64(rows[1]))
}

func TestClearingLeavesNothing(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	for range 3 {
		f.fill(0, 500, testNow+1000)
		f.fill(2, 100, testNow+1000)
		f.want("flush", f.worker(0, "flushdb"), "OK")
		f.fill(0, 50, 0)
		f.want("flush", f.worker(0, "flushall"), "OK")
		f.want("at once", f.do("dbsize"), "0")
		before := f.bg.Stats().Cleared
		f.bg.Clear(t.Context())
		equal(t, "rows", f.data(), 0)
		if n := f.bg.Stats().Cleared - before; n < 4*(500+100+50) {
			t.Errorf("%d were cleared", n)
		}
		_, _, living := f.counters()
		equal(t, "counters", living, 0)
	}
	equal(t, "system rows", f.rows()[0xff], testDatabases+3) // numbers, next number, version, watermark
	f.free()
}

// The keys of a flushed database may also be past their time: the sweep and the
// clearing meet, and each key must be counted once.
func TestClearingAgainstSweep(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	for range 5 {
		f.fill(0, 100, f.now.Load()+1)
		f.want("flush", f.worker(0, "flushall"), "OK")
		f.now.Add(1)
		var wait sync.WaitGroup
		var once sync.Once
		f.eng.onWalked(func() {
			once.Do(func() { // the clearing has read its first keys: now the sweep
				ended := make(chan struct{})
				wait.Add(1)
				go func() { defer wait.Done(); defer close(ended); f.bg.Sweep(context.Background()) }()
				for range 100_000 { // let it end if it can
					select {
					case <-ended:
						return
					default:
						runtime.Gosched()
					}
				}
			})
		})
		f.bg.Clear(t.Context())
		wait.Wait()
		f.eng.onWalked(nil)
		f.bg.Clear(t.Context())
		equal(t, "rows", f.data(), 0)
		if keys, volatile, living := f.counters(); living != 0 {
			t.Fatalf("counters of dead keyspaces are left: keys %d, with an expiry %d", keys, volatile)
		}
	}
}

// Everything at once, with the real background work; in the end nothing is left.
func TestBackgroundAgainstEverything(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.background = true
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); f.bg.Run(ctx) }()
	big := strings.Repeat("x", 100_000) // more than one row
	f.actors(6, seeded(t), func(i int, a *actor) {
		for range rounds(250) {
			k := fmt.Sprint("key", a.rng.IntN(30))
			a.db = a.rng.IntN(2)
			switch a.rng.IntN(12) {
			case 0:
				a.send("flushdb")
			case 1:
				a.send("swapdb 0 1")
			case 2:
				a.send("keys *")
			case 3, 4, 5:
				a.send("set " + k + " " + big)
			case 6:
				a.send("del " + k)
			case 7:
				a.send("rename " + k + " other")
			default:
				a.send(fmt.Sprintf("set %s v px %d", k, 1+a.rng.IntN(5)))
				f.now.Add(1)
			}
		}
	})
	f.want("flush", f.worker(0, "flushall"), "OK")
	for f.data() > 0 {
		time.Sleep(time.Millisecond)
	}
	cancel()
	<-done
	keys, volatile, living := f.counters()
	equal(t, "counters", fmt.Sprint(keys, volatile, living), "0 0 0")
	f.free()
}

// A store that refuses writes is not asked a thousand times a second, and what
// was due is expired once it works again.
func TestTheSweepBacksOff(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t)
		f.do("set k v px 10")
		f.now.Add(10)
		f.eng.failAll.Store(true)
		ctx, cancel := context.WithCancel(context.Background())
		done := make(chan struct{})
		go func() { defer close(done); f.bg.Run(ctx) }()
		time.Sleep(10 * time.Second)
		if n := strings.Count(f.log.String(), "expiring keys failed"); n < 2 || n > 20 {
			t.Errorf("%d attempts in ten seconds", n)
		}
		f.eng.failAll.Store(false)
		time.Sleep(2 * time.Second)
		equal(t, "rows", f.data(), 0)
		cancel()
		<-done
	})
}

// Clearing that failed is tried again without another flush.
func TestClearingIsTriedAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t)
		f.fill(0, 10, 0)
		f.want("flush", f.worker(0, "flushall"), "OK")
		f.eng.failAll.Store(true)
		ctx, cancel := context.WithCancel(context.Background())
		done := make(chan struct{})
		go func() { defer close(done); f.bg.Run(ctx) }()
		time.Sleep(10 * time.Second)
		if n := strings.Count(f.log.String(), "clearing deleted data failed"); n < 2 || n > 20 {
			t.Errorf("%d attempts in ten seconds", n)
		}
		f.eng.failAll.Store(false)
		time.Sleep(2 * time.Second)
		equal(t, "rows", f.data(), 0)
		cancel()
		<-done
	})
}

func TestActiveExpireCanBeTurnedOff(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t)
		f.bg.SetActive(false)
		ctx, cancel := context.WithCancel(context.Background())
		done := make(chan struct{})
		go func() { defer close(done); f.bg.Run(ctx) }()
		f.do("set k v px 10")
		f.now.Add(10)
		time.Sleep(time.Second)
		f.want("still counted", f.do("dbsize"), "1")
		f.want("not seen", f.do("get k"), "(nil)")
		f.bg.SetActive(true)
		time.Sleep(time.Second)
		f.want("removed", f.do("dbsize"), "0")
		cancel()
		<-done
	})
}

// While writes are paused nothing expires, though nobody sees an expired key.
func TestHoldExpire(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.do("set k v px 5")
	f.now.Add(10)
	f.bg.Hold(true)
	if err := f.bg.Sweep(t.Context()); err != nil {
		t.Fatal(err)
	}
	f.want("value", f.do("get k"), "(nil)")
	f.want("size", f.do("dbsize"), "1")
	f.bg.Hold(false)
	if err := f.bg.Sweep(t.Context()); err != nil {
		t.Fatal(err)
	}
	f.want("size", f.do("dbsize"), "0")
}

// The sweep does not wait for a key that somebody holds; it takes the others.
func TestTheSweepPassesByBusyKeys(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	for i := range 200 {
		f.do(fmt.Sprintf("set k%d v px 5", i))
	}
	f.now.Add(10)
	holder := f.x.NewBatch()
	holder.latch.Try([]uint32{f.x.latches.Stripe([]byte("k7"))})
	if err := f.bg.Sweep(t.Context()); err != nil {
		t.Fatal(err)
	}
	holder.latch.Release(0)
	for range 200 { // each sweep may leave the rest of one group
		if err := f.bg.Sweep(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	f.want("size", f.do("dbsize"), "0")
}

// A command with very many keys does not stop the loop.
func TestManyArgumentsAreForAWorker(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	args := [][]byte{[]byte("exists")}
	for len(args) <= heavyArgs {
		args = append(args, []byte("k"))
	}
	call := Call{Cmd: table().Lookup(args[0]), Args: args, Reply: &wire.Writer{Proto: 2}}
	equal(t, "detour", f.x.NewBatch().Run(&call), keyspace.NeedsWorker)
	f.x.RunOnWorker(&call)
	equal(t, "reply", string(call.Reply.Buf), ":0\r\n")
}
