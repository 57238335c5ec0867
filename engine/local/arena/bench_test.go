package arena

import (
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"testing"
)

const row = 180 // a key of some 30 bytes, 128 of value, a header

func must(b *testing.B, a *Arena, n int) Ref {
	r, err := a.Alloc(n)
	if err != nil {
		b.Fatal(err)
	}
	return r
}

// fillRows allocates and writes rows, and returns them in random order.
func fillRows(b *testing.B, a *Arena, n int) []Ref {
	refs := make([]Ref, n)
	for i := range refs {
		refs[i] = must(b, a, row)
		clear(a.Bytes(refs[i], row))
	}
	rand.Shuffle(n, func(i, j int) { refs[i], refs[j] = refs[j], refs[i] })
	return refs
}

// The same slot again and again: the least it can cost.
func BenchmarkAllocFree(b *testing.B) {
	for _, n := range []int{row, 5000, 100_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			a := New()
			defer a.Close()
			b.ReportAllocs()
			for b.Loop() {
				a.Free(must(b, a, n), n)
			}
		})
	}
}

// Loading rows, each of them written: with the system's share.
func BenchmarkFill(b *testing.B) {
	for name, options := range map[string][]Option{"huge": nil, "small": {smallPages}} {
		b.Run(name, func(b *testing.B) {
			a := New(options...)
			defer func() { a.Close() }()
			n := 0
			for b.Loop() {
				if n++; n%10_000_000 == 0 { // keep the machine's memory
					a.Close()
					a = New(options...)
				}
				clear(a.Bytes(must(b, a, row), row))
			}
		})
	}
}

// A random row goes and another comes: pages are cold. The bytes are not touched.
func BenchmarkChurn(b *testing.B) {
	for _, rows := range []int{10_000, 1_000_000, 5_000_000} {
		b.Run(fmt.Sprint(rows), func(b *testing.B) {
			a := New()
			defer a.Close()
			refs := fillRows(b, a, rows)
			i := 0
			for b.Loop() {
				a.Free(refs[i], row)
				refs[i] = must(b, a, row)
				if i++; i == rows {
					i = 0
				}
			}
		})
	}
}

// Four goroutines per processor fight for one class.
func BenchmarkContended(b *testing.B) {
	a := New()
	defer a.Close()
	b.SetParallelism(4)
	b.RunParallel(func(pb *testing.PB) {
		var refs [64]Ref
		for i := 0; pb.Next(); i = (i + 1) % len(refs) {
			if refs[i] != 0 {
				a.Free(refs[i], row)
			}
			refs[i] = must(b, a, row)
		}
	})
}

var sink atomic.Int64

// Reading random rows of a gigabyte, one after the other: what huge pages are for.
func BenchmarkRead(b *testing.B) {
	for name, options := range map[string][]Option{"huge": nil, "small": {smallPages}} {
		for _, rows := range []int{1000, 5_000_000} {
			b.Run(fmt.Sprint(name, rows), func(b *testing.B) {
				a := New(options...)
				defer a.Close()
				refs := fillRows(b, a, rows)
				sum, i := 0, 0
				for b.Loop() {
					sum = int(a.Bytes(refs[i+sum&1], row)[8]) // each waits for the one before
					if i++; i == rows-1 {
						i = 0
					}
				}
				sink.Add(int64(sum))
			})
		}
	}
}

// Choosing pages to empty in a gigabyte that lost half of its rows.
func BenchmarkSparse(b *testing.B) {
	a := New()
	defer a.Close()
	refs := fillRows(b, a, 5_000_000)
	for _, r := range refs[:len(refs)/2] {
		a.Free(r, row)
	}
	for b.Loop() {
		a.Sparse(16 << 20)
	}
}

func BenchmarkUsed(b *testing.B) {
	a := New()
	defer a.Close()
	for b.Loop() {
		sink.Add(a.Used())
	}
}
