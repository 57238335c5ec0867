package executor

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"redoubt/command"
	"redoubt/engine"
	"redoubt/keyspace"
)

// actor is a client on a goroutine of its own: of an event loop, of a batch that
// may wait, or one whose commands run on workers.
type actor struct {
	*client
	worker bool
	rng    *rand.Rand
}

// actors run f at the same time, a third of them in each of the three ways.
func (f *fixture) actors(n int, rng *rand.Rand, run func(i int, a *actor)) {
	var wait sync.WaitGroup
	for i := range n {
		a := &actor{client: f.client(), worker: i%3 == 2, rng: rand.New(rand.NewPCG(rng.Uint64(), 0))}
		if i%3 == 1 {
			a.b = f.x.NewWaitingBatch()
		}
		wait.Add(1)
		go func() {
			defer wait.Done()
			defer a.b.Commit()
			run(i, a)
		}()
	}
	wait.Wait()
	if !f.background {
		f.free()
	}
}

// reply runs a command as this actor does, commits it and returns the reply and
// the ticket that it waits for.
func (a *actor) reply(cmd *command.Command, line string) (string, engine.Ticket) {
	args := words(line)
	if a.worker || !a.tryCmd(cmd, args) {
		a.b.Commit()
		t, _, s := a.f.workerCmd(cmd, a.db, args)
		return s, t
	}
	own, s := a.commit()
	return s, a.ready(own)
}

func (a *actor) send(line string) string {
	s, _ := a.reply(table().Find(words(line)), line)
	return s
}

func atoi(s string) int {
	n, err := strconv.Atoi(s)
	if err != nil {
		return -1
	}
	return n
}

// bump adds one to the number at its first key and stores it at all its keys.
var bump = &command.Command{
	Name: "bump", FullName: "bump", Arity: -2, Flags: command.Write, Keys: command.KeyRange(1, -1, 1, command.RW),
	Run: func(c *command.Ctx) error {
		n := 1
		if m := c.Tx.Find(c.Args[1]); m.Exists() {
			n += atoi(string(m.Body))
		}
		for _, k := range c.Args[1:] {
			storeString(c.Tx, k, strconv.Itoa(n))
		}
		c.Reply.Int(int64(n))
		return nil
	},
}

// Writers store one value at two keys. Nobody sees two values at once, nor a
// later one first and an earlier one then.
func TestReadersSeeWritesOfSeveralKeysAtOnce(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.do("mset k1 0 k2 0")
	f.actors(9, seeded(t), func(i int, a *actor) {
		for range rounds(4000) {
			if i < 3 {
				a.reply(bump, []string{"bump k1 k2", "bump k2 k1"}[a.rng.IntN(2)])
				continue
			}
			first, second := "get k1", "get k2"
			if a.rng.IntN(2) == 0 {
				first, second = second, first
			}
			switch a.rng.IntN(3) {
			case 0:
				if s := strings.Fields(strings.Trim(a.send("mget k1 k2"), "[]")); len(s) != 2 || s[0] != s[1] {
					t.Errorf("MGET: %v", s)
					return
				}
			case 1:
				if x, y := atoi(a.send(first)), atoi(a.send(second)); x < 0 || y < x {
					t.Errorf("%s: %d, then %s: %d", first, x, second, y)
					return
				}
			case 2: // both in one turn
				if !a.try(first) || !a.try(second) {
					a.commit()
					continue
				}
				_, s := a.commit()
				var x, y int
				if n, _ := fmt.Sscan(s, &x, &y); n != 2 || y < x {
					t.Errorf("%s and %s: %s", first, second, s)
					return
				}
			}
		}
	})
	x := strings.Fields(strings.Trim(f.do("mget k1 k2"), "[]"))
	equal(t, "in the end", x[0], x[1])
	equal(t, "bumps", x[0], strconv.Itoa(3*rounds(4000)))
}

