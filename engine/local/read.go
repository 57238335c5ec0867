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
	e          *Engine
	g          *generation // pinned
	epoch      uint64      // the log's, read before the generation was pinned
	wait       bool
	record     []byte // room for a journal record
	value      []byte // room for a value
	room       resident.Room
	hits       int64
	noWaitLeft int // how many more no-wait reads the view may make
}

// noWaitReads is how many cold rows a NoWait view may read; a command that needs more is run
// by a worker. An iterator counts as walkReads reads.
const (
	noWaitReads = 64
	walkReads   = 4
)

func (v *view) Close() {
	if cap(v.value) > keepRecord {
		v.value = nil
	}
	if v.hits > 0 {
		v.e.hits.Add(v.hits)
		v.hits = 0
	}
	v.g.unpin()
	v.g = nil
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
	value, state, token := v.g.set.Get(key, hash, dst)
	switch {
	case state != resident.Unknown:
		v.hits++
		return value, state == resident.Found, nil
	case !v.wait:
		return v.getNoWait(key, hash, dst, token)
	}
	return e.fetch(v.g, key, hash, dst, token)
}

// getNoWait is fetch that fails with ErrCold where it would have to wait.
func (v *view) getNoWait(key []byte, hash uint64, dst []byte, token uint64) ([]byte, bool, error) {
	h := &v.e.disk.noWait
	if v.noWaitLeft <= 0 {
		return dst, false, engine.ErrCold
	}
	place, ok := h.enter()
	if !ok {
		return dst, false, engine.ErrCold
	}
	v.noWaitLeft--
	value, found, err := v.e.fetch(v.g, key, hash, dst, token)
	waits := errors.Is(err, errWouldWait)
	h.leave(place, waits)
	if waits {
		return dst, false, engine.ErrCold
	}
	v.e.noWaitReads.Add(1)
	return value, found, err
}

// fetch reads a cold row from the store and makes it resident.
func (e *Engine) fetch(g *generation, key []byte, hash uint64, dst []byte, token uint64) ([]byte, bool, error) {
	e.coldReads.Add(1)
	e.requestFill(g, key)
	at := len(dst)
	dst, found, err := e.store.get(e.store.db, key, dst)
	if err != nil {
		return dst[:at], false, err
	}
	limit, taken := e.rowLimit.Load(), g.set.Bytes()
	if taken > limit {
		wake(e.evictor)
	}
	if taken > limit+limit/8 {
		return dst, found, nil // readers are faster than eviction: the row is not made resident
	}
	if err := g.set.Load(key, hash, dst[at:], found, token); err != nil {
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
	set := v.g.set
	if lo, hi = set.Narrow(lo, hi, reverse); bytes.Compare(lo, hi) >= 0 {
		return &iterator{}
	}
	it := e.iterator(v.g, lo, hi, reverse)
	if it.noWait = !v.wait; it.noWait && v.noWaitLeft > 0 {
		set.OpenRange(&it.rows, it.lo, it.hi, reverse, !e.disk.noWait.never.Load(), it.freeze)
		if it.rows.Store || resident.Part(lo) != resident.Part(hi) { // else the walk needs memory only
			v.noWaitLeft -= walkReads
		}
	} else {
		set.OpenRange(&it.rows, it.lo, it.hi, reverse, v.wait, it.freeze)
	}
	if it.rows.Store || it.rows.Cold {
		e.requestFill(v.g, it.lo)
	}
	return it
}

// Count implements engine.Reader.
func (v *view) Count(lo, hi []byte) (n int, ok bool) { return v.g.set.Count(lo, hi) }

// Nth implements engine.Reader.
func (v *view) Nth(lo, hi []byte, n int, b []byte) (key []byte, found, ok bool) {
	return v.g.set.Nth(lo, hi, n, b)
}

// Edge implements engine.Reader. If it needs the store it takes one step of an iterator.
func (v *view) Edge(lo, hi []byte, reverse bool, b []byte) (row []byte, key int, found bool, err error) {
	if row, key, found, ok := v.g.set.Edge(lo, hi, reverse, b); ok {
		return row, key, found, nil
	}
	return engine.EdgeByIter(v, lo, hi, reverse, b)
}

// bound cuts the engine's own rows off a range. ok is false if nothing is left.
func bound(lo, hi []byte) (_, _ []byte, ok bool) {
	if hi == nil || bytes.Compare(hi, reserved) > 0 {
		hi = reserved
	}
	return lo, hi, bytes.Compare(lo, hi) < 0
}

// snapshot is a frozen state: the resident set by its undo, the store by Pebble's snapshot.
type snapshot struct {
	engine.Uncounted
	e     *Engine
	g     *generation // pinned
	snap  resident.Snapshot
	store *lsm.Snapshot
	value []byte
}

// Snapshot implements engine.Engine.
func (e *Engine) Snapshot() (engine.Snapshot, error) {
	if err := e.usable(); err != nil {
		return nil, err
	}
	s := &snapshot{e: e, g: e.pin()}
	s.snap = s.g.set.OpenSnapshot(func() uint64 {
		base := e.checkpoint.Load()
		s.store = e.store.db.NewSnapshot()
		return base
	})
	return s, nil
}

func (s *snapshot) Close() error {
	s.g.set.CloseSnapshot(s.snap)
	s.g.unpin()
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
	dst, state := s.g.set.At(s.snap.ID, key, engine.Hash(key), dst)
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

// errLost is the error of a read from a revoked snapshot.
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

func (s *snapshot) Edge(lo, hi []byte, reverse bool, b []byte) (row []byte, key int, found bool, err error) {
	return engine.EdgeByIter(s, lo, hi, reverse, b)
}

func (s *snapshot) Iter(lo, hi []byte, reverse bool) engine.Iterator {
	if err := s.e.usable(); err != nil {
		return &iterator{err: err}
	}
	lo, hi, ok := bound(lo, hi)
	if !ok {
		return &iterator{}
	}
	it := s.e.iterator(s.g, lo, hi, reverse)
	it.from, it.snap = s.store, s.snap
	s.g.set.RangeAt(&it.rows, s.snap, it.lo, it.hi, reverse)
	return it
}
