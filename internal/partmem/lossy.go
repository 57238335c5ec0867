package partmem

import (
	"math/rand/v2"
	"sync"
	"time"

	"redoubt/engine"
	"redoubt/engine/partition"
)

// Lossy is a random source of faults: lost answers of changes that are made, that never are,
// and that are made late; changes that are refused, and slow ones.
func Lossy(seed uint64) func(*partition.Change) Fault {
	var mu sync.Mutex
	rng := rand.New(rand.NewPCG(seed, 7))
	return func(*partition.Change) (f Fault) {
		mu.Lock()
		defer mu.Unlock()
		switch n := rng.IntN(100); {
		case n < 6:
			f.Err, f.Applied = engine.ErrUnknownOutcome, true
		case n < 12:
			f.Err = engine.ErrUnknownOutcome
		case n < 18:
			f.Err, f.Later = engine.ErrUnknownOutcome, time.Duration(rng.IntN(3000))*time.Microsecond
		case n < 20:
			f.Err = engine.ErrUnavailable
		case n < 30:
			f.Delay = time.Duration(rng.IntN(300)) * time.Microsecond
		}
		return f
	}
}
