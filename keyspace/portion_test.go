package keyspace

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"redoubt/engine"
	"redoubt/engine/enginetest"
	"redoubt/engine/mem"
)

// The views that a transaction reads through besides the engine's tell the places of rows as
// the contract says: a portion of a large value that lies over the committed rows, and the
// rows of a new value, of which the engine has none.
func TestViewsTellPlacesOfRows(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(enginetest.Seed(t), 1))
	keys := make([][]byte, 300)
	for i := range keys {
		keys[i] = fmt.Appendf(nil, "0000000-%03d", i)
	}
	random := func(b *engine.Batch, rows map[string]string) {
		for range 100 {
			key := keys[rng.IntN(len(keys))]
			if rng.IntN(3) == 0 {
				b.Delete(key)
				delete(rows, string(key))
			} else {
				rows[string(key)] = fmt.Sprint(rng.IntN(1000))
				b.Put(key, []byte(rows[string(key)]))
			}
		}
	}
	eng := mem.New()
	view, err := eng.Begin(engine.ViewOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer view.Close()
	var stored, pending, own engine.Batch
	rows := map[string]string{}
	random(&stored, rows)
	if _, err := view.Commit(&stored); err != nil {
		t.Fatal(err)
	}
	random(&pending, rows)
	over := &portion{view, engine.Txn{View: view, Batch: &pending}}
	enginetest.CheckRanked(t, rng, "portion", over, rows, keys, false)
	random(&own, rows)
	enginetest.CheckRanked(t, rng, "transaction over a portion", &engine.Txn{View: over, Batch: &own}, rows, keys, false)

	enginetest.CheckRanked(t, rng, "no view", noView, nil, keys, true)
	var made engine.Batch
	rows = map[string]string{}
	random(&made, rows)
	enginetest.CheckRanked(t, rng, "a new value", &engine.Txn{View: noView, Batch: &made}, rows, keys, false)
}
