package local

import (
	"bytes"
	"errors"
	"fmt"

	lsm "github.com/cockroachdb/pebble/v2"

	"redoubt/engine"
	"redoubt/engine/local/resident"
)

// view reads the latest state and commits to it.
type view struct {
	e      *Engine
	wait   bool
	record []byte // room for a journal record
	value  []byte // room for a value
	room   resident.Room
	hits   int64
	quick  int // how many cold rows it may read in a hurry still
}

// A view that may not wait reads so many cold rows itself if the system has them in
// memory; what needs more is too much for a loop. A walk counts as some.
const (
	quickReads = 64
	walkReads  = 4
)

func (v *view) Close() {
	if cap(v.value) > keepRecord {
		v.value = nil
	}
	if v.hits > 0 {
		v.e.hits.Add(v.hits)
		v.hits = 0
	}
	v.e.views.Put(v)
}

// Get implements engine.Reader.
func (v *view) Get(key, dst []byte) ([]byte, bool, error) {
	e := v.e
	if e.closed.Load() {
		return dst, false, engine.ErrClosed
	}
	if isReserved(key) {
		return dst, false, nil
	}
	hash := engine.Hash(key)
	value, state, token := e.set.Get(key, hash, dst)
	switch {
	case state != resident.Unknown:
		v.hits++
		return value, state == resident.Found, nil
	case !v.wait:
		return v.hasten(key, hash, dst, token)
	}
	return e.fetch(key, hash, dst, token)
}

// hasten is fetch without waiting.
func (v *view) hasten(key []byte, hash uint64, dst []byte, token uint64) ([]byte, bool, error) {
	h := &v.e.disk.hurry
	if v.quick <= 0 {
		return dst, false, engine.ErrCold
	}
	place, ok := h.enter()
	if !ok {
		return dst, false, engine.ErrCold
	}
	v.quick--
	value, found, err := v.e.fetch(key, hash, dst, token)
	waits := errors.Is(err, errWouldWait)
	h.leave(place, waits)
	if waits {
		return dst, false, engine.ErrCold
	}
	v.e.quickReads.Add(1)
	return value, found, err
}

// fetch reads a cold row and brings it in.
func (e *Engine) fetch(key []byte, hash uint64, dst []byte, token uint64) ([]byte, bool, error) {
	e.coldReads.Add(1)
	at := len(dst)
	dst, found, err := e.store.get(e.store.db, key, dst)
	if err != nil {
		return dst[:at], false, err
	}
	limit, taken := e.rowLimit.Load(), e.set.Bytes()
	if taken > limit {
		kick(e.keeper)
	}
	if taken > limit+limit/8 {
		return dst, found, nil // readers are faster than the keeper: not kept
	}
	if err := e.set.Load(key, hash, dst[at:], found, token); err != nil {
		return dst[:at], false, err
	}
	return dst, found, nil
}

