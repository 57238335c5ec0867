// Package sharedmem is a store in memory that several engines use at the same time,
// as processes use a distributed one: for tests of several front ends without a cluster.
//
//	store := sharedmem.New()
//	a, b := store.Open(), store.Open() // two processes
//
// It does what package engine demands of a Shared engine, and is strict where a real
// one might be lenient: a NoWait view finds every row cold, a PointRead view reads one row
// and commits nothing, a stamp that was forgotten cannot be read, and an engine cannot be
// closed while a view or snapshot of it is open.
//
// Approach: the rows lie in one engine/mem, each followed by the stamp of the commit that
// put it, which is also its version. A view is a snapshot of that engine, made together with
// a stamp under the store's lock. A commit takes the lock, compares the stamps of all rows
// that it writes or checks with its view's, and writes. Deleted rows leave their stamp in a
// map, as long as a view may ask for it.
//
// Stamps are made like those of a timestamp oracle: milliseconds above, a counter
// below, never the same twice. With a clock that stands still they just count.
package sharedmem

import (
	"encoding/binary"
	"fmt"
	"sync"
	"time"

	"redoubt/engine"
	"redoubt/engine/mem"
)

// logical is how many bits of a stamp count within a millisecond.
const logical = 18

// Store is what the engines share.
type Store struct {
	rows *mem.Engine

	mu        sync.Mutex
	clock     func() time.Time
	last      engine.Stamp // the newest stamp given
	now       time.Time    // the newest time returned
	deleted   map[string]engine.Stamp
	many      int              // how many deleted rows make prune look
	engines   map[*Engine]bool // the open ones
	forgotten engine.Stamp
}

// New makes an empty store.
func New() *Store {
	return &Store{
		rows: mem.New(), clock: time.Now,
		deleted: make(map[string]engine.Stamp), many: manyDeleted, engines: make(map[*Engine]bool),
	}
}

// SetClock gives the store another clock than the machine's. The store's time does not go
// back, whatever the clock does.
func (s *Store) SetClock(now func() time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.clock = now
}

// Open makes one more engine on the store.
func (s *Store) Open() *Engine {
	e := &Engine{store: s, reading: make(map[engine.Stamp]int)}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.engines[e] = true
	return e
}

// Forgotten returns the newest stamp that was given to Forget.
func (s *Store) Forgotten() engine.Stamp {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.forgotten
}

// StampOf returns the first stamp of a time.
func StampOf(t time.Time) engine.Stamp { return engine.Stamp(t.UnixMilli()) << logical }

// time returns the store's time. The lock is held.
func (s *Store) time() time.Time {
	if t := s.clock(); t.After(s.now) {
		s.now = t
	}
	return s.now
}

// stamp returns a stamp above all earlier ones. The lock is held.
func (s *Store) stamp() engine.Stamp {
	s.last = max(s.last+1, StampOf(s.time()))
	return s.last
}

// changed returns the stamp at which a row was put or deleted last, 0 if that is before all
// open views. The lock is held.
func (s *Store) changed(key []byte) (engine.Stamp, error) {
	value, found, err := s.rows.Get(key, nil)
	if err != nil {
		return 0, err
	}
	if found {
		_, version := split(value)
		return version, nil
	}
	return s.deleted[string(key)], nil
}

// commit writes a batch of a view with the stamp was. view reads the view's snapshot, in
// which range deletes find their rows.
func (s *Store) commit(b *engine.Batch, was engine.Stamp, before func() engine.Stamp, view engine.Reader) (engine.Ticket, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if was < s.forgotten {
		return 0, fmt.Errorf("commit of a view of moment %d: %d was forgotten", was, s.forgotten)
	}
	at := s.stamp()
	if before != nil && at >= before() {
		return 0, fmt.Errorf("commit at moment %d, too late: %w", at, engine.ErrConflict)
	}
	var w engine.Batch
	for key := range b.Checks() {
		if err := s.unchanged(key, was); err != nil {
			return 0, err
		}
	}
	var gone [][]byte
	for lo, hi := range b.Ranges() { // the rows that the view shows; hence before the others
		it := view.Iter(lo, hi, false)
		for it.Next() {
			gone = append(gone, append([]byte(nil), it.Key()...))
		}
		if err := it.Close(); err != nil {
			return 0, err
		}
	}
	for _, key := range gone {
		w.Delete(key)
	}
	var version [8]byte
	binary.BigEndian.PutUint64(version[:], uint64(at))
	for op := range b.Ops() {
		if op.Delete {
			w.Delete(op.Key)
		} else {
			w.Put2(op.Key, op.Value, version[:])
		}
	}
	for op := range w.Ops() {
		if reserved(op.Key) {
			return 0, fmt.Errorf("row % x: such keys are reserved to engines", op.Key)
		}
		if err := s.unchanged(op.Key, was); err != nil {
			return 0, err
		}
	}
	if b.Empty() {
		return 0, nil
	}
	for key, delta := range b.Counters() {
		w.Add(key, delta)
	}
	for op := range w.Ops() {
		if op.Delete {
			s.deleted[string(op.Key)] = at
		} else {
			delete(s.deleted, string(op.Key))
		}
	}
	s.prune()
	return s.rows.Commit(&w)
}

func (s *Store) unchanged(key []byte, since engine.Stamp) error {
	at, err := s.changed(key)
	if err == nil && at > since {
		err = fmt.Errorf("row % x was changed at moment %d, after %d: %w", key, at, since, engine.ErrConflict)
	}
	return err
}

// prune drops the stamps of deleted rows that no view can ask for, if there are many. The
// lock is held.
func (s *Store) prune() {
	if len(s.deleted) < s.many {
		return
	}
	oldest := s.last
	for e := range s.engines {
		oldest = min(oldest, e.oldest(s.last))
	}
	for key, at := range s.deleted {
		if at < oldest {
			delete(s.deleted, key)
		}
	}
	s.many = max(manyDeleted, 2*len(s.deleted)) // what cannot go now is not looked at all the time
}

// manyDeleted is how many deleted rows are remembered before prune looks.
const manyDeleted = 1024

// split takes a stored value apart.
func split(stored []byte) (value []byte, version engine.Stamp) {
	n := len(stored) - 8
	return stored[:n], engine.Stamp(binary.BigEndian.Uint64(stored[n:]))
}

func reserved(key []byte) bool { return len(key) >= 4 && string(key[:4]) == "\xff\xff\xff\xff" }
