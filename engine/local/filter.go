package local

import (
	"bytes"
	"errors"
	"time"

	"redoubt/engine"
)

// The Bloom filter of the store's keys (resident/filter.go) is in memory only. An empty store
// has one from the beginning. Otherwise a goroutine builds it by reading all keys of the
// store: after a start, and when the filter has no more room since too many of its keys are
// deleted by now.

const (
	// filterPause is the time between two checks whether a filter is due.
	filterPause = time.Second
	// filterRest is the pause after a build, as a multiple of the time that it took: a
	// store with about as many keys as there is room for may need another soon.
	filterRest = 10
	// filterSlice is how long keys are read before a pause of the same length.
	filterSlice = 5 * time.Millisecond
	// filterRun is how many keys are read by one iterator of the store: it keeps
	// tables from being removed.
	filterRun = 1 << 18
	// filterChunk is how many keys are added at a time.
	filterChunk = 256
)

func (e *Engine) filterLoop() {
	timer := time.NewTimer(0)
	defer timer.Stop()
	var rested time.Time // when another may be made
	for {
		select {
		case <-e.stop:
			return
		case <-timer.C:
		}
		if start := time.Now(); e.set().FilterDue() && start.After(rested) {
			if err := e.buildFilter(); err != nil && !e.closed.Load() {
				e.log.Error("reading the keys for the filter failed", "dir", e.dir, "err", err)
			}
			rested = time.Now().Add(filterRest * time.Since(start))
		}
		e.freeFilters()
		timer.Reset(filterPause)
	}
}

// freeFilters frees the memory of filters that are not used any more.
func (e *Engine) freeFilters() {
	g := e.pin()
	defer g.unpin()
	g.set.FreeFilters()
}

// buildFilter reads all keys of the store into a new filter.
func (e *Engine) buildFilter() error {
	e.round.Lock() // a round that has begun does not add its keys to this filter
	g := e.pin()
	number := g.set.BeginFilter()
	e.round.Unlock()
	defer g.unpin()
	start := time.Now()
	keys := int64(0)
	for at := []byte{}; at != nil; {
		n, next, err := e.readRun(g, at)
		if err != nil || !e.uses(g) {
			g.set.GiveUpFilter(number)
			return err
		}
		keys += n
		at = next
	}
	if g.set.FilterReady(number) {
		e.log.Debug("built the filter of keys", "keys", keys, "took", time.Since(start).Round(time.Millisecond))
	}
	return nil
}

// readRun adds up to about filterRun keys, from key at on, and returns the next key; nil at
// the end, or if there are too many keys.
func (e *Engine) readRun(g *generation, at []byte) (n int64, next []byte, err error) {
	it, err := e.store.iter(e.store.db, at, reserved)
	if err != nil {
		return 0, nil, err
	}
	defer func() {
		if err = errors.Join(err, it.Error(), it.Close()); err != nil {
			err = storeError("reading the store", err)
		}
	}()
	var hashes [filterChunk]uint64
	slice := time.Now()
	for more := it.First(); more && e.uses(g); {
		chunk := hashes[:0]
		for ; more && len(chunk) < filterChunk; more = it.Next() {
			chunk = append(chunk, engine.Hash(it.Key()))
		}
		n += int64(len(chunk))
		if !g.set.AddToFilter(chunk) {
			return n, nil, nil
		}
		if more && n >= filterRun {
			return n, bytes.Clone(it.Key()), nil
		}
		if worked := time.Since(slice); worked > filterSlice {
			select {
			case <-e.stop:
			case <-time.After(worked):
			}
			slice = time.Now()
		}
	}
	return n, nil, nil
}
