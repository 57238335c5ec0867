package keyspace

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"redoubt/engine"
	"redoubt/engine/mem"
	"redoubt/internal/sharedmem"
)

// recount counts a database; while the keys are counted it calls during.
func (s *testStore) recount(db int, during func()) (r *Recount, keys, volatile int64) {
	s.t.Helper()
	r, err := s.space.BeginRecount(db)
	if err != nil {
		s.t.Fatal(err)
	}
	during()
	err = s.space.CountAll(r, func() bool { return false })
	if err := errors.Join(err, r.End()); err != nil {
		s.t.Fatal(err)
	}
	s.do(0, func(tx *Tx) { keys, volatile = tx.Correct(r) })
	return r, keys, volatile
}

// off puts the counters of a database wrong.
func (s *testStore) off(db int, keys, volatile int64) {
	s.do(db, func(tx *Tx) {
		tx.count(sysKeys, tx.ks(), keys)
		tx.count(sysVolatile, tx.ks(), volatile)
	})
}

func TestRecountCorrects(t *testing.T) {
	t.Parallel()
	for name, eng := range map[string]engine.Engine{"local": mem.New(), "shared": sharedmem.New().Open()} {
		t.Run(name, func(t *testing.T) {
			s := openStore(t, eng)
			s.fill(0, names("k", 5000))
			s.do(2, func(tx *Tx) {
				for i := range 30 {
					put(tx, fmt.Sprint("t", i), "v", testNow+1)
				}
				put(tx, "forever", "v", 0)
			})
			r, keys, volatile := s.recount(2, func() {})
			equal(t, "right", []int64{r.Keys, r.Volatile, keys, volatile}, []int64{31, 30, 0, 0})
			s.off(2, -7, 5)
			s.now += 10 // the keys are past their time, and still counted
			r, keys, volatile = s.recount(2, func() {})
			equal(t, "found", []int64{r.Keys, r.Volatile, keys, volatile}, []int64{31, 30, 7, -5})
			keys, volatile = s.count(2)
			equal(t, "corrected", []int64{keys, volatile}, []int64{31, 30})
			r, _, _ = s.recount(0, func() {})
			equal(t, "another database", r.Keys, 5000)
			r, _, _ = s.recount(1, func() {})
			equal(t, "an empty one", r.Keys, 0)
		})
	}
}

// What is written while the keys are counted is not in the count, and stays in the
// counter.
func TestRecountWhileOthersWrite(t *testing.T) {
	t.Parallel()
	s := newTestStore(t)
	s.fill(0, names("k", 100))
	s.off(0, -13, 0)
	r, keys, _ := s.recount(0, func() { s.fill(0, names("new", 50)) })
	equal(t, "of that moment", []int64{r.Keys, keys}, []int64{100, 13})
	n, _ := s.count(0)
	equal(t, "now", n, 150)
}

// On a shared store a count between what the counter said before and after is
// believed to be right.
func TestRecountOfAMovingCounter(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ n, before, after, want int64 }{
		{10, 10, 10, 0}, {10, 8, 12, 0}, {10, 12, 8, 0}, {15, 8, 12, 3}, {15, 12, 8, 3}, {5, 8, 12, -3}, {5, 12, 8, -3},
	} {
		equal(t, fmt.Sprint(c), beyond(c.n, c.before, c.after), c.want)
	}
}

func TestRecountStops(t *testing.T) {
	t.Parallel()
	s := newTestStore(t)
	s.fill(0, names("k", 10_000))
	r, err := s.space.BeginRecount(0)
	if err != nil {
		t.Fatal(err)
	}
	defer r.End()
	if err := s.space.CountAll(r, func() bool { return true }); err != nil || r.Keys == 0 || r.Keys >= 10_000 {
		t.Errorf("%d keys, %v", r.Keys, err)
	}
}

// Other processes write to a flushed database until the flush is in effect. It is
// not cleared before, or what they write would stay for ever.
func TestAFlushIsInEffectBeforeItIsCleared(t *testing.T) {
	t.Parallel()
	shared := sharedmem.New()
	now := time.UnixMilli(testNow)
	shared.SetClock(func() time.Time { return now })
	s := openStore(t, shared.Open())
	s.do(0, func(tx *Tx) {
		put(tx, "k", "v", 0)
		for i := range byte(2) { // so that this process is not alone
			tx.PutRow(MemberRow([MemberIDSize]byte{i}), []byte("{}"))
		}
	})
	s.do(0, func(tx *Tx) { tx.Flush(0) })
	dead := func() bool {
		s.begin()
		defer s.view.Close()
		some, err := s.space.Dead(s.view)
		if err != nil {
			t.Fatal(err)
		}
		return some
	}
	clear := func() {
		var c Clearing
		for more := true; more; {
			s.do(0, func(tx *Tx) { more = tx.ClearDead(&c, 10) })
		}
	}
	clear()
	equal(t, "keys", s.rows()[kindMeta], 1)
	equal(t, "to be cleared", dead(), true)
	now = now.Add(2 * changeDelay)
	clear()
	equal(t, "keys", s.rows()[kindMeta], 0)
	equal(t, "to be cleared", dead(), false)
}

// A group of a shared store is not read from its beginning each time, and yet no
// row is passed over.
func TestDueOnASharedStore(t *testing.T) {
	t.Parallel()
	s := openStore(t, sharedmem.New().Open())
	group := int(SlotOf([]byte("a"))) / expireGroup
	from := func() int64 { return s.space.store.(*sharedStore).groups[group].from(s.now) }
	equal(t, "at first", from(), 0)
	s.set(0, "{a}1", "v", testNow+1)
	s.sweep()
	equal(t, "clean until", s.space.store.(*sharedStore).groups[group].until.Load(), testNow)
	s.now += 100_000
	s.space.Unknown(group)
	equal(t, "swept", s.sweep(), 1)
	equal(t, "from then", from(), s.now-sweptMargin)
	s.set(0, "{a}2", "v", s.now-1000) // late, but not too late
	s.space.Unknown(group)
	equal(t, "swept", s.sweep(), 1)
	s.set(0, "{a}3", "v", testNow) // cannot be, and is found nevertheless
	s.space.Unknown(group)
	equal(t, "swept", s.sweep(), 0)
	s.now += sweptFull + 1
	s.space.Unknown(group)
	equal(t, "swept", s.sweep(), 1)
	equal(t, "unknown", s.space.TakeDue(s.now), []int{})
	s.space.Unknown(7)
	equal(t, "unknown", s.space.TakeDue(s.now), []int{7})
	equal(t, "taken", s.space.TakeDue(s.now), []int{})
}
