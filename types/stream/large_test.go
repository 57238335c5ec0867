package stream

import (
	"testing"

	"redoubt/engine"
	"redoubt/internal/race"
	"redoubt/internal/typestest"
	"redoubt/keyspace"
	"redoubt/types"
)

// counting is an engine that counts what is read.
type counting struct {
	engine.Engine
	gets, iters, rows int
}

func (c *counting) Begin(o engine.ViewOptions) (engine.View, error) {
	v, err := c.Engine.Begin(o)
	return &countingView{v, c}, err
}

type countingView struct {
	engine.View
	c *counting
}

func (v *countingView) Get(key, dst []byte) ([]byte, bool, error) {
	v.c.gets++
	return v.View.Get(key, dst)
}

func (v *countingView) Iter(lo, hi []byte, reverse bool) engine.Iterator {
	v.c.iters++
	return &countingIter{v.View.Iter(lo, hi, reverse), v.c}
}

func (v *countingView) Edge(lo, hi []byte, reverse bool, b []byte) ([]byte, int, bool, error) {
	return engine.EdgeByIter(v, lo, hi, reverse, b)
}

type countingIter struct {
	engine.Iterator
	c *counting
}

func (i *countingIter) Next() bool {
	i.c.rows++
	return i.Iterator.Next()
}

