package types_test

import (
	"testing"

	"redoubt/internal/typestest"
	"redoubt/keyspace"
	"redoubt/types"
	"redoubt/types/hash"
	"redoubt/types/list"
	"redoubt/types/set"
	"redoubt/types/str"
	"redoubt/types/stream"
	"redoubt/types/zset"
)

// functions are those that the package of a collection must have.
type functions[T types.Collection] struct {
	open   func(*keyspace.Tx, []byte, *types.Limits) (T, error)
	read   func(*keyspace.Tx, []byte) (T, error)
	of     func(*keyspace.Tx, []byte, keyspace.Meta) (T, error)
	create func(*keyspace.Tx, []byte, *types.Limits) T
	// fill adds one element, and empty removes it.
	fill, empty func(T)
	stays       bool // without elements
}

func TestCollections(t *testing.T) {
	t.Run("set", functions[*set.Set]{set.Open, set.Read, set.Of, set.Create,
		func(s *set.Set) { s.Add([]byte("m")) }, func(s *set.Set) { s.Remove([]byte("m")) }, false}.test)
	t.Run("hash", functions[*hash.Hash]{hash.Open, hash.Read, hash.Of, hash.Create,
		func(h *hash.Hash) { h.Set([]byte("f"), []byte("v"), 0) }, func(h *hash.Hash) { h.Delete([]byte("f")) }, false}.test)
	t.Run("zset", functions[*zset.ZSet]{zset.Open, zset.Read, zset.Of, zset.Create,
		func(z *zset.ZSet) { z.Add([]byte("m"), 1) }, func(z *zset.ZSet) { z.Remove([]byte("m")) }, false}.test)
	t.Run("list", functions[*list.List]{list.Open, list.Read, list.Of, list.Create,
		func(l *list.List) { l.Push(true, []byte("e")) }, func(l *list.List) { l.Pop(true, 1, func([]byte) {}) }, false}.test)
	t.Run("stream", functions[*stream.Stream]{stream.Open, stream.Read, stream.Of, stream.Create,
		addEntry, func(s *stream.Stream) { s.Delete(s.LastEntry()) }, true}.test)
}

func addEntry(s *stream.Stream) {
	id, err := s.NextID()
	if err == nil {
		err = s.Add(id, [][]byte{[]byte("f"), []byte("v")})
	}
	if err != nil {
		panic(err)
	}
}

func (f functions[T]) test(t *testing.T) {
	t.Parallel()
	key, limits := []byte("k"), &types.DefaultLimits
	const expiry = typestest.SomeTime + 1000
	store := typestest.New(t)
	// expect checks what is at the key: how many elements (-1: no key), and its expiry.
	expect := func(when string, elements, expire int64) {
		t.Helper()
		store.Do(func(tx *keyspace.Tx) {
			m := tx.Find(key)
			v, err := f.of(tx, key, m)
			if err != nil {
				t.Fatalf("%s: %v", when, err)
			}
			n := v.Len()
			if !v.Exists() {
				n = -1
			}
			if n != elements || m.Expire != expire || v.Exists() != m.Exists() {
				t.Errorf("%s: %d elements and expiry %d, want %d and %d", when, n, m.Expire, elements, expire)
			}
			if tx.FX.Hits+tx.FX.Misses != 0 {
				t.Errorf("%s: Of counts hits or misses", when)
			}
			v.Release()
		})
	}
	save := func(when string, v T, gone bool) {
		t.Helper()
		if v.Save() != gone {
			t.Errorf("%s: Save must report %v", when, gone)
		}
		v.Release()
	}

	store.Do(func(tx *keyspace.Tx) {
		v, err := f.read(tx, key)
		if err != nil || v.Exists() || v.Len() != 0 || tx.FX.Misses != 1 {
			t.Errorf("a missing key: %v, %d elements, %d misses", err, v.Len(), tx.FX.Misses)
		}
		save("nothing was done", v, false)
	})
	expect("a missing key was read", -1, 0)

	store.Do(func(tx *keyspace.Tx) {
		str.Set(tx, key, keyspace.Meta{}, []byte("string"), expiry)
		for name, open := range map[string]func() (T, error){
			"Open": func() (T, error) { return f.open(tx, key, limits) },
			"Read": func() (T, error) { return f.read(tx, key) },
			"Of":   func() (T, error) { return f.of(tx, key, tx.Find(key)) },
		} {
			if _, err := open(); err != types.ErrWrongType {
				t.Errorf("%s of a string: %v", name, err)
			}
		}
	})
	store.Do(func(tx *keyspace.Tx) {
		v := f.create(tx, key, limits)
		if !v.Exists() || v.Len() != 0 {
			t.Errorf("Create over a string: exists is %v, %d elements", v.Exists(), v.Len())
		}
		f.fill(v)
		save("created", v, false)
	})
	expect("it replaced a string", 1, 0)

	store.Do(func(tx *keyspace.Tx) { // EXPIRE
		m := tx.Find(key)
		old := m
		m.Expire = expiry
		tx.Store(key, old, m)
		events := len(tx.FX.Events)
		v, err := f.open(tx, key, limits)
		if err != nil || !v.Exists() || v.Len() != 1 {
			t.Fatalf("Open: %v", err)
		}
		f.empty(v)
		if v.Len() != 0 || !v.Exists() {
			t.Errorf("emptied: %d elements, exists is %v", v.Len(), v.Exists())
		}
		f.fill(v)
		save("emptied and filled", v, false)
		if len(tx.FX.Events) != events || tx.FX.Changes != 0 {
			t.Errorf("a type noted %d events and %d changes", len(tx.FX.Events)-events, tx.FX.Changes)
		}
	})
	expect("emptied and filled", 1, expiry)

	store.Do(func(tx *keyspace.Tx) {
		v, _ := f.open(tx, key, limits)
		f.empty(v)
		save("emptied", v, !f.stays)
	})
	if f.stays {
		expect("emptied", 0, expiry)
	} else {
		expect("emptied", -1, 0)
	}

	store.Do(func(tx *keyspace.Tx) {
		str.Set(tx, key, tx.Find(key), []byte("string"), expiry)
		save("created without elements", f.create(tx, key, limits), !f.stays)
	})
	if f.stays {
		expect("replaced by nothing", 0, 0)
	} else {
		expect("replaced by nothing", -1, 0)
	}
}
