package tikv

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/tikv/client-go/v2/tikv"

	"redoubt/engine"
)

// try opens an engine on the mock, as open does, and returns the error.
func (m *mock) try(t testing.TB, o Options) (*Engine, error) {
	t.Helper()
	o.PD = []string{"mock"}
	if err := o.fill(); err != nil {
		return nil, err
	}
	store, err := tikv.NewTestTiKVStore(lasting{m.client}, lastingPD{m.pd}, nil, nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	return newEngine(context.Background(), o, store, false)
}

func (m *mock) put(t testing.TB, prefix string, rows ...string) {
	t.Helper()
	write(t, m.open(t, Options{Prefix: prefix}), rows...)
}

// write writes rows, and closes the engine.
func write(t testing.TB, e *Engine, rows ...string) {
	t.Helper()
	v, err := e.Begin(engine.ViewOptions{})
	if err != nil {
		t.Fatal(err)
	}
	var b engine.Batch
	for _, row := range rows {
		b.Put([]byte(row), []byte("v"))
	}
	b.Add([]byte("\xffkeys"), int64(len(rows)))
	_, err = v.Commit(&b)
	v.Close()
	if err = errors.Join(err, e.Close()); err != nil {
		t.Fatal(err)
	}
}

// forget removes the list of prefixes, as if all stores were of a version without one.
func (m *mock) forget(t testing.TB) {
	t.Helper()
	e := m.open(t, Options{Prefix: "zzz", Reader: true})
	txn, err := e.store.Begin()
	if err != nil {
		t.Fatal(err)
	}
	it, err := txn.Iter([]byte(registry), successor([]byte(registry)))
	if err != nil {
		t.Fatal(err)
	}
	for ; it.Valid(); err = it.Next() {
		if err == nil {
			err = txn.Delete(it.Key())
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(txn.Commit(context.Background()), e.Close()); err != nil {
		t.Fatal(err)
	}
}

func refused(t testing.TB, m *mock, o Options, other string) {
	t.Helper()
	e, err := m.try(t, o)
	if err == nil {
		e.Close()
	}
	if !errors.Is(err, ErrNested) || !strings.Contains(err.Error(), fmt.Sprintf("%q", o.Prefix)) || !strings.Contains(err.Error(), `"`+other) {
		t.Errorf("prefix %q beside %q: error %v", o.Prefix, other, err)
	}
}

func TestNestedPrefixes(t *testing.T) {
	t.Parallel()
	m := newMock(t, "redoubt:5")
	m.put(t, "redoubt:", "a")
	for _, prefix := range []string{"redoubt:a", "redoubt::", "redoubt:\xff"} {
		refused(t, m, Options{Prefix: prefix}, "redoubt:")
	}
	for _, prefix := range []string{"r", "redoubt"} {
		refused(t, m, Options{Prefix: prefix}, "redoubt:")
	}
	for _, prefix := range []string{"redoubt-a:", "redoubt;", "s", "redoubs:", "other", "redoubt:"} {
		m.put(t, prefix, "a")
	}
	for _, prefix := range []string{"", "\x00", registry, registry + "x", strings.Repeat("p", 65)} {
		if e, err := m.try(t, Options{Prefix: prefix}); err == nil || !strings.Contains(err.Error(), "tikv-prefix") {
			t.Errorf("prefix %q: %v", prefix, err)
			e.Close()
		}
	}
	// When a store is removed its prefix is free.
	e := m.open(t, Options{Prefix: "redoubt:", Reader: true})
	gone := int64(0)
	if err := errors.Join(e.Drop(t.Context(), func(n int64) { gone = n }), e.Close()); err != nil || gone < 2 {
		t.Fatalf("%d rows removed: %v", gone, err)
	}
	m.put(t, "redoubt:a", "a")
	refused(t, m, Options{Prefix: "redoubt:"}, "redoubt:a")
	for _, prefix := range []string{"redoubt-a:", "redoubt;"} { // and others were left alone
		e := m.open(t, Options{Prefix: prefix})
		if v, found := rowOf(t, e, "a"); !found || v != "v" {
			t.Errorf("row of %q: %q, %v", prefix, v, found)
		}
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	}
}

func rowOf(t testing.TB, e *Engine, row string) (string, bool) {
	t.Helper()
	v, err := e.Begin(engine.ViewOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer v.Close()
	value, found, err := v.Get([]byte(row), nil)
	if err != nil {
		t.Fatal(err)
	}
	return string(value), found
}

// Stores of versions that registered nothing are found by their rows.
func TestNestedPrefixesOfOldVersions(t *testing.T) {
	t.Parallel()
	unused := [][2][]byte{{{0x40}, {0xff}}}
	m := newMock(t)
	m.put(t, "redoubt:", "\x01\x00\x01")
	m.put(t, "other:", "\x01\x00\x01")
	m.forget(t)
	refused(t, m, Options{Prefix: "redoubt:a"}, "redoubt:")
	m.put(t, "redoubt:", "\x01\x00\x02") // its data is found, and from here on it is registered
	m.forget(t)
	write(t, m.open(t, Options{Prefix: "redoubt:abc", Reader: true, Unused: unused}), "\x01\x00\x01")
	refused(t, m, Options{Prefix: "redoubt:", Unused: unused}, "redoubt:abc")
	refused(t, m, Options{Prefix: "redoubt:", Unused: unused, Reader: true}, "redoubt:abc")
	refused(t, m, Options{Prefix: "redoubt:1", Unused: unused, Reader: true}, "redoubt:") // where redoubt: has rows
	e := m.open(t, Options{Prefix: "redoubt:abc", Reader: true, Unused: unused})          // to move its data away
	if _, found := rowOf(t, e, "\x01\x00\x01"); !found {
		t.Error("the inner store's row is not found")
	}
	if err := errors.Join(e.Drop(t.Context(), func(int64) {}), e.Close()); err != nil {
		t.Fatal(err)
	}
	e = m.open(t, Options{Prefix: "redoubt:", Unused: unused})
	for _, row := range []string{"\x01\x00\x01", "\x01\x00\x02"} {
		if _, found := rowOf(t, e, row); !found {
			t.Errorf("row %q is gone", row)
		}
	}
	if err := e.Close(); err != nil {
		t.Error(err)
	}
}

// Of stores with nested prefixes that are opened at the same time one is.
func TestNestedPrefixesAtOnce(t *testing.T) {
	t.Parallel()
	m := newMock(t)
	prefixes := []string{"p", "pq", "pqr", "pqrs", "pqrst"}
	var opened sync.Map
	var all sync.WaitGroup
	for _, prefix := range append(prefixes, prefixes...) {
		all.Go(func() {
			e, err := m.try(t, Options{Prefix: prefix})
			switch {
			case err == nil:
				opened.Store(prefix, true)
				if err := e.Close(); err != nil {
					t.Error(err)
				}
			case !errors.Is(err, ErrNested):
				t.Errorf("%q: %v", prefix, err)
			}
		})
	}
	all.Wait()
	n := 0
	opened.Range(func(prefix, _ any) bool { n++; t.Log(prefix); return true })
	if n != 1 {
		t.Errorf("%d of them were opened", n)
	}
}