// Every INCR that was answered counts, and none that was not, whatever the mix
// of loops, workers, pipelines and failed commits.
func TestNoUpdateIsLost(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	const keys = 5
	var sums [keys]atomic.Int64
	f.actors(6, seeded(t), func(i int, a *actor) {
		for range rounds(2500) {
			if a.rng.IntN(50) == 0 {
				f.eng.failIn.Store(1 + a.rng.Int64N(3))
			}
			if a.worker {
				k := a.rng.IntN(keys)
				if s := a.send(fmt.Sprint("incr k", k)); atoi(s) > 0 {
					sums[k].Add(1)
				} else if !strings.HasPrefix(s, "!MISCONF") {
					t.Errorf("reply %q", s)
				}
				continue
			}
			var ran []int // a pipeline: what could not be run is left out
			for range 1 + a.rng.IntN(4) {
				k := a.rng.IntN(keys)
				if a.try(fmt.Sprint("incr k", k)) {
					ran = append(ran, k)
				}
			}
			_, s := a.commit()
			answers := strings.Fields(strings.ReplaceAll(s, "!MISCONF commit: store refuses writes: injected", "-1"))
			if len(answers) != len(ran) {
				t.Errorf("%d replies to %d commands: %q", len(answers), len(ran), s)
				return
			}
			for i, k := range ran {
				if atoi(answers[i]) > 0 {
					sums[k].Add(1)
				}
			}
		}
	})
	f.eng.failIn.Store(0)
	total, live := int64(0), 0
	for k := range sums {
		total += sums[k].Load()
		if sums[k].Load() > 0 {
			live++
			equal(t, fmt.Sprint("k", k), f.do(fmt.Sprint("get k", k)), strconv.FormatInt(sums[k].Load(), 10))
		}
	}
	equal(t, "changes", f.x.Stats.Changes.Load(), total)
	f.want("size", f.do("dbsize"), strconv.Itoa(live))
}

// transfer moves one from the first key to the second.
var transfer = &command.Command{
	Name: "transfer", FullName: "transfer", Arity: 3, Flags: command.Write, Keys: command.KeyRange(1, 1, 1, command.RW),
	Run: func(c *command.Ctx) error {
		for i, d := range []int{-1, +1} {
			k := c.Args[1+i]
			storeString(c.Tx, k, strconv.Itoa(atoi(string(c.Tx.Find(k).Body))+d))
		}
		c.Reply.OK()
		if c.Seed%4 == 0 {
			return command.ErrSyntax // after all
		}
		return nil
	},
}

// Transfers between keys in any order neither deadlock nor change the sum that
// every reader of all keys sees.
func TestTheSumStaysTheSame(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	const keys = 6
	var moved atomic.Int64
	f.do("mset k0 1000000 k1 1000000 k2 1000000 k3 1000000 k4 1000000 k5 1000000")
	f.actors(7, seeded(t), func(i int, a *actor) {
		for range rounds(2500) {
			if i < 5 {
				from := a.rng.IntN(keys)
				s, _ := a.reply(transfer, fmt.Sprintf("transfer k%d k%d", from, (from+1+a.rng.IntN(keys-1))%keys))
				if s == "OK" {
					moved.Add(1)
				} else if s != "!ERR syntax error" {
					t.Errorf("reply %q", s)
					return
				}
				continue
			}
			sum := 0
			for _, s := range strings.Fields(strings.Trim(a.send("mget k5 k0 k4 k1 k3 k2"), "[]")) {
				sum += atoi(s)
			}
			if sum != keys*1_000_000 {
				t.Errorf("sum %d", sum)
				return
			}
		}
	})
	if n := moved.Load(); n < int64(rounds(2500)) {
		t.Errorf("only %d transfers", n)
	}
}

