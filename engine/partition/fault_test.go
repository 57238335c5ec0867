package partition_test

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"redoubt/engine"
	"redoubt/engine/enginetest"
	"redoubt/engine/partition"
	"redoubt/internal/partmem"
)

func number(b []byte) uint64 {
	if len(b) < 8 {
		return 0
	}
	return binary.BigEndian.Uint64(b)
}

// transact runs f until its commit meets no conflict.
func transact(e *partition.Engine, f func(v engine.SharedView, b *engine.Batch) error) error {
	for {
		v, err := e.Begin(engine.ViewOptions{})
		if err != nil {
			return err
		}
		var b engine.Batch
		if err = f(v.(engine.SharedView), &b); err == nil {
			_, err = v.Commit(&b)
		}
		v.Close()
		if !errors.Is(err, engine.ErrConflict) {
			return err
		}
	}
}

// Each of several processes adds to counters in rows of one and of several partitions, while
// answers are lost. What was acknowledged is there once; what failed is not; and rows that
// always change together are equal.
func TestLostAnswers(t *testing.T) {
	t.Parallel()
	seed := enginetest.Seed(t)
	table := partmem.New()
	keys := []string{"a", "b", "b2", "k", "n", "x"}
	var done [6]atomic.Int64
	var unknown [6]atomic.Int64
	var pairs atomic.Int64
	var engines []*partition.Engine
	var stores []*partmem.Store
	for range 3 {
		s := table.Open()
		stores, engines = append(stores, s), append(engines, open(t, s))
	}
	var wg sync.WaitGroup
	for n, e := range engines {
		stores[n].SetFaults(partmem.Lossy(seed + uint64(n)))
		for w := range 4 {
			rng := rand.New(rand.NewPCG(seed, uint64(10*n+w)))
			wg.Go(func() {
				for range 60 {
					some := rng.Perm(len(keys))[:1+rng.IntN(2)*rng.IntN(3)]
					err := transact(e, func(v engine.SharedView, b *engine.Batch) error {
						for _, i := range some {
							was, _, err := v.Get([]byte(keys[i]), nil)
							if err != nil {
								return err
							}
							b.Put([]byte(keys[i]), binary.BigEndian.AppendUint64(nil, number(was)+1))
						}
						return nil
					})
					switch {
					case err == nil:
						for _, i := range some {
							done[i].Add(1)
						}
						pairs.Add(int64(len(some) / 2))
					case errors.Is(err, engine.ErrUnknownOutcome):
						for _, i := range some {
							unknown[i].Add(1)
						}
					case !engine.Transient(err):
						t.Error(err)
					}
				}
			})
		}
	}
	wg.Wait()
	for i, key := range keys {
		for n, e := range engines {
			stores[n].SetFaults(nil)
			v, err := e.Begin(engine.ViewOptions{})
			if err != nil {
				t.Fatal(err)
			}
			got, _, err := v.Get([]byte(key), nil)
			v.Close()
			if err != nil {
				t.Fatal(err)
			}
			if sum, least := int64(number(got)), done[i].Load(); sum < least || sum > least+unknown[i].Load() {
				t.Errorf("%s is %d; %d were acknowledged and %d are unknown", key, sum, least, unknown[i].Load())
			}
		}
	}
	if pairs.Load() == 0 {
		t.Error("no commit over several partitions was acknowledged")
	}
	for _, e := range engines {
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	}
	t.Logf("unknown: %d of some 700", unknown[0].Load()+unknown[1].Load()+unknown[2].Load()+unknown[3].Load()+unknown[4].Load()+unknown[5].Load())
}

// A process that ends between the steps of a commit over several partitions leaves locks.
// Others read around them, abort the transaction or apply it, and all of it is there or none.
func TestDeadTransactions(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name    string
		dies    func(c *partition.Change, n int) bool
		applied bool // the change of the death is made
		want    string
	}{
		{"before the decision", func(c *partition.Change, _ int) bool { return c.Decide != nil }, false, "old"},
		{"after the decision", func(c *partition.Change, _ int) bool { return c.Decide != nil }, true, "new"},
		{"after a lock", func(_ *partition.Change, n int) bool { return n == 1 }, true, "old"},
		{"before the rest is applied", func(c *partition.Change, _ int) bool { return c.Unlock && c.Decide == nil }, false, "new"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			table := partmem.New()
			dying, heir := table.Open(), open(t, table.Open())
			e := open(t, dying)
			old, replaced := batch("a=old", "b=old", "k=old"), batch("a=new", "b=new", "k=new")
			for _, b := range []*engine.Batch{old} {
				v, _ := heir.Begin(engine.ViewOptions{})
				if _, err := v.Commit(b); err != nil {
					t.Fatal(err)
				}
				v.Close()
			}
			awaitNone(t, table)
			n := atomic.Int64{}
			dying.SetFaults(func(change *partition.Change) partmem.Fault {
				if !c.dies(change, int(n.Add(1))) {
					return partmem.Fault{}
				}
				// No statement of the dead process comes behind this one.
				dying.SetFaults(func(*partition.Change) partmem.Fault { return partmem.Fault{Err: engine.ErrUnavailable} })
				return partmem.Fault{Err: engine.ErrUnavailable, Applied: c.applied}
			})
			v, _ := e.Begin(engine.ViewOptions{})
			_, err := v.Commit(replaced)
			v.Close()
			if (err == nil) != (c.name == "before the rest is applied") {
				t.Errorf("Commit = %v", err)
			}
			// Reads do not wait.
			r, _ := heir.Begin(engine.ViewOptions{})
			for _, key := range []string{"a", "b", "k"} {
				if got, _, err := r.Get([]byte(key), nil); string(got) != c.want || err != nil {
					t.Errorf("%s is %s, %v", key, got, err)
				}
			}
			if err := r.(engine.SharedView).Validate(); err != nil {
				t.Errorf("Validate: %v", err)
			}
			r.Close()
			// Writes wait for the bound of a lock at most.
			for _, key := range []string{"k", "b", "a"} {
				if err := transact(heir, func(v engine.SharedView, b *engine.Batch) error {
					got, _, err := v.Get([]byte(key), nil)
					b.Put([]byte(key), append(got, '+'))
					return err
				}); err != nil {
					t.Errorf("write %s: %v", key, err)
				}
			}
			if locks := table.Locks(); len(locks) > 0 {
				t.Errorf("partitions %x are locked still", locks)
			}
			r, _ = heir.Begin(engine.ViewOptions{})
			defer r.Close()
			for _, key := range []string{"a", "b", "k"} {
				if got, _, err := r.Get([]byte(key), nil); string(got) != c.want+"+" || err != nil {
					t.Errorf("%s is %s, %v", key, got, err)
				}
			}
		})
	}
}

