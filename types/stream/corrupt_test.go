package stream

import (
	"bytes"
	"errors"
	"fmt"
	"testing"

	"redoubt/engine"
	"redoubt/internal/typestest"
	"redoubt/keyspace"
	"redoubt/types"
)

// sample makes a stream with rows of all sorts.
func sample(t *testing.T) *typestest.Store {
	store := typestest.New(t)
	limits := types.DefaultLimits
	limits.StreamNodeEntries = 3
	store.Do(func(tx *keyspace.Tx) {
		s, _ := Open(tx, []byte("key"), &limits)
		for i := range 10 {
			if err := s.Add(ID{uint64(i + 1), 0}, [][]byte{[]byte("f"), fmt.Append(nil, i)}); err != nil {
				t.Fatal(err)
			}
		}
		g := s.CreateGroup([]byte("g"), ID{}, 0)
		g.Read(g.AddConsumer([]byte("a")), 3, false, func(ID, Entry) {})
		g.Read(g.AddConsumer([]byte("b")), 4, false, func(ID, Entry) {})
		g.Save()
		s.Save()
	})
	return store
}

// use does something of everything with a stream.
func use(tx *keyspace.Tx) {
	s, err := Open(tx, []byte("key"), &types.DefaultLimits)
	if err != nil || !s.Exists() {
		return
	}
	s.Each(ID{}, MaxID, true, func(_ ID, e Entry) bool { e.Valid(); return true })
	s.EachGroup(func(g *Group) bool {
		g.EachConsumer(func(c *Consumer) bool {
			g.EachPending(c, ID{}, MaxID, func(Pending) bool { return true })
			return true
		})
		g.EachPending(nil, ID{}, MaxID, func(Pending) bool { return true })
		g.PendingEnds()
		return true
	})
	if g := s.Group([]byte("g")); g != nil {
		for _, name := range []string{"a", "b"} {
			if c := g.Consumer([]byte(name)); c != nil {
				g.Read(c, 1, false, func(ID, Entry) {})
				g.History(c, ID{}, 0, func(ID, Entry) {})
				p, pending := g.Find(ID{1, 0})
				g.Claim(p, pending, c, Pending{ID: ID{1, 0}})
			}
		}
		g.Ack(ID{2, 0})
		if c := g.Consumer([]byte("a")); c != nil {
			c.Delete()
		}
		g.Save()
		g.Destroy()
	}
	s.Delete(ID{2, 0}, ID{5, 0}, ID{10, 0})
	s.Trim(Trim{MaxLen: 5})
	s.Trim(Trim{ByID: true, MinID: ID{8, 0}, Approx: true})
	s.Trim(Trim{MaxLen: 0})
	s.Save()
}

// Rows that are not what they should be are an error, or go unnoticed: but nothing
// breaks.
func TestCorruptRows(t *testing.T) {
	t.Parallel()
	var keys, values [][]byte
	sample(t).Do(func(tx *keyspace.Tx) {
		s, _ := Open(tx, []byte("key"), &types.DefaultLimits)
		it := tx.IterKind(s.ref, keyspace.SubRow, nil, nil, false)
		for it.Next() {
			keys, values = append(keys, bytes.Clone(rest(it.Key()))), append(values, bytes.Clone(it.Value()))
		}
		tx.CloseRows(it)
	})
	reported := 0
	for i, key := range keys {
		v := values[i]
		for _, bad := range [][]byte{nil, {}, {0xff}, v[:len(v)/2], append(bytes.Clone(v), 1), bytes.Repeat([]byte{0xff}, len(v)), bytes.Repeat([]byte{0}, len(v))} {
			store := sample(t)
			store.Do(func(tx *keyspace.Tx) {
				s, _ := Open(tx, []byte("key"), &types.DefaultLimits)
				row := append(keyspace.AppendRowKey(nil, s.ref, keyspace.SubRow), key...)
				if bad == nil {
					tx.DeleteRow(row)
				} else {
					tx.PutRow(row, bad)
				}
			})
			if err := store.Try(use); errors.Is(err, engine.ErrCorrupt) {
				reported++
			} else if err != nil {
				t.Errorf("row %x: %v", key, err)
			}
		}
	}
	if reported < len(keys) {
		t.Errorf("%d of %d rows were found to be bad", reported, 7*len(keys))
	}
	// A meta row that is too short or too long.
	for _, cut := range []int{-1, 1} {
		store := sample(t)
		store.Do(func(tx *keyspace.Tx) {
			m := tx.Find([]byte("key"))
			bad := m
			if bad.Body = append(bytes.Clone(m.Body), 0); cut < 0 {
				bad.Body = m.Body[:len(m.Body)-1]
			}
			tx.Store([]byte("key"), m, bad)
		})
		if err := store.Try(use); !errors.Is(err, engine.ErrCorrupt) {
			t.Errorf("a body of another length: %v", err)
		}
	}
}
