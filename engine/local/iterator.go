package local

import (
	"bytes"
	"errors"

	lsm "github.com/cockroachdb/pebble/v2"

	"redoubt/engine"
	"redoubt/engine/local/resident"
)

// iterator merges the rows in memory with those of the store. A row in memory, also a
// tombstone, hides the store's row of that key.
type iterator struct {
	e       *Engine
	g       *generation // pinned while it is open
	open    bool
	lo, hi  []byte
	rows    resident.Range
	freeze  func() uint64     // openPooled as a value, to allocate it once
	from    lsm.Reader        // Pebble's part of a snapshot, if the iterator is of one
	snap    resident.Snapshot // the resident set's part
	own     pooledIterator    // else the store when the iterator was opened
	store   *lsm.Iterator     // nil while all rows are in memory
	reverse bool
	noWait  bool // the iterator must not wait for the disk
	entered bool // the thread is listed at place for no-wait reads, until Close
	place   int
	err     error

	begun              bool // Next was called
	passed             int  // tombstones in memory that were stepped over
	haveRow, haveStore bool
	fromStore          bool // the present row is the store's
	valid              bool
	value              []byte
}

// nextRow moves to the next row in memory. It opens the store where the walk comes to
// rows that may be there.
func (i *iterator) nextRow() {
	i.haveRow = i.rows.Next()
	switch {
	case i.rows.Cold:
		i.err = engine.ErrCold
	case i.rows.Store && i.store == nil:
		i.e.coldReads.Add(1)
		lo, hi := i.lo, i.hi
		if at := resident.PartKey(i.rows.From); !i.reverse && bytes.Compare(at, lo) > 0 {
			lo = at
		} else if at := resident.PartKey(i.rows.From + 1); i.reverse && at != nil && bytes.Compare(at, hi) < 0 {
			hi = at
		}
		if i.openStore(lo, hi); i.err == nil {
			i.stepStore(true)
		}
	}
}

// openStore opens the store's iterator on the range from lo to hi.
func (i *iterator) openStore(lo, hi []byte) {
	switch {
	case i.err != nil:
	case i.own.Iterator == nil:
		i.store, i.err = i.e.store.iter(i.from, lo, hi)
	default:
		if i.store = i.own.Iterator; string(lo) != string(i.lo) || string(hi) != string(i.hi) {
			i.own.bound(lo, hi)
		}
		i.store.ResetStats()
	}
}

func (i *iterator) Next() bool {
	found := i.next()
	if i.err == nil && i.snap.Lost() {
		i.err, i.valid, found = errLost, false, false
	}
	if !i.begun {
		i.begun = true
		i.noteGap(found)
	}
	return found
}

// noteGap tells the resident set how many tombstones lie before the first live row, so that
// the next walk need not step over them again.
func (i *iterator) noteGap(found bool) {
	if i.store == nil || i.own.Iterator == nil || i.err != nil {
		return
	}
	stats := i.store.Stats()
	steps := i.passed + stats.ForwardStepCount[lsm.InternalIterCall] + stats.ReverseStepCount[lsm.InternalIterCall]
	var first []byte
	if found {
		first = i.Key()
	}
	i.rows.NoteGap(first, steps)
}

func (i *iterator) next() bool {
	if i.err != nil || !i.open {
		i.valid = false
		return false
	}
	if i.fromStore {
		i.stepStore(false)
	} else {
		i.nextRow()
	}
	for i.err == nil {
		order := i.order()
		if order == none {
			break
		}
		if i.fromStore = order == storeFirst; i.fromStore {
			i.value, i.err = i.store.ValueAndErr()
			i.valid = i.err == nil
			return i.valid
		}
		if order == both {
			i.stepStore(false)
		}
		if _, _, deleted := i.rows.Row(); !deleted {
			i.valid = true
			return true
		}
		i.passed++
		i.nextRow()
	}
	i.valid = false
	return false
}

