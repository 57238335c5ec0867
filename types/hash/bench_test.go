package hash

import (
	"fmt"
	"testing"

	"redoubt/internal/typestest"
	"redoubt/keyspace"
	"redoubt/types"
)

// BenchmarkField sets and gets one field of hashes of several sizes.
func BenchmarkField(b *testing.B) {
	for _, size := range []int{10, 100, 500, 10_000, 100_000} {
		s := typestest.New(b)
		limits := types.DefaultLimits
		for from := 0; from < size; from += 1000 {
			s.Do(func(tx *keyspace.Tx) {
				h, _ := Open(tx, testKey, &limits)
				for i := from; i < min(size, from+1000); i++ {
					h.Set(fmt.Appendf(nil, "field:%d", i), []byte("some value of a field"), 0)
				}
				h.Save()
				h.Release()
			})
		}
		field, value := fmt.Appendf(nil, "field:%d", size/2), []byte("some value of a field")
		b.Run(fmt.Sprintf("get/%d", size), func(b *testing.B) {
			b.ReportAllocs()
			s.Do(func(tx *keyspace.Tx) {
				for b.Loop() {
					h, _ := Read(tx, testKey)
					if _, ok := h.Get(field); !ok {
						b.Fatal("no such field")
					}
					h.Release()
					tx.Release(0)
				}
			})
		})
		b.Run(fmt.Sprintf("set/%d", size), func(b *testing.B) {
			b.ReportAllocs()
			s.Do(func(tx *keyspace.Tx) {
				mark := tx.Start()
				for b.Loop() {
					h, _ := Open(tx, testKey, &limits)
					h.Set(field, value, 0)
					h.Save()
					h.Release()
					tx.Rollback(mark)
					tx.Release(0)
				}
			})
		})
	}
}