// GetMany implements engine.Reader.
func (v *view) GetMany(keys [][]byte, visit func(i int, value []byte, found bool) error) error {
	for i, key := range keys {
		value, found, err := v.Get(key, v.value[:0])
		if err == nil {
			v.value = value
			err = visit(i, value, found)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// Prefetch implements engine.View. A view that may wait loads cold rows.
func (v *view) Prefetch(keys [][]byte) (cold int) {
	e := v.e
	if !v.wait {
		if cold = e.set.Prefetch(keys, &v.room); cold == 0 {
			return 0
		}
	}
	cold = 0
	for _, key := range keys {
		hash := engine.Hash(key)
		if e.set.Known(key, hash) {
			continue
		}
		// An error is met again by whoever reads the row.
		if value, _, err := v.Get(key, v.value[:0]); err == nil {
			v.value = value
		} else if err == engine.ErrCold {
			cold++
		}
	}
	return cold
}

// Iter implements engine.Reader.
func (v *view) Iter(lo, hi []byte, reverse bool) engine.Iterator {
	e := v.e
	if err := e.usable(); err != nil {
		return &iterator{err: err}
	}
	lo, hi, ok := bound(lo, hi)
	if !ok {
		return &iterator{}
	}
	it := e.iterator(lo, hi, reverse)
	if it.hurried = !v.wait; it.hurried && v.quick > 0 {
		v.quick -= walkReads
		e.set.OpenRange(&it.rows, it.lo, it.hi, reverse, !e.disk.hurry.never.Load(), it.freeze)
	} else {
		e.set.OpenRange(&it.rows, it.lo, it.hi, reverse, v.wait, it.freeze)
	}
	return it
}

// iterator returns an iterator that is not open yet.
func (e *Engine) iterator(lo, hi []byte, reverse bool) *iterator {
	it, _ := e.iterators.Get().(*iterator)
	if it == nil {
		it = &iterator{e: e}
		it.freeze = it.openWalker
	}
	it.lo, it.hi, it.reverse, it.open = append(it.lo[:0], lo...), append(it.hi[:0], hi...), reverse, true
	return it
}

// openWalker opens the store as it is now.
func (i *iterator) openWalker() uint64 {
	base := i.e.checkpoint.Load()
	i.own, i.err = i.e.store.walker(i.lo, i.hi)
	return base
}

// Count implements engine.Ranked.
func (v *view) Count(lo, hi []byte) (n int, ok bool) { return v.e.set.Count(lo, hi) }

// Nth implements engine.Ranked.
func (v *view) Nth(lo, hi []byte, n int, b []byte) (key []byte, found, ok bool) {
	return v.e.set.Nth(lo, hi, n, b)
}

// Edge implements engine.Edged.
func (v *view) Edge(lo, hi []byte, reverse bool, b []byte) (row []byte, key int, found, ok bool) {
	return v.e.set.Edge(lo, hi, reverse, b)
}

// bound keeps a range off the engine's own rows.
func bound(lo, hi []byte) (_, _ []byte, ok bool) {
	if hi == nil || bytes.Compare(hi, reserved) > 0 {
		hi = reserved
	}
	return lo, hi, bytes.Compare(lo, hi) < 0
}

// iterator merges the rows in memory with those of the store. A row in memory
// hides the store's, also when it is deleted.
type iterator struct {
	e       *Engine
	open    bool
	lo, hi  []byte
	rows    resident.Range
	freeze  func() uint64 // openWalker, made once
	from    lsm.Reader    // the snapshot that is walked, or
	own     walker        // the store at the time of the opening
	store   *lsm.Iterator // nil while all rows are in memory
	reverse bool
	hurried bool // it must not wait for the disk
	err     error

	haveRow, haveStore bool
	fromStore          bool // the present row is the store's
	valid              bool
	value              []byte
}

// nextRow moves to the next row in memory. Where the walk comes to rows that may
// be in the store, that is opened.
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

// openStore has the walk go on in the store as well, between two keys.
func (i *iterator) openStore(lo, hi []byte) {
	switch {
	case i.err != nil:
	case i.own.Iterator == nil:
		i.store, i.err = i.e.store.iter(i.from, lo, hi)
	default:
		if i.store = i.own.Iterator; string(lo) != string(i.lo) || string(hi) != string(i.hi) {
			i.own.bound(lo, hi)
		}
	}
}

func (i *iterator) Next() bool {
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

// order says whose row comes next.
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

// stepStore is moveStore that does not wait if it must not.
func (i *iterator) stepStore(first bool) {
	if !i.hurried || i.store == nil {
		i.moveStore(first)
		return
	}
	h := &i.e.disk.hurry
	place, ok := h.enter()
	if !ok {
		i.haveStore, i.err = false, engine.ErrCold
		return
	}
	i.moveStore(first)
	waits := errors.Is(i.err, errWouldWait)
	h.leave(place, waits)
	if waits {
		i.err = engine.ErrCold
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
		if ok && !i.e.set.StoreDeleted(i.store.Key(), i.rows.ID()) {
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
	var closed error
	if i.own.Iterator != nil {
		closed = i.e.store.release(i.own)
	} else if i.store != nil {
		closed = i.store.Close()
	}
	if i.err == nil {
		i.err = closed
	}
	i.store, i.own = nil, walker{}
	err := i.err
	if err != nil && !errors.Is(err, engine.ErrClosed) && !errors.Is(err, engine.ErrCold) {
		err = storeError("reading the store", err)
	}
	if i.open {
		i.rows.Close()
		*i = iterator{e: i.e, lo: i.lo, hi: i.hi, rows: i.rows, freeze: i.freeze}
		i.e.iterators.Put(i)
	}
	return err
}

// snapshot is a frozen state: memory by its undo, the store by Pebble's snapshot.
type snapshot struct {
	e     *Engine
	snap  resident.Snapshot
	store *lsm.Snapshot
	value []byte
}

// Snapshot implements engine.Engine.
func (e *Engine) Snapshot() (engine.Snapshot, error) {
	if err := e.usable(); err != nil {
		return nil, err
	}
	s := &snapshot{e: e}
	s.snap = e.set.Freeze(func() uint64 {
		base := e.checkpoint.Load()
		s.store = e.store.db.NewSnapshot()
		return base
	})
	return s, nil
}

func (s *snapshot) Close() error {
	s.e.set.Thaw(s.snap)
	if err := s.store.Close(); err != nil {
		return fmt.Errorf("closing a snapshot: %w", err)
	}
	return nil
}

func (s *snapshot) Get(key, dst []byte) ([]byte, bool, error) {
	if err := s.e.usable(); err != nil {
		return dst, false, err
	}
	if isReserved(key) {
		return dst, false, nil
	}
	dst, state := s.e.set.At(s.snap.ID, key, engine.Hash(key), dst)
	if state == resident.Unknown {
		s.e.coldReads.Add(1)
		return s.e.store.get(s.store, key, dst)
	}
	return dst, state == resident.Found, nil
}

func (s *snapshot) GetMany(keys [][]byte, visit func(i int, value []byte, found bool) error) error {
	for i, key := range keys {
		value, found, err := s.Get(key, s.value[:0])
		if err == nil {
			s.value = value
			err = visit(i, value, found)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (s *snapshot) Iter(lo, hi []byte, reverse bool) engine.Iterator {
	if err := s.e.usable(); err != nil {
		return &iterator{err: err}
	}
	lo, hi, ok := bound(lo, hi)
	if !ok {
		return &iterator{}
	}
	it := s.e.iterator(lo, hi, reverse)
	it.from = s.store
	s.e.set.RangeAt(&it.rows, s.snap, it.lo, it.hi, reverse)
	return it
}