// awaitNone waits until no partition is locked.
func awaitNone(t testing.TB, table *partmem.Table) {
	t.Helper()
	for end := time.Now().Add(10 * time.Second); len(table.Locks()) > 0; time.Sleep(100 * time.Microsecond) {
		if time.Now().After(end) {
			t.Fatalf("partitions %x stay locked", table.Locks())
		}
	}
}

// batch makes one of "key=value" and "-key".
func batch(notes ...string) *engine.Batch {
	b := new(engine.Batch)
	for _, n := range notes {
		if n[0] == '-' {
			b.Delete([]byte(n[1:]))
		} else {
			i := slices.Index([]byte(n), '=')
			b.Put([]byte(n[:i]), []byte(n[i+1:]))
		}
	}
	return b
}

// A store that cannot be reached is told as such, within the timeout, and used again once it
// can be reached.
func TestUnreachable(t *testing.T) {
	t.Parallel()
	table := partmem.New()
	s := table.Open()
	e := open(t, s)
	s.Cut(true)
	v, _ := e.Begin(engine.ViewOptions{})
	if _, _, err := v.Get([]byte("a"), nil); !errors.Is(err, engine.ErrUnavailable) {
		t.Errorf("Get: %v", err)
	}
	if err := v.Iter([]byte("a"), []byte("b"), false).Close(); !errors.Is(err, engine.ErrUnavailable) && err != nil {
		t.Errorf("Iter: %v", err)
	}
	if _, err := v.Commit(batch("a=1")); !errors.Is(err, engine.ErrUnavailable) {
		t.Errorf("Commit: %v", err)
	}
	v.Close()
	s.Cut(false)
	v, _ = e.Begin(engine.ViewOptions{})
	defer v.Close()
	if _, err := v.Commit(batch("a=1")); err != nil {
		t.Errorf("Commit after that: %v", err)
	}
}

// Commits of one process that meet at a partition go together.
func TestTogether(t *testing.T) {
	t.Parallel()
	table := partmem.New()
	s := table.Open()
	e := open(t, s)
	hold := make(chan struct{})
	var first atomic.Bool
	s.SetFaults(func(*partition.Change) partmem.Fault {
		if first.CompareAndSwap(false, true) {
			return partmem.Fault{Wait: hold}
		}
		return partmem.Fault{}
	})
	_, _, before := s.Statements()
	var wg sync.WaitGroup
	const writers = 20
	for i := range writers {
		wg.Go(func() {
			if err := transact(e, func(v engine.SharedView, b *engine.Batch) error {
				key := fmt.Appendf(nil, "a%d", i)
				_, _, err := v.Get(key, nil)
				b.Put(key, key)
				return err
			}); err != nil {
				t.Error(err)
			}
		})
	}
	for end := time.Now().Add(10 * time.Second); partition.Waiting(e, 'a'<<8) < writers-1; time.Sleep(100 * time.Microsecond) {
		if time.Now().After(end) {
			t.Error("they do not meet")
			break
		}
	}
	close(hold)
	wg.Wait()
	if _, _, after := s.Statements(); after-before != 2 {
		t.Errorf("%d commits made %d changes, want 2", writers, after-before)
	}
}

// A fence lets no change of before through.
func TestFence(t *testing.T) {
	t.Parallel()
	table := partmem.New()
	s, other := table.Open(), open(t, table.Open())
	e := open(t, s)
	hold := make(chan struct{})
	held := make(chan struct{})
	var once sync.Once
	s.SetFaults(func(c *partition.Change) partmem.Fault {
		if c.Part != 'a'<<8 {
			return partmem.Fault{}
		}
		once.Do(func() { close(held) })
		return partmem.Fault{Wait: hold}
	})
	result := make(chan error)
	go func() {
		v, _ := e.Begin(engine.ViewOptions{})
		defer v.Close()
		_, _, err := v.Get([]byte("a"), nil)
		if err == nil {
			_, err = v.Commit(batch("a=late"))
		}
		result <- err
	}()
	<-held
	if err := other.Fence(); err != nil {
		t.Fatal(err)
	}
	close(hold)
	if err := <-result; err != nil {
		t.Logf("the late commit: %v", err)
	}
	// The late change was refused; the commit may have been made by another one, on the
	// version of the fence, since what it had read is unchanged.
	if _, _, changes := s.Statements(); changes < 2 {
		t.Errorf("%d changes: the late one was not refused", changes)
	}
}
