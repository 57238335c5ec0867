package bitmap

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"redoubt/engine"
	"redoubt/engine/mem"
	"redoubt/keyspace"
)

// BenchmarkSet flips random bits of a bitmap, one commit each.
func BenchmarkSet(b *testing.B) {
	for _, size := range []int64{1 << 10, 8 << 10, 16 << 10, 60 << 10, 100 << 10, 100 << 20} {
		b.Run(fmt.Sprintf("%dK", size>>10), func(b *testing.B) {
			eng := mem.New()
			space, err := keyspace.Open(eng, 1)
			if err != nil {
				b.Fatal(err)
			}
			view, err := eng.Begin(engine.ViewOptions{})
			if err != nil {
				b.Fatal(err)
			}
			defer view.Close()
			var batch engine.Batch
			var fx keyspace.Effects
			tx := keyspace.Tx{Space: space, Rows: engine.Txn{View: view, Batch: &batch}, FX: &fx, NowMicros: 1, Writable: true, Latched: true}
			rnd := rand.New(rand.NewPCG(1, 1))
			key := []byte("k")
			for i := range b.N + 1 {
				tx.Start()
				off := rnd.Int64N(size * 8)
				if i == 0 {
					off = size*8 - 1
					b.ResetTimer()
				}
				if _, err := Set(&tx, key, off, i&1 == 0); err != nil {
					b.Fatal(err)
				}
				if _, err := view.Commit(&batch); err != nil {
					b.Fatal(err)
				}
				batch.Reset()
				fx.Reset()
			}
		})
	}
}
