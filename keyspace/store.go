package keyspace

import (
	"encoding/binary"
	"fmt"

	"redoubt/engine"
)

// store is what differs between rows of this process alone (local.go) and rows that other
// processes use too (shared.go). Another kind of store is another implementation; nothing
// else in this package asks which kind it has.
type store interface {
	// openAgain reports whether opening the store failed for a transient reason. It has then
	// waited for a retry delay.
	openAgain(err error) bool
	// join adds to the batch of the opening what tells others that this process uses the store.
	join(r engine.Reader, b *engine.Batch) error
	// joined is called when that batch is committed.
	joined() error

	// newID returns an id that was never returned before. nowMicros is the time of the
	// execution.
	newID(nowMicros int64, b *engine.Batch, e *Effects) (uint64, error)
	// newNumber returns a keyspace number that no database ever had. If it fails, t has failed.
	newNumber(t *Tx) uint32
	// exact reports whether the engine's counters are exact. If not, each is a sum of what
	// processes stored at different times, and may even be negative for a while.
	exact() bool

	// readMeta is called after the meta row in t.rowk was read.
	readMeta(t *Tx)
	// opened is called after readMeta if the meta row, m, is that of an external value.
	opened(t *Tx, m Meta)

	// appendSweep completes lo, the prefix of a group's expire rows, to the key from which on
	// the group may have rows.
	appendSweep(lo []byte, group int, now int64) []byte
	// swept is called when a group has no expire row up to now.
	swept(group int, now int64)

	// unswept is called after expire rows of any time may have been stored that nobody swept.
	unswept()

	// changesCatalog is called before t changes numbers of databases, or libraries. If it
	// reports false, t has failed. The whole keyspace is latched.
	changesCatalog(t *Tx) bool
	// usesCatalog is called when the execution depends on the libraries in use.
	usesCatalog(t *Tx)
	// catalogSettled reports whether all changes of the catalog are in effect, so that no
	// process writes to a flushed keyspace any more. The execution then sees all that was
	// written there.
	catalogSettled(t *Tx) bool
	// published puts the catalog changes of a committed batch in effect.
	published(e *Effects)
}

// newStore makes the store of a space.
func newStore(s *Space) store {
	if s.eng.Capabilities().Shared {
		s.catalog = newCatalog(s, s.eng.(engine.Shared))
		return &sharedStore{eng: s.catalog.eng, catalog: s.catalog}
	}
	return localStore{s}
}

// sysRow reads a system row of a known size. found is false if there is none, or if t has
// failed.
func (t *Tx) sysRow(row []byte, size int) (v []byte, found bool) {
	v, found = t.GetRow(row)
	if t.err == nil && found && len(v) != size {
		t.Fail(fmt.Errorf("%w: system row % x has %d bytes", engine.ErrCorrupt, row, len(v)))
	}
	return v, found && t.err == nil
}

// appendNumber appends a keyspace number as it is stored.
func appendNumber(b []byte, ks uint32) []byte { return binary.BigEndian.AppendUint32(b, ks) }