// A write that is answered after FLUSHALL is not in what was flushed, and one
// that was answered before it is gone.
func TestFlushAgainstWriters(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	var begun, ended, writers atomic.Int64
	writers.Store(6)
	f.actors(7, seeded(t), func(i int, a *actor) {
		if i == 6 {
			for writers.Load() > 0 {
				begun.Add(1)
				if s := f.worker(0, "flushall"); s != "OK" {
					t.Errorf("flush: %s", s)
				}
				ended.Add(1)
			}
			return
		}
		defer writers.Add(-1)
		key := fmt.Sprint("key", i)
		last, lastBegan, lastDone := 0, ended.Load(), begun.Load()
		for range rounds(2500) {
			before := ended.Load()
			n := atoi(a.send("incr " + key))
			after := begun.Load()
			switch {
			case n == last+1:
				// A flush that lies wholly between the two must have removed it.
				if last > 0 && before > lastDone {
					t.Errorf("%s survived a flush: %d", key, n)
					return
				}
			case n != 1 || after == lastBegan:
				t.Errorf("%s went from %d to %d, flushes begun %d, ended %d", key, last, n, after, lastBegan)
				return
			}
			last, lastBegan, lastDone = n, before, after
		}
	})
}

// SWAPDB moves what was written, it loses nothing.
func TestSwapAgainstWriters(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	var sum atomic.Int64
	f.actors(6, seeded(t), func(i int, a *actor) {
		for range rounds(2000) {
			if i == 5 {
				a.send("swapdb 0 1")
				continue
			}
			a.db = a.rng.IntN(2)
			if atoi(a.send("incr k")) > 0 {
				sum.Add(1)
			}
		}
	})
	a, b := f.client(), f.client()
	b.db = 1
	equal(t, "both", int64(max(0, atoi(a.do("get k")))+max(0, atoi(b.do("get k")))), sum.Load())
}

// Whoever sees a value waits until the commit that wrote it is durable.
func TestEveryReaderWaitsForTheWriter(t *testing.T) {
	t.Parallel()
	f := newDurable(t)
	f.do("mset k1 0 k2 0")
	type sight struct {
		value int
		safe  engine.Ticket // durable when the reply may be sent
	}
	var mu sync.Mutex
	var sights []sight
	tickets := make(map[int]engine.Ticket)
	f.actors(7, seeded(t), func(i int, a *actor) {
		for range rounds(3000) {
			switch {
			case i == 0:
				f.eng.flush()
			case i < 4:
				s, ticket := a.reply(bump, "bump k1 k2")
				mu.Lock()
				tickets[atoi(s)] = ticket
				mu.Unlock()
			default:
				line := []string{"get k1", "get k2", "mget k1 k2", "dbsize"}[a.rng.IntN(4)]
				cmd := table().Find(words(line))
				s, ticket := a.reply(cmd, line)
				if line == "dbsize" {
					continue
				}
				safe := max(ticket, f.eng.Durable())
				v := atoi(strings.Fields(strings.Trim(s, "[]"))[0])
				mu.Lock()
				sights = append(sights, sight{v, safe})
				mu.Unlock()
			}
		}
	})
	for _, s := range sights {
		if s.safe < tickets[s.value] {
			t.Fatalf("%d was told at %d, its commit was %d", s.value, s.safe, tickets[s.value])
		}
	}
}

// Effects are told after the commit and before the latches are given back: on
// each key they come one by one, and the listener finds what they tell.
func TestEffectsKeepTheOrderOfCommits(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	var mu sync.Mutex
	told := make(map[string]int)
	f.x.Listening(keyspace.StringEv)
	f.x.Listen(func(e *keyspace.Effects, _ engine.Ticket) {
		counts := make(map[string]int)
		for _, ev := range e.Events {
			counts[string(ev.Key)]++
		}
		for k, n := range counts {
			s := f.do("get " + k)
			mu.Lock()
			told[k] += n
			if s != strconv.Itoa(told[k]) {
				t.Errorf("%s: %d were told, stored is %s", k, told[k], s)
			}
			mu.Unlock()
		}
	})
	f.actors(6, seeded(t), func(i int, a *actor) {
		for range rounds(800) {
			a.reply(bump, fmt.Sprint("bump k", a.rng.IntN(2)))
		}
	})
}
