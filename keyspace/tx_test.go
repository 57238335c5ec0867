package keyspace

import (
	"errors"
	"strings"
	"testing"

	"redoubt/engine"
	"redoubt/engine/mem"
)

func TestFindSeesWhatStoreWrote(t *testing.T) {
	t.Parallel()
	s := newTestStore(t)
	equal(t, "before", s.get(0, "k"), "(none)")
	s.set(0, "k", "v", 0)
	s.set(0, "", "empty name", 0)
	equal(t, "value", s.get(0, "k"), "v")
	equal(t, "empty key", s.get(0, ""), "empty name")
	equal(t, "other database", s.get(1, "k"), "(none)")
	s.do(0, func(tx *Tx) {
		k := []byte("k")
		tx.Remove(k, tx.Find(k))
		equal(t, "inside the batch", tx.Find(k).Exists(), false)
	})
	equal(t, "after", s.get(0, "k"), "(none)")
}

func TestExpiredKeyIsNotFound(t *testing.T) {
	t.Parallel()
	s := newTestStore(t)
	s.set(0, "k", "v", testNow+10)
	s.now += 9
	equal(t, "in time", s.get(0, "k"), "v")
	s.now++
	equal(t, "at its time", s.get(0, "k"), "(none)")
	equal(t, "a reader removes nothing", s.rows()[kindMeta], 1)
	s.do(0, func(tx *Tx) { tx.Find([]byte("k")) })
	equal(t, "a writer does", s.rows(), map[byte]int{system: s.rows()[system]})
	equal(t, "expired", s.fx.Expired, 1)
	equal(t, "events", s.fx.Events, []Event{{ExpiredEv, "expired", 0, []byte("k")}})
	keys, volatile := s.count(0)
	equal(t, "counts", []int64{keys, volatile}, []int64{0, 0})
}

func TestExpireRowFollowsTheKey(t *testing.T) {
	t.Parallel()
	s := newTestStore(t)
	expiries := func() (list []int64) {
		s.eachRow(func(k, _ []byte) {
			if k[0] != system && k[2] == kindExpire {
				row, err := decodeExpireKey(k)
				if err != nil {
					t.Fatal(err)
				}
				list = append(list, row.at)
			}
		})
		return list
	}
	for _, step := range []struct{ expire int64 }{{0}, {testNow + 5}, {testNow + 7}, {testNow + 7}, {0}, {testNow + 9}} {
		s.set(0, "k", "v", step.expire)
		want := []int64{}
		if step.expire != 0 {
			want = append(want, step.expire)
		}
		equal(t, "expire rows", expiries(), want)
		_, volatile := s.count(0)
		equal(t, "volatile", volatile, len(want))
	}
	s.do(0, func(tx *Tx) { tx.Remove([]byte("k"), tx.Find([]byte("k"))) })
	equal(t, "expire rows after removal", expiries(), []int64{})
}

func TestOverwritingDropsTheRowsOfTheOldValue(t *testing.T) {
	t.Parallel()
	for _, eng := range []engine.Engine{mem.New(), cheap{mem.New()}} {
		s := openStore(t, eng)
		s.do(0, func(tx *Tx) { putExternal(tx, "k", 5, 0) })
		equal(t, "rows", s.rows()[kindSub], 5)
		s.set(0, "k", "short", 0)
		s.clear(2)
		equal(t, "rows after", s.rows()[kindSub], 0)
		equal(t, "garbage", s.rows()[kindGarbage], 0)
		equal(t, "value", s.get(0, "k"), "short")

		s.do(0, func(tx *Tx) { putExternal(tx, "k", 5, 0) })
		s.do(0, func(tx *Tx) { // the same id: its rows stay
			m := tx.Find([]byte("k"))
			n := m
			n.Expire = testNow + 1
			tx.Store([]byte("k"), m, n)
		})
		s.clear(2)
		equal(t, "rows of the same id", s.rows()[kindSub], 5)
	}
}

func TestDetachKeepsTheRows(t *testing.T) {
	t.Parallel()
	s := newTestStore(t)
	s.do(0, func(tx *Tx) { putExternal(tx, "from", 3, testNow+50) })
	s.do(0, func(tx *Tx) {
		m := tx.Find([]byte("from"))
		tx.Detach([]byte("from"), m)
		tx.DB = 2
		tx.Store([]byte("to"), Meta{}, m)
	})
	s.clear(100)
	s.do(2, func(tx *Tx) {
		m := tx.Find([]byte("to"))
		equal(t, "expire", m.Expire, testNow+50)
		equal(t, "rows", external(tx, m), []string{"from/0", "from/1", "from/2"})
	})
	keys, volatile := s.count(0)
	equal(t, "counts of the old", []int64{keys, volatile}, []int64{0, 0})
	keys, volatile = s.count(2)
	equal(t, "counts of the new", []int64{keys, volatile}, []int64{1, 1})
}