const (
	none = iota
	rowFirst
	storeFirst
	both
)

// order returns whether the next row is in memory, in the store, or both.
func (i *iterator) order() int {
	switch {
	case !i.haveRow && !i.haveStore:
		return none
	case !i.haveStore:
		return rowFirst
	case !i.haveRow:
		return storeFirst
	}
	key, _, _ := i.rows.Row()
	c := bytes.Compare(key, i.store.Key())
	switch {
	case c == 0:
		return both
	case c < 0 != i.reverse:
		return rowFirst
	}
	return storeFirst
}

// stepStore is moveStore, by a no-wait read if noWait is set. The thread stays listed from the
// first step until Close: to list it takes longer than most steps.
func (i *iterator) stepStore(first bool) {
	if !i.noWait || i.store == nil {
		i.moveStore(first)
		return
	}
	if !i.entered {
		if i.place, i.entered = i.e.disk.noWait.enter(); !i.entered {
			i.haveStore, i.err = false, engine.ErrCold
			return
		}
	}
	i.moveStore(first)
	if errors.Is(i.err, errWouldWait) {
		i.leaveNoWait(true)
		i.err = engine.ErrCold
	}
}

// leaveNoWait takes the thread of the walk off the list.
func (i *iterator) leaveNoWait(waited bool) {
	if i.entered {
		i.entered = false
		i.e.disk.noWait.leave(i.place, waited)
	}
}

// moveStore moves to the next row of the store that no pending deletion covers.
func (i *iterator) moveStore(first bool) {
	if i.haveStore = false; i.store == nil {
		return
	}
	for ok := true; ok; first = false {
		switch {
		case first && i.reverse:
			ok = i.store.Last()
		case first:
			ok = i.store.First()
		case i.reverse:
			ok = i.store.Prev()
		default:
			ok = i.store.Next()
		}
		if ok && !i.g.set.StoreDeleted(i.store.Key(), i.rows.ID()) {
			i.haveStore = true
			return
		}
	}
	i.err = i.store.Error()
}

func (i *iterator) Key() []byte {
	switch {
	case !i.valid:
		return nil
	case i.fromStore:
		return i.store.Key()
	}
	key, _, _ := i.rows.Row()
	return key
}

func (i *iterator) Value() []byte {
	switch {
	case !i.valid:
		return nil
	case i.fromStore:
		return i.value
	}
	_, value, _ := i.rows.Row()
	return value
}

func (i *iterator) Close() error {
	i.valid = false
	i.leaveNoWait(false)
	var closed error
	if i.own.Iterator != nil {
		closed = i.e.store.release(i.own)
	} else if i.store != nil {
		closed = i.store.Close()
	}
	if i.err == nil {
		i.err = closed
	}
	i.store, i.own = nil, pooledIterator{}
	err := i.err
	if err != nil && !errors.Is(err, engine.ErrClosed) && !errors.Is(err, engine.ErrCold) && !errors.Is(err, engine.ErrSnapshotLost) {
		err = storeError("reading the store", err)
	}
	if i.open {
		i.rows.Close()
		i.g.unpin()
		*i = iterator{e: i.e, lo: i.lo, hi: i.hi, rows: i.rows, freeze: i.freeze}
		i.e.iterators.Put(i)
	}
	return err
}

// iterator returns an iterator that is not open yet.
func (e *Engine) iterator(g *generation, lo, hi []byte, reverse bool) *iterator {
	it, _ := e.iterators.Get().(*iterator)
	if it == nil {
		it = &iterator{e: e}
		it.freeze = it.openPooled
	}
	it.g = g.again()
	it.lo, it.hi, it.reverse, it.open = append(it.lo[:0], lo...), append(it.hi[:0], hi...), reverse, true
	return it
}

// openPooled opens the store as it is now.
func (i *iterator) openPooled() uint64 {
	base := i.e.checkpoint.Load()
	i.own, i.err = i.e.store.poolIter(i.lo, i.hi)
	return base
}
