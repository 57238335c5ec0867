package tikv

import (
	"encoding/binary"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"redoubt/engine"
	"redoubt/engine/enginetest"
	"redoubt/internal/testtikv"
)

var lostFor = flag.Duration("lost", 3*time.Second, "for how long TestLostAnswers loses answers")

// bookkeeper runs transactions and knows what has become of them.
type bookkeeper struct {
	t                                     *testing.T
	stop                                  chan struct{}
	done, unknown, conflicts, unavailable atomic.Int64
}

func (k *bookkeeper) stopped() bool {
	select {
	case <-k.stop:
		return true
	default:
		return false
	}
}

// run runs a transaction until it is not in conflict. It reports whether it happened: yes,
// maybe, or no.
func (k *bookkeeper) run(e *Engine, f func(v engine.SharedView, b *engine.Batch) error) (did, maybe bool) {
	for !k.stopped() {
		err := with(e, func(v engine.SharedView) error {
			var b engine.Batch
			if err := f(v, &b); err != nil {
				return err
			}
			_, err := v.Commit(&b)
			return err
		})
		switch {
		case err == nil:
			k.done.Add(1)
			return true, false
		case errors.Is(err, engine.ErrUnknownOutcome):
			k.unknown.Add(1)
			return false, true
		case errors.Is(err, engine.ErrConflict):
			k.conflicts.Add(1)
		case engine.Transient(err):
			k.unavailable.Add(1)
			return false, false
		default:
			k.t.Error(err)
			return false, false
		}
	}
	return false, false
}

// counted is a number that is counted up, and the values that were acknowledged.
type counted struct {
	name  string
	mu    sync.Mutex
	seen  map[uint64]bool
	maybe uint64
}

func (c *counted) note(t *testing.T, n uint64, did, maybe bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.seen == nil {
		c.seen = map[uint64]bool{}
	}
	if did && c.seen[n] {
		t.Errorf("%s was counted to %d twice", c.name, n)
	}
	if did {
		c.seen[n] = true
	}
	if maybe {
		c.maybe++
	}
}

func (c *counted) check(t *testing.T, n uint64) {
	if low := uint64(len(c.seen)); n < low || n > low+c.maybe {
		t.Errorf("%s is %d after %d acknowledged and %d unknown increments", c.name, n, low, c.maybe)
	}
	t.Logf("%s: %d, %d acknowledged, %d unknown", c.name, n, len(c.seen), c.maybe)
}

func numberOf(v engine.Reader, key []byte) (uint64, error) {
	value, _, err := v.Get(key, nil)
	if err != nil || len(value) < 8 {
		return 0, err
	}
	return binary.BigEndian.Uint64(value), nil
}

func numeral(n uint64, size int) []byte {
	return append(binary.BigEndian.AppendUint64(nil, n), make([]byte, size)...)
}

// elements are put into a queue of rows, and taken out of it.
type elements struct {
	mu    sync.Mutex
	put   map[string]bool // acknowledged
	maybe map[string]int  // takes of unknown outcome
	taken map[string]bool
}

func (q *elements) putOne(k *bookkeeper, e *Engine, id string) {
	did, maybe := k.run(e, func(v engine.SharedView, b *engine.Batch) error {
		n, err := numberOf(v, []byte("q0"))
		b.Put([]byte("q0"), numeral(n+1, 0))
		b.Put([]byte("q1"+id), []byte(id))
		return err
	})
	q.mu.Lock()
	defer q.mu.Unlock()
	if did || maybe {
		q.put[id] = did
	}
}

