package keyspace

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"sync/atomic"

	"redoubt/engine"
)

// sharedStore is a store that other processes use at the same time. What they may change is
// read from the store, or has a lease (catalog.go); and the rows on which an execution depends
// are its read set, so that its commit detects conflicts (guard.go).
type sharedStore struct {
	eng     engine.Shared
	catalog *Catalog
	groups  [Groups]sweptUntil
}

func (s *sharedStore) openAgain(err error) bool { return s.catalog.openAgain(err) }

// join writes the catalog row as it is: that conflicts with a concurrent change of the
// catalog by a process that takes itself for the only one.
func (s *sharedStore) join(r engine.Reader, b *engine.Batch) error {
	from, err := readCatalog(r)
	if err != nil {
		return err
	}
	b.Put(sysKey(sysCatalog), binary.BigEndian.AppendUint64(nil, uint64(from)))
	return nil
}

func (s *sharedStore) joined() error { return s.catalog.Renew() }

// newID takes an id from the store: its time in milliseconds << 18. That is below the ids that
// a local store makes in this century and the next three, whose rows may have been copied
// here.
func (s *sharedStore) newID(int64, *engine.Batch, *Effects) (uint64, error) {
	id, err := s.eng.NextID()
	if err != nil {
		return 0, fmt.Errorf("number a value: %w", err)
	}
	return id, nil
}

// newNumber reads the last number: processes that do so concurrently conflict.
func (s *sharedStore) newNumber(t *Tx) uint32 {
	row := sysKey(sysNextKS)
	v, found := t.sysRow(row, 4)
	if t.err == nil && !found {
		t.Fail(fmt.Errorf("%w: there is no system row % x", engine.ErrCorrupt, row))
	}
	if t.err != nil {
		return 0
	}
	return binary.BigEndian.Uint32(v) + 1
}

func (s *sharedStore) exact() bool { return false }

func (s *sharedStore) readMeta(t *Tx) { t.Rows.Batch.Check(t.rowk) }

func (s *sharedStore) opened(t *Tx, m Meta) {
	t.guards = append(t.guards, guard{id: m.Ref().ID, row: bytes.Clone(t.rowk)})
}

func (s *sharedStore) appendSweep(lo []byte, group int, now int64) []byte {
	return binary.BigEndian.AppendUint64(lo, uint64(s.groups[group].from(now)))
}

func (s *sharedStore) swept(group int, now int64) { s.groups[group].until.Store(now) }

func (s *sharedStore) unswept() {
	for i := range s.groups {
		s.groups[i].full.Store(0)
	}
}

func (s *sharedStore) changesCatalog(t *Tx) bool { return s.catalog.change(t) }

// usesCatalog counts as a read, so that the lease of the catalog is checked before the reply.
func (s *sharedStore) usesCatalog(t *Tx) { t.reads++ }

func (s *sharedStore) catalogSettled(t *Tx) bool {
	if t.err != nil {
		return false
	}
	v, found := t.sysRow(sysKey(sysCatalog), 8)
	if t.err != nil || !found {
		return t.err == nil
	}
	view, ok := t.Rows.View.(engine.SharedView)
	if !ok {
		return false
	}
	at, err := view.Stamp()
	if err != nil {
		t.Fail(fmt.Errorf("look at the catalog: %w", err))
	}
	return t.err == nil && at >= engine.Stamp(binary.BigEndian.Uint64(v))
}

// published does nothing: Catalog.Await puts the change in effect when its moment has come.
func (s *sharedStore) published(*Effects) {}

// sweptUntil is the time up to which a group has no expire rows any more. Tombstones stay in
// the store for minutes, as long as older states may be read: a read from the beginning of
// the group would scan all of them.
type sweptUntil struct {
	until atomic.Int64
	full  atomic.Int64 // when the group was last read from its beginning
}

// A long transaction may still store rows of a time that has passed, but not after
// sweptMargin. To be safe, each group is read from its beginning every sweptFull.
const (
	sweptMargin = 60_000  // milliseconds
	sweptFull   = 600_000 // milliseconds
)

// from returns the time from which on to read the group.
func (s *sweptUntil) from(now int64) int64 {
	if at := s.full.Load(); at == 0 || now-at > sweptFull || now < at {
		s.until.Store(0)
		s.full.Store(now)
	}
	return max(0, s.until.Load()-sweptMargin)
}
