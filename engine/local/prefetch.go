package local

import (
	"bytes"
	"cmp"
	"slices"
	"sync"

	"redoubt/engine"
	"redoubt/engine/local/resident"
)

// Prefetch reads many cold rows at once. A command that names a hundred members of a
// collection reads a hundred rows all over it. Prefetch reads them in the order of their
// keys, so that a block of the store is looked up once and not for each row in it, and by
// several goroutines, so that the disk has more than one read to do.

const (
	// fewRows is how many cold rows are read in the order of the call.
	fewRows = 8
	// runRows is how many rows one goroutine reads at least.
	runRows = 16
	// manyReaders is how many goroutines may read for one call, and allReaders for all
	// calls together. When all are busy the caller reads by itself.
	manyReaders = 8
	allReaders  = 32
)

// cold is a row that is not in memory.
type cold struct {
	key   []byte
	hash  uint64
	token uint64 // taken before the read of the store: see resident.Set.Load
}

// Prefetch implements engine.View. A view that may wait loads cold rows.
func (v *view) Prefetch(keys [][]byte) (missing int) {
	e := v.e
	if !v.wait {
		if missing = v.g.set.Prefetch(keys, &v.room); missing == 0 {
			return 0
		}
		return v.prefetchNoWait(keys)
	}
	var list []cold
	for _, key := range keys {
		hash := engine.Hash(key)
		if isReserved(key) || v.g.set.Known(key, hash) {
			continue
		}
		value, state, token := v.g.set.Get(key, hash, v.value[:0])
		v.value = value[:0]
		if state == resident.Unknown {
			list = append(list, cold{key, hash, token})
		}
	}
	if len(list) > fewRows {
		slices.SortFunc(list, func(a, b cold) int {
			if c := bytes.Compare(a.key, b.key); c != 0 {
				return c
			}
			return cmp.Compare(a.hash, b.hash)
		})
	}
	e.fetchMany(v.g, list, v.value)
	return 0
}

// prefetchNoWait reads rows by no-wait reads, and returns how many are cold.
func (v *view) prefetchNoWait(keys [][]byte) (missing int) {
	for _, key := range keys {
		if v.g.set.Known(key, engine.Hash(key)) {
			continue
		}
		// The read of the row returns the error again.
		if value, _, err := v.Get(key, v.value[:0]); err == nil {
			v.value = value
		} else if err == engine.ErrCold {
			missing++
		}
	}
	return missing
}

// fetchMany reads cold rows, sorted by key, and makes them resident. It drops errors: a
// later read of the row returns them.
func (e *Engine) fetchMany(g *generation, list []cold, room []byte) {
	var helpers sync.WaitGroup
	for n := min(len(list)/runRows, manyReaders); n > 1; n-- {
		select {
		case e.readers <- struct{}{}:
		default:
			n = 1
			continue
		}
		run := list[len(list)-len(list)/n:]
		list = list[:len(list)-len(run)]
		helpers.Add(1)
		go func() {
			defer helpers.Done()
			defer func() { <-e.readers }()
			e.fetchRun(g, run, nil)
		}()
	}
	e.fetchRun(g, list, room)
	helpers.Wait()
}

func (e *Engine) fetchRun(g *generation, list []cold, room []byte) {
	for _, c := range list {
		if e.closed.Load() {
			return
		}
		value, _, err := e.fetch(g, c.key, c.hash, room[:0], c.token)
		if err == nil {
			room = value
		}
	}
}