// take takes the first element. Half of the times the queue's own row is only checked:
// then a lock without a write is the transaction's primary.
func (q *elements) take(k *bookkeeper, e *Engine, write bool) {
	id := ""
	did, maybe := k.run(e, func(v engine.SharedView, b *engine.Batch) error {
		n, err := numberOf(v, []byte("q0"))
		if err != nil {
			return err
		}
		if b.Check([]byte("q0")); write {
			b.Put([]byte("q0"), numeral(n+1, 0))
		}
		id = ""
		it := v.Iter([]byte("q1"), []byte("q2"), false)
		if it.Next() {
			id = string(it.Value())
			b.Delete(append([]byte(nil), it.Key()...))
		}
		return it.Close()
	})
	q.mu.Lock()
	defer q.mu.Unlock()
	switch {
	case id == "":
	case did && q.taken[id]:
		k.t.Errorf("%s was taken twice", id)
	case did:
		q.taken[id] = true
	case maybe:
		q.maybe[id]++
	}
}

func (q *elements) check(t *testing.T, v engine.Reader) {
	left := map[string]bool{}
	it := v.Iter([]byte("q1"), []byte("q2"), false)
	for it.Next() {
		left[string(it.Value())] = true
	}
	if err := it.Close(); err != nil {
		t.Fatal(err)
	}
	for id := range q.taken {
		if _, ok := q.put[id]; !ok || left[id] {
			t.Errorf("%s was taken; put: %v, and still there: %v", id, ok, left[id])
		}
	}
	for id, sure := range q.put {
		if sure && !left[id] && !q.taken[id] && q.maybe[id] == 0 {
			t.Errorf("%s was put and is gone", id)
		}
	}
	for id := range left {
		if _, ok := q.put[id]; !ok {
			t.Errorf("%s is there and was never put", id)
		}
	}
	t.Logf("queue: %d put, %d taken, %d left", len(q.put), len(q.taken), len(left))
}

