package keyspace

import (
	"encoding/binary"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"redoubt/engine"
)

// Loading a data set. The data is written into keyspaces that no database has yet, so it is
// invisible, and the databases keep what they have. At the end one commit gives the new
// keyspaces to the databases (Install). Until then they are marked as dead, as after FLUSHALL:
// if the process dies, background clearing deletes what it has written. A load into a store that
// is served protects its numbers from the clearing of this process (Space.Protect); that of
// another process of a shared store ends the load (Tx.Loads).

// loading are the keyspace numbers of the load under way.
type loading struct {
	mu      sync.Mutex
	numbers map[uint32]bool
}

// Protect keeps background clearing away from a keyspace number until Unprotect.
func (s *Space) Protect(ks uint32) {
	s.loading.mu.Lock()
	defer s.loading.mu.Unlock()
	if s.loading.numbers == nil {
		s.loading.numbers = make(map[uint32]bool)
	}
	s.loading.numbers[ks] = true
}

// Unprotect ends the protection of all numbers.
func (s *Space) Unprotect() {
	s.loading.mu.Lock()
	defer s.loading.mu.Unlock()
	clear(s.loading.numbers)
}

func (s *Space) protected(ks uint32) bool {
	s.loading.mu.Lock()
	defer s.loading.mu.Unlock()
	return s.loading.numbers[ks]
}

// ErrCleared: another process has cleared the keyspaces of a load.
var ErrCleared = errors.New("another process has cleared what was loaded")

// Loads fails unless numbers, but for zeros, are still marked as those of a load. The marks
// are added to the read set of the commit.
func (t *Tx) Loads(numbers []uint32) {
	for _, ks := range numbers {
		if ks == 0 || t.err != nil {
			continue
		}
		row := appendSysKey32(nil, sysDead, ks)
		t.Rows.Batch.Check(row)
		if _, found := t.GetRow(row); !found {
			t.Fail(ErrCleared)
		}
	}
}

// NewNumber allocates a keyspace number for a load. The whole keyspace must be latched.
func (t *Tx) NewNumber() (ks uint32) {
	if !t.writable() {
		return 0
	}
	if ks = t.allocate(); t.err == nil {
		t.Rows.Batch.Put(appendSysKey32(nil, sysDead, ks), nil)
	}
	return ks
}

// allocate allocates a keyspace number and stores it as the last one. If it fails, t has
// failed.
func (t *Tx) allocate() (ks uint32) {
	if ks = t.Space.store.newNumber(t); t.err == nil {
		t.Rows.Batch.Put(sysKey(sysNextKS), appendNumber(nil, ks))
	}
	return ks
}

// Install gives each database the keyspace that NewNumber made for it; 0 stands for an empty
// one. The old keyspaces are left to background clearing. The new data is at no place in the
// stream of a master: SetPosition may say otherwise. The whole keyspace must be latched.
func (t *Tx) Install(numbers []uint32) {
	t.FX.Flushed = true
	if !t.writable() || !t.Space.store.changesCatalog(t) {
		return
	}
	t.SetPosition(nil)
	for db := range t.Space.dbs {
		old, ks := t.Space.dbs[db].Load(), uint32(0)
		if db < len(numbers) {
			ks = numbers[db]
		}
		switch {
		case ks != 0:
			t.Rows.Batch.Delete(appendSysKey32(nil, sysDead, ks))
		case t.Space.store.exact() && t.sizeOf(old) == 0:
			continue
		default:
			if ks = t.allocate(); t.err != nil {
				return
			}
		}
		t.FX.Garbage++
		t.Rows.Batch.Put(appendSysKey32(nil, sysDead, old), nil)
		t.assign(db, ks)
		t.AwakenAll(db)
		t.touchAll(db)
	}
}

// Databases returns how many databases a store has: one more than the highest that has a
// keyspace number.
func Databases(r engine.Reader) (n int, err error) {
	err = eachDatabase(r, func(db int, _ uint32) { n = max(n, db+1) })
	return n, err
}

func eachDatabase(r engine.Reader, visit func(db int, ks uint32)) (err error) {
	it := r.Iter(sysKey(sysDatabase), sysKey(sysDatabase+1), false)
	for err == nil && it.Next() {
		if len(it.Key()) != 4 || len(it.Value()) != 4 {
			err = fmt.Errorf("%w: system row % x has %d bytes", engine.ErrCorrupt, it.Key(), len(it.Value()))
			break
		}
		visit(int(binary.BigEndian.Uint16(it.Key()[2:])), binary.BigEndian.Uint32(it.Value()))
	}
	if err = errors.Join(err, it.Close()); err != nil {
		return fmt.Errorf("read the databases: %w", err)
	}
	return nil
}

// OpenFrozen opens one state of a store for read-only executions. c are the capabilities of
// its engine.
func OpenFrozen(r engine.Reader, c engine.Capabilities) (*Space, error) {
	if err := Readable(r); err != nil {
		return nil, err
	}
	n, err := Databases(r)
	if err != nil {
		return nil, err
	}
	c.Shared = false
	s := &Space{eng: frozenEngine{c: c}}
	s.store = localStore{s}
	s.dbs = make([]atomic.Uint32, n)
	return s, eachDatabase(r, func(db int, ks uint32) { s.dbs[db].Store(ks) })
}

// frozenEngine is the engine of one state; executions use only its Capabilities.
type frozenEngine struct {
	engine.Engine
	c engine.Capabilities
}

func (e frozenEngine) Capabilities() engine.Capabilities { return e.c }

// ReadLibraries returns all libraries of one state of a store, by name.
func ReadLibraries(r engine.Reader) ([]LibraryChange, error) { return readLibraries(r) }
