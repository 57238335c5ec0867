package keyspace

import (
	"errors"
	"fmt"
	"testing"

	"redoubt/engine"
	"redoubt/engine/mem"
)

func init() { asideBytes = 2 * pageBytes } // so that little is much

// asiding is a store where large values are written aside, with a set of many rows.
func asiding(t *testing.T) (s *testStore, commits *int) {
	s, commits = openStore(t, cheap{mem.New()}), new(int)
	s.do(0, func(tx *Tx) { putExternal(tx, "a", 3000, 0) })
	s.do(0, func(tx *Tx) {
		r := tx.Find([]byte("a")).Ref()
		for i := range 10 {
			tx.PutRow(fmt.Appendf(appendPart(nil, r.Home, kindScore, r.ID), "%02d", i), make([]byte, pageBytes))
		}
	})
	s.begin()
	s.tx.CommitAside = func(b *engine.Batch) error {
		if *commits++; int64(b.Size()) > asideBytes+2*pageBytes {
			t.Errorf("%d bytes at once", b.Size())
		}
		v, err := s.eng.Begin(engine.ViewOptions{})
		if err != nil {
			return err
		}
		defer v.Close()
		_, err = v.Commit(b)
		return err
	}
	return s, commits
}

func (s *testStore) copyA(tx *Tx) {
	tx.Store([]byte("b"), Meta{}, tx.Duplicate([]byte("b"), tx.Find([]byte("a"))))
}

func TestALargeCopyIsWrittenAside(t *testing.T) {
	t.Parallel()
	s, commits := asiding(t)
	s.exec(0, s.copyA)
	if size := int64(s.batch.Size()); *commits < 2 || size > asideBytes+pageBytes {
		t.Errorf("%d commits, and %d bytes are left for the last one", *commits, size)
	}
	n := s.rows()
	equal(t, "garbage rows meanwhile", n[kindGarbage], 1)
	s.commit()
	s.tx.Settle(true)
	n = s.rows()
	equal(t, "rows", []int{n[kindSub], n[kindScore], n[kindGarbage]}, []int{6000, 20, 0})
	s.do(0, func(tx *Tx) {
		equal(t, "rows of the copy", external(tx, tx.Find([]byte("b"))), external(tx, tx.Find([]byte("a"))))
	})
	s = openStore(t, s.eng)
	equal(t, "rows after a restart", s.rows()[kindSub], 6000)
}

func TestWhatWasWrittenAsideForNothing(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		end  func(s *testStore, mark TxMark) *testStore
	}{
		{"the command fails", func(s *testStore, mark TxMark) *testStore {
			s.tx.Undo(mark)
			s.commit()
			s.tx.Settle(true)
			return s
		}},
		{"the commit fails", func(s *testStore, _ TxMark) *testStore {
			s.view.Close()
			s.tx.Settle(false)
			return s
		}},
		{"a crash", func(s *testStore, _ TxMark) *testStore {
			s.view.Close()
			return openStore(s.t, s.eng)
		}},
	} {
		s, _ := asiding(t)
		mark := s.exec(0, s.copyA)
		if s.rows()[kindScore] <= 10 {
			t.Error("nothing is written aside")
		}
		used := s.tx.asides[0].ID
		s = c.end(s, mark)
		n := s.rows()
		equal(t, c.name, []int{n[kindSub], n[kindScore], n[kindGarbage]}, []int{3000, 10, 0})
		s.do(0, func(tx *Tx) {
			if id := tx.NewRef([]byte("c"), 0).ID; id <= used {
				t.Errorf("%s: the id %x comes again", c.name, id)
			}
		})
	}
}

func TestALargeCopyOnAFullDisk(t *testing.T) {
	t.Parallel()
	s, _ := asiding(t)
	write, full, n := s.tx.CommitAside, errors.New("full"), 0
	s.tx.CommitAside = func(b *engine.Batch) error {
		if n++; n == 1 {
			return full
		}
		return write(b)
	}
	mark := s.tx.Start()
	s.copyA(&s.tx)
	if !errors.Is(s.tx.Err(), full) {
		t.Errorf("error %v", s.tx.Err())
	}
	s.tx.Undo(mark)
	s.commit()
	s.tx.Settle(true)
	c := s.rows()
	equal(t, "rows", []int{c[kindSub], c[kindScore], c[kindGarbage]}, []int{3000, 10, 0})
}
