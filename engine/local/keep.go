package local

import (
	"bytes"
	"errors"
	"time"

	"redoubt/engine/local/resident"
)

// Units of rows that are kept (resident/keep.go) are complete as long as they were
// since they were created. After a start, or when there was no room for them, they
// are not: whoever comes to the store for a row of one wants it to be filled, which
// is done behind the scenes.

const (
	// keepSlice is how long rows are read before as long a rest.
	keepSlice = 5 * time.Millisecond
	// keepAgain is the pause after a try that failed since rows left meanwhile, and
	// keepFull after one for which there was no room.
	keepAgain = time.Second
	keepFull  = 30 * time.Second
)

// want asks for the unit of a key to be filled, if its rows are kept.
func (e *Engine) want(key []byte) {
	if len(e.wanted) > 0 || !e.set.Keeps(key) || time.Now().UnixNano() < e.wantedAgain.Load() {
		return
	}
	select {
	case e.wanted <- bytes.Clone(key):
	default:
	}
}

func (e *Engine) keepLoop() {
	for {
		select {
		case <-e.stop:
			return
		case key := <-e.wanted:
			pause, err := e.fillUnit(key)
			if err != nil && !e.closed.Load() {
				e.log.Error("bringing rows into memory failed", "dir", e.dir, "err", err)
				pause = keepFull
			}
			e.wantedAgain.Store(time.Now().Add(pause).UnixNano())
		}
	}
}

// fillUnit brings in the rows of a unit. It returns how long the next try should wait.
func (e *Engine) fillUnit(key []byte) (pause time.Duration, err error) {
	f := e.set.FillUnit(key)
	if f == nil {
		return 0, nil
	}
	start := time.Now()
	unit := f.Unit()
	hi := behind(unit)
	if hi == nil {
		return keepFull, nil
	}
	it, err := e.store.iter(e.store.db, unit, hi)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, it.Close()) }()
	var c resident.Chunk
	slice := start
	for more := it.First(); more && !e.closed.Load(); {
		c.Reset()
		if more, err = nextRows(it, &c); err != nil {
			return 0, storeError("reading the store", err)
		}
		e.filled.Add(int64(c.Len()))
		if ok, err := f.Add(&c); err != nil || !ok {
			return keepAgain, err
		}
		if e.set.Bytes() > e.rowLimit.Load() {
			kick(e.keeper)
		}
		if !e.set.Keeps(key) {
			return keepFull, nil
		}
		if worked := time.Since(slice); worked > keepSlice {
			select {
			case <-e.stop:
			case <-time.After(worked):
			}
			e.fillNanos.Add(worked.Nanoseconds())
			slice = time.Now()
		}
	}
	if err := it.Error(); err != nil {
		return 0, storeError("reading the store", err)
	}
	e.fillNanos.Add(time.Since(slice).Nanoseconds())
	if e.closed.Load() || !f.Done() {
		return keepAgain, nil
	}
	return 0, nil
}

// behind is the first key behind all with a prefix; nil if there is none.
func behind(prefix []byte) []byte {
	for n := len(prefix); n > 0; n-- {
		if prefix[n-1] != 0xff {
			k := bytes.Clone(prefix[:n])
			k[n-1]++
			return k
		}
	}
	return nil
}
