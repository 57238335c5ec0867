package enginetest

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"redoubt/engine"
)

// The newest note of a key counts, and range deletes are applied before all notes.
func testBatchOrder(t *testing.T, s *suite) {
	st := s.begin(t)
	st.put("a", "0", "b", "0", "c", "0", "d", "0")
	var b engine.Batch
	b.Put([]byte("a"), []byte("1"))
	b.Put([]byte("a"), []byte("2"))
	b.Put([]byte("b"), []byte("1"))
	b.Delete([]byte("b"))
	b.Delete([]byte("c"))
	b.Put([]byte("c"), []byte("3"))
	b.Delete([]byte("nobody"))
	mark := b.Mark()
	b.Put([]byte("d"), []byte("rolled back"))
	b.DeleteRange([]byte("a"), []byte("z"))
	b.Rollback(mark)
	b.Put2([]byte("e"), []byte("he"), []byte("ad"))
	st.commit(&b)
	want := []string{"a=2", "c=3", "d=0", "e=head"}
	check := func(t *testing.T, r engine.Reader) {
		if got := rows(t, r.Iter(nil, nil, false)); !slices.Equal(got, want) {
			t.Errorf("rows = %q, want %q", got, want)
		}
	}
	st.both(check)
	s.cycle(st)
	st.both(check)
}

func testDeleteRange(t *testing.T, s *suite) {
	st := s.begin(t)
	for k, v := range pairs(20) {
		st.put(k, v)
	}
	var b engine.Batch
	b.Put([]byte("k005"), []byte("gone"))
	b.DeleteRange([]byte("k002"), []byte("k018"))
	b.Put([]byte("k010"), []byte("back"))
	b.DeleteRange([]byte("k000"), []byte("k001"))
	b.DeleteRange([]byte("k019"), []byte("k019")) // empty
	b.DeleteRange([]byte("k019"), []byte("k001")) // reversed: empty
	st.commit(&b)
	want := []string{"k001=v1", "k010=back", "k018=v18", "k019=v19"}
	check := func(t *testing.T, r engine.Reader) {
		if got := rows(t, r.Iter(nil, nil, false)); !slices.Equal(got, want) {
			t.Errorf("rows = %q, want %q", got, want)
		}
		if got := st.get(r, "k005"); got != "none" {
			t.Errorf("k005 = %s", got)
		}
	}
	st.both(check)
	s.cycle(st)
	st.both(check)
}

func testEmptyCommit(t *testing.T, s *suite) {
	st := s.begin(t)
	st.put("a", "1")
	ticket := st.commit(new(engine.Batch))
	if ticket > st.Committed() {
		t.Errorf("ticket %d of an empty commit is above Committed %d", ticket, st.Committed())
	}
	await(t, "an empty commit to be durable", func() bool { return st.Durable() >= ticket })
}

func testLargeCommit(t *testing.T, s *suite) {
	st := s.begin(t)
	var b engine.Batch
	value := bytes.Repeat([]byte("0123456789abcdef"), 2<<10) // 32 KiB
	for i := range 150 {
		b.Put(binary.BigEndian.AppendUint32([]byte("big"), uint32(i)), value)
	}
	ticket := st.commit(&b)
	await(t, "a large commit to be durable", func() bool { return st.Durable() >= ticket })
	s.cycle(st)
	v := st.view()
	defer v.Close()
	n, it := 0, v.Iter(nil, nil, true)
	for it.Next() {
		if n++; !bytes.Equal(it.Value(), value) {
			t.Errorf("row %x has another value", it.Key())
		}
	}
	if err := it.Close(); err != nil || n != 150 {
		t.Errorf("%d rows, %v", n, err)
	}
}

