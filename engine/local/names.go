package local

import (
	"bytes"
	"errors"
	"time"

	"redoubt/engine"
)

// The filter of the store's keys (resident/names.go) is in memory only. That of an
// empty store is there from the beginning. Else it is made by reading all keys of
// the store, behind the scenes: after a start, and when it has come to hold so many
// keys that are deleted by now that there was no more room for others.

const (
	// namesPause is between two looks whether a filter is due.
	namesPause = time.Second
	// namesRest is how many times as long as making one the pause after it is: a
	// store with about as many keys as there is room for may need another soon.
	namesRest = 10
	// namesSlice is how long keys are read before as long a rest.
	namesSlice = 5 * time.Millisecond
	// namesRun is how many keys are read by one iterator of the store: it keeps
	// tables from being removed.
	namesRun = 1 << 18
	// namesChunk is how many are added at a time.
	namesChunk = 256
)

func (e *Engine) namesLoop() {
	timer := time.NewTimer(0)
	defer timer.Stop()
	var rested time.Time // when another may be made
	for {
		select {
		case <-e.stop:
			return
		case <-timer.C:
		}
		if start := time.Now(); e.set.NamesDue() && start.After(rested) {
			if err := e.readNames(); err != nil && !e.closed.Load() {
				e.log.Error("reading the names of rows failed", "dir", e.dir, "err", err)
			}
			rested = time.Now().Add(namesRest * time.Since(start))
		}
		e.set.FreeNames()
		timer.Reset(namesPause)
	}
}

// readNames makes a filter.
func (e *Engine) readNames() error {
	e.round.Lock() // what a round has copied before is not in it
	number := e.set.BeginNames()
	e.round.Unlock()
	start := time.Now()
	keys := int64(0)
	for at := []byte{}; at != nil; {
		n, next, err := e.readRun(at)
		if err != nil || e.closed.Load() {
			e.set.GiveUpNames(number)
			return err
		}
		keys += n
		at = next
	}
	if e.set.NamesReady(number) {
		e.log.Debug("read the names of rows", "keys", keys, "took", time.Since(start).Round(time.Millisecond))
	}
	return nil
}

// readRun adds the keys from one on, and returns where to go on; nil: at the end, or
// they are too many.
func (e *Engine) readRun(at []byte) (n int64, next []byte, err error) {
	it, err := e.store.iter(e.store.db, at, reserved)
	if err != nil {
		return 0, nil, err
	}
	defer func() {
		if err = errors.Join(err, it.Error(), it.Close()); err != nil {
			err = storeError("reading the store", err)
		}
	}()
	var hashes [namesChunk]uint64
	slice := time.Now()
	for more := it.First(); more && !e.closed.Load(); {
		chunk := hashes[:0]
		for ; more && len(chunk) < namesChunk; more = it.Next() {
			chunk = append(chunk, engine.Hash(it.Key()))
		}
		n += int64(len(chunk))
		if !e.set.AddNames(chunk) {
			return n, nil, nil
		}
		if more && n >= namesRun {
			return n, bytes.Clone(it.Key()), nil
		}
		if worked := time.Since(slice); worked > namesSlice {
			select {
			case <-e.stop:
			case <-time.After(worked):
			}
			slice = time.Now()
		}
	}
	return n, nil, nil
}
