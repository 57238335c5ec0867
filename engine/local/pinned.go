package local

import (
	"bytes"
	"errors"
	"time"

	"redoubt/engine/local/resident"
)

// Units of pinned rows (resident/pinned.go) are complete from their creation on, but not
// after a start, or when there was no room for them. A read of such a unit that has to ask
// the store then requests a fill of the unit, which a goroutine does.

const (
	// pinSlice is how long rows are read before a pause of the same length.
	pinSlice = 5 * time.Millisecond
	// pinAgain is the pause after a fill that failed since rows left meanwhile, and
	// pinFull after one for which there was no room.
	pinAgain = time.Second
	pinFull  = 30 * time.Second
)

// requestFill requests a fill of the unit of a key, if its rows are pinned.
func (e *Engine) requestFill(g *generation, key []byte) {
	if len(e.wanted) > 0 || !g.set.Pins(key) || time.Now().UnixNano() < e.wantedAgain.Load() {
		return
	}
	select {
	case e.wanted <- bytes.Clone(key):
	default:
	}
}

func (e *Engine) pinnedLoop() {
	for {
		select {
		case <-e.stop:
			return
		case key := <-e.wanted:
			pause, err := e.fillUnit(key)
			if err != nil && !e.closed.Load() {
				e.log.Error("bringing rows into memory failed", "dir", e.dir, "err", err)
				pause = pinFull
			}
			e.wantedAgain.Store(time.Now().Add(pause).UnixNano())
		}
	}
}

// fillUnit loads the rows of a unit, and returns the pause before the next fill.
func (e *Engine) fillUnit(key []byte) (pause time.Duration, err error) {
	g := e.pin()
	defer g.unpin()
	f := g.set.FillUnit(key)
	if f == nil {
		return 0, nil
	}
	start := time.Now()
	unit := f.Unit()
	hi := behind(unit)
	if hi == nil {
		return pinFull, nil
	}
	it, err := e.store.iter(e.store.db, unit, hi)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, it.Close()) }()
	var c resident.Chunk
	slice := start
	for more := it.First(); more && e.uses(g); {
		c.Reset()
		if more, err = nextRows(it, &c); err != nil {
			return 0, storeError("reading the store", err)
		}
		e.filled.Add(int64(c.Len()))
		if ok, err := f.Add(&c); err != nil || !ok {
			return pinAgain, err
		}
		if g.set.Bytes() > e.rowLimit.Load() {
			wake(e.evictor)
		}
		if !g.set.Pins(key) {
			return pinFull, nil
		}
		if worked := time.Since(slice); worked > pinSlice {
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
	if !e.uses(g) || !f.Done() {
		return pinAgain, nil
	}
	return 0, nil
}

// behind is the first key behind all keys with a prefix; nil if there is none.
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
