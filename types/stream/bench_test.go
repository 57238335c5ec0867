package stream

import (
	"testing"

	"redoubt/internal/typestest"
	"redoubt/keyspace"
	"redoubt/types"
)

// BenchmarkAdd adds entries in batches of 64, as an event loop does.
func BenchmarkAdd(b *testing.B) {
	store := typestest.New(b)
	key, limits := []byte("key"), types.DefaultLimits
	pairs := [][]byte{[]byte("field"), []byte("a value of a length that is usual, of some dozens of bytes")}
	id := ID{Ms: 1}
	b.ReportAllocs()
	for i := 0; i < b.N; i += 64 {
		store.Do(func(tx *keyspace.Tx) {
			for range 64 {
				tx.Release(0)
				s, err := Open(tx, key, &limits)
				if err != nil {
					b.Fatal(err)
				}
				id, _ = id.Next()
				if err := s.Add(id, pairs); err != nil {
					b.Fatal(err)
				}
				s.Save()
			}
		})
	}
}