func TestDuplicateCopiesRowsUnderAnotherID(t *testing.T) {
	t.Parallel()
	s := newTestStore(t)
	s.do(0, func(tx *Tx) { putExternal(tx, "a", 1000, 0) })
	s.do(0, func(tx *Tx) {
		for kind := byte(kindScore); kind <= kindRank; kind++ { // as a sorted set would have
			r := tx.Find([]byte("a")).Ref()
			tx.PutRow(append(appendPart(nil, r.Home, kind, r.ID), "x"...), make([]byte, pageBytes))
			tx.PutRow(append(appendPart(nil, r.Home, kind, r.ID), "y"...), nil)
		}
	})
	s.do(1, func(tx *Tx) {
		tx.DB = 0
		m := tx.Find([]byte("a"))
		tx.DB = 1
		c := tx.Duplicate([]byte("b"), m)
		if c.Ref().ID == m.Ref().ID || c.Ref().Home != SlotOf([]byte("b")) || c.Ref().Size != m.Ref().Size {
			t.Errorf("refs %+v and %+v", m.Ref(), c.Ref())
		}
		equal(t, "what follows the ref", string(c.Body[refSize:]), "tail")
		tx.Store([]byte("b"), Meta{}, c)
	})
	s.do(0, func(tx *Tx) { tx.Remove([]byte("a"), tx.Find([]byte("a"))) })
	s.clear(1000)
	n := s.rows()
	equal(t, "rows", []int{n[kindSub], n[kindScore], n[kindRank]}, []int{1000, 2, 2})
	s.do(1, func(tx *Tx) {
		rows := external(tx, tx.Find([]byte("b")))
		equal(t, "first and last", []string{rows[0], rows[999]}, []string{"a/0", "a/999"})
	})
}

func TestDuplicateOfMuchNeedsAWorker(t *testing.T) {
	t.Parallel()
	s := newTestStore(t)
	s.do(0, func(tx *Tx) {
		putExternal(tx, "k", 1, 0)
		tx.PutRow(append(AppendRowKey(nil, tx.Find([]byte("k")).Ref(), SubRow), "large"...), make([]byte, 2*heavyBytes))
	})
	s.begin()
	defer s.view.Close()
	s.tx.Worker = false
	s.tx.Start()
	s.tx.Now = s.now
	s.tx.Duplicate([]byte("copy"), s.tx.Find([]byte("k")))
	if !errors.Is(s.tx.Err(), TakesLong) {
		t.Errorf("error %v", s.tx.Err())
	}
}

func TestErrorsAreSticky(t *testing.T) {
	t.Parallel()
	s := newTestStore(t)
	s.set(0, "k", "v", 0)
	s.begin()
	defer s.view.Close()
	s.tx.Start()
	s.tx.Now = s.now
	first := errors.New("first")
	s.tx.Fail(first)
	s.tx.Fail(errors.New("second"))
	if m := s.tx.Find([]byte("k")); m.Exists() {
		t.Error("a failed transaction found something")
	}
	put(&s.tx, "other", "v", 0)
	s.tx.Flush(0)
	s.tx.Swap(0, 1)
	s.tx.Walk(0, nil, func(uint16, []byte, Meta) bool { t.Error("a failed transaction walked"); return false })
	if !s.batch.Empty() || s.tx.Err() != first {
		t.Errorf("batch empty: %v, error %v", s.batch.Empty(), s.tx.Err())
	}
	s.tx.Start()
	equal(t, "after Start", s.tx.Find([]byte("k")).Exists(), true)
}

func TestOnlyWritersWrite(t *testing.T) {
	t.Parallel()
	for name, f := range map[string]func(*Tx){
		"store":  func(tx *Tx) { put(tx, "k", "v", 0) },
		"remove": func(tx *Tx) { tx.Remove([]byte("k"), Meta{Type: String}) },
		"row":    func(tx *Tx) { tx.PutRow([]byte("abc"), nil) },
		"flush":  func(tx *Tx) { tx.Flush(0) },
		"swap":   func(tx *Tx) { tx.Swap(0, 1) },
		"copy": func(tx *Tx) {
			tx.Duplicate([]byte("k"), Meta{Type: String, Encoding: Chunked, Body: make([]byte, refSize)})
		},
	} {
		s := newTestStore(t)
		s.begin()
		s.tx.Start()
		s.tx.Writable = false
		f(&s.tx)
		if err := s.tx.Err(); err == nil || !strings.Contains(err.Error(), "not flagged as a write") || !s.batch.Empty() {
			t.Errorf("%s: error %v, batch empty: %v", name, err, s.batch.Empty())
		}
		s.view.Close()
	}
}

