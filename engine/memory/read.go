package memory

import (
	"bytes"
	"fmt"

	"redoubt/engine"
	"redoubt/engine/local/resident"
)

// view reads the latest state and commits to it.
type view struct {
	e     *Engine
	value []byte // room for a value
	room  resident.Room
}

// keepRoom is the size up to which a view keeps its room.
const keepRoom = 1 << 20

// Close implements engine.View.
func (v *view) Close() {
	if cap(v.value) > keepRoom {
		v.value = nil
	}
	v.e.views.Put(v)
}

// Prefetch implements engine.View: it brings rows into the processor's cache.
func (v *view) Prefetch(keys [][]byte) (cold int) {
	if v.e.closed.Load() {
		return 0
	}
	v.e.set.Prefetch(keys, &v.room)
	return 0
}

// Get implements engine.Reader.
func (v *view) Get(key, dst []byte) ([]byte, bool, error) {
	if err := v.e.usable(); err != nil {
		return dst, false, err
	}
	value, state, _ := v.e.set.Get(key, engine.Hash(key), dst)
	return value, state == resident.Found, nil
}

// Peek implements engine.Peeker.
func (v *view) Peek(key, dst []byte) ([]byte, bool, error) {
	if err := v.e.usable(); err != nil {
		return dst, false, err
	}
	value, state := v.e.set.Peek(key, engine.Hash(key), dst)
	return value, state == resident.Found, nil
}

// GetMany implements engine.Reader.
func (v *view) GetMany(keys [][]byte, visit func(i int, value []byte, found bool) error) error {
	return getMany(v, &v.value, keys, visit)
}

func getMany(r engine.Reader, room *[]byte, keys [][]byte, visit func(i int, value []byte, found bool) error) error {
	for i, key := range keys {
		value, found, err := r.Get(key, (*room)[:0])
		if err == nil {
			*room = value
			err = visit(i, value, found)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// Count implements engine.Reader.
func (v *view) Count(lo, hi []byte) (n int, ok bool) { return v.e.set.Count(lo, hi) }

// Nth implements engine.Reader.
func (v *view) Nth(lo, hi []byte, n int, b []byte) (key []byte, found, ok bool) {
	return v.e.set.Nth(lo, hi, n, b)
}

// Edge implements engine.Reader.
func (v *view) Edge(lo, hi []byte, reverse bool, b []byte) (row []byte, key int, found bool, err error) {
	if row, key, found, ok := v.e.set.Edge(lo, hi, reverse, b); ok {
		return row, key, found, nil
	}
	return engine.EdgeByIter(v, lo, hi, reverse, b)
}

// Iter implements engine.Reader.
func (v *view) Iter(lo, hi []byte, reverse bool) engine.Iterator {
	it := v.e.iterator(&lo, &hi)
	if it.open {
		v.e.set.OpenRange(&it.rows, lo, hi, reverse, true, v.e.last.Load)
	}
	return it
}

// snapshot is a frozen state.
type snapshot struct {
	engine.Uncounted
	e    *Engine
	snap resident.Snapshot
}

// Snapshot implements engine.Engine.
func (e *Engine) Snapshot() (engine.Snapshot, error) {
	if err := e.usable(); err != nil {
		return nil, err
	}
	return &snapshot{e: e, snap: e.set.OpenSnapshot(e.last.Load)}, nil
}

// Close implements engine.Snapshot.
func (s *snapshot) Close() error {
	s.e.set.CloseSnapshot(s.snap)
	return nil
}

// errLost is the error of a read from a revoked snapshot.
var errLost = fmt.Errorf("%w: too much was changed while it was read", engine.ErrSnapshotLost)

// Get implements engine.Reader.
func (s *snapshot) Get(key, dst []byte) ([]byte, bool, error) {
	if err := s.e.usable(); err != nil {
		return dst, false, err
	}
	value, state := s.e.set.At(s.snap.ID, key, engine.Hash(key), dst)
	if s.snap.Lost() {
		return dst, false, errLost
	}
	return value, state == resident.Found, nil
}

// GetMany implements engine.Reader.
func (s *snapshot) GetMany(keys [][]byte, visit func(i int, value []byte, found bool) error) error {
	var room []byte // several goroutines may read a snapshot
	return getMany(s, &room, keys, visit)
}

// Edge implements engine.Reader.
func (s *snapshot) Edge(lo, hi []byte, reverse bool, b []byte) (row []byte, key int, found bool, err error) {
	return engine.EdgeByIter(s, lo, hi, reverse, b)
}

// Iter implements engine.Reader.
func (s *snapshot) Iter(lo, hi []byte, reverse bool) engine.Iterator {
	it := s.e.iterator(&lo, &hi)
	if it.open {
		it.snap = s.snap
		s.e.set.RangeAt(&it.rows, s.snap, lo, hi, reverse)
	}
	return it
}

// iterator walks over resident rows. A deleted row that a snapshot needs is left out.
type iterator struct {
	e     *Engine
	rows  resident.Range
	snap  resident.Snapshot // of which the iterator is, if it can be lost
	open  bool
	valid bool
	err   error
}

// iterator returns an iterator for a range, from which it cuts the keys of engines off. It is
// not open if the engine is closed, or if nothing is left of the range.
func (e *Engine) iterator(lo, hi *[]byte) *iterator {
	if err := e.usable(); err != nil {
		return &iterator{e: e, err: err}
	}
	if *hi == nil || string(*hi) > reserved {
		*hi = []byte(reserved)
	}
	if bytes.Compare(*lo, *hi) >= 0 {
		return &iterator{e: e}
	}
	it := e.iterators.Get().(*iterator)
	it.open = true
	return it
}

// Next implements engine.Iterator.
func (i *iterator) Next() bool {
	i.valid = false
	for i.open && i.err == nil && i.rows.Next() {
		if i.snap.Lost() {
			i.err = errLost
			return false
		}
		if _, _, deleted := i.rows.Row(); !deleted {
			i.valid = true
			return true
		}
	}
	if i.open && i.err == nil && i.snap.Lost() {
		i.err = errLost
	}
	return false
}

// Key implements engine.Iterator.
func (i *iterator) Key() []byte {
	if !i.valid {
		return nil
	}
	key, _, _ := i.rows.Row()
	return key
}

// Value implements engine.Iterator.
func (i *iterator) Value() []byte {
	if !i.valid {
		return nil
	}
	_, value, _ := i.rows.Row()
	return value
}

// Close implements engine.Iterator.
func (i *iterator) Close() error {
	err := i.err
	if i.open {
		i.rows.Close()
		*i = iterator{e: i.e, rows: i.rows}
		i.e.iterators.Put(i)
	}
	return err
}