// What a command reads does not depend on how large the stream and its groups
// are.
func TestCosts(t *testing.T) {
	t.Parallel()
	const entries = 20_000
	store := typestest.New(t)
	key, limits := []byte("large"), types.DefaultLimits
	field := [][]byte{[]byte("field"), []byte("value")}
	for first := 0; first < entries; first += 2000 {
		store.Do(func(tx *keyspace.Tx) {
			s, _ := Open(tx, key, &limits)
			for i := range 2000 {
				if err := s.Add(ID{uint64(first + i + 1), 0}, field); err != nil {
					t.Fatal(err)
				}
			}
			s.Save()
		})
	}
	count := &counting{Engine: store.Eng}
	store.Eng = count
	do := func(name string, most int, f func(s *Stream)) {
		t.Helper()
		store.Do(func(tx *keyspace.Tx) {
			s, err := Open(tx, key, &limits)
			if err != nil {
				t.Fatal(err)
			}
			*count = counting{Engine: count.Engine}
			f(s)
			s.Save()
		})
		if n := count.gets + count.iters + count.rows; n > most {
			t.Errorf("%s: %d rows read, %d iterators with %d rows; %d in all are allowed", name, count.gets, count.iters, count.rows, most)
		}
	}
	group := func(s *Stream) *Group { return s.Group([]byte("g")) }
	do("create a group", 2, func(s *Stream) {
		g := s.CreateGroup([]byte("g"), ID{}, 0)
		g.AddConsumer([]byte("a"))
		g.AddConsumer([]byte("b"))
		g.Save()
	})
	do("read all", 3*entries, func(s *Stream) {
		g := group(s)
		if n := g.Read(g.Consumer([]byte("a")), entries-100, false, func(ID, Entry) {}); n != entries-100 {
			t.Errorf("%d entries read", n)
		}
		g.Save()
	})
	do("add", 0, func(s *Stream) {
		if err := s.Add(ID{entries + 1, 0}, field); err != nil {
			t.Fatal(err)
		}
	})
	do("add with a length that is kept nearly", 0, func(s *Stream) {
		if err := s.Add(ID{entries + 2, 0}, field); err != nil {
			t.Fatal(err)
		}
		s.Trim(Trim{MaxLen: s.Len() - 50, Approx: true})
	})
	do("add with a length that is kept", 8, func(s *Stream) {
		if err := s.Add(ID{entries + 3, 0}, field); err != nil {
			t.Fatal(err)
		}
		if n := s.Trim(Trim{MaxLen: s.Len() - 1}); n != 1 {
			t.Errorf("%d entries trimmed", n)
		}
	})
	do("trim a node", 220, func(s *Stream) {
		if n := s.Trim(Trim{MaxLen: s.Len() - 100, Approx: true}); n != 99 {
			t.Errorf("%d entries trimmed", n)
		}
	})
	do("trim half", 3*entries/2/100+20, func(s *Stream) {
		if n := s.Trim(Trim{ByID: true, MinID: ID{entries / 2, 0}}); n != entries/2-101 {
			t.Errorf("%d entries trimmed", n)
		}
	})
	do("a range in the middle", 15, func(s *Stream) {
		n := 0
		s.Each(ID{entries / 2, 5}, MaxID, false, func(ID, Entry) bool { n++; return n < 10 })
	})
	do("the first and the last", 4, func(s *Stream) {
		s.Each(ID{}, MaxID, false, func(ID, Entry) bool { return false })
		s.LastEntry()
	})
	do("delete from the middle", 4, func(s *Stream) {
		if s.Delete(ID{entries/2 + 50, 0}) != 1 {
			t.Error("nothing was deleted")
		}
	})
	do("ack", 4, func(s *Stream) {
		g := group(s)
		if !g.Ack(ID{entries / 2, 0}) {
			t.Error("it was not pending")
		}
		g.Save()
	})
	do("read what is new", 30, func(s *Stream) {
		g := group(s)
		if n := g.Read(g.Consumer([]byte("b")), 10, false, func(ID, Entry) {}); n != 10 {
			t.Errorf("%d entries read", n)
		}
		g.Save()
	})
	do("claim", 5, func(s *Stream) {
		g := group(s)
		p, pending := g.Find(ID{entries/2 + 9, 0})
		g.Claim(p, pending, g.Consumer([]byte("b")), Pending{ID: p.ID, Time: 1, Count: 2})
		g.Save()
	})
	do("what a consumer has pending", 40, func(s *Stream) {
		g, n := group(s), 0
		g.EachPending(g.Consumer([]byte("b")), ID{}, MaxID, func(Pending) bool { n++; return true })
		if n != 11 {
			t.Errorf("%d are pending", n)
		}
	})
	do("its history", 60, func(s *Stream) {
		g, n := group(s), 0
		g.History(g.Consumer([]byte("b")), ID{}, 0, func(ID, Entry) { n++ })
		if n != 11 {
			t.Errorf("%d are pending", n)
		}
		g.Save()
	})
	do("a summary of the pending", 12, func(s *Stream) {
		g := group(s)
		g.PendingEnds()
		g.EachConsumer(func(*Consumer) bool { return true })
	})
	do("delete a consumer that has nearly all", entries+100, func(s *Stream) {
		g := group(s)
		g.Consumer([]byte("a")).Delete()
		g.Save()
	})
	do("read again", 3*entries, func(s *Stream) {
		g := group(s)
		g.SetID(ID{}, NotCounted)
		g.Read(g.AddConsumer([]byte("c")), 0, false, func(ID, Entry) {})
		g.Save()
	})
	do("delete a consumer that has all", 20, func(s *Stream) {
		g := group(s)
		if b := g.Consumer([]byte("b")); b.Pending() != 0 {
			t.Errorf("%d are pending at another", b.Pending())
		}
		g.Consumer([]byte("c")).Delete()
		g.Save()
	})
	do("read once more", 3*entries, func(s *Stream) {
		g := group(s)
		g.SetID(ID{}, NotCounted)
		g.Read(g.AddConsumer([]byte("c")), 0, false, func(ID, Entry) {})
		g.Save()
	})
	do("destroy the group", 15, func(s *Stream) { group(s).Destroy() })
	store.Do(func(tx *keyspace.Tx) {
		s, _ := Open(tx, key, &limits)
		checkRows(t, tx, s)
	})
}

// Adding to a stream allocates nothing.
func TestAllocations(t *testing.T) {
	if race.Enabled {
		t.Skip("not with the race detector")
	}
	store := typestest.New(t)
	key, limits := []byte("key"), types.DefaultLimits
	pairs := [][]byte{[]byte("field"), []byte("value"), []byte("other"), []byte("12345")}
	store.Do(func(tx *keyspace.Tx) {
		id := ID{}
		for _, c := range []struct {
			name string
			trim *Trim
		}{
			{"add", nil},
			{"add and trim nearly", &Trim{MaxLen: 1 << 40, Approx: true}},
		} {
			n := testing.AllocsPerRun(2000, func() {
				tx.Release(0)
				s, err := Open(tx, key, &limits)
				if err != nil {
					t.Fatal(err)
				}
				id, _ = id.Next()
				if err := s.Add(id, pairs); err != nil {
					t.Fatal(err)
				}
				if c.trim != nil {
					s.Trim(*c.trim)
				}
				s.Save()
				s.Release()
			})
			if n > 0 {
				t.Errorf("%s: %.0f allocations", c.name, n)
			}
		}
	})
}