func TestSecondReadNeedsLatches(t *testing.T) {
	t.Parallel()
	s := newTestStore(t)
	s.begin()
	defer s.view.Close()
	s.tx.Start()
	s.tx.Latched, s.tx.Writable = false, false
	s.tx.Find([]byte("a"))
	equal(t, "one read", s.tx.Err(), nil)
	s.tx.Find([]byte("b"))
	if !errors.Is(s.tx.Err(), NeedsLatch) {
		t.Errorf("two reads: %v", s.tx.Err())
	}
}

func TestRollbackLeavesNoTrace(t *testing.T) {
	t.Parallel()
	s := newTestStore(t)
	s.set(0, "k", "v", testNow+5)
	s.begin()
	s.exec(0, func(tx *Tx) { put(tx, "kept", "v", 0) })
	mark := s.exec(0, func(tx *Tx) {
		putExternal(tx, "k", 3, 0)
		tx.Changed(Generic, "x", []byte("k"))
		tx.Read([]byte("nothing"))
		tx.Flush(0)
		tx.Swap(0, 1)
	})
	s.tx.Rollback(mark)
	equal(t, "noted events", s.fx.Events, []Event{{NewEv, "new", 0, []byte("kept")}})
	equal(t, "counts", []int{s.fx.Changes, s.fx.Misses, s.fx.Expired, s.fx.Garbage}, []int{0, 0, 0, 0})
	equal(t, "watermark", s.fx.watermark, 0)
	s.exec(0, func(tx *Tx) { equal(t, "size", tx.Size(), 2) })
	s.commit()
	equal(t, "value", s.get(0, "k"), "v")
	equal(t, "kept", s.get(0, "kept"), "v")
	keys, volatile := s.count(0)
	equal(t, "counts", []int64{keys, volatile}, []int64{2, 1})
	if s.space.watermark.Load() != 0 {
		t.Error("a watermark is known that no commit stored")
	}
}

func TestCorruptMetaRowIsReported(t *testing.T) {
	t.Parallel()
	s := newTestStore(t)
	s.do(0, func(tx *Tx) { tx.PutRow(appendMetaKey(nil, SlotOf([]byte("k")), tx.ks(), []byte("k")), []byte{0x13}) })
	for name, f := range map[string]func(*Tx){
		"find": func(tx *Tx) { tx.Find([]byte("k")) },
		"walk": func(tx *Tx) { tx.Walk(0, nil, func(uint16, []byte, Meta) bool { return true }) },
	} {
		s.begin()
		s.tx.Start()
		f(&s.tx)
		if err := s.tx.Err(); !errors.Is(err, engine.ErrCorrupt) || !strings.Contains(err.Error(), `"k"`) {
			t.Errorf("%s: %v", name, err)
		}
		s.view.Close()
	}
}

func TestHitsMissesAndEvents(t *testing.T) {
	t.Parallel()
	s := newTestStore(t)
	s.set(0, "k", "v", 0)
	s.begin()
	s.exec(3, func(tx *Tx) { tx.Read([]byte("k")) })
	s.exec(0, func(tx *Tx) { tx.Read([]byte("k")); tx.Find([]byte("k")) })
	equal(t, "hits and misses", []int{s.fx.Hits, s.fx.Misses}, []int{1, 1})
	equal(t, "events", s.fx.Events, []Event{{MissEv, "keymiss", 3, []byte("k")}})
	s.tx.Listening = HashEv
	s.exec(0, func(tx *Tx) {
		tx.Changed(Generic, "del", []byte("k"))
		tx.Changed(HashEv, "hset", []byte("k"))
	})
	equal(t, "only what is listened to", len(s.fx.Events), 2)
	equal(t, "changes", s.fx.Changes, 2)
	s.commit()
}

func TestReleaseGivesMemoryBack(t *testing.T) {
	t.Parallel()
	s := newTestStore(t)
	s.set(0, "k", strings.Repeat("x", 1000), 0)
	s.begin()
	defer s.view.Close()
	s.exec(0, func(tx *Tx) {
		first := tx.Find([]byte("k"))
		held := tx.Held()
		for range 1000 {
			tx.Find([]byte("k"))
			tx.Release(held)
		}
		if cap(tx.vals) > 10_000 {
			t.Errorf("%d bytes are held", cap(tx.vals))
		}
		equal(t, "what was read before stays", string(first.Body), strings.Repeat("x", 1000))
	})
}