func testCounter(t *testing.T, s *suite) {
	st := s.begin(t)
	var b engine.Batch
	b.Add([]byte("n"), 5)
	b.Add([]byte("n"), -2)
	b.Add([]byte("m"), 1)
	b.Add([]byte("zero"), 1)
	b.Add([]byte("zero"), -1)
	st.commit(&b)
	b.Reset()
	mark := b.Mark()
	b.Add([]byte("n"), 100)
	b.Rollback(mark)
	b.Add([]byte("n"), -10)
	// Counters are no rows: neither found nor deleted as such.
	b.Put([]byte("n"), []byte("row"))
	b.DeleteRange(nil, bytes.Repeat([]byte{0xff}, 64))
	st.commit(&b)
	b.Reset()
	for i := range 200 {
		b.Add(fmt.Appendf(nil, "c%d", i%40), int64(i))
	}
	st.commit(&b)
	check := func() {
		for key, want := range map[string]int64{"n": -7, "m": 1, "zero": 0, "none": 0, "c0": 0 + 40 + 80 + 120 + 160, "c39": 39 + 79 + 119 + 159 + 199} {
			if got := st.counter(key); got != want {
				t.Errorf("counter %s = %d, want %d", key, got, want)
			}
		}
		v := st.view()
		defer v.Close()
		if got := rows(t, v.Iter(nil, nil, false)); len(got) != 0 {
			t.Errorf("rows beside counters: %q", got)
		}
	}
	check()
	s.cycle(st)
	check()
	s.cycle(st)
	check()
}

