package keyspace

import (
	"errors"
	"fmt"
	"math"
	"testing"

	"redoubt/engine"
	"redoubt/engine/mem"
)

func TestDueListsInOrderOfTime(t *testing.T) {
	t.Parallel()
	s := newTestStore(t)
	for i := range 10 { // one slot, so one group
		s.set(i%testDatabases, fmt.Sprintf("{a}%d", i), "v", testNow+int64(100-i))
	}
	group := int(SlotOf([]byte("a"))) / expireGroup
	due := func(now int64, limit int) (at []int64) {
		s.begin()
		defer s.view.Close()
		list, err := s.space.Due(s.view, group, now, limit)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range list {
			at = append(at, d.at-testNow)
		}
		return at
	}
	equal(t, "nothing yet", due(testNow+90, 10), []int64{})
	equal(t, "known since", s.space.due[group].Load()-testNow, 91)
	equal(t, "some", due(testNow+95, 10), []int64{91, 92, 93, 94, 95})
	equal(t, "not removed, so again", due(testNow+95, 2), []int64{91, 92})
	s.now = testNow + 95
	equal(t, "removed", s.sweep(), 5)
	equal(t, "gone", due(testNow+95, 10), []int64{})
	equal(t, "next", s.space.NextDue()-testNow, 96)
	s.now = testNow + 1000
	equal(t, "the rest", s.sweep(), 5)
	equal(t, "nothing left", s.space.NextDue(), math.MaxInt64)
	equal(t, "rows", s.rows()[kindExpire]+s.rows()[kindMeta], 0)
}

func TestDueIsFoundAgainAfterReopening(t *testing.T) {
	t.Parallel()
	eng := mem.New()
	s := openStore(t, eng)
	s.set(0, "k", "v", testNow+1)
	s = openStore(t, eng)
	s.now = testNow + 1
	equal(t, "swept", s.sweep(), 1)
}

func TestExpireChecksTheKeyAgain(t *testing.T) {
	t.Parallel()
	s := newTestStore(t)
	list := func() []Due {
		s.begin()
		defer s.view.Close()
		l, err := s.space.Due(s.view, int(SlotOf([]byte("k")))/expireGroup, testNow+10, 10)
		if err != nil {
			t.Fatal(err)
		}
		return l
	}
	s.set(0, "k", "v", testNow+10)
	l := list()
	s.set(0, "k", "v", testNow+20) // meanwhile it got more time
	s.now = testNow + 15
	s.do(0, func(tx *Tx) { tx.Expire(l[0]) })
	equal(t, "kept", s.get(0, "k"), "v")
	s.set(0, "k", "v", testNow+10)
	l = list()
	s.now = testNow + 5 // the clock went back
	s.do(0, func(tx *Tx) { tx.Expire(l[0]) })
	equal(t, "kept", s.get(0, "k"), "v")
	equal(t, "and still on the list", len(list()), 1)
	s.now = testNow + 10
	s.do(1, func(tx *Tx) { tx.Expire(l[0]) })
	equal(t, "event", s.fx.Events, []Event{{ExpiredEv, "expired", 0, []byte("k")}})
	equal(t, "expired", s.get(0, "k"), "(none)")
	s.do(0, func(tx *Tx) { tx.Expire(l[0]) })
	keys, volatile := s.count(0)
	equal(t, "a second time is harmless", []int64{keys, volatile, int64(s.fx.Expired)}, []int64{0, 0, 0})
}

func TestDueReportsACorruptRow(t *testing.T) {
	t.Parallel()
	s := newTestStore(t)
	s.do(0, func(tx *Tx) { tx.PutRow([]byte{0, 0, kindExpire, 1}, nil) })
	for range 2 { // it does not go unnoticed the second time
		s.begin()
		if _, err := s.space.Due(s.view, 0, testNow, 10); !errors.Is(err, engine.ErrCorrupt) {
			t.Errorf("error %v", err)
		}
		s.view.Close()
	}
}

func TestFlushAndClear(t *testing.T) {
	t.Parallel()
	for _, eng := range []engine.Engine{mem.New(), cheap{mem.New()}} {
		for _, limit := range []int{1, 2, 5, 1000} {
			s := openStore(t, eng)
			s.do(0, func(tx *Tx) {
				for i := range 20 {
					put(tx, fmt.Sprint("k", i), "v", []int64{0, testNow + 10}[i%2])
					putExternal(tx, fmt.Sprint("{tag}x", i), 3, testNow+5)
				}
			})
			s.set(1, "other", "v", 0)
			system0 := s.rows()[system]
			s.do(0, func(tx *Tx) {
				tx.Flush(0)
				equal(t, "size in the batch", tx.Size(), 0)
				put(tx, "k1", "new", 0)
			})
			equal(t, "garbage noted", s.fx.Garbage > 0, true)
			equal(t, "old key", s.get(0, "k2"), "(none)")
			equal(t, "new key", s.get(0, "k1"), "new")
			keys, volatile := s.count(0)
			equal(t, "counts", []int64{keys, volatile}, []int64{1, 0})
			s.clear(limit)
			n := s.rows()
			equal(t, "rows left", []int{n[kindMeta], n[kindSub], n[kindExpire], n[kindGarbage]}, []int{2, 0, 0, 0})
			equal(t, "system rows", n[system], system0)
			s.do(0, func(tx *Tx) { tx.Flush(0); tx.Flush(1) })
			s.clear(100)
		}
	}
}

func TestClearingCanBeginAnew(t *testing.T) {
	t.Parallel()
	s := newTestStore(t)
	s.do(0, func(tx *Tx) {
		for i := range 50 {
			putExternal(tx, fmt.Sprint(i), 2, 0)
		}
		tx.Flush(0)
	})
	for range 30 { // each time a restart loses the place
		var c Clearing
		s.do(0, func(tx *Tx) { tx.Clear(&c, 3) })
	}
	s.clear(3)
	n := s.rows()
	equal(t, "rows left", []int{n[kindMeta], n[kindSub], n[kindGarbage]}, []int{0, 0, 0})
}

func TestExpiryOfAFlushedKey(t *testing.T) {
	t.Parallel()
	s := newTestStore(t)
	s.set(0, "k", "old", testNow+1)
	s.do(0, func(tx *Tx) { tx.Flush(0) })
	s.set(0, "k", "new", 0)
	s.now = testNow + 1
	equal(t, "no expiry is counted", s.sweep(), 0)
	equal(t, "the new key", s.get(0, "k"), "new")
	s.clear(10)
	n := s.rows()
	equal(t, "rows", []int{n[kindMeta], n[kindExpire]}, []int{1, 0})
}

func TestSwap(t *testing.T) {
	t.Parallel()
	eng := mem.New()
	s := openStore(t, eng)
	s.set(0, "k", "zero", testNow+10)
	s.set(1, "k", "one", 0)
	s.do(0, func(tx *Tx) {
		tx.Swap(0, 1)
		tx.Swap(1, 2)
		equal(t, "in the batch", string(tx.Find([]byte("k")).Body), "one")
	})
	for range 2 {
		equal(t, "0", s.get(0, "k"), "one")
		equal(t, "1", s.get(1, "k"), "(none)")
		equal(t, "2", s.get(2, "k"), "zero")
		_, volatile := s.count(2)
		equal(t, "counts", volatile, 1)
		s = openStore(t, eng) // and after opening again
	}
	s.now = testNow + 10
	s.sweep()
	equal(t, "expired in its new database", s.get(2, "k"), "(none)")
}