// TestLostAnswers loses the answers to requests of commits, and checks that what was
// acknowledged is there, that what was said to be in conflict has not happened, and
// that nothing happened twice.
func TestLostAnswers(t *testing.T) {
	t.Parallel()
	seed := enginetest.Seed(t)
	c := testtikv.Start(t, testtikv.RegionSize(64<<10))
	prefix := testtikv.Prefix(t)
	var engines []*Engine
	var nets []*unreliable
	for i := range 2 {
		e := mustOpen(t, Options{PD: []string{c.PD()}, Prefix: prefix, Timeout: 8 * time.Second})
		defer e.Close()
		inner := e.store.GetTiKVClient().(*watchedClient)
		net := &unreliable{Client: inner.Client, rng: rand.New(rand.NewPCG(seed, uint64(i)))}
		e.store.SetTiKVClient(&watchedClient{net, e})
		engines, nets = append(engines, e), append(nets, net)
	}
	k := &bookkeeper{t: t, stop: make(chan struct{})}
	var all sync.WaitGroup
	each := func(f func(e *Engine, w, turn int, rng *rand.Rand)) {
		for w := range 2 * len(engines) {
			rng := rand.New(rand.NewPCG(seed, uint64(100+w)))
			all.Go(func() {
				for turn := 0; !k.stopped() && !t.Failed(); turn++ {
					f(engines[w%2], w, turn, rng)
				}
			})
		}
	}

	q := &elements{put: map[string]bool{}, maybe: map[string]int{}, taken: map[string]bool{}}
	each(func(e *Engine, w, turn int, rng *rand.Rand) {
		if rng.IntN(2) == 0 {
			q.putOne(k, e, fmt.Sprintf("%06d-%d", turn, w))
		} else {
			q.take(k, e, rng.IntN(2) == 0)
		}
	})

	var sums [4]counted
	for i := range sums {
		sums[i].name = fmt.Sprint("c", i)
	}
	each(func(e *Engine, w, turn int, rng *rand.Rand) {
		s, n := &sums[rng.IntN(len(sums))], uint64(0)
		did, maybe := k.run(e, func(v engine.SharedView, b *engine.Batch) error {
			var err error
			n, err = numberOf(v, []byte(s.name))
			n++
			b.Check([]byte("a" + s.name)) // it comes first
			b.Put([]byte(s.name), numeral(n, 0))
			return err
		})
		s.note(t, n, did, maybe)
	})

	// Rows that are always written together, in several regions: by asynchronous
	// commits, and by ordinary ones, with and without one of one phase tried before.
	kinds := []struct {
		rows, size int
		counted
	}{{rows: 12, size: 4 << 10}, {rows: 300, size: 100}, {rows: 300, size: 1 << 10}}
	group := func(kind, i int) []byte { return fmt.Appendf(nil, "g%d-%04d", kind, i) }
	same := func(v engine.SharedView, kind int) (n uint64, err error) {
		rows, numbers := [][]byte{}, map[uint64]int{}
		for i := range kinds[kind].rows {
			rows = append(rows, group(kind, i))
		}
		err = v.GetMany(rows, func(_ int, value []byte, found bool) error {
			n = 0
			if found {
				n = binary.BigEndian.Uint64(value)
			}
			numbers[n]++
			return nil
		})
		if len(numbers) > 1 {
			stamp, _ := v.Stamp()
			text, last := "", uint64(0)
			for i, row := range rows {
				m, _ := numberOf(v, row)
				version, _ := v.Version(row)
				if m != last {
					text += fmt.Sprintf(" %d from %d on, by %d;", m, i, version)
				}
				last = m
			}
			t.Errorf("at %d half of a commit of group %d is there: %v;%s", stamp, kind, numbers, text)
		}
		return n, err
	}
	for i := range kinds {
		kinds[i].name = fmt.Sprint("group", i)
	}
	each(func(e *Engine, w, turn int, rng *rand.Rand) {
		kind, n := rng.IntN(len(kinds)), uint64(0)
		did, maybe := k.run(e, func(v engine.SharedView, b *engine.Batch) error {
			var err error
			n, err = same(v, kind)
			n++
			for i := range kinds[kind].rows {
				b.Put(group(kind, i), numeral(n, kinds[kind].size))
			}
			return err
		})
		kinds[kind].note(t, n, did, maybe)
	})

	kills, rng := 0, rand.New(rand.NewPCG(seed, 99))
	next := time.Now().Add(5 * time.Second)
	enough := func() bool { return nets[0].lost.Load() >= 10 && nets[1].lost.Load() >= 10 && k.unknown.Load() >= 3 }
	for begin := time.Now(); (time.Since(begin) < *lostFor || !enough()) && !t.Failed(); time.Sleep(10 * time.Millisecond) {
		if time.Since(begin) > *lostFor+time.Minute {
			t.Error("too little was lost")
		}
		if time.Now().After(next) { // in long runs
			c.KillStore()
			time.Sleep(time.Duration(rng.IntN(1000)) * time.Millisecond)
			c.StartStore()
			kills++
			next = time.Now().Add(time.Duration(rng.IntN(6000)) * time.Millisecond)
		}
	}
	close(k.stop)
	all.Wait()
	var lost, dropped, late, slow, sent int64
	for _, n := range nets {
		n.calm.Store(true)
		n.pending.Wait()
		lost, dropped, late, slow, sent = lost+n.lost.Load(), dropped+n.dropped.Load(), late+n.late.Load(), slow+n.slow.Load(), sent+n.sent.Load()
	}
	t.Logf("%d transactions acknowledged, %d unknown, %d conflicts, %d unavailable", k.done.Load(), k.unknown.Load(), k.conflicts.Load(), k.unavailable.Load())
	t.Logf("%d requests: %d answers lost, %d never arrived, %d arrived late, %d were slow; the store was killed %d times", sent, lost, dropped, late, slow, kills)
	if err := with(engines[1], func(v engine.SharedView) error {
		q.check(t, v)
		for i := range sums {
			n, err := numberOf(v, []byte(sums[i].name))
			if err != nil {
				return err
			}
			sums[i].check(t, n)
		}
		for i := range kinds {
			n, err := same(v, i)
			if err != nil {
				return err
			}
			kinds[i].check(t, n)
		}
		return nil
	}); err != nil {
		t.Error(err)
	}
}