func testCounterConcurrent(t *testing.T, s *suite) {
	st := s.begin(t)
	const writers, each = 8, 60
	var wg sync.WaitGroup
	for w := range writers {
		wg.Go(func() {
			var b engine.Batch
			for i := range each {
				b.Reset()
				b.Put(fmt.Appendf(nil, "w%d-%d", w, i), nil)
				b.Add([]byte("rows"), 1)
				b.Add(fmt.Appendf(nil, "w%d", w), -int64(i))
				if err := commit(st.Engine, &b); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	check := func() {
		if got := st.counter("rows"); got != writers*each {
			t.Errorf("rows = %d, want %d", got, writers*each)
		}
		for w := range writers {
			if got := st.counter(fmt.Sprint("w", w)); got != -each*(each-1)/2 {
				t.Errorf("w%d = %d", w, got)
			}
		}
	}
	check()
	s.cycle(st)
	check()
}

// commit is store.commit for goroutines other than the test's.
func commit(e engine.Engine, b *engine.Batch) error {
	ticket, err := apply(e, b)
	if err == nil && ticket > e.Committed() {
		err = fmt.Errorf("ticket %d is above Committed %d", ticket, e.Committed())
	}
	return err
}

func testTickets(t *testing.T, s *suite) {
	st := s.begin(t)
	var last engine.Ticket
	for i := range 50 {
		ticket := st.put("k", fmt.Sprint(i))
		if ticket <= last {
			t.Fatalf("ticket %d after %d", ticket, last)
		}
		if c := st.Committed(); c < ticket {
			t.Fatalf("Committed %d is below ticket %d", c, ticket)
		}
		if d, c := st.Durable(), st.Committed(); d > c {
			t.Fatalf("Durable %d is above Committed %d", d, c)
		}
		last = ticket
	}
	await(t, "all to be durable", func() bool { return st.Durable() >= last })
	if st.Durable() != st.Committed() {
		t.Errorf("at rest Durable is %d, Committed %d", st.Durable(), st.Committed())
	}
	if err := st.Err(); err != nil {
		t.Errorf("Err = %v", err)
	}
	// Under concurrency: unique, and Durable only grows.
	var wg sync.WaitGroup
	var seen sync.Map
	for range 4 {
		wg.Go(func() {
			var b engine.Batch
			var durable engine.Ticket
			for range 50 {
				b.Reset()
				b.Put([]byte("x"), []byte("y"))
				ticket, err := apply(st.Engine, &b)
				if _, twice := seen.LoadOrStore(ticket, true); twice || err != nil {
					t.Errorf("ticket %d twice: %v, error %v", ticket, twice, err)
				}
				d := st.Durable()
				if d < durable {
					t.Errorf("Durable fell from %d to %d", durable, d)
				}
				durable = d
			}
		})
	}
	wg.Wait()
}

// The hook is called after Durable has grown. An engine whose commits are
// durable when Commit returns need not call it.
func testOnDurable(t *testing.T, s *suite) {
	st := s.begin(t)
	woken := make(chan struct{}, 1)
	st.OnDurable(func() {
		st.Durable() // no lock is held: the hook may call the engine
		select {
		case woken <- struct{}{}:
		default:
		}
	})
	for i := range 30 {
		ticket := st.put("k", fmt.Sprint(i))
		// Only the hook ends the wait: if it is not called after the growth, the test hangs.
		for st.Durable() < ticket {
			<-woken
		}
	}
	var calls atomic.Int64
	st.OnDurable(func() { calls.Add(1) }) // replaces the first
	ticket := st.put("k", "last")
	if st.Durable() < ticket {
		await(t, "the second hook", func() bool { return st.Durable() >= ticket && calls.Load() > 0 })
	}
}

// A reader that saw one row of a commit must find the others.
func testAtomicVisibility(t *testing.T, s *suite) {
	st := s.begin(t)
	const readers, commits = 3, 150
	stop := make(chan struct{})
	var wg sync.WaitGroup
	for r := range readers {
		wg.Go(func() {
			first, second := []byte("first"), []byte("second")
			if r%2 == 1 {
				first, second = second, first
			}
			for {
				select {
				case <-stop:
					return
				default:
				}
				v, err := st.Begin(engine.ViewOptions{})
				if err != nil {
					t.Error(err)
					return
				}
				a, _, err1 := v.Get(first, nil)
				committed := st.Committed()
				v.Close()
				if v, err = st.Begin(engine.ViewOptions{}); err != nil { // a shared engine's view is a snapshot
					t.Error(err)
					return
				}
				b, _, err2 := v.Get(second, nil)
				v.Close()
				if err := errors.Join(err1, err2); err != nil {
					t.Error(err)
				}
				if number(a) > number(b) {
					t.Errorf("saw %s=%d, then %s=%d", first, number(a), second, number(b))
				}
				if number(a) > uint64(committed) {
					t.Errorf("saw the row of commit %d, Committed is %d", number(a), committed)
				}
			}
		})
	}
	var b engine.Batch
	for i := range uint64(commits) {
		b.Reset()
		value := binary.BigEndian.AppendUint64(nil, i+1)
		b.Put([]byte("first"), value)
		for k, v := range pairs(10) {
			b.Put([]byte(k), []byte(v))
		}
		b.Put([]byte("second"), value)
		st.commit(&b)
	}
	close(stop)
	wg.Wait()
}

func number(p []byte) uint64 {
	if len(p) < 8 {
		return 0
	}
	return binary.BigEndian.Uint64(p)
}

// Every commit moves an amount between rows: each snapshot must find the same total,
// and a walk over a view every row.
func testConsistentIteration(t *testing.T, s *suite) {
	st := s.begin(t)
	st.needsMoments() // testValidate is its like
	const accounts, start = 16, 100
	account := func(i int) []byte { return fmt.Appendf(nil, "acc%02d", i) }
	var b engine.Batch
	for i := range accounts {
		b.Put(account(i), binary.BigEndian.AppendUint64(nil, start))
	}
	st.commit(&b)
	stop := make(chan struct{})
	var wg sync.WaitGroup
	total := func(r engine.Reader, reverse bool) (sum uint64) {
		it := r.Iter([]byte("acc"), []byte("acd"), reverse)
		rows := 0
		for ; it.Next(); rows++ {
			sum += number(it.Value())
		}
		if rows != accounts {
			t.Errorf("%d accounts, want %d", rows, accounts)
		}
		if err := it.Close(); err != nil {
			t.Error(err)
		}
		return sum
	}
	for r := range 2 {
		wg.Go(func() {
			for n := 0; ; n++ {
				select {
				case <-stop:
					return
				default:
				}
				var sum uint64
				if r == 0 {
					v, err := st.Begin(engine.ViewOptions{})
					if err != nil {
						t.Error(err)
						return
					}
					total(v, n%2 == 1) // of each account either state
					sum = accounts * start
					v.Close()
				} else {
					snap, err := st.Engine.Snapshot()
					if err != nil {
						t.Error(err)
						return
					}
					if sum = total(snap, false); sum != total(snap, true) {
						t.Error("a snapshot has two totals")
					}
					if err := snap.Close(); err != nil {
						t.Error(err)
					}
				}
				if sum != accounts*start {
					t.Errorf("total is %d, want %d", sum, accounts*start)
					return
				}
			}
		})
	}
	for n := range 300 {
		from, to := account(n%accounts), account((n*7+3)%accounts)
		if bytes.Equal(from, to) {
			continue
		}
		v := st.view()
		a, _, _ := v.Get(from, nil)
		z, _, _ := v.Get(to, nil)
		b.Reset()
		b.Put(from, binary.BigEndian.AppendUint64(nil, number(a)-1))
		b.Put(to, binary.BigEndian.AppendUint64(nil, number(z)+1))
		if _, err := v.Commit(&b); err != nil {
			t.Error(err)
		}
		v.Close()
	}
	close(stop)
	wg.Wait()
}

// What a commit wrote is visible to every reader that starts after it.
func testReadYourCommit(t *testing.T, s *suite) {
	st := s.begin(t)
	var wg sync.WaitGroup
	for w := range 4 {
		wg.Go(func() {
			var b engine.Batch
			key := fmt.Appendf(nil, "w%d", w)
			for i := range uint64(60) {
				b.Reset()
				b.Put(key, binary.BigEndian.AppendUint64(nil, i))
				if err := commit(st.Engine, &b); err != nil {
					t.Error(err)
				}
				v, err := st.Begin(engine.ViewOptions{})
				if err != nil {
					t.Error(err)
					return
				}
				if got, _, err := v.Get(key, nil); err != nil || number(got) != i {
					t.Errorf("after commit %d: %d, %v", i, number(got), err)
				}
				v.Close()
			}
		})
	}
	wg.Wait()
}

func testCheckpoint(t *testing.T, s *suite) {
	st := s.begin(t)
	st.put("a", "1")
	err := st.Checkpoint(filepath.Join(t.TempDir(), "copy"))
	if c := st.Capabilities(); c.Durable && !c.Remote {
		if err != nil {
			t.Errorf("Checkpoint: %v", err)
		}
	} else if !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("Checkpoint = %v, want ErrUnsupported", err)
	}
	if st.Capabilities().Durable != (s.reopen != nil) {
		t.Error("a durable engine, and only such, gives Reopen to the suite")
	}
	if _, shared := st.Engine.(engine.Shared); st.Capabilities().Shared != shared {
		t.Errorf("the engine says that it is shared: %v; it is: %v", st.Capabilities().Shared, shared)
	}
}

func testStats(t *testing.T, s *suite) {
	st := s.begin(t)
	for i := range 10 {
		st.put("k", fmt.Sprint(i))
	}
	await(t, "all to be durable", func() bool { return st.Durable() == st.Committed() })
	await(t, "the commits in the figures", func() bool { return st.Stats().Commits >= 10 })
	if n := st.Stats().PendingTicket; n != 0 {
		t.Errorf("%d pending at rest", n)
	}
	names := map[string]bool{}
	for _, d := range st.Stats().Detail {
		if names[d.Name] || d.Name == "" {
			t.Errorf("figure %q comes twice or has no name", d.Name)
		}
		names[d.Name] = true
	}
}

func testClose(t *testing.T, s *suite) {
	st := s.begin(t)
	st.put("a", "1")
	v := st.view()
	v.Close()
	if err := st.Engine.Close(); err != nil {
		t.Fatalf("Close: %v", err)
	}
	if d, c := st.Durable(), st.Committed(); d != c {
		t.Errorf("after Close Durable is %d, Committed %d", d, c)
	}
	if _, err := st.Begin(engine.ViewOptions{}); !errors.Is(err, engine.ErrClosed) {
		t.Errorf("Begin after Close: %v", err)
	}
	if _, err := st.Engine.Snapshot(); !errors.Is(err, engine.ErrClosed) {
		t.Errorf("Snapshot after Close: %v", err)
	}
}
