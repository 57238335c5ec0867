package cql_test

import (
	"encoding/binary"
	"errors"
	"slices"
	"testing"
	"time"

	"redoubt/engine"
	"redoubt/engine/partition"
	"redoubt/internal/testcql"
)

// A queue is popped from its head: no read passes over as many deleted rows as the node warns
// of. Where rows were deleted otherwise, reads do so until it is remembered where rows begin.
func TestReadsDoNotPassOverWhatWasPopped(t *testing.T) {
	t.Parallel()
	e := open(t, testcql.Prefix(t))
	defer e.Close()
	const size, each = 6000, 50
	key := func(i int) []byte { return binary.BigEndian.AppendUint32([]byte("kq"), uint32(i)) }
	commit := func(f func(v engine.View, b *engine.Batch) error) {
		t.Helper()
		for begin := time.Now(); ; {
			v, err := e.Begin(engine.ViewOptions{})
			if err != nil {
				t.Fatal(err)
			}
			var b engine.Batch
			if err = f(v, &b); err == nil {
				_, err = v.Commit(&b)
			}
			v.Close()
			if err == nil {
				return
			}
			if !errors.Is(err, engine.ErrConflict) || time.Since(begin) > time.Minute {
				t.Fatal(err)
			}
		}
	}
	all := make([]int, size)
	for i := range all {
		all[i] = i
	}
	for some := range slices.Chunk(all, 2000) {
		commit(func(_ engine.View, b *engine.Batch) error {
			for _, i := range some {
				b.Put(key(i), nil)
			}
			return nil
		})
	}
	for popped := 0; popped < size/2; popped += each {
		commit(func(v engine.View, b *engine.Batch) error {
			it := v.Iter([]byte("kq"), []byte("kr"), false)
			for i := range each {
				if !it.Next() || string(it.Key()) != string(key(popped+i)) {
					t.Fatalf("row %d: %q, %v", popped+i, it.Key(), it.Close())
				}
				b.Delete(it.Key())
			}
			return it.Close()
		})
	}
	if n := over(e); n != 0 {
		t.Errorf("%d reads have passed over many deleted rows", n)
	}
	commit(func(_ engine.View, b *engine.Batch) error {
		for i := size / 2; i < size-1; i++ {
			b.Delete(key(i))
		}
		return nil
	})
	first := func(v engine.View, _ *engine.Batch) error {
		row, n, _, err := v.Edge([]byte("kq"), []byte("kr"), false, nil)
		if err == nil && string(row[:n]) != string(key(size-1)) {
			t.Fatalf("the first row is %q", row[:n])
		}
		return err
	}
	commit(first)
	if over(e) == 0 {
		t.Error("the node does not warn of 3,000 deleted rows")
	}
	for begin, before := time.Now(), int64(0); over(e) != before; {
		before = over(e)
		commit(first)
		if time.Since(begin) > time.Minute {
			t.Fatal("every read passes over what was deleted")
		}
	}
}

// over returns how many reads have passed over many deleted rows.
func over(e *partition.Engine) int64 {
	for _, s := range e.Stats().Detail {
		if s.Name == "store_reads_over_deleted_rows" {
			return s.Value
		}
	}
	return -1
}
