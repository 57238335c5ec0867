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
	e.want(key)
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
	if lo, hi = e.set.Narrow(lo, hi, reverse); bytes.Compare(lo, hi) >= 0 {
		return &iterator{}
	}
	it := e.iterator(lo, hi, reverse)
	if it.hurried = !v.wait; it.hurried && v.quick > 0 {
		e.set.OpenRange(&it.rows, it.lo, it.hi, reverse, !e.disk.hurry.never.Load(), it.freeze)
		if it.rows.Store || resident.Part(lo) != resident.Part(hi) { // else it needs memory only
			v.quick -= walkReads
		}
	} else {
		e.set.OpenRange(&it.rows, it.lo, it.hi, reverse, v.wait, it.freeze)
	}
	if it.rows.Store || it.rows.Cold {
		e.want(it.lo)
	}
	return it
}

// Count implements engine.Ranked.
func (v *view) Count(lo, hi []byte) (n int, ok bool) { return v.e.set.Count(lo, hi) }

// Nth implements engine.Ranked.
func (v *view) Nth(lo, hi []byte, n int, b []byte) (key []byte, found, ok bool) {
	return v.e.set.Nth(lo, hi, n, b)
}

// Edge implements engine.Edged. Where the store has to be asked it takes one step of an
// iterator; if that fails, whoever opens another one is told why.
func (v *view) Edge(lo, hi []byte, reverse bool, b []byte) (row []byte, key int, found, ok bool) {
	if row, key, found, ok = v.e.set.Edge(lo, hi, reverse, b); ok {
		return row, key, found, true
	}
	at := len(b)
	it := v.Iter(lo, hi, reverse)
	if found = it.Next(); found {
		key = len(it.Key())
		b = append(append(b, it.Key()...), it.Value()...)
	}
	if err := it.Close(); err != nil {
		return b[:at], 0, false, false
	}
	return b, key, found, true
}

// bound keeps a range off the engine's own rows.
func bound(lo, hi []byte) (_, _ []byte, ok bool) {
	if hi == nil || bytes.Compare(hi, reserved) > 0 {
		hi = reserved
	}
	return lo, hi, bytes.Compare(lo, hi) < 0
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
	at := len(dst)
	dst, state := s.e.set.At(s.snap.ID, key, engine.Hash(key), dst)
	found, err := state == resident.Found, error(nil)
	if state == resident.Unknown {
		s.e.coldReads.Add(1)
		dst, found, err = s.e.store.get(s.store, key, dst)
	}
	if s.snap.Lost() {
		return dst[:at], false, errLost
	}
	return dst, found, err
}

// errLost is what a read from a revoked snapshot gets.
var errLost = fmt.Errorf("%w: too much was changed while it was read", engine.ErrSnapshotLost)

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
	it.from, it.snap = s.store, s.snap
	s.e.set.RangeAt(&it.rows, s.snap, it.lo, it.hi, reverse)
	return it
}
